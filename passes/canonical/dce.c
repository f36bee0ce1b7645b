/* dce.c: the pass that removes dead nodes and initializers. */
#include "passes/pass/pass.h"

tc_status tc_pass_dce(tc_pass_env *env, tc_model *model) {
    (void)env;
    tc_remove_dead(model->graph);
    return TC_OK;
}
