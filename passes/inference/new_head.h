/* new_head.h: --head for a model as it was read, for --save. */
#ifndef TC_NEW_HEAD_H
#define TC_NEW_HEAD_H
#include "passes/pass/pass.h"

/* What the pass `head` does, but for types of values after the logits, which go: on any opset, and without messages
 * where it succeeds. Nothing where --head is not given. */
tc_status tc_replace_head(tc_pass_env *env, tc_model *model);
#endif
