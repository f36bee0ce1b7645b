/* cast.h: elements of one type as another, as ONNX's Cast says. */
#ifndef TK_CAST_H
#define TK_CAST_H
#include "../kernel.h"

/* clang-format off */
#define TK_CAST_KERNELS(K) \
    /* out: [n] of type `to`; inp: [n] of type `from`. Floats to integers are cut towards zero; numbers out of \
     * range become the nearest in range, NaN 0 (ONNX leaves both open). Integers to narrower integers keep \
     * their low bits. Anything but zero is true. Rounding is to nearest, once. */ \
    K(cast, (tk_queue *q, void *out, const void *inp, int64_t n, tk_dtype to, tk_dtype from), \
      (q, out, inp, n, to, from))
/* clang-format on */

TK_CAST_KERNELS(TK_DECLARE_KERNEL)
#endif
