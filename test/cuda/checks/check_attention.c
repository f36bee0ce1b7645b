/* check_attention.c: attention and its gradients on the emulated device: masks and biases of all strides, shared
 * operands, softcaps, dropout kept in bytes and in signs, groups, in one part and in many. */
#include "kernels/attention/attention_map.h"
#include "kernels/cuda/cuda_queue.h"
#include "cuda_case.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BIAS = 1,
    MASK = 2,
    NARROW = 4,
    FILL = 8,
    DROP = 16,
    SIGNED = 32,
    TABLES = 64,
    FIRST = 128,
    CAP = 256,
    MOST = 40
};

/* One attention: flags say what of it there is. */
typedef struct attention_case {
    tk_attention a;
    int flags;
    tk_dtype dtype;
    pair q, kt, v, bias, mask, dout, seed, ratio, places[5];
    char name[96];
} attention_case;

/* Where items have their operands: every two share K and V, all the bias, and mask and q are their own. */
static void place_items(attention_case *c) {
    const tk_attention *a = &c->a;
    const int64_t steps[] = {a->s * a->d, a->d * a->t, a->t * a->e, 0, c->flags & NARROW ? a->t : a->s * a->t};
    for (int k = 0; k < 5; k++) {
        int64_t at[MOST] = {0};
        for (int64_t i = 0; i < a->items; i++)
            at[i] = (k == 1 || k == 2 ? i / 2 : i) * steps[k];
        c->places[k] = pair_of(TK_I64, a->items, at);
    }
    c->a.q.at.step = steps[0], c->a.kt.at.step = steps[1], c->a.v.at.step = steps[2], c->a.mask_at.step = steps[4];
}

static attention_case make_case(tk_dtype dtype, const int64_t *sizes, int flags) {
    attention_case c = {.flags = flags, .dtype = dtype};
    const int64_t items = sizes[0], s = sizes[1], t = sizes[2], d = sizes[3], e = sizes[4];
    const int64_t seed[] = {INT64_C(0x0123456789abcdef), 3};
    c.a = (tk_attention){.items = items, .s = s, .t = t, .d = d, .e = e, .scale = 0.7, .dtype = dtype};
    c.a.fill = flags & FILL ? -0.5 : -INFINITY;
    c.a.guard = flags & FILL;
    c.a.bias_first = flags & FIRST;
    c.a.softcap = flags & CAP ? 0.4 : 0;
    c.a.is_signed = flags & SIGNED;
    c.a.bias_row = flags & NARROW ? 1 : t; /* [s, 1] or [s, t] */
    c.a.bias_column = !(flags & NARROW);
    c.a.mask_row = flags & NARROW ? 0 : t; /* [items, 1, t] or [items, s, t] */
    c.a.mask_column = 1;
    tk_attention_dense(&c.a);
    place_items(&c);
    c.q = pair_random(dtype, items * s * d, -1, 1);
    c.kt = pair_random(dtype, items * d * t, -1, 1);
    c.v = pair_random(dtype, items * t * e, -1, 1);
    c.bias = pair_random(dtype, s * t + s, -1, 1);
    c.dout = pair_random(dtype, items * s * e, -1, 1);
    c.mask = pair_random(TK_BOOL, items * s * t, -0.3, 1);
    c.seed = pair_of(TK_I64, 2, seed);
    c.ratio = pair_numbers(TK_F32, 1, (const double[]){flags & FILL ? 0.6 : 0.3}); /* more than half, too */
    snprintf(c.name, sizeof c.name, "%lld x [%lld, %lld], heads %lld and %lld, flags %d", (long long)items,
             (long long)s, (long long)t, (long long)d, (long long)e, flags);
    return c;
}

