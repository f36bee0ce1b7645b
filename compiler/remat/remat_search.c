/* remat_search.c: a schedule that fits a budget, from several beginnings: each is annealed for a share of the work, in
 * several ways, and the best result is annealed further. */
#include "remat_search.h"
#include "remat_anneal.h"
#include "remat_polish.h"
#include <stdlib.h>
#include <string.h>

#define MOST_BEGINNINGS 8
#define MOST_POWER 64

/* How much a problem of so many nodes is searched by default: the moves of each run, and how many there are. */
typedef struct effort {
    uint32_t n_nodes;
    uint64_t moves;
    uint32_t runs;
} effort;

static const effort efforts[] = {
    {200, 1000000, 16},
    {600, 2500000, 5},
    {2000, 2500000, 4},
    {UINT32_MAX, 10000000, 2},
};

/* In turns. The first ones are those that do best where there is time for few. */
static const tc_remat_course ways[] = {
    {.hot = 1e-2, .cold = 1e-7, .power = 4, .anchored = 180}, {.hot = 1e-3, .cold = 1e-7, .power = 4, .anchored = 180},
    {.hot = 1e-2, .cold = 1e-5, .power = 4, .anchored = 180}, {.hot = 1e-2, .cold = 1e-7, .power = 1, .anchored = 180},
    {.hot = 3e-2, .cold = 1e-6, .power = 4, .anchored = 0},
};
#define N_WAYS (sizeof ways / sizeof *ways)

/* With few moves for each node, a schedule that fits is not heated until it is lost: a schedule of prices is better
 * than the result of a hot run in that time. */
static const tc_remat_course warm[] = {
    {.hot = 1e-3, .cold = 1e-7, .power = 4, .anchored = 180},
    {.hot = 3e-3, .cold = 1e-7, .power = 4, .anchored = 180},
};
#define N_WARM (sizeof warm / sizeof *warm)
#define FEW_MOVES 1000 /* of a run for each node */
/* With fewer than these for each node a run is pressed into the budget, near which it might end; a longer one has the
 * time to walk outside it, and finds cheaper schedules there. */
#define PRESSED_MOVES 3000

static const tc_remat_course by_order = {.hot = 3e-2, .cold = 1e-6, .order_only = true, .until_met = true};
static const tc_remat_course at_last = {.hot = 2e-3, .cold = 1e-7, .power = 4, .anchored = 180};

typedef struct search {
    const tc_remat_problem *p;
    const tc_remat_options *options;
    tc_remat_outcome *outcome;
    tc_remat_walk walk;
    tc_remat_schedule beginnings[MOST_BEGINNINGS]; /* those found here, before those of the options */
    uint32_t n_beginnings;
    const char *phase;
    uint64_t of_work;
    uint64_t plain_cost;
    uint32_t steeper; /* than a way has it: the power of the excess, doubled after each run that misses the budget */
} search;

void tc_remat_schedule_free(tc_remat_schedule *schedule) {
    free(schedule->steps);
    *schedule = (tc_remat_schedule){0};
}

tc_remat_status tc_remat_schedule_set(tc_remat_schedule *to, const tc_remat_schedule *from) {
    uint32_t *steps = malloc((from->n_steps + (size_t)1) * sizeof *steps);
    if (!steps)
        return TC_REMAT_MEMORY;
    if (from->n_steps > 0)
        memcpy(steps, from->steps, from->n_steps * sizeof *steps);
    free(to->steps);
    *to = (tc_remat_schedule){steps, from->n_steps, from->live};
    return TC_REMAT_OK;
}

bool tc_remat_better(const tc_remat_live *a, const tc_remat_live *b, uint64_t budget) {
    bool a_met = a->peak_bytes <= budget, b_met = b->peak_bytes <= budget;
    if (a_met != b_met)
        return a_met;
    uint64_t first = a_met ? a->cost : a->peak_bytes, second = a_met ? b->cost : b->peak_bytes;
    if (first != second)
        return first < second;
    return a_met ? a->peak_bytes < b->peak_bytes : a->cost < b->cost;
}

/* --- results ---------------------------------------------------------------------------------- */

