/* check_activation.c: activations that keep their result and a bit, on the emulated device. */
#include "kernels/dropout/dropout.h"
#include "cuda_case.h"

static const int64_t sizes[] = {1, 8, 31, 257, 4099};
static const struct {
    tk_pointwise_row row;
    double alpha;
} functions[] = {{TK_POINTWISE_gelu, 0},     {TK_POINTWISE_gelu_tanh, 0}, {TK_POINTWISE_mish, 0},
                 {TK_POINTWISE_swish, 1.25}, {TK_POINTWISE_swish, -0.5},  {TK_POINTWISE_swish, 0}};

/* Of the same y on both sides: its rounding, which near the minimum shows as its root, is none of the slope's. */
static bounds of_slope(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 1, .absolute = 2e-6}
           : dtype == TK_F64 ? (bounds){.relative = 1e-10, .absolute = 1e-11}
                             : (bounds){.relative = 4e-6, .absolute = 2e-6};
}

static void one(size_t f, tk_dtype dtype, int64_t n, int64_t first) {
    const tk_pointwise_row row = functions[f].row;
    const double alpha = functions[f].alpha;
    pair x = pair_from(pair_random(dtype, n + first, -9, 9), first),
         y = pair_from(pair_result(dtype, n + first), first);
    pair dy = pair_from(pair_random(dtype, n + first, -2, 2), first), right = pair_result(TK_U8, tk_bit_bytes(n));
    ON_BOTH(activation_masked, row, AT(y), AT(right), AT(x), n, alpha, dtype);
    y.n = n;
    pair_compare(
        y, (bounds){.ulps = tk_is_half(dtype) ? 1 : 0, .relative = dtype == TK_F64 ? 1e-12 : 4e-6, .absolute = 1e-37},
        "function %zu of %lld elements", f, (long long)n);
    pair_compare(right, (bounds){0}, "bits of function %zu of %lld elements", f, (long long)n);
    pair_share(y);
    pair_share(right);
    ON_BOTH(activation_from_output, row, AT(dy), AT(dy), AT(y), AT(right), n, alpha, dtype);
    dy.n = n;
    pair_compare(dy, of_slope(dtype), "slope %zu of %lld elements, over dy", f, (long long)n);
}

static void pairs(void) {
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (const tk_dtype *t = all_floats; *t; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (int64_t first = 0; first < 2; first++) /* packed, and not */
                    one(f, *t, sizes[i], first);
}

const cuda_check checks[] = {{"pairs", pairs}, {NULL, NULL}};
