/* test_attention.c: attention and its gradient against the definition and its differences, over sizes, masks, biases,
 * shared operands and dropout, between guard bands; the same bits at 1 to 3 threads, and whether the dropped map was
 * saved, is in the sign of P, or is made again with P. */
#include "test/unit/kernel_test.h"
#include "kernels/attention/attention.h"
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_math.h"
#include "kernels/reduce/reduce.h"

enum { MOST = 35 };

/* One case: operands in float, the same in double, and where each item has its own. */
typedef struct attention_case {
    tk_attention a;
    int64_t at[5][MOST];
    bool has_bias, has_mask;
    float *q, *kt, *v, *bias, *dout;
    uint8_t *mask, *kept;
    double *dq, *dkt, *dv, *dbias, *ddout; /* the operands in double */
} attention_case;

static const tk_draw draw = {UINT64_C(0x0123456789abcdef), 11, 2};
static const double ratio = 0.3;

static float *numbers(int64_t n, uint64_t seed, double **out_doubles) {
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    *out_doubles = malloc((size_t)(n + 1) * sizeof **out_doubles);
    fill_f32(x, n, seed);
    for (int64_t i = 0; i < n; i++)
        (*out_doubles)[i] = (double)x[i];
    return x;
}

static void make_case(attention_case *c, const int64_t *sizes, int flags) {
    tk_attention *a = &c->a;
    *a = (tk_attention){.items = sizes[0],
                        .s = sizes[1],
                        .t = sizes[2],
                        .d = sizes[3],
                        .e = sizes[4],
                        .q.at = {.at = c->at[0]},
                        .kt.at = {.at = c->at[1]},
                        .v.at = {.at = c->at[2]},
                        .scale = 0.7,
                        .fill = flags & 8 ? -0.5 : -INFINITY, /* as large as scores: masked ones have their share */
                        .guard = flags & 8,
                        .bias_first = flags & 16,
                        .dtype = TK_F32};
    c->has_bias = flags & 1;
    c->has_mask = flags & 2;
    for (int64_t i = 0; i < a->items; i++) { /* every two share K and V, all the bias */
        c->at[0][i] = i * a->s * a->d;
        c->at[1][i] = i / 2 * a->d * a->t;
        c->at[2][i] = i / 2 * a->t * a->e;
        c->at[3][i] = 0;
        c->at[4][i] = i * a->t;
    }
    a->bias_at.at = c->at[3];
    a->mask_at.at = c->at[4];
    a->bias_row = flags & 4 ? 1 : a->t; /* [s, t], or [s, 1] */
    a->bias_column = flags & 4 ? 0 : 1;
    a->mask_column = 1; /* [items, 1, t] */
    c->q = numbers(a->items * a->s * a->d, 1, &c->dq);
    c->kt = numbers(a->items * a->d * a->t, 2, &c->dkt);
    c->v = numbers(a->items * a->t * a->e, 3, &c->dv);
    c->bias = numbers(a->s * a->t + a->s, 4, &c->dbias);
    c->dout = numbers(a->items * a->s * a->e, 5, &c->ddout);
    c->mask = malloc((size_t)(a->items * a->t) + 1);
    for (int64_t i = 0; i < a->items * a->t; i++)
        c->mask[i] = i % 5 != 1;
    c->kept = malloc((size_t)(a->items * a->s * a->t) + 1);
    tk_dropout_keep(c->kept, 0, a->items * a->s * a->t, tk_drop_threshold(ratio), &draw);
}

static void free_case(attention_case *c) {
    free(c->q), free(c->kt), free(c->v), free(c->bias), free(c->dout), free(c->mask), free(c->kept);
    free(c->dq), free(c->dkt), free(c->dv), free(c->dbias), free(c->ddout);
}

static void near(const char *what, const float *got, const double *exact, int64_t n, double tolerance) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(fabs((double)got[i]) - fabs(exact[i])) <= tolerance * (1 + fabs(exact[i]))))
            fail_msg("%s: element %lld is %.9g, expected %.9g", what, (long long)i, (double)got[i], exact[i]);
}

static tk_attention_operands operands_of(const attention_case *c) {
    return (tk_attention_operands){c->q, c->kt, c->v, c->has_bias ? c->bias : NULL, c->has_mask ? c->mask : NULL};
}

