/* choose_cuda.cu: NonZero, Compress and TopK on a CUDA device. None of them has room for a scan of the whole device: a
 * block walks over the elements in order and counts as it goes. What several blocks need of a count each of them counts
 * itself. */
#include "../common/any_type.cuh"
#include "../common/walk.cuh"
extern "C" {
#include "create.h"
TK_CREATE_KERNELS(TK_DECLARE_CUDA)
TK_CREATE_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum { THREADS = 256, WARPS = THREADS / TK_WARP };

/* --- counting in order ----------------------------------------------------------------------------- */

/* How many threads before this one, in the order of their numbers, have chosen; *total: of all. Every thread of the
 * block calls it; counts: [WARPS] of shared memory. */
__device__ __forceinline__ int chosen_before(bool chosen, int *counts, int *total) {
    const unsigned mine = __ballot_sync(TK_ALL_LANES, chosen);
    const int lane = (int)threadIdx.x % TK_WARP, warp = (int)threadIdx.x / TK_WARP;
    __syncthreads(); /* counts may be read still, from the call before */
    if (lane == 0)
        counts[warp] = __popc(mine);
    __syncthreads();
    int before = __popc(mine & ((1u << lane) - 1));
    *total = 0;
    for (int w = 0; w < WARPS; w++) {
        before += w < warp ? counts[w] : 0;
        *total += counts[w];
    }
    return before;
}

/* --- NonZero ---------------------------------------------------------------------------------------- */

__device__ __forceinline__ bool is_true(const void *data, tk_dtype dtype, int64_t i) {
    return dtype == TK_I64 || dtype == TK_U64 ? ((const uint64_t *)data)[i] != 0 : tk_any_number(data, dtype, i) != 0;
}

/* One block. strides of `walk`: none; its dims are the input's. */
__global__ void __launch_bounds__(THREADS) nonzero(int64_t *out, int64_t n, const void *inp, tk_dtype dtype,
                                                   const __grid_constant__ tk_walk<1> walk, tk_fault_place fault) {
    __shared__ int counts[WARPS];
    int64_t found = 0;
    for (int64_t first = 0; first < walk.items; first += THREADS) {
        const int64_t i = first + threadIdx.x;
        const bool chosen = i < walk.items && is_true(inp, dtype, i);
        int total;
        const int64_t place = found + chosen_before(chosen, counts, &total);
        if (chosen && place < n) {
            int64_t rest = i;
            for (int d = walk.rank - 1; d >= 0; d--) {
                const int64_t next = tk_divide(rest, walk.dims[d], walk.quick);
                out[d * n + place] = rest - next * walk.dims[d].by;
                rest = next;
            }
        }
        found += total;
    }
    if (threadIdx.x == 0 && found != n)
        tk_fault_set(fault, TK_BAD_VALUE);
}

/* --- Compress --------------------------------------------------------------------------------------- */

/* Each block copies the columns [first, first + width) of inp, seen as [outer, axis, inner] with outer and inner one
 * dim; it goes through the whole condition. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    compress(S *out, const S *inp, const uint8_t *condition, int64_t conditions, int64_t axis, int64_t columns,
             tk_divisor inner, int64_t width, int64_t n, tk_fault_place fault) {
    __shared__ int counts[WARPS];
    __shared__ int kept[THREADS]; /* entries of this round, from its first on */
    const int64_t first_column = (int64_t)blockIdx.x * width;
    const int64_t wide = columns - first_column < width ? columns - first_column : width;
    int64_t found = 0;
    for (int64_t first = 0; first < conditions; first += THREADS) {
        const int64_t i = first + threadIdx.x;
        const bool chosen = i < conditions && condition[i] != 0;
        int total;
        const int place = chosen_before(chosen, counts, &total);
        if (chosen)
            kept[place] = (int)threadIdx.x;
        __syncthreads();
        for (int64_t item = threadIdx.x; item < total * wide; item += THREADS) {
            const int64_t which = item / wide, column = first_column + item - which * wide;
            const int64_t outer = tk_divide(column, inner, columns <= INT32_MAX), at = column - outer * inner.by;
            if (found + which < n)
                out[(outer * n + found + which) * inner.by + at] =
                    inp[(outer * axis + first + kept[which]) * inner.by + at];
        }
        found += total;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0 && found != n)
        tk_fault_set(fault, TK_BAD_VALUE);
}

template <class S>
void run_compress(tk_queue *q, void *out, const void *inp, const uint8_t *condition, int64_t conditions, int64_t axis,
                  int64_t columns, int64_t inner, int64_t n) {
    const int64_t most = (int64_t)tk_queue_cuda(q)->multiprocessors * 4, even = (columns + most - 1) / most;
    const int64_t width = even > TK_WARP ? even : TK_WARP, blocks = (columns + width - 1) / width;
    TK_LAUNCH((compress<S>), (unsigned)(blocks > 0 ? blocks : 1), THREADS, 0, q, (S *)out, (const S *)inp, condition,
              conditions, axis, columns, tk_divisor_of(inner), width, n, tk_fault_of(q));
}

/* --- TopK: k times the best of those that are worse than the last -------------------------------------- */

/* As numbers without a sign, in the order of the type's; not a number is the largest, both zeros are one. */
__device__ __forceinline__ uint64_t key_of(double x) {
    const double one_zero = x == 0 ? 0.0 : x;
    uint64_t bits;
    memcpy(&bits, &one_zero, sizeof bits);
    return x != x ? UINT64_MAX : bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}
