/* check_create.c: families create and dropout on the emulated device. */
#include "kernels/common/half.h"
#include "cuda_case.h"
#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
static const tk_dtype by_size[] = {TK_U8, TK_F16, TK_F32, TK_F64};
static const int64_t sizes[] = {1, 31, 257, 1003};

/* --- Range, EyeLike, OneHot ----------------------------------------------------------------------- */

static void range(void) {
    for (const tk_dtype *t = all_numbers; *t; t++)
        for (size_t i = 0; i < COUNT(sizes); i++) {
            pair start = pair_numbers(*t, 1, (double[]){3.25}),
                 delta = pair_numbers(*t, 1, (double[]){i % 2 ? 2.5 : 7});
            pair y = pair_result(*t, sizes[i]);
            ON_BOTH(range, AT(y), AT(start), AT(delta), sizes[i], *t);
            pair_compare(y, (bounds){0}, "Range of %lld elements", (long long)sizes[i]);
        }
}

static void eye(void) {
    static const int64_t diagonals[] = {0, 2, -3, 100};
    static const unsigned char one[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t t = 0; t < COUNT(by_size); t++)
        for (size_t i = 0; i < COUNT(diagonals); i++) {
            pair y = pair_result(by_size[t], 17 * 23);
            ON_BOTH(eye, AT(y), one, 17, 23, diagonals[i], tk_size(by_size[t]));
            pair_compare(y, (bounds){0}, "the diagonal %lld", (long long)diagonals[i]);
        }
}

static void one_hot(void) {
    static const double indices[] = {0, 4, 5, -1, -5, -6, 3, 2, 1, 100, 1, 2};
    for (const tk_dtype *t = all_numbers; *t; t++)
        for (size_t v = 0; v < COUNT(by_size); v++) {
            pair x = pair_numbers(*t, 12, indices), values = pair_random(by_size[v], 2, 1, 100);
            pair y = pair_result(by_size[v], 60);
            ON_BOTH(one_hot, AT(y), AT(values), AT(x), *t, 3, 5, 4, tk_size(by_size[v]));
            pair_compare(y, (bounds){0}, "OneHot of indices of type %d", (int)*t);
        }
    pair far = pair_numbers(TK_F64, 4, (double[]){NAN, INFINITY, 1e300, -1e300}), values = pair_random(TK_F32, 2, 1, 9);
    pair y = pair_result(TK_F32, 20);
    ON_BOTH(one_hot, AT(y), AT(values), AT(far), TK_F64, 1, 5, 4, sizeof(float));
    pair_compare(y, (bounds){0}, "OneHot of what is no index");
}

/* --- NonZero, Compress, TopK ------------------------------------------------------------------------ */

static int64_t count_true(pair p) {
    int64_t n = 0;
    for (int64_t i = 0; i < p.n; i++)
        n += tk_get(p.at[HOST], p.dtype, i) != 0;
    return n;
}

static void nonzero(void) {
    static const int64_t dims[][3] = {{3, 5, 7}, {1, 1, 1}, {8, 16, 16}, {3, 50, 41}, {0, 3, 3}};
    for (const tk_dtype *t = all_types; *t; t++)
        for (size_t i = 0; i < COUNT(dims); i++) {
            int64_t n = dims[i][0] * dims[i][1] * dims[i][2];
            pair x = pair_random(*t, n, 0, 3);
            int64_t there = count_true(x);
            pair y = pair_result(TK_I64, 3 * there), more = pair_result(TK_I64, 3 * there + 3);
            ON_BOTH(nonzero, AT(y), there, AT(x), *t, 3, dims[i], workspace(OF_TABLE(nonzero_workspace)(n)));
            pair_compare(y, (bounds){0}, "NonZero of type %d, case %zu", (int)*t, i);
            ON_BOTH(nonzero, AT(more), there + 1, AT(x), *t, 3, dims[i], workspace(OF_TABLE(nonzero_workspace)(n)));
            expect_fault(TK_BAD_VALUE, "fewer than there are to be");
            if (there > 0) {
                ON_BOTH(nonzero, AT(y), there - 1, AT(x), *t, 3, dims[i], workspace(OF_TABLE(nonzero_workspace)(n)));
                expect_fault(TK_BAD_VALUE, "more than there are to be");
            }
        }
    pair scalar = pair_numbers(TK_F32, 1, (double[]){2}), none = pair_result(TK_I64, 0);
    ON_BOTH(nonzero, AT(none), 1, AT(scalar), TK_F32, 0, dims[0], workspace(OF_TABLE(nonzero_workspace)(1)));
    expect_fault(TK_OK, "a scalar");
}