/* The case as the side that runs has it. */
static tk_attention attention_of(const attention_case *c) {
    tk_attention a = c->a;
    if (c->flags & TABLES) {
        a.q.at.at = AT(c->places[0]), a.kt.at.at = AT(c->places[1]), a.v.at.at = AT(c->places[2]);
        a.bias_at.at = AT(c->places[3]), a.mask_at.at = AT(c->places[4]);
    }
    return a;
}
static tk_attention_operands operands_of(const attention_case *c) {
    return (tk_attention_operands){AT(c->q), AT(c->kt), AT(c->v), c->flags & BIAS ? AT(c->bias) : NULL,
                                   c->flags & MASK ? AT(c->mask) : NULL};
}
static tk_number ratio_of(const attention_case *c) { return (tk_number){AT(c->ratio), TK_F32, 0}; }
static tk_seed seed_of(const attention_case *c) { return (tk_seed){c->flags & DROP ? AT(c->seed) : NULL, 7}; }

/* Rounding of P, of ds and of the result, times the size of what is summed. */
static bounds of(tk_dtype dtype, double size) {
    double unit = dtype == TK_F64 ? 1e-14 : dtype == TK_F32 ? 1e-6 : dtype == TK_F16 ? 0x1p-10 : 0x1p-7;
    return (bounds){.relative = unit, .absolute = unit * size};
}

/* A power's argument is rounded, which is some units of 2^-24 and as large as scores. */
static bounds of_statistics(tk_dtype dtype) {
    const double unit = dtype == TK_F64 ? 1e-13 : 1e-5;
    return (bounds){.relative = unit, .absolute = unit};
}

typedef struct kept_maps {
    pair y, p, dropped, keep, statistics;
} kept_maps;

static void run(const attention_case *c, kept_maps *r, bool maps) {
    const tk_attention *a = &c->a;
    const bool bytes = maps && (c->flags & DROP) && !(c->flags & SIGNED);
    const int64_t map = a->items * a->s * a->t;
    *r = (kept_maps){pair_result(c->dtype, a->items * a->s * a->e), pair_result(c->dtype, map),
                     pair_result(c->dtype, map), pair_result(TK_BOOL, map),
                     pair_result(tk_wide(c->dtype), a->items * a->s * 2)};
    for (side = HOST; side < SIDES; side++) {
        const tk_attention at = attention_of(c);
        const tk_attention_results out = {AT(r->y), maps ? AT(r->p) : NULL, bytes ? AT(r->dropped) : NULL,
                                          bytes ? AT(r->keep) : NULL, AT(r->statistics)};
        tables[side]->attention_run(queues[side], out, operands_of(c), &at, ratio_of(c), seed_of(c),
                                    workspace(OF_TABLE(attention_workspace)(&at, 1)));
    }
    wait_for_both();
    pair_compare(r->y, of(c->dtype, 1), "y of %s", c->name);
    pair_compare(r->statistics, of_statistics(c->dtype), "statistics of %s", c->name);
    if (maps)
        pair_compare(r->p, of(c->dtype, 1e-3), "p of %s", c->name);
    if (bytes) {
        pair_compare(r->dropped, of(c->dtype, 1e-3), "dropped of %s", c->name);
        pair_compare(r->keep, (bounds){0}, "keep of %s", c->name);
    }
}

typedef struct gradients {
    pair dq, dkt, dv, ds;
} gradients;

static gradients new_gradients(const attention_case *c, int64_t maps) {
    const tk_attention *a = &c->a;
    return (gradients){pair_result(c->dtype, a->items * a->s * a->d), pair_result(c->dtype, a->items * a->d * a->t),
                       pair_result(c->dtype, a->items * a->t * a->e), pair_result(c->dtype, maps * a->s * a->t)};
}

static tk_attention_gradients gradients_of(const gradients *g, bool ds) {
    return (tk_attention_gradients){AT(g->dq), AT(g->dkt), AT(g->dv), ds ? AT(g->ds) : NULL};
}

