/* layer_tmpl.h: x [rows, n] -> mean, inv_std [rows] -> xhat [rows, n] -> y [rows, n].
 * Rows of LayerNormalization and RMSNormalization, and of their scale and bias alone, for one element type. Set before
 * including: T, SUFFIX. */
#define LANES 32
/* total += the sum of TERM(i), 0 <= i < n, over lanes in double. */
#define SUM_ROW(total, n, TERM)                                                                                        \
    do {                                                                                                               \
        double lane[LANES] = {0};                                                                                      \
        int64_t at = 0;                                                                                                \
        for (; at + LANES <= (n); at += LANES)                                                                         \
            for (int64_t l = 0; l < LANES; l++)                                                                        \
                lane[l] += (double)(TERM(at + l));                                                                     \
        for (int64_t l = 0; at + l < (n); l++)                                                                         \
            lane[l] += (double)(TERM(at + l));                                                                         \
        for (int64_t width = LANES / 2; width > 0; width /= 2)                                                         \
            for (int64_t l = 0; l < width; l++)                                                                        \
                lane[l] += lane[l + width];                                                                            \
        (total) += lane[0];                                                                                            \
    } while (0)

TK_VECTOR static double TK_CAT(sum, SUFFIX)(const S *x, int64_t n) {
    double total = 0;
#define TERM(i) GET(x[i])
    SUM_ROW(total, n, TERM);
#undef TERM
    return total;
}

TK_VECTOR static double TK_CAT(squares, SUFFIX)(const S *x, int64_t n, double mean) {
    double total = 0;
#define TERM(i) (((double)GET(x[i]) - mean) * ((double)GET(x[i]) - mean))
    SUM_ROW(total, n, TERM);
#undef TERM
    return total;
}

/* y, and xhat where it is wanted. out may be x. y is that of the x-hat that is stored, also where it is not. */
#define XHAT(i) PUT(TK_CAT(tk_xhat, MATH)(GET(x[i]), mean, inv_std))
#define AFFINE(xhat, i) PUT(TK_CAT(tk_affine, MATH)(GET(xhat), GET(scale[i]), GET(bias[i])))
#define SCALED(xhat, i) PUT(TK_CAT(tk_scaled, MATH)(GET(xhat), GET(scale[i])))
TK_VECTOR static void TK_CAT(emit, SUFFIX)(S *out, S *xhat, const S *x, const S *scale, const S *bias, int64_t n,
                                           T mean, T inv_std) {
    if (xhat)
        for (int64_t i = 0; i < n; i++)
            xhat[i] = XHAT(i);
    if (bias)
        for (int64_t i = 0; i < n; i++)
            out[i] = AFFINE(XHAT(i), i);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = SCALED(XHAT(i), i);
}

/* x-hat, as stored, of the channels whose x-hat cannot be recomputed from `out`; 0 in unused places. */
static void TK_CAT(keep_sides, SUFFIX)(S *kept, const S *x, const int32_t *channels, int64_t capacity, T mean,
                                       T inv_std) {
    for (int64_t k = 0; k < capacity; k++)
        kept[k] = channels[k] < 0 ? PUT(0) : XHAT(channels[k]);
}

static const S *TK_CAT(row_scale, SUFFIX)(const norm_ctx *c, int64_t row) {
    return (const S *)c->scale + row * c->s->scale_step;
}
static const S *TK_CAT(row_bias, SUFFIX)(const norm_ctx *c, int64_t row) {
    return c->bias ? (const S *)c->bias + row * c->s->bias_step : NULL;
}

static void TK_CAT(norm_rows, SUFFIX)(void *ctx, tk_share share) {
    const norm_ctx *c = ctx;
    int64_t n = c->s->n;
    for (int64_t row = share.begin; row < share.end; row++) {
        const S *x = (const S *)c->inp + row * n;
        double mean = c->s->centered ? TK_CAT(sum, SUFFIX)(x, n) / (double)n : 0;
        double inv_std = 1 / sqrt(TK_CAT(squares, SUFFIX)(x, n, mean) / (double)n + c->s->epsilon);
        if (c->sides.kept) /* before out, which may lie over x */
            TK_CAT(keep_sides, SUFFIX)
        ((S *)c->sides.kept + row * c->sides.capacity, x, c->sides.channels, c->sides.capacity, (T)mean, (T)inv_std);
        TK_CAT(emit, SUFFIX)
        ((S *)c->out + row * n, c->xhat ? (S *)c->xhat + row * n : NULL, x, TK_CAT(row_scale, SUFFIX)(c, row),
         TK_CAT(row_bias, SUFFIX)(c, row), n, (T)mean, (T)inv_std);
        if (c->mean)
            tk_put(c->mean, c->s->stat_dtype, row, mean);
        if (c->inv_std)
            tk_put(c->inv_std, c->s->stat_dtype, row, inv_std);
    }
}

TK_VECTOR static void TK_CAT(affine_row, SUFFIX)(S *out, const S *xhat, const S *scale, const S *bias, int64_t n) {
    if (bias)
        for (int64_t i = 0; i < n; i++)
            out[i] = AFFINE(xhat[i], i);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = SCALED(xhat[i], i);
}

static void TK_CAT(affine_rows, SUFFIX)(void *ctx, tk_share share) {
    const norm_ctx *c = ctx;
    int64_t n = c->s->n;
    for (int64_t row = share.begin; row < share.end; row++)
        TK_CAT(affine_row, SUFFIX)
    ((S *)c->out + row * n, (const S *)c->inp + row * n, TK_CAT(row_scale, SUFFIX)(c, row),
     TK_CAT(row_bias, SUFFIX)(c, row), n);
}

/* x-hat of a row from y, in T, at the chunk's place of the workspace: copies of side channels, (y - bias) / scale
 * elsewhere. */
TK_VECTOR static void TK_CAT(invert_row, SUFFIX)(T *xhat, const S *y, const S *scale, const S *bias, int64_t n) {
    if (bias)
        for (int64_t i = 0; i < n; i++)
            xhat[i] = (GET(y[i]) - GET(bias[i])) / GET(scale[i]);
    else
        for (int64_t i = 0; i < n; i++)
            xhat[i] = GET(y[i]) / GET(scale[i]);
}

static const T *TK_CAT(recovered_row, SUFFIX)(const norm_ctx *c, int64_t chunk, int64_t row) {
    int64_t n = c->s->n;
    T *xhat = (T *)c->recovered + chunk * n;
    const S *kept = (const S *)c->sides.kept + row * c->sides.capacity;
    TK_CAT(invert_row, SUFFIX)(xhat, (const S *)c->inp + row * n, c->scale, c->bias, n);
    for (int64_t k = 0; k < c->sides.capacity; k++)
        if (c->sides.channels[k] >= 0)
            xhat[c->sides.channels[k]] = GET(kept[k]);
    return xhat;
}
#undef SUM_ROW
#undef XHAT
#undef AFFINE
#undef SCALED
