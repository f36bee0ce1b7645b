/* scatter_cuda.cu: elements put back by index, always in the order of the indices. These are sorted first: each run of
 * equal ones belongs to one thread an element, so nothing is added atomically. The gradient of a gather adds long runs
 * by stretches of 128 rows, and the stretches' sums in order. */
#include "../cuda/device_units.cuh"
#include "../cuda/walk.cuh"
extern "C" {
#include "../cuda/cub.h"
#include "combine.h"
TK_EMBEDDING_KERNELS(TK_DECLARE_CUDA)
TK_EMBEDDING_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum { THREADS = 256, STRETCH = 128, AT_ONCE = 8 };

/* --- the order ------------------------------------------------------------------------------------ */

/* Pairs of row and position; for an index out of range the row is `axis`, after all others. */
__global__ void __launch_bounds__(THREADS)
    row_keys(tk_pairs pairs, tk_indices indices, int64_t n, int64_t axis, tk_fault_place fault) {
    TK_FOR_EACH(i, n) {
        const int64_t row = tk_position(indices, i, axis);
        if (row < 0)
            tk_fault_set(fault, TK_BAD_INDEX);
        pairs.keys[i] = (uint64_t)(row < 0 ? axis : row);
        pairs.values[i] = (uint64_t)i;
    }
}

/* The same for tuples into dims. */
typedef struct tuple_dims {
    int depth;
    int64_t dims[TK_MAX_RANK];
} tuple_dims;

__global__ void __launch_bounds__(THREADS)
    tuple_keys(tk_pairs pairs, tk_indices indices, tuple_dims t, int64_t n, int64_t rows, tk_fault_place fault) {
    TK_FOR_EACH(i, n) {
        int64_t row = 0;
        for (int d = 0; d < t.depth && row >= 0; d++) {
            const int64_t at = tk_position(indices, i * t.depth + d, t.dims[d]);
            row = at < 0 ? -1 : row * t.dims[d] + at;
        }
        if (row < 0)
            tk_fault_set(fault, TK_BAD_INDEX);
        pairs.keys[i] = (uint64_t)(row < 0 ? rows : row);
        pairs.values[i] = (uint64_t)i;
    }
}

/* The same for elements: the walk leaves out the axis, whose step is its own. */
__global__ void __launch_bounds__(THREADS)
    element_keys(tk_pairs pairs, tk_indices indices, const __grid_constant__ tk_walk<1> walk, int64_t axis,
                 int64_t step, int64_t n, int64_t targets, tk_fault_place fault) {
    TK_FOR_EACH(i, n) {
        const int64_t at = tk_position(indices, i, axis);
        if (at < 0)
            tk_fault_set(fault, TK_BAD_INDEX);
        pairs.keys[i] = (uint64_t)(at < 0 ? targets : tk_spots_of(walk, i).at[0] + at * step);
        pairs.values[i] = (uint64_t)i;
    }
}

/* The pairs of a workspace by their rows, 0 .. most. */
tk_pairs sorted_pairs(tk_queue *q, void *workspace, int64_t n, int64_t most) {
    return tk_sort(tk_queue_cuda(q), workspace, tk_sort_pairs(workspace, n), n, tk_bits_of(most));
}

/* --- scatters ------------------------------------------------------------------------------------- */

/* The last update of each run stays. out: [rows, units]; updates: [n, units] */
template <class U>
__global__ void __launch_bounds__(THREADS)
    put(U *out, const U *updates, tk_pairs sorted, int64_t n, tk_divisor units, uint64_t rows) {
    TK_FOR_EACH(i, n * units.by) {
        int64_t at = i;
        const int64_t unit = tk_split(at, units);
        const uint64_t row = sorted.keys[at];
        if (row < rows && (at + 1 == n || sorted.keys[at + 1] != row))
            out[(int64_t)row * units.by + unit] = updates[(int64_t)sorted.values[at] * units.by + unit];
    }
}

/* Integers wrap; NaN wins in Min and Max. */
template <class S> struct wide_of { typedef uint64_t type; };
template <> struct wide_of<float> { typedef float type; };
template <> struct wide_of<double> { typedef double type; };
template <class S> __device__ __forceinline__ S combined(S a, S b, tk_scatter_kind reduction) {
    typedef typename wide_of<S>::type wide;
    switch (reduction) {
    case TK_ADD: return (S)((wide)a + (wide)b);
    case TK_MUL: return (S)((wide)a * (wide)b);
    case TK_MIN: return a < b || a != a ? a : b;
    case TK_MAX: return a > b || a != a ? a : b;
    default: return b;
    }
}

/* The first thread of each run combines the element with all updates of the run. */
template <class S>
__global__ void __launch_bounds__(THREADS) combine(S *out, const S *updates, tk_pairs sorted, int64_t n,
                                                   tk_divisor inner, uint64_t rows, tk_scatter_kind reduction) {
    TK_FOR_EACH(i, n * inner.by) {
        int64_t at = i;
        const int64_t j = tk_split(at, inner);
        const uint64_t row = sorted.keys[at];
        if (row >= rows || (at > 0 && sorted.keys[at - 1] == row))
            continue;
        S x = out[(int64_t)row * inner.by + j];
        for (; at < n && sorted.keys[at] == row; at++)
            x = combined(x, updates[(int64_t)sorted.values[at] * inner.by + j], reduction);
        out[(int64_t)row * inner.by + j] = x;
    }
}

static void scatter(tk_queue *q, void *out, const void *updates, tk_pairs sorted, int64_t n, int64_t inner,
                    int64_t rows, tk_scatter_kind reduction, tk_dtype dtype) {
    const size_t element = tk_size(dtype);
    const unsigned blocks = tk_blocks(q, n * inner, THREADS);
    if (n * inner == 0)
        return;
    if (reduction == TK_PUT) {
        const int unit = tk_unit_of(out, updates, inner, element);
        const tk_divisor units = tk_divisor_of(inner * (int64_t)element / unit);
        TK_UNITS(
            unit, U,
            TK_LAUNCH((put<U>), blocks, THREADS, 0, q, (U *)out, (const U *)updates, sorted, n, units, (uint64_t)rows))
        return;
    }
    switch ((int)dtype) {
#define COMBINE(S)                                                                                                     \
    TK_LAUNCH((combine<S>), blocks, THREADS, 0, q, (S *)out, (const S *)updates, sorted, n, tk_divisor_of(inner),      \
              (uint64_t)rows, reduction)
        TK_CASE(TK_F32, float, S, COMBINE(S))
        TK_CASE(TK_F64, double, S, COMBINE(S))
        TK_INTEGER_CASES(S, COMBINE(S))
#undef COMBINE
    }
}

} // namespace