static void compress(void) {
    static const struct {
        int64_t outer, axis, inner, conditions;
    } cases[] = {{1, 1003, 1, 1003}, {3, 7, 5, 7}, {2, 300, 33, 290}, {70, 5, 70, 5},
                 {1, 40, 3, 60},     {1, 5, 0, 5}, {2, 5000, 3, 6000}};
    for (size_t t = 0; t < COUNT(by_size); t++)
        for (size_t i = 0; i < COUNT(cases); i++) {
            const size_t element = tk_size(by_size[t]);
            const int64_t outer = cases[i].outer, axis = cases[i].axis, inner = cases[i].inner;
            pair x = pair_random(by_size[t], outer * axis * inner, 0, 200);
            pair chosen = pair_random(TK_BOOL, cases[i].conditions, 0, 1), seen = chosen;
            seen.n = seen.n < axis ? seen.n : axis;
            int64_t there = count_true(seen);
            for (int64_t n = there - 1; n <= there + 1; n++) {
                pair y = pair_result(by_size[t], outer * n * inner);
                ON_BOTH(compress, AT(y), AT(x), AT(chosen), cases[i].conditions, outer, axis, inner, n, element,
                        workspace(OF_TABLE(compress_workspace)(cases[i].conditions, n)));
                if (n == there)
                    pair_compare(y, (bounds){0}, "Compress, case %zu", i);
                else
                    expect_fault(TK_BAD_VALUE, "another number of entries");
            }
        }
}

static void topk(void) {
    static const struct {
        int64_t outer, axis, inner, k;
    } cases[] = {{1, 1, 1, 1},   {40, 8, 1, 2}, {3, 33, 5, 33}, {2, 300, 1, 10},
                 {2, 128, 3, 5}, {1, 5, 2, 0},  {2, 300, 1, 40}};
    for (const tk_dtype *t = all_numbers; *t; t++)
        for (size_t i = 0; i < 2 * COUNT(cases); i++) {
            const int64_t outer = cases[i / 2].outer, axis = cases[i / 2].axis, inner = cases[i / 2].inner,
                          k = cases[i / 2].k, n = outer * axis * inner;
            const bool largest = i % 2 == 0, is_float = tk_is_float(*t);
            double numbers[2048];
            pair x = pair_random(*t, n, is_float || *t == TK_I8 || *t == TK_I64 ? -20 : 0, 20); /* some are equal */
            for (int64_t j = 0; j < n; j++) {
                numbers[j] = tk_get(x.at[HOST], *t, j);
                numbers[j] = is_float && j % 7 == 3 ? floor(numbers[j]) : numbers[j];
                numbers[j] = is_float && j % 31 == 5 ? NAN : is_float && j % 31 == 7 ? -0.0 : numbers[j];
            }
            x = pair_numbers(*t, n, numbers);
            pair values = pair_result(*t, outer * k * inner), indices = pair_result(TK_I64, outer * k * inner);
            for (int with = 1; with < 4; with++) {
                const pair none = {0}, v = with & 1 ? values : none, at = with & 2 ? indices : none;
                ON_BOTH(topk, AT(v), AT(at), AT(x), *t, outer, axis, inner, k, largest,
                        workspace(OF_TABLE(topk_workspace)(outer, axis, inner, k)));
                if (with & 1)
                    pair_compare(values, (bounds){0}, "the %lld %s, case %zu", (long long)k,
                                 largest ? "largest" : "smallest", i / 2);
                if (with & 2)
                    pair_compare(indices, (bounds){0}, "where the %lld %s of type %d are, case %zu", (long long)k,
                                 largest ? "largest" : "smallest", (int)*t, i / 2);
            }
        }
}

/* More than is sorted at once, and one lane of many blocks. */
static void topk_of_many(void) {
    static const struct {
        tk_dtype dtype;
        int64_t outer, axis, inner, k;
    } cases[] = {{TK_I8, 27000, 20, 2, 17}, {TK_F32, 1, 8192, 1, 3}, {TK_F64, 3, 700, 1, 700}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const tk_dtype dtype = cases[i].dtype;
        const int64_t outer = cases[i].outer, axis = cases[i].axis, inner = cases[i].inner, k = cases[i].k;
        pair x = pair_random(dtype, outer * axis * inner, -50, 50);
        pair values = pair_result(dtype, outer * k * inner), indices = pair_result(TK_I64, outer * k * inner);
        ON_BOTH(topk, AT(values), AT(indices), AT(x), dtype, outer, axis, inner, k, i % 2 == 0,
                workspace(OF_TABLE(topk_workspace)(outer, axis, inner, k)));
        pair_compare(values, (bounds){0}, "the %lld best of %lld", (long long)k, (long long)axis);
        pair_compare(indices, (bounds){0}, "where the %lld best of %lld are", (long long)k, (long long)axis);
    }
}

