/* chunk.c: the last product of a classifier and its cross-entropy become LinearCrossEntropy, whose kernel makes loss
 * and gradients chunk by chunk of rows. The rules are text: rules/loss.rules. */
#include "../compiler/ops.h"
#include "rules/rules.h"

tc_status tc_pass_chunk(tc_pass_env *env, tc_model *model) {
    tc_rule_set *rules = tc_rules_create();
    tc_status status = tc_rules_load(env, "loss.rules", false, rules);
    tc_rules_from_end(rules);
    if (status == TC_OK)
        status = tc_rules_apply(env, model->graph, rules, NULL);
    tc_rules_destroy(rules);
    tc_remove_dead(model->graph);
    return status;
}
