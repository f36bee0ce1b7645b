/* train_list.h: --train-list=FILE, the names of what is trained, and of nothing else: a line each, PyTorch's names (as
 * of named_parameters() with requires_grad) or the file's; blank lines and those that begin with # say nothing. A
 * parameter with several names, as a tied one has, may be listed under any. */
#ifndef TC_TRAIN_LIST_H
#define TC_TRAIN_LIST_H
#include "pass.h"

/* Reads the file into the summary, where the option is given; `model` is as the file holds it. TC_IO, or TC_BAD_INPUT
 * where it lists nothing or is no text. */
tc_status tc_train_list_read(tc_pass_env *env, const tc_model *model);

/* The initializer is listed under its own name, PyTorch's, or another one of the parameter that it holds; that is
 * remembered for tc_train_list_check. */
bool tc_train_list_has(const tc_train_list *list, const char *name, const char *torch);

/* When all initializers have been asked for: TC_BAD_INPUT naming file and line of what none of them is. */
tc_status tc_train_list_check(tc_pass_env *env, const tc_graph *graph);
#endif
