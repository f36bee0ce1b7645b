/* pack.c: offsets for buffers with known lifetimes (dynamic storage allocation). Finding the smallest arena is
 * NP-hard; placing buffers greedily, each in the tightest gap that those placed before it leave, is near the lower
 * bound on training graphs when the order is good. Two orders are tried, biggest first and longest-lived first, and
 * the smaller arena is kept. */
#include "pack.h"
#include "../compiler/arena.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct span {
    size_t begin, end;
} span;

typedef struct packer {
    rt_buffer *buffers;
    size_t n;
    uint32_t *order;  /* [n]: the order of placing */
    uint32_t *placed; /* [n]: buffers placed so far, by offset */
    size_t *offsets;  /* [n]: of this attempt */
} packer;

static int compare_sizes(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

typedef struct rank {
    size_t major, minor;
    uint32_t index;
} rank;

static int compare_ranks(const void *a, const void *b) {
    const rank *x = a, *y = b;
    int by = compare_sizes(&x->major, &y->major);
    if (by == 0)
        by = compare_sizes(&x->minor, &y->minor);
    return by != 0 ? by : x->index < y->index ? -1 : 1;
}

static bool live_together(const rt_buffer *a, const rt_buffer *b) { return a->first <= b->last && b->first <= a->last; }

/* The tightest gap between placed buffers that are live with `buffer`; they are visited by offset. */
static size_t best_offset(const packer *p, size_t n_placed, const rt_buffer *buffer) {
    size_t need = rt_aligned(buffer->bytes), top = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (size_t k = 0; k < n_placed; k++) {
        uint32_t other = p->placed[k];
        if (!live_together(buffer, &p->buffers[other]))
            continue;
        span used = {p->offsets[other], p->offsets[other] + rt_aligned(p->buffers[other].bytes)};
        if (used.begin > top && used.begin - top >= need && used.begin - top < best_gap) {
            best_gap = used.begin - top;
            best = top;
        }
        if (used.end > top)
            top = used.end;
    }
    return best != SIZE_MAX ? best : top;
}

static size_t place_all(packer *p) {
    size_t total = 0;
    for (size_t k = 0; k < p->n; k++) {
        uint32_t index = p->order[k];
        size_t offset = best_offset(p, k, &p->buffers[index]), at = k;
        while (at > 0 && p->offsets[p->placed[at - 1]] > offset) {
            p->placed[at] = p->placed[at - 1];
            at--;
        }
        p->placed[at] = index;
        p->offsets[index] = offset;
        size_t end = offset + rt_aligned(p->buffers[index].bytes);
        if (end > total)
            total = end;
    }
    return total;
}

static void sort_order(packer *p, rank *ranks, bool by_size) {
    for (uint32_t i = 0; i < p->n; i++) {
        const rt_buffer *b = &p->buffers[i];
        size_t lifetime = (size_t)b->last - b->first;
        ranks[i] = by_size ? (rank){b->bytes, lifetime, i} : (rank){lifetime, b->bytes, i};
    }
    qsort(ranks, p->n, sizeof *ranks, compare_ranks);
    for (uint32_t i = 0; i < p->n; i++)
        p->order[i] = ranks[i].index;
}

/* Live bytes over time from the sums of what begins and ends at each step. */
static int lower_bound(tc_arena *scratch, const rt_buffer *buffers, size_t n, uint32_t n_steps, rt_packing *out) {
    size_t *begins = TC_NEW_ARRAY(scratch, size_t, (size_t)n_steps + 2);
    size_t *ends = TC_NEW_ARRAY(scratch, size_t, (size_t)n_steps + 2), total = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        size_t bytes = rt_aligned(buffers[i].bytes);
        ok = buffers[i].bytes <= SIZE_MAX - RT_ALIGN && bytes <= SIZE_MAX / 2 - total;
        total += ok ? bytes : 0;
        if (ok) {
            begins[buffers[i].first] += bytes;
            ends[buffers[i].last + 1] += bytes;
        }
    }
    *out = (rt_packing){0};
    for (size_t step = 0, live = 0; ok && step <= n_steps; step++) {
        live = live + begins[step] - ends[step];
        if (live > out->lower_bound) {
            out->lower_bound = live;
            out->peak = (uint32_t)step;
        }
    }
    return ok ? 0 : -1;
}

static void place_best(tc_arena *scratch, rt_buffer *buffers, size_t n, rt_packing *packing) {
    packer p = {buffers, n, TC_NEW_ARRAY(scratch, uint32_t, n + 1), TC_NEW_ARRAY(scratch, uint32_t, n + 1),
                TC_NEW_ARRAY(scratch, size_t, n + 1)};
    rank *ranks = TC_NEW_ARRAY(scratch, rank, n + 1);
    packing->bytes = SIZE_MAX;
    for (int attempt = 0; attempt < 2 && packing->bytes != packing->lower_bound; attempt++) {
        sort_order(&p, ranks, attempt == 0);
        size_t total = place_all(&p);
        if (total >= packing->bytes)
            continue;
        packing->bytes = total;
        for (size_t i = 0; i < n; i++)
            buffers[i].offset = p.offsets[i];
    }
}

int rt_pack(rt_buffer *buffers, size_t n, uint32_t n_steps, rt_packing *out_packing) {
    if (n >= UINT32_MAX)
        return -1;
    tc_arena *scratch = tc_arena_create();
    int result = lower_bound(scratch, buffers, n, n_steps, out_packing);
    if (result == 0)
        place_best(scratch, buffers, n, out_packing);
    tc_arena_destroy(scratch);
    return result;
}
