/* matmul_cpu.c: a batch of products as tiles, which are handed to threads one by one; the size of a tile depends on the
 * shape only. A tile of floats is one call of oneDNN's sgemm (column-major: it computes the transposed product), others
 * take own loops. */
#include "../common/parallel.h"
#include "../common/vector.h"
#include "matmul.h"
#include <string.h>
#ifdef TK_HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

typedef struct tile { int64_t item, i0, i1, j0, j1; } tile;

#define T double
#define SUFFIX f64
#include "matmul_tmpl.h"
#define T uint32_t
#define SUFFIX u32
#include "matmul_tmpl.h"
#define T uint64_t
#define SUFFIX u64
#include "matmul_tmpl.h"

#ifdef TK_HAVE_DNNL
static void tile_f32(void *out_, const void *a_, const void *b_, const tk_product *p, tile t) {
    float *out = (float *)out_ + (t.item * p->m + t.i0) * p->n + t.j0;
    const float *a = (const float *)a_ + p->a_at[t.item] + (p->trans_a ? t.i0 : t.i0 * p->lda);
    const float *b = (const float *)b_ + p->b_at[t.item] + (p->trans_b ? t.j0 * p->ldb : t.j0);
    dnnl_sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', t.i1 - t.i0, t.j1 - t.j0, p->k, (float)p->alpha, a,
               p->lda, b, p->ldb, (float)p->beta, out, p->n);
}
#else
#define T float
#define SUFFIX f32
#include "matmul_tmpl.h"
#define tile_f32 own_tile_f32
#endif

typedef void (*tile_fn)(void *out, const void *a, const void *b, const tk_product *p, tile t);

static tile_fn tile_of(tk_dtype dtype) {
    switch (dtype) {
    case TK_F32: return tile_f32;
    case TK_F64: return own_tile_f64;
    case TK_I32: case TK_U32: return own_tile_u32;
    case TK_I64: case TK_U64: return own_tile_u64;
    default: return NULL;
    }
}

bool tk_product_has(tk_dtype dtype) { return tile_of(dtype) != NULL; }

/* n in even parts of at most `most`, each a multiple of 16 but the last. */
static int64_t part(int64_t n, int64_t most) {
    int64_t parts = (n - 1) / most + 1;
    return ((n - 1) / parts / 16 + 1) * 16;
}

typedef struct product_ctx {
    char *out;
    const void *a, *b;
    const tk_product *product;
    tile_fn fn;
    int64_t rows, columns, row_parts, column_parts; /* of a tile, of an item */
} product_ctx;

static void product_range(void *ctx, int64_t begin, int64_t end) {
    const product_ctx *c = ctx;
    const tk_product *p = c->product;
    for (int64_t at = begin; at < end; at++) {
        int64_t item = at / (c->row_parts * c->column_parts), i = at / c->column_parts % c->row_parts,
                j = at % c->column_parts;
        tile t = {item, i * c->rows, (i + 1) * c->rows, j * c->columns, (j + 1) * c->columns};
        t.i1 = t.i1 < p->m ? t.i1 : p->m;
        t.j1 = t.j1 < p->n ? t.j1 : p->n;
        c->fn(c->out, c->a, c->b, p, t);
    }
}

/* A product over nothing is zero; sgemm leaves such a result as it was. */
static void scale_only(void *out, const tk_product *p, tk_dtype dtype) {
    size_t count = (size_t)(p->batch * p->m * p->n);
    if (p->beta == 0)
        memset(out, 0, count * tk_size(dtype));
    for (size_t i = 0; i < count && p->beta != 0 && p->beta != 1; i++) {
        if (dtype == TK_F32)
            ((float *)out)[i] *= (float)p->beta;
        else if (dtype == TK_F64)
            ((double *)out)[i] *= p->beta;
    }
}

void tk_product_run(void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype) {
    if (p->batch == 0 || p->m == 0 || p->n == 0)
        return;
    if (p->k == 0) {
        scale_only(out, p, dtype);
        return;
    }
    product_ctx c = {out, a, b, p, tile_of(dtype), part(p->m, 512), part(p->n, 384), 0, 0};
    c.row_parts = (p->m - 1) / c.rows + 1;
    c.column_parts = (p->n - 1) / c.columns + 1;
    tk_parallel_items(p->batch * c.row_parts * c.column_parts, product_range, &c);
}

typedef struct start_ctx { void *out; const void *c; double beta; const tk_bcast *bc; tk_dtype dtype; } start_ctx;

static void start_one_run(void *ctx, int64_t at, int64_t n, const int64_t *offset, const int64_t *step) {
    const start_ctx *s = ctx;
    if (s->dtype == TK_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)s->out)[at + i] = (float)s->beta * ((const float *)s->c)[offset[0] + i * step[0]];
    else
        for (int64_t i = 0; i < n; i++)
            ((double *)s->out)[at + i] = s->beta * ((const double *)s->c)[offset[0] + i * step[0]];
}

static void start_range(void *ctx, int64_t begin, int64_t end) {
    tk_bcast_walk(((const start_ctx *)ctx)->bc, begin, end, start_one_run, ctx);
}

void tk_product_start(void *out, const void *c, double beta, const tk_bcast *bc, tk_dtype dtype) {
    start_ctx s = {out, c, beta, bc, dtype};
    tk_parallel_for(bc->count, TK_GRAIN, start_range, &s);
}
