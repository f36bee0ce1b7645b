/* check_norm_chain.c: norms and their gradients with chains around them, on the emulated device: the bits of the chain
 * and the norm one by one, which are held against the reference themselves, and numbers of the reference. Rows that
 * registers hold, of a warp and of a block; rows that are no whole packs, too long, or somewhere in memory. */
#include "chain_case.h"
#include <stdio.h>

static const struct {
    int64_t rows, n;
} shapes[] = {{1, 8}, {4, 24}, {6, 64}, {5, 50}, {4, 33}, {9, 256}, {2, 1000}, {4, 2056}, {2, 8200}, {300, 8}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static const int64_t seeds[] = {77, 3};

static tk_norm_rows rows_of(int i, bool centered, tk_dtype dtype) {
    return (tk_norm_rows){.rows = shapes[i].rows,
                          .n = shapes[i].n,
                          .epsilon = 1e-5,
                          .centered = centered,
                          .dtype = dtype,
                          .stat_dtype = dtype == TK_F64 ? TK_F64 : TK_F32};
}

/* Rows of blocks with half the chains, and of two types, are enough. */
static bool is_spared(int i, int which, tk_dtype dtype) {
    const bool is_large = shapes[i].rows * shapes[i].n > 2100;
    return is_large && (which % 3 != 0 || dtype == TK_F16 || dtype == TK_F64);
}

/* Sums are of numbers up to 12, rounded a few times before they are normalized. */
static bounds close_to(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 4, .absolute = dtype == TK_F16 ? 1e-2 : 8e-2}
           : dtype == TK_F64 ? (bounds){.relative = 1e-12, .absolute = 1e-12}
                             : (bounds){.relative = 4e-6, .absolute = 8e-6};
}

/* --- links: what a side stores of them --------------------------------------------------------------- */

typedef struct made_chain {
    made_link links[TK_CHAIN_LINKS];
    int n;
} made_chain;

/* The same links with results of their own. */
static made_chain stored_anew(const made_chain *chain) {
    made_chain other = *chain;
    for (int i = 0; i < other.n; i++) {
        if (other.links[i].store.n > 0)
            other.links[i].store = pair_result(other.links[i].store.dtype, other.links[i].store.n);
        if (other.links[i].mask.n > 0)
            other.links[i].mask = pair_result(TK_BOOL, other.links[i].mask.n);
    }
    return other;
}

static void same_stored(const made_chain *a, const made_chain *b, const char *what) {
    for (int i = 0; i < a->n; i++) {
        if (a->links[i].store.n > 0)
            pair_same(a->links[i].store, b->links[i].store, what);
        if (a->links[i].mask.n > 0)
            pair_same(a->links[i].mask, b->links[i].mask, what);
    }
}

static void add(made_chain *chain, tk_dtype dtype, int64_t period, pair store) {
    chain->links[chain->n++] = (made_link){.link = {.op = TK_LINK_ADD, .inner = 1, .period = period},
                                           .operand = pair_random(dtype, period, -2, 2),
                                           .store = store};
}
static void drop(made_chain *chain, bool drawn, int64_t n, pair mask, pair store) {
    made_link link = {
        .link = {.op = drawn ? TK_LINK_DROPOUT : TK_LINK_DROPOUT_GRAD, .inner = 1, .period = n, .seed = {.node = 9}},
        .mask = mask,
        .store = store};
    if (drawn)
        link.seed = pair_of(TK_I64, 2, seeds), link.ratio = pair_numbers(TK_F32, 1, (const double[]){0.4});
    else
        link.operand = pair_random(TK_BOOL, n, 0, 1);
    chain->links[chain->n++] = link;
}

static const pair none = {.n = 0};

