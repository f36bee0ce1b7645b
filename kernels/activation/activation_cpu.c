/* activation_cpu.c: a block of elements at a time. Elements of 16 bits are computed in float, widened and computed in
 * separate loops, so that each loop becomes vector code. */
#include "activation_curve.h"
#include "../common/element.h"
#include "../common/functions.h"
#include "../common/parallel.h"
#include "../dropout/dropout.h"
#include "activation_curves.h"
#include <float.h>

#define LEAST_ALPHA 1e-37 /* replaces smaller ones and 0: x / 2, except for an x that no model has */
#define BLOCK 512         /* elements at a time, a multiple of 8 */

/* The rows of pointwise.def that have a curve: its place in the table, from 1 on. */
enum {
    NO_CURVE,
#define CURVE_PLACE(name) CURVE_##name,
    CURVES(CURVE_PLACE)
#undef CURVE_PLACE
};
static const uint8_t curve_rows[TK_POINTWISE_COUNT] = {
#define CURVE_ROW(name) [TK_POINTWISE_##name] = CURVE_##name,
    CURVES(CURVE_ROW)
#undef CURVE_ROW
};

bool tk_activation_is_known(tk_pointwise_row row) { return row < TK_POINTWISE_COUNT && curve_rows[row] != NO_CURVE; }

#define TINY_f32 FLT_MIN
#define TINY_f64 DBL_MIN
#define T float
#define SUFFIX f32
#include "activation_tmpl.h"
#define T double
#define SUFFIX f64
#include "activation_tmpl.h"

typedef struct activation_ctx {
    tk_pointwise_row row;
    char *result;
    const char *inp, *dout; /* dout: NULL in the forward pass */
    uint8_t *right;         /* written in the forward pass */
    const uint8_t *sides;   /* read in the backward pass */
    double alpha;
    tk_dtype dtype;
    tk_curve_f32 curve;
    tk_curve_f64 wide;
} activation_ctx;

typedef union block {
    float f32[BLOCK];
    double f64[BLOCK];
} block;

/* n elements converted to the type of computation, and back. */
static void load(block *out, const void *inp, int64_t n, tk_dtype dtype) {
    if (tk_is_half(dtype))
        tk_widen(out->f32, inp, n, dtype);
    else
        memcpy(out, inp, (size_t)n * tk_size(dtype));
}

static void store(void *out, const block *inp, int64_t n, tk_dtype dtype) {
    if (tk_is_half(dtype))
        tk_narrow(out, inp->f32, n, dtype);
    else
        memcpy(out, inp, (size_t)n * tk_size(dtype));
}

TK_VECTOR static void multiply(block *out, const block *by, int64_t n, bool wide) {
    if (wide)
        for (int64_t i = 0; i < n; i++)
            out->f64[i] = by->f64[i] * out->f64[i];
    else
        for (int64_t i = 0; i < n; i++)
            out->f32[i] = by->f32[i] * out->f32[i];
}

static void mask_block(const activation_ctx *c, int64_t at, int64_t n) {
    const size_t size = tk_size(c->dtype);
    uint8_t flags[BLOCK];
    block x, y;
    load(&x, c->inp + (size_t)at * size, n, c->dtype);
    tk_pointwise(tk_queue_serial(), c->row, &y, &x, n, c->alpha, tk_wide(c->dtype));
    if (c->dtype == TK_F64)
        mask_f64(y.f64, flags, x.f64, n, &c->wide);
    else
        mask_f32(y.f32, flags, x.f32, n, &c->curve);
    store(c->result + (size_t)at * size, &y, n, c->dtype);
    if (c->right)
        tk_pack_bits(tk_queue_serial(), c->right + at / 8, flags, n);
}

static void decode_block(const activation_ctx *c, int64_t at, int64_t n) {
    const size_t size = tk_size(c->dtype);
    uint8_t flags[BLOCK];
    block y, dy, slope;
    load(&y, c->inp + (size_t)at * size, n, c->dtype);
    load(&dy, c->dout + (size_t)at * size, n, c->dtype);
    tk_unpack_bits(tk_queue_serial(), flags, c->sides + at / 8, n);
    if (c->dtype == TK_F64)
        decode_f64(slope.f64, y.f64, flags, n, &c->wide);
    else
        decode_f32(slope.f32, y.f32, flags, n, &c->curve);
    multiply(&slope, &dy, n, c->dtype == TK_F64);
    store(c->result + (size_t)at * size, &slope, n, c->dtype);
}

static void range(void *ctx, tk_share share) {
    const activation_ctx *c = ctx;
    for (int64_t at = share.begin; at < share.end; at += BLOCK) {
        int64_t n = share.end - at < BLOCK ? share.end - at : BLOCK;
        (c->dout ? decode_block : mask_block)(c, at, n);
    }
}

static void run(tk_queue *q, activation_ctx c, int64_t n) {
    if (c.dtype == TK_F64)
        tk_activation_curve_f64(&c.wide, c.row, c.alpha);
    else
        tk_activation_curve_f32(&c.curve, c.row, c.alpha);
    tk_parallel_for(q, n, TK_GRAIN / 4, range, &c);
}

void tk_activation_masked(tk_queue *q, tk_pointwise_row row, void *out, uint8_t *right, const void *inp, int64_t n,
                          double alpha, tk_dtype dtype) {
    run(q, (activation_ctx){.row = row, .result = out, .inp = inp, .right = right, .alpha = alpha, .dtype = dtype}, n);
}

void tk_activation_from_output(tk_queue *q, tk_pointwise_row row, void *dinp, const void *dout, const void *out,
                               const uint8_t *right, int64_t n, double alpha, tk_dtype dtype) {
    const activation_ctx c = {
        .row = row, .result = dinp, .inp = out, .dout = dout, .sides = right, .alpha = alpha, .dtype = dtype};
    run(q, c, n);
}
