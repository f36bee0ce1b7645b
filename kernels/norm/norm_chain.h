/* norm_chain.h: a norm of rows with the chain of elementwise ops before it, and its gradient with a chain before and
 * one after it, in one walk over memory. Bits are those of the ops one by one. A device whose table has none of these
 * gets the ops one by one (runtime/fuse/fuse_chains.c). */
#ifndef TK_NORM_CHAIN_H
#define TK_NORM_CHAIN_H
#include "../elementwise/chain.h"
#include "norm.h"

/* clang-format off */
#define TK_NORM_CHAIN_KERNELS(K) \
    /* norm of the result of `before`, [rows, n]. out may lie over the chain's operands of its size. */ \
    K(norm_chain, (tk_queue *q, void *out, void *xhat, void *mean, void *inv_std, const tk_chain *before, \
      const void *scale, const void *bias, const tk_norm_rows *s), \
      (q, out, xhat, mean, inv_std, before, scale, bias, s)) \
    /* norm_grad, or norm_xhat_grad where inp is NULL, of the result of `before`, whose first operand is dout; `after` \
     * continues with dinp instead of its own first operand. Either may have no links. dinp is NULL where `after` \
     * alone wants it. The last result of all, dinp or that of the last link, may lie over dout and the other operands \
     * of `before`, or, if `before` has no links, over inp or xhat; other results over nothing. */ \
    K(norm_grad_chain, (tk_queue *q, void *dinp, void *dscale, void *dbias, const tk_chain *before, const void *inp, \
      const void *xhat, const void *scale, const void *mean, const void *inv_std, const tk_chain *after, \
      const tk_norm_rows *s, void *workspace), \
      (q, dinp, dscale, dbias, before, inp, xhat, scale, mean, inv_std, after, s, workspace))
/* clang-format on */

/* Links that kernels of norms apply to rows in registers: those found around norms in training steps. Before a gradient
 * only sums of gradients. A chain with other links is a kernel by itself. */
static inline bool tk_norm_takes_link(const tk_link *link, bool before_gradient) {
    const bool drops = link->op == TK_LINK_DROPOUT || link->op == TK_LINK_DROPOUT_GRAD;
    return link->op == TK_LINK_ADD || (drops && !before_gradient);
}

/* For chains without a kernel of their own: the chain with a place for its last result if the links have none, and that
 * place. */
static inline tk_chain tk_chain_to(const tk_chain *chain, void *place) {
    tk_chain stored = *chain;
    if (stored.n_links > 0 && !stored.links[stored.n_links - 1].store)
        stored.links[stored.n_links - 1].store = place;
    return stored;
}
static inline const void *tk_chain_end(const tk_chain *chain) {
    return chain->n_links > 0 ? chain->links[chain->n_links - 1].store : chain->first;
}
#endif
