/* reference_resize.c: Resize, its gradient and GridSample: each element by its own sum over the taps of all axes. */
#include "../resize/grid_taps.h"
#include "reference.h"
#include <string.h>

void tk_reference_resize_run(tk_queue *q, void *out, const void *inp, const tk_resize *r, tk_dtype dtype,
                             void *workspace) {
    int64_t n = r->outer * r->inner;
    (void)q, (void)workspace;
    for (int d = 0; d < r->n_axes; d++)
        n *= r->axes[d].out;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i / r->inner, terms = 1, place = 0;
        const tk_tap *taps[TK_RESIZE_AXES];
        for (int d = r->n_axes - 1; d >= 0; rest /= r->axes[d--].out) {
            taps[d] = &r->axes[d].taps[rest % r->axes[d].out];
            terms *= taps[d]->count;
        }
        double sum = 0;
        for (int64_t term = 0; term < terms; term++) {
            int64_t k = term, step = 1;
            double weight = 1;
            place = 0;
            for (int d = r->n_axes - 1; d >= 0; k /= taps[d]->count, step *= r->axes[d--].inp) {
                const int64_t at = k % taps[d]->count;
                place += (taps[d]->first + at) * step;
                if (!r->picks)
                    weight *= tk_get(r->axes[d].weights, tk_wide(dtype), taps[d]->weights + at);
            }
            place = (rest * step + place) * r->inner + i % r->inner;
            if (!r->picks)
                sum += weight * tk_get(inp, dtype, place);
        }
        if (terms == 0 || r->picks)
            memcpy((char *)out + (size_t)i * tk_size(dtype),
                   terms == 0 ? (const char *)&r->outside : (const char *)inp + (size_t)place * tk_size(dtype),
                   tk_size(dtype));
        else
            tk_put(out, dtype, i, sum);
    }
}

void tk_reference_grid_sample_run(tk_queue *q, void *out, const void *inp, const void *grid, const tk_grid_sample *s,
                                  tk_dtype dtype) {
    (void)q;
    for (int64_t i = 0; i < s->batch * s->channels * s->places; i++) {
        const int64_t item = i / s->places / s->channels, place = i % s->places;
        tk_grid_taps taps[TK_GRID_AXES];
        int64_t terms = 1;
        double sum = 0;
        for (int d = 0; d < s->n_axes; d++) {
            const int64_t from = (item * s->places + place) * s->n_axes + s->n_axes - 1 - d;
            taps[d] = tk_grid_taps_of(s, s->dims[d], tk_get(grid, dtype, from));
            terms *= taps[d].n;
        }
        for (int64_t term = 0; term < terms; term++) {
            int64_t k = term, step = 1, at = 0;
            double weight = 1;
            for (int d = s->n_axes - 1; d >= 0; k /= taps[d].n, step *= s->dims[d--]) {
                at += taps[d].at[k % taps[d].n] * step;
                weight *= taps[d].weights[k % taps[d].n];
            }
            sum += weight == 0 ? 0 : weight * tk_get(inp, dtype, i / s->places * step + at);
        }
        tk_put(out, dtype, i, sum);
    }
}