/* The definition's y for what the doubles hold now; p as scratch. */
static void reference(const attention_case *c, bool drop, double *y, double *p) {
    tk_attention_ref(y, p, NULL, c->dq, c->dkt, c->dv, c->has_bias ? c->dbias : NULL, c->has_mask ? c->mask : NULL,
                     drop ? c->kept : NULL, ratio, &c->a);
}

typedef struct results {
    float *y, *p, *dropped, *statistics, *dq, *dkt, *dv, *ds;
    uint8_t *keep;
    size_t y_n, p_n, q_n, k_n, v_n, statistics_n; /* elements */
} results;

static results new_results(const tk_attention *a) {
    results r = {.y_n = (size_t)(a->items * a->s * a->e),
                 .p_n = (size_t)(a->items * a->s * a->t),
                 .q_n = (size_t)(a->items * a->s * a->d),
                 .k_n = (size_t)(a->items * a->d * a->t),
                 .v_n = (size_t)(a->items * a->t * a->e),
                 .statistics_n = (size_t)(a->items * a->s * 2)};
    r.y = alloc_guarded(r.y_n * 4, 4), r.p = alloc_guarded(r.p_n * 4, 8), r.dropped = alloc_guarded(r.p_n * 4, 12);
    r.dq = alloc_guarded(r.q_n * 4, 4), r.dkt = alloc_guarded(r.k_n * 4, 0), r.dv = alloc_guarded(r.v_n * 4, 4);
    r.ds = alloc_guarded(r.p_n * 4, 4), r.keep = alloc_guarded(r.p_n, 1);
    r.statistics = alloc_guarded(r.statistics_n * 4, 4);
    return r;
}

static void free_results(results *r) {
    free_guarded(r->y, r->y_n * 4), free_guarded(r->p, r->p_n * 4), free_guarded(r->dropped, r->p_n * 4);
    free_guarded(r->dq, r->q_n * 4), free_guarded(r->dkt, r->k_n * 4), free_guarded(r->dv, r->v_n * 4);
    free_guarded(r->ds, r->p_n * 4), free_guarded(r->keep, r->p_n);
    free_guarded(r->statistics, r->statistics_n * 4);
}

/* Forward and backward with so many threads: everything saved, or what signed P holds (then only dq, dkt, dv). */
static void run(const attention_case *c, bool drop, bool is_signed, int threads, results *r) {
    tk_attention a = c->a;
    a.is_signed = is_signed;
    size_t forward = tk_attention_workspace(&a, threads), backward = tk_attention_grad_workspace(&a, threads);
    void *workspace = alloc_guarded(forward, 0), *more = alloc_guarded(backward, 0);
    use_threads(threads);
    tk_attention_results out = {r->y, r->p, drop && !is_signed ? r->dropped : NULL, drop && !is_signed ? r->keep : NULL,
                                r->statistics};
    assert_int_equal(FAULT_OF(tk_attention_run(queue(), out, operands_of(c), &a, number(ratio),
                                               drop ? seed_of(&draw) : (tk_seed){0}, workspace)),
                     TK_OK);
    tk_attention_saved saved = {c->dout,  c->q, c->kt,
                                c->v,     r->p, out.dropped,
                                out.keep, drop, c->has_mask && isfinite(a.fill) ? c->mask : NULL};
    tk_attention_gradients gradients = {r->dq, r->dkt, r->dv, is_signed ? NULL : r->ds};
    assert_int_equal(FAULT_OF(tk_attention_grad(queue(), gradients, saved, &a, number(ratio), more)), TK_OK);
    free_guarded(workspace, forward), free_guarded(more, backward);
}

/* The gradient that makes P again gives the bits of the one that has it; ds too, or, where all items share the bias,
 * the bits that ReduceSum makes of it. known: it takes statistics of rows, which change nothing. */
