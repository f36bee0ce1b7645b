/* reference_attention.c: attention and its gradients as their definition reads, in double precision: the file to read
 * first. Of one item (a head of a sequence):
 *   Q [s, d], K^T [d, t], V [t, e]  ->  S = scale Q K^T [s, t]  ->  P = softmax of S's rows [s, t]  ->  Y = P V [s, e]
 * with a bias added to S, or a mask over it, on the way, and elements of P dropped. Backward, from dY [s, e]:
 *   dV = P^T dY [t, e];  dP = dY V^T [s, t]  ->  dS = P (dP - rowsum(P dP)) [s, t]  ->  dQ = scale dS K [s, d],
 *   dK^T = scale Q^T dS [d, t]
 * The kernels of kernels/attention compute the same in blocks of rows and columns that fit a cache. */
#include "../common/parallel.h"
#include "reference.h"
#include <math.h>
#include <string.h>

/* --- one item ----------------------------------------------------------------------------------- */

static double score(const double *q, const double *kt, const double *bias, const uint8_t *mask, const tk_attention *a,
                    int64_t item, int64_t i, int64_t j) {
    double s = 0;
    for (int64_t k = 0; k < a->d; k++)
        s += a->scale * q[tk_place(&a->q.at, item) + i * a->d + k] * kt[tk_place(&a->kt.at, item) + k * a->t + j];
    if (a->softcap != 0)
        s = a->softcap * tanh(s / a->softcap);
    const bool masked = mask && !mask[tk_place(&a->mask_at, item) + i * a->mask_row + j * a->mask_column];
    const double added = bias ? bias[tk_place(&a->bias_at, item) + i * a->bias_row + j * a->bias_column] : 0;
    if (masked)
        return a->bias_first || !bias ? a->fill : a->fill + added;
    return bias ? s + added : s;
}

void tk_attention_ref(double *y, double *p, double *statistics, const double *q, const double *kt, const double *v,
                      const double *bias, const uint8_t *mask, const uint8_t *kept, double ratio,
                      const tk_attention *a) {
    for (int64_t item = 0; item < a->items; item++)
        for (int64_t i = 0; i < a->s; i++) {
            double *row = p + (item * a->s + i) * a->t, *out = y + (item * a->s + i) * a->e, largest = -INFINITY,
                   sum = 0;
            for (int64_t j = 0; j < a->t; j++)
                largest = fmax(largest, row[j] = score(q, kt, bias, mask, a, item, i, j));
            for (int64_t j = 0; j < a->t; j++)
                sum += row[j] = exp(row[j] - largest);
            if (statistics)
                statistics[2 * (item * a->s + i)] = largest, statistics[2 * (item * a->s + i) + 1] = sum;
            for (int64_t j = 0; j < a->t; j++)
                row[j] = isnan(sum) && a->guard ? 0 : row[j] / sum;
            for (int64_t k = 0; k < a->e; k++) {
                out[k] = 0;
                for (int64_t j = 0; j < a->t; j++) {
                    double left = kept ? (kept[(item * a->s + i) * a->t + j] ? row[j] / (1 - ratio) : 0) : row[j];
                    out[k] += left * v[tk_place(&a->v.at, item) + j * a->e + k];
                }
            }
        }
}

/* --- forward ------------------------------------------------------------------------------------ */

typedef struct attention_ctx {
    tk_queue *q;
    tk_attention_results out;
    tk_attention_operands in;
    const tk_attention *a;
    double ratio;
    const tk_draw *draw; /* NULL: nothing is dropped */
} attention_ctx;

static const void *from(const void *data, int64_t at, tk_dtype dtype) {
    return data ? (const char *)data + (size_t)at * tk_size(dtype) : NULL;
}

/* One item with bias and mask of the size of its scores. */
static tk_attention single(const tk_attention *a) {
    tk_attention one = {.items = 1,
                        .s = a->s,
                        .t = a->t,
                        .d = a->d,
                        .e = a->e,
                        .scale = a->scale,
                        .fill = a->fill,
                        .bias_first = a->bias_first,
                        .softcap = a->softcap};
    one.bias_row = one.mask_row = a->t;
    one.bias_column = one.mask_column = 1;
    one.guard = a->guard;
    return one;
}

