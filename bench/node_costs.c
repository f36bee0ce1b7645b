/* node_costs.c MODEL.onnx TIMES.csv [MACHINE]: what nodes cost by the roofline of a machine (cpu) beside what they took
 * (`tempo-run MODEL.onnx --profile=TIMES.csv`), by op, as shares of a step. The model is one that tempoc has compiled
 * with static shapes. */
#include "compiler/onnx/onnx.h"
#include "compiler/ir/ops.h"
#include "compiler/cli/cli.h"
#include "compiler/shape/shape.h"
#include "passes/budget/node_cost.h"
#include <stdlib.h>

typedef struct op_sum {
    const char *op;
    uint32_t nodes;
    uint64_t predicted, taken;
} op_sum;

static int by_taken(const void *a, const void *b) {
    uint64_t x = ((const op_sum *)a)->taken, y = ((const op_sum *)b)->taken;
    return (x < y) - (x > y);
}

static tc_status open_costs(tc_ctx *ctx, const tc_model *model, tc_options options, const tc_costs **out_costs) {
    tc_summary summary = {0};
    tc_pass_env env = {.ctx = ctx, .options = &options, .summary = &summary};
    return tc_costs_open(&env, model, out_costs);
}

static void print(const op_sum *sums, size_t n, const op_sum *all) {
    printf("%-28s %6s %12s %7s %12s %7s\n", "op", "nodes", "roofline ms", "share", "measured ms", "share");
    for (size_t i = 0; i < n; i++)
        if (sums[i].predicted > 0 || sums[i].taken > 0)
            printf("%-28s %6u %12.3f %6.1f%% %12.3f %6.1f%%\n", sums[i].op, sums[i].nodes,
                   1e-6 * (double)sums[i].predicted, 100.0 * (double)sums[i].predicted / (double)all->predicted,
                   1e-6 * (double)sums[i].taken, 100.0 * (double)sums[i].taken / (double)all->taken);
    printf("%-28s %6u %12.3f %7s %12.3f\n", "all", all->nodes, 1e-6 * (double)all->predicted, "",
           1e-6 * (double)all->taken);
}

static tc_status run(tc_ctx *ctx, int argc, char **argv) {
    tc_model *model;
    const tc_costs *roofline, *measured;
    if (argc < 3 || argc > 4)
        return tc_error(ctx, TC_USAGE, NULL, "usage: node_costs MODEL.onnx TIMES.csv [MACHINE]");
    const char *machine = argc > 3 ? argv[3] : NULL;
    TC_TRY(tc_read_file(ctx, argv[1], &model));
    TC_TRY(tc_infer_graph(ctx, model->graph));
    TC_TRY(open_costs(ctx, model, (tc_options){.machine = machine}, &roofline));
    TC_TRY(open_costs(ctx, model, (tc_options){.machine = machine, .cost = argv[2]}, &measured));
    op_sum *sums = TC_NEW_ARRAY(ctx->arena, op_sum, tc_op_count()), all = {0};
    TC_FOR_NODES(node, model->graph) {
        if (!node->op)
            continue;
        op_sum *sum = &sums[node->op->index],
               one = {node->op->name, 1, tc_node_cost(roofline, node), tc_node_cost(measured, node)};
        *sum = (op_sum){one.op, sum->nodes + 1, sum->predicted + one.predicted, sum->taken + one.taken};
        all = (op_sum){"", all.nodes + 1, all.predicted + one.predicted, all.taken + one.taken};
    }
    qsort(sums, tc_op_count(), sizeof *sums, by_taken);
    print(sums, tc_op_count(), &all);
    tc_model_destroy(model);
    return TC_OK;
}

int main(int argc, char **argv) { return tc_program("node_costs", run, argc, argv); }
