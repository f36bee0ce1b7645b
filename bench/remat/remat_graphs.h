/* remat_graphs.h: training graphs as numbers, of any size, for tests and benchmarks of recomputation. */
#ifndef REMAT_GRAPHS_H
#define REMAT_GRAPHS_H
#include "compiler/remat/remat.h"

/* A problem that is being put together. Running out of memory ends the program. */
typedef struct remat_graph {
    tc_remat_problem problem; /* complete after graph_end */
    tc_remat_node *nodes;
    tc_remat_value *values;
    uint32_t *steps;
    uint32_t n_nodes, max_nodes, n_values, max_values;
    uint32_t turn; /* the first step of the backward pass */
    bool unit_costs;
} remat_graph;

#define GRAPH_LIST(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

uint32_t graph_value(remat_graph *g, uint64_t bytes, bool is_output);
/* Operands and results, at least one each, are copied. Runs after the node before it. */
uint32_t graph_node(remat_graph *g, uint64_t cost, const uint32_t *inputs, size_t n_inputs, const uint32_t *outputs,
                    size_t n_outputs);
/* The node's result may lie over its operand, as far as both reach. */
void graph_over(remat_graph *g, uint32_t node, uint32_t operand, uint32_t result);
/* Of nodes that make the same the given schedule runs the first. */
void graph_end(remat_graph *g);
void graph_free(remat_graph *g);

typedef struct transformer {
    uint32_t layers, batch, length, width, heads;
    bool overs;      /* results lie over operands where a kernel can do so */
    bool forms;      /* gradients of attention that make their map again */
    bool unit_costs; /* each node costs 1 */
} transformer;

/* 63 nodes for each layer, 23 of them in the forward pass, and two more; costs are nanoseconds of a machine with 15
 * Tflop/s and 900 GB/s, and 5 microseconds for each launch. */
void graph_transformer(remat_graph *g, const transformer *shape);
/* Convolutions, norms and rectifiers in `stages` of `blocks` residual blocks, each stage at half the resolution. With
 * `skips` (a U-Net) the same way back, and each stage reads what the first way made at its resolution. */
void graph_convolutions(remat_graph *g, uint32_t stages, uint32_t blocks, bool skips);
/* Layers of random widths, edges between neighbours and one in seven further on; sizes up to 4000, costs below 1000;
 * the last layer's values are outputs. After W. Gagrani et al., "Neural Topological Ordering for Computation Graphs",
 * NeurIPS 2022, appendix A. At least two nodes a layer. */
void graph_random(remat_graph *g, uint32_t n_nodes, uint32_t layers, uint32_t seed);
#endif
