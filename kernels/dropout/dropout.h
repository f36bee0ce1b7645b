/* dropout.h: Dropout (ONNX) with masks drawn by common/philox.h: element i is kept where its uniform number is at least
 * ratio, and then divided by 1 - ratio. float and double. The gradient is the same function of dout: with the mask at
 * hand, or drawn again. */
#ifndef TK_DROPOUT_H
#define TK_DROPOUT_H
#include "../common/philox.h"
#include "../kernel.h"

/* TK_BAD_VALUE unless 0 <= ratio < 1. mask [n] of 0 and 1 may be NULL; out may be inp. */
tk_status tk_dropout(void *out, uint8_t *mask, const void *inp, int64_t n, double ratio, const tk_draw *draw,
                     tk_dtype dtype);
tk_status tk_dropout_ref(void *out, uint8_t *mask, const void *inp, int64_t n, double ratio, const tk_draw *draw,
                         tk_dtype dtype);

/* What tk_dropout does where it drew `mask`. dinp may be dout. */
tk_status tk_dropout_grad(void *dinp, const void *dout, const uint8_t *mask, int64_t n, double ratio, tk_dtype dtype);

/* kept[i]: whether element first + i is kept, 0 <= i < n. In the calling thread. */
void tk_dropout_keep(uint8_t *kept, int64_t first, int64_t n, float ratio, const tk_draw *draw);
/* What kept elements are divided by, in the element type. */
double tk_dropout_divisor(double ratio, tk_dtype dtype);
#endif
