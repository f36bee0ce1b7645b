/* gather_cuda.cu: elements and rows picked by index, rows by units of up to 16 bytes; and the writes to a cache. An
 * index out of range is a fault, and its element is not written. */
#include "../cuda/device_units.cuh"
#include "../cuda/walk.cuh"
extern "C" {
#include "combine.h"
TK_EMBEDDING_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

/* --- Gather --------------------------------------------------------------------------------------- */

/* For results of no elements. */
__global__ void __launch_bounds__(THREADS)
    check_indices(tk_indices indices, int64_t count, int64_t axis, tk_fault_place fault) {
    TK_FOR_EACH(i, count) {
        if (tk_position(indices, i, axis) < 0)
            tk_fault_set(fault, TK_BAD_INDEX);
    }
}

/* out: [outer, n, units]; count: units of it. */
template <class U>
__global__ void __launch_bounds__(THREADS) gather(U *out, const U *inp, tk_indices indices, int64_t axis, tk_divisor n,
                                                  tk_divisor units, int64_t count, tk_fault_place fault) {
    TK_FOR_EACH(i, count) {
        int64_t o = i;
        const int64_t unit = tk_split(o, units), row = tk_position(indices, tk_split(o, n), axis);
        if (row >= 0)
            out[i] = inp[(o * axis + row) * units.by + unit];
        else
            tk_fault_set(fault, TK_BAD_INDEX);
    }
}

} // namespace

void tk_cuda_gather(tk_queue *q, void *out, const void *inp, tk_indices indices, int64_t outer, int64_t axis,
                    int64_t inner, int64_t n, size_t element) {
    const int unit = tk_unit_of(out, inp, inner, element);
    const int64_t units = inner * (int64_t)element / unit, count = outer * n * units;
    const tk_fault_place fault = tk_fault_of(q);
    if (n > 0 && count == 0)
        TK_LAUNCH(check_indices, tk_blocks(q, n, THREADS), THREADS, 0, q, indices, n, axis, fault);
    else if (n > 0)
        TK_UNITS(unit, U,
                 TK_LAUNCH((gather<U>), tk_blocks(q, count, THREADS), THREADS, 0, q, (U *)out, (const U *)inp, indices,
                           axis, tk_divisor_of(n), tk_divisor_of(units), count, fault))
}

namespace {

/* --- GatherElements ------------------------------------------------------------------------------- */

/* The walk leaves out the axis, whose step is its own. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    gather_elements(S *out, const S *inp, tk_indices indices, const __grid_constant__ tk_walk<1> walk, int64_t axis,
                    int64_t step, int64_t n, tk_fault_place fault) {
    TK_FOR_EACH(i, n) {
        const int64_t at = tk_position(indices, i, axis);
        if (at >= 0)
            out[i] = inp[tk_spots_of(walk, i).at[0] + at * step];
        else
            tk_fault_set(fault, TK_BAD_INDEX);
    }
}

} // namespace

void tk_cuda_gather_elements(tk_queue *q, void *out, const void *inp, tk_indices indices, int rank,
                             const int64_t *out_dims, const int64_t *inp_dims, int axis, size_t element) {
    int64_t strides[TK_MAX_RANK], step = 1, n = 1;
    for (int64_t d = rank - 1, stride = 1; d >= 0; stride *= inp_dims[d--]) {
        strides[d] = d == axis ? 0 : stride;
        step = d == axis ? stride : step;
        n *= out_dims[d];
    }
    const int64_t *const of_inp[] = {strides};
    const tk_walk<1> walk = tk_walk_of<1>(rank, out_dims, of_inp);
    if (n > 0)
        TK_SIZES(element, S,
                 TK_LAUNCH((gather_elements<S>), tk_blocks(q, n, THREADS), THREADS, 0, q, (S *)out, (const S *)inp,
                           indices, walk, inp_dims[axis], step, n, tk_fault_of(q)))
}

namespace {

/* --- GatherND ------------------------------------------------------------------------------------- */

typedef struct tuple_dims {
    int depth;
    int64_t dims[TK_MAX_RANK];
} tuple_dims;

/* rows: of a batch item. out: [batch, n, units]. */
template <class U>
__global__ void __launch_bounds__(THREADS)
    gather_nd(U *out, const U *inp, tk_indices indices, tuple_dims t, int64_t rows, tk_divisor n, tk_divisor units,
              int64_t count, tk_fault_place fault) {
    TK_FOR_EACH(i, count) {
        int64_t tuple = i, row = 0;
        const int64_t unit = tk_split(tuple, units);
        for (int d = 0; d < t.depth && row >= 0; d++) {
            const int64_t at = tk_position(indices, tuple * t.depth + d, t.dims[d]);
            row = at < 0 ? -1 : row * t.dims[d] + at;
        }
        if (row >= 0)
            out[i] = inp[(tk_divide(tuple, n) * rows + row) * units.by + unit];
        else
            tk_fault_set(fault, TK_BAD_INDEX);
    }
}

} // namespace