static void put_item(const attention_ctx *c, int64_t item, const double *y, const double *p, const double *statistics,
                     const uint8_t *kept) {
    const tk_attention *a = c->a;
    for (int64_t i = 0; c->out.statistics && i < 2 * a->s; i++)
        tk_put(c->out.statistics, tk_wide(a->dtype), item * 2 * a->s + i, statistics[i]);
    for (int64_t i = 0; i < a->s * a->e; i++)
        tk_put(c->out.y, a->dtype, item * a->s * a->e + i, y[i]);
    for (int64_t i = 0; i < a->s * a->t; i++) {
        int64_t at = item * a->s * a->t + i;
        if (c->out.p)
            tk_put(c->out.p, a->dtype, at, c->draw && a->is_signed && !kept[i] ? -fabs(p[i]) : fabs(p[i]));
        if (c->draw && c->out.dropped)
            tk_put(c->out.dropped, a->dtype, at, kept[i] ? p[i] / (1 - c->ratio) : 0);
        if (c->draw && c->out.keep)
            c->out.keep[at] = kept[i];
    }
}

/* One item's operands, all dense; flags of its mask; flags of kept elements of its map. */
typedef struct item_operands {
    double *q, *kt, *v, *bias;
    uint8_t *flags, *kept; /* of one allocation */
} item_operands;

static bool read_item(const attention_ctx *c, int64_t item, item_operands *o) {
    const tk_attention *a = c->a;
    tk_dtype type = a->dtype;
    int64_t n = a->s * a->t;
    o->q = tk_reference_numbers(c->q, from(c->in.q, tk_place(&a->q.at, item), type), a->s * a->d, type);
    o->kt = tk_reference_numbers(c->q, from(c->in.kt, tk_place(&a->kt.at, item), type), a->d * a->t, type);
    o->v = tk_reference_numbers(c->q, from(c->in.v, tk_place(&a->v.at, item), type), a->t * a->e, type);
    o->bias = tk_reference_room(c->q, n);
    o->flags = (uint8_t *)tk_reference_room(c->q, n / 4 + 1);
    if (!o->q || !o->kt || !o->v || !o->bias || !o->flags)
        return false;
    o->kept = o->flags + n;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = i / a->t, column = i % a->t;
        if (c->in.bias)
            o->bias[i] =
                tk_get(c->in.bias, type, tk_place(&a->bias_at, item) + row * a->bias_row + column * a->bias_column);
        if (c->in.mask)
            o->flags[i] = c->in.mask[tk_place(&a->mask_at, item) + row * a->mask_row + column * a->mask_column];
        o->kept[i] = !c->draw || tk_reference_kept(c->draw, c->ratio, item * n + i);
    }
    return true;
}

static void free_item(item_operands *o) { free(o->q), free(o->kt), free(o->v), free(o->bias), free(o->flags); }

static void run_item(const attention_ctx *c, const item_operands *o, double *y, double *p, double *statistics) {
    tk_attention one = single(c->a);
    tk_attention_ref(y, p, statistics, o->q, o->kt, o->v, c->in.bias ? o->bias : NULL, c->in.mask ? o->flags : NULL,
                     c->draw ? o->kept : NULL, c->ratio, &one);
}

static void attention_item(void *ctx, tk_share share) {
    const attention_ctx *c = ctx;
    const tk_attention *a = c->a;
    double *y = tk_reference_room(c->q, a->s * a->e), *p = tk_reference_room(c->q, a->s * a->t),
           *statistics = tk_reference_room(c->q, 2 * a->s);
    item_operands o;
    if (read_item(c, share.begin, &o) && y && p && statistics) {
        run_item(c, &o, y, p, statistics);
        put_item(c, share.begin, y, p, statistics, o.kept);
    }
    free_item(&o);
    free(y), free(p), free(statistics);
}

void tk_reference_attention_run(tk_queue *q, tk_attention_results out, tk_attention_operands in, const tk_attention *a,
                                tk_number ratio, tk_seed seed, void *workspace) {
    tk_draw draw = seed.pair ? tk_draw_of(seed) : (tk_draw){0};
    attention_ctx c = {q, out, in, a, tk_reference_ratio(q, seed.pair != NULL, ratio), seed.pair ? &draw : NULL};
    (void)workspace;
    if (c.ratio >= 0)
        tk_parallel_items(q, a->items, attention_item, &c);
}

