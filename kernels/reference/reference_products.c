/* reference_products.c: MatMul, Gemm, Einsum, convolutions, pools and attention, each result element by its own sum.
 * They take the time: results go to threads. */
#include "../common/parallel.h"
#include "reference.h"
#include <math.h>
#include <string.h>

enum { GRAIN = 64 }; /* results that are worth a thread */

/* --- matrices --------------------------------------------------------------------------------- */

typedef struct product_ctx {
    void *out;
    const void *a, *b;
    const tk_product *p;
    tk_dtype dtype;
} product_ctx;

static void product_range(void *ctx, tk_share share) {
    const product_ctx *c = ctx;
    const tk_product *p = c->p;
    tk_dtype out_dtype = p->wide ? TK_F32 : c->dtype;
    for (int64_t at = share.begin; at < share.end; at++) {
        int64_t item = at / p->n / p->m, i = at / p->n % p->m, j = at % p->n;
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t k = 0; k < p->k; k++) {
            int64_t of_a = tk_place(&p->a_at, item) + (p->trans_a ? k * p->lda + i : i * p->lda + k),
                    of_b = tk_place(&p->b_at, item) + (p->trans_b ? j * p->ldb + k : k * p->ldb + j);
            if (tk_is_float(c->dtype))
                sum += tk_get(c->a, c->dtype, of_a) * tk_get(c->b, c->dtype, of_b);
            else
                whole += (uint64_t)tk_get_int(c->a, c->dtype, of_a) * (uint64_t)tk_get_int(c->b, c->dtype, of_b);
        }
        const double added = p->bias        ? tk_get(p->bias, out_dtype, j)
                             : p->beta != 0 ? p->beta * tk_get(c->out, out_dtype, at)
                                            : 0;
        if (tk_is_float(c->dtype))
            tk_put(c->out, out_dtype, at, p->alpha * sum + added);
        else
            tk_reference_put_int(c->out, c->dtype, at,
                                 whole + (p->beta != 0 ? (uint64_t)tk_get_int(c->out, c->dtype, at) : 0));
    }
}

void tk_reference_product_run(tk_queue *q, void *out, const void *a, const void *b, const tk_product *product,
                              tk_dtype dtype, void *workspace) {
    (void)workspace;
    tk_parallel_for(q, product->batch * product->m * product->n, GRAIN, product_range,
                    &(product_ctx){out, a, b, product, dtype});
}

void tk_reference_product_start(tk_queue *q, void *out, const void *c, double beta, const tk_bcast *bc,
                                tk_dtype dtype) {
    (void)q;
    for (int64_t i = 0; i < bc->count; i++) {
        int64_t at[TK_BCAST_MAX];
        tk_reference_places(bc, i, at);
        tk_put(out, dtype, i, beta * tk_get(c, dtype, at[0]));
    }
}

/* --- Einsum ----------------------------------------------------------------------------------- */

void tk_reference_einsum_loop(tk_queue *q, void *out, const void *const *operands, const tk_einsum *e, tk_dtype dtype) {
    int64_t n_out = 1, n_sum = 1;
    (void)q;
    for (int d = 0; d < e->n_indices; d++)
        *(d < e->n_out ? &n_out : &n_sum) *= e->dims[d];
    for (int64_t i = 0; i < n_out; i++) {
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t k = 0; k < n_sum; k++) {
            int64_t rest = i * n_sum + k, at[TK_EINSUM_OPERANDS] = {0};
            for (int d = e->n_indices - 1; d >= 0; rest /= e->dims[d--])
                for (int o = 0; o < e->n_operands; o++)
                    at[o] += rest % e->dims[d] * e->strides[o][d];
            double term = 1;
            uint64_t whole_term = 1;
            for (int o = 0; o < e->n_operands; o++)
                if (tk_is_float(dtype))
                    term *= tk_get(operands[o], dtype, at[o]);
                else
                    whole_term *= (uint64_t)tk_get_int(operands[o], dtype, at[o]);
            sum += term;
            whole += whole_term;
        }
        if (tk_is_float(dtype))
            tk_put(out, dtype, i, sum);
        else
            tk_reference_put_int(out, dtype, i, whole);
    }
}

/* --- windows ---------------------------------------------------------------------------------- */

/* Where tap k of the window at place `out` reads, in the input of the window; -1: beside it. */
static int64_t tap(const tk_window *w, int64_t out, int64_t k) {
    int64_t at = 0, scale = 1;
    for (int d = TK_WINDOW_RANK - 1; d >= 0; d--) {
        int64_t i = out % w->out[d] * w->stride[d] - w->pad_begin[d] + k % w->kernel[d] * w->dilation[d];
        if (i < 0 || i >= w->inp[d])
            return -1;
        at += i * scale;
        scale *= w->inp[d];
        out /= w->out[d];
        k /= w->kernel[d];
    }
    return at;
}

typedef struct conv_ctx {
    void *out;
    const void *inp, *weight, *bias;
    const tk_conv *conv;
    tk_dtype dtype;
} conv_ctx;

static void conv_range(void *ctx, tk_share share) {
    const conv_ctx *c = ctx;
    for (int64_t i = share.begin; i < share.end; i++)
        tk_put(c->out, c->dtype, i, tk_conv_ref(c->inp, c->weight, c->bias, c->conv, c->dtype, i));
}

