/* train_list.h: the names of all trained parameters: one per line, PyTorch's names (as of named_parameters() with
 * requires_grad) or the file's. Blank lines and lines that begin with # are ignored. A parameter with several names,
 * such as a tied one, may be listed under any. The list comes from --train-list=FILE, else from the model's
 * metadata, under the key tempo.train, which an export script may write. */
#ifndef TC_TRAIN_LIST_H
#define TC_TRAIN_LIST_H
#include "passes/pass/pass.h"

#define TC_TRAIN_KEY "tempo.train"

/* Reads the list into the summary, if there is one; `model` is as in the file. TC_IO; TC_BAD_INPUT if it has no
 * names or is no text; TC_LIMIT if the metadata have more than 16 MiB of it. */
tc_status tc_train_list_read(tc_pass_env *env, const tc_model *model);

/* Whether the initializer is listed under its own name, PyTorch's, or another one of the parameter that it holds;
 * recorded for tc_train_list_check. */
bool tc_train_list_has(const tc_train_list *list, const char *name, const char *torch);

/* It is that of --train-list, not of the file's metadata. */
bool tc_train_list_is_option(const tc_train_list *list);

/* "--train-list", or the key: the source of the list. */
const char *tc_train_list_origin(const tc_train_list *list);

/* After all initializers have been looked up: TC_BAD_INPUT with the list and the line of a name that matches none of
 * them. */
tc_status tc_train_list_check(tc_pass_env *env, const tc_graph *graph);
#endif
