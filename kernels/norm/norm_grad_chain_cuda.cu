/* norm_grad_chain_cuda.cu: gradients of norms with a chain before and one after them: links are applied in registers,
 * to rows of dout when they are read, and to rows of dinp before they are stored. For links that row_links.cuh lacks,
 * and for other rows, one kernel runs after the other. */
#include "norm_grad_rows.cuh"
extern "C" {
TK_CHAIN_KERNELS(TK_DECLARE_CUDA)
TK_NORM_CHAIN_KERNELS(TK_DECLARE_CUDA)
}

namespace {

template <class S>
void grad_chain(tk_queue *q, norm_grad_args c, const tk_chain *before, const tk_chain *after, bool *done) {
    *done = is_packed<S>(c) && tk_takes_links<S, false>(before, &c.s) && tk_takes_links<S, true>(after, &c.s);
    if (!*done)
        return;
    c.blocks = (int)blocks_of<S>(&c.s);
    launch_grad_rows<S>(q, c, tk_row_links_of<false>(q, before, &c.s), tk_row_links_of<true>(q, after, &c.s));
    launch_add_parts<S>(q, c);
}

void run_apart(tk_queue *q, const norm_grad_args &c, const tk_chain *before, const tk_chain *after, void *workspace) {
    void *place = c.dinp ? c.dinp : after->links[after->n_links - 1].store;
    const tk_chain stored = tk_chain_to(before, place);
    tk_chain behind = *after;
    behind.first = place;
    if (stored.n_links > 0)
        tk_cuda_chain_run(q, &stored);
    if (c.from_xhat)
        tk_cuda_norm_xhat_grad(q, place, c.dscale, c.dbias, tk_chain_end(&stored), c.inp, c.scale, c.inv_std, &c.s,
                               workspace);
    else
        tk_cuda_norm_grad(q, place, c.dscale, c.dbias, tk_chain_end(&stored), c.inp, c.scale, c.mean, c.inv_std, &c.s,
                          workspace);
    if (behind.n_links > 0)
        tk_cuda_chain_run(q, &behind);
}

} // namespace

void tk_cuda_norm_grad_chain(tk_queue *q, void *dinp, void *dscale, void *dbias, const tk_chain *before,
                             const void *inp, const void *xhat, const void *scale, const void *mean,
                             const void *inv_std, const tk_chain *after, const tk_norm_rows *s, void *workspace) {
    const norm_grad_args c = {dinp,
                              dscale,
                              dbias,
                              before->first,
                              inp ? inp : xhat,
                              scale,
                              inp ? mean : nullptr,
                              inv_std,
                              *s,
                              dscale || dbias ? workspace : nullptr,
                              0,
                              !inp,
                              true};
    bool done = false;
    TK_FLOATS(s->dtype, S, grad_chain<S>(q, c, before, after, &done))
    if (!done)
        run_apart(q, c, before, after, workspace);
}
