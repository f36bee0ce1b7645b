/* dropout.h: Dropout (ONNX) with masks drawn by common/philox.h: element i is kept where its uniform number is at least
 * ratio, and then divided by 1 - ratio. float and double. */
#ifndef TK_DROPOUT_H
#define TK_DROPOUT_H
#include "../common/philox.h"
#include "../kernel.h"

/* TK_BAD_VALUE unless 0 <= ratio < 1. mask [n] of 0 and 1 may be NULL; out may be inp. */
tk_status tk_dropout(void *out, uint8_t *mask, const void *inp, int64_t n, double ratio, const tk_draw *draw,
                     tk_dtype dtype);
tk_status tk_dropout_ref(void *out, uint8_t *mask, const void *inp, int64_t n, double ratio, const tk_draw *draw,
                         tk_dtype dtype);
#endif
