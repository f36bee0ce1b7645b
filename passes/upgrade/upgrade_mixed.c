/* upgrade_mixed.c: norms whose operands have two float types, as in mixed precision: 16-bit activations beside
 * scale, bias and statistics in float, or the other way round. PyTorch exports them so, although ai.onnx allows it
 * only for BatchNormalization. They become norms of the wider type between Casts. */
#include "upgrade.h"
#include <string.h>

enum { AS_IT_IS = -1, RESULTS = 3 };

typedef struct row {
    const char *domain, *op;
    uint32_t operands; /* in our ops, the first so many have one type */
    int of[RESULTS];   /* the operand whose type a result has if the file does not say */
    bool in_pairs;     /* ONNX gives one type to operands 1 and 2, and one to 3 and 4 */
} row;

/* The type of X for PyTorch's and ONNX's LayerNormalization, the type of the scale for ONNX's RMSNormalization; in
 * ONNX Runtime's training_op_defs.cc each gradient has its operand's type. */
static const row rows[] = {
    {"", "BatchNormalization", 5, {0, 3, 3}, true},
    {"", "GroupNormalization", 3, {0, AS_IT_IS, AS_IT_IS}, false},
    {"", "InstanceNormalization", 3, {0, AS_IT_IS, AS_IT_IS}, false},
    {"", "LayerNormalization", 3, {0, AS_IT_IS, AS_IT_IS}, false},
    {TC_TEMPO_DOMAIN, "LayerNormalizationGrad", 3, {1, 2, 2}, false},
    {TC_TEMPO_DOMAIN, "RMSNormalization", 2, {1, AS_IT_IS, AS_IT_IS}, false},
    {TC_TEMPO_DOMAIN, "RMSNormalizationGrad", 3, {1, 2, AS_IT_IS}, false},
};

static bool is_half_value(const tc_value *value) {
    return tc_dtype_is_half(value->init ? value->init->dtype : tc_value_dtype(value));
}

static bool holds_half(const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_initializers; i++)
        if (is_half_value(graph->initializers[i]))
            return true;
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (is_half_value(graph->inputs[i]))
            return true;
    TC_FOR_NODES(node, graph)
        if (strcmp(node->op_type, "Cast") == 0 && tc_dtype_is_half((tc_dtype)tc_attr_int(node, "to", 0)))
            return true;
    return false;
}

bool tc_upgrade_may_mix(const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        if (strstr(node->op_type, "Normalization"))
            return holds_half(graph);
    return false;
}

/* Float for different 16-bit types, else the widest; TC_UNDEFINED: all have one type, or one is not known. */
static tc_dtype common_type(const tc_node *node, const row *r) {
    tc_dtype first = tc_value_dtype(tc_input(node, 0)), common = TC_FLOAT;
    bool mixed = false;
    for (uint32_t i = 0; i < r->operands && i < node->n_inputs; i++) {
        tc_dtype dtype = tc_value_dtype(tc_input(node, i));
        if (!tc_input(node, i))
            continue;
        if (!tc_dtype_is_float(dtype))
            return TC_UNDEFINED;
        if (r->in_pairs && i > 1 && i % 2 == 0 && dtype != tc_value_dtype(tc_input(node, i - 1)))
            return TC_UNDEFINED;
        mixed = mixed || dtype != first;
        common = dtype == TC_DOUBLE ? TC_DOUBLE : common;
    }
    return mixed ? common : TC_UNDEFINED;
}

static tc_dtype result_type(const tc_node *node, const row *r, uint32_t index) {
    if (r->of[index] == AS_IT_IS)
        return TC_UNDEFINED;
    tc_dtype told = tc_value_dtype(tc_output(node, index));
    return told != TC_UNDEFINED ? told : tc_value_dtype(tc_input(node, (uint32_t)r->of[index]));
}

static void cast_result(tc_node *node, uint32_t index, tc_dtype to) {
    tc_value *value = tc_node_take_output(node, index);
    tc_value *wide =
        tc_node_add_output(node, index, tc_arena_printf(node->graph->model->arena, "%s_wide", value->name), NULL);
    tc_node *cast = tc_node_create(node->graph, "", "Cast", 1, 1);
    tc_node_set_input(cast, 0, wide);
    tc_attr_set_int(cast, "to", to);
    tc_node_insert_after(cast, node);
    tc_node_set_output(cast, 0, value);
}

static void between_casts(tc_node *node, const row *r, tc_dtype common) {
    tc_dtype results[RESULTS];
    for (uint32_t i = 0; i < RESULTS; i++)
        results[i] = result_type(node, r, i);
    for (uint32_t i = 0; i < r->operands && i < node->n_inputs; i++) {
        tc_value *operand = tc_input(node, i);
        if (!operand || tc_value_dtype(operand) == common)
            continue;
        tc_value *wide = tc_upgrade_emit(node, "Cast", operand->name, &operand, 1);
        tc_attr_set_int(wide->producer, "to", common);
        tc_node_set_input(node, i, wide);
    }
    for (uint32_t i = 0; i < RESULTS && i < node->n_outputs; i++)
        if (node->outputs[i] && results[i] != TC_UNDEFINED && results[i] != common)
            cast_result(node, i, results[i]);
}

void tc_upgrade_mixed(tc_node *node) {
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        if (!tc_node_is(node, rows[i].domain, rows[i].op))
            continue;
        tc_dtype common = common_type(node, &rows[i]);
        if (common != TC_UNDEFINED)
            between_casts(node, &rows[i], common);
    }
}