void tk_reference_conv_run(tk_queue *q, void *out, const void *inp, const void *weight, const void *bias,
                           const tk_conv *conv, tk_dtype dtype, void *workspace) {
    (void)workspace;
    tk_parallel_for(q, conv->batch * conv->filters * tk_volume(conv->window.out), GRAIN, conv_range,
                    &(conv_ctx){out, inp, weight, bias, conv, dtype});
}

/* Each element of narrow adds its share; tk_conv_transpose_ref, which looks for the shares of each result, takes too
 * long for whole images. */
void tk_reference_conv_transpose_run(tk_queue *q, void *wide, const void *narrow, const void *weight, const void *bias,
                                     const tk_conv *c, tk_dtype dtype, void *workspace) {
    const tk_window *w = &c->window;
    int64_t ins = tk_volume(w->inp), outs = tk_volume(w->out), taps = tk_volume(w->kernel),
            of_group = c->channels / c->groups, n = c->batch * c->channels * ins;
    double *sums = tk_reference_room(q, n);
    (void)workspace;
    for (int64_t i = 0; sums && i < c->batch * c->filters * outs; i++) {
        int64_t b = i / outs / c->filters, f = i / outs % c->filters, first = f / (c->filters / c->groups) * of_group;
        for (int64_t k = 0; k < taps; k++) {
            int64_t at = tap(w, i % outs, k);
            for (int64_t ch = 0; at >= 0 && ch < of_group; ch++)
                sums[(b * c->channels + first + ch) * ins + at] +=
                    tk_get(narrow, dtype, i) * tk_get(weight, dtype, (f * of_group + ch) * taps + k);
        }
    }
    for (int64_t i = 0; sums && i < n; i++)
        tk_put(wide, dtype, i, sums[i] + (bias ? tk_get(bias, dtype, i / ins % c->channels) : 0));
    free(sums);
}

/* What AveragePool divides by: taps within the padded input. */
static int64_t padded_taps(const tk_window *w, int64_t out) {
    int64_t count = 1;
    for (int d = TK_WINDOW_RANK - 1; d >= 0; out /= w->out[d--]) {
        int64_t inside = 0;
        for (int64_t k = 0; k < w->kernel[d]; k++)
            inside += out % w->out[d] * w->stride[d] - w->pad_begin[d] + k * w->dilation[d] < w->inp[d] + w->pad_end[d];
        count *= inside;
    }
    return count;
}

static int64_t index_in_plane(const tk_pool *pool, int64_t at) {
    const int64_t *inp = pool->window.inp;
    int64_t i = at / inp[2] / inp[1], j = at / inp[2] % inp[1], k = at % inp[2];
    return pool->column_major ? (k * inp[1] + j) * inp[0] + i : at;
}

void tk_reference_pool_run(tk_queue *q, void *out, int64_t *indices, const void *inp, const tk_pool *pool,
                           tk_dtype dtype) {
    const tk_window *w = &pool->window;
    int64_t ins = tk_volume(w->inp), outs = tk_volume(w->out);
    (void)q;
    for (int64_t i = 0; i < pool->planes * outs; i++) {
        double most = tk_is_float(dtype) ? -INFINITY : dtype == TK_I8 ? INT8_MIN : 0, sum = 0;
        int64_t best = -1, inside = 0;
        for (int64_t k = 0; k < tk_volume(w->kernel); k++) {
            int64_t at = tap(w, i % outs, k);
            if (at < 0)
                continue;
            double x = tk_get(inp, dtype, i / outs * ins + at);
            inside++;
            sum += pool->op == TK_POOL_LP ? pow(fabs(x), (double)pool->p) : x;
            if (best < 0 || x > most || isnan(x)) {
                most = x;
                best = at;
            }
        }
        if (pool->op == TK_POOL_MAX)
            tk_reference_put(out, dtype, i, most);
        else if (pool->op == TK_POOL_LP)
            tk_put(out, dtype, i, pow(sum, 1 / (double)pool->p));
        else
            tk_put(out, dtype, i, sum / (double)(pool->count_pads ? padded_taps(w, i % outs) : inside));
        if (indices)
            indices[i] = best < 0 ? -1 : i / outs * ins + index_in_plane(pool, best);
    }
}

/* Each tap of each window adds to the element that it reads. */
void tk_reference_fold(tk_queue *q, void *out, const void *inp, int64_t planes, const tk_window *w, tk_dtype dtype) {
    int64_t ins = tk_volume(w->inp), outs = tk_volume(w->out), taps = tk_volume(w->kernel);
    double *sums = tk_reference_room(q, planes * ins);
    for (int64_t i = 0; sums && i < planes * taps * outs; i++) {
        int64_t at = tap(w, i % outs, i / outs % taps);
        if (at >= 0)
            sums[i / outs / taps * ins + at] += tk_get(inp, dtype, i);
    }
    for (int64_t i = 0; sums && i < planes * ins; i++)
        tk_put(out, dtype, i, sums[i]);
    free(sums);
}

/* --- attention -------------------------------------------------------------------------------- */

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

/* One item's operands, all dense; flags of its mask; what is kept of its map. */
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

/* One item of the gradient, all dense: p without flags; dropped, what y was made of; slope, d dropped / d p. */
typedef struct item_grad {
    double *dout, *q, *kt, *v, *p, *dropped, *slope, *ds;
} item_grad;

/* What does not get through the mask. */
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

/* One item, P by its definition, whatever the attention gave. Sums of ds [s, t] NULL: ds is a result. */
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
