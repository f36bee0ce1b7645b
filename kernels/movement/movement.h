/* movement.h: ops that move elements without looking at them: Transpose, Slice, Concat, Split, Expand, Tile, Pad,
 * DepthToSpace, Trilu, ReverseSequence. All work on bytes, so one function serves every element type of a size (1, 2, 4
 * or 8).
 *
 * Most of them are the same walk over a box of elements, with one stride per dim on each side (tk_strided). Transpose
 * permutes the strides, Slice offsets and scales them, Expand sets some to 0, Concat and Split offset one side, Tile is
 * an Expand of twice the rank. */
#ifndef TK_MOVEMENT_H
#define TK_MOVEMENT_H
#include "../kernel.h"

#define TK_STRIDED_RANK (2 * TK_MAX_RANK)

/* out[out_offset + sum i_d out_strides_d] = inp[inp_offset + sum i_d inp_strides_d], in elements, for every index i
 * of the box. */
typedef struct tk_strided {
    int rank;
    int64_t dims[TK_STRIDED_RANK];
    int64_t out_strides[TK_STRIDED_RANK], inp_strides[TK_STRIDED_RANK];
    int64_t out_offset, inp_offset;
    int64_t count; /* elements of the box: set by tk_strided_simplify */
} tk_strided;

/* Drops dims of size 1 and merges dims that both sides walk through as one, so that the innermost run is as long as
 * it can be. To be called once, before tk_copy_strided. */
void tk_strided_simplify(tk_strided *box);

/* Reverses the first lens[b] entries along time of each batch entry b. out, inp: [outer, d0, mid, d1, inner]; time is
 * d0 and batch d1 where time_first, else the other way round. lens: [batch], 0 <= lens[b] <= time, else TK_BAD_INDEX
 */
typedef struct tk_reverse_dims {
    int64_t outer, d0, mid, d1, inner;
    bool time_first;
} tk_reverse_dims;

/* clang-format off */
#define TK_MOVEMENT_KERNELS(K) \
    /* The same by runs, in blocks where one side is transposed, on several threads. No two elements of the box \
     * may share an output. */ \
    K(copy_strided, (tk_queue *q, void *out, const void *inp, const tk_strided *box, size_t element), \
      (q, out, inp, box, element)) \
    /* inp may be out: then nothing is done. */ \
    K(copy, (tk_queue *q, void *out, const void *inp, size_t bytes), (q, out, inp, bytes)) \
    /* out[i] = *value, n elements; value is the host's. */ \
    K(fill, (tk_queue *q, void *out, const void *value, int64_t n, size_t element), (q, out, value, n, element)) \
    /* Pad in every mode: out[i0, i1, ...] = inp[map0[i0], map1[i1], ...], or *value (NULL: 0) where a map says -1. \
     * out: out_dims; inp: inp_dims; maps: the maps of all dims, [out_dims[0]], [out_dims[1]], ..., one after the \
     * other */ \
    K(pad, (tk_queue *q, void *out, const void *inp, const void *value, int rank, const int64_t *out_dims, \
      const int64_t *inp_dims, const int64_t *maps, size_t element), \
      (q, out, inp, value, rank, out_dims, inp_dims, maps, element)) \
    /* Keeps one side of the k-th diagonal of each matrix, zero elsewhere; k: one number, NULL: 0. out, inp: [n, \
     * rows, cols]; out may be inp */ \
    K(trilu, (tk_queue *q, void *out, const void *inp, int64_t n, int64_t rows, int64_t cols, const int64_t *k, \
      bool upper, size_t element), (q, out, inp, n, rows, cols, k, upper, element)) \
    /* TK_BAD_VALUE unless each of n sizes is 1 or the dim at its place: checks an Expand target that was not known \
     * when its result's shape was. */ \
    K(check_sizes, (tk_queue *q, const int64_t *sizes, int64_t n, const int64_t *dims), (q, sizes, n, dims)) \
    K(reverse_sequence, (tk_queue *q, void *out, const void *inp, const int64_t *lens, \
      const tk_reverse_dims *dims, size_t element), (q, out, inp, lens, dims, element))
/* clang-format on */

TK_MOVEMENT_KERNELS(TK_DECLARE_KERNEL)
#endif