/* size: of what is summed for an element of dq or dkt. */
static void compare(const attention_case *c, const gradients *g, double size, bool ds, double members,
                    const char *what) {
    pair_compare(g->dq, of(c->dtype, size), "dq of %s, %s", c->name, what);
    pair_compare(g->dkt, of(c->dtype, size), "dkt of %s, %s", c->name, what);
    pair_compare(g->dv, of(c->dtype, 2), "dv of %s, %s", c->name, what);
    if (ds)
        pair_compare(g->ds, of(c->dtype, members), "ds of %s, %s", c->name, what);
}

/* From what each side kept itself. */
static void grad(const attention_case *c, const kept_maps *r, bool ds, gradients *out) {
    const bool bytes = (c->flags & DROP) && !(c->flags & SIGNED), masks = (c->flags & MASK) && (c->flags & FILL);
    const gradients g = new_gradients(c, c->a.items);
    *out = g;
    for (side = HOST; side < SIDES; side++) {
        const tk_attention at = attention_of(c);
        const tk_attention_saved saved = {AT(c->dout),
                                          AT(c->q),
                                          AT(c->kt),
                                          AT(c->v),
                                          AT(r->p),
                                          bytes ? AT(r->dropped) : NULL,
                                          bytes ? AT(r->keep) : NULL,
                                          c->flags & DROP,
                                          masks ? AT(c->mask) : NULL};
        tables[side]->attention_grad(queues[side], gradients_of(&g, ds), saved, &at, ratio_of(c),
                                     workspace(OF_TABLE(attention_grad_workspace)(&at, 1)));
    }
    wait_for_both();
    compare(c, &g, 2, ds, 1, "kept");
}

/* kept: what each side may take of its attention; NULL: nothing. y is rounded: of the sum of y dout over a row's e
 * elements the error grows with their root. */
static void tiled(const attention_case *c, const kept_maps *kept, bool ds, bool sums) {
    const int64_t members = sums && c->a.items % 2 == 0 ? c->a.items / 2 : sums ? c->a.items : 1;
    const int64_t n = c->a.items, count = members ? n / members : 0;
    int64_t groups[MOST] = {0}, of_group[MOST] = {0};
    for (int64_t i = 0; i < n; i++) /* members of a group are not neighbours */
        groups[i] = i, of_group[i] = i * count;
    const pair group_at = pair_of(TK_I64, count, groups), member_at = pair_of(TK_I64, members, of_group);
    const gradients g = new_gradients(c, sums ? count : n);
    for (side = HOST; side < SIDES; side++) {
        const tk_attention at = attention_of(c);
        const tk_attention_after after = {AT(c->dout), kept ? AT(kept->y) : NULL, kept ? AT(kept->statistics) : NULL};
        tk_attention_groups of_items = {.groups = n, .members = 1, .group_at = {.step = 1}};
        if (sums)
            of_items = (tk_attention_groups){count, members, {0, AT(group_at)}, {0, AT(member_at)}, true};
        tables[side]->attention_tiled_grad(queues[side], gradients_of(&g, ds), after, operands_of(c), &at, &of_items,
                                           ratio_of(c), seed_of(c),
                                           workspace(OF_TABLE(attention_tiled_grad_workspace)(&at, &of_items, 1)));
    }
    wait_for_both();
    compare(c, &g, kept ? 2 + sqrt((double)c->a.e) / 8 : 2, ds, 1 + (double)members,
            sums   ? "made again, summed"
            : kept ? "made again with statistics"
                   : "made again");
}

static void all_of(const attention_case *c) {
    const bool biased = c->flags & BIAS;
    kept_maps r;
    gradients g;
    run(c, &r, false);
    run(c, &r, true);
    if (!(c->flags & CAP))
        grad(c, &r, biased, &g);
    tiled(c, NULL, biased, false);
    if (tk_is_half(c->dtype) && !biased) /* else the device has no use for it */
        tiled(c, &r, false, false);
    if (biased)
        tiled(c, NULL, true, true);
    pairs_give_back();
}

static void one(tk_dtype dtype, const int64_t *sizes, int flags) {
    const attention_case c = make_case(dtype, sizes, flags);
    all_of(&c);
}

