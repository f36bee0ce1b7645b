/* check_pool.c: pools of one to three dims on the emulated device: pads, dilations, strides, indices. */
#include "cuda_case.h"

static const tk_window windows[] = {
    {{1, 1, 17}, {1, 1, 8}, {1, 1, 3}, {1, 1, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {{1, 9, 11}, {1, 5, 6}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
    {{1, 9, 11}, {1, 5, 7}, {1, 3, 3}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}, {0, 0, 0}},
    {{4, 5, 6}, {4, 4, 4}, {2, 2, 3}, {1, 1, 1}, {1, 1, 1}, {1, 0, 0}, {0, 0, 0}},
};

static bounds of(tk_dtype dtype) {
    return dtype == TK_F64 ? (bounds){.relative = 1e-13, .absolute = 1e-14}
                           : (bounds){.relative = 1e-6, .absolute = 1e-7, .ulps = tk_is_half(dtype) ? 1 : 0};
}

static void maxima(void) {
    static const tk_dtype types[] = {TK_F32, TK_F64, TK_F16, TK_BF16, TK_I8, TK_U8, 0};
    for (const tk_dtype *t = types; *t; t++)
        for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
            for (int kind = 0; kind < 3; kind++) {
                tk_pool pool = {.op = TK_POOL_MAX, .planes = 6, .column_major = kind == 2, .window = windows[i]};
                const int64_t n = 6 * tk_volume(windows[i].out);
                pair x = pair_random(*t, 6 * tk_volume(windows[i].inp), *t == TK_U8 ? 0 : -9, 9),
                     y = pair_result(*t, n), at = pair_result(TK_I64, n);
                ON_BOTH(pool_run, AT(y), kind == 0 ? NULL : AT(at), AT(x), &pool, *t);
                pair_compare(y, (bounds){0}, "maxima of window %zu", i);
                if (kind > 0)
                    pair_compare(at, (bounds){0}, "places of window %zu, column major %d", i, kind == 2);
            }
}

static void means(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
            for (int kind = 0; kind < 4; kind++) {
                tk_pool pool = {.op = kind < 2 ? TK_POOL_AVERAGE : TK_POOL_LP,
                                .planes = 6,
                                .p = kind,
                                .count_pads = kind == 1,
                                .window = windows[i]};
                pair x = pair_random(*t, 6 * tk_volume(windows[i].inp), -2, 2),
                     y = pair_result(*t, 6 * tk_volume(windows[i].out));
                ON_BOTH(pool_run, AT(y), NULL, AT(x), &pool, *t);
                pair_compare(y, of(*t), "window %zu, kind %d", i, kind);
            }
}

static void folds(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
            pair x = pair_random(*t, 6 * tk_volume(windows[i].kernel) * tk_volume(windows[i].out), -2, 2),
                 y = pair_result(*t, 6 * tk_volume(windows[i].inp));
            ON_BOTH(fold, AT(y), AT(x), 6, &windows[i], *t);
            bounds b = of(*t);
            b.absolute = *t == TK_F64 ? 1e-14 : 1e-6; /* of terms up to 2 */
            pair_compare(y, b, "window %zu put back", i);
        }
}

const cuda_check checks[] = {{"maxima", maxima}, {"means", means}, {"folds", folds}, {NULL, NULL}};
