/* budget.c: the pass that makes a graph fit --memory-budget. If the arena of the graph fits already, nothing
 * changes. Otherwise it searches for a schedule whose live bytes fit, applies it to a clone, and asks the runtime
 * for the real size of the arena. If that is too large, the search continues with a lower target (budget_rounds.c).
 * The resulting graph is read back and counted again. No pass after this one may merge equal nodes. */
#include "passes/rules/rules.h"
#include "compiler/base/base.h"
#include "budget_begin.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "compiler/ir/verify.h"
#include "budget_rounds.h"
#include <inttypes.h>
#include <string.h>

/* --- the runtime's estimate --------------------------------------------------------------------- */

static bool add_symbols(tc_arena *arena, const tc_type *type, const char **list) {
    bool open = !type || type->kind != TC_TENSOR || type->rank == TC_RANK_UNKNOWN;
    for (int i = 0; !open && i < type->rank; i++) {
        if (tc_dim_is_const(type->dims[i]))
            continue;
        const char *text = tc_dim_text(arena, type->dims[i]);
        const char *quoted = tc_arena_printf(arena, "'%s'", text);
        if (!strstr(*list, quoted))
            *list = tc_arena_printf(arena, "%s%s%s", *list, **list ? ", " : "", quoted);
    }
    return open;
}

static tc_status refuse_open(tc_pass_env *env, const tc_graph *graph) {
    tc_ctx *ctx = env->ctx;
    const char *list = "", *option = env->options->memory_budget ? "--memory-budget" : "--pareto";
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        add_symbols(ctx->arena, graph->inputs[i]->type, &list);
    for (const tc_node *node = graph->first; node && !*list; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                add_symbols(ctx->arena, node->outputs[i]->type, &list);
    if (!*list)
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "%s: the memory of this graph is not known before it runs", option);
    tc_error(ctx, TC_USAGE, NULL, "%s needs a number for every dimension; these have none: %s", option, list);
    tc_hint(ctx, "give each a value, such as --dim batch=32");
    return TC_USAGE;
}

tc_status tc_budget_estimate(tc_pass_env *env, tc_arena *arena, tc_model *model, tc_node_memories *out_memories,
                             tc_footprint *out_footprint) {
    bool planned = false;
    *out_memories = (tc_node_memories){arena, tc_map_create(arena)};
    TC_TRY(env->runtime->estimate(env->runtime->user, model, out_memories, out_footprint, &planned));
    return planned ? TC_OK : refuse_open(env, model->graph);
}

/* --- the target --------------------------------------------------------------------------------- */

static tc_status initial_bytes(tc_pass_env *env, uint64_t *out_bytes) {
    *out_bytes = env->runtime->initial;
    if (*out_bytes > 0)
        return TC_OK;
    return tc_error(env->ctx, TC_UNSUPPORTED, NULL,
                    "the budget is a share of the memory of recipe none, which is not known");
}

static tc_status wanted_bytes(tc_pass_env *env, uint64_t *out_bytes) {
    tc_budget_spec spec;
    uint64_t initial;
    TC_TRY(tc_budget_parse(env->ctx, env->options->memory_budget, &spec));
    *out_bytes = spec.bytes;
    if (spec.kind == TC_BUDGET_MIN)
        *out_bytes = 0;
    if (spec.kind != TC_BUDGET_PERCENT)
        return TC_OK;
    TC_TRY(initial_bytes(env, &initial));
    *out_bytes = initial / 1000000 * spec.millionths + initial % 1000000 * spec.millionths / 1000000;
    return TC_OK;
}

/* --- the pass ----------------------------------------------------------------------------------- */

static void note_metadata(tc_pass_env *env, tc_model *model, const tc_plan_summary *s) {
    const char *text = tc_arena_printf(env->ctx->arena,
                                       "budget=%" PRIu64 " arena=%" PRIu64 " cost=%" PRIu64 " cost_before=%" PRIu64
                                       " costs=\"%s\" seed=%" PRId64 " clones=%u",
                                       s->budget, s->arena, s->cost_after, s->cost_before, s->costs,
                                       env->options->remat_seed, s->clones);
    tc_model_set_metadata(model, "tempo.plan", text);
}

