/* node_cost.c: the roofline of a machine, or one unit for each node that runs. */
#include "node_cost.h"
#include "node_work.h"
#include <string.h>

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

struct tc_costs {
    const machine *machine; /* NULL: each node that runs costs 1 */
    const char *source;
};

const char *tc_machine_names(tc_arena *arena) {
    const char *names = machines[0].name;
    for (size_t i = 1; i < TC_COUNT(machines); i++)
        names = tc_arena_printf(arena, "%s, %s", names, machines[i].name);
    return names;
}

static tc_status find_machine(tc_ctx *ctx, const char *name, const machine **out_machine) {
    for (size_t i = 0; i < TC_COUNT(machines); i++)
        if (strcmp(machines[i].name, name) == 0) {
            *out_machine = &machines[i];
            return TC_OK;
        }
    tc_error(ctx, TC_USAGE, NULL, "there is no machine '%s'", tc_quote(ctx, name));
    tc_hint(ctx, "machines: %s", tc_machine_names(ctx->arena));
    return TC_USAGE;
}

/* --- the roofline ------------------------------------------------------------------------------- */

static uint64_t ceil_div(uint64_t a, uint32_t b) { return a / b + (a % b != 0); }

/* Of what the node computes with: its first operand of a float type, or result. */
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

static uint64_t roofline(const machine *m, const tc_node *node) {
    tc_work work = tc_node_work(node);
    uint64_t computing = ceil_div(work.flops, speed(m, computed_in(node), work.is_products)),
             moving = ceil_div(work.bytes, m->memory), most = UINT64_C(1) << 60,
             time = (computing > moving ? computing : moving) + m->launch;
    return time < most ? time : most;
}

/* --- costs -------------------------------------------------------------------------------------- */

tc_status tc_costs_open(tc_pass_env *env, const tc_model *model, const tc_costs **out_costs) {
    tc_ctx *ctx = env->ctx;
    const char *cost = env->options->cost ? env->options->cost : "roofline",
               *name = env->options->machine ? env->options->machine : machines[0].name;
    tc_costs *costs = TC_NEW(ctx->arena, tc_costs);
    (void)model;
    *out_costs = costs;
    TC_TRY(find_machine(ctx, name, &costs->machine));
    costs->source = tc_arena_printf(ctx->arena, "roofline of %s", name);
    if (strcmp(cost, "unit") == 0)
        *costs = (tc_costs){.source = "unit"};
    else if (strcmp(cost, "roofline") != 0)
        return tc_error(ctx, TC_USAGE, NULL, "costs are roofline or unit, not '%s'", tc_quote(ctx, cost));
    return TC_OK;
}

uint64_t tc_node_cost(const tc_costs *costs, const tc_node *node) {
    if (!tc_node_runs(node))
        return 0;
    return costs->machine ? roofline(costs->machine, node) : 1;
}

const char *tc_costs_source(const tc_costs *costs) { return costs->source; }
