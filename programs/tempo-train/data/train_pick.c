/* train_pick.c: the samples of a global batch. Shuffled, they are those at its places of the epoch's permutation.
 *
 * With buckets, a window of so many global batches is taken from the permutation, its samples are sorted by length, and
 * its batches, then of similar lengths, are shuffled by a permutation of the window's own. Samples left over for a
 * short batch at the end of the epoch are not sorted in: the short batch stays the last one. */
#include "train_parts.h"
#include <stdlib.h>
#include <string.h>

enum { BATCHES_STREAM = 1 }; /* of windows: stream 1 + window; stream 0 is that of samples */

static uint64_t sample_at(const train_data *d, int64_t place) {
    return d->options.shuffle ? train_order_at(&d->order, (uint64_t)place) : (uint64_t)place;
}

/* --- windows ---------------------------------------------------------------------------------- */

typedef struct ranked {
    int64_t length;
    int64_t place;
    uint64_t sample;
} ranked;

static int by_length(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static void sort_by_length(const train_data *d, uint64_t *samples, int64_t n) {
    tc_arena *scratch = tc_arena_create();
    ranked *sorted = TC_NEW_ARRAY(scratch, ranked, (size_t)n + 1);
    int64_t first;
    for (int64_t i = 0; i < n; i++)
        sorted[i] = (ranked){train_row_length(d, &d->columns[d->lead], (int64_t)samples[i], &first), i, samples[i]};
    qsort(sorted, (size_t)n, sizeof *sorted, by_length);
    for (int64_t i = 0; i < n; i++)
        samples[i] = sorted[i].sample;
    tc_arena_destroy(scratch);
}

static void fill_window(train_data *d, int64_t epoch, int64_t index) {
    int64_t size = d->together * d->options.bucket, begin = index * size;
    int64_t n = d->samples - begin < size ? d->samples - begin : size;
    for (int64_t i = 0; i < n; i++)
        d->window.samples[i] = sample_at(d, begin + i);
    sort_by_length(d, d->window.samples, n - n % d->together);
    d->window.epoch = epoch;
    d->window.index = index;
}

static void pick_from_window(train_data *d, int64_t epoch, int64_t index, int64_t n) {
    int64_t window = index / d->options.bucket, at = index % d->options.bucket;
    if (d->window.index != window || d->window.epoch != epoch)
        fill_window(d, epoch, window);
    int64_t full = d->samples / d->together - window * d->options.bucket;
    full = full < d->options.bucket ? full : d->options.bucket;
    if (at < full && d->options.shuffle) {
        uint32_t stream = BATCHES_STREAM + (uint32_t)(window & 0x7fff);
        train_order order = train_order_of((uint64_t)full, d->options.seed, (uint64_t)epoch, stream);
        at = (int64_t)train_order_at(&order, (uint64_t)at);
    }
    memcpy(d->picked, d->window.samples + at * d->together, (size_t)n * sizeof *d->picked);
}

/* --- batches ---------------------------------------------------------------------------------- */

void train_pick(train_data *d, int64_t epoch, int64_t index, int64_t *out_n) {
    int64_t begin = index * d->together;
    int64_t n = d->samples - begin < d->together ? d->samples - begin : d->together;
    if (d->options.shuffle && d->order_epoch != epoch) {
        d->order = train_order_of((uint64_t)d->samples, d->options.seed, (uint64_t)epoch, 0);
        d->order_epoch = epoch;
    }
    *out_n = n;
    if (d->options.bucket > 1) {
        pick_from_window(d, epoch, index, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        d->picked[i] = sample_at(d, begin + i);
}
