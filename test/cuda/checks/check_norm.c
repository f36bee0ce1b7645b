/* check_norm.c: the normalizations and their gradients on the emulated device. Rows of a warp, of a block, and longer
 * ones; of 2,200 a warp takes several. */
#include "cuda_case.h"

static const struct {
    int64_t rows, n;
} shapes[] = {{1, 1}, {3, 31}, {33, 64}, {5, 257}, {2, 1000}, {3, 1024}, {2, 2056}, {1, 4099}, {2200, 8}, {2, 8200}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* Sums of a row are of a thousand numbers near 1, or of products with scales up to 2. */
static bounds of_rows(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 2, .absolute = dtype == TK_F16 ? 2e-3 : 1.6e-2}
           : dtype == TK_F64 ? (bounds){.relative = 1e-13, .absolute = 1e-13}
                             : (bounds){.relative = 2e-6, .absolute = 2e-6};
}
/* Statistics are floats of float sums, whatever the elements are. */
static bounds of_statistics(tk_dtype dtype) {
    return dtype == TK_F64 ? (bounds){.relative = 1e-7, .absolute = 1e-13}
                           : (bounds){.relative = 1e-6, .absolute = 2e-7};
}
/* Sums over rows: as many numbers up to 4 as there are rows. */
static bounds of_columns(tk_dtype dtype, int64_t rows) {
    bounds b = of_rows(dtype);
    b.absolute = dtype == TK_F64 ? 1e-12 : (double)rows * 4e-7;
    return b;
}

/* Long rows of one of the two types of 16 bits are enough, and many rows of float. */
static bool is_spared(int i, tk_dtype dtype) {
    return (dtype == TK_F16 && shapes[i].n > 1024) || (dtype != TK_F32 && shapes[i].rows > 1000);
}

static tk_norm_rows rows_of(int i, bool centered, tk_dtype dtype) {
    return (tk_norm_rows){.rows = shapes[i].rows,
                          .n = shapes[i].n,
                          .epsilon = 1e-5,
                          .centered = centered,
                          .dtype = dtype,
                          .stat_dtype = TK_F32};
}

static void forward_case(int i, bool centered, int64_t first, tk_dtype dtype) {
    const tk_norm_rows s = rows_of(i, centered, dtype);
    const int64_t n = s.rows * s.n;
    pair x = pair_from(pair_random(dtype, n + first, -2, 4), first),
         scale = pair_from(pair_random(dtype, s.n + first, -2, 2), first),
         bias = pair_from(pair_random(dtype, s.n + first, -1, 1), first),
         y = pair_from(pair_result(dtype, n + first), first), xhat = pair_from(pair_result(dtype, n + first), first),
         mean = pair_result(TK_F32, s.rows), inv_std = pair_result(TK_F32, s.rows), again = pair_result(dtype, n);
    ON_BOTH(norm, AT(y), AT(xhat), AT(mean), AT(inv_std), AT(x), AT(scale), AT(bias), &s);
    pair_compare(y, of_rows(dtype), "y, %lld x %lld", (long long)s.rows, (long long)s.n);
    pair_compare(xhat, of_rows(dtype), "x-hat, %lld x %lld", (long long)s.rows, (long long)s.n);
    pair_compare(mean, of_statistics(dtype), "mean, %lld x %lld", (long long)s.rows, (long long)s.n);
    pair_compare(inv_std, of_statistics(dtype), "1 / deviation, %lld x %lld", (long long)s.rows, (long long)s.n);
    /* The same y, bit for bit, from x-hat, and over x. */
    ON_BOTH(scale_bias, AT(again), AT(xhat), AT(scale), AT(bias), &s);
    pair_same(again, y, "y from x-hat");
    ON_BOTH(norm, AT(x), NULL, NULL, NULL, AT(x), AT(scale), AT(bias), &s);
    pair_same(x, y, "y over x");
}

static void forward(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < N_SHAPES; i++) {
            if (is_spared(i, *t))
                continue;
            forward_case(i, true, 0, *t);
            if (shapes[i].n % 8 == 0)
                forward_case(i, false, 1, *t);
        }
}

