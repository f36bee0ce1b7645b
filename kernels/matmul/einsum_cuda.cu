/* einsum_cuda.cu: the plain loop of Einsum on a CUDA device: a thread has a result, and adds in the order of the CPU's.
 */
#include "../cuda/walk.cuh"
extern "C" {
#include "einsum.h"
TK_EINSUM_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

/* Sums are of doubles; integers wrap. */
template <class S> struct sum_of { typedef double type; };
template <> struct sum_of<uint32_t> { typedef uint32_t type; };
template <> struct sum_of<uint64_t> { typedef uint64_t type; };

/* kept: the result's indices; summed: the others. */
template <class S> struct loop {
    S *out;
    const S *operands[TK_EINSUM_OPERANDS];
    int n_operands;
    tk_walk<TK_EINSUM_OPERANDS, TK_MAX_RANK> kept, summed;
};

template <class S> __global__ void __launch_bounds__(THREADS) einsum(const __grid_constant__ loop<S> l) {
    typedef typename sum_of<S>::type T;
    TK_FOR_EACH(i, l.kept.items) {
        const tk_spots<TK_EINSUM_OPERANDS> base = tk_spots_of(l.kept, i);
        T sum = 0;
        for (int64_t s = 0; s < l.summed.items; s++) {
            const tk_spots<TK_EINSUM_OPERANDS> at = tk_spots_of(l.summed, s);
            T term = 1;
#pragma unroll
            for (int k = 0; k < TK_EINSUM_OPERANDS; k++)
                if (k < l.n_operands)
                    term *= (T)tk_number_of(l.operands[k][base.at[k] + at.at[k]]);
            sum += term;
        }
        l.out[i] = tk_element_of<S>((tk_math<S>)sum);
    }
}

tk_walk<TK_EINSUM_OPERANDS, TK_MAX_RANK> walk_of(const tk_einsum *e, int first, int last) {
    const int64_t *strides[TK_EINSUM_OPERANDS];
    for (int k = 0; k < TK_EINSUM_OPERANDS; k++)
        strides[k] = e->strides[k < e->n_operands ? k : 0] + first;
    return tk_walk_of<TK_EINSUM_OPERANDS, TK_MAX_RANK>(last - first, e->dims + first, strides);
}

template <class S> void run(tk_queue *q, void *out, const void *const *operands, const tk_einsum *e) {
    loop<S> l = {(S *)out, {}, e->n_operands, walk_of(e, 0, e->n_out), walk_of(e, e->n_out, e->n_indices)};
    for (int k = 0; k < e->n_operands; k++)
        l.operands[k] = (const S *)operands[k];
    if (l.kept.items > 0)
        TK_LAUNCH((einsum<S>), tk_blocks(q, l.kept.items, THREADS), THREADS, 0, q, l);
}

} // namespace

void tk_cuda_einsum_loop(tk_queue *q, void *out, const void *const *operands, const tk_einsum *e, tk_dtype dtype) {
    switch ((int)dtype) {
        TK_FLOAT_CASES(S, run<S>(q, out, operands, e))
        TK_CASE(TK_I32, uint32_t, S, run<S>(q, out, operands, e))
        TK_CASE(TK_U32, uint32_t, S, run<S>(q, out, operands, e))
        TK_CASE(TK_I64, uint64_t, S, run<S>(q, out, operands, e))
        TK_CASE(TK_U64, uint64_t, S, run<S>(q, out, operands, e))
    }
}
