/* create_cpu.c: plain loops; these ops take little of a step's time. */
#include "create.h"
#include "../queue.h"
#include "../common/types.h"
#include "../movement/movement.h"
#include <string.h>

#define RANGE(type, wide)                                                                                              \
    {                                                                                                                  \
        type *to = out, s, d;                                                                                          \
        memcpy(&s, start, sizeof s);                                                                                   \
        memcpy(&d, delta, sizeof d);                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            to[i] = (type)((wide)s + (wide)i * (wide)d);                                                               \
        break;                                                                                                         \
    }

void tk_range(tk_queue *q, void *out, const void *start, const void *delta, int64_t n, tk_dtype dtype) {
    (void)q;
    switch (dtype) {
    case TK_F32: RANGE(float, double)
    case TK_F64: RANGE(double, double)
    case TK_I8:
    case TK_U8: RANGE(uint8_t, uint64_t)
    case TK_I16:
    case TK_U16: RANGE(uint16_t, uint64_t)
    case TK_I32:
    case TK_U32: RANGE(uint32_t, uint64_t)
    case TK_I64:
    case TK_U64: RANGE(uint64_t, uint64_t)
    case TK_F16:
    case TK_BF16:
        for (int64_t i = 0; i < n; i++)
            tk_put(out, dtype, i, tk_get(start, dtype, 0) + (double)i * tk_get(delta, dtype, 0));
        break;
    case TK_BOOL: break;
    }
}

void tk_eye(tk_queue *q, void *out, const void *one, int64_t rows, int64_t cols, int64_t k, size_t element) {
    (void)q;
    memset(out, 0, (size_t)(rows * cols) * element);
    for (int64_t r = 0; r < rows; r++)
        if (k >= -r && k < cols - r)
            memcpy((char *)out + (r * cols + r + k) * (int64_t)element, one, element);
}

static int64_t class_of(const void *indices, tk_dtype dtype, int64_t i, int64_t depth) {
    double at = dtype == TK_I64 ? 0 : tk_get(indices, dtype, i);
    if (!(at >= -0x1p62 && at < 0x1p62))
        return -1;
    int64_t c = dtype == TK_I64 ? ((const int64_t *)indices)[i] : (int64_t)at;
    return c < -depth || c >= depth ? -1 : c < 0 ? c + depth : c;
}

void tk_one_hot(tk_queue *q, void *out, const void *values, const void *indices, tk_dtype index_type, int64_t outer,
                int64_t depth, int64_t inner, size_t element) {
    int64_t size = (int64_t)element;
    tk_fill(q, out, values, outer * depth * inner, element);
    for (int64_t i = 0; i < outer * inner; i++) {
        int64_t c = class_of(indices, index_type, i, depth);
        if (c >= 0)
            memcpy((char *)out + ((i / inner * depth + c) * inner + i % inner) * size, (const char *)values + size,
                   element);
    }
}

bool tk_is_true(const void *data, tk_dtype dtype, int64_t i) {
    return dtype == TK_I64 || dtype == TK_U64 ? ((const uint64_t *)data)[i] != 0 : tk_get(data, dtype, i) != 0;
}

size_t tk_nonzero_workspace(int64_t items) {
    (void)items;
    return 0;
}

void tk_nonzero(tk_queue *q, int64_t *out, int64_t n, const void *inp, tk_dtype dtype, int rank, const int64_t *dims,
                void *workspace) {
    (void)workspace;
    int64_t count = 1, found = 0;
    for (int d = 0; d < rank; d++)
        count *= dims[d];
    for (int64_t i = 0; i < count; i++) {
        if (!tk_is_true(inp, dtype, i))
            continue;
        if (found == n) {
            tk_fault(q, TK_BAD_VALUE);
            return;
        }
        int64_t rest = i;
        for (int d = rank - 1; d >= 0; d--) {
            out[d * n + found] = rest % dims[d];
            rest /= dims[d];
        }
        found++;
    }
    tk_fault(q, found == n ? TK_OK : TK_BAD_VALUE);
}