static const int64_t small[][5] = {{1, 1, 1, 1, 1}, {2, 5, 7, 3, 4}, {3, 6, 9, 4, 2}, {4, 9, 33, 16, 24}};

static void forms(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof small / sizeof *small; i++)
            for (int flags = 0; flags < 128; flags++)
                if ((flags + (int)i + (int)*t) % 23 == 0 && !((flags & (DROP | SIGNED)) == SIGNED))
                    one(*t, small[i], flags);
}

/* Softcaps, and biases that masks take: with what else decides over masks, and in rows that are read again and again.
 */
static void scores(void) {
    static const int flags[] = {FIRST | BIAS | MASK | FILL,
                                FIRST | BIAS | MASK | NARROW,
                                FIRST | BIAS | MASK | DROP | CAP,
                                FIRST | BIAS | MASK | FILL | CAP | TABLES,
                                MASK | DROP | FILL | CAP,
                                BIAS | CAP,
                                DROP | CAP | SIGNED,
                                CAP};
    for (const tk_dtype *t = all_floats; *t; t++) {
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
            one(*t, small[1 + i % 3], flags[i]);
        one(*t, (const int64_t[]){1, 2, 16, 2, 2}, FIRST | BIAS | MASK | FILL | CAP);
        if (*t != TK_F64) /* so many doubles have another sum in another order */
            one(*t, (const int64_t[]){1, 2, 2051, 2, 2}, FIRST | BIAS | MASK | FILL | DROP | CAP);
    }
}

/* Rows for each of the kernels, and lengths beside the borders between them. */
static void lengths(void) {
    static const int64_t t[] = {8, 64, 249, 256, 257, 512, 1000, 1024, 1025, 2048, 2051, 4100};
    for (const tk_dtype *type = all_floats; *type; type++)
        for (size_t i = 0; i < sizeof t / sizeof *t; i++)
            one(*type, (const int64_t[]){1, 2, t[i], 2, 2}, i % 2 ? BIAS | MASK | DROP | SIGNED : MASK | DROP | NARROW);
}

/* Tiles of 16-bit types, for heads of all sizes that have a kernel: whole ones and rests, at packed rows and others. */
static void tiles(void) {
    static const struct {
        int64_t sizes[5];
        int flags;
    } cases[] = {
        {{2, 130, 136, 64, 64}, MASK | DROP | NARROW | TABLES},
        {{1, 129, 200, 64, 64}, 0},
        {{1, 70, 131, 40, 56}, BIAS | MASK | DROP | FILL},
        {{1, 150, 72, 32, 32}, DROP},
        {{1, 67, 130, 96, 96}, BIAS | DROP},
        {{1, 80, 72, 128, 128}, MASK | DROP | FILL},
        {{1, 66, 100, 200, 256}, BIAS | NARROW | DROP},
        {{1, 40, 72, 256, 256}, 0},
    };
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; tk_is_half(*t) && i < sizeof cases / sizeof *cases; i++) {
            const attention_case c = make_case(*t, cases[i].sizes, cases[i].flags);
            kept_maps r;
            run(&c, &r, false);
            tiled(&c, NULL, false, false);
            tiled(&c, &r, false, false);
            pairs_give_back();
        }
}

/* Tiles are taken where a block has the shared memory that heads of this size need: 99 KB is what small GPUs give. */
static void small_blocks(void) {
    tk_cuda *cuda = tk_queue_cuda(queues[DEVICE]);
    const size_t before = cuda->shared_most;
    const tk_attention heads_64 = {.t = 9, .d = 64, .e = 64, .dtype = TK_BF16},
                       heads_256 = {.t = 9, .d = 256, .e = 256, .dtype = TK_BF16};
    cuda->shared_most = 99 * 1024;
    if (!tables[DEVICE]->attention_spreads(queues[DEVICE], &heads_64))
        wrong("99 KB are too little for heads of 64");
    if (tables[DEVICE]->attention_spreads(queues[DEVICE], &heads_256))
        wrong("99 KB are enough for heads of 256");
    tk_attention other = heads_64;
    other.softcap = 2;
    if (tables[DEVICE]->attention_spreads(queues[DEVICE], &other))
        wrong("tiles take a softcap");
    other.softcap = 0;
    other.bias_first = true;
    if (tables[DEVICE]->attention_spreads(queues[DEVICE], &other))
        wrong("tiles take a bias before the mask");
    cuda->shared_most = before;
}

