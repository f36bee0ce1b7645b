/* layer_tmpl.h: rows of LayerNormalization, its gradient and RMSNormalization for one element type. Set before
 * including: T, SUFFIX. */
#define LANES 32
/* total += the sum of TERM(i), 0 <= i < n, over lanes in double. */
#define SUM_ROW(total, n, TERM)                                 \
    do {                                                        \
        double lane[LANES] = {0};                               \
        int64_t at = 0;                                         \
        for (; at + LANES <= (n); at += LANES)                  \
            for (int64_t l = 0; l < LANES; l++)                 \
                lane[l] += (double)(TERM(at + l));              \
        for (int64_t l = 0; at + l < (n); l++)                  \
            lane[l] += (double)(TERM(at + l));                  \
        for (int64_t width = LANES / 2; width > 0; width /= 2)  \
            for (int64_t l = 0; l < width; l++)                 \
                lane[l] += lane[l + width];                     \
        (total) += lane[0];                                     \
    } while (0)

TK_VECTOR static double TK_CAT(sum, SUFFIX)(const T *x, int64_t n) {
    double total = 0;
#define TERM(i) x[i]
    SUM_ROW(total, n, TERM);
#undef TERM
    return total;
}

TK_VECTOR static double TK_CAT(squares, SUFFIX)(const T *x, int64_t n, double mean) {
    double total = 0;
#define TERM(i) (((double)x[i] - mean) * ((double)x[i] - mean))
    SUM_ROW(total, n, TERM);
#undef TERM
    return total;
}

TK_VECTOR static void TK_CAT(emit, SUFFIX)(T *out, const T *x, const T *scale, const T *bias, int64_t n, T mean,
                                           T inv_std) {
    if (bias)
        for (int64_t i = 0; i < n; i++)
            out[i] = TK_CAT(tk_affine, SUFFIX)(TK_CAT(tk_xhat, SUFFIX)(x[i], mean, inv_std), scale[i], bias[i]);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = TK_CAT(tk_xhat, SUFFIX)(x[i], mean, inv_std) * scale[i];
}

static void TK_CAT(layer_rows, SUFFIX)(void *ctx, int64_t begin, int64_t end) {
    const layer_ctx *c = ctx;
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)c->inp + row * c->n;
        double mean = TK_CAT(sum, SUFFIX)(x, c->n) / (double)c->n;
        double inv_std = 1 / sqrt(TK_CAT(squares, SUFFIX)(x, c->n, mean) / (double)c->n + c->epsilon);
        TK_CAT(emit, SUFFIX)((T *)c->out + row * c->n, x, c->scale, c->bias, c->n, (T)mean, (T)inv_std);
        put_stat(c->mean, c->stat_dtype, row, mean);
        put_stat(c->inv_std, c->stat_dtype, row, inv_std);
    }
}

static void TK_CAT(rms_rows, SUFFIX)(void *ctx, int64_t begin, int64_t end) {
    const layer_ctx *c = ctx;
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)c->inp + row * c->n;
        double inv = 1 / sqrt(TK_CAT(squares, SUFFIX)(x, c->n, 0) / (double)c->n + c->epsilon);
        TK_CAT(emit, SUFFIX)((T *)c->out + row * c->n, x, c->scale, NULL, c->n, 0, (T)inv);
    }
}

/* The two sums of a row that dinp needs: of dout scale, and of dout scale xhat. */
TK_VECTOR static void TK_CAT(grad_sums, SUFFIX)(double *sums, const T *dout, const T *x, const T *scale, int64_t n,
                                                T mean, T inv_std) {
    sums[0] = sums[1] = 0;
#define TERM(i) (dout[i] * scale[i])
    SUM_ROW(sums[0], n, TERM);
#undef TERM
#define TERM(i) (dout[i] * scale[i] * TK_CAT(tk_xhat, SUFFIX)(x[i], mean, inv_std))
    SUM_ROW(sums[1], n, TERM);
#undef TERM
}

TK_VECTOR static void TK_CAT(grad_row, SUFFIX)(T *dinp, const T *dout, const T *x, const T *scale, int64_t n, T mean,
                                               T inv_std, T first, T second) {
    for (int64_t i = 0; i < n; i++)
        dinp[i] = inv_std * ((dout[i] * scale[i] - first) - TK_CAT(tk_xhat, SUFFIX)(x[i], mean, inv_std) * second);
}

TK_VECTOR static void TK_CAT(grad_params, SUFFIX)(double *dscale, double *dbias, const T *dout, const T *x, int64_t n,
                                                  T mean, T inv_std) {
    for (int64_t i = 0; i < n; i++) {
        dscale[i] += (double)(dout[i] * TK_CAT(tk_xhat, SUFFIX)(x[i], mean, inv_std));
        dbias[i] += (double)dout[i];
    }
}

/* Chunks of rows: each sums its part of dscale and dbias in the workspace. */
static void TK_CAT(grad_chunks, SUFFIX)(void *ctx, int64_t begin, int64_t end) {
    const layer_ctx *c = ctx;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        double *dscale = c->partial ? c->partial + chunk * 2 * c->n : NULL;
        int64_t first = chunk * c->chunk_rows, last = first + c->chunk_rows < c->rows ? first + c->chunk_rows : c->rows;
        if (dscale)
            memset(dscale, 0, (size_t)(2 * c->n) * sizeof(double));
        for (int64_t row = first; row < last; row++) {
            const T *dout = (const T *)c->dout + row * c->n, *x = (const T *)c->inp + row * c->n;
            T mean = (T)tk_get(c->mean, c->stat_dtype, row), inv_std = (T)tk_get(c->inv_std, c->stat_dtype, row);
            double sums[2];
            if (dscale)
                TK_CAT(grad_params, SUFFIX)(dscale, dscale + c->n, dout, x, c->n, mean, inv_std);
            if (!c->out)
                continue;
            TK_CAT(grad_sums, SUFFIX)(sums, dout, x, c->scale, c->n, mean, inv_std);
            T mean_g = (T)(sums[0] / (double)c->n), mean_gx = (T)(sums[1] / (double)c->n);
            T *dinp = (T *)c->out + row * c->n;
            TK_CAT(grad_row, SUFFIX)(dinp, dout, x, c->scale, c->n, mean, inv_std, mean_g, mean_gx);
        }
    }
}

/* Columns [begin, end) of dscale, then of dbias: the chunks' parts in order. */
static void TK_CAT(grad_join, SUFFIX)(void *ctx, int64_t begin, int64_t end) {
    const layer_ctx *c = ctx;
    for (int64_t at = begin; at < end; at++) {
        T *out = at < c->n ? c->dscale : c->dbias;
        double sum = 0;
        for (int64_t chunk = 0; chunk < c->chunks; chunk++)
            sum += c->partial[chunk * 2 * c->n + at];
        if (out)
            out[at % c->n] = (T)sum;
    }
}
#undef T
#undef SUFFIX
#undef LANES
#undef SUM_ROW
