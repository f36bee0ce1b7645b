/* upgrade_ort_mend.c: corrects known mistakes of ONNX Runtime's training tools. Wrong gradients are found by other
 * parts of the graph and corrected, with a warning: a model that was trained with them had other gradients than
 * ours. */
#include "upgrade_ort.h"
#include <string.h>

/* If dY's size is not known at all, a sum over one row does no harm, but a warning would be unfounded. */
tc_value *tc_ort_unrepeated(tc_upgrade *up, tc_node *node, tc_value *dy, const tc_dim *dims, int rank) {
    int64_t axes[TC_MAX_RANK], n = 0;
    bool told = false;
    for (int i = 0; i < rank && rank == tc_value_rank(dy); i++) {
        tc_dim theirs = dy->type->dims[i];
        if (!tc_dim_equal(dims[i], tc_dim_const(1)) || tc_dim_equal(theirs, tc_dim_const(1)))
            continue;
        axes[n++] = i;
        told = told || !tc_dim_is_unknown(theirs);
    }
    if (n == 0)
        return dy;
    if (told)
        tc_warn(up->ctx, node,
                "its dY '%s' has rows for each element of a batch, the forward pass has them once: they are "
                "summed, which the training tools omitted",
                tc_quote(up->ctx, dy->name));
    tc_value *sum = TC_EMIT(node, "ReduceSum", "summed", dy, tc_upgrade_ints(up, node, "repeated", axes, n));
    tc_attr_set_int(sum->producer, "keepdims", 1);
    return sum;
}

/* (shape, indices, dY): the leading dims of dY must be those of the indices. */
tc_status tc_ort_gather_grad(tc_upgrade *up, tc_node *node) {
    tc_value *indices = tc_input(node, 1), *dy = tc_input(node, 2);
    int rank = tc_value_rank(indices), wide = tc_value_rank(dy);
    tc_dim dims[TC_MAX_RANK];
    int64_t axis = tc_attr_int(node, "axis", 0);
    axis = axis < 0 && rank >= 0 ? axis + wide - rank + 1 : axis;
    if (rank >= 0 && axis >= 0 && axis + rank <= wide) {
        for (int i = 0; i < wide; i++)
            dims[i] = i >= axis && i < axis + rank ? indices->type->dims[i - axis] : dy->type->dims[i];
        dy = tc_ort_unrepeated(up, node, dy, dims, wide);
    }
    return TC_BECOME(node, TC_TEMPO_DOMAIN, "GatherGrad", tc_input(node, 0), indices, dy);
}

/* (dY, X): the gradient of Gelu at opset 20 has no attribute, so the gradient of the tanh variant comes out as that
 * of the exact one. The Gelus that read X show the variant. */
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
                        "an exact Gelu and a tanh Gelu read its X '%s': the gradient does not say which one "
                        "it belongs to",
                        tc_quote(up->ctx, x->name));
    if (tanh_form) {
        tc_warn(up->ctx, node,
                "the Gelu that reads its X '%s' is the tanh variant, so its gradient is used; the training "
                "tools use that of the exact one",
                tc_quote(up->ctx, x->name));
        tc_attr_set_string(node, "approximate", "tanh");
    }
    return TC_BECOME(node, TC_TEMPO_DOMAIN, "GeluGrad", tc_input(node, 0), x);
}

/* The optimizer left these names. When a later ONNX Runtime finds the same pattern in the compiled graph, its
 * optimizer creates these names again, and stops with an error. */
void tc_ort_free_names(tc_graph *graph) {
    static const char *const taken[] = {"splits", "squeeze_axes"};
    for (size_t i = 0; i < TC_COUNT(taken); i++) {
        tc_value *value = tc_graph_find(graph, taken[i]);
        const char *name = tc_arena_printf(graph->model->arena, "%s_of_tools", taken[i]);
        if (value && value->init && !value->is_input && value->n_graph_outputs == 0)
            tc_value_rename(value, tc_graph_unique_name(graph, name));
    }
}
