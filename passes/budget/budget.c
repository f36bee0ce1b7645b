/* budget.c: the pass that makes a graph fit --memory-budget. Where the arena of the graph as it is fits, nothing
 * changes. Else a schedule is searched whose live bytes fit, made a graph in a clone, and the runtime asked for the
 * arena that it really takes; should that be more, the search goes on for less (budget_rounds.c). What is written was
 * read back and counted again. No pass behind this one may merge equal nodes. */
#include "budget.h"
#include "../../compiler/ops.h"
#include "../../compiler/shape.h"
#include "../../compiler/verify.h"
#include "budget_rounds.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- what the runtime takes --------------------------------------------------------------------- */

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
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "%s: what this graph takes is not known before it runs", option);
    tc_error(ctx, TC_USAGE, NULL, "%s needs a number for every dimension; these have none: %s", option, list);
    tc_hint(ctx, "give each a value, such as --dim batch=32");
    return TC_USAGE;
}

tc_status tc_budget_foresee(tc_pass_env *env, tc_arena *arena, tc_model *model, tc_node_memories *out_memories,
                            tc_footprint *out_footprint) {
    bool planned = false;
    *out_memories = (tc_node_memories){arena, tc_map_create(arena)};
    TC_TRY(env->runtime->foresee(env->runtime->user, model, out_memories, out_footprint, &planned));
    return planned ? TC_OK : refuse_open(env, model->graph);
}

/* --- a graph that can be planned ---------------------------------------------------------------- */

static bool runs_as_it_is(const tc_node_memories *memories, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_node_memory *m = node->outputs[i] ? tc_map_get(memories->by_result, node->outputs[i]->name) : NULL;
        if (m)
            return strcmp(m->op_type, node->op_type) == 0 && strcmp(m->domain, node->domain) == 0;
    }
    return true;
}

static tc_status inline_node(tc_pass_env *env, tc_model *model, tc_node *node) {
    tc_function *function = tc_model_function(model, node->domain, node->op_type, node->overload);
    if (!function)
        TC_TRY(tc_body_for(env->ctx, model, node, &function));
    return function ? tc_inline_call(env->ctx, node, function) : TC_OK;
}

/* Nodes in whose place the runtime would run others make room for these; each gets the first result that kernels write;
 * what nothing reads goes. */
static tc_status prepare(tc_pass_env *env, tc_model *model, const tc_node_memories *memories, bool *out_changed) {
    tc_graph *graph = model->graph;
    *out_changed = tc_remove_dead(graph) > 0;
    TC_FOR_NODES_SAFE(node, graph) {
        if (!runs_as_it_is(memories, node)) {
            TC_TRY(inline_node(env, model, node));
            *out_changed = true;
        } else if (node->n_outputs > 0 && !node->outputs[0]) {
            tc_node_add_output(node, 0, "unused", NULL);
            *out_changed = true;
        }
    }
    return *out_changed ? tc_infer_graph(env->ctx, graph) : TC_OK;
}

/* --- what is wanted ----------------------------------------------------------------------------- */

