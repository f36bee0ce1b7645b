/* remat_anneal.c: the annealing itself: the objective, when a change is kept, which schedule is remembered.
 *
 * The objective is cost * max(1, peak / budget)^power: FastSA's (equation 1) with its power 1; a higher one leads into
 * tight budgets. Where a course is pressed, an excess counts more and more while the budget is missed: no short run
 * ends just outside. Each step costs a millionth of the mean step extra: this removes free steps, too. */
#include "remat_anneal.h"
#include "remat_moves.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOTS_PER_STEP 16
#define MOST_EXCESS 1e4                     /* whose powers are numbers */
#define BETWEEN_LOOKS 1024                  /* moves at one temperature, between two looks at the clock */
#define BETWEEN_SPREADS (UINT64_C(1) << 18) /* moves after which steps are spaced evenly again */
/* How an excess presses more while there is one, and less while there is none, from one look to the next. */
#define PRESS_MORE 1.02
#define PRESS_LESS 0.98
#define PRESS_LEAST 0.05
#define MOST_PRESS 1e4

/* --- the best so far -------------------------------------------------------------------------- */

tc_remat_live tc_remat_live_now(const tc_remat_walk *w) {
    return (tc_remat_live){.peak_bytes = tc_remat_peak(&w->state), .cost = w->state.cost};
}

static void note_change(tc_remat_walk *w, uint32_t slot) {
    if (w->n_changed < w->n_slots)
        w->changed[w->n_changed++] = slot;
}

void tc_remat_walk_keep(tc_remat_walk *w) {
    for (uint32_t i = 0; i < w->state.n_edits; i++)
        note_change(w, w->state.edits[i].slot);
    tc_remat_keep(&w->state);
    tc_remat_live live = tc_remat_live_now(w);
    if (!tc_remat_better(&live, &w->kept_live, w->options->budget))
        return;
    if (w->n_changed == w->n_slots)
        memcpy(w->kept, w->state.slots, w->n_slots * sizeof *w->kept);
    else
        for (uint32_t i = 0; i < w->n_changed; i++)
            w->kept[w->changed[i]] = w->state.slots[w->changed[i]];
    w->n_changed = 0;
    w->kept_live = live;
    w->fresh = true;
}

tc_remat_status tc_remat_walk_write(tc_remat_walk *w) {
    if (!w->fresh)
        return TC_REMAT_OK;
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_slots; i++)
        n += w->kept[i] != TC_REMAT_NONE;
    if (n > w->best_room) {
        uint32_t *steps = realloc(w->best.steps, 2 * (size_t)n * sizeof *steps);
        if (!steps)
            return TC_REMAT_MEMORY;
        w->best.steps = steps;
        w->best_room = 2 * n;
    }
    w->best.n_steps = n;
    w->best.live = w->kept_live;
    n = 0;
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (w->kept[i] != TC_REMAT_NONE)
            w->best.steps[n++] = w->kept[i];
    w->fresh = false;
    return TC_REMAT_OK;
}

void tc_remat_walk_forget(tc_remat_walk *w) {
    w->kept_live = (tc_remat_live){UINT64_MAX, 0, UINT64_MAX};
    w->fresh = false;
}

/* --- walks ------------------------------------------------------------------------------------ */

tc_remat_status tc_remat_walk_from(tc_remat_walk *w, const uint32_t *steps, uint32_t n_steps) {
    tc_remat_status status = tc_remat_state_load(&w->state, steps, n_steps, SLOTS_PER_STEP);
    if (status != TC_REMAT_OK)
        return status;
    if (w->n_slots != w->state.n_slots) {
        free(w->kept);
        free(w->changed);
        w->n_slots = w->state.n_slots;
        w->kept = malloc(w->n_slots * sizeof *w->kept);
        w->changed = malloc(w->n_slots * sizeof *w->changed);
        if (!w->kept || !w->changed)
            return TC_REMAT_MEMORY;
    }
    w->n_changed = w->n_slots;
    tc_remat_walk_keep(w);
    return tc_remat_walk_write(w);
}