static void run_tiled(const attention_case *c, bool drop, int threads, const results *want, bool sums, bool known) {
    const tk_attention *a = &c->a;
    results r = new_results(a);
    tk_attention_groups groups = {.groups = sums ? 1 : a->items,
                                  .members = sums ? a->items : 1,
                                  .group_at = {.step = 1},
                                  .member_at = {.step = 1},
                                  .sums = sums};
    size_t bytes = tk_attention_tiled_grad_workspace(a, &groups, threads), n = (size_t)(a->s * a->t);
    void *workspace = alloc_guarded(bytes, 0);
    float *sum = alloc_guarded(n * 4, 4), *columns = alloc_guarded(n * 4, 8);
    use_threads(threads);
    tk_attention_gradients gradients = {r.dq, r.dkt, r.dv, sums ? sum : r.ds};
    const tk_attention_after after = {c->dout, known ? want->y : NULL, known ? want->statistics : NULL};
    assert_int_equal(FAULT_OF(tk_attention_tiled_grad(queue(), gradients, after, operands_of(c), a, &groups,
                                                      number(ratio), drop ? seed_of(&draw) : (tk_seed){0}, workspace)),
                     TK_OK);
    assert_memory_equal(r.dq, want->dq, r.q_n * 4);
    assert_memory_equal(r.dkt, want->dkt, r.k_n * 4);
    assert_memory_equal(r.dv, want->dv, r.v_n * 4);
    if (sums) {
        tk_reduction shape;
        tk_reduction_init(&shape, 3, (const int64_t[]){a->items, a->s, a->t}, (const bool[]){true, false, false});
        tk_reduce(queue(), columns, want->ds, &shape, TK_REDUCE_SUM, TK_F32, NULL);
        assert_memory_equal(sum, columns, n * 4);
    } else {
        assert_memory_equal(r.ds, want->ds, r.p_n * 4);
    }
    free_guarded(workspace, bytes), free_guarded(sum, n * 4), free_guarded(columns, n * 4);
    free_results(&r);
}

static void same_gradients(const results *a, const results *b) {
    assert_memory_equal(a->y, b->y, a->y_n * 4);
    assert_memory_equal(a->dq, b->dq, a->q_n * 4);
    assert_memory_equal(a->dkt, b->dkt, a->k_n * 4);
    assert_memory_equal(a->dv, b->dv, a->v_n * 4);
}

/* Differences of sum(y dout) as `at` changes. */
static double slope(const attention_case *c, bool drop, double *at, double *y, double *p) {
    double kept = *at, change = 0;
    int64_t n = c->a.items * c->a.s * c->a.e;
    for (int side = -1; side <= 1; side += 2) {
        *at = kept + side * 1e-5;
        reference(c, drop, y, p);
        for (int64_t i = 0; i < n; i++)
            change += side * y[i] * c->ddout[i];
    }
    *at = kept;
    return change / 2e-5;
}

/* Every few elements of the gradients. Items that share K and V each have their part of the gradient. */
static void check_gradients(const attention_case *c, bool drop, const results *r, double *y, double *p) {
    const tk_attention *a = &c->a;
    for (int64_t i = 0; i < a->items * a->s * a->d; i += 7)
        assert_true(fabs(slope(c, drop, c->dq + i, y, p) - (double)r->dq[i]) < 1e-4);
    const struct {
        double *of;
        const float *gradient;
        int64_t each;
    } shared[] = {{c->dkt, r->dkt, a->d * a->t}, {c->dv, r->dv, a->t * a->e}};
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < shared[k].each; i += 5) { /* of items 0 and 1 */
            double sum =
                (double)shared[k].gradient[i] + (a->items > 1 ? (double)shared[k].gradient[shared[k].each + i] : 0);
            assert_true(fabs(slope(c, drop, shared[k].of + i, y, p) - sum) < 1e-4);
        }
    for (int64_t i = 0; c->has_bias && a->bias_column && i < a->s * a->t; i += 11) {
        double sum = 0;
        for (int64_t item = 0; item < a->items; item++)
            sum += (double)r->ds[item * a->s * a->t + i];
        assert_true(fabs(slope(c, drop, c->dbias + i, y, p) - sum) < 1e-4);
    }
}

