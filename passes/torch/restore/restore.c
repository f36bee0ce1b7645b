/* restore.c: the pass that restores training behaviour that PyTorch's dynamo exporter lost, as far as the file shows
 * it: nodes keep the calls that they came from (torch_calls.h). It runs before all others, so that violations of
 * ONNX's rules are corrected before the checks, and restored Dropouts are counted among those of the file. Files of
 * other exporters have no calls and stay as they are, except for attention's dropout, the corners of resizes and the
 * norms of PEFT's DoRA in TorchScript files. */
#include "restore.h"
#include <string.h>

/* The graph is not checked yet: nodes without their first operand or result are skipped; the checks refuse them. */
static void read_calls(tc_restore *r) {
    r->by_result = tc_map_create(r->arena);
    TC_FOR_NODES(node, r->graph) {
        tc_torch_call call;
        if (!tc_input(node, 0) || !tc_output(node, 0) || !tc_torch_call_read(r->arena, node, &call))
            continue;
        uintptr_t at = (uintptr_t)tc_map_get(r->by_result, call.result);
        if (at == 0) {
            r->calls = tc_arena_grow(r->arena, r->calls, sizeof *r->calls, &r->cap, r->n + 1);
            r->calls[r->n++] = (tc_restore_call){.call = call};
            at = r->n;
            tc_map_set(r->by_result, call.result, (void *)at);
        }
        tc_restore_call *entry = &r->calls[at - 1];
        entry->nodes = tc_arena_grow(r->arena, entry->nodes, sizeof *entry->nodes, &entry->cap, entry->n + 1);
        entry->nodes[entry->n++] = node;
    }
}

tc_node *tc_restore_node(const tc_restore_call *call, const char *op_type) {
    for (size_t i = 0; i < call->n; i++)
        if (tc_node_is(call->nodes[i], "", op_type))
            return call->nodes[i];
    return NULL;
}

const char *tc_restore_target(const tc_restore *r, const char *word) {
    const tc_torch_input *input =
        r->signature && word && word[0] == '%' ? tc_map_get(r->signature->by_token, word + 1) : NULL;
    return input ? input->target : NULL;
}

tc_status tc_restore_refuse(const tc_restore *r, const tc_node *node, const char *text, const char *hint) {
    if (r->trains)
        tc_error(r->env->ctx, TC_UNSUPPORTED, node, "%s", text);
    else
        tc_warn(r->env->ctx, node, "%s", text);
    tc_hint(r->env->ctx, "%s", hint);
    return r->trains ? TC_UNSUPPORTED : TC_OK;
}

tc_status tc_pass_restore(tc_pass_env *env, tc_model *model) {
    tc_restore r = {.env = env,
                    .graph = model->graph,
                    .arena = env->ctx->arena,
                    .signature = tc_torch_signature_read(env->ctx->arena, model->graph),
                    .trains = tc_pipeline_has(env->options, "autodiff")};
    read_calls(&r);
    TC_TRY(tc_restore_batch_norm(&r));
    TC_TRY(tc_restore_corners(&r));
    TC_TRY(tc_restore_dora(&r));
    TC_TRY(tc_restore_dropout(&r));
    TC_TRY(tc_restore_faults(&r));
    TC_TRY(tc_restore_losses(&r));
    TC_TRY(tc_restore_renorm(&r)); /* tables that are detached only for it */
    TC_TRY(tc_restore_scatter(&r));
    TC_TRY(tc_restore_stop(&r));
    return tc_restore_smoothing(&r); /* scores whose gradients may stop */
}
