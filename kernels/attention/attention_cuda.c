/* attention_cuda.c: attention on a CUDA device with its map in memory: a part of the items at a time goes through the
 * products and the rows between them, so that the workspace for scores stays within bounds. Both recipes that keep P
 * take the same steps over the same parts, with the same bits; so does the gradient that recomputes P. */
#include "../matmul/matmul.h"
#include "attention_map.h"
#include "attention_tile.h"
#include <math.h>
#include <string.h>

#define DECLARE(name, parameters, arguments) void tk_cuda_##name parameters;
#define DECLARE_WORKSPACE(name, parameters, arguments) size_t tk_cuda_##name parameters;
TK_ATTENTION_KERNELS(DECLARE)
TK_ATTENTION_WORKSPACES(DECLARE_WORKSPACE)
TK_MATMUL_KERNELS(DECLARE)
TK_MATMUL_WORKSPACES(DECLARE_WORKSPACE)

enum { MAP_ALIGN = 256, MOST_ITEMS = 32768, EIGHT = TK_HALVES };

int64_t tk_cuda_attention_bytes = (int64_t)64 * 1024 * 1024;

/* --- parts and the workspace -------------------------------------------------------------------- */

/* Maps of a part: scores or dd, of tk_wide, slopes of capped scores, of the same, and up to three of elements. */
typedef struct part_maps {
    void *wide, *slopes, *p, *dropped, *ds, *sums, *products;
} part_maps;

static size_t rounded(size_t bytes) { return (bytes + MAP_ALIGN - 1) / MAP_ALIGN * MAP_ALIGN; }

/* Items of a part: as many as fit for the function that needs most, so that all functions have the same parts. A part
 * of 8 items or more begins at a multiple of 8 elements of the map, the unit of the draw and of packs. */
static int64_t part_items(const tk_attention *a) {
    int64_t map = a->s * a->t, wide_maps = a->softcap != 0 ? 2 : 1;
    int64_t each = wide_maps * (int64_t)tk_size(tk_wide(a->dtype)) + 3 * (int64_t)tk_size(a->dtype);
    int64_t fit = map > 0 ? tk_cuda_attention_bytes / each / map : MOST_ITEMS;
    fit = fit < MOST_ITEMS ? fit : MOST_ITEMS;
    fit = fit >= EIGHT ? fit / EIGHT * EIGHT : fit;
    fit = fit > 0 ? fit : 1;
    return a->items < fit ? a->items : fit;
}

static tk_attention_part part_from(const tk_attention *a, int64_t first) {
    int64_t most = part_items(a), left = a->items - first;
    return (tk_attention_part){first, left < most ? left : most};
}

/* Places `count` maps of elements after the wide ones, then the sums of groups and the workspace of products. Returns
 * the bytes used so far. Only the function with all three maps has slopes. */
static size_t lay_maps(part_maps *maps, char *workspace, const tk_attention *a, int count, size_t sum_bytes) {
    size_t elements = (size_t)(part_items(a) * a->s * a->t), size = rounded(elements * tk_size(a->dtype));
    size_t wide = rounded(elements * tk_size(tk_wide(a->dtype))), at = wide;
    void **of[] = {&maps->dropped, &maps->ds, &maps->p};
    maps->wide = workspace;
    maps->slopes = NULL;
    if (a->softcap != 0 && count == 3) {
        maps->slopes = workspace + at;
        at += wide;
    }
    for (int i = 0; i < count; i++, at += size)
        *of[i] = workspace + at;
    maps->sums = workspace + at;
    at += rounded(sum_bytes);
    maps->products = workspace + at;
    return at;
}

/* Element `at` of an operand; NULL stays. */
static const void *from(const void *data, int64_t at, tk_dtype dtype) {
    return data ? (const char *)data + at * (int64_t)tk_size(dtype) : NULL;
}
static void *into(void *data, int64_t at, tk_dtype dtype) {
    return data ? (char *)data + at * (int64_t)tk_size(dtype) : NULL;
}

/* An operand of a part's items: the rest of its table, or a pointer to its first item. */
static const void *of_part(const void *data, const tk_places *places, int64_t first, tk_dtype dtype, tk_places *out) {
    *out = (tk_places){places->step, places->at ? places->at + first : NULL};
    return places->at ? data : from(data, first * places->step, dtype);
}

