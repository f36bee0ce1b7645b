/* layer_norm_cpu.c: LayerNormalization and RMSNormalization with their gradients: rows to threads; the gradients of
 * scale and bias by chunks of rows whose number depends on the shape only. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../common/types.h"
#include "norm_math.h"
#include "norm_y.h"
#include <math.h>
#include <string.h>

#define LANES 32

/* Channels that keep x-hat beside y, and where; kept NULL: the forward pass kept another operand than y. */
typedef struct side_copies {
    const int32_t *channels;
    void *kept;
    int64_t capacity;
} side_copies;

typedef struct norm_ctx {
    const tk_norm_rows *s;
    void *out, *xhat, *mean, *inv_std, *dscale, *dbias; /* mean and inv_std are read by the gradient */
    const void *inp, *scale, *bias, *dout;
    int64_t chunks, chunk_rows;
    double *partial; /* [chunks, 2, n] */
    side_copies sides;
    void *recovered; /* [chunks, n], of the type of computation: x-hat from y */
} norm_ctx;

#define TEMPLATE "../norm/layer_forms_tmpl.h"
#include "../common/each_float.h"

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

/* Channels whose x-hat cannot be recomputed from y, in order, then -1. False, and a fault, where they are too many. */
static bool list_sides(tk_queue *q, int32_t *channels, const void *scale, const void *bias, const tk_norm_sides *sides,
                       const tk_norm_rows *s) {
    int64_t used = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (!tk_norm_is_side(tk_get(scale, s->dtype, i), bias ? tk_get(bias, s->dtype, i) : 0, sides))
            continue;
        if (used == sides->capacity) {
            tk_fault(q, TK_MANY_SIDES);
            return false;
        }
        channels[used++] = (int32_t)i;
    }
    for (; used < sides->capacity; used++)
        channels[used] = -1;
    return true;
}

void tk_norm_from_y(tk_queue *q, void *out, void *inv_std, int32_t *channels, void *kept, const void *inp,
                    const void *scale, const void *bias, const tk_norm_sides *sides, const tk_norm_rows *s) {
    norm_ctx c = {.s = s,
                  .out = out,
                  .inv_std = inv_std,
                  .inp = inp,
                  .scale = scale,
                  .bias = bias,
                  .sides = {channels, kept, sides->capacity}};
    if (list_sides(q, channels, scale, bias, sides, s))
        tk_parallel_for(q, s->rows, row_grain(s->n), TK_OF_FLOAT(s->dtype, norm_rows), &c);
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
    if (c.dscale || c.dbias) /* also without rows, which have no workspace: they are 0 */
        tk_parallel_for(q, 2 * s->n, TK_GRAIN / 8, grad_join, &c);
}

/* Statistics and copies of side channels are written by one kernel and read by the other: norm_ctx has one field for
 * both. */
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

size_t tk_norm_from_y_grad_workspace(const tk_norm_rows *s) {
    return tk_norm_grad_workspace(s) + (size_t)(chunks_of(s->rows) * s->n) * sizeof(double);
}

void tk_norm_from_y_grad(tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, const void *out,
                         const void *scale, const void *bias, const void *inv_std, const int32_t *channels,
                         const void *kept, int64_t capacity, const tk_norm_rows *s, void *workspace) {
    norm_ctx c = {.out = dinp,
                  .dscale = dscale,
                  .dbias = dbias,
                  .dout = dout,
                  .inp = out,
                  .scale = scale,
                  .bias = bias,
                  .inv_std = as_field(inv_std),
                  .sides = {channels, as_field(kept), capacity},
                  .recovered = (char *)workspace + tk_norm_grad_workspace(s)};
    for (int64_t k = 0; k < capacity; k++)
        if (channels[k] < -1 || channels[k] >= s->n) {
            tk_fault(q, TK_BAD_INDEX);
            return;
        }
    grad(q, s, c, TK_OF_FLOAT(s->dtype, grad_chunks_from_y), workspace);
}
