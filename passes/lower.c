/* lower.c: ops of ai.tempo -> standard ops. Every op of ai.tempo is replaced by its function body, so that later
 * passes, and any runtime, see the pieces, and saved values are those of standard ops. Constants that the bodies bring
 * are folded. Equal nodes are not merged, because bodies of the forward and the backward pass that share a node would
 * keep its result between them. */
#include "../compiler/ops.h"
#include "canonical.h"
#include <string.h>

static bool is_tempo(void *user, const tc_node *node, const tc_function *function) {
    (void)user;
    (void)function;
    return strcmp(node->domain, TC_TEMPO_DOMAIN) == 0;
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
    for (size_t i = 0; i < model->n_functions; i++)
        TC_TRY(tc_inline_all(env->ctx, model->functions[i]->body, is_tempo, NULL, NULL));
    forget_domain(model);
    return tc_canonicalize(env, model->graph, false);
}