/* --- products ----------------------------------------------------------------------------------- */

typedef enum which_product { SCORES, OF_Y, OF_DD, OF_DQ, OF_DKT, OF_DV, PRODUCTS } which_product;

/* A part's products: maps dense, results too; q, kt and v by places. */
static tk_product shape_of(which_product which, const tk_attention *a, int64_t items) {
    int64_t s = a->s, t = a->t, d = a->d, e = a->e;
    tk_places map = {.step = s * t}, rows = {.step = s * e};
    const tk_product shapes[PRODUCTS] = {
        [SCORES] = {.m = s, .n = t, .k = d, .lda = d, .ldb = t, .alpha = a->scale},
        [OF_Y] = {.m = s, .n = e, .k = t, .lda = t, .ldb = e, .a_at = map, .alpha = 1},
        [OF_DD] = {.m = s, .n = t, .k = e, .lda = e, .ldb = e, .trans_b = true, .a_at = rows, .alpha = 1},
        [OF_DQ] = {.m = s, .n = d, .k = t, .lda = t, .ldb = t, .trans_b = true, .a_at = map, .alpha = a->scale},
        [OF_DKT] = {.m = d, .n = t, .k = s, .lda = d, .ldb = t, .trans_a = true, .b_at = map, .alpha = a->scale},
        [OF_DV] = {.m = t, .n = e, .k = s, .lda = t, .ldb = e, .trans_a = true, .a_at = map, .b_at = rows, .alpha = 1},
    };
    tk_product p = shapes[which];
    p.batch = items;
    p.wide = (which == SCORES || which == OF_DD) && tk_is_half(a->dtype);
    return p;
}