/* One item of the gradient, all dense: p without flags; dropped, the map that y was computed from; slope, d dropped / d
 * p. */
typedef struct item_grad {
    double *dout, *q, *kt, *v, *p, *dropped, *slope, *ds;
} item_grad;

/* The gradient does not pass the mask. */
static void mask_scores(double *ds, const uint8_t *mask, const tk_attention *a, int64_t item) {
    for (int64_t i = 0; mask && i < a->s * a->t; i++)
        if (!mask[tk_place(&a->mask_at, item) + i / a->t * a->mask_row + i % a->t * a->mask_column])
            ds[i] = 0;
}

/* mask NULL: all scores are reached. */
static void score_gradients(const item_grad *g, const uint8_t *mask, const tk_attention *a, int64_t item) {
    for (int64_t i = 0; i < a->s; i++) {
        double *dp = g->ds + i * a->t, dot = 0;
        for (int64_t j = 0; j < a->t; j++) {
            for (int64_t k = 0; k < a->e; k++)
                dp[j] += g->dout[i * a->e + k] * g->v[j * a->e + k];
            dp[j] *= g->slope[i * a->t + j];
            dot += dp[j] * g->p[i * a->t + j];
        }
        for (int64_t j = 0; j < a->t; j++)
            dp[j] = (dp[j] - dot) * g->p[i * a->t + j];
    }
    if (a->bias_first)
        mask_scores(g->ds, mask, a, item);
}

/* From the gradient of capped scores to that of the product. */
static void uncap_scores(const item_grad *g, const tk_attention *a) {
    for (int64_t i = 0; i < a->s * a->t; i++) {
        double s = 0;
        for (int64_t k = 0; k < a->d; k++)
            s += a->scale * g->q[i / a->t * a->d + k] * g->kt[k * a->t + i % a->t];
        double bent = tanh(s / a->softcap);
        g->ds[i] *= 1 - bent * bent;
    }
}

/* out [m, n] of item = scale sum_k a[k sa + i ta] b[k sb + j tb]. */
static void put_product(void *out, const tk_attention *at, int64_t item, int64_t m, int64_t n, int64_t depth,
                        const double *a, int64_t ta, int64_t sa, const double *b, int64_t tb, int64_t sb,
                        double scale) {
    for (int64_t i = 0; out && i < m * n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += a[k * sa + i / n * ta] * b[k * sb + i % n * tb];
        tk_put(out, at->dtype, item * m * n + i, scale * sum);
    }
}

static void put_gradients(tk_attention_gradients out, const item_grad *g, const uint8_t *mask, const tk_attention *a,
                          int64_t item) {
    for (int64_t i = 0; out.ds && i < a->s * a->t; i++)
        tk_put(out.ds, a->dtype, item * a->s * a->t + i, g->ds[i]);
    mask_scores(g->ds, mask, a, item);
    if (a->softcap != 0)
        uncap_scores(g, a);
    put_product(out.dq, a, item, a->s, a->d, a->t, g->ds, a->t, 1, g->kt, a->t, 1, a->scale);
    put_product(out.dkt, a, item, a->d, a->t, a->s, g->q, 1, a->d, g->ds, 1, a->t, a->scale);
    put_product(out.dv, a, item, a->t, a->e, a->s, g->dropped, 1, a->t, g->dout, 1, a->e, 1);
}

static void take_map(item_grad *g, tk_attention_saved in, const tk_attention *a, double ratio, int64_t first) {
    for (int64_t i = 0; i < a->s * a->t; i++) {
        bool kept = !in.is_dropped || (a->is_signed ? !signbit(g->p[i]) : in.keep[first + i] != 0);
        g->p[i] = in.is_dropped && a->is_signed ? fabs(g->p[i]) : g->p[i];
        g->slope[i] = kept ? 1 / (1 - ratio) : 0;
        g->dropped[i] = in.is_dropped && !a->is_signed ? tk_get(in.dropped, a->dtype, first + i)
                        : kept                         ? g->p[i] / (1 - ratio)
                                                       : 0;
    }
}

