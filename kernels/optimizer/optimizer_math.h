/* optimizer_math.h: the only place that computes an update: the numbers that all elements share, in double, and an
 * element's formula in float and in double. Also C++, for devices. */
#ifndef TK_OPTIMIZER_MATH_H
#define TK_OPTIMIZER_MATH_H
#include "../common/functions.h"
#include "optimizer.h"
#include <math.h>
#include <stdbool.h>

/* x^n for n >= 0 by squares, the same bits everywhere: for 0 <= x < 1 the error of 1 - x^n is 1e-16 / (1 - x). */
TK_INLINE double tk_whole_power(double x, int64_t n) {
    double power = 1;
    for (; n > 0; n /= 2, x = x * x)
        power = n % 2 ? power * x : power;
    return power;
}

/* min(1, max_norm / (norm + 1e-6)); NaN where the norm is NaN. */
TK_INLINE double tk_clipping(double norm, double max_norm) {
    double scale = max_norm / (norm + 1e-6);
    return scale > 1 ? 1 : scale;
}

/* |X| / |W| of the sums of their squares, as LAMB scales its rate. */
TK_INLINE double tk_lamb_ratio(double x_squares, double way_squares) {
    return x_squares > 0 && way_squares > 0 ? sqrt(x_squares) / sqrt(way_squares) : 1;
}

/* share: sqrt(1 - beta^T) of AdamW, beta or 1 of Momentum. kept: the part of a weight that does not decay,
 * or weight_decay (LAMB). first: 1 - alpha^T of LAMB. */
typedef struct tk_update_numbers {
    double alpha, alpha_rest, beta, beta_rest, epsilon, coefficient, rate, kept, share, scale, first;
    bool stays, begins; /* nothing changes; a sum begins */
} tk_update_numbers;

TK_INLINE tk_update_numbers tk_update_numbers_of(const tk_update_op *u, double rate, double scale, int64_t step) {
    tk_update_numbers k = {
        u->alpha, 1 - u->alpha, u->beta, 1 - u->beta,          u->epsilon, u->norm_coefficient, rate, 1,
        1,        scale,        1,       u->waits && step < 0, false};
    double alpha_share = step > 0 ? 1 - tk_whole_power(u->alpha, step) : 1,
           beta_share = step > 0 ? 1 - tk_whole_power(u->beta, step) : 1;
    switch (u->rule) {
    case TK_ADAGRAD: k.rate = rate / (1 + (double)step * u->decay_factor); break;
    case TK_ADAM:
        k.rate = rate * sqrt(beta_share) / alpha_share;
        k.kept = 1 - u->norm_coefficient_post;
        break;
    case TK_ADAMW:
        k.rate = rate / alpha_share;
        k.kept = 1 - rate * u->weight_decay;
        k.share = sqrt(beta_share);
        break;
    case TK_MOMENTUM:
    case TK_NESTEROV: k.share = step > 0 ? u->beta : 1; break;
    case TK_SGD: break;
    case TK_LAMB:
        k.first = alpha_share;
        k.share = sqrt(beta_share);
        k.kept = u->weight_decay;
        break;
    case TK_SUM: k.begins = step <= 0; break;
    }
    return k;
}

#define T float
#define SUFFIX f32
#include "update_element.h"
#define T double
#define SUFFIX f64
#include "update_element.h"
#endif
