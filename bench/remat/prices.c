/* prices.c: what recomputation costs: one line for each budget, found by prices alone; for a transformer beside the
 * knapsack over its layers.
 *
 *   prices [--budgets=50,25,15] [--work=N] GRAPH...
 *
 * A graph is tf24 (a transformer of 24 layers; tf24u: each node costs 1, tf24o: results over operands, tf24f: two forms
 * of attention's gradient), conv4 (residual blocks of convolutions, 4 in each stage), unet3 or random500 (nodes). */
#include "compiler/remat/remat.h"
#include "remat_graphs.h"
#include "remat_knapsack.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct settings {
    const char *budgets;
    uint64_t work;
} settings;

static uint32_t number(const char *name, const char *prefix) { return (uint32_t)atoi(name + strlen(prefix)); }
static bool begins(const char *name, const char *prefix) { return strncmp(name, prefix, strlen(prefix)) == 0; }

/* Whether there is such a graph; `shape` has layers if it is a transformer. */
static bool make_graph(remat_graph *g, const char *name, transformer *shape) {
    *shape = (transformer){.batch = 8, .length = 512, .width = 1024, .heads = 16};
    if (begins(name, "tf")) {
        shape->layers = number(name, "tf");
        shape->unit_costs = strchr(name, 'u');
        shape->overs = strchr(name, 'o');
        shape->forms = strchr(name + 2, 'f');
        graph_transformer(g, shape);
        return shape->layers > 1;
    }
    if (begins(name, "conv"))
        graph_convolutions(g, 4, number(name, "conv"), false);
    else if (begins(name, "unet"))
        graph_convolutions(g, 4, number(name, "unet"), true);
    else if (begins(name, "random"))
        graph_random(g, number(name, "random"), number(name, "random") / 20 + 2, 1);
    else
        return false;
    return true;
}

static double percent(uint64_t a, uint64_t b) { return 100 * (double)a / (double)b; }

static bool try_budget(const remat_graph *g, const transformer *shape, const tc_remat_live *given, double part,
                       uint64_t work) {
    tc_remat_schedule found;
    uint64_t budget = (uint64_t)(part / 100 * (double)given->peak_bytes);
    clock_t begin = clock();
    tc_remat_status status = tc_remat_prices(&g->problem, budget, TC_REMAT_NONE, work, NULL, &found);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (status != TC_REMAT_OK || tc_remat_check_steps(&g->problem, found.steps, found.n_steps))
        return false;
    printf("%10.1f%% %8.2f%% %9.2f%% %8u %9.3f", part, percent(found.live.peak_bytes, given->peak_bytes),
           percent(found.live.cost, given->cost) - 100, found.n_steps, seconds);
    uint64_t knapsack = shape->layers > 0 && !shape->forms ? knapsack_cost(g, shape, budget) : UINT64_MAX;
    if (knapsack != UINT64_MAX)
        printf(" %9.2f%%", percent(knapsack, given->cost) - 100);
    printf("%s\n", found.live.peak_bytes > budget ? "  missed" : "");
    tc_remat_schedule_free(&found);
    return true;
}

static bool try_graph(const char *name, const settings *how) {
    remat_graph g = {0};
    transformer shape;
    tc_remat_live given;
    if (!make_graph(&g, name, &shape) || tc_remat_check(&g.problem) ||
        tc_remat_simulate(&g.problem, g.steps, g.problem.n_steps, NULL, &given) != TC_REMAT_OK) {
        fprintf(stderr, "prices: %s: no such graph\n", name);
        graph_free(&g);
        return false;
    }
    uint32_t node;
    printf("%s: %u nodes, floor %.1f%%\n%11s %9s %10s %8s %9s %10s\n", name, g.n_nodes,
           percent(tc_remat_floor(&g.problem, &node), given.peak_bytes), "budget", "peak", "more cost", "steps",
           "seconds", "knapsack");
    bool ok = true;
    for (const char *at = how->budgets; *at && ok; at += *at == ',') {
        char *end;
        ok = try_budget(&g, &shape, &given, strtod(at, &end), how->work) && end > at;
        at = end;
    }
    graph_free(&g);
    return ok;
}

int main(int argc, char **argv) {
    settings how = {"90,80,70,50,25,15", 0};
    bool ok = true;
    for (int i = 1; i < argc && ok; i++)
        if (begins(argv[i], "--budgets="))
            how.budgets = argv[i] + strlen("--budgets=");
        else if (begins(argv[i], "--work="))
            how.work = strtoull(argv[i] + strlen("--work="), NULL, 10);
        else
            ok = try_graph(argv[i], &how);
    return ok ? 0 : 1;
}