/* --- random numbers ---------------------------------------------------------------------------------- */

static void random_numbers(void) {
    static const int64_t seeds[][2] = {{0x123456789abcdef, 7}, {-1, INT64_C(1) << 40}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < COUNT(sizes) * COUNT(seeds); i++) {
            const int64_t n = sizes[i / 2];
            const bounds near = tk_is_half(*t) ? (bounds){.ulps = 1, .absolute = 1e-6}
                                : *t == TK_F32 ? (bounds){.relative = 1e-6, .absolute = 1e-6}
                                               : (bounds){.relative = 1e-13, .absolute = 1e-13};
            pair seed = pair_of(TK_I64, 2, seeds[i % 2]), y = pair_result(*t, n);
            ON_BOTH(random_uniform, AT(y), n, -1.5f, 2.0f, ((tk_seed){AT(seed), 5}), *t);
            pair_compare(y, near, "RandomUniform of %lld elements", (long long)n);
            ON_BOTH(random_normal, AT(y), n, 0.5f, 3.0f, ((tk_seed){AT(seed), 5}), *t);
            pair_compare(y, near, "RandomNormal of %lld elements", (long long)n);
        }
}

/* --- Dropout ------------------------------------------------------------------------------------------ */

/* The same mask; what is kept is one division from the definition's. */
static bounds one_division(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 1}
           : dtype == TK_F32 ? (bounds){.relative = 2e-7}
                             : (bounds){.relative = 4e-16};
}

static void run_dropout(pair y, pair mask, pair x, tk_dtype ratio_type, double ratio, const uint8_t *training) {
    static const int64_t seeds[] = {0x123456789abcdef, 7};
    pair seed = pair_of(TK_I64, 2, seeds), part = pair_numbers(ratio_type, 1, &ratio), none = {0};
    pair flag = training ? pair_of(TK_BOOL, 1, training) : none;
    ON_BOTH(dropout, AT(y), AT(mask), AT(x), y.n, ((tk_number){AT(part), ratio_type, 0}), ((tk_seed){AT(seed), 9}),
            AT(flag), y.dtype);
}

static void dropout(void) {
    static const double ratios[] = {0, 0.1, 0.5, 0.98};
    static const uint8_t no = 0, yes = 1;
    const pair none = {0};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (size_t r = 0; r < COUNT(ratios); r++)
                for (int64_t first = 0; first < 3; first++) { /* packed, all but the mask, none */
                    const int64_t n = sizes[i];
                    pair x = pair_from(pair_random(*t, n + 1, -3, 3), first > 1);
                    pair y = pair_from(pair_result(*t, n + 1), first > 1);
                    pair mask = pair_from(pair_result(TK_BOOL, n + 1), first > 0);
                    x.n = y.n = mask.n = n;
                    tk_dtype ratio_type = all_floats[r];
                    run_dropout(y, mask, x, ratio_type, ratios[r], r == 1 ? &yes : NULL);
                    pair_compare(mask, (bounds){0}, "mask of %lld elements of type %d", (long long)n, (int)*t);
                    pair_compare(y, one_division(*t), "dropout of %lld elements", (long long)n);
                    pair left = pair_result(*t, n), ratio = pair_numbers(ratio_type, 1, &ratios[r]);
                    ON_BOTH(dropout_grad, AT(left), AT(x), AT(mask), n, ((tk_number){AT(ratio), ratio_type, 0}), *t);
                    pair_compare(left, one_division(*t), "dropout's gradient of %lld elements", (long long)n);
                    pair_same(left, y, "the gradient of x is x dropped");
                    run_dropout(y, mask, x, ratio_type, ratios[r], &no);
                    pair_compare(mask, (bounds){0}, "mask where nothing is dropped");
                    pair_compare(y, (bounds){0}, "where nothing is dropped");
                    run_dropout(x, none, x, ratio_type, ratios[r], NULL);
                    pair_compare(x, one_division(*t), "dropout in place");
                }
}

