/* along_tmpl.h: x [outer, n, inner] -> index [outer, inner], or sums [outer, n, inner].
 * ArgMax, ArgMin and CumSum of one element type, for one outer index. Set before including: T, SUFFIX, and U of
 * integers, in which sums wrap. */
#ifndef U
#define U T
#endif
static void TK_CAT(arg, SUFFIX)(const along_ctx *c, int64_t outer) {
    const S *x = (const S *)c->inp + outer * c->n * c->inner;
    int64_t *out = (int64_t *)c->out + outer * c->inner;
    for (int64_t j = 0; j < c->inner; j++)
        out[j] = 0;
    for (int64_t i = 1; i < c->n; i++)
        for (int64_t j = 0; j < c->inner; j++) {
            T new = GET(x[i * c->inner + j]), best = GET(x[out[j] * c->inner + j]);
            bool better = c->flag[0] ? new > best : new < best;
            if (better || (c->flag[1] && new == best))
                out[j] = i;
        }
}

static void TK_CAT(cumsum, SUFFIX)(const along_ctx *c, int64_t outer) {
    const S *x = (const S *)c->inp + outer * c->n * c->inner;
    S *out = (S *)c->out + outer * c->n * c->inner;
    bool exclusive = c->flag[0], reverse = c->flag[1];
    for (int64_t first = 0; first < c->inner; first += COLUMNS) {
        int64_t m = c->inner - first < COLUMNS ? c->inner - first : COLUMNS;
        U sum[COLUMNS] = {0};
        for (int64_t i = 0; i < c->n; i++) {
            int64_t at = (reverse ? c->n - 1 - i : i) * c->inner + first;
            for (int64_t j = 0; j < m; j++) {
                U before = sum[j], term = (U)GET(x[at + j]);
                sum[j] = i == 0 ? term : before + term;
                out[at + j] = PUT((T)(exclusive ? before : sum[j]));
            }
        }
    }
}
#undef T
#undef U
#undef SUFFIX
#undef DTYPE
#undef KIND
#undef VECTOR