__device__ __forceinline__ uint64_t key_of(float x) { return key_of((double)x); }
__device__ __forceinline__ uint64_t key_of(int64_t x) { return (uint64_t)x ^ (uint64_t)1 << 63; }
__device__ __forceinline__ uint64_t key_of(uint64_t x) { return x; }
template <class S> __device__ __forceinline__ uint64_t any_key_of(S x) {
    if constexpr (S(-1) < S(1) || sizeof(S) < sizeof(int64_t))
        return key_of((int64_t)x);
    else
        return key_of((uint64_t)x);
}
template <> __device__ __forceinline__ uint64_t any_key_of(float x) { return key_of(x); }
template <> __device__ __forceinline__ uint64_t any_key_of(double x) { return key_of(x); }
__device__ __forceinline__ uint64_t key_at(const void *inp, tk_dtype dtype, int64_t i) {
    TK_NUMBERS(dtype, S, return any_key_of(tk_number_of(((const S *)inp)[i])))
    return 0;
}

/* An element of a lane, and none: index -1. */
typedef struct item {
    uint64_t key;
    int64_t index;
} item;
/* Whether a comes before b: the larger key, and the lower index of equal ones. */
__device__ __forceinline__ bool is_before(item a, item b) {
    return b.index < 0 ? a.index >= 0 : a.index >= 0 && (a.key > b.key || (a.key == b.key && a.index < b.index));
}

/* A block takes a lane of `axis` elements at a time. `flip`: of the keys, where the smallest are wanted. */
template <int SIZE>
__global__ void __launch_bounds__(SIZE)
    topk(void *values, int64_t *indices, const void *inp, tk_dtype dtype, int64_t lanes, int64_t axis, int64_t inner,
         int64_t k, uint64_t flip, size_t element) {
    __shared__ item parts[SIZE / TK_WARP];
    for (int64_t lane = blockIdx.x; lane < lanes; lane += gridDim.x) {
        const int64_t from = lane / inner * axis * inner + lane % inner, to = lane / inner * k * inner + lane % inner;
        item last = {0, -1};
        for (int64_t j = 0; j < k; j++) {
            item best = {0, -1};
            for (int64_t i = threadIdx.x; i < axis; i += SIZE) {
                const item x = {key_at(inp, dtype, from + i * inner) ^ flip, i};
                if (is_before(last, x) == (last.index >= 0) && is_before(x, best))
                    best = x;
            }
#pragma unroll
            for (int d = TK_WARP / 2; d > 0; d /= 2) {
                const item other = {__shfl_xor_sync(TK_ALL_LANES, best.key, d),
                                    __shfl_xor_sync(TK_ALL_LANES, best.index, d)};
                best = is_before(other, best) ? other : best;
            }
            __syncthreads();
            if (threadIdx.x % TK_WARP == 0)
                parts[threadIdx.x / TK_WARP] = best;
            __syncthreads();
            for (int w = 0; w < SIZE / TK_WARP; w++)
                best = is_before(parts[w], best) ? parts[w] : best;
            last = best;
            if (threadIdx.x == 0 && indices)
                indices[to + j * inner] = best.index;
            if (threadIdx.x == 0 && values)
                TK_SIZES(element, S, ((S *)values)[to + j * inner] = ((const S *)inp)[from + best.index * inner])
        }
    }
}

} // namespace

void tk_cuda_nonzero(tk_queue *q, int64_t *out, int64_t n, const void *inp, tk_dtype dtype, int rank,
                     const int64_t *dims) {
    static const int64_t none[TK_MAX_RANK] = {0};
    const int64_t *const strides[] = {none};
    TK_LAUNCH(nonzero, 1, THREADS, 0, q, out, n, inp, dtype, tk_walk_of<1>(rank, dims, strides), tk_fault_of(q));
}

void tk_cuda_compress(tk_queue *q, void *out, const void *inp, const uint8_t *condition, int64_t n_condition,
                      int64_t outer, int64_t axis, int64_t inner, int64_t n, size_t element){
    TK_SIZES(element, S,
             run_compress<S>(q, out, inp, condition, n_condition < axis ? n_condition : axis, axis, outer *inner, inner,
                             n))}

size_t tk_cuda_topk_workspace(int64_t axis) {
    (void)axis;
    return 0;
}

void tk_cuda_topk(tk_queue *q, void *values, int64_t *indices, const void *inp, tk_dtype dtype, int64_t outer,
                  int64_t axis, int64_t inner, int64_t k, bool largest, void *workspace) {
    const int64_t lanes = outer * inner;
    const uint64_t flip = largest ? 0 : UINT64_MAX;
    (void)workspace;
    if (lanes * k == 0)
        return;
    if (axis <= 4 * TK_WARP)
        TK_LAUNCH((topk<TK_WARP>), tk_blocks(q, lanes, 1), TK_WARP, 0, q, values, indices, inp, dtype, lanes, axis,
                  inner, k, flip, tk_size(dtype));
    else
        TK_LAUNCH((topk<THREADS>), tk_blocks(q, lanes, 1), THREADS, 0, q, values, indices, inp, dtype, lanes, axis,
                  inner, k, flip, tk_size(dtype));
}