static void one(const int64_t *sizes, int flags, bool drop) {
    attention_case c;
    make_case(&c, sizes, flags);
    results all = new_results(&c.a), again = new_results(&c.a);
    double *y = malloc(all.y_n * 8 + 8), *p = malloc(all.p_n * 8 + 8);
    run(&c, drop, false, 1, &all);
    reference(&c, drop, y, p);
    near("p", all.p, p, (int64_t)all.p_n, 2e-6);
    near("y", all.y, y, (int64_t)all.y_n, 4e-6);
    for (size_t i = 0; i < all.p_n && drop; i++)
        assert_int_equal(all.keep[i], c.kept[i]);
    if (all.p_n < 500 && c.a.items > 0)
        check_gradients(&c, drop, &all, y, p);
    for (int threads = 1; threads <= 3; threads++) {
        for (int sums = 0; sums < 2; sums++)
            run_tiled(&c, drop, threads, &all, sums, threads % 2 == 0);
        run(&c, drop, false, threads, &again);
        same_gradients(&all, &again);
        assert_memory_equal(all.p, again.p, all.p_n * 4);
        assert_memory_equal(all.ds, again.ds, all.p_n * 4);
        run(&c, drop, true, threads, &again);
        same_gradients(&all, &again);
        for (size_t i = 0; i < all.p_n; i++)
            assert_true(!signbit(again.p[i]) == (!drop || c.kept[i]) && fabsf(again.p[i]) == all.p[i]);
    }
    tk_attention_results out = {.y = again.y}; /* nothing but y wanted */
    size_t bytes = tk_attention_workspace(&c.a, 2);
    void *workspace = alloc_guarded(bytes, 0);
    use_threads(2);
    assert_int_equal(FAULT_OF(tk_attention_run(queue(), out, operands_of(&c), &c.a, number(ratio),
                                               drop ? seed_of(&draw) : (tk_seed){0}, workspace)),
                     TK_OK);
    assert_memory_equal(all.y, again.y, all.y_n * 4);
    free_guarded(workspace, bytes);
    free(y), free(p);
    free_results(&all), free_results(&again);
    free_case(&c);
}

TEST(attention) {
    static const int64_t sizes[][5] = {
        /* items, s, t, d, e */
        {1, 1, 1, 1, 1}, {2, 5, 7, 3, 4}, {3, 6, 9, 4, 2},       {4, 65, 33, 16, 24}, {2, 300, 1029, 8, 8},
        {0, 3, 3, 3, 3}, {2, 0, 3, 2, 2}, {8, 128, 128, 64, 64}, {35, 3, 21, 2, 2},   {16, 2, 5, 2, 2},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int flags = 0; flags < 32; flags++)
            for (int drop = 0; drop < 2; drop++)
                if (sizes[i][1] < 100 || (flags & 7) == 3)
                    one(sizes[i], flags, drop);
}

/* Scores behind a softcap: y as defined, and the gradient, which is always the tiled one, as differences say, with the
 * same bits at any number of threads. */
static void capped_one(int flags, bool drop) {
    attention_case c;
    make_case(&c, (const int64_t[]){3, 6, 9, 4, 2}, flags);
    c.a.softcap = 0.8;
    results r = new_results(&c.a), again = new_results(&c.a);
    double y[3 * 6 * 2], p[3 * 6 * 9];
    const tk_attention_groups groups = {.groups = c.a.items, .members = 1, .group_at = {.step = 1}};
    for (int threads = 1; threads <= 3; threads++) {
        results *to = threads == 1 ? &r : &again;
        size_t forward = tk_attention_workspace(&c.a, threads);
        size_t backward = tk_attention_tiled_grad_workspace(&c.a, &groups, threads);
        void *workspace = alloc_guarded(forward, 0), *more = alloc_guarded(backward, 0);
        const tk_seed seed = drop ? seed_of(&draw) : (tk_seed){0};
        use_threads(threads);
        assert_int_equal(FAULT_OF(tk_attention_run(queue(), (tk_attention_results){.y = to->y}, operands_of(&c), &c.a,
                                                   number(ratio), seed, workspace)),
                         TK_OK);
        assert_int_equal(
            FAULT_OF(tk_attention_tiled_grad(queue(), (tk_attention_gradients){to->dq, to->dkt, to->dv, to->ds},
                                             (tk_attention_after){.dout = c.dout}, operands_of(&c), &c.a, &groups,
                                             number(ratio), seed, more)),
            TK_OK);
        free_guarded(workspace, forward), free_guarded(more, backward);
    }
    reference(&c, drop, y, p);
    near("y", r.y, y, (int64_t)r.y_n, 4e-6);
    check_gradients(&c, drop, &r, y, p);
    same_gradients(&r, &again);
    assert_memory_equal(r.ds, again.ds, r.p_n * 4);
    free_results(&r), free_results(&again);
    free_case(&c);
}

