/* layer_norm_cpu.c: LayerNormalization and RMSNormalization with their gradients: rows to threads; the gradients of
 * scale and bias by chunks of rows whose number depends on the shape only. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../common/types.h"
#include "norm.h"
#include "norm_math.h"
#include <math.h>
#include <string.h>

#define LANES 32

typedef struct norm_ctx {
    const tk_norm_rows *s;
    void *out, *xhat, *mean, *inv_std, *dscale, *dbias; /* mean and inv_std are read by the gradient */
    const void *inp, *scale, *bias, *dout;
    int64_t chunks, chunk_rows;
    double *partial; /* [chunks, 2, n] */
} norm_ctx;

/* x-hat as it is stored, from x. */
#define X_TO_XHAT(i) GET(PUT(TK_CAT(tk_xhat, MATH)(GET(x[i]), mean, inv_std)))

#define T float
#define SUFFIX f32
#include "layer_tmpl.h"
#define FORM from_x_f32
#define XHAT(i) X_TO_XHAT(i)
#include "norm_grad_tmpl.h"
#define FORM from_xhat_f32
#define XHAT(i) GET(x[i])
#include "norm_grad_tmpl.h"
#undef T
#undef SUFFIX

#define T double
#define SUFFIX f64
#include "layer_tmpl.h"
#define FORM from_x_f64
#define XHAT(i) X_TO_XHAT(i)
#include "norm_grad_tmpl.h"
#define FORM from_xhat_f64
#define XHAT(i) GET(x[i])
#include "norm_grad_tmpl.h"
#undef T
#undef SUFFIX

#define T float
#define SUFFIX f16
#include "layer_tmpl.h"
#define FORM from_x_f16
#define XHAT(i) X_TO_XHAT(i)
#include "norm_grad_tmpl.h"
#define FORM from_xhat_f16
#define XHAT(i) GET(x[i])
#include "norm_grad_tmpl.h"
#undef T
#undef SUFFIX

#define T float
#define SUFFIX bf16
#include "layer_tmpl.h"
#define FORM from_x_bf16
#define XHAT(i) X_TO_XHAT(i)
#include "norm_grad_tmpl.h"
#define FORM from_xhat_bf16
#define XHAT(i) GET(x[i])
#include "norm_grad_tmpl.h"
#undef T
#undef SUFFIX

static int64_t row_grain(int64_t n) { return TK_GRAIN / 4 / (n + 1) + 1; }

void tk_norm(tk_queue *q, void *out, void *xhat, void *mean, void *inv_std, const void *inp, const void *scale,
             const void *bias, const tk_norm_rows *s) {
    norm_ctx c = {
        .s = s, .out = out, .xhat = xhat, .mean = mean, .inv_std = inv_std, .inp = inp, .scale = scale, .bias = bias};
    tk_parallel_for(q, s->rows, row_grain(s->n), TK_OF_FLOAT(s->dtype, norm_rows), &c);
}

void tk_scale_bias(tk_queue *q, void *out, const void *xhat, const void *scale, const void *bias,
                   const tk_norm_rows *s) {
    norm_ctx c = {.s = s, .out = out, .inp = xhat, .scale = scale, .bias = bias};
    tk_parallel_for(q, s->rows, row_grain(s->n), TK_OF_FLOAT(s->dtype, affine_rows), &c);
}

/* At most 32 chunks of at least 16 rows. */
static int64_t rows_of_chunk(int64_t rows) { return (rows + 31) / 32 > 16 ? (rows + 31) / 32 : 16; }
static int64_t chunks_of(int64_t rows) { return (rows + rows_of_chunk(rows) - 1) / rows_of_chunk(rows); }

size_t tk_norm_grad_workspace(const tk_norm_rows *s) {
    return (size_t)(chunks_of(s->rows) * 2 * s->n) * sizeof(double);
}

/* Columns [begin, end) of dscale, then of dbias: the chunks' parts in order. */
static void grad_join(void *ctx, tk_share share) {
    const norm_ctx *c = ctx;
    int64_t n = c->s->n;
    for (int64_t at = share.begin; at < share.end; at++) {
        void *out = at < n ? c->dscale : c->dbias;
        double sum = 0;
        for (int64_t chunk = 0; chunk < c->chunks; chunk++)
            sum += c->partial[chunk * 2 * n + at];
        if (out)
            tk_put(out, c->s->dtype, at % n, sum);
    }
}

static void grad(tk_queue *q, const tk_norm_rows *s, norm_ctx c, tk_range_fn chunks, double *workspace) {
    c.s = s;
    c.chunks = chunks_of(s->rows);
    c.chunk_rows = rows_of_chunk(s->rows);
    c.partial = c.dscale || c.dbias ? workspace : NULL;
    tk_parallel_for(q, c.chunks, 1, chunks, &c);
    if (c.partial)
        tk_parallel_for(q, 2 * s->n, TK_GRAIN / 8, grad_join, &c);
}

/* Statistics are written by one kernel and read by the other: norm_ctx has one field for both. */
static void *as_field(const void *statistic) {
    union {
        const void *in;
        void *out;
    } field = {statistic};
    return field.out;
}

void tk_norm_grad(tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, const void *inp,
                  const void *scale, const void *mean, const void *inv_std, const tk_norm_rows *s, void *workspace) {
    norm_ctx c = {.out = dinp,
                  .dscale = dscale,
                  .dbias = dbias,
                  .dout = dout,
                  .inp = inp,
                  .scale = scale,
                  .mean = as_field(mean),
                  .inv_std = as_field(inv_std)};
    grad(q, s, c, TK_OF_FLOAT(s->dtype, grad_chunks_from_x), workspace);
}

void tk_norm_xhat_grad(tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, const void *xhat,
                       const void *scale, const void *inv_std, const tk_norm_rows *s, void *workspace) {
    norm_ctx c = {.out = dinp,
                  .dscale = dscale,
                  .dbias = dbias,
                  .dout = dout,
                  .inp = xhat,
                  .scale = scale,
                  .inv_std = as_field(inv_std)};
    grad(q, s, c, TK_OF_FLOAT(s->dtype, grad_chunks_from_xhat), workspace);
}
