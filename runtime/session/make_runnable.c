/* make_runnable.c: from a model as read to one whose ops have kernels: the canonical opset, and functions instead of
 * ops without a kernel. A function comes from the model, or, for an op of ai.tempo, from the compiler's bodies, which a
 * hook gives; these depend on shapes and are inserted when shapes are known. */
#include "session.h"
#include "compiler/ir/ops.h"
#include "compiler/ir/verify.h"
#include "compiler/cli/cli.h"
#include <string.h>

static tc_status to_canonical(tempo_session *s) {
    int64_t opset = tc_model_opset(s->model, "");
    if (s->hooks.upgrade)
        return s->hooks.upgrade(&s->ctx, s->model);
    if (opset != 0 && opset != TC_CANONICAL_OPSET) {
        tc_error(&s->ctx, TC_UNSUPPORTED, NULL, "the model is of opset %lld; the runtime takes opset %d",
                 (long long)opset, TC_CANONICAL_OPSET);
        tc_hint(&s->ctx, "convert it with: tempoc IN.onnx --passes=upgrade -o OUT.onnx");
        return TC_UNSUPPORTED;
    }
    return TC_OK;
}

static tc_status function_for(tempo_session *s, tc_model *model, const tc_node *node, bool typed,
                              const tc_function **out_function) {
    tc_function *body = NULL;
    *out_function = tc_model_function(model, node->domain, node->op_type, node->overload);
    if (*out_function || !typed || !s->hooks.body || !node->op || strcmp(node->op->domain, TC_TEMPO_DOMAIN) != 0)
        return TC_OK;
    TC_TRY(s->hooks.body(&s->ctx, model, node, &body));
    *out_function = body;
    return TC_OK;
}

tc_status rt_inline_missing(tempo_session *s, tc_model *model, bool typed, bool *out_changed) {
    tc_graph *graph = model->graph;
    for (tc_node *node = graph->first; node;) {
        const tc_function *function = NULL;
        if (!rt_has_kernel(s->shared.device, node))
            TC_TRY(function_for(s, model, node, typed, &function));
        if (!function) {
            node = node->next;
            continue;
        }
        /* The body replaces the call and may hold calls itself: go on at its first node. */
        tc_node *before = node->prev;
        TC_TRY(tc_inline_call(&s->ctx, node, function));
        node = before ? before->next : graph->first;
        *out_changed = true;
    }
    /* Kernels always have a first result to write: nodes that leave it out get an unused one. */
    TC_FOR_NODES(node, graph)
        if (node->n_outputs > 0 && !node->outputs[0])
            tc_node_add_output(node, 0, "unused", NULL);
    return TC_OK;
}

tc_status rt_make_runnable(tempo_session *s) {
    bool changed = false;
    tc_part_own_functions(&s->ctx, s->model);
    TC_TRY(to_canonical(s));
    if (s->random.ort)
        TC_TRY(rt_draw_ort_masks(s));
    TC_TRY(rt_inline_missing(s, s->model, false, &changed));
    return tc_verify_ops(&s->ctx, s->model->graph);
}