size_t tk_cuda_scatter_workspace(int64_t n) { return tk_sort_workspace(n); }

void tk_cuda_scatter_nd(tk_queue *q, void *out, tk_indices indices, const void *updates, const tk_nd *nd,
                        tk_scatter_kind reduction, tk_dtype dtype, void *workspace) {
    tuple_dims t = {nd->depth, {0}};
    int64_t rows = 1;
    for (int d = 0; d < nd->depth; d++)
        rows *= t.dims[d] = nd->dims[d];
    if (nd->n == 0)
        return;
    TK_LAUNCH(tuple_keys, tk_blocks(q, nd->n, THREADS), THREADS, 0, q, tk_sort_pairs(workspace, nd->n), indices, t,
              nd->n, rows, tk_fault_of(q));
    scatter(q, out, updates, sorted_pairs(q, workspace, nd->n, rows), nd->n, nd->inner, rows, reduction, dtype);
}

void tk_cuda_scatter_elements(tk_queue *q, void *out, tk_indices indices, const void *updates, int rank,
                              const int64_t *upd_dims, const int64_t *out_dims, int axis, tk_scatter_kind reduction,
                              tk_dtype dtype, void *workspace) {
    int64_t strides[TK_MAX_RANK], step = 1, n = 1, targets = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = d == axis ? 0 : targets;
        step = d == axis ? targets : step;
        targets *= out_dims[d];
        n *= upd_dims[d];
    }
    const int64_t *const of_out[] = {strides};
    const tk_walk<1> walk = tk_walk_of<1>(rank, upd_dims, of_out);
    if (n == 0)
        return;
    TK_LAUNCH(element_keys, tk_blocks(q, n, THREADS), THREADS, 0, q, tk_sort_pairs(workspace, n), indices, walk,
              out_dims[axis], step, n, targets, tk_fault_of(q));
    scatter(q, out, updates, sorted_pairs(q, workspace, n, targets), n, 1, targets, reduction, dtype);
}

