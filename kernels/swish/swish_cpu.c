/* swish_cpu.c: swish_math.h over arrays. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "swish.h"
#include "swish_math.h"

typedef struct swish_ctx {
    void *out;
    const void *dout, *inp;
    double alpha;
} swish_ctx;

#define T float
#define SUFFIX f32
#include "swish_tmpl.h"
#define T double
#define SUFFIX f64
#include "swish_tmpl.h"
#define T float
#define SUFFIX f16
#include "swish_tmpl.h"
#define T float
#define SUFFIX bf16
#include "swish_tmpl.h"

void tk_swish(tk_queue *q, void *out, const void *inp, int64_t n, double alpha, tk_dtype dtype) {
    swish_ctx c = {out, NULL, inp, alpha};
    tk_parallel_for(q, n, TK_GRAIN / 4, TK_OF_FLOAT(dtype, forward), &c);
}

void tk_swish_grad(tk_queue *q, void *dinp, const void *dout, const void *inp, int64_t n, double alpha,
                   tk_dtype dtype) {
    swish_ctx c = {dinp, dout, inp, alpha};
    tk_parallel_for(q, n, TK_GRAIN / 4, TK_OF_FLOAT(dtype, backward), &c);
}