/* The cost of the actual nodes: runs of a unit may differ in the results that have readers. */
static uint64_t cost_of_nodes(const tc_budget *b, const tc_costs *costs) {
    uint64_t cost = 0;
    for (uint32_t at = 0; at < b->units.n_nodes; at++)
        cost += b->node_of[b->units.unit_of[at]] != TC_REMAT_NONE ? tc_node_cost(costs, b->units.nodes[at]) : 0;
    return cost;
}

/* The emitted graph, counted like a graph from another tool: without --recompute, which would ask for runs that the
 * plan repeats already. All runs of a unit count as one there, so the live bytes are an upper bound. */
static tc_status read_back(tc_pass_env *env, tc_arena *arena, tc_model *model, const tc_costs *costs,
                           const tc_plan *plan, tc_plan_summary *s) {
    tc_node_memories memories;
    tc_footprint footprint;
    tc_budget again;
    tc_remat_live live;
    tc_options options = *env->options;
    tc_pass_env plain = *env;
    options.n_recompute = 0;
    plain.options = &options;
    TC_TRY(tc_infer_graph(env->ctx, model->graph));
    if (tc_verify(env->ctx, model) != TC_OK)
        return tc_error(env->ctx, TC_BUG, NULL, "the graph of the plan is not valid");
    TC_TRY(tc_budget_estimate(env, arena, model, &memories, &footprint));
    TC_TRY(tc_budget_make(&plain, arena, model->graph, &memories, (tc_unit_variants){0}, costs, &again));
    const char *wrong = tc_remat_check(&again.problem);
    if (wrong)
        return tc_error(env->ctx, TC_BUG, NULL, "the plan that was written is wrong: %s", wrong);
    tc_remat_simulate(&again.problem, again.problem.steps, again.problem.n_steps, NULL, &live);
    /* Updates come after the last reader of the weights, which is after their position in the schedule: the arena
     * counts it. */
    const uint64_t most = env->options->update.optimizer ? plan->arena : plan->live.peak_bytes;
    const uint64_t cost = cost_of_nodes(&again, costs);
    if (cost > plan->live.cost || live.peak_bytes > most || footprint.arena != plan->arena)
        return tc_error(env->ctx, TC_BUG, NULL,
                        "the plan that was written needs %" PRIu64 " bytes, %" PRIu64 " live, at a cost of %" PRIu64
                        "; planned were %" PRIu64 ", %" PRIu64 " and %" PRIu64,
                        footprint.arena, live.peak_bytes, cost, plan->arena, plan->live.peak_bytes, plan->live.cost);
    s->arena = footprint.arena;
    s->cost_after = cost;
    s->peak_after = footprint.bound;
    return TC_OK;
}

static tc_status missed(tc_pass_env *env, const tc_budget *b, uint64_t wanted, const tc_plan_summary *s) {
    tc_ctx *ctx = env->ctx;
    if (wanted < s->floor && !s->stopped) {
        uint32_t node;
        uint64_t floor = tc_remat_floor(&b->problem, &node);
        return tc_budget_refuse(ctx, b, wanted, floor, node, s->arena);
    }
    tc_error(ctx, TC_LIMIT, NULL, "the memory budget of %s was missed: the best plan found allocates %s",
             tc_budget_bytes(ctx, wanted), tc_budget_bytes(ctx, s->arena));
    tc_hint(ctx,
            "--memory-budget=%" PRIu64 " can be met; --remat-time=%d looks further; --best-effort writes this plan; "
            "no plan takes less than %" PRIu64 " bytes",
            s->arena, env->options->remat_time > 0 ? 4 * (int)(env->options->remat_time + 1) : 60, s->floor);
    return TC_LIMIT;
}

typedef struct job {
    tc_pass_env *env;
    tc_model *model;
    tc_arena *arena;
    tc_plan_summary *s;
    uint64_t wanted;
    uint32_t part;         /* the fraction of time, as in tc_aim */
    const tc_costs *costs; /* NULL: not open yet */
    tc_beginning begin;
    tc_budget b;
    tc_plan plan;
    uint64_t cost_before; /* of the original graph; 0: of the problem's graph */
} job;

