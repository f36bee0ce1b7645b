/* budget_rounds.c: the packer adds gaps to live bytes, and parts may be placed otherwise than a problem can express.
 * So each schedule becomes a graph, and the runtime computes its arena. If that is too large, the next search lowers
 * its target by the difference. */
#include "budget_rounds.h"
#include "budget_begin.h"
#include <inttypes.h>
#include <string.h>

/* The default length of a search in seconds. Each further round takes a third of it, except the second: it continues
 * a whole search and mostly finds a plan that fits, so it takes two thirds. If the user gives a time, all rounds
 * share it, and the first one has half. Making a graph of a schedule costs as much as so many steps per node;
 * planning it costs as much as one step per so much work. The guard is so many times as long, plus some seconds, so
 * that short searches also end by their steps on a busy machine. */
enum {
    ROUNDS = 4,
    SECONDS = 4,
    THIRDS = 3,
    STEPS_A_SECOND = 1000000,
    STEPS_A_NODE = 16,
    WORK_A_STEP = 100,
    GUARD = 6,
    GRACE = 10
};

typedef struct search {
    tc_pass_env *env;
    tc_arena *arena;
    tc_model *model;
    const tc_budget *b;
    const tc_aim *aim;
    uint64_t wanted;
    tc_plan_summary *s;
    tc_plan best; /* n_steps 0: there is none */
    tc_plan last;
    uint32_t round;
    double left; /* seconds of steps, out of those of --remat-time */
} search;

static bool has_time(const search *x) { return !x->s->stopped && x->left > 0; }

static double seconds_of_round(const search *x) {
    const double given = x->env->options->remat_time;
    uint32_t thirds = x->round == 0 ? THIRDS : x->round == 1 && x->last.n_steps > 0 ? 2 : 1;
    double seconds = (given > 0 ? given / 2 : SECONDS) * thirds / THIRDS / (x->aim->part > 0 ? x->aim->part : 1);
    return given > 0 && seconds > x->left ? x->left : seconds;
}

static void spend(search *x, uint64_t steps) {
    if (x->env->options->remat_time > 0)
        x->left -= (double)steps / STEPS_A_SECOND;
}

/* "order  12%: best so far 98.3% of the budget, +4.1% time". */
static void report(void *user, const tc_remat_progress *p) {
    const search *x = user;
    char line[160], size[40];
    double before = x->s->cost_before ? (double)x->s->cost_before : 1;
    double done = p->of_work ? 100.0 * (double)p->work / (double)p->of_work : 0;
    if (x->wanted)
        snprintf(size, sizeof size, "%.1f%% of the budget", 100.0 * (double)p->best.peak_bytes / (double)x->wanted);
    else
        snprintf(size, sizeof size, "%" PRIu64 " bytes", p->best.peak_bytes);
    snprintf(line, sizeof line, "%s%s %.0f%%: best so far %s, %+.1f%% time", x->aim->label, p->phase,
             done < 100 ? done : 100, size, 100 * ((double)p->best.cost / before - 1));
    x->env->watcher->progress(x->env->watcher->user, line);
}

tc_status tc_budget_failed(tc_ctx *ctx, tc_remat_status status) {
    switch (status) {
    case TC_REMAT_OK: return TC_OK;
    case TC_REMAT_MEMORY: return tc_error(ctx, TC_LIMIT, NULL, "not enough memory to search for a plan");
    case TC_REMAT_TOO_BIG:
        return tc_error(ctx, TC_LIMIT, NULL, "the values of this graph need more bytes than can be planned");
    case TC_REMAT_INVALID: break;
    }
    return tc_error(ctx, TC_BUG, NULL, "the search makes an invalid schedule");
}

static void release(void *schedule) { tc_remat_schedule_free(schedule); }

