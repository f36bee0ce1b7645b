/* lower.c: ops of ai.tempo -> standard ops. Every op of ai.tempo is replaced by its function body, so that later
 * passes, and any runtime, see standard ops, and saved values are those of standard ops. Constants of the bodies are
 * folded. Equal nodes are not merged: a node shared by bodies of the forward and the backward pass would keep its
 * result between them. */
#include "compiler/ir/ops.h"
#include "passes/canonical/canonical.h"
#include <string.h>

static bool is_tempo(void *user, const tc_node *node, const tc_function *function) {
    (void)user;
    (void)function;
    return strcmp(node->domain, TC_TEMPO_DOMAIN) == 0;
}

/* The tensor that the value is computed from, by first operands; for a Where, by the operand for a true condition. */
static const tc_tensor *computed_of(const tc_value *value) {
    while (value && !tc_value_constant(value) && value->producer)
        value = tc_input(value->producer, tc_node_is(value->producer, "", "Where") ? 1 : 0);
    return value ? tc_value_constant(value) : NULL;
}

/* A mask with a Dropout's seed gets its ratio as well, which is folded into the threshold later: bodies_dropout.c. */
static void mark_ratios(tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        const tc_tensor *ratio = tc_attr_find(node, TC_SEED_MARK) ? computed_of(tc_input(node, 1)) : NULL;
        if (ratio && ratio->data && tc_dtype_is_float(ratio->dtype))
            tc_attr_set_float(node, TC_RATIO_MARK, (float)tc_tensor_get(ratio, 0));
    }
}

static void forget_domain(tc_model *model) {
    size_t kept = 0;
    for (size_t i = 0; i < model->n_functions; i++)
        if (strcmp(model->functions[i]->domain, TC_TEMPO_DOMAIN) != 0)
            model->functions[kept++] = model->functions[i];
    model->n_functions = kept;
    kept = 0;
    for (size_t i = 0; i < model->n_opsets; i++)
        if (strcmp(model->opsets[i].domain, TC_TEMPO_DOMAIN) != 0)
            model->opsets[kept++] = model->opsets[i];
    model->n_opsets = kept;
}

tc_status tc_pass_lower(tc_pass_env *env, tc_model *model) {
    TC_TRY(tc_pass_bodies(env, model));
    TC_TRY(tc_inline_all(env->ctx, model->graph, is_tempo, NULL, NULL));
    mark_ratios(model->graph);
    for (size_t i = 0; i < model->n_functions; i++)
        TC_TRY(tc_inline_all(env->ctx, model->functions[i]->body, is_tempo, NULL, NULL));
    forget_domain(model);
    return tc_canonicalize(env, model->graph, false);
}