size_t tk_compress_workspace(int64_t n_condition, int64_t n) {
    (void)n_condition, (void)n;
    return 0;
}

void tk_compress(tk_queue *q, void *out, const void *inp, const uint8_t *condition, int64_t n_condition, int64_t outer,
                 int64_t axis, int64_t inner, int64_t n, size_t element, void *workspace) {
    (void)workspace;
    int64_t bytes = inner * (int64_t)element, found = 0;
    for (int64_t i = 0; i < axis && i < n_condition; i++) {
        if (!condition[i])
            continue;
        if (found == n) {
            tk_fault(q, TK_BAD_VALUE);
            return;
        }
        for (int64_t o = 0; o < outer; o++)
            memcpy((char *)out + (o * n + found) * bytes, (const char *)inp + (o * axis + i) * bytes, (size_t)bytes);
        found++;
    }
    tk_fault(q, found == n ? TK_OK : TK_BAD_VALUE);
}

/* --- TopK: a heap with the best on top, popped k times ---------------------------------------- */

typedef struct item {
    union {
        double f;
        int64_t s;
        uint64_t u;
    } key;
    int64_t index;
} item;

typedef enum key_kind { KEY_F, KEY_S, KEY_U } key_kind;

size_t tk_topk_workspace(int64_t outer, int64_t axis, int64_t inner, int64_t k) {
    (void)outer, (void)inner, (void)k;
    return (size_t)axis * sizeof(item);
}

static int compare_floats(double a, double b) {
    bool nan_a = a != a, nan_b = b != b;
    return nan_a || nan_b ? (int)nan_a - (int)nan_b : (a > b) - (a < b);
}

static bool better(const item *a, const item *b, key_kind kind, bool largest) {
    int order = kind == KEY_F   ? compare_floats(a->key.f, b->key.f)
                : kind == KEY_S ? (a->key.s > b->key.s) - (a->key.s < b->key.s)
                                : (a->key.u > b->key.u) - (a->key.u < b->key.u);
    return order != 0 ? (order > 0) == largest : a->index < b->index;
}

static void sift_down(item *heap, int64_t n, int64_t at, key_kind kind, bool largest) {
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n)
            return;
        if (child + 1 < n && better(&heap[child + 1], &heap[child], kind, largest))
            child++;
        if (!better(&heap[child], &heap[at], kind, largest))
            return;
        item t = heap[at];
        heap[at] = heap[child];
        heap[child] = t;
        at = child;
    }
}

static key_kind load_key(item *to, const void *inp, tk_dtype dtype, int64_t i) {
    switch (dtype) {
    case TK_U64: to->key.u = ((const uint64_t *)inp)[i]; return KEY_U;
    case TK_I64: to->key.s = ((const int64_t *)inp)[i]; return KEY_S;
    default: to->key.f = tk_get(inp, dtype, i); return KEY_F;
    }
}

void tk_topk(tk_queue *q, void *values, int64_t *indices, const void *inp, tk_dtype dtype, int64_t outer, int64_t axis,
             int64_t inner, int64_t k, bool largest, void *workspace) {
    (void)q;
    item *heap = workspace;
    int64_t element = (int64_t)tk_size(dtype);
    for (int64_t lane = 0; lane < outer * inner; lane++) {
        int64_t from = lane / inner * axis * inner + lane % inner, to = lane / inner * k * inner + lane % inner;
        key_kind kind = KEY_F;
        for (int64_t i = 0; i < axis; i++) {
            kind = load_key(&heap[i], inp, dtype, from + i * inner);
            heap[i].index = i;
        }
        for (int64_t i = axis / 2; i-- > 0;)
            sift_down(heap, axis, i, kind, largest);
        for (int64_t j = 0, n = axis; j < k; j++) {
            int64_t best = heap[0].index;
            if (values)
                memcpy((char *)values + (to + j * inner) * element, (const char *)inp + (from + best * inner) * element,
                       (size_t)element);
            if (indices)
                indices[to + j * inner] = best;
            heap[0] = heap[--n];
            sift_down(heap, n, 0, kind, largest);
        }
    }
}
