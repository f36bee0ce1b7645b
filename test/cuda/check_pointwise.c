/* check_pointwise.c: the rows of pointwise.def on the emulated device. */
#include "cuda_case.h"

static const int64_t sizes[] = {1, 31, 257, 4099};

static bounds of(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 1}
           : dtype == TK_F64 ? (bounds){.relative = 1e-11, .absolute = 1e-13}
                             : (bounds){.relative = 2e-6, .absolute = 2e-7};
}

static void forward(void) {
    for (int row = 0; row < TK_POINTWISE_COUNT; row++)
        for (const tk_dtype *t = all_floats; *t; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                pair x = pair_random(*t, sizes[i] + 1, -12, 12), y = pair_result(*t, sizes[i] + 1);
                for (int64_t first = 0; first < 2; first++) { /* packed, and not */
                    pair from = pair_from(x, first), to = pair_from(y, first);
                    ON_BOTH(pointwise, (tk_pointwise_row)row, AT(to), AT(from), sizes[i], 1.25, *t);
                    to.n = sizes[i];
                    pair_compare(to, of(*t), "row %d of %lld elements", row, (long long)sizes[i]);
                }
            }
}

static void grad(void) {
    for (int row = 0; row < TK_POINTWISE_COUNT; row++)
        for (const tk_dtype *t = all_floats; *t; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                pair x = pair_random(*t, sizes[i], -12, 12), g = pair_random(*t, sizes[i], -2, 2);
                ON_BOTH(pointwise_grad, (tk_pointwise_row)row, AT(x), AT(g), AT(x), sizes[i], 1.25, *t);
                pair_compare(x, of(*t), "row %d of %lld elements, over its operand", row, (long long)sizes[i]);
            }
}

const cuda_check checks[] = {{"forward", forward}, {"grad", grad}, {NULL, NULL}};