static size_t product_bytes(const tk_attention *a, which_product first, which_product end, int slots) {
    size_t most = 0;
    for (int i = (int)first; i < (int)end; i++) {
        tk_product p = shape_of((which_product)i, a, part_items(a));
        size_t bytes = tk_cuda_product_workspace(&p, a->dtype, slots);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* State that a part's steps share. */
typedef struct part_run {
    tk_queue *q;
    const tk_attention *a;
    tk_attention_part part;
    part_maps maps;
} part_run;

/* One product of a part; left and right are whole operands where they have places, else the part's own. */
static void multiply(const part_run *r, which_product which, void *out, const void *left, const void *right) {
    const tk_attention *a = r->a;
    tk_product p = shape_of(which, a, r->part.items);
    if (which == SCORES || which == OF_DKT)
        left = of_part(left, &a->q.at, r->part.first, a->dtype, &p.a_at);
    if (which == SCORES || which == OF_DQ)
        right = of_part(right, &a->kt.at, r->part.first, a->dtype, &p.b_at);
    if (which == OF_Y || which == OF_DD)
        right = of_part(right, &a->v.at, r->part.first, a->dtype, &p.b_at);
    tk_cuda_product_run(r->q, out, left, right, &p, a->dtype, r->maps.products);
}

/* Scores as mask and bias meet them. */
static void make_scores(const part_run *r, void *scores, tk_attention_operands in) {
    multiply(r, SCORES, scores, in.q, in.kt);
    if (r->a->softcap != 0)
        tk_cuda_attention_cap(r->q, scores, r->maps.slopes, r->a, r->part);
}

/* --- the kernels ---------------------------------------------------------------------------------- */

size_t tk_cuda_attention_workspace(const tk_attention *a, int slots) {
    part_maps maps;
    return lay_maps(&maps, NULL, a, 1, 0) + product_bytes(a, SCORES, OF_DD, slots);
}

void tk_cuda_attention_run(tk_queue *q, tk_attention_results out, tk_attention_operands in, const tk_attention *a,
                           tk_number ratio, tk_seed seed, void *workspace) {
    part_run r = {.q = q, .a = a};
    if (!out.p && !out.dropped && !out.keep && tk_cuda_tile_has(q, a)) {
        tk_cuda_tile_run(q, a, &(tk_tile_operands){in, ratio, seed}, out.y, out.statistics);
        return;
    }
    lay_maps(&r.maps, workspace, a, 1, 0);
    for (int64_t first = 0; first < a->items; first += r.part.items) {
        int64_t at = first * a->s * a->t;
        r.part = part_from(a, first);
        void *p = into(out.p, at, a->dtype), *dropped = into(out.dropped, at, a->dtype);
        void *scores = p && !tk_is_half(a->dtype) ? p : r.maps.wide;
        void *left = seed.pair ? (dropped ? dropped : r.maps.dropped) : (p ? p : r.maps.dropped);
        const tk_attention_map map = {.scores = scores,
                                      .bias = in.bias,
                                      .mask = in.mask,
                                      .p = seed.pair ? p : left,
                                      .dropped = seed.pair ? left : dropped,
                                      .keep = into(out.keep, at, TK_BOOL),
                                      .statistics = into(out.statistics, first * a->s * 2, tk_wide(a->dtype)),
                                      .ratio = ratio,
                                      .seed = seed};
        make_scores(&r, scores, in);
        tk_cuda_attention_map(q, a, r.part, &map);
        multiply(&r, OF_Y, into(out.y, first * a->s * a->e, a->dtype), left, in.v);
    }
}

/* dq, dkt and dv of a part, from the gradient of the scores that the products reach, and from the map that was
 * multiplied by V. */
static void multiply_gradients(const part_run *r, const tk_attention_gradients *out, const void *dout, const void *q,
                               const void *kt, const void *reached, const void *dropped) {
    const tk_attention *a = r->a;
    int64_t first = r->part.first;
    if (out->dq)
        multiply(r, OF_DQ, into(out->dq, first * a->s * a->d, a->dtype), reached, kt);
    if (out->dkt)
        multiply(r, OF_DKT, into(out->dkt, first * a->d * a->t, a->dtype), q, reached);
    if (out->dv)
        multiply(r, OF_DV, into(out->dv, first * a->t * a->e, a->dtype), dropped,
                 from(dout, first * a->s * a->e, a->dtype));
}

size_t tk_cuda_attention_grad_workspace(const tk_attention *a, int slots) {
    part_maps maps;
    return lay_maps(&maps, NULL, a, 2, 0) + product_bytes(a, OF_DD, PRODUCTS, slots);
}

void tk_cuda_attention_grad(tk_queue *q, tk_attention_gradients out, tk_attention_saved in, const tk_attention *a,
                            tk_number ratio, void *workspace) {
    bool scores = out.dq || out.dkt || out.ds, again = out.dv && in.is_dropped && !in.dropped;
    part_run r = {.q = q, .a = a};
    lay_maps(&r.maps, workspace, a, 2, 0);
    for (int64_t first = 0; first < a->items; first += r.part.items) {
        int64_t at = first * a->s * a->t;
        r.part = part_from(a, first);
        const void *p = from(in.p, at, a->dtype), *dropped = again ? r.maps.dropped : from(in.dropped, at, a->dtype);
        void *ds = into(out.ds, at, a->dtype), *reached = in.mask || !ds ? r.maps.ds : ds;
        const tk_attention_map_grad grad = {.dd = scores ? r.maps.wide : NULL,
                                            .p = p,
                                            .keep = from(in.keep, at, TK_BOOL),
                                            .is_dropped = in.is_dropped,
                                            .ratio = ratio,
                                            .mask = in.mask,
                                            .ds = in.mask ? ds : reached,
                                            .reached = in.mask ? reached : NULL,
                                            .dropped = again ? r.maps.dropped : NULL};
        if (scores)
            multiply(&r, OF_DD, r.maps.wide, from(in.dout, first * a->s * a->e, a->dtype), in.v);
        if (scores || again)
            tk_cuda_attention_map_grad(q, a, r.part, &grad);
        multiply_gradients(&r, &out, in.dout, in.q, in.kt, reached, in.is_dropped ? dropped : p);
    }
}

/* For the tiled gradient, where ds is summed in another type than it is stored in. */
static size_t sum_bytes(const tk_attention *a, const tk_attention_groups *groups) {
    return groups->sums && tk_is_half(a->dtype) ? (size_t)(groups->groups * a->s * a->t) * sizeof(float) : 0;
}

/* Statistics of all rows, at the start of the workspace. Returns their bytes. */
static size_t lay_statistics(tk_tile_statistics *statistics, char *workspace, const tk_attention *a) {
    size_t each = rounded((size_t)(a->items * a->s) * sizeof(float));
    *statistics = (tk_tile_statistics){(float *)(void *)workspace, (float *)(void *)(workspace + each),
                                       (float *)(void *)(workspace + 2 * each)};
    return 3 * each;
}

size_t tk_cuda_attention_tiled_grad_workspace(const tk_attention *a, const tk_attention_groups *groups, int slots) {
    part_maps maps;
    tk_tile_statistics statistics;
    size_t parts = lay_maps(&maps, NULL, a, 3, sum_bytes(a, groups)) + product_bytes(a, SCORES, PRODUCTS, slots);
    size_t tiles = tk_is_half(a->dtype) ? lay_statistics(&statistics, NULL, a) : 0;
    return parts > tiles ? parts : tiles;
}

/* P of a part with flags, and the map that was multiplied by V. */
static void make_again(const part_run *r, tk_attention_operands in, const tk_attention *a, tk_number ratio,
                       tk_seed seed) {
    const tk_attention_map map = {.scores = r->maps.wide,
                                  .bias = in.bias,
                                  .mask = in.mask,
                                  .p = r->maps.p,
                                  .dropped = seed.pair ? r->maps.dropped : NULL,
                                  .ratio = ratio,
                                  .seed = seed};
    make_scores(r, r->maps.wide, in);
    tk_cuda_attention_map(r->q, a, r->part, &map);
}

/* All gradients but ds. */
static void grad_of_tiles(tk_queue *q, const tk_attention_gradients *out, tk_attention_after after,
                          const tk_attention *a, const tk_tile_operands *operands, void *workspace) {
    const void *dout = after.dout;
    tk_tile_statistics statistics;
    lay_statistics(&statistics, workspace, a);
    if (after.y && after.statistics)
        tk_cuda_tile_take(q, a, operands, after, &statistics);
    else
        tk_cuda_tile_statistics(q, a, operands, dout, &statistics);
    if (out->dq)
        tk_cuda_tile_dq(q, a, operands, dout, &statistics, out->dq);
    if (out->dkt || out->dv)
        tk_cuda_tile_dkv(q, a, operands, dout, &statistics, out->dkt, out->dv);
}

void tk_cuda_attention_tiled_grad(tk_queue *q, tk_attention_gradients out, tk_attention_after after,
                                  tk_attention_operands in, const tk_attention *a, const tk_attention_groups *groups,
                                  tk_number ratio, tk_seed seed, void *workspace) {
    const void *dout = after.dout;
    tk_attention flagged = *a;
    part_run r = {.q = q, .a = a};
    flagged.is_signed = true;
    if (!out.ds && tk_cuda_tile_has(q, a)) {
        grad_of_tiles(q, &out, after, a, &(tk_tile_operands){in, ratio, seed}, workspace);
        return;
    }
    lay_maps(&r.maps, workspace, a, 3, sum_bytes(a, groups));
    for (int64_t first = 0; first < a->items; first += r.part.items) {
        r.part = part_from(a, first);
        void *ds = groups->sums ? r.maps.ds : into(out.ds, first * a->s * a->t, a->dtype);
        bool masks = in.mask && isfinite(a->fill);
        void *unused = seed.pair ? r.maps.p : r.maps.dropped; /* by the time that ds is computed */
        void *of_seen = masks ? unused : ds ? ds : r.maps.ds, *reached = r.maps.slopes ? unused : of_seen;
        make_again(&r, in, &flagged, ratio, seed);
        const tk_attention_map_grad grad = {.dd = r.maps.wide,
                                            .p = r.maps.p,
                                            .is_dropped = seed.pair != NULL,
                                            .ratio = ratio,
                                            .mask = masks ? in.mask : NULL,
                                            .ds = masks ? ds : of_seen,
                                            .reached = masks ? of_seen : NULL};
        if (out.dq || out.dkt || out.ds) {
            multiply(&r, OF_DD, r.maps.wide, from(dout, first * a->s * a->e, a->dtype), in.v);
            tk_cuda_attention_map_grad(q, &flagged, r.part, &grad);
            if (r.maps.slopes)
                tk_cuda_attention_slopes(q, reached, of_seen, r.maps.slopes, a, r.part);
        }
        multiply_gradients(&r, &out, dout, in.q, in.kt, reached, seed.pair ? r.maps.dropped : r.maps.p);
        if (groups->sums)
            tk_cuda_attention_sum(q, out.ds, tk_is_half(a->dtype) ? r.maps.sums : out.ds, ds, a, r.part, groups);
    }
}
