/* upgrade_ort_mend.c: mistakes that ONNX Runtime's training tools are known to make. Wrong gradients are found by what
 * the graph says of itself and mended with a warning: those of a model that was trained with them will differ from
 * ours.
 */
#include "upgrade_ort.h"
#include <string.h>

/* (shape, indices, dY). Embeddings of positions have one row of indices for the whole batch. Where the batch's size is
 * a symbol the tools take it for equal to 1 and leave out the sum over it: dY then has more rows than there are
 * indices. */
tc_status tc_ort_gather_grad(tc_upgrade *up, tc_node *node) {
    tc_value *indices = tc_input(node, 1), *dy = tc_input(node, 2);
    int rank = tc_value_rank(indices), wide = tc_value_rank(dy);
    int64_t axes[TC_MAX_RANK], axis = tc_attr_int(node, "axis", 0), n = 0;
    axis = axis < 0 && rank >= 0 ? axis + wide - rank + 1 : axis;
    for (int i = 0; i < rank && axis >= 0 && axis + i < wide; i++)
        if (tc_dim_equal(indices->type->dims[i], tc_dim_const(1)) &&
            !tc_dim_equal(dy->type->dims[axis + i], tc_dim_const(1)))
            axes[n++] = axis + i;
    if (n > 0) {
        tc_warn(up->ctx, node,
                "its dY has rows for each element of a batch, its indices '%s' have them once: summed; "
                "the training tools left that out",
                tc_quote(up->ctx, indices->name));
        dy = TC_EMIT(node, "ReduceSum", "summed", dy, tc_upgrade_ints(up, node, "repeated", axes, n));
        tc_attr_set_int(dy->producer, "keepdims", 1);
    }
    return TC_BECOME(node, TC_TEMPO_DOMAIN, "GatherGrad", tc_input(node, 0), indices, dy);
}

/* (dY, X): the gradient of Gelu at opset 20 carries no attribute, so that of its tanh form comes out as that of the
 * exact one. The Gelus that read X tell which it is. */
tc_status tc_ort_gelu_grad(tc_upgrade *up, tc_node *node) {
    tc_value *x = tc_input(node, 1);
    bool tanh_form = false, exact_form = false;
    for (const tc_use *use = x ? x->uses : NULL; use; use = use->next) {
        if (!tc_node_is(use->user, "", "Gelu"))
            continue;
        bool is_tanh = strcmp(tc_attr_string(use->user, "approximate", "none"), "tanh") == 0;
        tanh_form = tanh_form || is_tanh;
        exact_form = exact_form || !is_tanh;
    }
    if (tanh_form && exact_form)
        return tc_error(up->ctx, TC_UNSUPPORTED, node,
                        "an exact Gelu and one by tanh read its X '%s': it does not say which it is the gradient of",
                        tc_quote(up->ctx, x->name));
    if (tanh_form) {
        tc_warn(up->ctx, node,
                "the Gelu that reads its X '%s' is the one by tanh, and so is the gradient here; the "
                "training tools take that of the exact one",
                tc_quote(up->ctx, x->name));
        tc_attr_set_string(node, "approximate", "tanh");
    }
    return TC_BECOME(node, TC_TEMPO_DOMAIN, "GeluGrad", tc_input(node, 0), x);
}

/* The optimizer left these names behind, and the optimizer of any later ONNX Runtime that finds the same pattern in the
 * compiled graph wants to give them again: it stops there. */
void tc_ort_free_names(tc_graph *graph) {
    static const char *const taken[] = {"splits", "squeeze_axes"};
    for (size_t i = 0; i < TC_COUNT(taken); i++) {
        tc_value *value = tc_graph_find(graph, taken[i]);
        const char *name = tc_arena_printf(graph->model->arena, "%s_of_tools", taken[i]);
        if (value && value->init && !value->is_input && value->n_graph_outputs == 0)
            tc_value_rename(value, tc_graph_unique_name(graph, name));
    }
}
