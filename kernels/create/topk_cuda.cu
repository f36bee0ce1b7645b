/* topk_cuda.cu: TopK on a CUDA device. For small k a block finds the best of a lane, then the best of the rest, and so
 * on; else, and where lanes are few and long, all lanes are sorted. */
#include "../cuda/walk.cuh"
extern "C" {
#include "../cuda/cub.h"
#include "create.h"
TK_CREATE_KERNELS(TK_DECLARE_CUDA)
TK_CREATE_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum {
    THREADS = 256,
    MOST_PASSES = 16, /* over a lane: a sort takes about as long, for any k */
    FEW_LANES = 32,   /* that are long: a block each would leave the device idle */
    LONG_LANE = 8192,
    SORTED_AT_ONCE = 1 << 20 /* elements, or one lane: bounds the workspace */
};

/* --- keys: numbers without a sign, in the order of the type's; NaN is the largest, both zeros are one ------------ */

template <class S> __device__ __forceinline__ uint64_t key_of(S x) {
    constexpr uint64_t top = (uint64_t)1 << (8 * sizeof(S) - 1), all = top | (top - 1);
    const tk_math<S> number = tk_number_of(x);
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof x);
    if constexpr ((tk_math<S>)0.5 == 0)
        return tk_math<S>(-1) < tk_math<S>(1) ? bits ^ top : bits;
    return number != number ? all : number == 0 ? top : bits & top ? bits ^ all : bits ^ top;
}

__device__ __forceinline__ uint64_t key_at(const void *inp, tk_dtype dtype, int64_t i) {
    TK_NUMBERS(dtype, S, return key_of(((const S *)inp)[i]))
    return 0;
}

/* The lanes of an operand; `flip`: of the keys, so that the largest come first. */
typedef struct lanes {
    const void *inp; /* [outer, axis, inner] */
    int64_t k;
    tk_divisor axis, inner;
    tk_dtype dtype;
    size_t element; /* its bytes */
    uint64_t flip;
} lanes;

/* The first element of a lane in an array of `each` elements a lane. */
__device__ __forceinline__ int64_t first_of(const lanes &of, int64_t lane, int64_t each) {
    const int64_t j = tk_split(lane, of.inner);
    return lane * each * of.inner.by + j;
}

/* values, indices: [outer, k, inner], either may be NULL. */
__device__ __forceinline__ void put_best(void *values, int64_t *indices, const lanes &of, int64_t lane, int64_t j,
                                         int64_t index) {
    const int64_t from = first_of(of, lane, of.axis.by) + index * of.inner.by,
                  to = first_of(of, lane, of.k) + j * of.inner.by;
    if (indices)
        indices[to] = index;
    if (values)
        TK_SIZES(of.element, S, ((S *)values)[to] = ((const S *)of.inp)[from])
}

/* --- k times the best ------------------------------------------------------------------------------ */

/* An element of a lane, and none: index -1. */
typedef struct item {
    uint64_t key;
    int64_t index;
} item;
/* Whether a comes before b: the smaller key, and the lower index of equal ones. */
__device__ __forceinline__ bool is_before(item a, item b) {
    return b.index < 0 ? a.index >= 0 : a.index >= 0 && (a.key < b.key || (a.key == b.key && a.index < b.index));
}

