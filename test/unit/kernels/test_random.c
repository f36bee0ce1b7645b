/* test_random.c: random numbers against their definition by Philox (held against published answers in test_dropout.c),
 * and their statistics: the same bits for any number of threads and type, never the upper end, the right moments. */
#include "test/unit/kernel_test.h"
#include "kernels/create/create.h"

static uint32_t word_of(const tk_draw *draw, int64_t word) {
    uint32_t words[4];
    tk_draw_block(draw, (uint64_t)word / 4, words);
    return words[word % 4];
}

static void expect_uniform(tk_dtype dtype, int64_t n, const tk_draw *draw, int bits) {
    size_t bytes = (size_t)n * tk_size(dtype);
    void *out = alloc_guarded(bytes, 0), *again = alloc_guarded(bytes, tk_size(dtype));
    for (int threads = 1; threads <= 3; threads++) {
        use_threads(threads);
        void *to = threads == 1 ? out : again;
        assert_int_equal(FAULT_OF(tk_random_uniform(queue(), to, n, 0, 1, seed_of(draw), dtype)), TK_OK);
        assert_memory_equal(out, to, bytes);
    }
    for (int64_t i = 0; i < n; i++) {
        double u = (double)(word_of(draw, i) >> (32 - bits)) / (double)(1 << bits);
        assert_true(tk_get(out, dtype, i) == u && u < 1);
    }
    free_guarded(out, bytes), free_guarded(again, bytes);
}

TEST(uniform) {
    static const int64_t sizes[] = {0, 1, 5, 255, 256, 257, 30001};
    const tk_draw draw = {UINT64_C(0x123456789abcdef0), UINT32_C(0x80000007), 3};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        expect_uniform(TK_F32, sizes[i], &draw, 24);
        expect_uniform(TK_F64, sizes[i], &draw, 24);
        expect_uniform(TK_F16, sizes[i], &draw, 11);
        expect_uniform(TK_BF16, sizes[i], &draw, 8);
    }
}

/* Two words for an element; rounded once to float, as double the libraries' last digits apart. */
TEST(normal) {
    enum { N = 30001 };
    static const tk_dtype types[] = {TK_F32, TK_F64, TK_F16, TK_BF16};
    static const double near[] = {1e-6, 1e-14, 2e-3, 2e-2};
    const tk_draw draw = {5, UINT32_C(0x80000000), UINT64_C(1) << 33};
    for (int t = 0; t < 4; t++) {
        size_t bytes = N * tk_size(types[t]);
        void *out = alloc_guarded(bytes, 0), *again = alloc_guarded(bytes, 8);
        for (int threads = 1; threads <= 3; threads++) {
            use_threads(threads);
            void *to = threads == 1 ? out : again;
            assert_int_equal(FAULT_OF(tk_random_normal(queue(), to, N, 2, 3, seed_of(&draw), types[t])), TK_OK);
            assert_memory_equal(out, to, bytes);
        }
        for (int64_t i = 0; i < N; i++) {
            double u = (double)(word_of(&draw, 2 * i) >> 8) / 0x1p24,
                   v = (double)(word_of(&draw, 2 * i + 1) >> 8) / 0x1p24,
                   z = sqrt(-2 * log1p(-u)) * sin(2 * acos(-1) * (v + 0.25));
            assert_true(fabs(tk_get(out, types[t], i) - (2 + 3 * z)) <= near[t] * (5 + 3 * fabs(z)));
        }
        free_guarded(out, bytes), free_guarded(again, bytes);
    }
}

/* Means of the first powers within 4.5 standard errors, each number's neighbour and another node's number apart. */
static void expect_moments(const float *x, const float *other, int64_t n, const double moments[4]) {
    double sums[4] = {0}, next = 0, beside = 0;
    for (int64_t i = 0; i < n; i++) {
        double power = 1;
        for (int k = 0; k < 4; k++)
            sums[k] += power *= x[i];
        next += (x[i] - moments[0]) * (x[(i + 1) % n] - moments[0]);
        beside += (x[i] - moments[0]) * (other[i] - moments[0]);
    }
    double variance = moments[1] - moments[0] * moments[0], error = 4.5 / sqrt((double)n);
    assert_true(fabs(sums[0] / (double)n - moments[0]) < error * sqrt(variance));
    assert_true(fabs(sums[1] / (double)n - moments[1]) < error * sqrt(moments[3] - moments[1] * moments[1]));
    assert_true(fabs(sums[2] / (double)n - moments[2]) < error * 4);  /* of x^3: sqrt(15) at most */
    assert_true(fabs(sums[3] / (double)n - moments[3]) < error * 10); /* of x^4: sqrt(96) */
    assert_true(fabs(next / (double)n) < error * variance);
    assert_true(fabs(beside / (double)n) < error * variance);
}

TEST(statistics) {
    enum { N = 1 << 21 };
    static float x[N], other[N];
    static const double of_uniform[] = {1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5}, of_normal[] = {0, 1, 0, 3};
    const tk_draw draw = {1, UINT32_C(0x80000000), 0}, next = {1, UINT32_C(0x80000001), 0},
                  later = {1, UINT32_C(0x80000000), 1};
    use_threads(2);
    tk_random_uniform(queue(), x, N, 0, 1, seed_of(&draw), TK_F32);
    tk_random_uniform(queue(), other, N, 0, 1, seed_of(&next), TK_F32);
    expect_moments(x, other, N, of_uniform);
    double share = 0;
    for (int i = 0; i < N; i++)
        share += x[i] < 0.9f;
    assert_true(fabs(share / N - 0.9) < 4.5 * sqrt(0.09 / N));
    tk_random_normal(queue(), x, N, 0, 1, seed_of(&draw), TK_F32);
    tk_random_normal(queue(), other, N, 0, 1, seed_of(&later), TK_F32);
    expect_moments(x, other, N, of_normal);
    share = 0;
    for (int i = 0; i < N; i++)
        share += x[i] < 1;
    assert_true(fabs(share / N - 0.8413447460685429) < 4.5 * sqrt(0.1335 / N));
}

TEST(ranges) {
    enum { N = 3000 };
    static float x[N];
    const tk_draw draw = {9, 0, 0};
    tk_random_uniform(queue(), x, N, -2.5f, 1.5f, seed_of(&draw), TK_F32);
    for (int i = 0; i < N; i++)
        assert_true(x[i] == -2.5f + (float)(word_of(&draw, i) >> 8) * 0x1p-24f * 4.0f);
}
