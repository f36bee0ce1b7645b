/* softmax_cpu.c: rows, or blocks of columns, of softmax_tmpl.h to threads. */
#include "../common/element.h"
#include "../common/math.h"
#include "../common/parallel.h"
#include "softmax.h"

#define COLUMNS 64

typedef struct softmax_ctx softmax_ctx;
/* `at`: the first element; `result`: its place in [outer, inner]; m columns. */
typedef void (*softmax_fn)(const softmax_ctx *c, int64_t at, int64_t result, int64_t m);
struct softmax_ctx {
    void *out, *log_sum;
    const void *inp, *dout;
    tk_softmax_shape shape;
    softmax_fn fn;
};

#define TEMPLATE "../softmax/softmax_tmpl.h"
#include "../common/each_float.h"

static void range(void *ctx, tk_share share) {
    const softmax_ctx *c = ctx;
    tk_softmax_shape s = c->shape;
    while (share.begin < share.end) {
        int64_t column = share.begin % s.inner, m = s.inner - column;
        m = m < COLUMNS ? m : COLUMNS;
        m = m < share.end - share.begin ? m : share.end - share.begin;
        c->fn(c, share.begin / s.inner * s.n * s.inner + column, share.begin, m);
        share.begin += m;
    }
}

static void run(tk_queue *q, softmax_ctx *c) {
    int64_t grain = TK_GRAIN / 4 / (c->shape.n + 1) + 1;
    if (c->shape.n > 0)
        tk_parallel_for(q, c->shape.outer * c->shape.inner, c->shape.inner == 1 ? grain : (grain / 16 + 1) * 16, range,
                        c);
}

void tk_softmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype) {
    run(q, &(softmax_ctx){out, NULL, inp, NULL, shape, TK_OF_FLOAT(dtype, softmax)});
}

void tk_log_softmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype) {
    run(q, &(softmax_ctx){out, NULL, inp, NULL, shape, TK_OF_FLOAT(dtype, log_softmax)});
}

void tk_hardmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype) {
    run(q, &(softmax_ctx){out, NULL, inp, NULL, shape, TK_OF_FLOAT(dtype, hardmax)});
}

void tk_softmax_grad(tk_queue *q, void *dinp, const void *dout, const void *out, tk_softmax_shape shape,
                     tk_dtype dtype) {
    run(q, &(softmax_ctx){dinp, NULL, out, dout, shape, TK_OF_FLOAT(dtype, softmax_grad)});
}

void tk_log_softmax_grad(tk_queue *q, void *dinp, const void *dout, const void *out, tk_softmax_shape shape,
                         tk_dtype dtype) {
    run(q, &(softmax_ctx){dinp, NULL, out, dout, shape, TK_OF_FLOAT(dtype, log_softmax_grad)});
}

void tk_softmax_statistics(tk_queue *q, void *largest, void *log_sum, const void *inp, tk_softmax_shape shape,
                           tk_dtype dtype) {
    run(q, &(softmax_ctx){largest, log_sum, inp, NULL, shape, TK_OF_FLOAT(dtype, stats)});
}
