/* test_dropout.c: Philox of 7 rounds against the known answers published with it (Random123, kat_vectors);
 * std::minstd_rand0 against the number that C++'s standard names; Dropout
 * against its definition: the threshold of every ratio, the same mask for any number of threads, size and place; and
 * the statistics of what is drawn: all values alike, the right share kept, nothing that one element, node, step or seed
 * tells of another. */
#include "test/unit/kernel_test.h"
#include "kernels/reference/reference.h"
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_math.h"

TEST(known_answers) {
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t out[4];
        tk_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

/* The same answers as elements: in pairs of a word, its low half first. */
TEST(halves) {
    static const uint16_t known[8] = {0xb709, 0x5f6f, 0x3f64, 0x0d89, 0x1f81, 0x4f12, 0x0a48, 0x4f73};
    const tk_draw draw = {0, 0, 0};
    uint32_t words[4];
    uint8_t kept[8];
    tk_draw_block(&draw, 0, words);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(tk_draw_half(words, i), known[i]);
        tk_dropout_keep(kept, 0, 8, known[i], &draw);
        for (int k = 0; k < 8; k++)
            assert_int_equal(kept[k], known[k] >= known[i]);
        tk_dropout_keep(kept, 0, 8, known[i] + 1u, &draw);
        assert_int_equal(kept[i], 0);
    }
}

TEST(thresholds) {
    const double u = 0x1p-16;
    const struct {
        double ratio;
        uint32_t threshold;
    } cases[] = {
        {0, 0},
        {-0.0, 0},
        {5e-324, 1},
        {1e-9, 1},
        {0.5 * u, 1},
        {1.5 * u, 2},
        {nextafter(1.5 * u, 0), 1},
        {2.5 * u, 2},
        {nextafter(2.5 * u, 1), 3},
        {0.1, 6554},
        {0.1f, 6554},
        {0.3, 19661},
        {0.5, 32768},
        {0.9, 58982},
        {65534.5 * u, 65534},
        {nextafter(65534.5 * u, 1), 65535},
        {65535 * u, 65535},
        {65535.5 * u, 65535},
        {1 - 1e-9, 65535},
        {nextafter(1, 0), 65535},
        {NAN, 0}, /* refused before, but no undefined behaviour */
        {-1, 0},
        {INFINITY, 65535},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(tk_drop_threshold(cases[i].ratio), cases[i].threshold);
    for (double ratio = 1e-5; ratio < 1; ratio += 0.7e-5) {
        double nearest = rint(ratio * 65536);
        assert_true(tk_drop_threshold(ratio) == fmin(fmax(nearest, 1), 65535));
    }
}

TEST(masks) {
    static const int64_t sizes[] = {0, 1, 5, 7, 8, 9, 127, 128, 129, 511, 512, 513, 30001};
    const tk_draw draws[] = {{UINT64_C(0x123456789abcdef0), 7, 3, 0}, {5, 7, 3, 1000}};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const tk_draw draw = draws[i % 2];
        int64_t n = sizes[i / 2];
        size_t bytes = (size_t)n * sizeof(float);
        float *inp = alloc_guarded(bytes, 4), *out = alloc_guarded(bytes, 8), *ref = alloc_guarded(bytes, 0);
        uint8_t *mask = alloc_guarded((size_t)n, 1), *ref_mask = alloc_guarded((size_t)n, 0);
        fill_f32(inp, n, 1);
        use_threads(2);
        assert_int_equal(FAULT_OF(tk_dropout(queue(), out, mask, inp, n, number(0.3), seed_of(&draw), NULL, TK_F32)),
                         TK_OK);
        tk_reference_dropout(queue(), ref, ref_mask, inp, n, number(0.3), seed_of(&draw), NULL, TK_F32);
        for (int64_t k = 0; k < n; k++)
            ref[k] = ref_mask[k] ? inp[k] / (float)(1 - 0.3) : 0;
        assert_memory_equal(out, ref, bytes);
        assert_memory_equal(mask, ref_mask, (size_t)n);
        use_threads(1);
        assert_int_equal(FAULT_OF(tk_dropout(queue(), inp, NULL, inp, n, number(0.3), seed_of(&draw), NULL, TK_F32)),
                         TK_OK); /* in place */
        assert_memory_equal(inp, ref, bytes);
        free_guarded(inp, bytes), free_guarded(out, bytes), free_guarded(ref, bytes);
        free_guarded(mask, (size_t)n), free_guarded(ref_mask, (size_t)n);
    }
}