/* What may stand before a norm. */
static made_chain before_norm(int which, int64_t rows, int64_t n, tk_dtype dtype) {
    made_chain c = {.n = 0};
    const int64_t all = rows * n;
    if (which != 1)
        add(&c, dtype, n, none); /* a bias */
    if (which == 0)
        drop(&c, true, all, none, none);
    if (which == 2)
        drop(&c, true, all, pair_result(TK_BOOL, all), pair_result(dtype, all)), drop(&c, false, all, none, none);
    add(&c, dtype, which == 3 && rows % 2 == 0 ? 2 * n : all, which > 0 ? pair_result(dtype, all) : none);
    return c;
}
enum { N_BEFORE = 4 };

/* --- forward ------------------------------------------------------------------------------------------ */

static void forward_case(int i, int which, bool keeps, tk_dtype dtype) {
    const tk_norm_rows s = rows_of(i, which != 3, dtype);
    const int64_t n = s.rows * s.n;
    char what[80];
    snprintf(what, sizeof what, "chain %d before %lld x %lld", which, (long long)s.rows, (long long)s.n);
    made_chain chain = before_norm(which, s.rows, s.n, dtype), apart = stored_anew(&chain);
    pair first = pair_random(dtype, n, -3, 3), scale = pair_random(dtype, s.n, -2, 2),
         bias = pair_random(dtype, s.n, -1, 1), y = pair_result(dtype, n), xhat = pair_result(dtype, n),
         inv_std = pair_result(s.stat_dtype, s.rows), y2 = pair_result(dtype, n), xhat2 = pair_result(dtype, n),
         inv_std2 = pair_result(s.stat_dtype, s.rows), x = apart.links[apart.n - 1].store;
    if (x.n == 0)
        x = apart.links[apart.n - 1].store = pair_result(dtype, n);
    if (!keeps)
        xhat = xhat2 = none;
    ON_BOTH(norm_chain, AT(y), AT(xhat), NULL, AT(inv_std), CHAIN_OF(first, n, chain.links, chain.n), AT(scale),
            which == 1 ? NULL : AT(bias), &s);
    ON_BOTH(chain_run, CHAIN_OF(first, n, apart.links, apart.n));
    ON_BOTH(norm, AT(y2), AT(xhat2), NULL, AT(inv_std2), AT(x), AT(scale), which == 1 ? NULL : AT(bias), &s);
    pair_compare(y, close_to(dtype), "y, %s", what);
    pair_same(y, y2, what);
    pair_same(inv_std, inv_std2, what);
    if (keeps)
        pair_same(xhat, xhat2, what);
    same_stored(&chain, &apart, what);
    /* Over the last operand, which is as large; x-hat is not kept. */
    chain.links[chain.n - 1].store = none;
    if (chain.links[chain.n - 1].operand.n == n) {
        ON_BOTH(norm_chain, AT(chain.links[chain.n - 1].operand), NULL, NULL, NULL,
                CHAIN_OF(first, n, chain.links, chain.n), AT(scale), which == 1 ? NULL : AT(bias), &s);
        pair_same(chain.links[chain.n - 1].operand, y, what);
    }
}

static void forward(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int which = 0; which < N_BEFORE; which++)
                if (!is_spared(i, which, *t))
                    forward_case(i, which, which % 2 == 0, *t);
}

/* Links that rows in registers do not have, and memory that is not aligned: a kernel after the other. */
static void forward_apart(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int64_t first = 0; first < 2; first++) {
            const tk_norm_rows s = rows_of(2, true, *t);
            const int64_t n = s.rows * s.n;
            made_link links[] = {{.link = {.op = first ? TK_LINK_ADD : TK_LINK_TANH, .inner = 1, .period = n},
                                  .operand = first ? pair_from(pair_random(*t, n + 1, -1, 1), 1) : none}};
            pair x = pair_random(*t, n, -3, 3), scale = pair_random(*t, s.n, -2, 2), y = pair_result(*t, n);
            ON_BOTH(norm_chain, AT(y), NULL, NULL, NULL, CHAIN_OF(x, n, links, 1), AT(scale), NULL, &s);
            pair_compare(y, close_to(*t), first ? "y of x that is not aligned" : "y of tanh(x)");
        }
}

