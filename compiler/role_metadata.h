/* role_metadata.h: how a file keeps the roles of values (tc_value.role), in the model's metadata:
 *
 *   tempo.loss             the output that is the loss
 *   tempo.gradient.OUTPUT  the parameter or input that the output is the gradient of; "" where that is not known
 *   tempo.backward.VALUE   "": an input that a gradient enters the graph by, or an output that depends on one */
#ifndef TC_ROLE_METADATA_H
#define TC_ROLE_METADATA_H
#include "ir.h"

/* Marks what the model's metadata say, once its graph has been read. What names no input or output is passed over. */
void tc_roles_read(tc_model *model);
/* The model's metadata with what the marks say: pairs that still hold stay where they are. In `arena`. */
const tc_pair *tc_roles_metadata(tc_arena *arena, const tc_model *model, size_t *out_count);
#endif
