/* movement_cuda.cu: copies, Pad, Trilu and ReverseSequence on a CUDA device, by the size of an element. */
#include "../cuda/walk.cuh"
extern "C" {
#include "movement.h"
TK_MOVEMENT_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

} // namespace

void tk_cuda_copy(tk_queue *q, void *out, const void *inp, size_t bytes) {
    if (out != inp && bytes > 0)
        tk_cuda_note(tk_queue_cuda(q), cudaMemcpyAsync(out, inp, bytes, cudaMemcpyDeviceToDevice, tk_stream(q)),
                     "cudaMemcpyAsync");
}

/* --- fill --------------------------------------------------------------------------------------- */

namespace {

template <class S> __global__ void __launch_bounds__(THREADS) fill(S *out, S value, int64_t n, int64_t packs) {
    constexpr int N = tk_pack_size<S>;
    tk_pack<S, N> all;
#pragma unroll
    for (int k = 0; k < N; k++)
        all.at[k] = value;
    TK_FOR_EACH(p, packs) { tk_store_pack(out + p * N, all); }
    TK_FOR_EACH(i, n - packs * N) { out[packs * N + i] = value; }
}

template <class S> static void run_fill(tk_queue *q, void *out, const void *value, int64_t n) {
    S element;
    memcpy(&element, value, sizeof element);
    TK_LAUNCH((fill<S>), tk_blocks(q, n, THREADS, tk_pack_size<S>), THREADS, 0, q, (S *)out, element, n,
              tk_is_packed(out) ? n / tk_pack_size<S> : 0);
}

} // namespace

void tk_cuda_fill(tk_queue *q, void *out, const void *value, int64_t n, size_t element) {
    if (n > 0)
        TK_SIZES(element, S, run_fill<S>(q, out, value, n))
}

/* --- Pad ---------------------------------------------------------------------------------------- */

