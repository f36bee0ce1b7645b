/* swish_tmpl.h: Swish and its gradient over arrays of one element type. Set before including: T, SUFFIX. */
TK_VECTOR static void TK_CAT(forward_loop, SUFFIX)(S *out, const S *inp, int64_t n, T alpha) {
    for (int64_t i = 0; i < n; i++)
        out[i] = PUT(TK_CAT(tk_swish, MATH)(GET(inp[i]), alpha));
}

TK_VECTOR static void TK_CAT(backward_loop, SUFFIX)(S *dinp, const S *dout, const S *inp, int64_t n, T alpha) {
    for (int64_t i = 0; i < n; i++)
        dinp[i] = PUT(GET(dout[i]) * TK_CAT(tk_swish_slope, MATH)(GET(inp[i]), alpha));
}

static void TK_CAT(forward, SUFFIX)(void *ctx, tk_share share) {
    const swish_ctx *c = ctx;
    TK_CAT(forward_loop, SUFFIX)
    ((S *)c->out + share.begin, (const S *)c->inp + share.begin, share.end - share.begin, (T)c->alpha);
}

static void TK_CAT(backward, SUFFIX)(void *ctx, tk_share share) {
    const swish_ctx *c = ctx;
    TK_CAT(backward_loop, SUFFIX)
    ((S *)c->out + share.begin, (const S *)c->dout + share.begin, (const S *)c->inp + share.begin,
     share.end - share.begin, (T)c->alpha);
}
#undef T
#undef SUFFIX
