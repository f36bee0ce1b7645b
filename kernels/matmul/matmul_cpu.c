/* matmul_cpu.c: a batch of products as tiles, which are handed to threads one by one; the size of a tile depends on the
 * shape only. A tile of floats is oneDNN's sgemm (sgemm.h); one of 16-bit types is a primitive where the processor has
 * instructions for them, else several of floats; other types take loops of their own. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../common/room.h"
#include "../common/types.h"
#include "matmul.h"
#include "primitive.h"
#include "sgemm.h"
#include <string.h>

typedef struct tile {
    int64_t item, i0, i1, j0, j1;
} tile;

#define T double
#define SUFFIX f64
#include "matmul_tmpl.h"
#define T uint32_t
#define SUFFIX u32
#include "matmul_tmpl.h"
#define T uint64_t
#define SUFFIX u64
#include "matmul_tmpl.h"

#define T float
#define SUFFIX f32
#include "matmul_tmpl.h"

#ifdef TK_HAVE_DNNL
static bool tile_f32(void *out_, const void *a_, const void *b_, const tk_product *p, tile t) {
    float *out = (float *)out_ + (t.item * p->m + t.i0) * p->n + t.j0;
    const float *a = (const float *)a_ + tk_place(&p->a_at, t.item) + (p->trans_a ? t.i0 : t.i0 * p->lda);
    const float *b = (const float *)b_ + tk_place(&p->b_at, t.item) + (p->trans_b ? t.j0 * p->ldb : t.j0);
    if (!tk_sgemm_works())
        return own_tile_f32(out_, a_, b_, p, t);
    return tk_sgemm_run(out, a, b,
                        &(tk_sgemm){.trans_a = p->trans_a,
                                    .trans_b = p->trans_b,
                                    .m = t.i1 - t.i0,
                                    .n = t.j1 - t.j0,
                                    .k = p->k,
                                    .lda = p->lda,
                                    .ldb = p->ldb,
                                    .ldo = p->n,
                                    .alpha = (float)p->alpha,
                                    .beta = (float)p->beta});
}
#else
#define tile_f32 own_tile_f32
bool tk_sgemm_prepare(void) { return true; }
#endif

tk_status tk_queue_ready(tk_queue *q) {
    tk_status status = tk_threads_ready(q);
    return status == TK_OK && tk_is_limited() && !tk_sgemm_prepare() ? TK_NO_MEMORY : status;
}

/* --- 16-bit types ----------------------------------------------------------------------------- */

#define HALF_K 512 /* summed at a time: widened elements stay in the second-level cache */
#define PRIMITIVE_BYTES ((size_t)512 << 10)

/* Elements of a thread's copies of a block of A, a block of B and a tile. */
static size_t half_elements(const tk_product *p, int64_t rows, int64_t columns) {
    int64_t k = p->k < HALF_K ? p->k : HALF_K;
    return (size_t)(((rows + columns) * k + rows * columns + 15) / 16 * 16);
}

/* rows x columns of a matrix of 16-bit elements with leading dim ld, as dense floats. */
static void widen_block(float *out, const uint16_t *inp, int64_t ld, int64_t rows, int64_t columns, tk_dtype dtype) {
    for (int64_t i = 0; i < rows; i++)
        tk_widen(out + i * columns, inp + i * ld, columns, dtype);
}

/* Adds the tile to beta times the result, and rounds. */
static void put_tile(void *out, const float *sum, const tk_product *p, tile t, tk_dtype dtype) {
    int64_t columns = t.j1 - t.j0;
    float before[HALF_K];
    for (int64_t i = t.i0; i < t.i1; i++) {
        int64_t at = (t.item * p->m + i) * p->n + t.j0;
        float *row = p->wide ? (float *)out + at : NULL;
        for (int64_t j = 0; j < columns; j += HALF_K) {
            int64_t n = columns - j < HALF_K ? columns - j : HALF_K;
            const float *from = sum + (i - t.i0) * columns + j;
            if (p->beta != 0 && row)
                memcpy(before, row + j, (size_t)n * sizeof(float));
            else if (p->beta != 0)
                tk_widen(before, (const uint16_t *)out + at + j, n, dtype);
            for (int64_t l = 0; l < n; l++)
                before[l] = p->beta == 0 ? from[l] : from[l] + (float)p->beta * before[l];
            if (row)
                memcpy(row + j, before, (size_t)n * sizeof(float));
            else
                tk_narrow((uint16_t *)out + at + j, before, n, dtype);
        }
    }
}

