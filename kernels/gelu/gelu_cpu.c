/* gelu_cpu.c: gelu_math.h over arrays. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "gelu.h"
#include "gelu_math.h"

typedef struct gelu_ctx {
    void *out;
    const void *dout, *inp;
    bool tanh_form;
} gelu_ctx;

#define SUFFIX f32
#include "gelu_tmpl.h"
#define SUFFIX f64
#include "gelu_tmpl.h"
#define SUFFIX f16
#include "gelu_tmpl.h"
#define SUFFIX bf16
#include "gelu_tmpl.h"

void tk_gelu(tk_queue *q, void *out, const void *inp, int64_t n, bool tanh_form, tk_dtype dtype) {
    gelu_ctx c = {out, NULL, inp, tanh_form};
    tk_parallel_for(q, n, TK_GRAIN / 4, TK_OF_FLOAT(dtype, forward), &c);
}

void tk_gelu_grad(tk_queue *q, void *dinp, const void *dout, const void *inp, int64_t n, bool tanh_form,
                  tk_dtype dtype) {
    gelu_ctx c = {dinp, dout, inp, tanh_form};
    tk_parallel_for(q, n, TK_GRAIN / 4, TK_OF_FLOAT(dtype, backward), &c);
}
