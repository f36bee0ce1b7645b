/* reduce.h: reductions over any set of axes (ONNX Reduce*), the index of the largest or smallest element along an axis
 * (ArgMax, ArgMin), and running sums (CumSum). Float sums are taken in blocks of a thousand elements, over many lanes,
 * and the blocks' sums are added in double precision: the order depends on the shape only. NaN wins over any number in
 * Max and Min. */
#ifndef TK_REDUCE_H
#define TK_REDUCE_H
#include "../kernel.h"

typedef enum tk_reduce_op {
    TK_REDUCE_SUM,
    TK_REDUCE_MEAN,
    TK_REDUCE_L1,
    TK_REDUCE_L2,
    TK_REDUCE_SUM_SQUARE,
    TK_REDUCE_LOG_SUM,
    TK_REDUCE_LOG_SUM_EXP,
    TK_REDUCE_PROD,
    TK_REDUCE_MAX,
    TK_REDUCE_MIN,
} tk_reduce_op;
#define TK_REDUCE_OPS (TK_REDUCE_MIN + 1)

/* A shape split into kept and reduced dims, neighbours of one kind merged, dims of 1 dropped. */
typedef struct tk_reduction {
    int64_t n_out, n_each;  /* results; elements in each */
    int64_t inner;          /* kept elements side by side in memory; 1 where the last dim is reduced */
    int64_t run;            /* reduced elements side by side; 1 where the last dim is kept */
    int n_outer, n_reduced; /* the other kept dims, the other reduced dims, outermost first */
    int64_t outer[TK_MAX_RANK], outer_strides[TK_MAX_RANK];
    int64_t reduced[TK_MAX_RANK], reduced_strides[TK_MAX_RANK];
} tk_reduction;

/* is_reduced[rank] says which axes are. */
void tk_reduction_init(tk_reduction *r, int rank, const int64_t *dims, const bool *is_reduced);

bool tk_reduce_has(tk_reduce_op op, tk_dtype dtype);
/* Result `index` of every op by its definition, in double precision. */
void tk_reduce_ref(double results[TK_REDUCE_OPS], const void *inp, const tk_reduction *r, tk_dtype dtype,
                   int64_t index);

/* arg: inp [outer, n, inner] -> out int64 [outer, inner]: where the largest (smallest) element is, the first or the
 * last of equals. */
bool tk_arg_has(tk_dtype dtype);

/* cumsum: out and inp [outer, n, inner]: sums of the elements up to each one, that one excluded or not, from the start
 * or from the end. workspace: tk_cumsum_workspace bytes for outer * inner lanes of n */
bool tk_cumsum_has(tk_dtype dtype);

/* clang-format off */
#define TK_REDUCE_KERNELS(K) \
    K(reduce, (tk_queue *q, void *out, const void *inp, const tk_reduction *r, tk_reduce_op op, tk_dtype dtype, \
      void *workspace), (q, out, inp, r, op, dtype, workspace)) \
    K(arg, (tk_queue *q, int64_t *out, const void *inp, int64_t outer, int64_t n, int64_t inner, bool largest, \
      bool last, tk_dtype dtype), (q, out, inp, outer, n, inner, largest, last, dtype)) \
    K(cumsum, (tk_queue *q, void *out, const void *inp, int64_t outer, int64_t n, int64_t inner, bool exclusive, \
      bool reverse, tk_dtype dtype, void *workspace), \
      (q, out, inp, outer, n, inner, exclusive, reverse, dtype, workspace))
#define TK_REDUCE_WORKSPACES(W) \
    W(reduce_workspace, (const tk_reduction *r), (r)) \
    W(cumsum_workspace, (int64_t lanes, int64_t n, tk_dtype dtype), (lanes, n, dtype))
/* clang-format on */

TK_REDUCE_KERNELS(TK_DECLARE_KERNEL)
TK_REDUCE_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
