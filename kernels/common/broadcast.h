/* broadcast.h: multidirectional broadcasting (ONNX docs/Broadcasting.md) as a short list of loops. Dims that all
 * operands walk through alike are merged, so equal shapes become one loop, a bias two, a scalar one; the innermost
 * stride of an operand is 0 or 1. */
#ifndef TK_BROADCAST_H
#define TK_BROADCAST_H
#include "../kernel.h"

#define TK_BCAST_MAX 3

typedef struct tk_bcast {
    int n_inp;
    int rank;                                   /* >= 1; the innermost dim is the last */
    int64_t count;                              /* elements of the result */
    int64_t dims[TK_MAX_RANK];                  /* of the result, merged */
    int64_t strides[TK_BCAST_MAX][TK_MAX_RANK]; /* of each operand, in elements; 0: repeated */
} tk_bcast;

/* One operand: its shape, aligned to the result's last dims. */
typedef struct tk_shape {
    int rank;
    const int64_t *dims;
} tk_shape;

/* False when an operand does not broadcast to the result. */
bool tk_bcast_init(tk_bcast *bc, tk_shape out, const tk_shape *inp, int n_inp);

/* One innermost run: n result elements from index `at`; offset[k] is operand k's first element, step[k] its stride, 0
 * or 1. */
typedef void (*tk_run_fn)(void *ctx, int64_t at, int64_t n, const int64_t *offset, const int64_t *step);
/* Calls `run` for every innermost run of result elements [begin, end). */
void tk_bcast_walk(const tk_bcast *bc, int64_t begin, int64_t end, tk_run_fn run, void *ctx);
#endif
