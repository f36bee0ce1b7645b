/* einsum_cpu.c: the plain loop of Einsum. */
#include "einsum.h"
#include "../common/element.h"
#include "../common/parallel.h"

typedef struct einsum_ctx {
    void *out;
    const void *const *operands;
    const tk_einsum *e;
} einsum_ctx;

/* Where each operand's element is at the index-th place of dims [first, last), from `base` (NULL: 0). */
static void places(const tk_einsum *e, int64_t index, int first, int last, const int64_t *base, int64_t *out) {
    for (int k = 0; k < e->n_operands; k++)
        out[k] = base ? base[k] : 0;
    for (int d = last - 1; d >= first; d--) {
        int64_t i = index % e->dims[d];
        index /= e->dims[d];
        for (int k = 0; k < e->n_operands; k++)
            out[k] += i * e->strides[k][d];
    }
}

#define TEMPLATE "../matmul/einsum_tmpl.h"
#include "../common/each_float.h"
#define T uint32_t
#define SUFFIX u32
#define SUM uint32_t
#include "einsum_tmpl.h"
#define T uint64_t
#define SUFFIX u64
#define SUM uint64_t
#include "einsum_tmpl.h"

static tk_range_fn find(tk_dtype dtype) {
    switch (dtype) {
    case TK_F32: return elements_f32;
    case TK_F64: return elements_f64;
    case TK_F16: return elements_f16;
    case TK_BF16: return elements_bf16;
    case TK_I32:
    case TK_U32: return elements_u32;
    case TK_I64:
    case TK_U64: return elements_u64;
    default: return NULL;
    }
}

bool tk_einsum_has(tk_dtype dtype) { return find(dtype) != NULL; }

void tk_einsum_loop(tk_queue *q, void *out, const void *const *operands, const tk_einsum *e, tk_dtype dtype) {
    einsum_ctx c = {out, operands, e};
    int64_t n = 1;
    for (int d = 0; d < e->n_out; d++)
        n *= e->dims[d];
    tk_parallel_for(q, n, 64, find(dtype), &c);
}