tc_status tc_budget_measure(tc_pass_env *env, tc_model *model, const tc_budget *budget, tc_plan *plan) {
    tc_node_memories memories;
    tc_footprint footprint;
    tc_arena *scratch = tc_arena_create();
    tc_model *clone = tc_model_clone(model);
    tc_budget_emit(clone->graph, budget, plan->steps, plan->n_steps, NULL);
    tc_status status = tc_budget_estimate(env, scratch, clone, &memories, &footprint);
    plan->arena = footprint.arena;
    plan->work = footprint.work;
    tc_model_destroy(clone);
    tc_arena_destroy(scratch);
    return status;
}

static bool is_better(const search *x, const tc_plan *plan) {
    const tc_plan *best = &x->best;
    bool met = plan->arena <= x->wanted, best_met = best->arena <= x->wanted;
    if (best->n_steps == 0 || met != best_met)
        return best->n_steps == 0 || met;
    uint64_t first = met ? plan->live.cost : plan->arena, second = met ? best->live.cost : best->arena;
    return first != second ? first < second : (met ? plan->arena < best->arena : plan->live.cost < best->live.cost);
}

static uint32_t begin_with(const search *x, tc_remat_schedule *from) {
    uint32_t n = 0;
    for (uint32_t i = 0; i <= x->aim->n_near; i++) {
        const tc_plan *plan = i == 0 ? &x->last : &x->aim->near[i - 1];
        if (plan->n_steps > 0)
            from[n++] = (tc_remat_schedule){(uint32_t *)plan->steps, plan->n_steps, plan->live};
    }
    return n;
}

/* One search, beginning with `from`; its result is in the search's arena. */
static tc_status run_search(search *x, const tc_remat_problem *problem, uint64_t budget, double seconds,
                            const tc_remat_schedule *from, uint32_t n_from, tc_plan *out) {
    const tc_options *options = x->env->options;
    const tc_watcher *watcher = x->env->watcher;
    tc_remat_options o = {.budget = budget,
                          .work = (uint64_t)(seconds * STEPS_A_SECOND) + 1,
                          .seed = (uint64_t)options->remat_seed,
                          .stop = watcher ? watcher->stop : NULL,
                          .seconds = seconds * GUARD + GRACE,
                          .progress = watcher && watcher->progress ? report : NULL,
                          .user = x,
                          .beginnings = from,
                          .n_beginnings = n_from};
    tc_remat_outcome outcome;
    tc_held held;
    TC_TRY(tc_budget_failed(x->env->ctx, tc_remat_search(problem, &o, &outcome)));
    tc_hold(&held, release, &outcome.best);
    const char *wrong = tc_remat_check_steps(problem, outcome.best.steps, outcome.best.n_steps);
    uint32_t *steps = TC_NEW_ARRAY(x->arena, uint32_t, (size_t)outcome.best.n_steps + 1);
    memcpy(steps, outcome.best.steps, outcome.best.n_steps * sizeof *steps);
    *out = (tc_plan){.steps = steps, .n_steps = outcome.best.n_steps};
    tc_let_go(&held);
    tc_remat_schedule_free(&outcome.best);
    if (wrong)
        return tc_error(x->env->ctx, TC_BUG, NULL, "the search made an invalid schedule: %s", wrong);
    tc_budget_forget(x->arena, x->b, steps, out->n_steps);
    spend(x, outcome.work);
    x->s->stopped |= outcome.stopped;
    x->s->timed_out |= outcome.timed_out;
    return tc_budget_failed(x->env->ctx, tc_remat_simulate(&x->b->problem, steps, out->n_steps, NULL, &out->live));
}

/* Searches for `budget` live bytes, beginning with the last schedule. *out_met: found. If there are variants, it
 * also begins with a schedule that was searched without them, so that they cannot mislead it. */
