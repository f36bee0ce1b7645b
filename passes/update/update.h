/* update.h: shared parts of the pass `update`. */
#ifndef TC_UPDATE_PARTS_H
#define TC_UPDATE_PARTS_H
#include "passes/gradients/gradients.h"
#include "passes/pass/pass.h"

typedef struct tc_update_method {
    const char *name, *op;
    uint32_t moments; /* state tensors of each weight */
} tc_update_method;
/* NULL: there is no such optimizer. update_options.c */
const tc_update_method *tc_update_method_of(const tc_update_options *options);
/* Reports that --clip-last cannot be combined with a loss scale, from --loss-scale, --precision=fp16, or the call
 * that made the file: TC_USAGE. */
tc_status tc_update_refuse_last(tc_ctx *ctx);

typedef struct tc_trained {
    tc_value *weight;
    tc_value *gradient; /* the gradient for the update: of this run, or the sum of several */
} tc_trained;

/* Everything that lives until the pass ends is in the context's arena. */
typedef struct tc_update {
    tc_pass_env *env;
    tc_graph *graph;
    tc_build g; /* makes nodes, at the end of the graph */
    const tc_update_method *method;
    const tc_update_options *options;
    tc_trained *list;
    size_t n;
    tc_value *rate;   /* tempo.rate */
    tc_value *number; /* of the update, from 1 on; below 0 if this run makes none, which `waits` allows */
    tc_value *scale;  /* the factor of all gradients; NULL: 1 */
    bool waits;
    tc_pair *pairs; /* metadata */
    size_t n_pairs, cap_pairs;
} tc_update;

/* A new graph input of exactly that name; TC_BAD_INPUT if the name is taken. */
tc_status tc_update_input(tc_update *u, const char *name, tc_dtype dtype, tc_value **out_input);
/* The same for a tensor that is kept from run to run and begins as zeros. */
tc_status tc_update_state(tc_update *u, const char *name, const tc_type *type, tc_value **out_state);
/* Result `index` of the node, new, becomes an output of that name, which the next run reads as the input; `name`
 * NULL: INPUT.new. */
tc_status tc_update_renew(tc_update *u, tc_node *node, uint32_t index, const char *name, tc_value *input);
/* The same for an existing value. update_scale.c */
tc_status tc_update_keep(tc_update *u, tc_value *value, const char *name, tc_value *input);
/* Gives a value that a node of this pass made that name and makes it an output. */
tc_status tc_update_show(tc_update *u, tc_value *value, const char *name);

/* Sets u->number, u->scale and u->waits, and may replace gradients by sums: clipping, unscaling, accumulation and
 * skipped updates. update_scale.c */
tc_status tc_update_scale(tc_update *u);
/* Makes norms in training update their running statistics, which become states. update_statistics.c */
tc_status tc_update_statistics(tc_update *u);
#endif
