/* node_cost.h: the running time of nodes, which a plan weighs against bytes. By options->cost:
 *   roofline  the larger of flops over the machine's peak and bytes over its bandwidth, plus the time of a launch;
 *             machines.def has the machines (options->machine), node_work.h counts flops and bytes
 *   unit      1 for each node that runs a kernel, as papers count
 *   FILE      measured by `tempo-run --profile=FILE.csv`: measured_costs.h
 * Integer arithmetic, the same on every machine. Views, shape arithmetic and results known before a run cost 0. */
#ifndef TC_NODE_COST_H
#define TC_NODE_COST_H
#include "passes/pass/pass.h"

typedef struct tc_costs tc_costs;

/* The costs chosen by options->cost (NULL: roofline) and options->machine (NULL: cpu), in the context's arena. The
 * typed graph of `model` is to be planned: a note says how many of its nodes a file lacks. TC_USAGE: there is no
 * such machine; TC_IO, TC_BAD_INPUT: the file cannot be read, or has an invalid line. */
tc_status tc_costs_open(tc_pass_env *env, const tc_model *model, const tc_costs **out_costs);

/* One run of the node: nanoseconds, or 1 under `unit`. For a typed graph with static shapes; an unknown dim counts
 * as 1. At most 2^60. Nodes that a plan adds are known by their op and types, so that a clone costs the same as its
 * original. */
uint64_t tc_node_cost(const tc_costs *costs, const tc_node *node);

/* Of all nodes of the graph once; at most 2^62. */
uint64_t tc_graph_cost(const tc_costs *costs, const tc_graph *graph);

/* The source of the costs in reports: "roofline of a100", "unit", "profile.csv". */
const char *tc_costs_source(const tc_costs *costs);

/* TC_USAGE, and a list of the machines, unless machines.def has one of that name. */
tc_status tc_machine_check(tc_ctx *ctx, const char *name);
#endif
