/* pool_cpu.c: pools by direct loops, and windows put back; planes go to threads. */
#include "pool.h"
#include "../common/element.h"
#include "../common/parallel.h"
#include <math.h>

typedef struct pool_ctx {
    const tk_pool *pool;
    void *out;
    int64_t *indices;
    const void *inp;
    void (*fn)(const struct pool_ctx *c, int64_t plane);
} pool_ctx;
typedef void (*pool_fn)(const pool_ctx *c, int64_t plane);

/* The part of a window that lies in the input, and how many of its elements lie in the input and in the padded input.
 */
typedef struct box {
    int64_t from[TK_WINDOW_RANK], to[TK_WINDOW_RANK], inside, padded;
} box;

static box window_at(const tk_window *w, int64_t at) {
    int64_t o[] = {at / (w->out[1] * w->out[2]), at / w->out[2] % w->out[1], at % w->out[2]};
    box b = {.inside = 1, .padded = 1};
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        int64_t first = o[d] * w->stride[d] - w->pad_begin[d], step = w->dilation[d],
                end = first + (w->kernel[d] - 1) * step + 1;
        int64_t most = w->inp[d] + w->pad_end[d];
        b.from[d] = first >= 0 ? first : first + (-first + step - 1) / step * step;
        b.to[d] = end < w->inp[d] ? end : w->inp[d];
        b.inside *= b.to[d] > b.from[d] ? (b.to[d] - b.from[d] - 1) / step + 1 : 0;
        end = end < most ? end : most;
        b.padded *= end > first ? (end - first - 1) / step + 1 : 0;
    }
    return b;
}

/* The place along dim d at which the window's tap k reads element i; -1: none does. */
static int64_t window_place(const tk_window *w, int d, int64_t i, int64_t k) {
    const int64_t at = i + w->pad_begin[d] - k * w->dilation[d];
    return at >= 0 && at % w->stride[d] == 0 && at / w->stride[d] < w->out[d] ? at / w->stride[d] : -1;
}

#define TEMPLATE "../pool/pool_tmpl.h"
#include "../common/each_float.h"
#define T int8_t
#define SUFFIX i8
#define LOWEST INT8_MIN
#include "pool_tmpl.h"
#define T uint8_t
#define SUFFIX u8
#define LOWEST 0
#include "pool_tmpl.h"

static pool_fn find(tk_pool_op op, tk_dtype dtype) {
    switch (dtype) {
    case TK_F32: return op == TK_POOL_MAX ? max_plane_f32 : mean_plane_f32;
    case TK_F64: return op == TK_POOL_MAX ? max_plane_f64 : mean_plane_f64;
    case TK_F16: return op == TK_POOL_MAX ? max_plane_f16 : mean_plane_f16;
    case TK_BF16: return op == TK_POOL_MAX ? max_plane_bf16 : mean_plane_bf16;
    case TK_I8: return op == TK_POOL_MAX ? max_plane_i8 : NULL;
    case TK_U8: return op == TK_POOL_MAX ? max_plane_u8 : NULL;
    default: return NULL;
    }
}

static void range(void *ctx, tk_share share) {
    const pool_ctx *c = ctx;
    for (int64_t plane = share.begin; plane < share.end; plane++)
        c->fn(c, plane);
}

bool tk_pool_has(tk_pool_op op, tk_dtype dtype) { return find(op, dtype) != NULL; }

void tk_pool_run(tk_queue *q, void *out, int64_t *indices, const void *inp, const tk_pool *pool, tk_dtype dtype) {
    pool_ctx c = {pool, out, indices, inp, find(pool->op, dtype)};
    int64_t work = tk_volume(pool->window.out) * tk_volume(pool->window.kernel);
    tk_parallel_for(q, pool->planes, TK_GRAIN / 4 / (work + 1) + 1, range, &c);
}

void tk_fold(tk_queue *q, void *out, const void *inp, int64_t planes, const tk_window *window, tk_dtype dtype) {
    tk_pool pool = {.window = *window};
    pool_ctx c = {&pool, out, NULL, inp, TK_OF_FLOAT(dtype, fold_plane)};
    int64_t work = tk_volume(window->inp) * tk_volume(window->kernel);
    tk_parallel_for(q, planes, TK_GRAIN / 4 / (work + 1) + 1, range, &c);
}