static bool half_tile(void *out, const void *a, const void *b, const tk_product *p, tile t, tk_dtype dtype,
                      float *scratch) {
    const uint16_t *as = (const uint16_t *)a + tk_place(&p->a_at, t.item),
                   *bs = (const uint16_t *)b + tk_place(&p->b_at, t.item);
    int64_t rows = t.i1 - t.i0, columns = t.j1 - t.j0;
    float *sum = scratch, *block_a = sum + rows * columns;
    for (int64_t k = 0; k < p->k; k += HALF_K) {
        int64_t ks = p->k - k < HALF_K ? p->k - k : HALF_K;
        float *block_b = block_a + rows * ks;
        int64_t lda = p->trans_a ? rows : ks, ldb = p->trans_b ? ks : columns;
        tk_product part = {.batch = 1,
                           .m = rows,
                           .n = columns,
                           .k = ks,
                           .lda = lda,
                           .ldb = ldb,
                           .trans_a = p->trans_a,
                           .trans_b = p->trans_b,
                           .alpha = p->alpha,
                           .beta = k > 0};
        if (p->trans_a)
            widen_block(block_a, as + k * p->lda + t.i0, p->lda, ks, rows, dtype);
        else
            widen_block(block_a, as + t.i0 * p->lda + k, p->lda, rows, ks, dtype);
        if (p->trans_b)
            widen_block(block_b, bs + t.j0 * p->ldb + k, p->ldb, columns, ks, dtype);
        else
            widen_block(block_b, bs + k * p->ldb + t.j0, p->ldb, ks, columns, dtype);
        if (!tile_f32(sum, block_a, block_b, &part, (tile){0, 0, rows, 0, columns}))
            return false;
    }
    put_tile(out, sum, p, t, dtype);
    return true;
}

/* --- tiles ------------------------------------------------------------------------------------ */

typedef bool (*tile_fn)(void *out, const void *a, const void *b, const tk_product *p, tile t);

static tile_fn tile_of(tk_dtype dtype) {
    switch (dtype) {
    case TK_F32: return tile_f32;
    case TK_F64: return own_tile_f64;
    case TK_I32:
    case TK_U32: return own_tile_u32;
    case TK_I64:
    case TK_U64: return own_tile_u64;
    default: return NULL;
    }
}

bool tk_product_has(tk_dtype dtype) { return tk_is_half(dtype) || tile_of(dtype) != NULL; }

/* n in even parts of at most `most`, each a multiple of 16 but the last. */
static int64_t part(int64_t n, int64_t most) {
    int64_t parts = (n - 1) / most + 1;
    return ((n - 1) / parts / 16 + 1) * 16;
}

typedef struct product_ctx {
    tk_queue *q;
    void *out;
    const void *a, *b;
    const tk_product *product;
    tk_dtype dtype;
    tile_fn fn;      /* NULL: 16-bit types */
    char *workspace; /* thread_bytes for each slot */
    size_t thread_bytes;
    int64_t rows, columns, row_parts, column_parts; /* of a tile, of an item */
    tk_primitive *primitives[2][2]; /* of tiles but the last and of the last, down and across; or NULL */
} product_ctx;

static product_ctx tiles_of(tk_queue *q, void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype) {
    product_ctx c = {.q = q, .out = out, .a = a, .b = b, .product = p, .dtype = dtype, .fn = tile_of(dtype)};
    c.rows = part(p->m, TK_SGEMM_ROWS);
    c.columns = part(p->n, TK_SGEMM_COLUMNS);
    c.row_parts = (p->m - 1) / c.rows + 1;
    c.column_parts = (p->n - 1) / c.columns + 1;
    return c;
}

