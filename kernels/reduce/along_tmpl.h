/* along_tmpl.h: ArgMax, ArgMin and CumSum of one element type, for one outer index. Set before including: T, SUFFIX, U
 * (sums wrap). */
static void TK_CAT(arg, SUFFIX)(const along_ctx *c, int64_t outer) {
    const T *x = (const T *)c->inp + outer * c->n * c->inner;
    int64_t *out = (int64_t *)c->out + outer * c->inner;
    for (int64_t j = 0; j < c->inner; j++)
        out[j] = 0;
    for (int64_t i = 1; i < c->n; i++)
        for (int64_t j = 0; j < c->inner; j++) {
            T new = x[i * c->inner + j], best = x[out[j] * c->inner + j];
            bool better = c->flag[0] ? new > best : new < best;
            if (better || (c->flag[1] && new == best))
                out[j] = i;
        }
}

static void TK_CAT(cumsum, SUFFIX)(const along_ctx *c, int64_t outer) {
    const T *x = (const T *)c->inp + outer * c->n * c->inner;
    T *out = (T *)c->out + outer * c->n * c->inner;
    bool exclusive = c->flag[0], reverse = c->flag[1];
    for (int64_t i = 0; i < c->n; i++) {
        int64_t at = (reverse ? c->n - 1 - i : i) * c->inner, before = at + (reverse ? c->inner : -c->inner);
        for (int64_t j = 0; j < c->inner; j++) {
            U term = i == 0 && exclusive ? 0 : (U)x[(exclusive ? before : at) + j];
            out[at + j] = (T)(i == 0 ? term : (U)out[before + j] + term);
        }
    }
}
#undef T
#undef U
#undef SUFFIX
