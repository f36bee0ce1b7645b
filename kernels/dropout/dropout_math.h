/* dropout_math.h: the dropped element, the only place where it is computed. */
#ifndef TK_DROPOUT_MATH_H
#define TK_DROPOUT_MATH_H
#include "../common/vector.h"

TK_INLINE float tk_dropped_f32(float x, float keep, int kept) { return kept ? x / keep : 0.0f; }
TK_INLINE double tk_dropped_f64(double x, double keep, int kept) { return kept ? x / keep : 0.0; }
#endif
