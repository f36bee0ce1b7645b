/* reduce_cpu.c: a reduction as rows (the last dim is reduced) or columns (it is kept) of reducers, which reduce_tmpl.h
 * makes for every element type. Long single rows are cut into chunks whose sums stand in the workspace, so that all
 * threads work. */
#include "../common/element.h"
#include "../common/math.h"
#include "../common/parallel.h"
#include "reduce.h"
#include <math.h>

typedef struct reducer {
    void (*row)(void *acc, const void *x, int64_t n, const void *m);     /* joins n elements to one accumulator */
    void (*column)(void *part, const void *x, int64_t n, const void *m); /* joins an element to each of n parts */
    void (*flush)(void *acc, void *part, int64_t n);                     /* parts to accumulators */
    void (*start)(void *acc, void *part, int64_t n);
    void (*finish)(void *out, const void *acc, int64_t n, tk_reduce_op op, int64_t count);
    size_t size, acc_size;
} reducer;

TK_INLINE float finite_f32(float x) { return x - x == 0 ? x : 0; }
TK_INLINE double finite_f64(double x) { return x - x == 0 ? x : 0; }

#define TEMPLATE "../reduce/reduce_type.h"
#include "../common/each_float.h"
#define INT_ABS(x) ((x) < 0 ? 0 - (U)(x) : (U)(x))
#define T int32_t
#define SUFFIX i32
#define SUM uint32_t
#define ABS INT_ABS
#include "reduce_type.h"
#define T int64_t
#define SUFFIX i64
#define SUM uint64_t
#define ABS INT_ABS
#include "reduce_type.h"
#define T uint32_t
#define SUFFIX u32
#define SUM uint32_t
#define ABS(x) (x)
#include "reduce_type.h"
#define T uint64_t
#define SUFFIX u64
#define SUM uint64_t
#define ABS(x) (x)
#include "reduce_type.h"

/* The larger and the smaller of two; NaN wins. */
#define LARGER(a, b) ((b) > (a) ? (b) : (a))
#define SMALLER(a, b) ((b) < (a) ? (b) : (a))
#define LARGER_OR_NAN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define SMALLER_OR_NAN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define ITSELF(x, m) (x)
#define MEAN(sum, count) (sum)
#define FINITE(x) (x)
#define T float
#define SUFFIX f32
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define LARGER_OF LARGER_OR_NAN
#define SMALLER_OF SMALLER_OR_NAN
#include "reduce_extreme.h"
#define T double
#define SUFFIX f64
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define LARGER_OF LARGER_OR_NAN
#define SMALLER_OF SMALLER_OR_NAN
#include "reduce_extreme.h"
#define T float
#define SUFFIX f16
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define LARGER_OF LARGER_OR_NAN
#define SMALLER_OF SMALLER_OR_NAN
#include "reduce_extreme.h"
#define T float
#define SUFFIX bf16
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define LARGER_OF LARGER_OR_NAN
#define SMALLER_OF SMALLER_OR_NAN
#include "reduce_extreme.h"
#define T int8_t
#define SUFFIX i8
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#define LARGER_OF LARGER
#define SMALLER_OF SMALLER
#include "reduce_extreme.h"
#define T uint8_t
#define SUFFIX u8
#define LOWEST 0
#define HIGHEST UINT8_MAX
#define LARGER_OF LARGER
#define SMALLER_OF SMALLER
#include "reduce_extreme.h"
#define T int32_t
#define SUFFIX i32
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#define LARGER_OF LARGER
#define SMALLER_OF SMALLER
#include "reduce_extreme.h"
#define T uint32_t
#define SUFFIX u32
#define LOWEST 0
#define HIGHEST UINT32_MAX
#define LARGER_OF LARGER
#define SMALLER_OF SMALLER
#include "reduce_extreme.h"
#define T int64_t
#define SUFFIX i64
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define LARGER_OF LARGER
#define SMALLER_OF SMALLER
#include "reduce_extreme.h"
#define T uint64_t
#define SUFFIX u64
#define LOWEST 0
#define HIGHEST UINT64_MAX
#define LARGER_OF LARGER
#define SMALLER_OF SMALLER
#include "reduce_extreme.h"

/* --- finding one ------------------------------------------------------------------------------ */

static const reducer *extreme(tk_dtype dtype, bool largest) {
    switch (dtype) {
    case TK_F32: return largest ? &max_f32 : &min_f32;
    case TK_F64: return largest ? &max_f64 : &min_f64;
    case TK_F16: return largest ? &max_f16 : &min_f16;
    case TK_BF16: return largest ? &max_bf16 : &min_bf16;
    case TK_I8: return largest ? &max_i8 : &min_i8;
    case TK_U8:
    case TK_BOOL: return largest ? &max_u8 : &min_u8;
    case TK_I32: return largest ? &max_i32 : &min_i32;
    case TK_U32: return largest ? &max_u32 : &min_u32;
    case TK_I64: return largest ? &max_i64 : &min_i64;
    case TK_U64: return largest ? &max_u64 : &min_u64;
    default: return NULL;
    }
}