/* Gives steps room again on all sides. */
static tc_remat_status spread(tc_remat_walk *w) {
    tc_remat_status status = tc_remat_walk_write(w);
    uint32_t n = w->state.n_steps, *steps = malloc((n + (size_t)1) * sizeof *steps);
    if (status != TC_REMAT_OK || !steps) {
        free(steps);
        return TC_REMAT_MEMORY;
    }
    tc_remat_state_steps(&w->state, steps);
    status = tc_remat_walk_from(w, steps, n);
    free(steps);
    return status;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

tc_remat_status tc_remat_walk_init(tc_remat_walk *w, const tc_remat_problem *p, const tc_remat_options *options) {
    *w = (tc_remat_walk){.problem = p, .options = options};
    tc_remat_status status = tc_remat_state_init(&w->state, p);
    if (status != TC_REMAT_OK)
        return status;
    tc_remat_random_init(&w->random, options->seed);
    w->end = options->seconds > 0 ? seconds_now() + options->seconds : 0;
    tc_remat_walk_forget(w);
    w->most_steps = 4 * p->n_steps + 64;
    for (uint32_t t = 0; t < p->n_steps; t++)
        w->plain_cost += p->nodes[p->steps[t]].cost;
    for (uint32_t n = 0; n < p->n_nodes; n++)
        w->has_twins = w->has_twins || w->state.twin[n] != n;
    return TC_REMAT_OK;
}

void tc_remat_walk_free(tc_remat_walk *w) {
    tc_remat_state_free(&w->state);
    tc_remat_schedule_free(&w->best);
    free(w->kept);
    free(w->changed);
}

/* --- annealing -------------------------------------------------------------------------------- */

typedef struct objective {
    double budget;
    double step;  /* each step's extra cost */
    double scale; /* the plain cost */
    double press; /* the weight of an excess besides its power: it grows while there is one */
    uint32_t power;
    bool peak_only;
} objective;

static double value_of(const tc_remat_walk *w, const objective *o) {
    double peak = (double)tc_remat_peak(&w->state);
    if (o->peak_only)
        return peak;
    double cost = (double)w->state.cost + o->step * w->state.n_steps;
    if (peak <= o->budget)
        return cost;
    double excess = peak / o->budget < MOST_EXCESS ? peak / o->budget : MOST_EXCESS, factor = excess;
    for (uint32_t i = 1; i < o->power; i++)
        factor *= excess;
    return cost * factor * (1 + o->press * (excess - 1));
}

static bool ends(tc_remat_walk *w) {
    w->stopped = w->stopped || (w->options->stop && *w->options->stop);
    if (w->look)
        w->look(w->look_user);
    w->timed_out = w->timed_out || (w->end > 0 && seconds_now() >= w->end);
    return w->stopped || w->timed_out;
}

/* The unit of temperatures: the objective, with the plain cost for the cost. With the current cost, each run that is
 * added would make the next one easier, without end. */
static double scale_of(const tc_remat_walk *w, const objective *o, double value) {
    return o->peak_only ? value : value / ((double)w->state.cost + o->step * w->state.n_steps) * o->scale;
}

/* As many moves at one temperature, while there is a step. Returns the objective after them. */
static double some_moves(tc_remat_walk *w, const tc_remat_course *c, const objective *o, double value, double hot) {
    for (uint32_t i = 0; i < BETWEEN_LOOKS && w->state.n_steps > 0; i++) {
        double most = value + hot * tc_remat_wait(&w->random) * scale_of(w, o, value);
        if (!tc_remat_move(w, c, most))
            continue;
        double next = value_of(w, o);
        if (next > most) {
            tc_remat_undo(&w->state);
            continue;
        }
        tc_remat_walk_keep(w);
        value = next;
    }
    w->work += BETWEEN_LOOKS;
    return value;
}

/* Between too little, at which the walk stays outside the budget, and so much that it cannot get about. */
static void press(const tc_remat_walk *w, objective *o) {
    bool missed = (double)tc_remat_peak(&w->state) > o->budget;
    o->press = missed ? o->press * PRESS_MORE + PRESS_LEAST : o->press * PRESS_LESS;
    if (o->press > MOST_PRESS)
        o->press = MOST_PRESS;
}

tc_remat_status tc_remat_anneal(tc_remat_walk *w, const tc_remat_course *c) {
    uint64_t n = (c->moves + BETWEEN_LOOKS - 1) / BETWEEN_LOOKS;
    double mean = (double)w->plain_cost / (w->problem->n_steps + 1.0);
    objective o = {.budget = (double)w->options->budget,
                   .step = mean > 0 ? 1e-6 * mean : 1,
                   .power = c->power,
                   .peak_only = c->order_only};
    if (o.budget < 1)
        o.budget = 1;
    o.scale = (double)w->plain_cost + o.step * w->problem->n_steps;
    double hot = c->hot, cooling = tc_remat_exp(tc_remat_log(c->cold / hot) / (double)(n + 1));
    double value = value_of(w, &o);
    tc_remat_status status = TC_REMAT_OK;
    for (uint64_t i = 0; i < n && status == TC_REMAT_OK && !w->state.out_of_memory && !ends(w); i++) {
        value = some_moves(w, c, &o, value, hot);
        hot *= cooling;
        if (c->pressed) {
            press(w, &o);
            value = value_of(w, &o);
        }
        if (c->until_met && w->kept_live.peak_bytes <= w->options->budget)
            break;
        if ((w->work & (BETWEEN_SPREADS - 1)) == 0 || w->state.n_steps > w->n_slots / 4)
            status = spread(w);
    }
    if (status == TC_REMAT_OK && w->state.out_of_memory)
        status = TC_REMAT_MEMORY;
    return status == TC_REMAT_OK ? tc_remat_walk_write(w) : status;
}