namespace {

/* --- the gradient of a gather --------------------------------------------------------------------- */

/* begins[row]: the first pair of a row, [axis + 1]. */
__global__ void __launch_bounds__(THREADS) find_rows(int64_t *begins, tk_pairs sorted, int64_t n, int64_t axis) {
    TK_FOR_EACH(row, axis + 1) {
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (sorted.keys[middle] < (uint64_t)row)
                low = middle + 1;
            else
                high = middle;
        }
        begins[row] = low;
    }
}

/* grad: [outer, n, inner]; out: [outer, axis, inner]; packs: of N elements in inner; partial: [slots, outer, inner] */
template <class S> struct rows_sum {
    S *out;
    const S *grad;
    tk_math<S> *partial;
    const int64_t *begins;
    tk_pairs sorted;
    int64_t outer, axis, n;
    tk_divisor packs, by_outer, by_axis;
};

/* Adds rows [begin, end) of the sorted order, one after the other. */
template <class S, int N>
__device__ __forceinline__ void add_rows(tk_math<S> *sum, const rows_sum<S> &s, int64_t o, int64_t p, int64_t begin,
                                         int64_t end) {
    for (int64_t first = begin; first < end; first += AT_ONCE) {
        tk_pack<S, N> x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (first + k < end)
                x[k] = tk_load_pack<N>(s.grad + ((o * s.n + (int64_t)s.sorted.values[first + k]) * s.packs.by + p) * N);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
            for (int j = 0; j < N; j++)
                if (first + k < end)
                    sum[j] += tk_number_of(x[k].at[j]);
    }
}

/* A long run has stretches that begin at its first row and every STRETCH rows on. Of each STRETCH pairs at most two
 * stretches begin among them: slot 2 t is that of the run that has the first of these pairs, slot 2 t + 1 that of the
 * run that has the last. The first row of a slot's stretch; -1: there is none. */
__device__ __forceinline__ int64_t stretch_of(int64_t slot, const int64_t *begins, const uint64_t *keys, int64_t n,
                                              int64_t axis, int64_t *out_end) {
    const int64_t first = slot / 2 * STRETCH, last = first + STRETCH < n ? first + STRETCH - 1 : n - 1;
    const int64_t row = (int64_t)keys[slot % 2 == 0 ? first : last];
    if (row >= axis || (slot % 2 == 1 && (int64_t)keys[first] == row))
        return -1;
    const int64_t begin = begins[row], end = begins[row + 1];
    const int64_t at = begin >= first ? begin : begin + (first - begin + STRETCH - 1) / STRETCH * STRETCH;
    if (end - begin <= STRETCH || at >= end)
        return -1;
    *out_end = end < at + STRETCH ? end : at + STRETCH;
    return at;
}

/* With a fourth block on a multiprocessor at a time the compiler would spill registers. */
template <class S, int N> __global__ void __launch_bounds__(THREADS, 3) sum_stretches(rows_sum<S> s, int64_t count) {
    TK_FOR_EACH(i, count) {
        int64_t slot = i, end = 0;
        const int64_t p = tk_split(slot, s.packs), o = tk_split(slot, s.by_outer);
        const int64_t begin = stretch_of(slot, s.begins, s.sorted.keys, s.n, s.axis, &end);
        if (begin < 0)
            continue;
        tk_math<S> sum[N] = {};
        add_rows<S, N>(sum, s, o, p, begin, end);
#pragma unroll
        for (int j = 0; j < N; j++)
            s.partial[i * N + j] = sum[j];
    }
}

