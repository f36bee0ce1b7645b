/* plan_pack.c: places for buffers with known lives (dynamic storage allocation). The smallest arena is hard to find;
 * placing one after the other in the tightest gap comes near to what is live at one time when the order is good. So
 * several orders are tried, from what fills an arena most to what fills it least; then the best of them is changed
 * where it fails: what lies at the top of the arena comes earlier, another one comes at another turn, or a result
 * lies over another operand. It ends when the arena is what is live, very nearly, or with the work that was allowed:
 * counted, not timed. */
#include "plan_spans.h"
#include "plan_units.h"
#include <stdlib.h>
#include <string.h>

/* The usual bounds of the work, about 10 ns each: for a buffer, and for all. And what is near enough: a thousandth. */
#define WORK_OF_EACH 20000u
#define MOST_WORK 10000000u
#define NEAR 1000

typedef struct packer {
    tc_plan_problem *problem;
    tc_plan_units units;
    tc_spans spans;
    uint32_t *step;    /* [n_ops + 2]: operation -> step of the tree: those at which something begins */
    uint32_t *order;   /* [n]: units in the order of placing, those without bytes left out */
    uint32_t *kept;    /* [n]: the best order so far */
    uint64_t *offsets; /* [n]: of the attempt */
    uint64_t *best_offsets;
    bool *best_taken; /* [n_choices] */
    uint32_t n_order, n_steps;
    uint64_t best;  /* bytes; UINT64_MAX: none yet */
    uint64_t bound; /* no packing needs less */
    uint64_t limit; /* of the work */
    uint64_t random;
    tc_fit fit, best_fit;
} packer;

/* --- steps ------------------------------------------------------------------------------------ */

/* Only operations at which a unit begins matter: what two units share, they share when the later one begins. */
static void number_steps(packer *p) {
    uint32_t n = 0, n_ops = p->problem->n_ops;
    memset(p->step, 0, (n_ops + (size_t)2) * sizeof *p->step);
    for (uint32_t i = 0; i < p->units.n; i++)
        if (p->units.units[i].bytes > 0)
            p->step[p->units.units[i].first] = 1;
    for (uint32_t i = 0; i <= n_ops; i++) {
        n += p->step[i];
        p->step[i] = n > 0 ? n - 1 : 0;
    }
    p->n_steps = n > 0 ? n : 1;
}

/* --- one attempt ------------------------------------------------------------------------------ */

/* Places all in the order, the first `same` of them where the best packing has them. *out_top: the bytes, or UINT64_MAX
 * when they are more than `most` or there is a packing already and the work is done. False: out of memory. */
static bool place_all(packer *p, uint32_t same, uint64_t most, uint64_t *out_top) {
    *out_top = 0;
    tc_spans_clear(&p->spans);
    for (uint32_t k = 0; k < p->n_order; k++) {
        uint32_t index = p->order[k];
        const tc_plan_unit *unit = &p->units.units[index];
        if (unit->over)
            continue;
        uint32_t first = p->step[unit->first], last = p->step[tc_plan_chain_last(&p->units, index)];
        uint64_t offset =
            k < same ? p->best_offsets[index] : tc_spans_fit(&p->spans, first, last, unit->bytes, unit->align, p->fit);
        uint64_t end = offset + unit->bytes;
        p->offsets[index] = offset;
        *out_top = end > *out_top ? end : *out_top;
        if (*out_top > most || (p->spans.work > p->limit && p->best != UINT64_MAX)) {
            *out_top = UINT64_MAX;
            return true;
        }
        if (!tc_spans_add(&p->spans, first, last, (tc_span){offset, end}))
            return false;
    }
    return true;
}

static void keep(packer *p, uint64_t bytes) {
    p->best = bytes;
    p->best_fit = p->fit;
    memcpy(p->kept, p->order, p->n_order * sizeof *p->order);
    for (uint32_t k = 0; k < p->n_order; k++)
        p->best_offsets[p->order[k]] = p->offsets[p->order[k]];
    for (uint32_t i = 0; i < p->problem->n_choices; i++)
        p->best_taken[i] = p->problem->choices[i].taken;
}

/* --- orders ----------------------------------------------------------------------------------- */

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

typedef enum key { KEY_BYTES, KEY_LIFE, KEY_AREA, KEY_PRESSURE, KEY_PEAK, KEY_EARLY, KEY_LATE, N_KEYS } key;

static const struct trial {
    key major, middle, minor;
    tc_fit fit;
} trials[] = {
    {KEY_PRESSURE, KEY_BYTES, KEY_LIFE, TC_FIT_LOWEST}, {KEY_BYTES, KEY_LATE, KEY_LIFE, TC_FIT_LOWEST},
    {KEY_BYTES, KEY_EARLY, KEY_LIFE, TC_FIT_TIGHTEST},  {KEY_PRESSURE, KEY_BYTES, KEY_LIFE, TC_FIT_TIGHTEST},
    {KEY_PEAK, KEY_LATE, KEY_BYTES, TC_FIT_LOWEST},     {KEY_PRESSURE, KEY_LATE, KEY_AREA, TC_FIT_TIGHTEST},
    {KEY_LIFE, KEY_BYTES, KEY_AREA, TC_FIT_TIGHTEST},   {KEY_PRESSURE, KEY_PEAK, KEY_BYTES, TC_FIT_TIGHTEST},
};
#define N_TRIALS (sizeof trials / sizeof *trials)

