/* restore_dora.c: in files of TorchScript, which has no detach, gradients stop at the norm that PEFT's DoRA divides a
 * magnitude by: Div (q.lora_magnitude_vector.default.weight, norm). Files of dynamo name what is detached. */
#include "passes/autodiff/autodiff.h"
#include "passes/weights/weights.h"
#include "restore.h"
#include <string.h>

tc_status tc_restore_dora(tc_restore *r) {
    size_t n = 0;
    TC_FOR_NODES(node, r->graph) {
        const tc_value *magnitude = tc_input(node, 0);
        tc_value *norm = tc_input(node, 1);
        if (r->signature || !r->trains || !magnitude || !magnitude->init || !norm || !tc_node_is(node, "", "Div") ||
            !strstr(magnitude->name, ".lora_magnitude_vector.") ||
            tc_peft_kind_of(r->env, magnitude->name, magnitude->learned) != TC_PEFT_ADAPTER)
            continue;
        tc_node_set_input(node, 1, tc_stopped(r->env, norm));
        n++;
    }
    if (n)
        tc_note(r->env->ctx, NULL, "gradients stop at %zu norms of PEFT's DoRA, which PyTorch detached", n);
    return TC_OK;
}