/* Every row of the result is written once: zeros where nothing was picked. */
template <class S, int N> __global__ void __launch_bounds__(THREADS) sum_rows(rows_sum<S> s, int64_t count) {
    TK_FOR_EACH(i, count) {
        int64_t o = i;
        const int64_t p = tk_split(o, s.packs), row = tk_split(o, s.by_axis);
        const int64_t begin = s.begins[row], end = s.begins[row + 1];
        tk_math<S> sum[N] = {};
        if (end - begin <= STRETCH)
            add_rows<S, N>(sum, s, o, p, begin, end);
        else
#pragma unroll 4
            for (int64_t at = begin; at < end; at += STRETCH) {
                const int64_t tile = at / STRETCH;
                const int64_t slot = 2 * tile + (s.sorted.keys[tile * STRETCH] == (uint64_t)row ? 0 : 1);
#pragma unroll
                for (int j = 0; j < N; j++)
                    sum[j] += s.partial[((slot * s.outer + o) * s.packs.by + p) * N + j];
            }
        tk_pack<S, N> y;
#pragma unroll
        for (int j = 0; j < N; j++)
            y.at[j] = tk_element_of<S>(sum[j]);
        tk_store_pack(s.out + i * N, y);
    }
}

static int64_t slots_of(int64_t n) { return n > STRETCH ? (n + STRETCH - 1) / STRETCH * 2 : 0; }

template <class S, int N> static void sum(tk_queue *q, const rows_sum<S> &s) {
    const int64_t stretches = slots_of(s.n) * s.outer * s.packs.by, rows = s.outer * s.axis * s.packs.by;
    if (stretches > 0)
        TK_LAUNCH((sum_stretches<S, N>), tk_blocks(q, stretches, THREADS), THREADS, 0, q, s, stretches);
    if (rows > 0)
        TK_LAUNCH((sum_rows<S, N>), tk_blocks(q, rows, THREADS), THREADS, 0, q, s, rows);
}

template <class S>
static void sum_all(tk_queue *q, void *out, const void *grad, void *partial, const int64_t *begins, tk_pairs sorted,
                    int64_t outer, int64_t axis, int64_t inner, int64_t n) {
    constexpr int N = tk_pack_size<S>;
    const bool packed = inner % N == 0 && tk_is_packed(out, grad);
    const rows_sum<S> s = {(S *)out,
                           (const S *)grad,
                           (tk_math<S> *)partial,
                           begins,
                           sorted,
                           outer,
                           axis,
                           n,
                           tk_divisor_of(packed ? inner / N : inner),
                           tk_divisor_of(outer),
                           tk_divisor_of(axis)};
    if (packed)
        sum<S, N>(q, s);
    else
        sum<S, 1>(q, s);
}

} // namespace

size_t tk_cuda_gather_grad_workspace(int64_t outer, int64_t axis, int64_t inner, int64_t n, tk_dtype dtype, int slots) {
    (void)slots;
    return tk_sort_workspace(n) + (size_t)(axis + 1) * sizeof(int64_t) +
           (size_t)(slots_of(n) * outer * inner) * tk_size(tk_wide(dtype));
}

void tk_cuda_gather_grad(tk_queue *q, void *out, const void *grad, tk_indices indices, int64_t outer, int64_t axis,
                         int64_t inner, int64_t n, tk_dtype dtype, void *workspace) {
    int64_t *begins = (int64_t *)((char *)workspace + tk_sort_workspace(n));
    if (n > 0)
        TK_LAUNCH(row_keys, tk_blocks(q, n, THREADS), THREADS, 0, q, tk_sort_pairs(workspace, n), indices, n, axis,
                  tk_fault_of(q));
    const tk_pairs sorted = sorted_pairs(q, workspace, n, axis);
    TK_LAUNCH(find_rows, tk_blocks(q, axis + 1, THREADS), THREADS, 0, q, begins, sorted, n, axis);
    if (outer * inner > 0)
        TK_FLOATS(dtype, S, sum_all<S>(q, out, grad, begins + axis + 1, begins, sorted, outer, axis, inner, n))
}