/* --- heads of a token side by side --------------------------------------------------------------- */

typedef struct heads {
    int64_t batch, heads, tokens, width;
    bool turned; /* dense ones are [width, tokens] of each head */
} heads;

/* Where element i of dense matrices, one for each head, lies with the heads of a token side by side. */
static int64_t spread_place(const heads *h, int64_t i) {
    const int64_t size = h->tokens * h->width, item = i / size, at = i % size;
    const int64_t token = h->turned ? at % h->tokens : at / h->width,
                  element = h->turned ? at / h->tokens : at % h->width;
    return ((item / h->heads * h->tokens + token) * h->heads + item % h->heads) * h->width + element;
}

static pair spread_pair(pair p, const heads *h) {
    const size_t size = tk_size(p.dtype);
    char *elements = malloc((size_t)p.n * size);
    for (int64_t i = 0; i < p.n; i++)
        memcpy(elements + (size_t)spread_place(h, i) * size, (const char *)p.at[HOST] + (size_t)i * size, size);
    const pair made = pair_of(p.dtype, p.n, elements);
    free(elements);
    return made;
}

static tk_lines spread_lines(const heads *h) {
    int64_t at[MOST];
    for (int64_t i = 0; i < h->batch * h->heads; i++)
        at[i] = i / h->heads * h->heads * h->tokens * h->width + i % h->heads * h->width;
    return (tk_lines){{0, pair_of(TK_I64, h->batch * h->heads, at).at[DEVICE]}, h->heads * h->width};
}

static void same_spread(const attention_case *c, pair dense, pair spread, const heads *h, const char *what) {
    for (int64_t i = 0; i < dense.n; i++) {
        const double x = device_number(dense, i), y = device_number(spread, spread_place(h, i));
        if (x != y && (x == x || y == y)) {
            wrong("%s of %s: element %lld is %.9g dense and %.9g spread", what, c->name, (long long)i, x, y);
            return;
        }
    }
}

/* An attention and its gradient on the device, from what it kept. */
static void run_device(const attention_case *c, const kept_maps *r, const gradients *g) {
    const tk_attention_groups groups = {.groups = c->a.items, .members = 1, .group_at = {.step = 1}};
    side = DEVICE;
    tables[side]->attention_run(queues[side], (tk_attention_results){.y = AT(r->y), .statistics = AT(r->statistics)},
                                operands_of(c), &c->a, ratio_of(c), seed_of(c),
                                workspace(OF_TABLE(attention_workspace)(&c->a, 1)));
    tables[side]->attention_tiled_grad(queues[side], gradients_of(g, false),
                                       (tk_attention_after){AT(c->dout), AT(r->y), AT(r->statistics)}, operands_of(c),
                                       &c->a, &groups, ratio_of(c), seed_of(c),
                                       workspace(OF_TABLE(attention_tiled_grad_workspace)(&c->a, &groups, 1)));
    wait_for_both();
}

static kept_maps new_kept(const attention_case *c) {
    return (kept_maps){.y = pair_result(c->dtype, c->a.items * c->a.s * c->a.e),
                       .statistics = pair_result(TK_F32, c->a.items * c->a.s * 2)};
}

