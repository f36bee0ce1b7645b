/* remat_search.c: a schedule that fits a budget. */
#include "remat_search.h"
#include <stdlib.h>
#include <string.h>

void tc_remat_schedule_free(tc_remat_schedule *schedule) {
    free(schedule->steps);
    *schedule = (tc_remat_schedule){0};
}

/* Whether the first is the better one: it meets the budget at less cost, or comes nearer to it. */
static bool better(const tc_remat_live *a, const tc_remat_live *b, uint64_t budget) {
    bool a_met = a->peak_bytes <= budget, b_met = b->peak_bytes <= budget;
    if (a_met != b_met)
        return a_met;
    uint64_t first = a_met ? a->cost : a->peak_bytes, second = a_met ? b->cost : b->peak_bytes;
    if (first != second)
        return first < second;
    return a_met ? a->peak_bytes < b->peak_bytes : a->cost < b->cost;
}

static tc_remat_status keep_better(const tc_remat_problem *p, const tc_remat_options *options, const uint32_t *steps,
                                   uint32_t n_steps, tc_remat_schedule *best) {
    tc_remat_live live;
    if (tc_remat_check_steps(p, steps, n_steps))
        return TC_REMAT_INVALID;
    tc_remat_status status = tc_remat_simulate(p, steps, n_steps, NULL, &live);
    if (status != TC_REMAT_OK || (best->steps && !better(&live, &best->live, options->budget)))
        return status;
    uint32_t *copy = malloc((n_steps + (size_t)1) * sizeof *copy);
    if (!copy)
        return TC_REMAT_MEMORY;
    if (n_steps > 0)
        memcpy(copy, steps, n_steps * sizeof *copy);
    free(best->steps);
    *best = (tc_remat_schedule){copy, n_steps, live};
    return TC_REMAT_OK;
}

tc_remat_status tc_remat_search(const tc_remat_problem *p, const tc_remat_options *options, tc_remat_outcome *outcome) {
    *outcome = (tc_remat_outcome){0};
    if (tc_remat_check(p))
        return TC_REMAT_INVALID;
    tc_remat_status status = keep_better(p, options, p->steps, p->n_steps, &outcome->best);
    if (status == TC_REMAT_OK && outcome->best.live.peak_bytes > options->budget)
        for (uint32_t i = 0; i < options->n_beginnings && status == TC_REMAT_OK; i++)
            status =
                keep_better(p, options, options->beginnings[i].steps, options->beginnings[i].n_steps, &outcome->best);
    if (status != TC_REMAT_OK)
        tc_remat_schedule_free(&outcome->best);
    else
        outcome->met = outcome->best.live.peak_bytes <= options->budget;
    return status;
}
