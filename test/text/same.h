/* same.h: whether two models say the same: everything that ir.h has a field for, but for origins, ids and what
 * inference found. Tensors are compared by their bytes. */
#ifndef TC_TEST_SAME_H
#define TC_TEST_SAME_H
#include "compiler/ir/ir.h"

/* NULL when they do; else what differs first, as a path ("graph/node 3 Add/attr axis"), in `arena`. */
const char *same_models(tc_arena *arena, const tc_model *a, const tc_model *b);
#endif