TEST(capped) {
    for (int flags = 0; flags < 32; flags++)
        for (int drop = 0; drop < 2; drop++)
            capped_one(flags, drop);
}

TEST(doubles) {
    attention_case c;
    make_case(&c, (const int64_t[]){4, 21, 17, 5, 6}, 3);
    c.a.dtype = TK_F64;
    double y[4 * 21 * 6], p[4 * 21 * 17], exact[4 * 21 * 6], exact_p[4 * 21 * 17], dq[4 * 21 * 5], dkt[4 * 17 * 5],
        dv[4 * 17 * 6];
    void *workspace = malloc(tk_attention_grad_workspace(&c.a, 2));
    tk_attention_operands in = {c.dq, c.dkt, c.dv, c.dbias, c.mask};
    use_threads(2);
    c.a.is_signed = true;
    assert_int_equal(FAULT_OF(tk_attention_run(queue(), (tk_attention_results){.y = y, .p = p}, in, &c.a, number(ratio),
                                               seed_of(&draw), workspace)),
                     TK_OK);
    reference(&c, true, exact, exact_p);
    for (size_t i = 0; i < sizeof y / sizeof y[0]; i++)
        assert_true(fabs(y[i] - exact[i]) < 1e-13);
    tk_attention_saved saved = {c.ddout, c.dq, c.dkt, c.dv, p, NULL, NULL, true};
    assert_int_equal(FAULT_OF(tk_attention_grad(queue(), (tk_attention_gradients){dq, dkt, dv, NULL}, saved, &c.a,
                                                number(ratio), workspace)),
                     TK_OK);
    for (size_t i = 0; i < sizeof dq / sizeof dq[0]; i += 3)
        assert_true(fabs(slope(&c, true, c.dq + i, exact, exact_p) - dq[i]) < 1e-8);
    free(workspace);
    free_case(&c);
}

/* A row without a single key: not a number, without a sign, or 0 where guarded; other rows are as they were. */
TEST(empty_rows) {
    for (int guard = 0; guard < 2; guard++) {
        attention_case c;
        make_case(&c, (const int64_t[]){1, 2, 3, 4, 2}, 2 | guard * 8);
        const uint8_t mask[] = {0, 0, 0, 1, 0, 1};
        c.a.mask_row = 3;
        c.a.fill = -INFINITY;
        memcpy(c.mask, mask, 3);
        float y[4], p[6], again[4], workspace[64];
        tk_attention_operands in = {c.q, c.kt, c.v, NULL, mask};
        tk_attention_run(queue(), (tk_attention_results){.y = y, .p = p}, in, &c.a, number(0), (tk_seed){0}, workspace);
        for (int i = 0; i < 3; i++)
            assert_true(guard ? p[i] == 0 : isnan(p[i]) && !signbit(p[i]));
        assert_true(p[3] > 0 && p[4] == 0 && p[5] > 0 && fabsf(p[3] + p[5] - 1) < 1e-6f);
        assert_true(guard ? y[0] == 0 : isnan(y[0]));
        c.a.is_signed = true;
        tk_attention_run(queue(), (tk_attention_results){.y = again, .p = p}, in, &c.a, number(ratio), seed_of(&draw),
                         workspace);
        c.a.is_signed = false;
        tk_attention_run(queue(), (tk_attention_results){.y = y, .p = p}, in, &c.a, number(ratio), seed_of(&draw),
                         workspace);
        assert_memory_equal(y, again, sizeof y);
        free_case(&c);
    }
}

TEST(ratios) {
    const tk_attention a = {.dtype = TK_F32};
    const double wrong[] = {1, -0.1, NAN};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(FAULT_OF(tk_attention_run(queue(), (tk_attention_results){0}, (tk_attention_operands){0}, &a,
                                                   number(wrong[i]), seed_of(&draw), NULL)),
                         TK_BAD_VALUE);
        assert_int_equal(
            FAULT_OF(tk_attention_grad(queue(), (tk_attention_gradients){0}, (tk_attention_saved){.is_dropped = true},
                                       &a, number(wrong[i]), NULL)),
            TK_BAD_VALUE);
    }
}
