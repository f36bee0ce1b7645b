/* einsum_tmpl.h: operands [their dims...] -> out [kept dims...], a sum over the other dims each.
 * Elements of the plain Einsum loop for one element type. Set before including: T, SUFFIX, and SUM of integers. */
#ifndef SUM
#define SUM double
#endif
static void TK_CAT(elements, SUFFIX)(void *ctx, tk_share share) {
    const einsum_ctx *c = ctx;
    const tk_einsum *e = c->e;
    int64_t n_sum = 1;
    for (int d = e->n_out; d < e->n_indices; d++)
        n_sum *= e->dims[d];
    for (int64_t at = share.begin; at < share.end; at++) {
        int64_t base[TK_EINSUM_OPERANDS], offset[TK_EINSUM_OPERANDS];
        SUM sum = 0;
        places(e, at, 0, e->n_out, NULL, base);
        for (int64_t s = 0; s < n_sum; s++) {
            SUM term = 1;
            places(e, s, e->n_out, e->n_indices, base, offset);
            for (int k = 0; k < e->n_operands; k++)
                term *= (SUM)GET(((const S *)c->operands[k])[offset[k]]);
            sum += term;
        }
        ((S *)c->out)[at] = PUT((T)sum);
    }
}
#undef T
#undef SUFFIX
#undef SUM
