/* remat_knapsack.h: a yardstick for recomputation in a transformer: each layer keeps its operand and one of the sets of
 * values on the lower hull of bytes against cost, found by trying all sets; two neighbours of the hull are mixed over
 * the layers such that the budget is met. */
#ifndef REMAT_KNAPSACK_H
#define REMAT_KNAPSACK_H
#include "remat_graphs.h"

/* The cost of the cheapest such schedule whose simulated peak is no more than `budget`; UINT64_MAX: there is none. */
uint64_t knapsack_cost(const remat_graph *g, const transformer *shape, uint64_t budget);
#endif
