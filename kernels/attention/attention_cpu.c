/* attention_cpu.c: items of attention_tmpl.h to threads. Products are those of MatMul, called for one block in one
 * thread; rows of the softmax, dropped elements and their draw are those of kernels/softmax and kernels/dropout. */
#include "../common/element.h"
#include "../common/functions.h"
#include "../common/parallel.h"
#include "../dropout/dropout.h"
#include "../dropout/dropout_math.h"
#include "../matmul/matmul.h"
#include "attention.h"
#include <math.h>
#include <string.h>

#define SUM_BLOCK 16 /* of a column of ReduceSum: reduce_cpu.c */
#define DRAWN 1024   /* elements drawn at a time */
#define BLOCK_BYTES                                                                                                    \
    (1024 * 1024) /* of a block of rows of P: few rows would make slow products, many would not fit the cache */
#define FEWEST_ROWS 128

typedef struct attention_ctx {
    tk_queue *serial;
    tk_attention_results out;
    tk_attention_operands in;
    const void *statistics; /* of all rows, as they were; NULL: to be computed */
    const tk_attention *a;
    uint32_t threshold;
    double keep;
    const tk_draw *draw;
    void *workspace;
    size_t thread_bytes;
    int64_t rows; /* of a block */
} attention_ctx;

typedef struct gradient_ctx {
    tk_queue *serial;
    tk_attention_gradients out;
    tk_attention_saved in;
    const tk_attention *a;
    const attention_ctx *again; /* operands to recompute P from; NULL: in.p is given */
    tk_attention_groups groups;
    double keep;
    void *workspace;
    size_t thread_bytes;
    int64_t rows;
} gradient_ctx;

/* Bytes of an element of the type of computation. */
static size_t wide_size(const tk_attention *a) { return tk_is_half(a->dtype) ? sizeof(float) : tk_size(a->dtype); }

static int64_t block_rows(const tk_attention *a) {
    int64_t fit = BLOCK_BYTES / (int64_t)wide_size(a) / (a->t + 1) / 16 * 16;
    fit = fit > FEWEST_ROWS ? fit : FEWEST_ROWS;
    fit = a->s < fit ? a->s : fit;
    return fit > 0 ? fit : 1;
}

/* Of one thread, in whole cache lines: blocks of P; of 16-bit types a block's rows of Q and Y, and copies of an item's
 * K^T and V. */
static size_t scratch_bytes(const tk_attention *a, int64_t blocks, int64_t copies) {
    int64_t rows = block_rows(a), elements = rows * a->t * blocks;
    if (tk_is_half(a->dtype))
        elements += (rows + copies * a->t) * (a->d + a->e);
    return ((size_t)elements * wide_size(a) + 63) / 64 * 64;
}
static size_t forward_bytes(const tk_attention *a) { return scratch_bytes(a, 1, 1); }
/* P, another map and, with a softcap, slopes. */
static int64_t backward_blocks(const tk_attention *a) { return a->softcap != 0 ? 3 : 2; }
static size_t backward_bytes(const tk_attention *a) { return scratch_bytes(a, backward_blocks(a), 2); }

/* The tiled gradient adds to these: sums of a group of more than SUM_BLOCK members, their accumulators where the result
 * is of 16 bits, and flags of a block's kept elements. */
static size_t sum_bytes(const tk_attention *a, const tk_attention_groups *groups) {
    bool is_long = groups->sums && groups->members > SUM_BLOCK;
    return (size_t)(is_long ? a->s * a->t : 0) * sizeof(double);
}
static size_t part_bytes(const tk_attention *a, const tk_attention_groups *groups) {
    return (size_t)(groups->sums && tk_is_half(a->dtype) ? a->s * a->t : 0) * sizeof(float);
}
static size_t tiled_bytes(const tk_attention *a, const tk_attention_groups *groups) {
    size_t kept = (size_t)(block_rows(a) * a->t);
    return (backward_bytes(a) + sum_bytes(a, groups) + part_bytes(a, groups) + kept + 63) / 64 * 64;
}

static void product(tk_queue *q, void *out, const void *a, const void *b, tk_product p, tk_dtype dtype) {
    p.batch = 1;
    tk_product_run(q, out, a, b, &p, dtype, NULL);
}
static void product_f32(tk_queue *q, float *out, const float *a, const float *b, tk_product p) {
    product(q, out, a, b, p, TK_F32);
}
static void product_f64(tk_queue *q, double *out, const double *a, const double *b, tk_product p) {
    product(q, out, a, b, p, TK_F64);
}

