/* unary_cpu.c: the unary ops compiled for every element type, found by name. float uses common/math.h and becomes
 * vector code; double uses the C library (common/functions.h). */
#include "../common/element.h"
#include "../common/functions.h"
#include "../common/parallel.h"
#include "elementwise.h"
#include "unary_ops.h"
#include <float.h>

#define T float
#define SUFFIX f32
#define HALVES
#define DTYPE TK_F32
#define OPS TK_UNARY_FLOAT
#define FN(name) tk_##name##_f32
#define LARGEST FLT_MAX
#include "unary_tmpl.h"
#undef OPS
#define T double
#define SUFFIX f64
#define DTYPE TK_F64
#define OPS TK_UNARY_FLOAT
#define FN(name) tk_##name##_f64
#define LARGEST DBL_MAX
#include "unary_tmpl.h"
#undef OPS

#define TEMPLATE "../elementwise/unary_tmpl.h"
#define OPS TK_CAT(TK_UNARY, KIND)
#include "../common/each_int.h"
#undef OPS

#define T uint8_t
#define U uint32_t
#define SUFFIX b8
#define DTYPE TK_BOOL
#define OPS TK_UNARY_BOOL
#include "unary_tmpl.h"
#undef OPS

#define TABLE(rows)                                                                                                    \
    { rows, sizeof(rows) / sizeof((rows)[0]) }
static const struct {
    const tk_unary *rows;
    int64_t count;
} tables[] = {
    TABLE(rows_f32), TABLE(rows_f64), TABLE(rows_i8),   TABLE(rows_i16), TABLE(rows_i32),
    TABLE(rows_i64), TABLE(rows_u8),  TABLE(rows_u16),  TABLE(rows_u32), TABLE(rows_u64),
    TABLE(rows_b8),  TABLE(rows_f16), TABLE(rows_bf16),
};

const tk_unary *tk_unary_at(int64_t index) {
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        if (index < tables[t].count)
            return &tables[t].rows[index];
        index -= tables[t].count;
    }
    return NULL;
}

const tk_unary *tk_unary_find(const char *op, tk_dtype dtype) {
    for (int64_t i = 0; tk_unary_at(i); i++)
        if (tk_unary_at(i)->dtype == dtype && strcmp(tk_unary_at(i)->op, op) == 0)
            return tk_unary_at(i);
    return NULL;
}

typedef struct unary_ctx {
    const tk_unary *unary;
    char *out;
    const char *inp;
    const double *params;
} unary_ctx;

static void unary_range(void *ctx, tk_share share) {
    const unary_ctx *c = ctx;
    size_t out_size = tk_size(c->unary->out), inp_size = tk_size(c->unary->dtype);
    c->unary->fn(c->out + (size_t)share.begin * out_size, c->inp + (size_t)share.begin * inp_size,
                 share.end - share.begin, c->params);
}

static void half_range(void *ctx, tk_share share) {
    const unary_ctx *c = ctx;
    const tk_unary *unary = c->unary;
    bool is_half = tk_is_half(unary->out);
    float block[TK_HALF_BLOCK];
    for (int64_t at = share.begin; at < share.end; at += TK_HALF_BLOCK) {
        int64_t n = share.end - at < TK_HALF_BLOCK ? share.end - at : TK_HALF_BLOCK;
        char *out = c->out + (size_t)at * tk_size(unary->out);
        tk_widen(block, c->inp + (size_t)at * tk_size(unary->dtype), n, unary->dtype);
        unary->fn(is_half ? (char *)block : out, block, n, c->params);
        if (is_half)
            tk_narrow(out, block, n, unary->out);
    }
}

void tk_unary_run(tk_queue *q, const tk_unary *unary, void *out, const void *inp, int64_t n, const double *params) {
    unary_ctx c = {unary, out, inp, params};
    tk_parallel_for(q, n, TK_GRAIN / 2, tk_is_half(unary->dtype) ? half_range : unary_range, &c);
}