/* Whether no search is needed: the graph fits, and no other option asks for one. */
static bool fits(const job *j) {
    bool is_min = strcmp(j->env->options->memory_budget, "min") == 0;
    return !is_min && j->begin.footprint.arena <= j->wanted && j->env->options->n_recompute == 0;
}

/* For the nodes of the file: the given schedule already runs the nodes of --recompute twice. */
static uint64_t cost_of_file(const tc_budget *b) {
    uint64_t cost = 0;
    for (uint32_t at = 0; at < b->units.n_nodes; at++) {
        uint32_t node = b->node_of[b->units.unit_of[at]];
        bool runs = node != TC_REMAT_NONE && b->units.units[b->units.unit_of[at]].variant_of == TC_REMAT_NONE;
        cost += runs ? b->problem.nodes[node].cost : 0;
    }
    return cost;
}

static void note_before(const job *j) {
    uint32_t node;
    j->s->floor = tc_remat_floor(&j->b.problem, &node);
    j->s->cost_after = cost_of_file(&j->b);
    j->s->cost_before = j->cost_before ? j->cost_before : j->s->cost_after;
    j->s->peak_before = j->s->peak_after = j->begin.footprint.bound;
    j->s->arena = j->begin.footprint.arena;
    j->s->costs = tc_costs_source(j->costs);
}

/* The problem of the model, which has been estimated, and is prepared for a search. */
static tc_status open_problem(job *j) {
    tc_pass_env *env = j->env;
    TC_TRY(tc_budget_prepare(env, j->arena, &j->begin));
    if (!j->costs)
        TC_TRY(tc_costs_open(env, j->model, &j->costs));
    TC_TRY(tc_budget_make(env, j->arena, j->model->graph, &j->begin.memories,
                          (tc_unit_variants){j->begin.variants, j->begin.n_variants}, j->costs, &j->b));
    const char *wrong = tc_remat_check(&j->b.problem);
    if (wrong)
        return tc_error(env->ctx, TC_BUG, NULL, "the problem of this graph is wrong: %s", wrong);
    note_before(j);
    return TC_OK;
}

/* Units of variants come in the order of the list. Those without unread results follow from the others. */
static void count_variants(const job *j) {
    const tc_units *u = &j->b.units;
    bool *runs = TC_NEW_ARRAY(j->arena, bool, (size_t)u->n_units + 1);
    for (uint32_t i = 0; i < j->plan.n_steps; i++)
        runs[j->b.nodes[j->plan.steps[i]].unit] = true;
    for (uint32_t i = 0, at = 0; i < u->n_units; i++) {
        if (u->units[i].variant_of == TC_REMAT_NONE)
            continue;
        tc_rule_stat *row = tc_summary_rule(j->env, j->begin.variants[at++].rule);
        bool counts =
            j->b.node_of[i] != TC_REMAT_NONE && j->b.problem.nodes[j->b.node_of[i]].n_outputs ==
                                                    j->b.problem.nodes[j->b.node_of[u->units[i].variant_of]].n_outputs;
        row->tried += counts;
        row->matched += counts && runs[i];
    }
}

static tc_status apply(const job *j) {
    tc_plan_summary *s = j->s;
    const tc_plan *plan = &j->plan;
    count_variants(j);
    const tc_node **ran = TC_NEW_ARRAY(j->arena, const tc_node *, (size_t)plan->n_steps + 1);
    s->clones = tc_budget_emit(j->model->graph, &j->b, plan->steps, plan->n_steps, ran);
    s->changed = true;
    TC_TRY(read_back(j->env, j->arena, j->model, j->costs, plan, s));
    TC_TRY(tc_budget_tell(j->env, j->arena, &j->b, plan, ran, s));
    if (j->wanted == 0)
        s->budget = s->arena;
    note_metadata(j->env, j->model, s);
    return TC_OK;
}

