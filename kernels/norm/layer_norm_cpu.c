/* layer_norm_cpu.c: LayerNormalization and its gradient, RMSNormalization: rows to threads; the gradients of scale and
 * bias by chunks of rows whose number depends on the shape only. */
#include "../common/parallel.h"
#include "../common/types.h"
#include "norm.h"
#include "norm_math.h"
#include <math.h>
#include <string.h>

typedef struct layer_ctx {
    void *out, *mean, *inv_std, *dscale, *dbias; /* mean and inv_std are read by the gradient */
    const void *inp, *scale, *bias, *dout;
    int64_t rows, n;
    double epsilon;
    tk_dtype stat_dtype;
    int64_t chunks, chunk_rows;
    double *partial; /* [chunks, 2, n] */
} layer_ctx;

static void put_stat(void *stat, tk_dtype dtype, int64_t row, double value) {
    if (stat && dtype == TK_F32)
        ((float *)stat)[row] = (float)value;
    else if (stat)
        ((double *)stat)[row] = value;
}

#define T float
#define SUFFIX f32
#include "layer_tmpl.h"
#define T double
#define SUFFIX f64
#include "layer_tmpl.h"

static int64_t row_grain(int64_t n) { return TK_GRAIN / 4 / (n + 1) + 1; }

void tk_layer_norm(void *out, void *mean, void *inv_std, const void *inp, const void *scale, const void *bias,
                   int64_t rows, int64_t n, double epsilon, tk_dtype dtype, tk_dtype stat_dtype) {
    layer_ctx c = {.out = out,
                   .mean = mean,
                   .inv_std = inv_std,
                   .inp = inp,
                   .scale = scale,
                   .bias = bias,
                   .rows = rows,
                   .n = n,
                   .epsilon = epsilon,
                   .stat_dtype = stat_dtype};
    tk_parallel_for(rows, row_grain(n), dtype == TK_F32 ? layer_rows_f32 : layer_rows_f64, &c);
}

void tk_rms_norm(void *out, const void *inp, const void *scale, int64_t rows, int64_t n, double epsilon,
                 tk_dtype dtype) {
    layer_ctx c = {.out = out, .inp = inp, .scale = scale, .rows = rows, .n = n, .epsilon = epsilon};
    tk_parallel_for(rows, row_grain(n), dtype == TK_F32 ? rms_rows_f32 : rms_rows_f64, &c);
}

/* At most 32 chunks of at least 16 rows. */
static int64_t rows_of_chunk(int64_t rows) { return (rows + 31) / 32 > 16 ? (rows + 31) / 32 : 16; }
static int64_t chunks_of(int64_t rows) { return (rows + rows_of_chunk(rows) - 1) / rows_of_chunk(rows); }

size_t tk_layer_norm_grad_workspace(int64_t rows, int64_t n) {
    return (size_t)(chunks_of(rows) * 2 * n) * sizeof(double);
}

void tk_layer_norm_grad(void *dinp, void *dscale, void *dbias, const void *dout, const void *inp, const void *scale,
                        const void *mean, const void *inv_std, int64_t rows, int64_t n, tk_dtype dtype,
                        tk_dtype stat_dtype, void *workspace) {
    layer_ctx c = {.out = dinp,
                   .mean = (void *)(uintptr_t)mean,
                   .inv_std = (void *)(uintptr_t)inv_std,
                   .dscale = dscale,
                   .dbias = dbias,
                   .inp = inp,
                   .scale = scale,
                   .dout = dout,
                   .rows = rows,
                   .n = n,
                   .stat_dtype = stat_dtype,
                   .chunks = chunks_of(rows),
                   .chunk_rows = rows_of_chunk(rows),
                   .partial = dscale || dbias ? workspace : NULL};
    tk_parallel_for(c.chunks, 1, dtype == TK_F32 ? grad_chunks_f32 : grad_chunks_f64, &c);
    if (c.partial)
        tk_parallel_for(2 * n, TK_GRAIN / 8, dtype == TK_F32 ? grad_join_f32 : grad_join_f64, &c);
}
