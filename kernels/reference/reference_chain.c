/* reference_chain.c: chains of elementwise ops, link by link over all elements, and norms with chains around them. */
#include "reference.h"
#include <math.h>
#include <string.h>

static double linked(const tk_link *link, double x, double o) {
    double a = link->swapped ? o : x, b = link->swapped ? x : o;
    switch (link->op) {
    case TK_LINK_ADD: return a + b;
    case TK_LINK_SUB: return a - b;
    case TK_LINK_MUL: return a * b;
    case TK_LINK_DIV: return a / b;
    case TK_LINK_NEG: return -x;
    case TK_LINK_RELU: return isnan(x) ? x : fmax(x, 0);
    case TK_LINK_TANH: return tanh(x);
    case TK_LINK_SIGMOID: return 1 / (1 + exp(-x));
    default: return x;
    }
}

static void run_link(tk_queue *q, const tk_chain *chain, const tk_link *link, void *now) {
    int64_t n = chain->n;
    tk_dtype dtype = chain->dtype;
    switch (link->op) {
    case TK_LINK_POINTWISE: tk_reference_pointwise(q, link->row, now, now, n, link->alpha, dtype); return;
    case TK_LINK_POINTWISE_GRAD:
        tk_reference_pointwise_grad(q, link->row, now, link->swapped ? link->operand : now,
                                    link->swapped ? now : link->operand, n, link->alpha, dtype);
        return;
    case TK_LINK_DROPOUT:
        tk_reference_dropout(q, now, link->mask, now, n, link->ratio, link->seed, NULL, dtype);
        return;
    case TK_LINK_DROPOUT_GRAD: tk_reference_dropout_grad(q, now, now, link->operand, n, link->ratio, dtype); return;
    default: break;
    }
    for (int64_t i = 0; i < n; i++) {
        double o = link->operand ? tk_get(link->operand, dtype, i / link->inner % link->period) : 0;
        tk_put(now, dtype, i, linked(link, tk_get(now, dtype, i), o));
    }
}

void tk_reference_chain_run(tk_queue *q, const tk_chain *chain) {
    size_t bytes = (size_t)chain->n * tk_size(chain->dtype);
    double *now = tk_reference_room(q, chain->n); /* of any element type */
    if (!now)
        return;
    memcpy(now, chain->first, bytes);
    for (int i = 0; i < chain->n_links; i++) {
        run_link(q, chain, &chain->links[i], now);
        if (chain->links[i].store)
            memcpy(chain->links[i].store, now, bytes);
    }
    free(now);
}

void tk_reference_norm_chain(tk_queue *q, void *out, void *xhat, void *mean, void *inv_std, const tk_chain *before,
                             const void *scale, const void *bias, const tk_norm_rows *s) {
    const tk_chain stored = tk_chain_to(before, out);
    tk_reference_chain_run(q, &stored);
    tk_reference_norm(q, out, xhat, mean, inv_std, tk_chain_end(&stored), scale, bias, s);
}

void tk_reference_norm_grad_chain(tk_queue *q, void *dinp, void *dscale, void *dbias, const tk_chain *before,
                                  const void *inp, const void *xhat, const void *scale, const void *mean,
                                  const void *inv_std, const tk_chain *after, const tk_norm_rows *s, void *workspace) {
    void *place = dinp ? dinp : after->links[after->n_links - 1].store;
    const tk_chain stored = tk_chain_to(before, place);
    tk_chain behind = *after;
    tk_reference_chain_run(q, &stored);
    if (inp)
        tk_reference_norm_grad(q, place, dscale, dbias, tk_chain_end(&stored), inp, scale, mean, inv_std, s, workspace);
    else
        tk_reference_norm_xhat_grad(q, place, dscale, dbias, tk_chain_end(&stored), xhat, scale, inv_std, s, workspace);
    behind.first = place;
    tk_reference_chain_run(q, &behind);
}