/* The best plan, and the curve if one is requested. A budget below the floor is refused without it. */
static tc_status search(job *j, tc_plan *out_plan) {
    tc_pass_env *env = j->env;
    const tc_aim aim = {.wanted = j->wanted, .part = j->part, .label = ""};
    bool is_refused = j->wanted > 0 && j->wanted < j->s->floor && !env->options->best_effort;
    bool drawn = env->options->pareto > 0 && !is_refused;
    uint64_t initial = 0;
    if (drawn)
        TC_TRY(initial_bytes(env, &initial));
    tc_budget_watch(env, true);
    tc_status status = tc_budget_search(env, j->arena, j->model, &j->b, &aim, j->s, out_plan);
    if (status == TC_OK && drawn)
        status = tc_budget_pareto(env, j->arena, j->model, &j->b, initial, j->wanted, j->s, out_plan);
    tc_budget_watch(env, false);
    j->s->met |= j->wanted > 0 && out_plan->arena <= j->wanted;
    return status;
}

/* The plan, or, if no plan takes less, the original graph. */
static tc_status settle_for(job *j) {
    const tc_options *options = j->env->options;
    uint64_t as_it_is = j->begin.footprint.arena;
    bool no_better = j->plan.arena >= as_it_is && options->n_recompute == 0;
    j->s->arena = no_better ? as_it_is : j->plan.arena;
    if (no_better && j->wanted == 0)
        j->s->budget = as_it_is;
    if (!j->s->met && !j->s->stopped && !options->best_effort)
        return missed(j->env, &j->b, j->wanted, j->s);
    if (!no_better)
        return apply(j);
    tc_variants_remove(j->begin.variants, j->begin.n_variants);
    return TC_OK;
}

/* The graph as it is, because it fits. The report describes a clone in which each node has a kernel. */
static tc_status leave(job *j) {
    if (!j->costs)
        TC_TRY(tc_costs_open(j->env, j->model, &j->costs));
    job c = *j;
    c.model = c.begin.model = tc_model_clone(j->model);
    tc_status status = open_problem(&c);
    tc_model_destroy(c.model);
    j->s->budget = j->wanted;
    j->s->met = true;
    return status;
}

static tc_status look(job *j) {
    TC_TRY(open_problem(j));
    j->s->budget = j->wanted;
    return search(j, &j->plan);
}

/* Without variants: changes one graph in place. */
static tc_status plan_graph(job *j) {
    TC_TRY(tc_budget_begin(j->env, j->arena, j->model, TC_BEGIN_RECIPE, &j->begin));
    TC_TRY(wanted_bytes(j->env, &j->wanted));
    if (fits(j))
        return leave(j);
    TC_TRY(look(j));
    return settle_for(j);
}

/* --- with variants ------------------------------------------------------------------------------ */

/* In a clone, so that the other may still be chosen. Its messages and counts are discarded. */
static tc_status begin_clone(const job *j, tc_beginning_kind kind, job *out) {
    tc_ctx *ctx = j->env->ctx;
    size_t n_diags = ctx->n_diags;
    tc_summary summary = *j->env->summary;
    tc_pass_env env = *j->env;
    summary.rules = NULL;
    summary.rules_by_name = NULL;
    summary.n_rules = summary.cap_rules = 0;
    env.summary = &summary;
    *out = *j;
    out->s = TC_NEW(ctx->arena, tc_plan_summary);
    out->model = tc_model_clone(j->model);
    TC_TRY(tc_budget_begin(&env, j->arena, out->model, kind, &out->begin));
    ctx->n_diags = n_diags;
    return TC_OK;
}

static bool is_better(const job *a, const job *b) {
    if (a->s->met != b->s->met)
        return a->s->met;
    bool by_cost = a->s->met && a->wanted > 0;
    uint64_t first = by_cost ? a->plan.live.cost : a->plan.arena, second = by_cost ? b->plan.live.cost : b->plan.arena;
    return first < second;
}

