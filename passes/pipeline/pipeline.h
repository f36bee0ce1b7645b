/* pipeline.h: runs passes over a model: a recipe, or a list of passes. */
#ifndef TC_PIPELINE_H
#define TC_PIPELINE_H
#include "passes/pass/pass.h"

const tc_pass *tc_pass_find(const char *name);
size_t tc_pass_count(void);
const tc_pass *tc_pass_at(size_t index);

/* The names in options (passes, recipe, dumps) exist and --dim reads NAME=VALUE; else TC_USAGE, before any file is
 * touched. */
tc_status tc_pipeline_check(tc_ctx *ctx, const tc_options *options);

/* Runs options->passes (or the recipe's list), with dumps, verification and times as requested. */
tc_status tc_pipeline_run(tc_pass_env *env, tc_model *model);

/* Turns another copy of the model as read into its evaluation graph, by the recipe `evaluate` and other settings of
 * env->options. The initializers of these names, of the training graph, become inputs with that default if this
 * graph has them. env->summary stays as it is. evaluate.c */
tc_status tc_evaluation_model(tc_pass_env *env, tc_model *model, const char *const *weights, size_t n);

/* Turns off dropout, and has batch normalization use its running statistics, in a graph of opset 14 or later and in
 * graphs nested in it. Nodes stay where they are in inference mode already; with `idle`, Dropouts of that kind become
 * Identity, too. evaluate.c */
void tc_leave_training(tc_graph *graph, bool idle);
#endif
