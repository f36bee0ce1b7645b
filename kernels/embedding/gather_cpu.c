/* gather_cpu.c: rows picked by index, and the gradient of that: rows added where they were picked. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "combine.h"
#include <string.h>

static bool all_in_range(tk_indices indices, int64_t count, int64_t n) {
    for (int64_t i = 0; i < count; i++)
        if (tk_position(indices, i, n) < 0)
            return false;
    return true;
}

typedef struct gather {
    char *out;
    const char *inp;
    tk_indices indices;
    int64_t axis, n, bytes; /* bytes of one row of inner elements */
} gather;

static void gather_rows(void *ctx, tk_share share) {
    const gather *g = ctx;
    for (int64_t i = share.begin; i < share.end; i++) {
        int64_t row = i / g->n * g->axis + tk_position(g->indices, i % g->n, g->axis);
        memcpy(g->out + i * g->bytes, g->inp + row * g->bytes, (size_t)g->bytes);
    }
}

void tk_gather(tk_queue *q, void *out, const void *inp, tk_indices indices, int64_t outer, int64_t axis, int64_t inner,
               int64_t n, size_t element) {
    if (!all_in_range(indices, n, axis)) {
        tk_fault(q, TK_BAD_INDEX);
        return;
    }
    gather g = {out, inp, indices, axis, n, inner * (int64_t)element};
    tk_parallel_for(q, outer * n, TK_GRAIN / (inner + 1) + 1, gather_rows, &g);
}

typedef struct scatter_add {
    char *out;
    const char *grad;
    tk_indices indices;
    int64_t outer, axis, inner, n;
    tk_dtype dtype;
    tk_combine_fn add;
    int64_t element;
    float *sums; /* [slots, axis, STRIP] */
} scatter_add;

#define STRIP 64 /* columns */

/* Columns [begin, end) of every row: threads share no element, and each element meets its rows in order. */
static void add_columns(void *ctx, tk_share share) {
    const scatter_add *s = ctx;
    for (int64_t row = 0; row < s->outer * s->axis; row++)
        memset(s->out + (row * s->inner + share.begin) * s->element, 0,
               (size_t)((share.end - share.begin) * s->element));
    for (int64_t i = 0; i < s->outer * s->n; i++) {
        int64_t row = i / s->n * s->axis + tk_position(s->indices, i % s->n, s->axis);
        s->add(s->out + (row * s->inner + share.begin) * s->element,
               s->grad + (i * s->inner + share.begin) * s->element, share.end - share.begin);
    }
}

/* The same for strips of columns of 16-bit types, summed in float in a thread's scratch. */
static void add_strips(void *ctx, tk_share share) {
    const scatter_add *s = ctx;
    int64_t strips = (s->inner - 1) / STRIP + 1;
    float x[STRIP], *sums = s->sums + (int64_t)share.thread * s->axis * STRIP;
    for (int64_t at = share.begin; at < share.end; at++) {
        int64_t outer = at / strips, first = at % strips * STRIP, m = s->inner - first;
        m = m < STRIP ? m : STRIP;
        memset(sums, 0, (size_t)(s->axis * m) * sizeof(float));
        for (int64_t i = 0; i < s->n; i++) {
            float *to = sums + tk_position(s->indices, i, s->axis) * m;
            tk_widen(x, (const uint16_t *)s->grad + (outer * s->n + i) * s->inner + first, m, s->dtype);
            for (int64_t j = 0; j < m; j++)
                to[j] += x[j];
        }
        for (int64_t row = 0; row < s->axis; row++)
            tk_narrow((uint16_t *)s->out + (outer * s->axis + row) * s->inner + first, sums + row * m, m, s->dtype);
    }
}

size_t tk_gather_grad_workspace(int64_t outer, int64_t axis, int64_t inner, int64_t n, tk_dtype dtype, int slots) {
    (void)outer, (void)inner, (void)n;
    return tk_is_half(dtype) ? (size_t)(axis * STRIP) * sizeof(float) * (size_t)slots : 0;
}

void tk_gather_grad(tk_queue *q, void *out, const void *grad, tk_indices indices, int64_t outer, int64_t axis,
                    int64_t inner, int64_t n, tk_dtype dtype, void *workspace) {
    if (!all_in_range(indices, n, axis)) {
        tk_fault(q, TK_BAD_INDEX);
        return;
    }
    scatter_add s = {out, grad, indices, outer, axis, inner, n, dtype, NULL, (int64_t)tk_size(dtype), workspace};
    if (tk_is_half(dtype)) {
        tk_parallel_slots(q, inner > 0 ? outer * ((inner - 1) / STRIP + 1) : 0, add_strips, &s);
        return;
    }
    s.add = tk_combine(TK_ADD, dtype);
    tk_parallel_for(q, inner, 64, add_columns, &s);
}

/* Where element `i` of an array of sizes `dims` lies in another of sizes `other_dims`, its position along `axis` being
 * the index that it has; -1 when that is out of range. */