/* Takes a schedule if it is better than the best, as the checker sees both. */
static tc_remat_status offer(search *s, const uint32_t *steps, uint32_t n_steps) {
    tc_remat_schedule schedule = {(uint32_t *)steps, n_steps, {0}}, *best = &s->outcome->best;
    if (tc_remat_check_steps(s->p, steps, n_steps))
        return TC_REMAT_INVALID;
    tc_remat_status status = tc_remat_simulate(s->p, steps, n_steps, NULL, &schedule.live);
    if (status != TC_REMAT_OK || (best->steps && !tc_remat_better(&schedule.live, &best->live, s->options->budget)))
        return status;
    return tc_remat_schedule_set(best, &schedule);
}

static bool is_met(const search *s) { return s->outcome->best.live.peak_bytes <= s->options->budget; }

static void report(search *s) {
    const tc_remat_live *best = &s->outcome->best.live, *now = &s->walk.kept_live;
    uint64_t budget = s->options->budget;
    if (!s->options->progress)
        return;
    best = tc_remat_better(now, best, budget) ? now : best;
    s->options->progress(s->options->user,
                         &(tc_remat_progress){s->walk.work, s->of_work, s->phase, best->peak_bytes <= budget, *best});
}

static void look(void *user) { report(user); }

/* Nothing better is to be found, or the caller asked to stop. */
static bool over(const search *s) {
    const tc_remat_live *live = &s->outcome->best.live;
    return (is_met(s) && live->cost <= s->plain_cost) || s->walk.stopped || s->walk.timed_out;
}

/* --- runs ------------------------------------------------------------------------------------- */

/* Anneals a beginning; the result is offered and, if `out` is not NULL, copied. */
static tc_remat_status run(search *s, const tc_remat_schedule *from, const tc_remat_course *way, uint64_t moves,
                           tc_remat_schedule *out) {
    tc_remat_course course = *way;
    tc_remat_walk *w = &s->walk;
    course.moves = moves;
    course.pressed = moves / PRESSED_MOVES < s->p->n_nodes;
    /* Where there are few steps one of them is a large part of the cost. */
    if (way != &at_last && !way->order_only && course.hot * (s->p->n_steps + 1.0) < 1)
        course.hot = 1 / (s->p->n_steps + 1.0);
    course.power = course.power * s->steeper < MOST_POWER ? course.power * s->steeper : MOST_POWER;
    tc_remat_walk_forget(w);
    tc_remat_status status = tc_remat_walk_from(w, from->steps, from->n_steps);
    if (status == TC_REMAT_OK)
        status = tc_remat_anneal(w, &course);
    if (status == TC_REMAT_OK && !course.order_only)
        status = tc_remat_polish(w);
    if (status == TC_REMAT_OK)
        status = offer(s, w->best.steps, w->best.n_steps);
    if (w->best.live.peak_bytes > s->options->budget && !course.order_only && s->steeper < MOST_POWER)
        s->steeper *= 2;
    if (status == TC_REMAT_OK && out)
        status = tc_remat_schedule_set(out, &w->best);
    report(s);
    return status;
}

/* Where runs begin: in turn from each. */
static const tc_remat_schedule *beginning(const search *s, uint32_t i) {
    i %= s->n_beginnings + s->options->n_beginnings;
    return i < s->n_beginnings ? &s->beginnings[i] : &s->options->beginnings[i - s->n_beginnings];
}

/* *out_found has no steps where prices find nothing. */
static tc_remat_status begin_with_prices(search *s, uint64_t work, tc_remat_schedule *out_found) {
    s->phase = "prices";
    tc_remat_status status =
        tc_remat_prices(s->p, s->options->budget, TC_REMAT_NONE, work, s->options->stop, out_found);
    if (status == TC_REMAT_TOO_BIG) /* for prices alone */
        return TC_REMAT_OK;
    if (status == TC_REMAT_OK)
        status = offer(s, out_found->steps, out_found->n_steps);
    report(s);
    return status;
}

static void add_beginning(search *s, const tc_remat_schedule *schedule) {
    s->beginnings[s->n_beginnings++] = *schedule;
}

