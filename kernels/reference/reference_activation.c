/* reference_activation.c: activations that keep y and a bit (kernels/activation) as their definition reads: on the side
 * of the minimum that the bit says, x is sought by halving, and the slope is taken there. */
#include "reference.h"
#include <math.h>

#define FAR 1000.0 /* further left, activations are 0 in double */

/* Where x alpha = z, functions with an alpha are those of alpha 1, divided by it. */
static double at(tk_pointwise_row row, double z, bool of_slope) { return tk_reference_point(row, z, 1, of_slope); }

/* The z between low and high from which on the slope is not negative (sought: NULL), y is at least `sought` (right), or
 * at most (left). */
static double halve(tk_pointwise_row row, double low, double high, const double *sought, bool right) {
    for (double z = (low + high) / 2; low < z && z < high; z = (low + high) / 2) {
        bool beyond = !sought ? at(row, z, true) >= 0
                      : right ? at(row, z, false) >= *sought
                              : at(row, z, false) <= *sought;
        *(beyond ? &high : &low) = z;
    }
    return high;
}

static double minimum(tk_pointwise_row row) { return halve(row, -4, 0, NULL, true); }

static double of_row(tk_pointwise_row row, double alpha) { return isnan(tk_pointwise_alpha(row)) ? 1 : alpha; }

void tk_reference_activation_masked(tk_queue *q, tk_pointwise_row row, void *out, uint8_t *right, const void *inp,
                                    int64_t n, double alpha, tk_dtype dtype) {
    const double least = minimum(row);
    (void)q;
    for (int64_t i = 0; i < n; i++) {
        const double x = tk_get(inp, dtype, i);
        const int bit = of_row(row, alpha) * x >= least;
        tk_put(out, dtype, i, tk_reference_point(row, x, alpha, false));
        if (right)
            right[i / 8] = (uint8_t)((i % 8 == 0 ? 0 : right[i / 8]) | bit << i % 8);
    }
}

void tk_reference_activation_from_output(tk_queue *q, tk_pointwise_row row, void *dinp, const void *dout,
                                         const void *out, const uint8_t *right, int64_t n, double alpha,
                                         tk_dtype dtype) {
    const double least = minimum(row);
    (void)q;
    for (int64_t i = 0; i < n; i++) {
        const double y = of_row(row, alpha) * tk_get(out, dtype, i);
        const bool is_right = right[i / 8] >> i % 8 & 1;
        double slope = y;
        if (isfinite(y))
            slope = at(row, is_right ? halve(row, least, y + 1, &y, true) : halve(row, -FAR, least, &y, false), true);
        else if (y > 0)
            slope = 1;
        tk_put(dinp, dtype, i, tk_get(dout, dtype, i) * slope);
    }
}
