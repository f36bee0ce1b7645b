/* train_list.h: the names of what is trained, and of nothing else: a line each, PyTorch's names (as of
 * named_parameters() with requires_grad) or the file's; blank lines and those that begin with # say nothing. A
 * parameter with several names, as a tied one has, may be listed under any. --train-list=FILE gives the list, else the
 * model's metadata, under the key tempo.train, which whoever exports may write. */
#ifndef TC_TRAIN_LIST_H
#define TC_TRAIN_LIST_H
#include "passes/pass/pass.h"

#define TC_TRAIN_KEY "tempo.train"

/* Reads the list into the summary, where there is one; `model` is as the file holds it. TC_IO, TC_BAD_INPUT where it
 * lists nothing or is no text, or TC_LIMIT where the metadata have more than 16 MiB of it. */
tc_status tc_train_list_read(tc_pass_env *env, const tc_model *model);

/* The initializer is listed under its own name, PyTorch's, or another one of the parameter that it holds; that is
 * remembered for tc_train_list_check. */
bool tc_train_list_has(const tc_train_list *list, const char *name, const char *torch);

/* "--train-list", or the key: where the list is from. */
const char *tc_train_list_origin(const tc_train_list *list);

/* When all initializers have been asked for: TC_BAD_INPUT naming the list and the line of what none of them is. */
tc_status tc_train_list_check(tc_pass_env *env, const tc_graph *graph);
#endif
