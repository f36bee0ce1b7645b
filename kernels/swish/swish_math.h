/* swish_math.h: the only place that computes Swish and its slope at one point, so that every kernel that computes
 * Swish, also again in the backward pass, gives the same bits. */
#ifndef TK_SWISH_MATH_H
#define TK_SWISH_MATH_H
#include "../common/math.h"

TK_INLINE float tk_swish_f32(float x, float alpha) { return x * tk_sigmoidf(alpha * x); }
TK_INLINE float tk_swish_slope_f32(float x, float alpha) {
    float z = alpha * x;
    z = z < -120.0f ? -120.0f : z > 120.0f ? 120.0f : z; /* beyond, the slope is 0 or 1 in float */
    float s = tk_sigmoidf(z);
    return s + z * (s * tk_sigmoidf(-z));
}

TK_INLINE double tk_sigmoid_f64(double z) { return 1 / (1 + exp(-z)); }
TK_INLINE double tk_swish_f64(double x, double alpha) { return x * tk_sigmoid_f64(alpha * x); }
TK_INLINE double tk_swish_slope_f64(double x, double alpha) {
    double z = alpha * x;
    z = z < -700 ? -700 : z > 700 ? 700 : z;
    double s = tk_sigmoid_f64(z);
    return s + z * (s * tk_sigmoid_f64(-z));
}
#endif