static tc_status initial_bytes(tc_pass_env *env, uint64_t *out_bytes) {
    const char *pass = env->ctx->pass; /* others ran meanwhile */
    TC_TRY(env->runtime->initial(env->runtime->user, out_bytes));
    env->ctx->pass = pass;
    return TC_OK;
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

/* --- the whole ---------------------------------------------------------------------------------- */

static void note_metadata(tc_pass_env *env, tc_model *model, const tc_plan_summary *s) {
    const char *text = tc_arena_printf(env->ctx->arena,
                                       "budget=%" PRIu64 " arena=%" PRIu64 " cost=%" PRIu64 " cost_before=%" PRIu64
                                       " costs=\"%s\" seed=%" PRId64 " clones=%u",
                                       s->budget, s->arena, s->cost_after, s->cost_before, s->costs,
                                       env->options->remat_seed, s->clones);
    tc_model_set_metadata(model, "tempo.plan", text);
}

/* What was emitted, counted as if somebody else had made it: without --recompute, which would ask for runs of what the
 * plan already runs again. All runs of a unit are one there, so that no more is live. */
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
    TC_TRY(tc_budget_foresee(env, arena, model, &memories, &footprint));
    TC_TRY(tc_budget_make(&plain, arena, model->graph, &memories, costs, &again));
    const char *wrong = tc_remat_check(&again.problem);
    if (wrong)
        return tc_error(env->ctx, TC_BUG, NULL, "the plan that was written is wrong: %s", wrong);
    tc_remat_simulate(&again.problem, again.problem.steps, again.problem.n_steps, NULL, &live);
    if (live.cost != plan->live.cost || live.peak_bytes > plan->live.peak_bytes || footprint.arena != plan->arena)
        return tc_error(env->ctx, TC_BUG, NULL,
                        "the plan that was written needs %" PRIu64 " bytes, %" PRIu64 " live, at a cost of %" PRIu64
                        "; planned were %" PRIu64 ", %" PRIu64 " and %" PRIu64,
                        footprint.arena, live.peak_bytes, live.cost, plan->arena, plan->live.peak_bytes,
                        plan->live.cost);
    s->arena = footprint.arena;
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
    tc_error(ctx, TC_LIMIT, NULL, "a memory budget of %s was missed: the best plan found allocates %s",
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
    const tc_costs *costs;     /* NULL: not open yet */
    tc_node_memories memories; /* these two by foresee */
    tc_footprint footprint;
    tc_budget b;
} job;

/* Which searches are not worth it: the graph fits, and nobody asks for other things. */
static bool fits(const job *j) {
    bool is_min = strcmp(j->env->options->memory_budget, "min") == 0;
    return !is_min && j->footprint.arena <= j->wanted && j->env->options->n_recompute == 0;
}

/* Of the nodes of the file: the given schedule has what --recompute names twice already. */
static uint64_t cost_of_file(const tc_budget *b) {
    uint64_t cost = 0;
    for (uint32_t at = 0; at < b->units.n_nodes; at++) {
        uint32_t node = b->node_of[b->units.unit_of[at]];
        cost += node != TC_REMAT_NONE ? b->problem.nodes[node].cost : 0;
    }
    return cost;
}

static void note_before(const job *j) {
    uint32_t node;
    j->s->floor = tc_remat_floor(&j->b.problem, &node);
    j->s->cost_before = j->s->cost_after = cost_of_file(&j->b);
    j->s->peak_before = j->s->peak_after = j->footprint.bound;
    j->s->arena = j->footprint.arena;
    j->s->costs = tc_costs_source(j->costs);
}

static tc_status foresee(job *j) { return tc_budget_foresee(j->env, j->arena, j->model, &j->memories, &j->footprint); }

/* The problem of the model, which was foreseen, and is prepared for a search, unless it stays `as_it_is`. */
static tc_status open_problem(job *j, bool as_it_is) {
    tc_pass_env *env = j->env;
    bool changed = false;
    if (!as_it_is)
        TC_TRY(prepare(env, j->model, &j->memories, &changed));
    if (changed)
        TC_TRY(foresee(j));
    if (!j->costs)
        TC_TRY(tc_costs_open(env, j->model, &j->costs));
    TC_TRY(tc_budget_make(env, j->arena, j->model->graph, &j->memories, j->costs, &j->b));
    const char *wrong = tc_remat_check(&j->b.problem);
    if (wrong)
        return tc_error(env->ctx, TC_BUG, NULL, "the problem of this graph is wrong: %s", wrong);
    note_before(j);
    return TC_OK;
}

static tc_status apply(const job *j, const tc_plan *plan) {
    tc_plan_summary *s = j->s;
    const tc_node **ran = TC_NEW_ARRAY(j->arena, const tc_node *, (size_t)plan->n_steps + 1);
    s->clones = tc_budget_emit(j->model->graph, &j->b, plan->steps, plan->n_steps, ran);
    s->cost_after = plan->live.cost;
    s->changed = true;
    TC_TRY(read_back(j->env, j->arena, j->model, j->costs, plan, s));
    TC_TRY(tc_budget_tell(j->env, j->arena, &j->b, plan, ran, s));
    if (j->wanted == 0)
        s->budget = s->arena;
    note_metadata(j->env, j->model, s);
    return TC_OK;
}

/* The best plan, and the curve where one is wanted. A budget below the floor is refused without it. */
static tc_status search(job *j, tc_plan *out_plan) {
    tc_pass_env *env = j->env;
    const tc_aim aim = {.wanted = j->wanted, .label = ""};
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

static tc_status plan_graph(job *j) {
    TC_TRY(foresee(j));
    TC_TRY(wanted_bytes(j->env, &j->wanted));
    bool fit = fits(j);
    TC_TRY(open_problem(j, fit));
    j->s->budget = j->wanted;
    j->s->met = fit;
    if (fit)
        return TC_OK;
    tc_plan plan;
    TC_TRY(search(j, &plan));
    bool no_better = plan.arena >= j->footprint.arena && j->env->options->n_recompute == 0;
    j->s->arena = no_better ? j->footprint.arena : plan.arena;
    if (no_better && j->wanted == 0)
        j->s->budget = j->footprint.arena;
    if (!j->s->met && !j->s->stopped && !j->env->options->best_effort)
        return missed(j->env, &j->b, j->wanted, j->s);
    return no_better ? TC_OK : apply(j, &plan);
}

/* The curve of a graph that stays as it is: of a clone. */
static tc_status draw_alone(const job *j) {
    job c = {.env = j->env, .arena = j->arena, .s = TC_NEW(j->arena, tc_plan_summary), .costs = j->costs};
    tc_plan none = {0};
    uint64_t initial = 0;
    c.model = tc_model_clone(j->model);
    tc_status status = tc_infer_graph(j->env->ctx, c.model->graph);
    if (status == TC_OK)
        status = foresee(&c);
    if (status == TC_OK)
        status = initial_bytes(j->env, &initial);
    if (status == TC_OK)
        status = open_problem(&c, false);
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
                        "--memory-budget and --pareto need a runtime that tells what a graph takes");
    double start = now();
    tc_arena *arena = tc_arena_create();
    job j = {.env = env, .model = model, .arena = arena, .s = TC_NEW(env->ctx->arena, tc_plan_summary)};
    tc_status status = tc_infer_graph(env->ctx, model->graph);
    if (status == TC_OK && options->memory_budget) {
        status = plan_graph(&j);
        env->summary->plan = j.s;
    }
    if (status == TC_OK && options->pareto && !env->summary->pareto)
        status = draw_alone(&j);
    j.s->seconds = now() - start;
    tc_arena_destroy(arena);
    return status;
}
