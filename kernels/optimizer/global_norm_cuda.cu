/* global_norm_cuda.cu: the norm of many gradients. A block sums the squares of a chunk, sixteen at a time in float and
 * those sums in double; one more block adds the chunks' sums. The order of sums depends on sizes alone: neither on the
 * grid nor on how gradients are aligned. */
#include "../cuda/row.cuh"
#include "tensor_table.cuh"
extern "C" {
#include "optimizer_math.h"
TK_OPTIMIZER_KERNELS(TK_DECLARE_CUDA)
TK_OPTIMIZER_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum { THREADS = TK_ROW_THREADS, CHUNK = 1 << 15, PART = 16, TENSORS = 512 };

typedef struct entry {
    tk_gradient g;
    bool packed;
} entry;
typedef tk_tensor_table<entry, TENSORS> table;

/* The squares of a thread's next PART elements, groups of 16 bytes in turn with the block's other threads: in packs, or
 * of the `left` ones that there are. */
template <class S, bool PACKED> __device__ __forceinline__ double squares_of_part(const S *x, int left) {
    constexpr int N = tk_pack_size<S>, U = PART / N;
    tk_pack<S, N> pack[U];
    tk_math<S> part = 0;
#pragma unroll
    for (int u = 0; u < U; u++)
        pack[u] = tk_load_some<N>(x + u * THREADS * N, PACKED ? N : left - u * THREADS * N, PACKED);
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
        for (int k = 0; k < N; k++) {
            const tk_math<S> g = tk_number_of(pack[u].at[k]);
            part = fma(g, g, part);
        }
    return (double)part;
}

template <class S> __device__ __forceinline__ double squares_of(const S *x, int n, bool packed) {
    constexpr int N = tk_pack_size<S>, STEP = PART * THREADS, LAST = STEP - THREADS * N + N; /* after a part's begin */
    int at = (int)threadIdx.x * N;
    double sum = 0;
    for (; packed && at + LAST <= n; at += STEP)
        sum += squares_of_part<S, true>(x + at, n - at);
    for (; at < n; at += STEP)
        sum += squares_of_part<S, false>(x + at, n - at);
    return sum;
}

/* sums: of each chunk of the table. */
__global__ void __launch_bounds__(THREADS) sum_chunks(double *sums, const __grid_constant__ table gradients) {
    __shared__ double parts[THREADS / TK_WARP];
    for (uint32_t chunk = blockIdx.x; chunk < tk_table_chunks(gradients); chunk += gridDim.x) {
        const int i = tk_table_find(gradients, chunk);
        const entry &e = gradients.at[i];
        const int64_t begin = (int64_t)(chunk - gradients.first[i]) * CHUNK;
        const int n = e.g.n - begin < CHUNK ? (int)(e.g.n - begin) : CHUNK;
        double sum = 0;
        TK_FLOATS(e.g.dtype, S, sum = squares_of((const S *)e.g.data + begin, n, e.packed))
        sum = tk_team_sum<THREADS>(sum, parts);
        if (threadIdx.x == 0)
            sums[chunk] = sum;
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS) finish(T *norm, T *scale, double max_norm, const double *sums, int64_t n) {
    __shared__ double parts[THREADS / TK_WARP];
    double sum = 0;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum += sums[i];
    sum = sqrt(tk_team_sum<THREADS>(sum, parts));
    if (threadIdx.x > 0)
        return;
    *norm = (T)sum;
    if (scale)
        *scale = (T)tk_clipping(sum, max_norm);
}

void launch(tk_queue *q, double *sums, const table &gradients) {
    const int64_t chunks = gradients.first[gradients.count];
    if (chunks > 0)
        TK_LAUNCH(sum_chunks, tk_blocks(q, chunks, 1), THREADS, 0, q, sums, gradients);
}

/* Returns how many chunks there are. */
int64_t sum_all(tk_queue *q, double *sums, const tk_gradient *gradients, int64_t count) {
    static_assert(sizeof(table) + 64 <= TK_PARAMETER_BYTES, "a launch's parameters");
    table part = {};
    int64_t done = 0;
    for (int64_t i = 0; i < count; i++) {
        if (gradients[i].n > 0)
            tk_table_add(part, entry{gradients[i], tk_is_packed(gradients[i].data)}, tk_chunks(gradients[i].n, CHUNK));
        if (part.count < TENSORS)
            continue;
        launch(q, sums + done, part);
        done += part.first[part.count];
        part.count = 0;
    }
    launch(q, sums + done, part);
    return done + part.first[part.count];
}

} // namespace

size_t tk_cuda_global_norm_workspace(const tk_gradient *gradients, int64_t count) {
    int64_t chunks = 0;
    for (int64_t i = 0; i < count; i++)
        chunks += tk_chunks(gradients[i].n, CHUNK);
    return (size_t)chunks * sizeof(double);
}

void tk_cuda_global_norm(tk_queue *q, void *norm, void *scale, double max_norm, const tk_gradient *gradients,
                         int64_t count, tk_dtype dtype, void *workspace) {
    double *sums = (double *)workspace;
    const int64_t chunks = sum_all(q, sums, gradients, count);
    if (dtype == TK_F64)
        TK_LAUNCH(finish<double>, 1, THREADS, 0, q, (double *)norm, (double *)scale, max_norm, sums, chunks);
    else
        TK_LAUNCH(finish<float>, 1, THREADS, 0, q, (float *)norm, (float *)scale, max_norm, sums, chunks);
}
