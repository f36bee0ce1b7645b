/* test_dropout.c: Philox against the known answers published with it (Random123, kat_vectors), and Dropout against its
 * definition: the same mask for any number of threads, size and place, and the right share kept. */
#include "kernel_test.h"
#include "kernels/dropout/dropout.h"

static void known_answers(void **state) {
    (void)state;
    static const struct { uint32_t counter[4], key[2], out[4];
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
        assert_int_equal(tk_dropout(out, mask, inp, n, 0.3, &draw, TK_F32), TK_OK);
        assert_int_equal(tk_dropout_ref(ref, ref_mask, inp, n, 0.3, &draw, TK_F32), TK_OK);
        assert_memory_equal(out, ref, bytes);
        assert_memory_equal(mask, ref_mask, (size_t)n);
        use_threads(1);
        assert_int_equal(tk_dropout(inp, NULL, inp, n, 0.3, &draw, TK_F32), TK_OK); /* in place */
        assert_memory_equal(inp, ref, bytes);
        free_guarded(inp, bytes), free_guarded(out, bytes), free_guarded(ref, bytes);
        free_guarded(mask, (size_t)n), free_guarded(ref_mask, (size_t)n);
    }
}

static void statistics(void **state) {
    (void)state;
    enum { N = 1000000 };
    static double x[N], y[N];
    static uint8_t mask[N], other[N];
    for (int i = 0; i < N; i++)
        x[i] = 1;
    for (int step = 0; step < 3; step++) {
        tk_draw draw = {1, 0, (uint32_t)step};
        double kept = 0, equal = 0;
        assert_int_equal(tk_dropout(y, mask, x, N, 0.1, &draw, TK_F64), TK_OK);
        draw.node = 1;
        assert_int_equal(tk_dropout(y, other, x, N, 0.1, &draw, TK_F64), TK_OK);
        for (int i = 0; i < N; i++) {
            kept += mask[i];
            equal += mask[i] == other[i];
        }
        assert_true(fabs(kept / N - 0.9) < 4 * sqrt(0.09 / N)); /* four standard deviations */
        assert_true(fabs(equal / N - 0.82) < 4 * sqrt(0.82 * 0.18 / N));
    }
}

static void ratios(void **state) {
    (void)state;
    const tk_draw draw = {0, 0, 0};
    const float x[] = {1, 2, 3};
    float y[3];
    assert_int_equal(tk_dropout(y, NULL, x, 3, 0, &draw, TK_F32), TK_OK);
    assert_memory_equal(x, y, sizeof x);
    assert_int_equal(tk_dropout(y, NULL, x, 3, 1, &draw, TK_F32), TK_BAD_VALUE);
    assert_int_equal(tk_dropout(y, NULL, x, 3, -0.1, &draw, TK_F32), TK_BAD_VALUE);
    assert_int_equal(tk_dropout(y, NULL, x, 3, NAN, &draw, TK_F32), TK_BAD_VALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(masks),
        cmocka_unit_test(statistics),
        cmocka_unit_test(ratios),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