/* The same bits, wherever matrices lie. sizes: batch, heads, s, t, d, e. */
static void spread_one(tk_dtype dtype, const int64_t *sizes, int flags) {
    const int64_t batch = sizes[0], n = sizes[1], s = sizes[2], t = sizes[3], d = sizes[4], e = sizes[5];
    attention_case c = make_case(dtype, (const int64_t[]){batch * n, s, t, d, e}, flags);
    const heads of_q = {batch, n, s, d, false}, of_k = {batch, n, t, d, true}, of_v = {batch, n, t, e, false},
                of_y = {batch, n, s, e, false};
    const kept_maps dense = new_kept(&c), spread = new_kept(&c);
    const gradients dense_grad = new_gradients(&c, 0), spread_grad = new_gradients(&c, 0);
    run_device(&c, &dense, &dense_grad);
    c.q = spread_pair(c.q, &of_q), c.kt = spread_pair(c.kt, &of_k), c.v = spread_pair(c.v, &of_v);
    c.dout = spread_pair(c.dout, &of_y);
    c.a.by_keys = true;
    c.a.q = c.a.dq = spread_lines(&of_q);
    c.a.kt = c.a.dkt = spread_lines(&of_k);
    c.a.v = c.a.dv = spread_lines(&of_v);
    c.a.y = c.a.dout = spread_lines(&of_y);
    run_device(&c, &spread, &spread_grad);
    same_spread(&c, dense.y, spread.y, &of_y, "y");
    same_spread(&c, dense_grad.dq, spread_grad.dq, &of_q, "dq");
    same_spread(&c, dense_grad.dkt, spread_grad.dkt, &of_k, "dk");
    same_spread(&c, dense_grad.dv, spread_grad.dv, &of_v, "dv");
    pairs_give_back();
}

static void spread(void) {
    static const struct {
        int64_t sizes[6];
        int flags;
    } cases[] = {
        {{2, 3, 70, 66, 32, 32}, MASK | DROP | NARROW},
        {{1, 2, 33, 131, 64, 64}, DROP},
        {{2, 2, 9, 20, 40, 24}, MASK | FILL},
        {{1, 3, 17, 40, 5, 7}, BIAS | DROP},
        {{1, 2, 20, 35, 96, 128}, 0},
        {{1, 2, 18, 34, 256, 200}, DROP},
    };
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; tk_is_half(*t) && i < sizeof cases / sizeof *cases; i++)
            spread_one(*t, cases[i].sizes, cases[i].flags);
}

/* Many parts: of one item each, of 8, and of some. */
static void parts(void) {
    const int64_t before = tk_cuda_attention_bytes;
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int64_t bytes = 1; bytes < 7000; bytes += 6000) {
            tk_cuda_attention_bytes = bytes;
            one(*t, (const int64_t[]){11, 3, 33, 2, 2}, BIAS | MASK | DROP | TABLES);
            one(*t, (const int64_t[]){11, 3, 33, 2, 2}, BIAS | MASK | FILL | CAP);
            one(*t, (const int64_t[]){9, 3, 8, 4, 2}, BIAS | MASK | DROP | SIGNED | FILL);
        }
    tk_cuda_attention_bytes = before;
}

/* Rows of whole packs, but for their masks, between two of which is a byte. */
static void skewed(void) {
    for (const tk_dtype *t = all_floats; *t; t++) {
        attention_case c = make_case(*t, (const int64_t[]){2, 5, 16, 2, 2}, BIAS | MASK | DROP | FILL);
        c.a.mask_row = 17;
        c.a.mask_at.step = 5 * 17;
        c.mask = pair_random(TK_BOOL, 2 * 5 * 17, -0.3, 1);
        all_of(&c);
    }
}

static void same_bits(const attention_case *c, pair a, pair b, const char *what) {
    for (int64_t i = 0; i < a.n; i++)
        if (device_number(a, i) != device_number(b, i))
            wrong("%s of %s: element %lld is %.9g from bytes and %.9g from signs", what, c->name, (long long)i,
                  device_number(a, i), device_number(b, i));
}

