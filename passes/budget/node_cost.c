/* node_cost.c: the cost of a node: the roofline of a machine, one unit for each node that runs, or measured times. A
 * node without a measured time costs its roofline, in proportion to the measured nodes. */
#include "node_cost.h"
#include "compiler/ir/ops.h"
#include "measured_costs.h"
#include "node_work.h"
#include <string.h>
#include <strings.h>

typedef struct machine {
    const char *name;
    uint32_t f32, f64, f16, bf16; /* flops in a nanosecond */
    uint32_t memory;              /* bytes in a nanosecond */
    uint32_t launch;              /* nanoseconds */
} machine;

static const machine machines[] = {
#define MACHINE(name, f32, f64, f16, bf16, memory, launch, what) {#name, f32, f64, f16, bf16, memory, launch},
#include "machines.def"
#undef MACHINE
};

/* Measured times of nodes over their rooflines, in 1/1024. */
typedef uint64_t ratio;
enum { RATIO_ONE = 1024 };
#define RATIO_MOST (UINT64_C(1) << 30)

struct tc_costs {
    const machine *machine;      /* NULL: each node that runs costs 1 */
    const tc_measured *measured; /* NULL: nothing is measured */
    ratio all, *by_op;           /* [tc_op_count()], 0: no node of the op was measured */
    const char *source;
};

static const char *machine_names(tc_arena *arena) {
    const char *names = machines[0].name;
    for (size_t i = 1; i < TC_COUNT(machines); i++)
        names = tc_arena_printf(arena, "%s, %s", names, machines[i].name);
    return names;
}

static tc_status find_machine(tc_ctx *ctx, const char *name, const machine **out_machine) {
    for (size_t i = 0; i < TC_COUNT(machines); i++)
        if (strcasecmp(machines[i].name, name) == 0) {
            *out_machine = &machines[i];
            return TC_OK;
        }
    tc_error(ctx, TC_USAGE, NULL, "there is no machine '%s'", tc_quote(ctx, name));
    tc_hint(ctx, "machines: %s", machine_names(ctx->arena));
    return TC_USAGE;
}

tc_status tc_machine_check(tc_ctx *ctx, const char *name) {
    const machine *found;
    return find_machine(ctx, name, &found);
}

/* --- the roofline ------------------------------------------------------------------------------- */

static uint64_t ceil_div(uint64_t a, uint32_t b) { return a / b + (a % b != 0); }

/* The type of the node's computation: its first operand of a float type, or result. */
static tc_dtype computed_in(const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        tc_dtype dtype = tc_value_dtype(i < node->n_inputs ? tc_input(node, i) : tc_output(node, i - node->n_inputs));
        if (tc_dtype_is_float(dtype))
            return dtype;
    }
    return TC_FLOAT;
}

static uint32_t speed(const machine *m, tc_dtype dtype, bool is_products) {
    if (dtype == TC_DOUBLE)
        return m->f64;
    return !is_products ? m->f32 : dtype == TC_FLOAT16 ? m->f16 : dtype == TC_BFLOAT16 ? m->bf16 : m->f32;
}

#define MOST (UINT64_C(1) << 60)
static uint64_t roofline(const machine *m, const tc_node *node) {
    tc_work work = tc_node_work(node);
    uint64_t computing = ceil_div(work.flops, speed(m, computed_in(node), work.is_products)),
             moving = ceil_div(work.bytes, m->memory), time = (computing > moving ? computing : moving) + m->launch;
    return time < MOST ? time : MOST;
}

/* --- measured times ----------------------------------------------------------------------------- */

typedef struct proportion {
    uint64_t measured, roofline;
} proportion;

static void count_in(proportion *p, uint64_t measured, uint64_t by_roofline) {
    if (measured > TC_MEASURED_MOST - p->measured || by_roofline > TC_MEASURED_MOST - p->roofline)
        return;
    p->measured += measured;
    p->roofline += by_roofline;
}