#define T float
#define SUFFIX f32
#define DTYPE TK_F32
#include "../softmax/softmax_rows.h"
#include "attention_tmpl.h"
#define T double
#define SUFFIX f64
#define DTYPE TK_F64
#include "../softmax/softmax_rows.h"
#include "attention_tmpl.h"
#define T float
#define SUFFIX f16
#define DTYPE TK_F16
#define HALF
#include "attention_tmpl.h"
#define T float
#define SUFFIX bf16
#define DTYPE TK_BF16
#define HALF
#include "attention_tmpl.h"

size_t tk_attention_workspace(const tk_attention *a, int slots) { return forward_bytes(a) * (size_t)slots; }
size_t tk_attention_grad_workspace(const tk_attention *a, int slots) { return backward_bytes(a) * (size_t)slots; }
size_t tk_attention_tiled_grad_workspace(const tk_attention *a, const tk_attention_groups *groups, int slots) {
    return tiled_bytes(a, groups) * (size_t)(slots < groups->groups ? slots : groups->groups);
}

/* The ratio with dropout, else 0; false, and a fault, where it is no ratio. */
static bool read_ratio(tk_queue *q, bool drops, tk_number ratio, double *out_ratio) {
    *out_ratio = drops ? tk_number_get(ratio) : 0;
    bool fits = *out_ratio >= 0 && *out_ratio < 1;
    tk_fault(q, fits ? TK_OK : TK_BAD_VALUE);
    return fits;
}

void tk_attention_run(tk_queue *q, tk_attention_results out, tk_attention_operands in, const tk_attention *a,
                      tk_number ratio, tk_seed seed, void *workspace) {
    double dropped;
    tk_draw draw = {0};
    if (!read_ratio(q, seed.pair != NULL, ratio, &dropped))
        return;
    if (seed.pair)
        draw = tk_draw_of(seed);
    attention_ctx c = {.serial = tk_queue_serial_of(q),
                       .out = out,
                       .in = in,
                       .a = a,
                       .threshold = tk_draw_threshold(&draw, dropped),
                       .keep = tk_dropout_divisor(dropped, a->dtype),
                       .draw = seed.pair ? &draw : NULL,
                       .workspace = workspace,
                       .thread_bytes = forward_bytes(a),
                       .rows = block_rows(a)};
    if (a->s > 0)
        tk_parallel_slots(q, a->items, TK_OF_FLOAT(a->dtype, forward), &c);
}

void tk_attention_grad(tk_queue *q, tk_attention_gradients out, tk_attention_saved in, const tk_attention *a,
                       tk_number ratio, void *workspace) {
    double dropped;
    if (!read_ratio(q, in.is_dropped, ratio, &dropped))
        return;
    gradient_ctx c = {.serial = tk_queue_serial_of(q),
                      .out = out,
                      .in = in,
                      .a = a,
                      .groups = {.groups = a->items, .members = 1, .group_at = {.step = 1}},
                      .keep = tk_dropout_divisor(dropped, a->dtype),
                      .workspace = workspace,
                      .thread_bytes = backward_bytes(a),
                      .rows = block_rows(a)};
    tk_parallel_slots(q, a->items, TK_OF_FLOAT(a->dtype, backward), &c);
}

void tk_attention_tiled_grad(tk_queue *q, tk_attention_gradients out, tk_attention_after after,
                             tk_attention_operands in, const tk_attention *a, const tk_attention_groups *groups,
                             tk_number ratio, tk_seed seed, void *workspace) {
    double dropped;
    tk_draw draw = {0};
    if (!read_ratio(q, seed.pair != NULL, ratio, &dropped))
        return;
    if (seed.pair)
        draw = tk_draw_of(seed);
    attention_ctx again = {.serial = tk_queue_serial_of(q),
                           .in = in,
                           .statistics = after.statistics,
                           .a = a,
                           .threshold = tk_draw_threshold(&draw, dropped),
                           .draw = seed.pair ? &draw : NULL};
    gradient_ctx c = {.serial = tk_queue_serial_of(q),
                      .out = out,
                      .in = {.dout = after.dout,
                             .q = in.q,
                             .kt = in.kt,
                             .v = in.v,
                             .is_dropped = seed.pair != NULL,
                             .mask = isfinite(a->fill) ? in.mask : NULL},
                      .a = a,
                      .again = &again,
                      .groups = *groups,
                      .keep = tk_dropout_divisor(dropped, a->dtype),
                      .workspace = workspace,
                      .thread_bytes = tiled_bytes(a, groups),
                      .rows = block_rows(a)};
    tk_parallel_slots(q, groups->groups, TK_OF_FLOAT(a->dtype, backward), &c);
}
