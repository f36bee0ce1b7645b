/* remat.h: which values to recompute: the problem as numbers, and the search for a schedule */
#ifndef TC_REMAT_H
#define TC_REMAT_H
#include "min_cut.h"
#include "remat_moves.h"
#include "remat_problem.h"
#include "remat_search.h"
#include "remat_turn.h"
#endif