static bool primitive_tile(const product_ctx *c, tile t, void *scratch) {
    const tk_product *p = c->product;
    size_t size = tk_size(c->dtype), out_size = p->wide ? sizeof(float) : size;
    int64_t out = (t.item * p->m + t.i0) * p->n + t.j0,
            a = tk_place(&p->a_at, t.item) + (p->trans_a ? t.i0 : t.i0 * p->lda),
            b = tk_place(&p->b_at, t.item) + (p->trans_b ? t.j0 * p->ldb : t.j0);
    const tk_primitive *of = c->primitives[t.i1 == p->m][t.j1 == p->n];
    return tk_primitive_run(of, (char *)c->out + (size_t)out * out_size, (const char *)c->a + (size_t)a * size,
                            (const char *)c->b + (size_t)b * size, scratch);
}

static void product_range(void *ctx, tk_share share) {
    const product_ctx *c = ctx;
    const tk_product *p = c->product;
    for (int64_t at = share.begin; at < share.end; at++) {
        int64_t item = at / (c->row_parts * c->column_parts), i = at / c->column_parts % c->row_parts,
                j = at % c->column_parts;
        tile t = {item, i * c->rows, (i + 1) * c->rows, j * c->columns, (j + 1) * c->columns};
        t.i1 = t.i1 < p->m ? t.i1 : p->m;
        t.j1 = t.j1 < p->n ? t.j1 : p->n;
        void *scratch = c->workspace ? c->workspace + (size_t)share.thread * c->thread_bytes : NULL;
        bool good = c->primitives[1][1] ? primitive_tile(c, t, scratch)
                    : c->fn             ? c->fn(c->out, c->a, c->b, p, t)
                                        : half_tile(c->out, c->a, c->b, p, t, c->dtype, scratch);
        if (!good)
            tk_fault(c->q, TK_NO_MEMORY); /* the library was asked before about everything else */
    }
}

/* Gets the primitives of the tiles; *out_there false: some are missing, or need more scratch. */
static tk_status take_primitives(product_ctx *c, bool *out_there) {
    const tk_product *p = c->product;
    tk_status status = TK_OK;
    *out_there = true;
    for (int down = c->row_parts == 1; down < 2; down++)
        for (int across = c->column_parts == 1; across < 2; across++) {
            tk_tile_form form = {.m = down ? p->m - (c->row_parts - 1) * c->rows : c->rows,
                                 .n = across ? p->n - (c->column_parts - 1) * c->columns : c->columns,
                                 .k = p->k,
                                 .lda = p->lda,
                                 .ldb = p->ldb,
                                 .ldc = p->n,
                                 .trans_a = p->trans_a,
                                 .trans_b = p->trans_b,
                                 .alpha = p->alpha,
                                 .beta = p->beta,
                                 .in = c->dtype,
                                 .out = p->wide ? TK_F32 : c->dtype};
            tk_primitive **made = &c->primitives[down][across];
            if (status == TK_OK)
                status = tk_primitive_take(&form, made);
            *out_there = *out_there && *made && tk_primitive_scratch(*made) <= c->thread_bytes;
        }
    return status;
}

static void give_primitives(const product_ctx *c) {
    for (int i = 0; i < 4; i++)
        tk_primitive_give(c->primitives[i / 2][i % 2]);
}

bool tk_product_run_primitives(tk_queue *q, void *out, const void *a, const void *b, const tk_product *p,
                               tk_dtype dtype, void *workspace, size_t thread_bytes) {
    product_ctx c = tiles_of(q, out, a, b, p, dtype);
    c.workspace = workspace;
    c.thread_bytes = thread_bytes;
    bool there;
    tk_status status = take_primitives(&c, &there);
    tk_fault(q, status);
    if (there)
        tk_parallel_slots(q, p->batch * c.row_parts * c.column_parts, product_range, &c);
    give_primitives(&c);
    return there || status != TK_OK;
}