void tk_cuda_gather_nd(tk_queue *q, void *out, const void *inp, tk_indices indices, const tk_nd *nd, size_t element) {
    const int unit = tk_unit_of(out, inp, nd->inner, element);
    const int64_t units = nd->inner * (int64_t)element / unit, count = nd->batch * nd->n * units;
    tuple_dims t = {nd->depth, {0}};
    int64_t rows = 1;
    for (int d = 0; d < nd->depth; d++)
        rows *= t.dims[d] = nd->dims[d];
    if (count > 0)
        TK_UNITS(unit, U,
                 TK_LAUNCH((gather_nd<U>), tk_blocks(q, count, THREADS), THREADS, 0, q, (U *)out, (const U *)inp,
                           indices, t, rows, tk_divisor_of(nd->n), tk_divisor_of(units), count, tk_fault_of(q)))
}

namespace {

/* --- TensorScatter -------------------------------------------------------------------------------- */

typedef struct cache {
    tk_divisor mid, length, inner;
    int64_t axis;
    bool circular;
} cache;

__device__ __forceinline__ bool is_start(const cache &c, int64_t start) {
    return start >= 0 && start <= INT64_MAX - c.length.by && (c.circular ? c.axis > 0 : start + c.length.by <= c.axis);
}

/* inner is of units. Where a circular cache is shorter than the updates, the last of those that meet stays. */
template <class U>
__global__ void __launch_bounds__(THREADS)
    tensor_scatter(U *out, const U *updates, const int64_t *starts, cache c, int64_t n, tk_fault_place fault) {
    TK_FOR_EACH(i, n) {
        int64_t row = i;
        const int64_t unit = tk_split(row, c.inner), entry = tk_split(row, c.length);
        const int64_t batch = tk_divide(row, c.mid), start = starts ? starts[batch] : 0;
        if (!is_start(c, start))
            tk_fault_set(fault, TK_BAD_INDEX);
        else if (entry + c.axis >= c.length.by)
            out[(row * c.axis + (start + entry) % c.axis) * c.inner.by + unit] = updates[i];
    }
}

} // namespace

void tk_cuda_tensor_scatter(tk_queue *q, void *out, const void *updates, const int64_t *starts,
                            const tk_cache_dims *dims, size_t element) {
    const int unit = tk_unit_of(out, updates, dims->inner, element);
    const int64_t inner = dims->inner * (int64_t)element / unit, n = dims->batch * dims->mid * dims->length * inner;
    const cache c = {tk_divisor_of(dims->mid), tk_divisor_of(dims->length), tk_divisor_of(inner), dims->axis,
                     dims->circular};
    if (n > 0)
        TK_UNITS(unit, U,
                 TK_LAUNCH((tensor_scatter<U>), tk_blocks(q, n, THREADS), THREADS, 0, q, (U *)out, (const U *)updates,
                           starts, c, n, tk_fault_of(q)))
}
