/* swish_ref.c: Swish and its derivative by their definitions. */
#include "swish.h"
#include <math.h>

double tk_swish_ref(double x, double alpha) { return x / (1 + exp(-alpha * x)); }

double tk_swish_slope_ref(double x, double alpha) {
    double half = cosh(alpha * x / 2); /* sigmoid' (z) = 1 / (4 cosh^2 (z / 2)) */
    return 1 / (1 + exp(-alpha * x)) + alpha * x / (4 * half * half);
}
