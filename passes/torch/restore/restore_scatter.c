/* restore_scatter.c: the mean of scatter_reduce. The dynamo exporter writes a ScatterElements for it that neither
 * adds nor divides: the last element wins. The call shows the mean: `scatter_reduce(%x, 0, %index, %src, mean)`,
 * which is
 *
 *   (x + sums of src) / (1 + counts)
 * With include_self=False, elements of x that receive a value are replaced and do not count; the exporter writes
 * another ScatterElements for that before this one. Other elements stay as they are. */
#include "restore_nodes.h"
#include <string.h>

enum { REDUCTION = 4, INCLUDE_SELF = 5, DATA = 0, INDEX = 1 }; /* arguments of the call; ONNX's operands */

/* The node of the call that scatters src: the last. */
static tc_node *last_scatter(const tc_restore_call *call) {
    for (size_t i = call->n; i-- > 0;)
        if (tc_node_is(call->nodes[i], "", "ScatterElements"))
            return call->nodes[i];
    return NULL;
}

static tc_value *add_filled(tc_restore_nodes *nodes, tc_value *like, double number, tc_dtype dtype) {
    tc_value *filled =
        tc_restore_add(nodes, "ConstantOfShape", tc_restore_add(nodes, "Shape", like, NULL, NULL), NULL, NULL);
    tc_tensor *value = tc_tensor_create(nodes->r->graph->model, dtype, 1, (const int64_t[]){1}, NULL);
    tc_element_set(dtype, (void *)(uintptr_t)value->data, 0, number);
    tc_attr_set_tensor(filled->producer, "value", value);
    return filled;
}

static void add_up(tc_node *scatter, int64_t axis) {
    tc_attr_set_int(scatter, "axis", axis);
    tc_attr_set_string(scatter, "reduction", "add");
}

static void put_back(tc_restore *r, tc_node *scatter, tc_dtype dtype, bool with_self) {
    int64_t axis = tc_attr_int(scatter, "axis", 0);
    tc_restore_nodes nodes = tc_restore_after(r, scatter, "mean");
    tc_value *data = tc_input(scatter, DATA), *index = tc_input(scatter, INDEX),
             *result = tc_node_take_output(scatter, 0);
    add_up(scatter, axis);
    tc_value *sums = tc_node_add_output(scatter, 0, tc_arena_printf(r->arena, "%s_sums", result->name), result->type);
    tc_value *own = add_filled(&nodes, data, with_self, dtype), *ones = add_filled(&nodes, index, 1, dtype);
    tc_value *counts = tc_restore_add(&nodes, "ScatterElements", own, index, ones);
    add_up(counts->producer, axis);
    if (!with_self)
        counts = tc_restore_add(&nodes, "Max", counts, tc_restore_number(&nodes, dtype, 1), NULL);
    tc_node_set_output(tc_restore_add_node(&nodes, "Div", sums, counts, NULL), 0, result);
}

tc_status tc_restore_scatter(tc_restore *r) {
    const char **names = TC_NEW_ARRAY(r->arena, const char *, r->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const tc_torch_call *call = &r->calls[i].call;
        const char *reduction = tc_torch_call_argument(call, REDUCTION, "reduce");
        if (!tc_torch_call_is(call, "aten.scatter_reduce") || !reduction || strcmp(reduction, "mean") != 0 ||
            tc_restore_node(&r->calls[i], "Div"))
            continue;
        tc_node *scatter = last_scatter(&r->calls[i]);
        const char *with_self = tc_torch_call_argument(call, INCLUDE_SELF, "include_self");
        tc_dtype dtype = scatter ? tc_value_dtype(tc_output(scatter, 0)) : TC_UNDEFINED;
        dtype = dtype || !scatter ? dtype : tc_value_dtype(tc_input(scatter, DATA));
        if (!tc_dtype_is_float(dtype) || strcmp(tc_attr_string(scatter, "reduction", "none"), "none") != 0) {
            TC_TRY(tc_restore_refuse(r, r->calls[i].nodes[0], "the file lacks PyTorch's mean of scatter_reduce",
                                     "write it as scatter_add of the values, divided by scatter_add of ones"));
            continue;
        }
        put_back(r, scatter, dtype, !with_self || strcmp(with_self, "False") != 0);
        names[n++] = call->result;
    }
    if (n)
        tc_note(r->env->ctx, NULL, "the mean of %s is restored, as in PyTorch", tc_quote_list(r->env->ctx, names, n));
    return TC_OK;
}