static ratio ratio_of(const proportion *p) {
    ratio r = p->roofline > 0 ? RATIO_ONE * p->measured / p->roofline : 0;
    return r < RATIO_MOST ? r : RATIO_MOST;
}

static uint64_t scaled(uint64_t time, ratio r) {
    if (r == 0 || time > MOST / r)
        return r == 0 ? 1 : MOST / RATIO_ONE;
    return time * r / RATIO_ONE;
}

/* Sets the ratios from the graph's nodes and reports how many of them were not measured. */
static void compare(tc_ctx *ctx, const tc_graph *graph, tc_costs *costs) {
    proportion all = {0}, *by_op = TC_NEW_ARRAY(ctx->arena, proportion, tc_op_count());
    uint32_t missing = 0, run = 0;
    TC_FOR_NODES(node, graph) {
        if (!tc_node_runs(node))
            continue;
        uint64_t time = tc_measured_time(costs->measured, node);
        run++;
        missing += time == UINT64_MAX;
        if (time == UINT64_MAX)
            continue;
        count_in(&all, time, roofline(costs->machine, node));
        if (node->op)
            count_in(&by_op[node->op->index], time, roofline(costs->machine, node));
    }
    costs->all = missing < run ? ratio_of(&all) : RATIO_ONE;
    costs->by_op = TC_NEW_ARRAY(ctx->arena, ratio, tc_op_count());
    for (size_t i = 0; i < tc_op_count(); i++)
        costs->by_op[i] = ratio_of(&by_op[i]);
    if (missing > 0 && missing == run) {
        tc_warn(ctx, NULL, "%s has no time for any node: the roofline of %s is used", tc_quote(ctx, costs->source),
                costs->machine->name);
        tc_hint(ctx, "measure the compiled graph: tempo-run MODEL --profile=FILE.csv");
    } else if (missing > 0)
        tc_note(ctx, NULL, "%s has no time for %u of %u nodes: the roofline of %s in proportion to the others",
                tc_quote(ctx, costs->source), missing, run, costs->machine->name);
}

static uint64_t measured(const tc_costs *costs, const tc_node *node) {
    uint64_t time = tc_measured_time(costs->measured, node);
    if (time != UINT64_MAX)
        return time;
    ratio of_op = node->op ? costs->by_op[node->op->index] : 0;
    return scaled(roofline(costs->machine, node), of_op > 0 ? of_op : costs->all);
}

/* --- costs -------------------------------------------------------------------------------------- */

tc_status tc_costs_open(tc_pass_env *env, const tc_model *model, const tc_costs **out_costs) {
    tc_ctx *ctx = env->ctx;
    const char *cost = env->options->cost ? env->options->cost : "roofline",
               *name = env->options->machine ? env->options->machine : machines[0].name;
    tc_costs *costs = TC_NEW(ctx->arena, tc_costs);
    *out_costs = costs;
    TC_TRY(find_machine(ctx, name, &costs->machine));
    costs->source = tc_arena_printf(ctx->arena, "roofline of %s", costs->machine->name);
    if (strcmp(cost, "roofline") == 0)
        return TC_OK;
    costs->source = cost;
    if (strcmp(cost, "unit") == 0) {
        costs->machine = NULL;
        return TC_OK;
    }
    TC_TRY(tc_measured_read(ctx, cost, &costs->measured));
    compare(ctx, model->graph, costs);
    return TC_OK;
}

uint64_t tc_node_cost(const tc_costs *costs, const tc_node *node) {
    if (!tc_node_runs(node))
        return 0;
    return costs->measured ? measured(costs, node) : costs->machine ? roofline(costs->machine, node) : 1;
}

uint64_t tc_graph_cost(const tc_costs *costs, const tc_graph *graph) {
    uint64_t sum = 0;
    TC_FOR_NODES(node, graph) {
        sum += tc_node_cost(costs, node);
        sum = sum < 4 * MOST ? sum : 4 * MOST;
    }
    return sum;
}

const char *tc_costs_source(const tc_costs *costs) { return costs->source; }