static const reducer *find(tk_reduce_op op, tk_dtype dtype) {
    if (op == TK_REDUCE_MAX || op == TK_REDUCE_MIN)
        return extreme(dtype, op == TK_REDUCE_MAX);
    switch (dtype) {
    case TK_F32: return reducers_f32[op];
    case TK_F64: return reducers_f64[op];
    case TK_F16: return reducers_f16[op];
    case TK_BF16: return reducers_bf16[op];
    case TK_I32: return reducers_i32[op];
    case TK_U32: return reducers_u32[op];
    case TK_I64: return reducers_i64[op];
    case TK_U64: return reducers_u64[op];
    default: return NULL;
    }
}

bool tk_reduce_has(tk_reduce_op op, tk_dtype dtype) { return find(op, dtype) != NULL; }

/* --- the shape -------------------------------------------------------------------------------- */

void tk_reduction_init(tk_reduction *r, int rank, const int64_t *dims, const bool *is_reduced) {
    *r = (tk_reduction){.n_out = 1, .n_each = 1, .inner = 1, .run = 1};
    int64_t stride = 1, sizes[TK_MAX_RANK], strides[TK_MAX_RANK];
    bool kinds[TK_MAX_RANK];
    int n = 0; /* merged dims, innermost first */
    for (int i = rank - 1; i >= 0; stride *= dims[i], i--) {
        *(is_reduced[i] ? &r->n_each : &r->n_out) *= dims[i];
        if (dims[i] == 1)
            continue;
        if (n > 0 && kinds[n - 1] == is_reduced[i]) {
            sizes[n - 1] *= dims[i];
            continue;
        }
        sizes[n] = dims[i];
        strides[n] = stride;
        kinds[n++] = is_reduced[i];
    }
    if (n > 0)
        *(kinds[0] ? &r->run : &r->inner) = sizes[0];
    for (int i = n - 1; i > 0; i--) {
        int at = kinds[i] ? r->n_reduced++ : r->n_outer++;
        (kinds[i] ? r->reduced : r->outer)[at] = sizes[i];
        (kinds[i] ? r->reduced_strides : r->outer_strides)[at] = strides[i];
    }
}

/* The offset of the index-th place of a list of dims. */
static int64_t place(int64_t index, int n, const int64_t *dims, const int64_t *strides) {
    int64_t offset = 0;
    for (int i = n - 1; i >= 0; i--) {
        offset += index % dims[i] * strides[i];
        index /= dims[i];
    }
    return offset;
}

/* --- the loops -------------------------------------------------------------------------------- */

#define TILE 256        /* columns at a time: their sums stay in the first-level cache */
#define COLUMN_BLOCK 16 /* rows in a block of a column's sum */
#define CHUNK 65536     /* elements of a long row that one thread takes */

typedef union sums {
    double as_double[TILE];
    uint64_t as_int[TILE];
} sums;

typedef struct reduce_ctx {
    const reducer *fn;
    const tk_reduction *r;
    tk_reduce_op op;
    char *out;
    const char *inp, *maximum; /* of each result, or NULL */
    char *partial;             /* [n_out, chunks] */
    int64_t chunks;
} reduce_ctx;

static const void *maximum_at(const reduce_ctx *c, int64_t index) {
    return c->maximum ? c->maximum + (size_t)index * c->fn->size : NULL;
}

static void rows(void *ctx, tk_share share) {
    const reduce_ctx *c = ctx;
    const tk_reduction *r = c->r;
    int64_t segments = r->n_each > 0 ? r->n_each / r->run : 0;
    for (int64_t o = share.begin; o < share.end; o++) {
        sums acc, part;
        const char *base = c->inp + (size_t)place(o, r->n_outer, r->outer, r->outer_strides) * c->fn->size;
        c->fn->start(&acc, &part, 1);
        for (int64_t s = 0; s < segments; s++)
            c->fn->row(&acc, base + (size_t)place(s, r->n_reduced, r->reduced, r->reduced_strides) * c->fn->size,
                       r->run, maximum_at(c, o));
        c->fn->finish(c->out + (size_t)o * c->fn->size, &acc, 1, c->op, r->n_each);
    }
}

