/* plan_orders.c: places one buffer after the other in the gap that suits it, in several orders: the largest part of the
 * arena first, or the most conflicts first. */
#include "plan_packer.h"
#include <stdlib.h>

typedef struct rank {
    uint64_t major, middle, minor; /* more comes first */
    uint32_t index;
} rank;

static int compare_ranks(const void *a, const void *b) {
    const rank *x = a, *y = b;
    if (x->major != y->major)
        return x->major > y->major ? -1 : 1;
    if (x->middle != y->middle)
        return x->middle > y->middle ? -1 : 1;
    if (x->minor != y->minor)
        return x->minor > y->minor ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

typedef enum key {
    KEY_BYTES,
    KEY_LIFE,
    KEY_AREA,
    KEY_PRESSURE,
    KEY_PEAK,
    KEY_EARLY,
    KEY_LATE,
    KEY_CONFLICT,
    N_KEYS
} key;

static const struct trial {
    key major, middle, minor;
    tc_fit fit;
} trials[] = {
    {KEY_PRESSURE, KEY_BYTES, KEY_LIFE, TC_FIT_LOWEST}, {KEY_BYTES, KEY_LATE, KEY_LIFE, TC_FIT_LOWEST},
    {KEY_BYTES, KEY_EARLY, KEY_LIFE, TC_FIT_TIGHTEST},  {KEY_PRESSURE, KEY_BYTES, KEY_LIFE, TC_FIT_TIGHTEST},
    {KEY_PEAK, KEY_LATE, KEY_BYTES, TC_FIT_LOWEST},     {KEY_PRESSURE, KEY_LATE, KEY_AREA, TC_FIT_TIGHTEST},
    {KEY_LIFE, KEY_BYTES, KEY_AREA, TC_FIT_TIGHTEST},   {KEY_PRESSURE, KEY_PEAK, KEY_BYTES, TC_FIT_TIGHTEST},
    {KEY_AREA, KEY_BYTES, KEY_LIFE, TC_FIT_LOWEST},     {KEY_CONFLICT, KEY_BYTES, KEY_LIFE, TC_FIT_TIGHTEST},
};
#define N_TRIALS (sizeof trials / sizeof *trials)

/* The most that is live at any step of [first, last], by a table of maxima over powers of two. */
typedef struct pressure {
    uint64_t *most;          /* [levels][n] */
    uint64_t *begun, *ended; /* [n]: bytes that began up to a step, and that ended before it */
    size_t n;
} pressure;

static bool pressure_make(const tc_packer *p, pressure *out) {
    size_t n = p->n_steps, levels = 1;
    while ((size_t)1 << levels <= n)
        levels++;
    out->most = calloc((levels + 2) * n + 1, sizeof *out->most);
    if (!out->most)
        return false;
    out->begun = out->most + levels * n;
    out->ended = out->begun + n;
    out->n = n;
    for (uint32_t i = 0; i < p->units.n; i++) {
        const tc_plan_unit *unit = &p->units.units[i];
        if (unit->over || unit->bytes == 0)
            continue;
        size_t after = p->step[tc_plan_chain_last(&p->units, i)] + (size_t)1;
        out->begun[p->step[unit->first]] += unit->bytes;
        if (after < n)
            out->ended[after] += unit->bytes;
    }
    for (size_t i = 1; i < n; i++) {
        out->begun[i] += out->begun[i - 1];
        out->ended[i] += out->ended[i - 1];
    }
    for (size_t i = 0; i < n; i++)
        out->most[i] = out->begun[i] - out->ended[i];
    for (size_t level = 1; level < levels; level++) {
        const uint64_t *from = out->most + (level - 1) * n;
        size_t half = (size_t)1 << (level - 1);
        for (size_t i = 0; i + 2 * half <= n; i++)
            out->most[level * n + i] = from[i] > from[i + half] ? from[i] : from[i + half];
    }
    return true;
}

static uint64_t pressure_of(const pressure *t, uint32_t first, uint32_t last) {
    size_t level = 0, length = last - first + (size_t)1;
    while ((size_t)2 << level <= length)
        level++;
    uint64_t a = t->most[level * t->n + first], b = t->most[level * t->n + last + 1 - ((size_t)1 << level)];
    return a > b ? a : b;
}

static void rank_units(const tc_packer *p, const pressure *t, uint32_t peak, const struct trial *trial, rank *ranks) {
    for (uint32_t k = 0; k < p->n_order; k++) {
        const tc_plan_unit *unit = &p->units.units[p->order[k]];
        uint32_t last = unit->over ? unit->last : tc_plan_chain_last(&p->units, p->order[k]);
        uint64_t life = last - unit->first + (uint64_t)1, keys[N_KEYS];
        keys[KEY_BYTES] = unit->bytes;
        keys[KEY_LIFE] = life;
        keys[KEY_AREA] = unit->bytes > UINT64_MAX / life ? UINT64_MAX : unit->bytes * life;
        keys[KEY_PRESSURE] = pressure_of(t, p->step[unit->first], p->step[last]);
        keys[KEY_CONFLICT] = t->begun[p->step[last]] - t->ended[p->step[unit->first]];
        keys[KEY_EARLY] = UINT32_MAX - unit->first;
        keys[KEY_LATE] = last;
        keys[KEY_PEAK] = unit->first <= peak && peak <= last;
        ranks[k] = (rank){keys[trial->major], keys[trial->middle], keys[trial->minor], p->order[k]};
    }
    qsort(ranks, p->n_order, sizeof *ranks, compare_ranks);
    for (uint32_t k = 0; k < p->n_order; k++)
        p->order[k] = ranks[k].index;
}

bool tc_packer_try_orders(tc_packer *p, uint32_t peak) {
    pressure t = {0};
    rank *ranks = malloc((p->n_order + (size_t)1) * sizeof *ranks);
    bool ok = ranks && pressure_make(p, &t);
    for (size_t i = 0; ok && i < N_TRIALS && p->best > p->enough; i++) {
        uint64_t top;
        p->fit = trials[i].fit;
        rank_units(p, &t, peak, &trials[i], ranks);
        ok = tc_packer_place(p, 0, p->best - 1, &top);
        if (ok && top < p->best)
            tc_packer_keep(p, top);
    }
    free(ranks);
    free(t.most);
    return ok;
}
