/* pointwise_tmpl.h: x [n] -> y [n]; dy, x [n] -> dx [n].
 * The rows of pointwise.def as loops over arrays of one element type. Set before including: T, the type computed in,
 * SUFFIX. */
#define FN(name) TK_CAT(tk_##name, MATH)
#define POINTWISE(name, domain, op, form, default_alpha, term, y, slope)                                               \
    TK_VECTOR static void TK_CAT(name##_forward, SUFFIX)(void *out_, const void *dout_, const void *inp_, int64_t n,   \
                                                         double alpha_) {                                              \
        S *out = out_;                                                                                                 \
        const S *inp = inp_;                                                                                           \
        const T alpha = (T)alpha_;                                                                                     \
        (void)dout_, (void)alpha;                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T x = GET(inp[i]), t = (T)(term);                                                                    \
            (void)t;                                                                                                   \
            out[i] = PUT(y);                                                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    TK_VECTOR static void TK_CAT(name##_grad, SUFFIX)(void *dinp_, const void *dout_, const void *inp_, int64_t n,     \
                                                      double alpha_) {                                                 \
        S *dinp = dinp_;                                                                                               \
        const S *dout = dout_, *inp = inp_;                                                                            \
        const T alpha = (T)alpha_;                                                                                     \
        (void)alpha;                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T x = GET(inp[i]), t = (T)(term);                                                                    \
            (void)t;                                                                                                   \
            dinp[i] = PUT(GET(dout[i]) * (slope));                                                                     \
        }                                                                                                              \
    }
#define POINTWISE_FORM POINTWISE
#include "pointwise.def"
#undef POINTWISE
#undef POINTWISE_FORM
#undef FN
#undef T
#undef SUFFIX