/* |z| of a share of n draws, each with that chance. */
static double score(double hits, double chance, double n) {
    return fabs(hits / n - chance) / sqrt(chance * (1 - chance) / n);
}

enum { N = 1 << 22 };
static const tk_draw first_draw = {1, 0, 0};
/* Of another node, other steps, other seeds. */
static const tk_draw other_draws[] = {
    {1, 1, 0}, {1, 0, 1}, {1, 0, UINT64_C(1) << 32}, {2, 0, 0}, {UINT64_C(1) << 32 | 1, 0, 0}};
enum { OTHERS = sizeof other_draws / sizeof other_draws[0] };

/* The 16 bits of n elements, by the definition. */
static void draw_numbers(uint16_t *x, int n, const tk_draw *draw) {
    for (int i = 0; i < n; i += 8) {
        uint32_t words[4];
        tk_draw_block(draw, (uint64_t)i / 8, words);
        for (int k = 0; k < 8; k++)
            x[i + k] = (uint16_t)tk_draw_half(words, k);
    }
}

/* Whether x[i], i = begin, begin + step, ... below n, takes each of `cells` values about as often: 65536 / cells
 * neighbours count as one. Chi-square has cells - 1 for its mean and twice that for its variance. */
static void expect_even(const uint16_t *x, int begin, int step, int shift, int cells) {
    static double hits[65536];
    double expected = (double)N / step / cells, chi_square = 0;
    for (int c = 0; c < cells; c++)
        hits[c] = 0;
    for (int i = begin; i < N; i += step)
        hits[(x[i] >> shift) & (cells - 1)]++;
    for (int c = 0; c < cells; c++)
        chi_square += (hits[c] - expected) * (hits[c] - expected) / expected;
    assert_true(fabs(chi_square - (cells - 1)) < 4.5 * sqrt(2.0 * (cells - 1)));
}

TEST(values) {
    static uint16_t x[N];
    draw_numbers(x, N, &first_draw);
    expect_even(x, 0, 1, 0, 65536);
    for (int place = 0; place < 8; place++) { /* in a block */
        expect_even(x, place, 8, 8, 256);
        expect_even(x, place, 8, 0, 256);
        expect_even(x, place, 8, 4, 4096);
    }
}

/* Whether x[i + lag] and y[i], i = begin, begin + step, ..., know of each other: covariance of uniform numbers in
 * standard errors, a variance of 1 / 12 each. */
static void expect_apart(const uint16_t *x, const uint16_t *y, int begin, int step, int lag) {
    double sum = 0, n = 0;
    for (int i = begin; i + lag < N; i += step, n++)
        sum += ((x[i + lag] + 0.5) / 65536 - 0.5) * ((y[i] + 0.5) / 65536 - 0.5);
    assert_true(fabs(sum * 12 / sqrt(n)) < 4.5);
}

TEST(correlations) {
    static uint16_t x[N], y[N];
    static const int lags[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 64, 128, 512, 768, 1024};
    draw_numbers(x, N, &first_draw);
    for (size_t i = 0; i < sizeof lags / sizeof lags[0]; i++)
        expect_apart(x, x, 0, 1, lags[i]);
    for (int place = 0; place < 8; place++) /* halves of a word, and lanes of a block */
        for (int lag = 1; place + lag < 8; lag++)
            expect_apart(x, x, place, 8, lag);
    for (int o = 0; o < OTHERS; o++) {
        draw_numbers(y, N, &other_draws[o]);
        for (int lag = 0; lag <= 8; lag++)
            expect_apart(x, y, 0, 1, lag);
    }
}