/* No bias, statistics in double, and a scale of each row's own. */
static void forward_forms(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < N_SHAPES; i += 3) {
            tk_norm_rows s = rows_of(i, true, *t);
            s.stat_dtype = TK_F64;
            s.scale_step = s.n;
            pair x = pair_random(*t, s.rows * s.n, 90, 92), scale = pair_random(*t, s.rows * s.n, -2, 2),
                 y = pair_result(*t, s.rows * s.n), mean = pair_result(TK_F64, s.rows);
            ON_BOTH(norm, AT(y), NULL, AT(mean), NULL, AT(x), AT(scale), NULL, &s);
            bounds b = of_rows(*t);
            b.absolute *= *t == TK_F32   ? 20
                          : *t == TK_F64 ? 200
                                         : 1; /* x - mean has lost seven bits, on the host more */
            if (s.n > 1)
                pair_compare(y, b, "y of large x, %lld x %lld", (long long)s.rows, (long long)s.n);
            pair_compare(mean, of_statistics(*t), "mean of large x");
            pair xhat = pair_random(*t, s.rows * s.n, -2, 2);
            ON_BOTH(scale_bias, AT(y), AT(xhat), AT(scale), NULL, &s);
            pair_compare(y, (bounds){.ulps = 1}, "scaled, %lld x %lld", (long long)s.rows, (long long)s.n);
        }
}

static void grad_case(int i, bool centered, int64_t first, tk_dtype dtype) {
    tk_norm_rows s = rows_of(i, centered, dtype);
    s.stat_dtype = dtype == TK_F64 ? TK_F64 : TK_F32;
    const int64_t n = s.rows * s.n;
    const long long rows = s.rows, each = s.n;
    pair x = pair_from(pair_random(dtype, n + first, -2, 2), first),
         scale = pair_from(pair_random(dtype, s.n + first, -2, 2), first),
         g = pair_from(pair_random(dtype, n + first, -2, 2), first), y = pair_result(dtype, n),
         xhat = pair_result(dtype, n), mean = pair_result(s.stat_dtype, s.rows),
         inv_std = pair_result(s.stat_dtype, s.rows), dx = pair_result(dtype, n), dscale = pair_result(dtype, s.n),
         dbias = pair_result(dtype, s.n), dscale2 = pair_result(dtype, s.n);
    ON_BOTH(norm, AT(y), AT(xhat), centered ? AT(mean) : NULL, AT(inv_std), AT(x), AT(scale), NULL, &s);
    pair of_mean = centered ? mean : (pair){.n = 0};
    /* Both sides have the device's x-hat and statistics, so that differences are the gradient's. */
    pair_share(xhat), pair_share(inv_std);
    if (centered)
        pair_share(mean);
    ON_BOTH(norm_xhat_grad, AT(dx), AT(dscale), AT(dbias), AT(g), AT(xhat), AT(scale), AT(inv_std), &s,
            workspace(OF_TABLE(norm_grad_workspace)(&s)));
    pair_compare(dx, of_rows(dtype), "dx, %lld x %lld", rows, each);
    pair_compare(dscale, of_columns(dtype, rows), "dscale, %lld x %lld", rows, each);
    pair_compare(dbias, of_columns(dtype, rows), "dbias, %lld x %lld", rows, each);
    /* The same bits from x, over dout. */
    ON_BOTH(norm_grad, AT(g), AT(dscale2), NULL, AT(g), AT(x), AT(scale), AT(of_mean), AT(inv_std), &s,
            workspace(OF_TABLE(norm_grad_workspace)(&s)));
    pair_same(g, dx, "dx from x");
    pair_same(dscale2, dscale, "dscale from x");
    ON_BOTH(norm_xhat_grad, AT(xhat), NULL, NULL, AT(y), AT(xhat), AT(scale), AT(inv_std), &s, NULL);
}

static void grad(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < N_SHAPES; i++) {
            if (is_spared(i, *t))
                continue;
            grad_case(i, true, 0, *t);
            if (shapes[i].n % 8 == 0)
                grad_case(i, false, 1, *t);
        }
}

/* Blocks that take several rows each. */
static void many_rows(void) {
    const tk_norm_rows s = {
        .rows = 270, .n = 1028, .epsilon = 1e-5, .centered = true, .dtype = TK_F32, .stat_dtype = TK_F32};
    pair xhat = pair_random(TK_F32, s.rows * s.n, -2, 2), scale = pair_random(TK_F32, s.n, -2, 2),
         g = pair_random(TK_F32, s.rows * s.n, -2, 2), inv_std = pair_random(TK_F32, s.rows, 1, 2),
         dscale = pair_result(TK_F32, s.n), dbias = pair_result(TK_F32, s.n);
    ON_BOTH(norm_xhat_grad, AT(xhat), AT(dscale), AT(dbias), AT(g), AT(xhat), AT(scale), AT(inv_std), &s,
            workspace(OF_TABLE(norm_grad_workspace)(&s)));
    pair_compare(xhat, of_rows(TK_F32), "dx over x-hat, 270 rows");
    pair_compare(dscale, of_columns(TK_F32, s.rows), "dscale of 270 rows");
    pair_compare(dbias, of_columns(TK_F32, s.rows), "dbias of 270 rows");
}

