/* gelu_ref.c: GELU and its derivative by their definitions. */
#include "gelu.h"
#include <math.h>

static const double pi = 3.14159265358979323846;

double tk_gelu_ref(double x, bool tanh_form) {
    if (!tanh_form)
        return 0.5 * x * erfc(-x / sqrt(2));
    double u = sqrt(2 / pi) * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u));
}

double tk_gelu_slope_ref(double x, bool tanh_form) {
    if (!tanh_form)
        return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * pi);
    double u = sqrt(2 / pi) * (x + 0.044715 * x * x * x), sech = 1 / cosh(u);
    return 1 / (1 + exp(-2 * u)) + 0.5 * x * sech * sech * sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
}