/* The share kept, and how often two masks agree: of two nodes, two steps, two seeds, and of an element and its
 * neighbour. */
TEST(shares) {
    static uint8_t mask[N + 1], other[N];
    static const struct {
        double ratio, threshold;
    } cases[] = {{1e-9, 1},    {1e-4, 7},    {0.05, 3277},   {0.1, 6554},      {0.2, 13107},
                 {0.5, 32768}, {0.9, 58982}, {0.999, 65470}, {1 - 1e-9, 65535}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double p = cases[i].threshold / 65536, kept = 0, pairs = 0, agree = p * p + (1 - p) * (1 - p);
        uint32_t threshold = tk_drop_threshold(cases[i].ratio);
        tk_dropout_keep(mask, 0, N + 1, threshold, &first_draw);
        for (int k = 0; k < N; k++) {
            kept += mask[k];
            pairs += mask[k] == mask[k + 1];
        }
        assert_true(score(kept, 1 - p, N) < 4.5);
        assert_true(fabs(pairs / N - agree) < 4.5 * sqrt(2 * agree * (1 - agree) / N)); /* pairs overlap */
        for (int o = 0; o < OTHERS; o++) {
            double equal = 0;
            tk_dropout_keep(other, 0, N, threshold, &other_draws[o]);
            for (int k = 0; k < N; k++)
                equal += mask[k] == other[k];
            assert_true(score(equal, agree, N) < 4.5);
        }
    }
}

/* Any stretch of the draw, wherever it begins, also beyond 2^32 blocks; and the gradient with the mask at hand. */
static void stretches_of(tk_draw draw) {
    enum { MANY = 3000 };
    static uint8_t all[MANY], part[MANY];
    static const int64_t starts[] = {0, INT64_C(1) << 36};
    for (int s = 0; s < 2; s++) {
        tk_dropout_keep(all, starts[s], MANY, 26214, &draw);
        for (int64_t at = 0, n = 1; at + n <= MANY; at += n, n = n * 3 % 1021) {
            tk_dropout_keep(part, starts[s] + at, n, 26214, &draw);
            assert_memory_equal(part, all + at, (size_t)n);
        }
    }
    float *x = alloc_guarded(MANY * 4, 4), *y = alloc_guarded(MANY * 4, 0), *again = alloc_guarded(MANY * 4, 8);
    fill_f32(x, MANY, 6);
    for (int threads = 1; threads <= 3; threads++) {
        use_threads(threads);
        assert_int_equal(FAULT_OF(tk_dropout(queue(), y, all, x, MANY, number(0.4), seed_of(&draw), NULL, TK_F32)),
                         TK_OK);
        assert_int_equal(FAULT_OF(tk_dropout_grad(queue(), again, x, all, MANY, number(0.4), TK_F32)), TK_OK);
        assert_memory_equal(y, again, MANY * 4);
    }
    assert_int_equal(FAULT_OF(tk_dropout_grad(queue(), again, x, all, MANY, number(1), TK_F32)), TK_BAD_VALUE);
    free_guarded(x, MANY * 4), free_guarded(y, MANY * 4), free_guarded(again, MANY * 4);
}

TEST(stretches) {
    stretches_of((tk_draw){UINT64_C(0xfeedface12345678), 3, 9, 0});
    stretches_of((tk_draw){0, 0, 0, 77});
}

TEST(minstd) {
    const uint32_t tenthousandth = 1043618065; /* of seed 1: ISO C++, [rand.predef] */
    uint32_t x = tk_minstd_seeded(1);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(tk_minstd_skip(1, (uint64_t)i), x);
        x = tk_minstd_product(x, TK_MINSTD_FACTOR);
    }
    assert_int_equal(x, tenthousandth);
    assert_int_equal(tk_minstd_skip(x, UINT64_C(2147483646) * 4294967291u), x); /* periods */
    assert_int_equal(tk_minstd_seeded(0), 1);
    assert_int_equal(tk_minstd_seeded(2147483647), 1);
    assert_int_equal(tk_minstd_seeded(UINT64_C(2147483647) * 3 + 2), 2);
}