static int64_t element_at(tk_indices indices, int64_t i, int rank, const int64_t *dims, const int64_t *other_dims,
                          int axis) {
    int64_t rest = i, at = 0, scale = 1;
    for (int d = rank - 1; d >= 0; d--) {
        int64_t position = d == axis ? tk_position(indices, i, other_dims[axis]) : rest % dims[d];
        if (position < 0)
            return -1;
        rest /= dims[d];
        at += position * scale;
        scale *= other_dims[d];
    }
    return at;
}

void tk_gather_elements(tk_queue *q, void *out, const void *inp, tk_indices indices, int rank, const int64_t *out_dims,
                        const int64_t *inp_dims, int axis, size_t element) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= out_dims[d];
    for (int64_t i = 0; i < count; i++) {
        int64_t from = element_at(indices, i, rank, out_dims, inp_dims, axis);
        if (from < 0) {
            tk_fault(q, TK_BAD_INDEX);
            return;
        }
        memcpy((char *)out + i * (int64_t)element, (const char *)inp + from * (int64_t)element, element);
    }
}

/* One update after the other: none is kept. */
size_t tk_scatter_workspace(int64_t n) {
    (void)n;
    return 0;
}

/* The row that tuple `i` of an N-d index points at, or -1. */
static int64_t nd_row(tk_indices indices, const tk_nd *nd, int64_t i) {
    int64_t row = 0;
    for (int d = 0; d < nd->depth; d++) {
        int64_t at = tk_position(indices, i * nd->depth + d, nd->dims[d]);
        if (at < 0)
            return -1;
        row = row * nd->dims[d] + at;
    }
    return row;
}

void tk_gather_nd(tk_queue *q, void *out, const void *inp, tk_indices indices, const tk_nd *nd, size_t element) {
    int64_t rows = 1, bytes = nd->inner * (int64_t)element;
    for (int d = 0; d < nd->depth; d++)
        rows *= nd->dims[d];
    for (int64_t i = 0; i < nd->batch * nd->n; i++) {
        int64_t row = nd_row(indices, nd, i);
        if (row < 0) {
            tk_fault(q, TK_BAD_INDEX);
            return;
        }
        memcpy((char *)out + i * bytes, (const char *)inp + (i / nd->n * rows + row) * bytes, (size_t)bytes);
    }
}

void tk_scatter_nd(tk_queue *q, void *out, tk_indices indices, const void *updates, const tk_nd *nd,
                   tk_scatter_kind reduction, tk_dtype dtype, void *workspace) {
    (void)workspace;
    int64_t bytes = nd->inner * (int64_t)tk_size(dtype);
    tk_combine_fn combine = reduction == TK_PUT ? NULL : tk_combine(reduction, dtype);
    for (int64_t i = 0; i < nd->n; i++) {
        int64_t row = nd_row(indices, nd, i);
        if (row < 0) {
            tk_fault(q, TK_BAD_INDEX);
            return;
        }
        char *to = (char *)out + row * bytes;
        const char *from = (const char *)updates + i * bytes;
        if (combine)
            combine(to, from, nd->inner);
        else
            memcpy(to, from, (size_t)bytes);
    }
}

void tk_scatter_elements(tk_queue *q, void *out, tk_indices indices, const void *updates, int rank,
                         const int64_t *upd_dims, const int64_t *out_dims, int axis, tk_scatter_kind reduction,
                         tk_dtype dtype, void *workspace) {
    (void)workspace;
    int64_t count = 1, element = (int64_t)tk_size(dtype);
    tk_combine_fn combine = reduction == TK_PUT ? NULL : tk_combine(reduction, dtype);
    for (int d = 0; d < rank; d++)
        count *= upd_dims[d];
    for (int64_t i = 0; i < count; i++) {
        int64_t to = element_at(indices, i, rank, upd_dims, out_dims, axis);
        if (to < 0) {
            tk_fault(q, TK_BAD_INDEX);
            return;
        }
        if (combine)
            combine((char *)out + to * element, (const char *)updates + i * element, 1);
        else
            memcpy((char *)out + to * element, (const char *)updates + i * element, (size_t)element);
    }
}

void tk_tensor_scatter(tk_queue *q, void *out, const void *updates, const int64_t *starts, const tk_cache_dims *dims,
                       size_t element) {
    int64_t bytes = dims->inner * (int64_t)element;
    for (int64_t b = 0; b < dims->batch; b++) {
        int64_t start = starts ? starts[b] : 0;
        if (start < 0 || start > INT64_MAX - dims->length || (!dims->circular && start + dims->length > dims->axis) ||
            (dims->axis == 0 && dims->length > 0)) {
            tk_fault(q, TK_BAD_INDEX);
            return;
        }
        for (int64_t i = 0; i < dims->mid * dims->length; i++) {
            int64_t row = b * dims->mid + i / dims->length, at = (start + i % dims->length) % dims->axis;
            memcpy((char *)out + (row * dims->axis + at) * bytes,
                   (const char *)updates + (row * dims->length + i % dims->length) * bytes, (size_t)bytes);
        }
    }
}