/* A product over nothing is zero; sgemm leaves such a result as it was. */
static void scale_only(void *out, const tk_product *p, tk_dtype dtype) {
    size_t count = (size_t)(p->batch * p->m * p->n);
    if (p->beta == 0)
        memset(out, 0, count * tk_size(dtype));
    for (size_t i = 0; i < count && p->beta != 0 && p->beta != 1; i++) {
        if (dtype == TK_F32)
            ((float *)out)[i] *= (float)p->beta;
        else
            tk_put(out, dtype, (int64_t)i, tk_get(out, dtype, (int64_t)i) * p->beta);
    }
}

/* Of a slot, for 16-bit types. Only the library knows a primitive's scratch, and only once the primitive is made:
 * primitives that need more than blocks of floats and a bit are not used. */
static size_t thread_bytes(const tk_product *p, tk_dtype dtype) {
    return half_elements(p, part(p->m, TK_SGEMM_ROWS), part(p->n, TK_SGEMM_COLUMNS)) * sizeof(float) +
           (tk_primitive_fast(dtype) ? PRIMITIVE_BYTES : 0);
}

size_t tk_product_workspace(const tk_product *p, tk_dtype dtype, int slots) {
    if (!tk_is_half(dtype) || p->batch == 0 || p->m == 0 || p->n == 0)
        return 0;
    product_ctx c = tiles_of(NULL, NULL, NULL, NULL, p, dtype);
    int64_t tiles = p->batch * c.row_parts * c.column_parts;
    bool there;
    if (p->k > 0 && tk_is_limited() &&
        tk_primitive_fast(dtype)) { /* their code is made before memory is counted; or else later */
        (void)take_primitives(&c, &there);
        give_primitives(&c);
    }
    return thread_bytes(p, dtype) * (size_t)(tiles < slots ? tiles : slots);
}

static void run_without_bias(tk_queue *q, void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype,
                             void *workspace) {
    if (p->k == 0) {
        scale_only(out, p, p->wide ? TK_F32 : dtype);
        return;
    }
    product_ctx c = tiles_of(q, out, a, b, p, dtype);
    int64_t tiles = p->batch * c.row_parts * c.column_parts;
    if (c.fn) {
        tk_parallel_items(q, tiles, product_range, &c);
        return;
    }
    c.workspace = workspace;
    c.thread_bytes = thread_bytes(p, dtype);
    if (!tk_primitive_fast(dtype) || !tk_product_run_primitives(q, out, a, b, p, dtype, workspace, c.thread_bytes))
        tk_parallel_slots(q, tiles, product_range, &c);
}

typedef struct start_ctx {
    void *out;
    const void *c;
    double beta;
    const tk_bcast *bc;
    tk_dtype dtype;
} start_ctx;

static void start_one_run(void *ctx, int64_t at, int64_t n, const int64_t *offset, const int64_t *step) {
    const start_ctx *s = ctx;
    if (tk_is_half(s->dtype))
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)s->out)[at + i] = ((const uint16_t *)s->c)[offset[0] + i * step[0]];
    else if (s->dtype == TK_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)s->out)[at + i] = (float)s->beta * ((const float *)s->c)[offset[0] + i * step[0]];
    else
        for (int64_t i = 0; i < n; i++)
            ((double *)s->out)[at + i] = s->beta * ((const double *)s->c)[offset[0] + i * step[0]];
}

static void start_range(void *ctx, tk_share share) {
    tk_bcast_walk(((const start_ctx *)ctx)->bc, share.begin, share.end, start_one_run, ctx);
}

void tk_product_start(tk_queue *q, void *out, const void *c, double beta, const tk_bcast *bc, tk_dtype dtype) {
    start_ctx s = {out, c, beta, bc, dtype};
    tk_parallel_for(q, bc->count, TK_GRAIN, start_range, &s);
}

void tk_product_run(tk_queue *q, void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype,
                    void *workspace) {
    tk_product product = *p;
    if (p->batch == 0 || p->m == 0 || p->n == 0)
        return;
    if (p->bias) {
        const tk_bcast rows = tk_product_rows(p);
        tk_product_start(q, out, p->bias, 1, &rows, p->wide ? TK_F32 : dtype);
        product.beta = 1;
    }
    run_without_bias(q, out, a, b, &product, dtype, workspace);
}
