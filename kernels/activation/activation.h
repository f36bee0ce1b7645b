/* activation.h: activations that keep their result and a bit instead of their operand: y = f(x), right = whether x is
 * right of f's only minimum, one bit an element (element i is bit i % 8 of byte i / 8; bits beyond the last are 0), and
 * dX = dY f'(x) of y and right. f is a row of pointwise.def that fit_curves.c has a row for. Near the minimum the slope
 * is like a square root, and y's rounding would show in it. There y is computed from the minimum on: it is rounded
 * once, and may differ from pointwise.h's f(x) in its last two bits. */
#ifndef TK_ACTIVATION_H
#define TK_ACTIVATION_H
#include "../pointwise/pointwise.h"

/* The table's terms and pieces (fit_curves.c), and how near the minimum is. */
enum { TK_CURVE_PIECES = 12, TK_CURVE_TERMS_f32 = 9, TK_CURVE_TERMS_f64 = 15 };
#define TK_CURVE_NEAR 0.25

/* Whether there are kernels for this row. */
bool tk_activation_is_known(tk_pointwise_row row);

/* clang-format off */
#define TK_ACTIVATION_KERNELS(K) \
    /* out [n] may be inp; right [tk_bit_bytes(n)] (dropout.h), NULL: not wanted */ \
    K(activation_masked, (tk_queue *q, tk_pointwise_row row, void *out, uint8_t *right, const void *inp, int64_t n, \
      double alpha, tk_dtype dtype), (q, row, out, right, inp, n, alpha, dtype)) \
    /* dinp, dout and out [n]; dinp may be dout or out. NaN in out gives NaN, +inf the slope 1, -0 on the left 0. */ \
    K(activation_from_output, (tk_queue *q, tk_pointwise_row row, void *dinp, const void *dout, const void *out, \
      const uint8_t *right, int64_t n, double alpha, tk_dtype dtype), (q, row, dinp, dout, out, right, n, alpha, dtype))
/* clang-format on */

TK_ACTIVATION_KERNELS(TK_DECLARE_KERNEL)
#endif
