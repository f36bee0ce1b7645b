/* pipeline.h: runs passes over a model: a recipe, or a list of passes. */
#ifndef TC_PIPELINE_H
#define TC_PIPELINE_H
#include "passes/pass/pass.h"

const tc_pass *tc_pass_find(const char *name);
size_t tc_pass_count(void);
const tc_pass *tc_pass_at(size_t index);

/* The names in options (passes, recipe, dumps) exist and --dim reads NAME=VALUE: TC_USAGE else, before any file is
 * touched. */
tc_status tc_pipeline_check(tc_ctx *ctx, const tc_options *options);

/* Runs options->passes (or the recipe's list): dumps, verifies and times as asked. */
tc_status tc_pipeline_run(tc_pass_env *env, tc_model *model);

/* The model as read, another copy, becomes the graph by which it is judged, by the recipe `evaluate` and what else
 * env->options say; the initializers of these names, of the training graph, become inputs with that default, as far as
 * this graph has them. env->summary stays as it is. evaluate.c */
tc_status tc_evaluation_model(tc_pass_env *env, tc_model *model, const char *const *weights, size_t n);
#endif
