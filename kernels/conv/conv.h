/* conv.h: convolutions (ONNX Conv) of one to three spatial dims as matrix products: the patches under the window become
 * the columns of a matrix, one batch item and group at a time. float and double. */
#ifndef TK_CONV_H
#define TK_CONV_H
#include "../common/window.h"
#include "../kernel.h"

/* inp [batch, channels, inp...], weight [filters, channels / groups, kernel...], bias [filters] or NULL -> out [batch,
 * filters, out...]. */
typedef struct tk_conv { int64_t batch, channels, filters, groups; tk_window window; } tk_conv;

size_t tk_conv_workspace(const tk_conv *conv, tk_dtype dtype);
void tk_conv_run(void *out, const void *inp, const void *weight, const void *bias, const tk_conv *conv, tk_dtype dtype,
                 void *workspace);
/* One element of the result by its definition. */
double tk_conv_ref(const void *inp, const void *weight, const void *bias, const tk_conv *conv, tk_dtype dtype,
                   int64_t index);
#endif
