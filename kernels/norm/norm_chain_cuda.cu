/* norm_chain_cuda.cu: norms of rows that a chain has made: the chain's links on each row in registers, before it is
 * normalized. For links that row_links.cuh lacks, and for other rows, one kernel runs after the other. */
#include "norm_rows.cuh"
extern "C" {
TK_CHAIN_KERNELS(TK_DECLARE_CUDA)
TK_NORM_CHAIN_KERNELS(TK_DECLARE_CUDA)
}

namespace {

template <class S> void norm_chain(tk_queue *q, norm_rows_args c, const tk_chain *before, bool *done) {
    *done = is_packed<S>(c) && tk_takes_links<S, true>(before, &c.s);
    if (*done)
        launch_norm_rows<S>(q, c, tk_row_links_of<true>(q, before, &c.s));
}

} // namespace

void tk_cuda_norm_chain(tk_queue *q, void *out, void *xhat, void *mean, void *inv_std, const tk_chain *before,
                        const void *scale, const void *bias, const tk_norm_rows *s) {
    const norm_rows_args c = {out, xhat, mean, inv_std, before->first, scale, bias, *s, true};
    bool done = s->rows == 0;
    if (!done)
        TK_FLOATS(s->dtype, S, norm_chain<S>(q, c, before, &done))
    if (done)
        return;
    const tk_chain stored = tk_chain_to(before, out);
    tk_cuda_chain_run(q, &stored);
    tk_cuda_norm(q, out, xhat, mean, inv_std, tk_chain_end(&stored), scale, bias, s);
}