static tc_status run_round(search *x, uint64_t budget, bool *out_met) {
    double seconds = seconds_of_round(x);
    tc_remat_schedule from[TC_MOST_NEAR + 1];
    uint32_t n_from = begin_with(x, from);
    if (n_from == 0 && x->b->units.has_variants) {
        tc_remat_problem plain = x->b->problem;
        plain.n_nodes = x->b->n_plain;
        seconds /= 2;
        TC_TRY(run_search(x, &plain, budget, seconds, NULL, 0, &x->last));
        n_from = begin_with(x, from);
    }
    TC_TRY(run_search(x, &x->b->problem, budget, seconds, from, n_from, &x->last));
    *out_met = x->last.live.peak_bytes <= budget;
    TC_TRY(tc_budget_measure(x->env, x->model, x->b, &x->last));
    spend(x, (uint64_t)x->last.n_steps * STEPS_A_NODE + x->last.work / WORK_A_STEP);
    if (is_better(x, &x->last))
        x->best = x->last;
    return TC_OK;
}

/* Each round lowers its target a little further than necessary, so that the last one does not miss by a hair. */
static const double margins[ROUNDS] = {0.002, 0.006, 0.018};

/* The next target: less than wanted by the gaps of the last schedule. A schedule that met its target and takes too
 * much lowers it in any case. */
static uint64_t next_aim(uint64_t aim, const search *x, bool met) {
    double share = (double)x->last.live.peak_bytes / (double)(x->last.arena ? x->last.arena : 1);
    uint64_t next = (uint64_t)((double)x->wanted * share * (1 - margins[x->round])), most = aim - aim / 512;
    return !met || next < most ? next : most;
}

static tc_status search_budget(search *x, uint32_t first_round) {
    uint64_t budget = x->wanted;
    bool met = true;
    for (x->round = first_round; x->round < ROUNDS && !x->s->met && has_time(x); x->round++) {
        TC_TRY(run_round(x, budget, &met));
        x->s->met = x->best.arena <= x->wanted;
        budget = next_aim(budget, x, met);
    }
    return TC_OK;
}

/* First searches for less than possible, which ends at the least found; then for less than that, again and again, by
 * smaller parts if nothing is found; then for the best of these at less cost. `quick`: only to report the budget
 * that can be met. */
static tc_status search_least(search *x, bool quick) {
    bool met;
    x->round = quick;
    TC_TRY(run_round(x, x->s->floor, &met));
    for (uint64_t part = 16; !quick && part <= 256 && has_time(x); part *= x->s->met ? 1 : 4) {
        uint64_t most = x->best.arena;
        x->wanted = most - most / part;
        x->s->met = false;
        if (x->wanted == most || x->wanted < x->s->floor)
            continue;           /* nothing less, or nothing possible */
        x->last = (tc_plan){0}; /* the schedule with the fewest live bytes may pack badly: start again */
        TC_TRY(search_budget(x, 1));
    }
    x->round = 1;
    if (!quick && has_time(x)) {
        x->wanted = x->best.arena;
        x->last = x->best;
        TC_TRY(run_round(x, x->best.live.peak_bytes, &met));
    }
    x->s->met = true;
    return TC_OK;
}

void tc_budget_watch(const tc_pass_env *env, bool begins) {
    if (env->watcher && env->watcher->searches)
        env->watcher->searches(env->watcher->user, begins);
}

tc_status tc_budget_search(tc_pass_env *env, tc_arena *arena, tc_model *model, const tc_budget *budget,
                           const tc_aim *aim, tc_plan_summary *summary, tc_plan *out_plan) {
    search x = {
        .env = env, .arena = arena, .model = model, .b = budget, .aim = aim, .wanted = aim->wanted, .s = summary};
    x.left = env->options->remat_time > 0 ? env->options->remat_time / (aim->part > 0 ? aim->part : 1) : 1;
    bool hopeless = aim->wanted > 0 && aim->wanted < summary->floor;
    tc_status status =
        aim->wanted == 0 || hopeless ? search_least(&x, hopeless && !env->options->best_effort) : search_budget(&x, 0);
    summary->met &= !hopeless;
    *out_plan = x.best;
    return status;
}
