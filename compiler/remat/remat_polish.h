/* remat_polish.h: removes what chance left in a schedule without use. */
#ifndef TC_REMAT_POLISH_H
#define TC_REMAT_POLISH_H
#include "remat_anneal.h"

/* Improves the best schedule of a walk until nothing helps any more: runs that are not needed are left out, the dearest
 * first; others are moved close to their first reader. */
tc_remat_status tc_remat_polish(tc_remat_walk *walk);
#endif
