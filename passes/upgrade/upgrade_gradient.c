/* upgrade_gradient.c: converts Gradient of ai.onnx.preview.training, which names its values in attributes, into
 * Gradient of ai.tempo, which has them as operands, so that passes may rename and replace values: Gradient(y, xs...,
 * zs...). autodiff replaces it (gradient_requests.c).
 * The node's operands replace the values named in "xs" and "zs", and are normally the same values. If one is not,
 * the nodes between it and "y" are computed once more, from the operand. */
#include "compiler/memory/memory.h"
#include "passes/weights/weights.h"
#include "upgrade.h"

typedef struct names {
    const char **items;
    size_t n;
} names;

static tc_status read_names(tc_upgrade *up, const tc_node *node, const char *attr_name, names *out) {
    const tc_attr *attr = tc_attr_find(node, attr_name);
    *out = (names){0};
    if (!attr)
        return TC_OK;
    if (attr->kind != TC_ATTR_STRINGS || attr->ref)
        return tc_error(up->ctx, TC_BAD_INPUT, node, "attribute %s is not a list of names", attr_name);
    out->n = attr->count;
    out->items = TC_NEW_ARRAY(up->ctx->arena, const char *, attr->count);
    for (size_t i = 0; i < attr->count; i++)
        out->items[i] = tc_arena_strndup(up->ctx->arena, attr->strings[i].data, attr->strings[i].size);
    return TC_OK;
}

/* The value that attribute `attr` names; its producer comes before the node. */
static tc_status find_named(tc_upgrade *up, const tc_node *node, const char *attr, const char *name,
                            tc_value **out_value) {
    tc_value *value = *out_value = tc_map_get(node->graph->names, name);
    if (!value)
        return tc_error(up->ctx, TC_BAD_INPUT, node, "%s names \"%s\", which is not a value of the graph", attr,
                        tc_quote(up->ctx, name));
    if (value->producer && !tc_node_before(value->producer, node))
        return tc_error(up->ctx, TC_BAD_INPUT, node, "%s names \"%s\", which a later node makes", attr,
                        tc_quote(up->ctx, name));
    return TC_OK;
}

/* Operands `first` and up replace the named values: those that differ are added to `fed`. */
static tc_status match_operands(tc_upgrade *up, const tc_node *node, const char *attr, const names *list, size_t first,
                                tc_map *fed) {
    for (size_t i = 0; i < list->n; i++) {
        tc_value *named, *given = tc_input(node, (uint32_t)(first + i));
        TC_TRY(find_named(up, node, attr, list->items[i], &named));
        if (!given)
            return tc_error(up->ctx, TC_BAD_INPUT, node, "operand %zu, the value of \"%s\", is absent (\"\")",
                            first + i, tc_quote(up->ctx, list->items[i]));
        if (named != given)
            tc_map_set_ptr(fed, named, given);
        if (given->init)
            given->learned = TC_LEARNED_YES; /* it must not be taken for a constant, even if it is small */
    }
    return TC_OK;
}

static bool reads_fed(tc_arena *arena, const tc_node *node, const tc_map *fed) {
    tc_value **values;
    size_t n = tc_node_reads(arena, node, &values);
    for (size_t i = 0; i < n; i++)
        if (values[i] && tc_map_get_ptr(fed, values[i]))
            return true;
    return false;
}

/* Copies the nodes from fed values to y, before the node; returns the copy of y. */
static tc_value *compute_again(tc_upgrade *up, tc_node *node, tc_value *y, tc_map *fed) {
    tc_graph *graph = node->graph;
    const bool *needed = tc_needed_nodes(up->ctx->arena, graph, y);
    uint32_t n = up->model->next_id;
    for (tc_node *each = graph->first; each != node; each = each->next)
        if (each->id < n && needed[each->id] && reads_fed(up->ctx->arena, each, fed))
            tc_node_move_before(tc_node_clone(graph, each, fed), node);
    tc_value *again = tc_map_get_ptr(fed, y);
    return again ? again : y;
}

static void set_operands(tc_node *node, tc_value *y, size_t n_xs) {
    uint32_t n = node->n_inputs;
    tc_node_set_input(node, n, NULL);
    for (uint32_t i = n; i > 0; i--)
        tc_node_set_input(node, i, tc_input(node, i - 1));
    tc_node_set_input(node, 0, y);
    while (node->n_attrs > 0)
        tc_attr_remove(node, node->attrs[0].name);
    tc_attr_set_int(node, "xs", (int64_t)n_xs);
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "Gradient");
}

tc_status tc_ort_gradient(tc_upgrade *up, tc_node *node) {
    names xs, zs;
    tc_value *y;
    if (node->graph->parent)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "a Gradient in a nested graph is not supported");
    TC_TRY(read_names(up, node, "xs", &xs));
    TC_TRY(read_names(up, node, "zs", &zs));
    if (xs.n == 0 || node->n_inputs != xs.n + zs.n || node->n_outputs > xs.n)
        return tc_error(up->ctx, TC_BAD_INPUT, node,
                        "has %u operands and %u results, expected a value for each of %zu xs and %zu zs, and a "
                        "gradient for each of xs, of which there is one at least",
                        node->n_inputs, node->n_outputs, xs.n, zs.n);
    TC_TRY(find_named(up, node, "y", tc_attr_string(node, "y", ""), &y));
    tc_map *fed = tc_map_create(up->ctx->arena);
    TC_TRY(match_operands(up, node, "xs", &xs, 0, fed));
    TC_TRY(match_operands(up, node, "zs", &zs, xs.n, fed));
    if (tc_map_count(fed) > 0)
        y = compute_again(up, node, y, fed);
    set_operands(node, y, xs.n);
    return TC_OK;
}