/* --- gradients ------------------------------------------------------------------------------------------ */

/* What may stand behind a gradient: a residual's gradient is added, and what was dropped is dropped. */
static made_chain after_grad(int which, int64_t n, tk_dtype dtype) {
    made_chain c = {.n = 0};
    if (which == 0)
        return c;
    if (which != 2)
        add(&c, dtype, n, which == 3 ? pair_result(dtype, n) : none);
    if (which > 1)
        drop(&c, which == 3, n, none, none);
    c.links[c.n - 1].store = pair_result(dtype, n);
    return c;
}
enum { N_AFTER = 4 };

static void grad_case(int i, int sums, int which, tk_dtype dtype) {
    const tk_norm_rows s = rows_of(i, which != 1, dtype);
    const int64_t n = s.rows * s.n;
    char what[80];
    snprintf(what, sizeof what, "%d sums, gradient of %lld x %lld, chain %d", sums, (long long)s.rows, (long long)s.n,
             which);
    made_chain before = {.n = 0}, after = after_grad(which, n, dtype);
    for (int k = 0; k < sums; k++)
        add(&before, dtype, n, k == 1 ? pair_result(dtype, n) : none);
    made_chain before2 = stored_anew(&before), after2 = stored_anew(&after);
    pair dout = pair_random(dtype, n, -2, 2), x = pair_random(dtype, n, -2, 2), scale = pair_random(dtype, s.n, -2, 2),
         mean = pair_random(s.stat_dtype, s.rows, -0.5, 0.5), inv_std = pair_random(s.stat_dtype, s.rows, 0.5, 2),
         dx = pair_result(dtype, n), dscale = pair_result(dtype, s.n), dbias = pair_result(dtype, s.n),
         dx2 = pair_result(dtype, n), dscale2 = pair_result(dtype, s.n), dbias2 = pair_result(dtype, s.n), g = dout;
    const bool from_xhat = which % 2 == 0, wants_dx = which != 3 || i % 2 == 0;
    ON_BOTH(norm_grad_chain, wants_dx ? AT(dx) : NULL, AT(dscale), AT(dbias), CHAIN_OF(dout, n, before.links, before.n),
            from_xhat ? NULL : AT(x), from_xhat ? AT(x) : NULL, AT(scale), s.centered ? AT(mean) : NULL, AT(inv_std),
            CHAIN_OF(dout, n, after.links, after.n), &s, workspace(OF_TABLE(norm_grad_workspace)(&s)));
    if (sums > 0) {
        g = before2.links[sums - 1].store.n > 0 ? before2.links[sums - 1].store : pair_result(dtype, n);
        before2.links[sums - 1].store = g;
        ON_BOTH(chain_run, CHAIN_OF(dout, n, before2.links, before2.n));
    }
    if (from_xhat)
        ON_BOTH(norm_xhat_grad, AT(dx2), AT(dscale2), AT(dbias2), AT(g), AT(x), AT(scale), AT(inv_std), &s,
                workspace(OF_TABLE(norm_grad_workspace)(&s)));
    else
        ON_BOTH(norm_grad, AT(dx2), AT(dscale2), AT(dbias2), AT(g), AT(x), AT(scale), s.centered ? AT(mean) : NULL,
                AT(inv_std), &s, workspace(OF_TABLE(norm_grad_workspace)(&s)));
    if (after2.n > 0)
        ON_BOTH(chain_run, CHAIN_OF(dx2, n, after2.links, after2.n));
    bounds columns = close_to(dtype);
    columns.absolute *= dtype == TK_F32 ? (double)s.rows / 4 : (double)s.rows;
    pair_compare(dscale, columns, "dscale, %s", what);
    if (wants_dx) {
        pair_compare(dx, close_to(dtype), "dx, %s", what);
        pair_same(dx, dx2, what);
    }
    pair_same(dscale, dscale2, what);
    pair_same(dbias, dbias2, what);
    same_stored(&before, &before2, what);
    same_stored(&after, &after2, what);
}

