/* column.cuh: reductions along an axis that is not the last one. A block of TK_COLUMN_THREADS has X neighbours in x,
 * columns whose elements lie side by side, and Y places of each in y: X Y threads. The number of each depends on the
 * shape only, and so does the order of every sum. */
#ifndef TK_COLUMN_CUH
#define TK_COLUMN_CUH
#include "device.cuh"

#define TK_COLUMN_THREADS 256

/* The block for columns of which `neighbours` lie side by side. */
static inline dim3 tk_column_block(int64_t neighbours) {
    unsigned x = 1;
    while (x < TK_WARP && x < neighbours)
        x *= 2;
    return dim3(x, TK_COLUMN_THREADS / x);
}
/* Blocks for `outer` times `inner` columns. */
static inline unsigned tk_column_blocks(int64_t outer, int64_t inner) {
    const int64_t x = tk_column_block(inner).x, blocks = outer * ((inner + x - 1) / x);
    return (unsigned)(blocks < ((int64_t)1 << 30) ? blocks : (int64_t)1 << 30);
}

/* Column `inner` of `outer`; `is_one`: there is such a column; the last block of a row of columns may have more threads
 * than columns. All of a block's threads go through the loop together. */
typedef struct tk_column {
    int64_t outer, inner;
    bool is_one;
} tk_column;
__device__ __forceinline__ tk_column tk_column_of(int64_t tile, int64_t inner) {
    const int64_t tiles = (inner + blockDim.x - 1) / blockDim.x, at = tile % tiles * blockDim.x + threadIdx.x;
    return {tile / tiles, at, at < inner};
}
#define TK_FOR_EACH_TILE(tile, outer_size, inner_size)                                                                 \
    for (int64_t tile = blockIdx.x; tile < (outer_size) * (((inner_size) + blockDim.x - 1) / blockDim.x);              \
         tile += gridDim.x)

struct tk_plus {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};
/* NaN only where both are. */
struct tk_larger {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a >= b || b != b ? a : b; }
};

/* Of the Y values of a column: every thread of it gets the result. room: of shared memory, [TK_COLUMN_THREADS]. */
template <class T, class F> __device__ __forceinline__ T tk_column_reduce(T v, T *room, F join) {
    const int me = (int)(threadIdx.y * blockDim.x + threadIdx.x);
    __syncthreads();
    room[me] = v;
    for (int half_of = TK_COLUMN_THREADS / 2; half_of >= (int)blockDim.x; half_of /= 2) {
        __syncthreads();
        if (me < half_of)
            room[me] = join(room[me], room[me + half_of]);
    }
    __syncthreads();
    return room[threadIdx.x];
}
#endif