/* A block takes a lane at a time. */
template <int SIZE>
__global__ void __launch_bounds__(SIZE)
    find_best(void *values, int64_t *indices, const __grid_constant__ lanes of, int64_t count) {
    __shared__ item parts[SIZE / TK_WARP];
    for (int64_t lane = blockIdx.x; lane < count; lane += gridDim.x) {
        const int64_t from = first_of(of, lane, of.axis.by);
        item last = {0, -1};
        for (int64_t j = 0; j < of.k; j++) {
            item best = {0, -1};
            for (int64_t i = threadIdx.x; i < of.axis.by; i += SIZE) {
                const item x = {key_at(of.inp, of.dtype, from + i * of.inner.by) ^ of.flip, i};
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
            if (threadIdx.x == 0)
                put_best(values, indices, of, lane, j, best.index);
        }
    }
}

/* --- a sort ----------------------------------------------------------------------------------------- */

/* Pairs of a key and an element's number in these lanes, from lane `first` on: n elements. The lane's number stands
 * above a key's `bits`, if there is room for both: with bits 64 there is none. */
__global__ void __launch_bounds__(THREADS)
    lane_keys(tk_pairs pairs, const __grid_constant__ lanes of, int64_t first, int64_t n, int bits) {
    TK_FOR_EACH(i, n) {
        int64_t lane = i;
        const int64_t index = tk_split(lane, of.axis);
        const int64_t from = first_of(of, first + lane, of.axis.by);
        const uint64_t key = key_at(of.inp, of.dtype, from + index * of.inner.by) ^ of.flip;
        pairs.keys[i] = bits < 64 ? key | (uint64_t)lane << bits : key;
        pairs.values[i] = (uint64_t)i;
    }
}

/* Where keys are sorted: pairs of the lane and the element. */
__global__ void __launch_bounds__(THREADS) lane_numbers(tk_pairs pairs, int64_t n, tk_divisor axis) {
    TK_FOR_EACH(i, n)
    pairs.keys[i] = (uint64_t)tk_divide((int64_t)pairs.values[i], axis);
}

__global__ void __launch_bounds__(THREADS) put_sorted(void *values, int64_t *indices, const __grid_constant__ lanes of,
                                                      tk_pairs sorted, int64_t first, int64_t count, tk_divisor k) {
    TK_FOR_EACH(i, count * of.k) {
        int64_t lane = i;
        const int64_t j = tk_split(lane, k), begin = lane * of.axis.by;
        put_best(values, indices, of, first + lane, j, (int64_t)sorted.values[begin + j] - begin);
    }
}

bool are_sorted(int64_t count, int64_t axis, int64_t k) {
    return k > MOST_PASSES || (count <= FEW_LANES && axis >= LONG_LANE);
}

int64_t at_once(int64_t count, int64_t axis) {
    const int64_t most = SORTED_AT_ONCE / (axis > 0 ? axis : 1);
    return most < 1 ? 1 : most < count ? most : count;
}

/* Elements of lanes [first, first + count), each lane's together and the best first. Of equal ones the first stays
 * the first: all sorts are stable. */
tk_pairs sorted_lanes(tk_queue *q, const lanes &of, int64_t first, int64_t count, void *workspace) {
    tk_cuda *cuda = tk_queue_cuda(q);
    const int64_t n = count * of.axis.by;
    const int bits = 8 * (int)of.element, lane_bits = tk_bits_of(count - 1);
    const unsigned blocks = tk_blocks(q, n, THREADS);
    tk_pairs pairs = tk_sort_pairs(workspace, n);
    TK_LAUNCH(lane_keys, blocks, THREADS, 0, q, pairs, of, first, n, bits);
    if (bits < 64)
        return tk_sort(cuda, workspace, pairs, n, bits + lane_bits);
    pairs = tk_sort(cuda, workspace, pairs, n, bits);
    if (count == 1)
        return pairs;
    TK_LAUNCH(lane_numbers, blocks, THREADS, 0, q, pairs, n, of.axis);
    return tk_sort(cuda, workspace, pairs, n, lane_bits);
}

} // namespace

size_t tk_cuda_topk_workspace(int64_t outer, int64_t axis, int64_t inner, int64_t k) {
    const int64_t count = outer * inner;
    return are_sorted(count, axis, k) ? tk_sort_workspace(at_once(count, axis) * axis) : 0;
}

void tk_cuda_topk(tk_queue *q, void *values, int64_t *indices, const void *inp, tk_dtype dtype, int64_t outer,
                  int64_t axis, int64_t inner, int64_t k, bool largest, void *workspace) {
    const int64_t count = outer * inner;
    const size_t element = tk_size(dtype);
    const uint64_t all = UINT64_MAX >> (64 - 8 * element);
    const lanes of = {inp, k, tk_divisor_of(axis), tk_divisor_of(inner), dtype, element, largest ? all : 0};
    if (count * k == 0)
        return;
    if (are_sorted(count, axis, k))
        for (int64_t first = 0, part = at_once(count, axis); first < count; first += part) {
            const int64_t here = count - first < part ? count - first : part;
            const tk_pairs sorted = sorted_lanes(q, of, first, here, workspace);
            TK_LAUNCH(put_sorted, tk_blocks(q, here * k, THREADS), THREADS, 0, q, values, indices, of, sorted, first,
                      here, tk_divisor_of(k));
        }
    else if (axis <= 4 * TK_WARP)
        TK_LAUNCH((find_best<TK_WARP>), tk_blocks(q, count, 1), TK_WARP, 0, q, values, indices, of, count);
    else
        TK_LAUNCH((find_best<THREADS>), tk_blocks(q, count, 1), THREADS, 0, q, values, indices, of, count);
}
