/* conv.h: convolutions (ONNX Conv, ConvTranspose) of one to three spatial dims as matrix products: the patches under
 * the window are the columns of a matrix, one batch item and group at a time. Any float type. */
#ifndef TK_CONV_H
#define TK_CONV_H
#include "../common/window.h"
#include "../kernel.h"

/* inp [batch, channels, inp...], weight [filters, channels / groups, kernel...], bias [filters] or NULL -> out [batch,
 * filters, out...]. */
typedef struct tk_conv {
    int64_t batch, channels, filters, groups;
    tk_window window;
} tk_conv;

/* clang-format off */
#define TK_CONV_KERNELS(K) \
    K(conv_run, (tk_queue *q, void *out, const void *inp, const void *weight, const void *bias, \
      const tk_conv *conv, tk_dtype dtype, void *workspace), (q, out, inp, weight, bias, conv, dtype, workspace)) \
    /* The transposed convolution (ONNX ConvTranspose), in the convolution's words: from `narrow` [batch, \
     * filters, out...] to wide [batch, channels, inp...], with the same weight; each element of narrow adds \
     * its share to the places its window reads. bias [channels] or NULL. Pads at the end are not read: the \
     * size of wide is given. */ \
    K(conv_transpose_run, (tk_queue *q, void *wide, const void *narrow, const void *weight, const void *bias, \
      const tk_conv *conv, tk_dtype dtype, void *workspace), \
      (q, wide, narrow, weight, bias, conv, dtype, workspace))
#define TK_CONV_WORKSPACES(W) \
    W(conv_workspace, (const tk_conv *conv, tk_dtype dtype, int slots), (conv, dtype, slots)) \
    W(conv_transpose_workspace, (const tk_conv *conv, tk_dtype dtype, int slots), (conv, dtype, slots))
/* clang-format on */

TK_CONV_KERNELS(TK_DECLARE_KERNEL)
TK_CONV_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
