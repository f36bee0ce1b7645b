/* reference_products.c: MatMul, Gemm, Einsum, convolutions and pools, each result element by its own sum.
 * They take most of the time: results go to threads. */
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

static double conv_element(const conv_ctx *ctx, int64_t index) {
    const tk_conv *c = ctx->conv;
    const tk_window *w = &c->window;
    int64_t outs = tk_volume(w->out), f = index / outs % c->filters, b = index / outs / c->filters,
            channels = c->channels / c->groups;
    int64_t o[] = {index / (w->out[1] * w->out[2]) % w->out[0], index / w->out[2] % w->out[1], index % w->out[2]};
    double sum = ctx->bias ? tk_get(ctx->bias, ctx->dtype, f) : 0;
    for (int64_t ch = 0; ch < channels; ch++)
        for (int64_t k = 0; k < tk_volume(w->kernel); k++) {
            int64_t ks[] = {k / (w->kernel[1] * w->kernel[2]), k / w->kernel[2] % w->kernel[1], k % w->kernel[2]},
                    at = 0;
            bool inside = true;
            for (int d = 0; d < TK_WINDOW_RANK; d++) {
                int64_t i = o[d] * w->stride[d] - w->pad_begin[d] + ks[d] * w->dilation[d];
                inside = inside && i >= 0 && i < w->inp[d];
                at = at * w->inp[d] + i;
            }
            int64_t channel = f / (c->filters / c->groups) * channels + ch;
            if (inside)
                sum += tk_get(ctx->inp, ctx->dtype, (b * c->channels + channel) * tk_volume(w->inp) + at) *
                       tk_get(ctx->weight, ctx->dtype, (f * channels + ch) * tk_volume(w->kernel) + k);
        }
    return sum;
}

static void conv_range(void *ctx, tk_share share) {
    const conv_ctx *c = ctx;
    for (int64_t i = share.begin; i < share.end; i++)
        tk_put(c->out, c->dtype, i, conv_element(c, i));
}

void tk_reference_conv_run(tk_queue *q, void *out, const void *inp, const void *weight, const void *bias,
                           const tk_conv *conv, tk_dtype dtype, void *workspace) {
    (void)workspace;
    tk_parallel_for(q, conv->batch * conv->filters * tk_volume(conv->window.out), GRAIN, conv_range,
                    &(conv_ctx){out, inp, weight, bias, conv, dtype});
}

/* Each element of narrow adds its share to each result that it reaches. */
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

/* The divisor of AveragePool: taps within the padded input. */
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
