/* gelu_cpu.c: gelu_math.h over arrays. */
#include "../common/parallel.h"
#include "gelu.h"
#include "gelu_math.h"

#define FORWARD(name, T)                                                   \
    TK_VECTOR static void name##_range(T *out, const T *inp, int64_t n) {  \
        for (int64_t i = 0; i < n; i++)                                    \
            out[i] = name(inp[i]);                                         \
    }
#define BACKWARD(name, T)                                                                  \
    TK_VECTOR static void name##_range(T *dinp, const T *dout, const T *inp, int64_t n) {  \
        for (int64_t i = 0; i < n; i++)                                                    \
            dinp[i] = dout[i] * name(inp[i]);                                              \
    }
FORWARD(tk_gelu_f32, float)
FORWARD(tk_gelu_tanh_f32, float) FORWARD(tk_gelu_f64, double) FORWARD(tk_gelu_tanh_f64, double)
    BACKWARD(tk_gelu_slope_f32, float) BACKWARD(tk_gelu_tanh_slope_f32, float) BACKWARD(tk_gelu_slope_f64, double)
        BACKWARD(tk_gelu_tanh_slope_f64, double)

            typedef struct gelu_ctx {
    void *out;
    const void *dout, *inp;
    bool tanh_form;
} gelu_ctx;

static void forward_f32(void *ctx, int64_t begin, int64_t end) {
    const gelu_ctx *c = ctx;
    (c->tanh_form ? tk_gelu_tanh_f32_range : tk_gelu_f32_range)((float *)c->out + begin, (const float *)c->inp + begin,
                                                                end - begin);
}

static void forward_f64(void *ctx, int64_t begin, int64_t end) {
    const gelu_ctx *c = ctx;
    (c->tanh_form ? tk_gelu_tanh_f64_range : tk_gelu_f64_range)((double *)c->out + begin,
                                                                (const double *)c->inp + begin, end - begin);
}

static void backward_f32(void *ctx, int64_t begin, int64_t end) {
    const gelu_ctx *c = ctx;
    (c->tanh_form ? tk_gelu_tanh_slope_f32_range : tk_gelu_slope_f32_range)(
        (float *)c->out + begin, (const float *)c->dout + begin, (const float *)c->inp + begin, end - begin);
}

static void backward_f64(void *ctx, int64_t begin, int64_t end) {
    const gelu_ctx *c = ctx;
    (c->tanh_form ? tk_gelu_tanh_slope_f64_range : tk_gelu_slope_f64_range)(
        (double *)c->out + begin, (const double *)c->dout + begin, (const double *)c->inp + begin, end - begin);
}

void tk_gelu(void *out, const void *inp, int64_t n, bool tanh_form, tk_dtype dtype) {
    gelu_ctx c = {out, NULL, inp, tanh_form};
    tk_parallel_for(n, TK_GRAIN / 4, dtype == TK_F32 ? forward_f32 : forward_f64, &c);
}

void tk_gelu_grad(void *dinp, const void *dout, const void *inp, int64_t n, bool tanh_form, tk_dtype dtype) {
    gelu_ctx c = {dinp, dout, inp, tanh_form};
    tk_parallel_for(n, TK_GRAIN / 4, dtype == TK_F32 ? backward_f32 : backward_f64, &c);
}
