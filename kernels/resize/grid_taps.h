/* grid_taps.h: the taps of one axis at a coordinate of GridSample, for the CPU and for CUDA. */
#ifndef TK_GRID_TAPS_H
#define TK_GRID_TAPS_H
#include "grid_sample.h"
#include <math.h>

/* Places of the input, in it, with their weights; 0 where the place is outside and that counts as zero. */
typedef struct tk_grid_taps {
    int n;
    int64_t at[TK_GRID_TAPS];
    double weights[TK_GRID_TAPS];
} tk_grid_taps;

/* Reflected at the ends, as often as it takes: the middles of the elements there, or their outer sides. */
TK_INLINE double tk_grid_reflect(double x, double low, double span) {
    if (span <= 0)
        return 0;
    const double far = fabs(x - low), times = floor(far / span), rest = far - times * span;
    return times == 2 * floor(times / 2) ? rest + low : span - rest + low;
}

TK_INLINE double tk_grid_padded(const tk_grid_sample *s, int64_t size, double x) {
    if (s->padding == TK_GRID_REFLECTION)
        x = s->align_corners ? tk_grid_reflect(x, 0, (double)(size - 1)) : tk_grid_reflect(x, -0.5, (double)size);
    return s->padding == TK_GRID_ZEROS ? x : fmin(fmax(x, 0.0), (double)(size - 1));
}

TK_INLINE void tk_grid_tap(tk_grid_taps *taps, int k, int64_t size, double at, double weight) {
    const bool inside = at >= 0 && at < (double)size;
    taps->at[k] = inside ? (int64_t)at : 0;
    taps->weights[k] = inside ? weight : 0;
    taps->n = k + 1;
}

/* Of an axis of `size` >= 1 elements. */
TK_INLINE tk_grid_taps tk_grid_taps_of(const tk_grid_sample *s, int64_t size, double coordinate) {
    tk_grid_taps taps = {0, {0}, {0}};
    const double half = (coordinate + 1) / 2;
    double x = s->align_corners ? half * (double)(size - 1) : half * (double)size - 0.5;
    if (s->mode == TK_RESIZE_CUBIC) {
        const double first = floor(x) - 1;
        for (int k = 0; k < TK_GRID_TAPS; k++)
            tk_grid_tap(&taps, k, size, rint(tk_grid_padded(s, size, first + k)),
                        tk_cubic_weight(-0.75, first + k - x));
        return taps;
    }
    x = tk_grid_padded(s, size, x);
    if (s->mode == TK_RESIZE_NEAREST) {
        tk_grid_tap(&taps, 0, size, rint(x), 1);
        return taps;
    }
    tk_grid_tap(&taps, 0, size, floor(x), 1 - (x - floor(x)));
    tk_grid_tap(&taps, 1, size, floor(x) + 1, x - floor(x));
    return taps;
}
#endif