void tk_reference_attention_grad(tk_queue *q, tk_attention_gradients out, tk_attention_saved in, const tk_attention *a,
                                 tk_number ratio, void *workspace) {
    double part = tk_reference_ratio(q, in.is_dropped, ratio);
    int64_t n = a->s * a->t;
    tk_dtype type = a->dtype;
    (void)workspace;
    for (int64_t item = 0; part >= 0 && item < a->items; item++) {
        item_grad g = {tk_reference_numbers(q, from(in.dout, item * a->s * a->e, type), a->s * a->e, type),
                       tk_reference_numbers(q, from(in.q, tk_place(&a->q.at, item), type), a->s * a->d, type),
                       tk_reference_numbers(q, from(in.kt, tk_place(&a->kt.at, item), type), a->d * a->t, type),
                       tk_reference_numbers(q, from(in.v, tk_place(&a->v.at, item), type), a->t * a->e, type),
                       tk_reference_numbers(q, from(in.p, item * n, type), n, type),
                       tk_reference_room(q, n),
                       tk_reference_room(q, n),
                       tk_reference_room(q, n)};
        if (g.dout && g.q && g.kt && g.v && g.p && g.dropped && g.slope && g.ds) {
            take_map(&g, in, a, part, item * n);
            score_gradients(&g, in.mask, a, item);
            put_gradients(out, &g, in.mask, a, item);
        }
        free(g.dout), free(g.q), free(g.kt), free(g.v), free(g.p), free(g.dropped), free(g.slope), free(g.ds);
    }
}

/* Adds an item's ds to the sums of its group. */
static void add_scores(double *sums, const double *ds, int64_t n) {
    for (int64_t i = 0; sums && i < n; i++)
        sums[i] += ds[i];
}

/* One item, P by its definition, not from the attention's results. Sums of ds [s, t] NULL: ds is a result. */
static void tiled_item(const attention_ctx *c, tk_attention_gradients out, const void *dout, int64_t item,
                       double *sums) {
    const tk_attention *a = c->a;
    int64_t n = a->s * a->t;
    item_operands o;
    double *y = tk_reference_room(c->q, a->s * a->e);
    bool is_read = read_item(c, item, &o);
    item_grad g = {tk_reference_numbers(c->q, from(dout, item * a->s * a->e, a->dtype), a->s * a->e, a->dtype),
                   o.q,
                   o.kt,
                   o.v,
                   tk_reference_room(c->q, n),
                   tk_reference_room(c->q, n),
                   tk_reference_room(c->q, n),
                   tk_reference_room(c->q, n)};
    if (is_read && y && g.dout && g.p && g.dropped && g.slope && g.ds) {
        run_item(c, &o, y, g.p, NULL);
        for (int64_t i = 0; i < n; i++) {
            g.slope[i] = o.kept[i] ? 1 / (1 - c->ratio) : 0;
            g.dropped[i] = o.kept[i] ? g.p[i] / (1 - c->ratio) : 0;
        }
        const uint8_t *mask = isfinite(a->fill) ? c->in.mask : NULL;
        score_gradients(&g, mask, a, item);
        add_scores(sums, g.ds, n);
        out.ds = sums ? NULL : out.ds;
        put_gradients(out, &g, mask, a, item);
    }
    free_item(&o);
    free(y), free(g.dout), free(g.p), free(g.dropped), free(g.slope), free(g.ds);
}

void tk_reference_attention_tiled_grad(tk_queue *q, tk_attention_gradients out, tk_attention_after after,
                                       tk_attention_operands in, const tk_attention *a,
                                       const tk_attention_groups *groups, tk_number ratio, tk_seed seed,
                                       void *workspace) {
    tk_draw draw = seed.pair ? tk_draw_of(seed) : (tk_draw){0};
    double part = tk_reference_ratio(q, seed.pair != NULL, ratio);
    attention_ctx c = {q, (tk_attention_results){0}, in, a, part, seed.pair ? &draw : NULL};
    (void)workspace;
    for (int64_t group = 0; part >= 0 && group < groups->groups; group++) {
        double *sums = groups->sums ? tk_reference_room(q, a->s * a->t) : NULL;
        for (int64_t i = 0; i < groups->members && (sums || !groups->sums); i++)
            tiled_item(&c, out, after.dout, tk_place(&groups->group_at, group) + tk_place(&groups->member_at, i), sums);
        for (int64_t i = 0; sums && i < a->s * a->t; i++)
            tk_put(out.ds, a->dtype, group * a->s * a->t + i, sums[i]);
        free(sums);
    }
}
