/* swish_cpu.c: swish_math.h over arrays. */
#include "../common/parallel.h"
#include "swish.h"
#include "swish_math.h"

typedef struct swish_ctx {
    void *out;
    const void *dout, *inp;
    double alpha;
} swish_ctx;

#define LOOPS(T, SUFFIX)                                                                                               \
    TK_VECTOR static void forward_loop_##SUFFIX(T *out, const T *inp, int64_t n, T alpha) {                            \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = tk_swish_##SUFFIX(inp[i], alpha);                                                                 \
    }                                                                                                                  \
    TK_VECTOR static void backward_loop_##SUFFIX(T *dinp, const T *dout, const T *inp, int64_t n, T alpha) {           \
        for (int64_t i = 0; i < n; i++)                                                                                \
            dinp[i] = dout[i] * tk_swish_slope_##SUFFIX(inp[i], alpha);                                                \
    }                                                                                                                  \
    static void forward_##SUFFIX(void *ctx, int64_t begin, int64_t end) {                                              \
        const swish_ctx *c = ctx;                                                                                      \
        forward_loop_##SUFFIX((T *)c->out + begin, (const T *)c->inp + begin, end - begin, (T)c->alpha);               \
    }                                                                                                                  \
    static void backward_##SUFFIX(void *ctx, int64_t begin, int64_t end) {                                             \
        const swish_ctx *c = ctx;                                                                                      \
        backward_loop_##SUFFIX((T *)c->out + begin, (const T *)c->dout + begin, (const T *)c->inp + begin,             \
                               end - begin, (T)c->alpha);                                                              \
    }
LOOPS(float, f32)
LOOPS(double, f64)

void tk_swish(void *out, const void *inp, int64_t n, double alpha, tk_dtype dtype) {
    swish_ctx c = {out, NULL, inp, alpha};
    tk_parallel_for(n, TK_GRAIN / 4, dtype == TK_F32 ? forward_f32 : forward_f64, &c);
}

void tk_swish_grad(void *dinp, const void *dout, const void *inp, int64_t n, double alpha, tk_dtype dtype) {
    swish_ctx c = {dinp, dout, inp, alpha};
    tk_parallel_for(n, TK_GRAIN / 4, dtype == TK_F32 ? backward_f32 : backward_f64, &c);
}
