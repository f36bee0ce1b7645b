/* budget_pareto.c: the curve of budget against time. First the fewest bytes are searched, then the budgets between,
 * by halves; each search also begins with the plans of its neighbours. All plans found are kept, and each budget
 * gets the best of them that fits. So a smaller budget never costs less, nor takes more. */
#include "budget_rounds.h"

enum { PART = 4 }; /* the search for a point takes a quarter of the usual time */

typedef struct curve {
    tc_pass_env *env;
    tc_arena *arena;
    tc_model *model;
    const tc_budget *b;
    tc_pareto *out;
    tc_plan_summary s; /* the results of searches */
    tc_plan *plans;    /* [n_plans] */
    uint32_t n_plans;
    uint32_t n_points, n_done; /* points requested; points searched so far */
} curve;

/* Less cost, then a smaller arena. */
static bool is_cheaper(const tc_plan *plan, const tc_plan *than) {
    return plan->live.cost != than->live.cost ? plan->live.cost < than->live.cost : plan->arena < than->arena;
}

/* The best plan that fits; NULL: none does. */
static const tc_plan *best_within(const curve *c, uint64_t bytes) {
    const tc_plan *best = NULL;
    for (uint32_t i = 0; i < c->n_plans; i++)
        if (c->plans[i].arena <= bytes && (!best || is_cheaper(&c->plans[i], best)))
            best = &c->plans[i];
    return best;
}

/* The smallest one that does not fit; NULL: all do. */
static const tc_plan *next_above(const curve *c, uint64_t bytes) {
    const tc_plan *best = NULL;
    for (uint32_t i = 0; i < c->n_plans; i++) {
        const tc_plan *plan = &c->plans[i];
        bool smaller = !best || plan->arena < best->arena;
        if (plan->arena > bytes && (smaller || (plan->arena == best->arena && is_cheaper(plan, best))))
            best = plan;
    }
    return best;
}

static const tc_plan *smallest(const curve *c) { return next_above(c, 0); }

static tc_status look(curve *c, uint64_t wanted, uint32_t part) {
    tc_plan near[TC_MOST_NEAR], found;
    tc_aim aim = {.wanted = wanted, .part = part, .near = near};
    const tc_plan *below = best_within(c, wanted), *above = next_above(c, wanted);
    aim.label = tc_arena_printf(c->arena, "point %u of %u, ", ++c->n_done, c->n_points - 1);
    if (above && wanted > 0)
        near[aim.n_near++] = *above;
    if (below)
        near[aim.n_near++] = *below;
    c->s.met = false;
    TC_TRY(tc_budget_search(c->env, c->arena, c->model, c->b, &aim, &c->s, &found));
    if (found.n_steps > 0)
        c->plans[c->n_plans++] = found;
    return TC_OK;
}

static tc_status begin(curve *c, const tc_plan *chosen) {
    const tc_remat_problem *p = &c->b->problem;
    tc_plan given = {.steps = p->steps, .n_steps = p->n_steps};
    TC_TRY(tc_budget_failed(c->env->ctx, tc_remat_simulate(p, given.steps, given.n_steps, NULL, &given.live)));
    TC_TRY(tc_budget_measure(c->env, c->model, c->b, &given));
    c->plans = TC_NEW_ARRAY(c->arena, tc_plan, (size_t)c->n_points + 2);
    c->plans[c->n_plans++] = given;
    if (chosen->n_steps > 0)
        c->plans[c->n_plans++] = *chosen;
    return TC_OK;
}

/* The points between the first and the last, halves first. */
static tc_status look_between(curve *c, const uint64_t *budgets) {
    uint32_t stride = 1, last = c->n_points - 1;
    while (stride < last)
        stride *= 2;
    for (; stride > 0; stride /= 2)
        for (uint32_t i = stride; i < last && !c->s.stopped; i += 2 * stride) {
            const tc_plan *best = best_within(c, budgets[i]);
            bool is_free = best && best->live.cost <= c->plans[0].live.cost;
            c->n_done += is_free;
            if (!is_free)
                TC_TRY(look(c, budgets[i], PART));
        }
    return TC_OK;
}

static uint32_t count_repeats(const curve *c, const tc_plan *plan) {
    bool *seen = TC_NEW_ARRAY(c->arena, bool, (size_t)c->b->units.n_units + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        bool *again = &seen[tc_unit_root(&c->b->units, c->b->nodes[plan->steps[i]].unit)];
        n += *again;
        *again = true;
    }
    return n;
}

static void tell_points(const curve *c, const uint64_t *budgets) {
    tc_plan_point *points = TC_NEW_ARRAY(c->env->ctx->arena, tc_plan_point, c->n_points);
    for (uint32_t i = 0; i < c->n_points; i++) {
        const tc_plan *plan = best_within(c, budgets[i]), *listed = plan ? plan : smallest(c);
        points[i] =
            (tc_plan_point){budgets[i], listed->arena, listed->live.cost, count_repeats(c, listed), plan != NULL};
    }
    c->out->points = points;
    c->out->n_points = c->n_points;
}

tc_status tc_budget_pareto(tc_pass_env *env, tc_arena *arena, tc_model *model, const tc_budget *budget,
                           uint64_t initial, uint64_t wanted, const tc_plan_summary *summary, tc_plan *plan) {
    uint32_t n = (uint32_t)env->options->pareto;
    tc_pareto *out = TC_NEW(env->ctx->arena, tc_pareto);
    *out = (tc_pareto){.initial = initial,
                       .floor = summary->floor,
                       .cost_before = summary->cost_before,
                       .costs = summary->costs,
                       .timed_out = summary->timed_out};
    curve c = {.env = env, .arena = arena, .model = model, .b = budget, .out = out, .s = *summary, .n_points = n};
    TC_TRY(begin(&c, plan));
    bool is_least = plan->n_steps > 0 && wanted == 0;
    c.n_done = is_least;
    if (!is_least)
        TC_TRY(look(&c, 0, 0));
    uint64_t least = smallest(&c)->arena, most = initial > least ? initial : least;
    uint64_t *budgets = TC_NEW_ARRAY(arena, uint64_t, n);
    for (uint32_t i = 0; i < n; i++)
        budgets[i] = most - (most - least) / (n - 1) * i - (most - least) % (n - 1) * i / (n - 1);
    TC_TRY(look_between(&c, budgets));
    tell_points(&c, budgets);
    const tc_plan *best = best_within(&c, wanted > 0 ? wanted : least);
    if (plan->n_steps > 0 && best && (plan->arena > wanted || is_cheaper(best, plan)))
        *plan = *best;
    out->stopped = c.s.stopped;
    out->timed_out |= c.s.timed_out;
    env->summary->pareto = out;
    return TC_OK;
}
