/* test_dropout.c: Philox against the known answers published with it (Random123, kat_vectors), and Dropout against its
 * definition: the same mask for any number of threads, size and place, and the right share kept. */
#include "kernel_test.h"
#include "kernels/dropout/dropout.h"

static void known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t out[4];
        tk_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

static void masks(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 5, 255, 256, 257, 30001};
    const tk_draw draw = {UINT64_C(0x123456789abcdef0), 7, 3};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t n = sizes[i];
        size_t bytes = (size_t)n * sizeof(float);
        float *inp = alloc_guarded(bytes, 4), *out = alloc_guarded(bytes, 8), *ref = alloc_guarded(bytes, 0);
        uint8_t *mask = alloc_guarded((size_t)n, 1), *ref_mask = alloc_guarded((size_t)n, 0);
        fill_f32(inp, n, 1);
        use_threads(2);
        assert_int_equal(FAULT_OF(tk_dropout(queue(), out, mask, inp, n, number(0.3), seed_of(&draw), NULL, TK_F32)),
                         TK_OK);
        assert_int_equal(tk_dropout_ref(ref, ref_mask, inp, n, 0.3, &draw, TK_F32), TK_OK);
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

/* The share kept, and how often two masks agree: of two nodes, two steps, two seeds, and of an element and its
 * neighbour. */
static void statistics(void **state) {
    (void)state;
    enum { N = 1 << 21 };
    static uint8_t mask[N + 1], other[N];
    static const double chances[] = {0.05, 0.1, 0.2, 0.5, 0.9};
    const tk_draw draw = {1, 0, 0},
                  others[] = {
                      {1, 1, 0}, {1, 0, 1}, {1, 0, UINT64_C(1) << 32}, {2, 0, 0}, {UINT64_C(1) << 32 | 1, 0, 0}};
    for (int i = 0; i < 5; i++) {
        double p = chances[i], kept = 0, pairs = 0, agree = p * p + (1 - p) * (1 - p);
        tk_dropout_keep(mask, 0, N + 1, (float)p, &draw);
        for (int k = 0; k < N; k++) {
            kept += mask[k];
            pairs += mask[k] == mask[k + 1];
        }
        assert_true(score(kept, 1 - p, N) < 4.5);
        assert_true(fabs(pairs / N - agree) < 4.5 * sqrt(2 * agree * (1 - agree) / N)); /* pairs overlap */
        for (int o = 0; o < 5; o++) {
            double equal = 0;
            tk_dropout_keep(other, 0, N, (float)p, &others[o]);
            for (int k = 0; k < N; k++)
                equal += mask[k] == other[k];
            assert_true(score(equal, agree, N) < 4.5);
        }
    }
}

/* Any stretch of the draw, wherever it begins, also beyond 2^32 blocks; and the gradient with the mask at hand. */
static void stretches(void **state) {
    (void)state;
    enum { N = 3000 };
    const tk_draw draw = {UINT64_C(0xfeedface12345678), 3, 9};
    static uint8_t all[N], part[N];
    static const int64_t starts[] = {0, INT64_C(1) << 36};
    for (int s = 0; s < 2; s++) {
        tk_dropout_keep(all, starts[s], N, 0.4f, &draw);
        for (int64_t at = 0, n = 1; at + n <= N; at += n, n = n * 3 % 1021) {
            tk_dropout_keep(part, starts[s] + at, n, 0.4f, &draw);
            assert_memory_equal(part, all + at, (size_t)n);
        }
    }
    float *x = alloc_guarded(N * 4, 4), *y = alloc_guarded(N * 4, 0), *again = alloc_guarded(N * 4, 8);
    fill_f32(x, N, 6);
    for (int threads = 1; threads <= 3; threads++) {
        use_threads(threads);
        assert_int_equal(FAULT_OF(tk_dropout(queue(), y, all, x, N, number(0.4), seed_of(&draw), NULL, TK_F32)), TK_OK);
        assert_int_equal(FAULT_OF(tk_dropout_grad(queue(), again, x, all, N, number(0.4), TK_F32)), TK_OK);
        assert_memory_equal(y, again, N * 4);
    }
    assert_int_equal(FAULT_OF(tk_dropout_grad(queue(), again, x, all, N, number(1), TK_F32)), TK_BAD_VALUE);
    free_guarded(x, N * 4), free_guarded(y, N * 4), free_guarded(again, N * 4);
}

static void ratios(void **state) {
    (void)state;
    const tk_draw draw = {0, 0, 0};
    const float x[] = {1, 2, 3};
    float y[3];
    assert_int_equal(FAULT_OF(tk_dropout(queue(), y, NULL, x, 3, number(0), seed_of(&draw), NULL, TK_F32)), TK_OK);
    assert_memory_equal(x, y, sizeof x);
    assert_int_equal(FAULT_OF(tk_dropout(queue(), y, NULL, x, 3, number(1), seed_of(&draw), NULL, TK_F32)),
                     TK_BAD_VALUE);
    assert_int_equal(FAULT_OF(tk_dropout(queue(), y, NULL, x, 3, number(-0.1), seed_of(&draw), NULL, TK_F32)),
                     TK_BAD_VALUE);
    assert_int_equal(FAULT_OF(tk_dropout(queue(), y, NULL, x, 3, number(NAN), seed_of(&draw), NULL, TK_F32)),
                     TK_BAD_VALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers), cmocka_unit_test(masks),  cmocka_unit_test(statistics),
        cmocka_unit_test(stretches),     cmocka_unit_test(ratios),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
