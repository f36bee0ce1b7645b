/* plan_pack.c: places for buffers with known lives (dynamic storage allocation). The smallest arena is hard to find;
 * placing one after the other in a gap comes near to the most that is live at one time when the order is good. So
 * several orders are tried (plan_orders.c). Where that is not near enough, three searches take turns: one that misses
 * no packing below a given capacity (plan_fit.c, plan_exact.c), and, for larger problems, one that changes the best
 * order where it fails (plan_improve.c) and one that ejects units in the way (plan_eject.c). It ends when the arena is
 * as small as the live bytes, or very nearly, or when the allowed work is used up: counted, not timed. */
#include "plan_packer.h"
#include "plan_random.h"
#include <stdlib.h>
#include <string.h>

/* The usual bounds of the work, about 10 ns each: for a buffer, and for all. And the tolerance: a thousandth. */
#define WORK_OF_EACH 20000u
#define MOST_WORK 30000000u
#define NEAR 1000
#define FEW 1000 /* units for which the exact search is the better one */

/* --- steps ------------------------------------------------------------------------------------ */

/* Only operations at which a unit begins matter: two units that overlap do so when the later one begins. And where
 * nothing ends between two of these, the later one has all units of the earlier one: they are one step. */
static void number_steps(tc_packer *p) {
    enum { BEGINS = 1, ENDS = 2 };
    uint32_t n = 0, n_ops = p->problem->n_ops;
    bool ended = true;
    memset(p->step, 0, (n_ops + (size_t)2) * sizeof *p->step);
    for (uint32_t i = 0; i < p->units.n; i++) {
        if (p->units.units[i].bytes == 0)
            continue;
        p->step[p->units.units[i].first] |= BEGINS;
        p->step[p->units.units[i].last] |= ENDS;
    }
    for (uint32_t i = 0; i <= n_ops; i++) {
        uint32_t what = p->step[i];
        n += (what & BEGINS) != 0 && ended;
        ended = (what & ENDS) != 0 || (ended && (what & BEGINS) == 0);
        p->step[i] = n > 0 ? n - 1 : 0;
    }
    p->n_steps = n > 0 ? n : 1;
}

/* --- one attempt ------------------------------------------------------------------------------ */

bool tc_packer_place(tc_packer *p, uint32_t same, uint64_t most, uint64_t *out_top) {
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

void tc_packer_keep(tc_packer *p, uint64_t bytes) {
    p->best = bytes;
    p->best_fit = p->fit;
    memcpy(p->kept, p->order, p->n_order * sizeof *p->order);
    for (uint32_t k = 0; k < p->n_order; k++)
        p->best_offsets[p->order[k]] = p->offsets[p->order[k]];
    for (uint32_t i = 0; i < p->problem->n_choices; i++)
        p->best_taken[i] = p->problem->choices[i].taken;
}

uint32_t tc_packer_draw(tc_packer *p, uint32_t below) {
    return (uint32_t)((tc_plan_random(&p->random) >> 32) * below >> 32);
}

void tc_packer_restore(tc_packer *p) {
    tc_plan_problem *problem = p->problem;
    for (uint32_t i = 0; i < problem->n_choices; i++)
        if (problem->choices[i].taken)
            tc_plan_untake(&p->units, &problem->choices[i]);
    for (uint32_t i = 0; i < problem->n_choices; i++)
        if (p->best_taken[i])
            tc_plan_take(&p->units, &problem->choices[i]);
}

/* --- the whole -------------------------------------------------------------------------------- */

static bool packer_make(tc_packer *p) {
    size_t n = p->units.n + (size_t)1, steps = p->problem->n_ops + (size_t)2;
    p->step = malloc(steps * sizeof *p->step);
    p->order = malloc(n * sizeof *p->order);
    p->kept = malloc(n * sizeof *p->kept);
    p->offsets = calloc(n, sizeof *p->offsets);
    p->best_offsets = calloc(n, sizeof *p->best_offsets);
    p->rests = calloc(n, sizeof *p->rests);
    p->best_taken = calloc(p->problem->n_choices + (size_t)1, sizeof *p->best_taken);
    if (!p->step || !p->order || !p->kept || !p->offsets || !p->best_offsets || !p->best_taken || !p->rests)
        return false;
    for (uint32_t i = 0; i < p->units.n; i++)
        if (p->units.units[i].bytes > 0)
            p->order[p->n_order++] = i;
    number_steps(p);
    return tc_spans_make(&p->spans, p->n_steps);
}

static void packer_free(tc_packer *p) {
    tc_spans_free(&p->spans);
    tc_plan_units_free(&p->units);
    free(p->step);
    free(p->order);
    free(p->kept);
    free(p->offsets);
    free(p->best_offsets);
    free(p->best_taken);
    free(p->rests);
}

static void set_offsets(const tc_packer *p) {
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

/* All searches in turn, each time twice as long: some may not suit the problem. Ejection goes on alone for as long as
 * it helps. */
static bool search(tc_packer *p) {
    uint64_t slice = p->limit / 16 + 1;
    bool ok = true, solved = false, helps = false;
    for (; ok && !solved && p->best > p->enough && p->spans.work < p->limit; slice *= 2) {
        uint64_t left = p->limit - p->spans.work, each = slice < left / 2 ? slice : (left + 1) / 2;
        uint64_t other = p->n_order <= FEW ? each / 16 + 1 : each;
        ok = tc_packer_fit(p, p->spans.work + (helps ? each / 4 : each));
        if (!helps)
            ok = ok && tc_packer_improve(p, p->spans.work + other);
        uint64_t before = p->best;
        ok = ok && tc_packer_eject(p, p->spans.work + (helps ? each : other));
        helps = p->best < before;
        /* A proof of the exact search holds for the choices as they are. */
        solved = p->problem->n_choices == 0 && p->missing + 1 >= p->best;
    }
    return ok;
}

static bool pack(tc_packer *p, tc_plan_packing *out) {
    bool usual = p->limit == 0;
    if (!packer_make(p) || tc_plan_units_live(p->problem, &p->units, &out->live) != TC_PLAN_OK)
        return false;
    p->bound = out->live.peak_bytes;
    p->enough = p->problem->enough > p->bound ? p->problem->enough : p->bound;
    p->missing = p->bound > 0 ? p->bound - 1 : 0;
    if (usual)
        p->limit = p->n_order < MOST_WORK / WORK_OF_EACH ? p->n_order * (uint64_t)WORK_OF_EACH : MOST_WORK;
    bool ok = tc_packer_try_orders(p, out->live.peak);
    if (usual && p->best <= p->bound + p->bound / NEAR)
        p->enough = p->best;
    ok = ok && search(p);
    if (p->best == UINT64_MAX)
        p->best = 0; /* nothing has bytes */
    tc_packer_restore(p);
    ok = ok && tc_plan_units_live(p->problem, &p->units, &out->chosen) == TC_PLAN_OK;
    set_offsets(p);
    out->bytes = p->best;
    out->work = p->spans.work;
    return ok;
}

tc_plan_status tc_plan_pack(tc_plan_problem *problem, uint64_t limit, tc_plan_packing *out) {
    tc_packer p = {.problem = problem,
                   .best = UINT64_MAX,
                   .limit = limit,
                   .random = 88172645463325252u,
                   .thrown = 88172645463325252u};
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