/* The most that is live at any step of [first, last], by a table of maxima over powers of two. */
typedef struct pressure {
    uint64_t *most; /* [levels][n] */
    size_t n;
} pressure;

static bool pressure_make(const packer *p, pressure *out) {
    size_t n = p->n_steps, levels = 1;
    while ((size_t)1 << levels <= n)
        levels++;
    *out = (pressure){calloc(levels * n + 1, sizeof *out->most), n};
    if (!out->most)
        return false;
    for (uint32_t i = 0; i < p->units.n; i++) {
        const tc_plan_unit *unit = &p->units.units[i];
        if (unit->over || unit->bytes == 0)
            continue;
        size_t after = p->step[tc_plan_chain_last(&p->units, i)] + (size_t)1;
        out->most[p->step[unit->first]] += unit->bytes;
        if (after < n)
            out->most[after] -= unit->bytes;
    }
    for (size_t i = 1; i < n; i++)
        out->most[i] += out->most[i - 1];
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

static void rank_units(const packer *p, const pressure *t, uint32_t peak, const struct trial *trial, rank *ranks) {
    for (uint32_t k = 0; k < p->n_order; k++) {
        const tc_plan_unit *unit = &p->units.units[p->order[k]];
        uint32_t last = unit->over ? unit->last : tc_plan_chain_last(&p->units, p->order[k]);
        uint64_t life = last - unit->first + (uint64_t)1, keys[N_KEYS];
        keys[KEY_BYTES] = unit->bytes;
        keys[KEY_LIFE] = life;
        keys[KEY_AREA] = unit->bytes > UINT64_MAX / life ? UINT64_MAX : unit->bytes * life;
        keys[KEY_PRESSURE] = pressure_of(t, p->step[unit->first], p->step[last]);
        keys[KEY_EARLY] = UINT32_MAX - unit->first;
        keys[KEY_LATE] = last;
        keys[KEY_PEAK] = unit->first <= peak && peak <= last;
        ranks[k] = (rank){keys[trial->major], keys[trial->middle], keys[trial->minor], p->order[k]};
    }
    qsort(ranks, p->n_order, sizeof *ranks, compare_ranks);
    for (uint32_t k = 0; k < p->n_order; k++)
        p->order[k] = ranks[k].index;
}

static bool try_orders(packer *p, uint32_t peak) {
    pressure t = {0};
    rank *ranks = malloc((p->n_order + (size_t)1) * sizeof *ranks);
    bool ok = ranks && pressure_make(p, &t);
    for (size_t i = 0; ok && i < N_TRIALS && p->best > p->bound; i++) {
        uint64_t top;
        p->fit = trials[i].fit;
        rank_units(p, &t, peak, &trials[i], ranks);
        ok = place_all(p, 0, p->best - 1, &top);
        if (ok && top < p->best)
            keep(p, top);
    }
    free(ranks);
    free(t.most);
    return ok;
}

/* --- search ----------------------------------------------------------------------------------- */

static uint32_t draw(packer *p, uint32_t below) {
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (uint32_t)((p->random >> 32) * below >> 32);
}

static void restore_choices(packer *p) {
    tc_plan_problem *problem = p->problem;
    for (uint32_t i = 0; i < problem->n_choices; i++)
        if (problem->choices[i].taken)
            tc_plan_untake(&p->units, &problem->choices[i]);
    for (uint32_t i = 0; i < problem->n_choices; i++)
        if (p->best_taken[i])
            tc_plan_take(&p->units, &problem->choices[i]);
}

/* Returns how many keep their turns. */
static uint32_t move_to(packer *p, uint32_t from, uint32_t to) {
    uint32_t index = p->order[from];
    if (to < from)
        memmove(p->order + to + 1, p->order + to, (from - to) * sizeof *p->order);
    else
        memmove(p->order + from, p->order + from + 1, (to - from) * sizeof *p->order);
    p->order[to] = index;
    return from < to ? from : to;
}

/* A unit that ends above the bound comes earlier. Returns how many keep their turns. */
static uint32_t raise_top(packer *p) {
    uint32_t from = 0;
    for (uint32_t i = 0, at = draw(p, p->n_order); i < p->n_order; i++, at = at + 1 < p->n_order ? at + 1 : 0) {
        uint32_t index = p->order[at];
        if (!p->units.units[index].over && p->best_offsets[index] + p->units.units[index].bytes > p->bound) {
            from = at;
            break;
        }
    }
    return move_to(p, from, draw(p, from + 1));
}

/* A choice is taken, in the place of those it excludes, or no longer taken. */
static void change_choice(packer *p) {
    tc_plan_problem *problem = p->problem;
    tc_plan_choice *change = &problem->choices[draw(p, problem->n_choices)];
    if (change->taken) {
        tc_plan_untake(&p->units, change);
        return;
    }
    for (uint32_t i = 0; i < problem->n_choices; i++) {
        tc_plan_choice *c = &problem->choices[i];
        if (c->taken && c->op == change->op && (c->result == change->result || c->operand == change->operand))
            tc_plan_untake(&p->units, c);
    }
    if (tc_plan_can_take(problem, &p->units, change))
        tc_plan_take(&p->units, change);
}

static bool improve(packer *p) {
    while (p->best > p->bound + p->bound / NEAR && p->spans.work < p->limit && p->n_order > 1) {
        uint64_t top;
        memcpy(p->order, p->kept, p->n_order * sizeof *p->order);
        p->fit = draw(p, 8) == 0 ? (tc_fit)draw(p, 2) : p->best_fit;
        uint32_t kind = draw(p, 8), same = 0; /* another choice changes lives: all are placed anew */
        if (kind < 4)
            same = raise_top(p);
        else if (kind < 6 || p->problem->n_choices == 0)
            same = move_to(p, draw(p, p->n_order), draw(p, p->n_order));
        else
            change_choice(p);
        if (!place_all(p, same, p->best, &top))
            return false;
        if (top != UINT64_MAX) {
            keep(p, top);
        } else {
            restore_choices(p);
        }
    }
    return true;
}

/* --- the whole -------------------------------------------------------------------------------- */

static bool packer_make(packer *p) {
    size_t n = p->units.n + (size_t)1, steps = p->problem->n_ops + (size_t)2;
    p->step = malloc(steps * sizeof *p->step);
    p->order = malloc(n * sizeof *p->order);
    p->kept = malloc(n * sizeof *p->kept);
    p->offsets = calloc(n, sizeof *p->offsets);
    p->best_offsets = calloc(n, sizeof *p->best_offsets);
    p->best_taken = calloc(p->problem->n_choices + (size_t)1, sizeof *p->best_taken);
    if (!p->step || !p->order || !p->kept || !p->offsets || !p->best_offsets || !p->best_taken)
        return false;
    for (uint32_t i = 0; i < p->units.n; i++)
        if (p->units.units[i].bytes > 0)
            p->order[p->n_order++] = i;
    number_steps(p);
    return tc_spans_make(&p->spans, p->n_steps);
}

static void packer_free(packer *p) {
    tc_spans_free(&p->spans);
    tc_plan_units_free(&p->units);
    free(p->step);
    free(p->order);
    free(p->kept);
    free(p->offsets);
    free(p->best_offsets);
    free(p->best_taken);
}

static void set_offsets(const packer *p) {
    tc_plan_problem *problem = p->problem;
    const tc_plan_unit *units = p->units.units;
    for (uint32_t i = 0; i < p->units.n; i++)
        for (uint32_t k = i; !units[i].over && units[k].next != TC_PLAN_NONE; k = units[k].next)
            p->best_offsets[units[k].next] = p->best_offsets[i];
    for (uint32_t i = 0; i < problem->n_buffers; i++)
        problem->buffers[i].offset = p->best_offsets[p->units.root[i]] + p->units.at[i];
    for (uint32_t i = 0; i < problem->n_ops; i++)
        problem->ops[i].offset = p->best_offsets[problem->n_buffers + i];
}

static bool pack(packer *p, tc_plan_packing *out) {
    if (!packer_make(p) || tc_plan_units_live(p->problem, &p->units, &out->live) != TC_PLAN_OK)
        return false;
    p->bound = out->live.peak_bytes;
    if (p->limit == 0)
        p->limit = p->n_order < MOST_WORK / WORK_OF_EACH ? p->n_order * (uint64_t)WORK_OF_EACH : MOST_WORK;
    bool ok = try_orders(p, out->live.peak) && improve(p);
    if (p->best == UINT64_MAX)
        p->best = 0; /* nothing has bytes */
    restore_choices(p);
    ok = ok && tc_plan_units_live(p->problem, &p->units, &out->chosen) == TC_PLAN_OK;
    set_offsets(p);
    out->bytes = p->best;
    out->work = p->spans.work;
    return ok;
}

tc_plan_status tc_plan_pack(tc_plan_problem *problem, uint64_t limit, tc_plan_packing *out) {
    packer p = {.problem = problem, .best = UINT64_MAX, .limit = limit, .random = 88172645463325252u};
    *out = (tc_plan_packing){0};
    tc_plan_status status = tc_plan_units_make(problem, &p.units);
    if (status != TC_PLAN_OK)
        return status;
    for (uint32_t i = 0; i < problem->n_choices; i++) {
        tc_plan_choice *choice = &problem->choices[i];
        choice->taken = false;
        if (tc_plan_can_take(problem, &p.units, choice))
            tc_plan_take(&p.units, choice);
    }
    bool ok = pack(&p, out);
    packer_free(&p);
    return ok ? TC_PLAN_OK : TC_PLAN_MEMORY;
}