/* What an element of state x is compared with, at both sides of the threshold. */
TEST(minstd_thresholds) {
    const double ratios[] = {0,   1e-45, 1e-30,         1e-9, 0x1p-31, 0x1p-30, 0.1,         0.25,
                             0.3, 0.5,   0.5 + 0x1p-24, 0.75, 0.9,     0.99,    1 - 0x1p-23, 1 - 0x1p-24};
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
        const uint32_t threshold = tk_minstd_threshold(ratios[i]);
        const uint32_t last = 2147483645, from = threshold > 200 ? threshold - 200 : 0;
        for (uint32_t u = from; u < threshold + 200 && u <= last; u++)
            assert_int_equal(tk_is_kept_minstd(u + 1, threshold), (float)u / 2147483646.0f >= (float)ratios[i]);
    }
    const double none[] = {NAN, -1, 1, 2, INFINITY};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(tk_minstd_threshold(none[i]), 0);
}

TEST(ratios) {
    const tk_draw draw = {0, 0, 0};
    const float x[] = {1, 2, 3};
    float y[3];
    assert_int_equal(FAULT_OF(tk_dropout(queue(), y, NULL, x, 3, number(0), seed_of(&draw), NULL, TK_F32)), TK_OK);
    assert_memory_equal(x, y, sizeof x);
    uint8_t mask[3]; /* what little is kept is divided by what is above 0 in float, too */
    assert_int_equal(FAULT_OF(tk_dropout_grad(queue(), y, x, (const uint8_t[]){1, 0, 1}, 3, number(1 - 1e-9), TK_F32)),
                     TK_OK);
    assert_true(fabs(y[0] * 1e-9 - 1) < 1e-6 && y[1] == 0 && fabs(y[2] * 1e-9 - 3) < 1e-6);
    assert_int_equal(FAULT_OF(tk_dropout(queue(), y, mask, x, 3, number(1e-9), seed_of(&draw), NULL, TK_F32)), TK_OK);
    assert_memory_equal(x, y, sizeof x);
    assert_int_equal(FAULT_OF(tk_dropout(queue(), y, NULL, x, 3, number(1), seed_of(&draw), NULL, TK_F32)),
                     TK_BAD_VALUE);
    assert_int_equal(FAULT_OF(tk_dropout(queue(), y, NULL, x, 3, number(-0.1), seed_of(&draw), NULL, TK_F32)),
                     TK_BAD_VALUE);
    assert_int_equal(FAULT_OF(tk_dropout(queue(), y, NULL, x, 3, number(NAN), seed_of(&draw), NULL, TK_F32)),
                     TK_BAD_VALUE);
}

/* Bit i % 8 of byte i / 8 is element i, whatever lies behind the last one, on any number of threads. */
TEST(bits) {
    static const int64_t sizes[] = {0, 1, 7, 8, 9, 64, 1000, 8 * 16384 * 3 + 5};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int64_t n = sizes[s];
        uint8_t *mask = alloc_guarded((size_t)n, 0), *packed = alloc_guarded((size_t)(n + 7) / 8, 0),
                *again = alloc_guarded((size_t)n, 0);
        for (int64_t i = 0; i < n; i++)
            mask[i] = i * i % 7 < 3;
        for (int threads = 1; threads <= 3; threads++) {
            use_threads(threads);
            memset(packed, 0xff, (size_t)(n + 7) / 8);
            tk_pack_bits(queue(), packed, mask, n);
            for (int64_t i = 0; i < (n + 7) / 8 * 8; i++)
                assert_int_equal(packed[i / 8] >> i % 8 & 1, i < n && i * i % 7 < 3);
            memset(again, 0xff, (size_t)n);
            tk_unpack_bits(queue(), again, packed, n);
            assert_memory_equal(again, mask, (size_t)n);
        }
        free_guarded(mask, (size_t)n), free_guarded(packed, (size_t)(n + 7) / 8), free_guarded(again, (size_t)n);
    }
}