/* What is dropped is told by bytes beside P or by its signs: one forward pass, and one gradient. */
static void recipes(void) {
    for (const tk_dtype *t = all_floats; *t; t++) {
        attention_case c = make_case(*t, (const int64_t[]){2, 5, 7, 3, 4}, BIAS | MASK | DROP);
        kept_maps bytes, signs;
        gradients by_bytes, by_signs;
        run(&c, &bytes, true);
        grad(&c, &bytes, true, &by_bytes);
        c.flags |= SIGNED;
        c.a.is_signed = true;
        run(&c, &signs, true);
        grad(&c, &signs, true, &by_signs);
        same_bits(&c, bytes.y, signs.y, "y");
        same_bits(&c, by_bytes.dq, by_signs.dq, "dq");
        same_bits(&c, by_bytes.dkt, by_signs.dkt, "dkt");
        same_bits(&c, by_bytes.dv, by_signs.dv, "dv");
        same_bits(&c, by_bytes.ds, by_signs.ds, "ds");
    }
}

static void nothing(void) {
    static const int64_t sizes[][5] = {{0, 3, 3, 3, 3}, {2, 0, 3, 2, 2}, {2, 3, 0, 2, 2}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            one(*t, sizes[i], BIAS | DROP);
}

/* A row without a key is not a number, or 0 where guarded. */
static void empty_rows(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int guard = 0; guard < 2; guard++) {
            attention_case c = make_case(*t, (const int64_t[]){2, 3, 11, 4, 4}, MASK | DROP | SIGNED);
            uint8_t mask[66] = {0};
            for (int i = 11; i < 66; i++)
                mask[i] = i % 4 != 0;
            c.mask = pair_of(TK_BOOL, 66, mask);
            c.a.guard = guard;
            kept_maps r;
            gradients g;
            run(&c, &r, false);
            run(&c, &r, true);
            grad(&c, &r, false, &g);
            tiled(&c, NULL, false, false);
            run(&c, &r, false);
            tiled(&c, &r, false, false);
        }
}

static void ratios(void) {
    static const double bad[] = {1, -0.5, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int which = 0; which < 3; which++) {
            const attention_case good = make_case(TK_F32, (const int64_t[]){2, 3, 5, 2, 2}, DROP | SIGNED);
            kept_maps r;
            run(&good, &r, true);
            attention_case c = good;
            c.ratio = pair_numbers(TK_F32, 1, &bad[i]);
            const gradients g = new_gradients(&c, 2);
            for (side = HOST; side < SIDES; side++) {
                const tk_attention at = attention_of(&c);
                const tk_attention_groups groups = {.groups = 2, .members = 1, .group_at = {.step = 1}};
                const tk_attention_results out = {.y = AT(r.y), .p = AT(r.p)};
                const tk_attention_saved saved = {AT(c.dout), AT(c.q), AT(c.kt), AT(c.v), AT(r.p),
                                                  NULL,       NULL,    true,     NULL};
                if (which == 0)
                    tables[side]->attention_run(queues[side], out, operands_of(&c), &at, ratio_of(&c), seed_of(&c),
                                                workspace(OF_TABLE(attention_workspace)(&at, 1)));
                else if (which == 1)
                    tables[side]->attention_grad(queues[side], gradients_of(&g, false), saved, &at, ratio_of(&c),
                                                 workspace(OF_TABLE(attention_grad_workspace)(&at, 1)));
                else
                    tables[side]->attention_tiled_grad(
                        queues[side], gradients_of(&g, false), (tk_attention_after){AT(c.dout), NULL, NULL},
                        operands_of(&c), &at, &groups, ratio_of(&c), seed_of(&c),
                        workspace(OF_TABLE(attention_tiled_grad_workspace)(&at, &groups, 1)));
            }
            wait_for_both();
            expect_fault(TK_BAD_VALUE, "a ratio that is none");
        }
}

const cuda_check checks[] = {{"forms", forms},
                             {"scores", scores},
                             {"lengths", lengths},
                             {"tiles", tiles},
                             {"small_blocks", small_blocks},
                             {"interleaved", spread},
                             {"parts", parts},
                             {"skewed", skewed},
                             {"recipes", recipes},
                             {"nothing", nothing},
                             {"empty rows", empty_rows},
                             {"ratios", ratios},
                             {NULL, NULL}};
