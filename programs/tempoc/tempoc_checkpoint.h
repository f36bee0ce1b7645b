/* tempoc_checkpoint.h: `tempoc --checkpoint`: weights from a file become those of the model as it is read. */
#ifndef TEMPOC_CHECKPOINT_H
#define TEMPOC_CHECKPOINT_H
#include "runtime/files/weights.h"

/* Every tensor becomes the default of the input of its name, or takes the place of the initializer of its name; the
 * model borrows the elements. TC_BAD_INPUT, with an error that names tensor and file, where there is neither, or where
 * it is of another type or shape. NULL: there is no such file, and nothing to do. */
tc_status tempoc_take_weights(tc_ctx *ctx, const rt_weights *weights, tc_model *model);
/* Notes which inputs of the model the file has not. */
void tempoc_tell_missing(tc_ctx *ctx, const rt_weights *weights, const tc_model *model);
#endif