/* --- by channel ---------------------------------------------------------------------------------- */

static const struct { int64_t batch, channels, inner; } images[] = {{1, 1, 1}, {70, 40, 1}, {3, 6, 49}, {2, 4, 300}};

static void channels(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
            const int64_t b = images[i].batch, c = images[i].channels, inner = images[i].inner, n = b * c * inner;
            pair x = pair_random(*t, n, -2, 4), y = pair_result(*t, n), scale = pair_random(*t, c, -2, 2),
                 bias = pair_random(*t, c, -1, 1), mean = pair_random(*t, c, -1, 1),
                 variance = pair_random(*t, c, 0.5, 2), new_mean = pair_result(*t, c),
                 new_variance = pair_result(*t, c);
            tk_channels s = {.batch = b, .channels = c, .inner = inner, .epsilon = 1e-5, .momentum = 0.9, .dtype = *t};
#define OPERANDS ((tk_channel_operands){AT(x), AT(scale), AT(bias), AT(mean), AT(variance)})
            ON_BOTH(batch_norm, (tk_channel_results){.y = AT(y)}, OPERANDS, &s);
            pair_compare(y, of_rows(*t), "batch norm of %lld x %lld x %lld", (long long)b, (long long)c,
                         (long long)inner);
            if (b * inner > 1) { /* one element has no deviation */
                s.train = true;
                ON_BOTH(batch_norm, ((tk_channel_results){AT(y), AT(new_mean), AT(new_variance)}), OPERANDS, &s);
                pair_compare(y, of_rows(*t), "batch norm in training, %lld x %lld x %lld", (long long)b, (long long)c,
                             (long long)inner);
                pair_compare(new_mean, of_rows(*t), "its mean");
                pair_compare(new_variance, of_rows(*t), "its variance");
                ON_BOTH(batch_norm, (tk_channel_results){.y = AT(y)}, OPERANDS, &s);
            }
            for (int64_t groups = 1; groups <= c; groups = groups == 1 && c > 2 ? 2 : groups < c ? c : c + 1) {
                if (c / groups * inner == 1)
                    continue;
                s.groups = groups;
                ON_BOTH(group_norm, (tk_channel_results){.y = AT(y)}, OPERANDS, &s);
                pair_compare(y, of_rows(*t), "%lld groups of %lld x %lld x %lld", (long long)groups, (long long)b,
                             (long long)c, (long long)inner);
            }
            for (int64_t size = 1; size < 6; size += 2) {
                s.size = size + (size == 3), s.alpha = 1e-2, s.beta = 0.75, s.add = 1;
                ON_BOTH(lrn, (tk_channel_results){.y = AT(y)}, OPERANDS, &s);
                pair_compare(y, of_rows(*t), "local response of %lld channels", (long long)size);
            }
        }
}

#undef OPERANDS

/* Nothing to normalize: sums over no rows are 0. */
static void empty(void) {
    for (const tk_dtype *t = all_floats; *t; t++) {
        const tk_norm_rows s = {
            .rows = 0, .n = 40, .epsilon = 1e-5, .centered = true, .dtype = *t, .stat_dtype = TK_F32};
        pair none = pair_result(*t, 0), stats = pair_result(TK_F32, 0), scale = pair_random(*t, 40, 0, 1),
             dscale = pair_result(*t, 40), dbias = pair_result(*t, 40);
        ON_BOTH(norm, AT(none), NULL, NULL, NULL, AT(none), AT(scale), NULL, &s);
        ON_BOTH(scale_bias, AT(none), AT(none), AT(scale), NULL, &s);
        ON_BOTH(norm_grad, AT(none), AT(dscale), AT(dbias), AT(none), AT(none), AT(scale), AT(stats), AT(stats), &s,
                workspace(OF_TABLE(norm_grad_workspace)(&s)));
        pair_compare(dscale, (bounds){0}, "dscale of no rows");
        pair_compare(dbias, (bounds){0}, "dbias of no rows");
    }
}

const cuda_check checks[] = {{"forward", forward},   {"forms", forward_forms}, {"grad", grad}, {"many_rows", many_rows},
                             {"channels", channels}, {"empty", empty},         {NULL, NULL}};