static void column_tile(const reduce_ctx *c, int64_t outer, int64_t first, int64_t n) {
    const tk_reduction *r = c->r;
    int64_t base = place(outer, r->n_outer, r->outer, r->outer_strides) + first, at = outer * r->inner + first;
    int64_t last_dim = r->n_reduced > 0 ? r->reduced[r->n_reduced - 1] : 1, rows_done = 0;
    int64_t last_stride = r->n_reduced > 0 ? r->reduced_strides[r->n_reduced - 1] : 0;
    sums acc, part;
    c->fn->start(&acc, &part, n);
    for (int64_t s = 0; s < r->n_each; s += last_dim) {
        const char *x = c->inp + (size_t)(base + place(s, r->n_reduced, r->reduced, r->reduced_strides)) * c->fn->size;
        for (int64_t i = 0; i < last_dim; i++, x += (size_t)last_stride * c->fn->size) {
            c->fn->column(&part, x, n, maximum_at(c, at));
            if (++rows_done % COLUMN_BLOCK == 0)
                c->fn->flush(&acc, &part, n);
        }
    }
    c->fn->flush(&acc, &part, n);
    c->fn->finish(c->out + (size_t)at * c->fn->size, &acc, n, c->op, r->n_each);
}

static void columns(void *ctx, tk_share share) {
    const reduce_ctx *c = ctx;
    while (share.begin < share.end) {
        int64_t outer = share.begin / c->r->inner, first = share.begin % c->r->inner, n = c->r->inner - first;
        n = n < TILE ? n : TILE;
        n = n < share.end - share.begin ? n : share.end - share.begin;
        column_tile(c, outer, first, n);
        share.begin += n;
    }
}

static void chunks(void *ctx, tk_share share) {
    const reduce_ctx *c = ctx;
    for (int64_t i = share.begin; i < share.end; i++) {
        int64_t row = i / c->chunks, first = i % c->chunks * CHUNK,
                n = c->r->run - first < CHUNK ? c->r->run - first : CHUNK;
        char *acc = c->partial + (size_t)i * c->fn->acc_size;
        sums part;
        const char *base = c->inp + (size_t)(row * c->r->run + first) * c->fn->size;
        c->fn->start(acc, &part, 1);
        c->fn->row(acc, base, n, maximum_at(c, row));
    }
}

/* Adds up the sums of chunks: sums of a kind are joined by the reducer that makes them; those of LogSumExp and squares
 * by plain sums. */
static void join_chunks(const reduce_ctx *c, const reducer *joiner) {
    for (int64_t row = 0; row < c->r->n_out; row++) {
        sums acc, part;
        joiner->start(&acc, &part, 1);
        joiner->row(&acc, c->partial + (size_t)(row * c->chunks) * c->fn->acc_size, c->chunks, NULL);
        c->fn->finish(c->out + (size_t)row * c->fn->size, &acc, 1, c->op, c->r->n_each);
    }
}

/* The reducer over accumulators: of doubles for floats' sums; integers' sums and extremes are of the element's own
 * size, but floats for 16 bits. */
static const reducer *joiner_of(tk_reduce_op op, tk_dtype dtype) {
    dtype = tk_wide(dtype);
    bool is_float = dtype == TK_F32 || dtype == TK_F64;
    if (op == TK_REDUCE_MAX || op == TK_REDUCE_MIN)
        return extreme(dtype, op == TK_REDUCE_MAX);
    if (is_float || op == TK_REDUCE_LOG_SUM_EXP)
        return op == TK_REDUCE_PROD ? &prod_f64 : &sum_f64;
    return find(op == TK_REDUCE_PROD ? op : TK_REDUCE_SUM, dtype);
}

static int64_t chunk_count(const tk_reduction *r) {
    bool one_run = r->n_reduced == 0 && r->inner == 1 && r->run >= 2 * CHUNK;
    return one_run ? (r->run - 1) / CHUNK + 1 : 1;
}

size_t tk_reduce_workspace(const tk_reduction *r) {
    int64_t n = chunk_count(r);
    return n > 1 ? (size_t)(n * r->n_out) * sizeof(double) : 0;
}

static void reduce_once(tk_queue *q, void *out, const void *inp, const void *maximum, const tk_reduction *r,
                        tk_reduce_op op, tk_dtype dtype, void *workspace) {
    reduce_ctx c = {find(op, dtype), r, op, out, inp, maximum, workspace, chunk_count(r)};
    if (c.chunks > 1) {
        tk_parallel_for(q, r->n_out * c.chunks, 1, chunks, &c);
        join_chunks(&c, joiner_of(op, dtype));
    } else if (r->inner == 1 || r->n_each == 0) {
        tk_parallel_for(q, r->n_out, TK_GRAIN / (r->n_each + 1) + 1, rows, &c);
    } else {
        int64_t grain = TK_GRAIN / (r->n_each + 1) / 16 * 16 + 16;
        tk_parallel_for(q, r->n_out, grain, columns, &c);
    }
}

void tk_reduce(tk_queue *q, void *out, const void *inp, const tk_reduction *r, tk_reduce_op op, tk_dtype dtype,
               void *workspace) {
    if (op != TK_REDUCE_LOG_SUM_EXP || r->n_each == 0) {
        reduce_once(q, out, inp, NULL, r, op, dtype, workspace);
        return;
    }
    reduce_once(q, out, inp, NULL, r, TK_REDUCE_MAX, dtype, workspace);
    reduce_once(q, out, inp, out, r, op, dtype, workspace);
}
