/* norm_grad_tmpl.h: dy, xhat [rows, n] -> dx [rows, n]; chunks of rows -> parts [chunks, 2, n] -> dscale, dbias [n].
 * The gradient of LayerNormalization and RMSNormalization by rows, for one element type and one of three saved
 * operands: x, from which x-hat is recomputed, x-hat itself, with the same bits, or y, from which x-hat is recomputed
 * up to rounding. Set before including: T, SUFFIX, FORM (a suffix of its own), XHAT(i), x-hat in terms of x, i, mean
 * and inv_std, in T, and for x ROW, its element type, and ROW_OF(row), where a row of it is, in terms of the context c
 * and chunk. */

#define ADD_TO_SUMS(l)                                                                                                 \
    do {                                                                                                               \
        T g = GET(dout[at + (l)]) * GET(scale[at + (l)]);                                                              \
        first[l] += (double)g;                                                                                         \
        second[l] += (double)(g * XHAT(at + (l)));                                                                     \
    } while (0)

/* The two sums of a row that dinp needs: of dout scale, and of dout scale xhat. */
TK_VECTOR static void TK_CAT(grad_sums, FORM)(double *sums, const S *dout, const ROW *x, const S *scale, int64_t n,
                                              T mean, T inv_std) {
    double first[LANES] = {0}, second[LANES] = {0};
    int64_t at = 0;
    (void)mean, (void)inv_std;
    for (; at + LANES <= n; at += LANES)
        for (int64_t l = 0; l < LANES; l++)
            ADD_TO_SUMS(l);
    for (int64_t l = 0; at + l < n; l++)
        ADD_TO_SUMS(l);
    for (int64_t width = LANES / 2; width > 0; width /= 2)
        for (int64_t l = 0; l < width; l++) {
            first[l] += first[l + width];
            second[l] += second[l + width];
        }
    sums[0] = first[0];
    sums[1] = second[0];
}
#undef ADD_TO_SUMS

TK_VECTOR static void TK_CAT(grad_row, FORM)(S *dinp, const S *dout, const ROW *x, const S *scale, int64_t n, T mean,
                                             T inv_std, T first, T second) {
    (void)mean;
    for (int64_t i = 0; i < n; i++)
        dinp[i] = PUT(inv_std * ((GET(dout[i]) * GET(scale[i]) - first) - XHAT(i) * second));
}

TK_VECTOR static void TK_CAT(grad_params, FORM)(double *dscale, double *dbias, const S *dout, const ROW *x, int64_t n,
                                                T mean, T inv_std) {
    (void)mean, (void)inv_std;
    for (int64_t i = 0; i < n; i++) {
        dscale[i] += (double)(GET(dout[i]) * XHAT(i));
        dbias[i] += (double)GET(dout[i]);
    }
}

/* Chunks of rows: each sums its part of dscale and dbias in the workspace. */
static void TK_CAT(grad_chunks, FORM)(void *ctx, tk_share share) {
    const norm_ctx *c = ctx;
    int64_t n = c->s->n;
    for (int64_t chunk = share.begin; chunk < share.end; chunk++) {
        double *dscale = c->partial ? c->partial + chunk * 2 * n : NULL;
        int64_t first = chunk * c->chunk_rows,
                last = first + c->chunk_rows < c->s->rows ? first + c->chunk_rows : c->s->rows;
        if (dscale)
            memset(dscale, 0, (size_t)(2 * n) * sizeof(double));
        for (int64_t row = first; row < last; row++) {
            const S *dout = (const S *)c->dout + row * n;
            const ROW *x = ROW_OF(row);
            T mean = c->mean ? (T)tk_get(c->mean, c->s->stat_dtype, row) : 0,
              inv_std = (T)tk_get(c->inv_std, c->s->stat_dtype, row);
            double sums[2];
            if (dscale)
                TK_CAT(grad_params, FORM)(dscale, dscale + n, dout, x, n, mean, inv_std);
            if (!c->out)
                continue;
            TK_CAT(grad_sums, FORM)(sums, dout, x, c->scale, n, mean, inv_std);
            TK_CAT(grad_row, FORM)
            ((S *)c->out + row * n, dout, x, c->scale, n, mean, inv_std, c->s->centered ? (T)(sums[0] / (double)n) : 0,
             (T)(sums[1] / (double)n));
        }
    }
}
#undef FORM
#undef XHAT
#undef ROW
#undef ROW_OF
