/* chain_cuda.cu: chains of elementwise ops: a thread has a pack of elements in registers and takes it through all
 * links. Formulas are those of the ops' own kernels, and results are rounded where theirs are, so that a chain gives
 * their bits. */
#include "../pointwise/pointwise_row.cuh"
#include "chain_device.cuh"
extern "C" {
TK_CHAIN_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

/* Where element i meets an operand; `quick`: i is less than 2^31. */
__device__ __forceinline__ int64_t place_of(const tk_link &link, int64_t i, bool quick) {
    if (quick)
        return (uint32_t)i / (uint32_t)link.inner % (uint32_t)link.period;
    return i / link.inner % link.period;
}

/* N elements of a link's operand from element i on; `left` of them exist. */
template <class S, int N>
__device__ __forceinline__ tk_pack<S, N> load(const tk_link &link, int64_t i, int left, bool packed, bool quick) {
    const S *operand = (const S *)link.operand;
    if (packed) /* a period is whole packs, too */
        return tk_load_pack<N>(operand + place_of(link, i, quick));
    tk_pack<S, N> pack = {};
#pragma unroll
    for (int k = 0; k < N; k++)
        if (k < left)
            pack.at[k] = operand[place_of(link, i + k, quick)];
    return pack;
}

/* Two numbers to one: all but sums, dropout, POINTWISE and links without an operand. */
template <class T> __device__ __forceinline__ T joined(tk_link_op op, T a, T b) {
    return op == TK_LINK_SUB ? a - b : op == TK_LINK_MUL ? a * b : a / b;
}

template <class S> __device__ __forceinline__ tk_math<S> alone(const tk_link &link, tk_math<S> x) {
    typedef typename tk_functions_of<S>::type F;
    switch (link.op) {
    case TK_LINK_NEG: return -x;
    case TK_LINK_RELU: return x < 0 ? 0 : x;
    case TK_LINK_TANH: return F::tanh(x);
    case TK_LINK_SIGMOID: return F::sigmoid(x);
    default: return tk_point<S>::forward(link.row, x, (tk_math<S>)link.alpha);
    }
}

template <class S, int N>
__device__ __forceinline__ void join(tk_pack<S, N> &x, const tk_link &link, int64_t i, int left, bool packed,
                                     bool quick) {
    const tk_pack<S, N> o = load<S, N>(link, i, left, packed, quick);
    if (link.op == TK_LINK_ADD) {
        x = tk_sum_of(x, o);
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        const tk_math<S> a = tk_number_of(link.swapped ? o.at[k] : x.at[k]),
                         b = tk_number_of(link.swapped ? x.at[k] : o.at[k]);
        x.at[k] = tk_element_of<S>(link.op == TK_LINK_POINTWISE_GRAD
                                       ? a * tk_point<S>::slope(link.row, b, (tk_math<S>)link.alpha)
                                       : joined(link.op, a, b));
    }
}

/* packed: bit j: operand j may be read in packs (0: the first; 1 + j: link j's), and results in bits 32 on. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    walk_chain(const __grid_constant__ tk_chain chain, uint64_t packed, tk_fault_place fault) {
    constexpr int N = tk_pack_size<S>;
    const bool quick = chain.n <= INT32_MAX;
    TK_FOR_EACH(p, (chain.n + N - 1) / N) {
        const int64_t i = p * N;
        const int left = chain.n - i < N ? (int)(chain.n - i) : N;
        tk_pack<S, N> x = tk_load_some<N>((const S *)chain.first + i, left, packed & 1);
#pragma unroll 1
        for (int j = 0; j < chain.n_links; j++) {
            const tk_link &link = chain.links[j];
            if (link.op == TK_LINK_DROPOUT || link.op == TK_LINK_DROPOUT_GRAD) {
                const tk_dropping<S> dropping = tk_dropping_of<S>(link, fault);
                if (dropping.good)
                    tk_link_drop(x, link, dropping, i, left, left == N && (packed >> (1 + j) & 1));
            } else if (link.operand) {
                join<S, N>(x, link, i, left, left == N && (packed >> (1 + j) & 1), quick);
            } else {
#pragma unroll
                for (int k = 0; k < N; k++)
                    x.at[k] = tk_element_of<S>(alone<S>(link, tk_number_of(x.at[k])));
            }
            if (link.store)
                tk_store_some((S *)link.store + i, x, left, packed >> (32 + j) & 1);
        }
    }
}

template <class S> void run(tk_queue *q, const tk_chain *chain) {
    constexpr int N = tk_pack_size<S>;
    uint64_t packed = tk_is_packed(chain->first);
    for (int j = 0; j < chain->n_links; j++) {
        const tk_link *link = &chain->links[j];
        packed |= (uint64_t)tk_is_packed_link(link, chain->n, N) << (1 + j);
        packed |= (uint64_t)tk_is_packed(link->store) << (32 + j);
    }
    if (chain->n > 0)
        TK_LAUNCH(walk_chain<S>, tk_blocks(q, chain->n, THREADS, N), THREADS, 0, q, *chain, packed, tk_fault_of(q));
}

} // namespace

void tk_cuda_chain_run(tk_queue *q, const tk_chain *chain) { TK_FLOATS(chain->dtype, S, run<S>(q, chain)) }