/* Prices come first, as they soon have a plan: an interrupted search returns that. Runs begin with the order. */
static tc_remat_status find_beginnings(search *s, uint64_t moves) {
    tc_remat_schedule given = {(uint32_t *)s->p->steps, s->p->n_steps, {0}}, ordered = {0}, priced = {0}, copy = {0};
    tc_remat_status status = begin_with_prices(s, s->options->work > 0 ? moves : 0, &priced);
    s->phase = "order";
    if (status == TC_REMAT_OK && !s->options->fixed_order)
        status = run(s, &given, &by_order, moves, &ordered);
    if (status == TC_REMAT_OK)
        status = tc_remat_schedule_set(&copy, &given);
    if (ordered.steps)
        add_beginning(s, &ordered);
    if (priced.steps)
        add_beginning(s, &priced);
    if (copy.steps)
        add_beginning(s, &copy);
    return status;
}

static tc_remat_status run_from_best(search *s, const tc_remat_course *way, uint64_t moves) {
    tc_remat_schedule best = {0};
    tc_remat_status status = tc_remat_schedule_set(&best, &s->outcome->best);
    if (status == TC_REMAT_OK) {
        status = run(s, &best, way, moves, NULL);
        tc_remat_schedule_free(&best);
    }
    return status;
}

static tc_remat_status run_next(search *s, uint32_t i, uint64_t moves) {
    uint32_t given = s->options->n_beginnings;
    const tc_remat_schedule *near = given > 0 && i < N_WARM ? &s->options->beginnings[i % given] : NULL;
    if (near && near->live.peak_bytes > s->options->budget) /* good for its own budget: heat would spoil it */
        return run(s, near, &warm[i / given], moves, NULL);
    if (moves / FEW_MOVES < s->p->n_nodes && is_met(s))
        return run_from_best(s, &warm[i / 2 % N_WARM], moves);
    return run(s, beginning(s, i), &ways[i / (s->n_beginnings + given) % N_WAYS], moves, NULL);
}

static tc_remat_status search_all(search *s, uint64_t moves, uint32_t runs) {
    tc_remat_status status = find_beginnings(s, moves);
    s->phase = "recompute";
    for (uint32_t i = 0; i < runs && status == TC_REMAT_OK && !over(s); i++)
        status = run_next(s, i, moves);
    if (status == TC_REMAT_OK && !over(s))
        status = run_from_best(s, &at_last, moves);
    return status;
}

static tc_remat_status search_with(search *s) {
    uint32_t size = 0;
    while (efforts[size].n_nodes < s->p->n_nodes)
        size++;
    uint64_t moves = efforts[size].moves;
    uint32_t runs = efforts[size].runs;
    if (s->options->work > 0)
        moves = s->options->work / (runs + 2);
    s->of_work = moves * (runs + 2);
    return search_all(s, moves, runs);
}

tc_remat_status tc_remat_search(const tc_remat_problem *p, const tc_remat_options *options, tc_remat_outcome *outcome) {
    *outcome = (tc_remat_outcome){0};
    if (tc_remat_check(p))
        return TC_REMAT_INVALID;
    search s = {.p = p, .options = options, .outcome = outcome, .steeper = 1};
    tc_remat_status status = offer(&s, p->steps, p->n_steps);
    s.plain_cost = outcome->best.live.cost;
    if (status == TC_REMAT_OK && outcome->best.live.peak_bytes > options->budget) {
        for (uint32_t i = 0; i < options->n_beginnings && status == TC_REMAT_OK; i++)
            status = offer(&s, options->beginnings[i].steps, options->beginnings[i].n_steps);
        if (status == TC_REMAT_OK)
            status = tc_remat_walk_init(&s.walk, p, options);
        s.walk.look = look;
        s.walk.look_user = &s;
        if (status == TC_REMAT_OK)
            status = search_with(&s);
        outcome->work = s.walk.work;
        outcome->stopped = s.walk.stopped;
        outcome->timed_out = s.walk.timed_out;
        for (uint32_t i = 0; i < s.n_beginnings; i++)
            tc_remat_schedule_free(&s.beginnings[i]);
        tc_remat_walk_free(&s.walk);
    }
    if (status != TC_REMAT_OK)
        tc_remat_schedule_free(&outcome->best);
    outcome->met = status == TC_REMAT_OK && outcome->best.live.peak_bytes <= options->budget;
    return status;
}
