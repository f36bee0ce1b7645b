/* recipe_budget.c: a program under memory budgets, recipe by recipe: a run takes what its plan promised, a budget that
 * is missed is refused as such, and no bit of the outputs depends on it. */
#include "recipe_variant.h"
#include <string.h>

#define REMAT_TIME 0.005
#define BITS_OF_SEED 16 /* those that recipe_check.c does not choose by begin here */

static const char *const recipes[] = {"none", "exact", "tiled", "chunked", "paper"};
static const char *const budgets[] = {"75%", "50%", "25%", "min"};
enum { FIRST_OTHER = 3, RECIPES = TC_COUNT(recipes), BUDGETS = TC_COUNT(budgets) }; /* from here on with other bits */

static void count(fz_case *c, const char *what) {
    if (c->rules)
        ++*fz_count_of(c->rules, what);
}

/* Sizes that only the run knows: no plan is possible, which is said before one is looked for. */
static bool is_open(const fz_case *c, const fz_variant *v) {
    return (v->status == TC_USAGE || v->status == TC_UNSUPPORTED) && v->plan && v->plan->arena == 0 &&
           strstr(c->end->why, "error: --memory-budget");
}

/* Whether giving the program back is right. */
static bool may_refuse(const fz_case *c, const fz_variant *v) {
    if (is_open(c, v))
        return true;
    return v->status == TC_LIMIT && v->plan && !v->plan->met && v->plan->arena > v->plan->budget &&
           !v->budget.best_effort;
}

static bool check_promises(fz_case *c, fz_variant *v, fz_variant *base) {
    const tc_plan_summary *plan = v->plan;
    tempo_memory memory;
    if (!plan || tempo_memory_report(v->session, &memory) != TEMPO_OK)
        return fz_fail(c, FZ_BUDGET, "%s: no plan or no memory report", v->name);
    if (memory.arena != plan->arena && v->unchecked)
        return fz_fail(c, FZ_BUDGET, "%s: %llu bytes allocated, %llu planned", v->name,
                       (unsigned long long)memory.arena, (unsigned long long)plan->arena);
    if (plan->met != (plan->arena <= plan->budget) || (!plan->met && !v->budget.best_effort))
        return fz_fail(c, FZ_BUDGET, "%s: %llu bytes of %llu, said to be %s", v->name, (unsigned long long)plan->arena,
                       (unsigned long long)plan->budget, plan->met ? "met" : "missed");
    if (plan->arena < plan->floor)
        return fz_fail(c, FZ_BUDGET, "%s: %llu bytes, less than the floor, %llu", v->name,
                       (unsigned long long)plan->arena, (unsigned long long)plan->floor);
    count(c, plan->met ? "budget met" : "budget missed");
    if (plan->clones > 0)
        count(c, "budget with copies");
    return fz_compare_bits(c, base, v);
}

static bool check_budget(fz_case *c, fz_variant *base, int recipe, int budget, uint64_t initial, uint64_t seed) {
    static const char *any[] = {"."};
    char name[160];
    fz_variant v = fz_variant_of(name, recipes[recipe], NULL, base->style);
    v.initial = initial;
    v.unchecked = seed / 4 % 2 == 0;
    v.budget = (tc_options){.memory_budget = budgets[budget],
                            .remat_time = REMAT_TIME,
                            .remat_seed = (int64_t)(seed % 1000),
                            .best_effort = seed % 2 == 0,
                            .cost = seed % 3 == 0 ? "unit" : NULL,
                            .recompute = any,
                            .n_recompute = seed % 5 == 0};
    snprintf(name, sizeof name, "budget: --recipe=%s --memory-budget=%s --remat-time=%g --seed=%d%s%s%s",
             recipes[recipe], budgets[budget], REMAT_TIME, (int)v.budget.remat_seed,
             v.budget.best_effort ? " --best-effort" : "", v.budget.cost ? " --cost=unit" : "",
             v.budget.n_recompute > 0 ? " --recompute=." : "");
    fz_end kept = *c->end;
    bool good = fz_make(c, &v);
    if (good) {
        good = check_promises(c, &v, base);
    } else if (c->end->kind == FZ_REFUSED && may_refuse(c, &v)) {
        count(c, is_open(c, &v) ? "budget of open sizes" : "budget refused");
        *c->end = kept;
        good = true;
    }
    fz_variant_fini(&v);
    return good;
}

bool fz_check_budgets(fz_case *c, fz_variant *none, bool all) {
    uint64_t seed = c->p->seed >> BITS_OF_SEED;
    if (!fz_is_bound_early(c->p) || none->arena == 0)
        return true; /* budgets want to know all sizes */
    fz_variant others[RECIPES - FIRST_OTHER];
    for (int i = FIRST_OTHER; i < RECIPES; i++)
        others[i - FIRST_OTHER] = fz_variant_of(recipes[i], recipes[i], NULL, none->style);
    bool good = true;
    for (uint64_t i = 0; good && i < (all ? RECIPES * BUDGETS : 1); i++) {
        uint64_t which = all ? i : seed % (RECIPES * BUDGETS);
        int recipe = (int)(which % RECIPES), budget = (int)(which / RECIPES);
        fz_variant *base = recipe < FIRST_OTHER ? none : &others[recipe - FIRST_OTHER];
        good = base->session || fz_make(c, base);
        good = good && check_budget(c, base, recipe, budget, none->arena, seed / (RECIPES * BUDGETS) + which);
    }
    for (int i = FIRST_OTHER; i < RECIPES; i++)
        fz_variant_fini(&others[i - FIRST_OTHER]);
    return good;
}
