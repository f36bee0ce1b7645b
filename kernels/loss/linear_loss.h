/* linear_loss.h: the last product of a classifier and its softmax cross-entropy in one walk over chunks of rows, so
 * that scores, their logarithms and their gradient never exist as a whole. Gradients come with the loss in the same
 * walk: a chunk's scores are computed, turned in place into the loss and the scores' gradient, and multiplied into the
 * gradients of the operands. (Liger Kernel, Hsu et al. 2024, arXiv:2410.10989, section 3.2; Cut Cross-Entropy, Wijmans
 * et al., ICLR 2025, does the same by blocks of classes as well, and computes the scores twice for it.)
 *
 * z = X op(W) + B; with weights w (1 where there are none), e the smoothing, C classes, y the row's label:
 *   loss of a row = share w[y] (lse - z[y]) + e / C sum of w[c] (lse - z[c]) + square lse^2,  lse = log sum exp(z)
 *   loss = each, or their sum, or the sum divided by the sum of w[y]; rows whose label is ignored count nothing. */
#ifndef TK_LINEAR_LOSS_H
#define TK_LINEAR_LOSS_H
#include "../matmul/matmul.h"
#include "loss.h"

typedef struct tk_linear_loss {
    int64_t rows, hidden, classes;
    bool trans_w; /* W is stored [classes, hidden], else [hidden, classes] */
    tk_reduction_kind reduction;
    bool has_ignored;
    int64_t ignored;
    double share, smoothing, square;         /* of the label (1 - e), of all classes (e), of lse^2 */
    bool wants_dw, wants_db;                 /* whether dw and db are there: the workspace depends on it */
    tk_dtype dtype, loss_dtype, label_dtype; /* any float types; int32 or int64 */
} tk_linear_loss;

/* x [rows, hidden], w, b [classes] of dtype; labels [rows]; weights [classes], dloss of loss_dtype: [1], or [rows]
 * where nothing is reduced. b, weights, dloss may be NULL: 0, 1, 1. */
typedef struct tk_linear_loss_operands {
    const void *x, *w, *labels, *b, *weights, *dloss;
} tk_linear_loss_operands;

/* loss [1] or [rows] of loss_dtype; the gradients of x, w and b times dloss, each of which may be NULL; dx may be x.
 * Ignored rows get a gradient of 0, and their elements are not read. */
typedef struct tk_linear_loss_results {
    void *loss, *dx, *dw, *db;
} tk_linear_loss_results;

/* The definition in double precision, whatever the types say; labels int64. TK_BAD_INDEX for a label outside of the
 * classes, TK_NO_MEMORY. */
tk_status tk_linear_loss_ref(tk_linear_loss_results out, tk_linear_loss_operands in, const tk_linear_loss *shape);

/* Rows of a chunk: by shape alone. */
int64_t tk_linear_loss_chunk(const tk_linear_loss *shape);

/* The products of a chunk of `count` rows: its scores, of x and W; the gradient of W, of x and the scores' gradient (of
 * the latter and x, where trans_w), to which a chunk adds; and that of x, of the scores' gradient and W. Of 16 bits the
 * scores are floats, and a row of their gradient lies at the begin of the row's scores. */
typedef enum tk_linear_loss_role {
    TK_LINEAR_LOSS_SCORES,
    TK_LINEAR_LOSS_OF_W,
    TK_LINEAR_LOSS_OF_X
} tk_linear_loss_role;
tk_product tk_linear_loss_product(const tk_linear_loss *shape, tk_linear_loss_role which, int64_t count);

/* clang-format off */
#define TK_LINEAR_LOSS_KERNELS(K) \
    /* Any float type; of 16 bits scores and sums are float. TK_BAD_INDEX for a label outside of the classes. */ \
    K(linear_loss_run, (tk_queue *q, tk_linear_loss_results out, tk_linear_loss_operands in, \
      const tk_linear_loss *shape, void *workspace), (q, out, in, shape, workspace))
#define TK_LINEAR_LOSS_WORKSPACES(W) \
    W(linear_loss_workspace, (const tk_linear_loss *shape, int slots), (shape, slots))
/* clang-format on */

TK_LINEAR_LOSS_KERNELS(TK_DECLARE_KERNEL)
TK_LINEAR_LOSS_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
