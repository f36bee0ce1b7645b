/* norm_math.h: x-hat and y at one element, the only place where they are computed: kernels that emit y again in the
 * backward pass give the same bits. */
#ifndef TK_NORM_MATH_H
#define TK_NORM_MATH_H
#include "../common/vector.h"

TK_INLINE float tk_xhat_f32(float x, float mean, float inv_std) { return (x - mean) * inv_std; }
TK_INLINE float tk_affine_f32(float xhat, float scale, float bias) { return xhat * scale + bias; }
TK_INLINE double tk_xhat_f64(double x, double mean, double inv_std) { return (x - mean) * inv_std; }
TK_INLINE double tk_affine_f64(double xhat, double scale, double bias) { return xhat * scale + bias; }
#endif