namespace {

/* strides of `walk`: the input's. maps: as tk_pad has them, one after the other. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    pad(S *out, const S *inp, const S *value, const int64_t *maps, const __grid_constant__ tk_walk<1> walk) {
    TK_FOR_EACH(i, walk.items) {
        const int64_t *map = maps;
        for (int d = 0; d < walk.rank - 1; d++)
            map += walk.dims[d].by;
        int64_t rest = i, from = 0;
        bool inside = true;
        for (int d = walk.rank - 1; d >= 0; d--) {
            const int64_t next = tk_divide(rest, walk.dims[d], walk.quick), at = map[rest - next * walk.dims[d].by];
            inside = inside && at >= 0;
            from += at * walk.strides[0][d];
            rest = next;
            map -= d > 0 ? walk.dims[d - 1].by : 0;
        }
        out[i] = inside ? inp[from] : value ? *value : S(0);
    }
}

template <class S>
static void run_pad(tk_queue *q, void *out, const void *inp, const void *value, const int64_t *maps,
                    const tk_walk<1> &walk) {
    TK_LAUNCH((pad<S>), tk_blocks(q, walk.items, THREADS), THREADS, 0, q, (S *)out, (const S *)inp, (const S *)value,
              maps, walk);
}

} // namespace

void tk_cuda_pad(tk_queue *q, void *out, const void *inp, const void *value, int rank, const int64_t *out_dims,
                 const int64_t *inp_dims, const int64_t *maps, size_t element) {
    int64_t inp_strides[TK_MAX_RANK], scale = 1;
    for (int d = rank - 1; d >= 0; d--) {
        inp_strides[d] = scale;
        scale *= inp_dims[d];
    }
    const int64_t *const strides[] = {inp_strides};
    const tk_walk<1> walk = tk_walk_of<1>(rank, out_dims, strides);
    if (walk.items > 0)
        TK_SIZES(element, S, run_pad<S>(q, out, inp, value, maps, walk))
}

/* --- Trilu -------------------------------------------------------------------------------------- */

namespace {

template <class S>
__global__ void __launch_bounds__(THREADS)
    trilu(S *out, const S *inp, int64_t n, tk_divisor rows, tk_divisor cols, const int64_t *k, bool upper) {
    const int64_t diagonal = k ? *k : 0;
    const bool quick = n <= INT32_MAX;
    TK_FOR_EACH(i, n) {
        const int64_t line = tk_divide(i, cols, quick), row = line - tk_divide(line, rows, quick) * rows.by;
        const int64_t right = i - line * cols.by - row; /* of the main diagonal */
        const bool kept = upper ? right >= diagonal : right <= diagonal;
        if (!kept || out != inp)
            out[i] = kept ? inp[i] : S(0);
    }
}

} // namespace

void tk_cuda_trilu(tk_queue *q, void *out, const void *inp, int64_t n, int64_t rows, int64_t cols, const int64_t *k,
                   bool upper, size_t element) {
    const int64_t count = n * rows * cols;
    if (count > 0)
        TK_SIZES(element, S,
                 TK_LAUNCH((trilu<S>), tk_blocks(q, count, THREADS), THREADS, 0, q, (S *)out, (const S *)inp, count,
                           tk_divisor_of(rows), tk_divisor_of(cols), k, upper))
}

/* --- the check of an Expand target -------------------------------------------------------------- */

namespace {

typedef struct sizes_of {
    int64_t dims[TK_MAX_RANK];
} sizes_of;

__global__ void __launch_bounds__(THREADS)
    check_sizes(const int64_t *sizes, int64_t n, const __grid_constant__ sizes_of wanted, tk_fault_place fault) {
    TK_FOR_EACH(i, n) {
        if (sizes[i] != 1 && sizes[i] != wanted.dims[i])
            tk_fault_set(fault, TK_BAD_VALUE);
    }
}

} // namespace

void tk_cuda_check_sizes(tk_queue *q, const int64_t *sizes, int64_t n, const int64_t *dims) {
    sizes_of wanted = {};
    if (n == 0)
        return;
    memcpy(wanted.dims, dims, (size_t)n * sizeof *dims);
    TK_LAUNCH(check_sizes, 1, THREADS, 0, q, sizes, n, wanted, tk_fault_of(q));
}

/* --- ReverseSequence ------------------------------------------------------------------------------ */

namespace {

template <class S>
__global__ void __launch_bounds__(THREADS)
    reverse_sequence(S *out, const S *inp, const int64_t *lens, const __grid_constant__ tk_walk<1> walk,
                     bool time_first, tk_fault_place fault) {
    TK_FOR_EACH(i, walk.items) {
        int64_t at[5] = {}, rest = i; /* in [outer, d0, mid, d1, inner] */
#pragma unroll
        for (int d = 4; d >= 0; d--) {
            const int64_t next = d > 0 ? tk_divide(rest, walk.dims[d], walk.quick) : 0;
            at[d] = rest - next * walk.dims[d].by;
            rest = next;
        }
        const int64_t t = time_first ? at[1] : at[3], length = lens[time_first ? at[3] : at[1]];
        if (length < 0 || length > (time_first ? walk.dims[1].by : walk.dims[3].by)) {
            tk_fault_set(fault, TK_BAD_INDEX);
            continue;
        }
        const int64_t moved = t < length ? length - 1 - 2 * t : 0;
        out[i] = inp[i + moved * walk.strides[0][time_first ? 1 : 3]];
    }
}

} // namespace

void tk_cuda_reverse_sequence(tk_queue *q, void *out, const void *inp, const int64_t *lens, const tk_reverse_dims *dims,
                              size_t element) {
    const int64_t sizes[] = {dims->outer, dims->d0, dims->mid, dims->d1, dims->inner};
    int64_t inp_strides[5], scale = 1;
    for (int d = 4; d >= 0; d--) {
        inp_strides[d] = scale;
        scale *= sizes[d];
    }
    const int64_t *const strides[] = {inp_strides};
    const tk_walk<1> walk = tk_walk_of<1>(5, sizes, strides);
    if (walk.items > 0)
        TK_SIZES(element, S,
                 TK_LAUNCH((reverse_sequence<S>), tk_blocks(q, walk.items, THREADS), THREADS, 0, q, (S *)out,
                           (const S *)inp, lens, walk, dims->time_first, tk_fault_of(q)))
}
