/* binary_cpu.c: the binary ops compiled for every element type, found by name, and run over the loops of broadcasting.
 */
#include "../common/element.h"
#include "../common/functions.h"
#include "../common/parallel.h"
#include "binary_ops.h"
#include "elementwise.h"
#include <string.h>

#define T float
#define SUFFIX f32
#define HALVES
#define DTYPE TK_F32
#define OPS TK_BINARY_FLOAT
#define VECTOR TK_VECTOR
#define FN(name) tk_##name##_f32
#include "binary_tmpl.h"
#undef OPS
#define T double
#define SUFFIX f64
#define DTYPE TK_F64
#define OPS TK_BINARY_FLOAT
#define VECTOR TK_VECTOR
#define FN(name) tk_##name##_f64
#include "binary_tmpl.h"
#undef OPS

#define TEMPLATE "../elementwise/binary_tmpl.h"
#define OPS TK_CAT(TK_BINARY, KIND)
#include "../common/each_int.h"
#undef OPS

#define T uint8_t
#define U uint32_t
#define SUFFIX b8
#define DTYPE TK_BOOL
#define OPS TK_BINARY_BOOL
#define VECTOR
#include "binary_tmpl.h"
#undef OPS

#define TABLE(rows)                                                                                                    \
    { rows, sizeof(rows) / sizeof((rows)[0]) }
static const struct {
    const tk_binary *rows;
    int64_t count;
} tables[] = {
    TABLE(rows_f32), TABLE(rows_f64), TABLE(rows_i8),   TABLE(rows_i16), TABLE(rows_i32),
    TABLE(rows_i64), TABLE(rows_u8),  TABLE(rows_u16),  TABLE(rows_u32), TABLE(rows_u64),
    TABLE(rows_b8),  TABLE(rows_f16), TABLE(rows_bf16),
};

const tk_binary *tk_binary_at(int64_t index) {
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        if (index < tables[t].count)
            return &tables[t].rows[index];
        index -= tables[t].count;
    }
    return NULL;
}

const tk_binary *tk_binary_find(const char *op, tk_dtype dtype) {
    for (int64_t i = 0; tk_binary_at(i); i++)
        if (tk_binary_at(i)->dtype == dtype && strcmp(tk_binary_at(i)->op, op) == 0)
            return tk_binary_at(i);
    return NULL;
}

typedef struct binary_ctx {
    const tk_binary *binary;
    const tk_bcast *bc;
    char *out;
    const char *a, *b;
    size_t size, out_size;
} binary_ctx;

/* The variant of a run: which operands are repeated along it. Both are where a third one has the dim. */
static tk_binary_fn variant_of(const tk_binary *binary, const int64_t *step) {
    return binary->fn[(step[0] ? 0 : 2) + (step[1] ? 0 : 1)];
}

static void half_run(const tk_binary *binary, char *out, const char *a, const char *b, int64_t n, const int64_t *step) {
    bool is_half = tk_is_half(binary->out);
    float as[TK_HALF_BLOCK], bs[TK_HALF_BLOCK], results[TK_HALF_BLOCK];
    tk_widen(as, a, step[0] ? 0 : 1, binary->dtype); /* a repeated operand stays */
    tk_widen(bs, b, step[1] ? 0 : 1, binary->dtype);
    for (int64_t at = 0; at < n; at += TK_HALF_BLOCK) {
        int64_t m = n - at < TK_HALF_BLOCK ? n - at : TK_HALF_BLOCK;
        tk_widen(as, a + (size_t)(at * step[0]) * sizeof(uint16_t), step[0] ? m : 0, binary->dtype);
        tk_widen(bs, b + (size_t)(at * step[1]) * sizeof(uint16_t), step[1] ? m : 0, binary->dtype);
        char *to = out + (size_t)at * tk_size(binary->out);
        variant_of(binary, step)(is_half ? (char *)results : to, as, bs, m);
        if (is_half)
            tk_narrow(to, results, m, binary->out);
    }
}

static void binary_one_run(void *ctx, int64_t at, int64_t n, const int64_t *offset, const int64_t *step) {
    const binary_ctx *c = ctx;
    char *out = c->out + (size_t)at * c->out_size;
    const char *a = c->a + (size_t)offset[0] * c->size, *b = c->b + (size_t)offset[1] * c->size;
    if (tk_is_half(c->binary->dtype))
        half_run(c->binary, out, a, b, n, step);
    else
        variant_of(c->binary, step)(out, a, b, n);
}

static void binary_range(void *ctx, tk_share share) {
    const binary_ctx *c = ctx;
    tk_bcast_walk(c->bc, share.begin, share.end, binary_one_run, ctx);
}

void tk_binary_run(tk_queue *q, const tk_binary *binary, void *out, const void *a, const void *b, const tk_bcast *bc) {
    binary_ctx c = {binary, bc, out, a, b, tk_size(binary->dtype), tk_size(binary->out)};
    tk_parallel_for(q, bc->count, TK_GRAIN, binary_range, &c);
}
