/* grid_sample_cpu.c: places go to threads, some at a time: the elements that they read are found once for all
 * channels. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../common/types.h"
#include "grid_taps.h"

enum { BLOCK = 64, COMBINED = TK_GRID_TAPS * TK_GRID_TAPS * TK_GRID_TAPS };

typedef struct grid_ctx {
    const tk_grid_sample *s;
    void *out;
    const void *inp, *grid;
    tk_dtype dtype;
    int64_t volume, blocks; /* of a channel; of an item of the batch */
    void (*channels)(const struct grid_ctx *c, int64_t item, int64_t place, const int64_t *at, const double *weights,
                     int n);
} grid_ctx;

#define TEMPLATE "../resize/grid_sample_tmpl.h"
#include "../common/each_float.h"

/* The taps of all axes, multiplied out. */
static int combine(const grid_ctx *c, int64_t item, int64_t place, int64_t *at, double *weights) {
    const tk_grid_sample *s = c->s;
    int n = 1;
    at[0] = 0, weights[0] = 1;
    for (int d = 0; d < s->n_axes; d++) {
        const int64_t from = (item * s->places + place) * s->n_axes + s->n_axes - 1 - d;
        const tk_grid_taps taps = tk_grid_taps_of(s, s->dims[d], tk_get(c->grid, c->dtype, from));
        for (int i = n - 1; i >= 0; i--)
            for (int k = taps.n - 1; k >= 0; k--) {
                at[i * taps.n + k] = at[i] * s->dims[d] + taps.at[k];
                weights[i * taps.n + k] = weights[i] * taps.weights[k];
            }
        n *= taps.n;
    }
    return n;
}

static void range(void *ctx, tk_share share) {
    const grid_ctx *c = ctx;
    for (int64_t block = share.begin; block < share.end; block++) {
        const int64_t item = block / c->blocks, first = block % c->blocks * BLOCK;
        for (int64_t place = first; place < first + BLOCK && place < c->s->places; place++) {
            int64_t at[COMBINED];
            double weights[COMBINED];
            const int n = combine(c, item, place, at, weights);
            c->channels(c, item, place, at, weights, n);
        }
    }
}

void tk_grid_sample_run(tk_queue *q, void *out, const void *inp, const void *grid, const tk_grid_sample *sample,
                        tk_dtype dtype) {
    grid_ctx c = {.s = sample, .out = out, .inp = inp, .grid = grid, .dtype = dtype, .volume = 1};
    for (int d = 0; d < sample->n_axes; d++)
        c.volume *= sample->dims[d];
    c.blocks = (sample->places + BLOCK - 1) / BLOCK;
    c.channels = TK_OF_FLOAT(dtype, sample_channels);
    tk_parallel_for(q, sample->batch * c.blocks, 1, range, &c);
}
