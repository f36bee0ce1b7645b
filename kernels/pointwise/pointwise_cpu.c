/* pointwise_cpu.c: pointwise.def compiled for each float type, found by op and form. */
#include "pointwise.h"
#include "../common/element.h"
#include "../common/functions.h"
#include "../common/parallel.h"
#include "pointwise_math.h"

#define TEMPLATE "../pointwise/pointwise_tmpl.h"
#include "../common/each_float.h"

/* One type's loop over n elements: out = f(inp), where `dout` is not read, or out = dout * f'(inp). */
typedef void (*pointwise_fn)(void *out, const void *dout, const void *inp, int64_t n, double alpha);

static const struct {
    const char *op, *form;
    double alpha;
    pointwise_fn forward[4], grad[4]; /* of float, double, float16, bfloat16 */
} rows[] = {
#define NONE NAN
#define POINTWISE(name, domain, op, form, alpha, t, y, slope)                                                          \
    {#op,                                                                                                              \
     form,                                                                                                             \
     alpha,                                                                                                            \
     {name##_forward_f32, name##_forward_f64, name##_forward_f16, name##_forward_bf16},                                \
     {name##_grad_f32, name##_grad_f64, name##_grad_f16, name##_grad_bf16}},
#define POINTWISE_FORM POINTWISE
#include "pointwise.def"
#undef POINTWISE
#undef POINTWISE_FORM
#undef NONE
};

tk_pointwise_row tk_pointwise_find(const char *op, const char *form) {
    int row = 0;
    while (row < TK_POINTWISE_COUNT && (strcmp(rows[row].op, op) != 0 || strcmp(rows[row].form, form) != 0))
        row++;
    return (tk_pointwise_row)row;
}

double tk_pointwise_alpha(tk_pointwise_row row) { return rows[row].alpha; }

typedef struct pointwise_ctx {
    pointwise_fn fn;
    char *out;
    const char *dout, *inp; /* dout: NULL in the forward pass */
    double alpha;
    size_t size; /* bytes of an element */
} pointwise_ctx;

static void pointwise_range(void *ctx, tk_share share) {
    const pointwise_ctx *c = ctx;
    size_t at = (size_t)share.begin * c->size;
    c->fn(c->out + at, c->dout ? c->dout + at : NULL, c->inp + at, share.end - share.begin, c->alpha);
}

static int column(tk_dtype dtype) { return dtype == TK_F32 ? 0 : dtype == TK_F64 ? 1 : dtype == TK_F16 ? 2 : 3; }

void tk_pointwise(tk_queue *q, tk_pointwise_row row, void *out, const void *inp, int64_t n, double alpha,
                  tk_dtype dtype) {
    pointwise_ctx c = {rows[row].forward[column(dtype)], out, NULL, inp, alpha, tk_size(dtype)};
    tk_parallel_for(q, n, TK_GRAIN / 4, pointwise_range, &c);
}

void tk_pointwise_grad(tk_queue *q, tk_pointwise_row row, void *dinp, const void *dout, const void *inp, int64_t n,
                       double alpha, tk_dtype dtype) {
    pointwise_ctx c = {rows[row].grad[column(dtype)], dinp, dout, inp, alpha, tk_size(dtype)};
    tk_parallel_for(q, n, TK_GRAIN / 4, pointwise_range, &c);
}
