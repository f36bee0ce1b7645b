/* make_runnable.c: from a model as read to one whose ops have kernels: the canonical opset, and functions in place of
 * ops that no kernel does. A function comes from the model, or, for an op of ai.tempo, from the compiler's bodies,
 * which a hook gives; these depend on the shapes at hand and come in when shapes are known. */
#include "runtime/session/session.h"
#include "compiler/ir/ops.h"
#include "compiler/ir/verify.h"
#include "compiler/cli/ways_around.h"
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

/* What the element types of kernels.def are those of. */
static tc_dtype deciding_dtype(const tc_node *node) {
    const tc_value *decides = tc_input(node, 0);
    decides = decides ? decides : tc_output(node, 0);
    return decides ? tc_value_dtype(decides) : TC_UNDEFINED;
}

bool rt_has_kernel(const rt_device *device, const tc_node *node) {
    const rt_kernel_row *row = rt_kernel_for(node);
    tc_dtype dtype = deciding_dtype(node);
    uint32_t dtypes = row ? row->dtypes[device->kind] : 0;
    return dtype == TC_UNDEFINED ? dtypes != 0 : (dtypes >> dtype & 1) != 0;
}

/* Ops behind the node that the device has no kernel for either, each once: who moves a model to another device wants
 * to know them all. */
static void note_others(tc_ctx *ctx, const rt_device *device, const tc_node *first) {
    tc_map *told = tc_map_create(ctx->arena);
    const char *names = "";
    tc_map_set(told, first->op_type, told);
    for (const tc_node *node = first->next; node; node = node->next) {
        if (rt_has_kernel(device, node) || tc_map_get(told, node->op_type))
            continue;
        tc_map_set(told, node->op_type, told);
        names = tc_arena_printf(ctx->arena, "%s%s%s of %s", names, names[0] ? ", " : "", tc_quote(ctx, node->op_type),
                                tc_dtype_name(deciding_dtype(node)));
    }
    if (names[0])
        tc_note(ctx, NULL, "device '%s' has no kernel for these either: %s", device->name, names);
}

tc_status rt_tell_no_kernel(tc_ctx *ctx, const rt_device *device, const tc_node *node) {
    const rt_kernel_row *row = rt_kernel_for(node);
    const char *domain = node->domain[0] ? node->domain : "ai.onnx";
    if (row && device->kind != RT_CPU)
        tc_error(ctx, TC_UNSUPPORTED, node, "device '%s' has no %s kernel for this op", device->name,
                 tc_dtype_name(deciding_dtype(node)));
    else if (row)
        tc_error(ctx, TC_UNSUPPORTED, node, "there is no %s kernel for this op", tc_dtype_name(deciding_dtype(node)));
    else
        tc_error(ctx, TC_UNSUPPORTED, node,
                 "there is no kernel for op %s of domain %s, and the model has no function for it",
                 tc_quote(ctx, node->op_type), tc_quote(ctx, domain));
    const char *way = row ? NULL : tc_way_around(node);
    tc_hint(ctx, "%s%stempo-run --device=%s --list-kernels lists what there is", way ? way : "", way ? "; " : "",
            device->name);
    if (device->kind != RT_CPU)
        note_others(ctx, device, node);
    return TC_UNSUPPORTED;
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
        /* The body takes the call's place and may hold calls itself: go on at its first node. */
        tc_node *before = node->prev;
        TC_TRY(tc_inline_call(&s->ctx, node, function));
        node = before ? before->next : graph->first;
        *out_changed = true;
    }
    /* Kernels always have a first result to write: nodes that leave it out get one that nobody reads. */
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
