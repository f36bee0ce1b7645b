/* remat_moves.h: the random changes of a schedule that an annealing tries. */
#ifndef TC_REMAT_MOVES_H
#define TC_REMAT_MOVES_H
#include "remat_anneal.h"

/* Makes one random change, valid but not kept yet (tc_remat_keep, tc_remat_undo). A change that would cost more than
 * `most_cost` is not begun. False: nothing was changed. */
bool tc_remat_move(tc_remat_walk *walk, const tc_remat_course *course, double most_cost);
/* Whether nodes still run for the first time in the order that is fixed, if one is, with the node (TC_REMAT_NONE: none)
 * in the slot. */
bool tc_remat_order_allows(const tc_remat_walk *walk, uint32_t slot, uint32_t node);
#endif