static void grad(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int which = 0; which < N_AFTER; which++)
                for (int sums = which == 0; sums < 3; sums += 2 - (which == 0))
                    if (!is_spared(i, which, *t))
                        grad_case(i, sums, which, *t);
}

/* The last result of all over dout, and over x. */
static void grad_over(void) {
    const tk_norm_rows s = rows_of(2, true, TK_F32);
    const int64_t n = s.rows * s.n;
    for (int over = 0; over < 4; over++) {
        made_chain before = {.n = 0}, after = {.n = 0};
        pair dout = pair_random(TK_F32, n, -2, 2), xhat = pair_random(TK_F32, n, -2, 2),
             scale = pair_random(TK_F32, s.n, -2, 2), inv_std = pair_random(TK_F32, s.rows, 0.5, 2),
             far = pair_from(pair_random(TK_F32, n + 1, -1, 1), 1), to = over % 2 ? dout : xhat;
        if (over % 2)
            add(&before, TK_F32, n, none);
        drop(&after, false, n, none, to);
        if (over > 1) /* and is not aligned: a kernel after the other */
            after.links[after.n++] =
                (made_link){.link = {.op = TK_LINK_ADD, .inner = 1, .period = n}, .operand = far, .store = to};
        if (over > 1)
            after.links[0].store = none;
        ON_BOTH(norm_grad_chain, NULL, NULL, NULL, CHAIN_OF(dout, n, before.links, before.n), NULL, AT(xhat), AT(scale),
                NULL, AT(inv_std), CHAIN_OF(dout, n, after.links, after.n), &s, NULL);
        pair_compare(to, close_to(TK_F32), "the last result over an operand, %d", over);
    }
}

static void faults(void) {
    const tk_norm_rows s = rows_of(1, true, TK_F32);
    const int64_t n = s.rows * s.n;
    made_chain chain = {.n = 0};
    drop(&chain, true, n, none, none);
    chain.links[0].ratio = pair_numbers(TK_F32, 1, (const double[]){1.0});
    pair x = pair_random(TK_F32, n, -1, 1), scale = pair_random(TK_F32, s.n, -1, 1), y = pair_result(TK_F32, n);
    ON_BOTH(norm_chain, AT(y), NULL, NULL, NULL, CHAIN_OF(x, n, chain.links, 1), AT(scale), NULL, &s);
    expect_fault(TK_BAD_VALUE, "a ratio of 1");
}

/* No rows: sums over them are 0. */
static void empty(void) {
    tk_norm_rows s = rows_of(1, true, TK_F32);
    s.rows = 0;
    made_chain chain = {.n = 0};
    add(&chain, TK_F32, s.n, none);
    pair x = pair_result(TK_F32, 0), scale = pair_random(TK_F32, s.n, -1, 1), y = pair_result(TK_F32, 0),
         stats = pair_result(TK_F32, 0), dscale = pair_result(TK_F32, s.n);
    ON_BOTH(norm_chain, AT(y), NULL, NULL, NULL, CHAIN_OF(x, 0, chain.links, 1), AT(scale), NULL, &s);
    ON_BOTH(norm_grad_chain, AT(y), AT(dscale), NULL, CHAIN_OF(x, 0, chain.links, 1), NULL, AT(x), AT(scale), NULL,
            AT(stats), CHAIN_OF(x, 0, chain.links, 0), &s, workspace(OF_TABLE(norm_grad_workspace)(&s)));
    pair_compare(dscale, (bounds){0}, "dscale of no rows");
}

const cuda_check checks[] = {{"forward", forward}, {"forward, apart", forward_apart},
                             {"grad", grad},       {"grad, over", grad_over},
                             {"faults", faults},   {"empty", empty},
                             {NULL, NULL}};