/* Repeats on the model the changes made to a clone, which the problem still refers to. */
static tc_status repeat(job *j, const job *chosen) {
    tc_model *model = j->model;
    *j = *chosen;
    j->model = model;
    TC_TRY(tc_budget_begin(j->env, j->arena, model, chosen->begin.kind, &j->begin));
    TC_TRY(tc_budget_prepare(j->env, j->arena, &j->begin));
    TC_ASSERT(j->begin.footprint.arena == chosen->begin.footprint.arena &&
              j->begin.n_variants == chosen->begin.n_variants);
    return TC_OK;
}

/* The curve is that of the search whose plan is chosen, so that the plan is one of its points. */
static tc_status choose(job *j, job *recipe, job *variants) {
    const job *best = variants;
    j->part = j->env->options->remat_time > 0 ? 2 : 0; /* the two share their messages */
    recipe->wanted = j->wanted;
    recipe->part = j->part;
    TC_TRY(begin_clone(j, TC_BEGIN_VARIANTS, variants));
    TC_TRY(look(variants));
    if (!variants->s->stopped && (!variants->s->met || j->wanted == 0)) {
        tc_pareto *curve = j->env->summary->pareto;
        TC_TRY(look(recipe));
        best = is_better(recipe, variants) ? recipe : variants;
        if (best == variants)
            j->env->summary->pareto = curve;
    }
    TC_TRY(repeat(j, best));
    return settle_for(j);
}

static tc_status plan_with_variants(job *j) {
    job recipe = {0}, variants = {0};
    bool fit = false;
    TC_TRY(tc_costs_open(j->env, j->model, &j->costs));
    j->cost_before = tc_graph_cost(j->costs, j->model->graph);
    tc_status status = begin_clone(j, TC_BEGIN_RECIPE, &recipe);
    if (status == TC_OK)
        status = wanted_bytes(j->env, &j->wanted);
    if (status == TC_OK) {
        j->begin = recipe.begin;
        fit = fits(j);
        status = fit ? TC_OK : choose(j, &recipe, &variants);
    }
    tc_model_destroy(variants.model);
    tc_model_destroy(recipe.model);
    if (!fit)
        return status;
    TC_TRY(tc_budget_begin(j->env, j->arena, j->model, TC_BEGIN_RECIPE, &j->begin));
    return leave(j);
}

/* The curve of a graph that stays as it is, computed on a clone. */
static tc_status draw_alone(const job *j) {
    job c = {.env = j->env, .arena = j->arena, .s = TC_NEW(j->arena, tc_plan_summary), .costs = j->costs};
    tc_plan none = {0};
    uint64_t initial = 0;
    c.model = tc_model_clone(j->model);
    tc_pass_env env = *j->env; /* the passes left to this one are done */
    env.deferred = 0;
    c.env = &env;
    tc_status status = tc_budget_begin(&env, j->arena, c.model, TC_BEGIN_RECIPE, &c.begin);
    if (status == TC_OK)
        status = initial_bytes(j->env, &initial);
    if (status == TC_OK)
        status = open_problem(&c);
    tc_budget_watch(j->env, true);
    if (status == TC_OK)
        status = tc_budget_pareto(j->env, j->arena, c.model, &c.b, initial, 0, c.s, &none);
    tc_budget_watch(j->env, false);
    tc_model_destroy(c.model);
    return status;
}

tc_status tc_pass_budget(tc_pass_env *env, tc_model *model) {
    const tc_options *options = env->options;
    if (!options->memory_budget && !options->pareto)
        return TC_OK;
    if (!env->runtime)
        return tc_error(env->ctx, TC_USAGE, NULL,
                        "--memory-budget and --pareto need a runtime that estimates the memory of a graph");
    double start = tc_seconds();
    tc_arena *arena = tc_arena_create();
    job j = {.env = env, .model = model, .arena = arena, .s = TC_NEW(env->ctx->arena, tc_plan_summary)};
    tc_status status = tc_infer_graph(env->ctx, model->graph);
    if (status == TC_OK && options->memory_budget) {
        status = env->deferred ? plan_with_variants(&j) : plan_graph(&j);
        env->summary->plan = j.s;
    }
    if (status == TC_OK && options->pareto && !env->summary->pareto)
        status = draw_alone(&j);
    j.s->seconds = tc_seconds() - start;
    tc_arena_destroy(arena);
    return status;
}
