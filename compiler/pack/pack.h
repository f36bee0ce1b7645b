/* pack.h: where buffers lie in an arena: the problem as numbers, and its solution */
#ifndef TC_PACK_H
#define TC_PACK_H
#include "plan_exact.h"
#include "plan_problem.h"
#endif