static void bits(void) {
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int64_t first = 0; first < 2; first++) { /* packed, and not */
            const int64_t n = sizes[i], bytes = tk_bit_bytes(n);
            pair mask = pair_from(pair_random(TK_BOOL, n + 1, 0, 2), first);
            pair packed = pair_result(TK_U8, bytes), again = pair_from(pair_result(TK_BOOL, n + 1), first);
            mask.n = again.n = n;
            ON_BOTH(pack_bits, AT(packed), AT(mask), n);
            pair_compare(packed, (bounds){0}, "bits of %lld elements", (long long)n);
            ON_BOTH(unpack_bits, AT(again), AT(packed), n);
            pair_compare(again, (bounds){0}, "bytes of %lld elements", (long long)n);
            pair_same(again, mask, "a mask packed and unpacked");
        }
}

/* An element whose bits are the threshold is kept. */
static void threshold(void) {
    const tk_draw draw = {0x123456789abcdef, 9, 7}; /* run_dropout's */
    uint32_t words[TK_WORDS];
    pair x = pair_random(TK_F32, 64, 1, 2), y = pair_result(TK_F32, 64), mask = pair_result(TK_BOOL, 64);
    for (int i = 0; i < TK_HALVES; i++) {
        tk_draw_block(&draw, 3, words);
        run_dropout(y, mask, x, TK_F64, tk_draw_half(words, i) / 65536.0, NULL);
        if (device_number(mask, 3 * TK_HALVES + i) != 1)
            wrong("element %d of a block is dropped by its own bits", i);
        pair_compare(mask, (bounds){0}, "a mask by a ratio that was drawn");
    }
}

/* What of 16 bits is not dropped has the bits of a division in float, whatever the number. */
static void kept_halves(void) {
    enum { ALL = 65536 };
    static const double ratios[] = {0.1, 0.5, 0.04, 0.4, 0.52, 0.7, 0.985}; /* from 0.04 on products are not enough */
    static uint16_t bits[ALL];
    static uint8_t all[ALL];
    for (int i = 0; i < ALL; i++)
        bits[i] = (uint16_t)i, all[i] = 1;
    for (size_t r = 0; r < 2 * COUNT(ratios); r++) {
        tk_dtype dtype = r % 2 ? TK_BF16 : TK_F16;
        const double ratio = ratios[r / 2];
        pair x = pair_of(dtype, ALL, bits), mask = pair_of(TK_BOOL, ALL, all), y = pair_result(dtype, ALL);
        uint16_t *want = y.at[HOST];
        for (int i = 0; i < ALL; i++) {
            const float quotient = (float)tk_get(bits, dtype, i) / (float)(1 - ratio);
            want[i] = dtype == TK_F16 ? tk_to_f16(quotient) : tk_to_bf16(quotient);
        }
        tables[DEVICE]->dropout_grad(queues[DEVICE], y.at[DEVICE], x.at[DEVICE], mask.at[DEVICE], ALL,
                                     (tk_number){NULL, TK_F64, ratio}, dtype);
        wait_for_both();
        pair_compare(y, (bounds){.absolute = 0x1p-108}, "all numbers by 1 - %g", ratio); /* from 2^-100 on */
    }
}

static void bad_ratios(void) {
    static const double bad[] = {1, -0.5, NAN, 2};
    static const uint8_t no = 0;
    const pair none = {0};
    pair x = pair_random(TK_F32, 100, -1, 1), y = pair_result(TK_F32, 100), mask = pair_random(TK_BOOL, 100, 0, 1);
    for (size_t i = 0; i < COUNT(bad); i++) {
        run_dropout(y, none, x, TK_F32, bad[i], NULL);
        expect_fault(TK_BAD_VALUE, "a ratio that is none");
        ON_BOTH(dropout_grad, AT(y), AT(x), AT(mask), 100, ((tk_number){NULL, TK_F32, bad[i]}), TK_F32);
        expect_fault(TK_BAD_VALUE, "a ratio that is none, of the gradient");
        run_dropout(y, none, x, TK_F32, bad[i], &no);
        expect_fault(TK_OK, "a ratio that is none, where nothing is dropped");
    }
}

const cuda_check checks[] = {
    {"range", range},           {"eye", eye},   {"one_hot", one_hot},           {"nonzero", nonzero},
    {"compress", compress},     {"topk", topk}, {"topk of many", topk_of_many}, {"random", random_numbers},
    {"dropout", dropout},       {"bits", bits}, {"threshold", threshold},       {"kept halves", kept_halves},
    {"bad ratios", bad_ratios}, {NULL, NULL},
};
