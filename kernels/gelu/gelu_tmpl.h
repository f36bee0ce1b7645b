/* gelu_tmpl.h: GELU and its gradient in both forms over arrays of one element type. Set before including: SUFFIX. */
#define FORWARD(form)                                                                                                  \
    TK_VECTOR static void TK_CAT(form, SUFFIX)(S * out, const S *inp, int64_t n) {                                     \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = PUT(TK_CAT(tk_##form, MATH)(GET(inp[i])));                                                        \
    }
#define BACKWARD(form)                                                                                                 \
    TK_VECTOR static void TK_CAT(form, SUFFIX)(S * dinp, const S *dout, const S *inp, int64_t n) {                     \
        for (int64_t i = 0; i < n; i++)                                                                                \
            dinp[i] = PUT(GET(dout[i]) * TK_CAT(tk_##form, MATH)(GET(inp[i])));                                        \
    }
FORWARD(gelu)
FORWARD(gelu_tanh)
BACKWARD(gelu_slope)
BACKWARD(gelu_tanh_slope)

static void TK_CAT(forward, SUFFIX)(void *ctx, tk_share share) {
    const gelu_ctx *c = ctx;
    (c->tanh_form ? TK_CAT(gelu_tanh, SUFFIX) : TK_CAT(gelu, SUFFIX))(
        (S *)c->out + share.begin, (const S *)c->inp + share.begin, share.end - share.begin);
}

static void TK_CAT(backward, SUFFIX)(void *ctx, tk_share share) {
    const gelu_ctx *c = ctx;
    (c->tanh_form ? TK_CAT(gelu_tanh_slope, SUFFIX)
                  : TK_CAT(gelu_slope, SUFFIX))((S *)c->out + share.begin, (const S *)c->dout + share.begin,
                                                (const S *)c->inp + share.begin, share.end - share.begin);
}

#undef FORWARD
#undef BACKWARD
#undef SUFFIX
