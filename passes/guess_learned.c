/* guess_learned.c: tells parameters from masks, scales and running statistics by what the graph does with them: masks
 * and scales are added to, multiplied with or selected into the operand of Softmax, or are the mask of Attention. */
#include "guess_learned.h"
#include "../compiler/memory/storage.h"
#include "../compiler/ops.h"
#include <ctype.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */
bool tc_has_parameter_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && isalpha((unsigned char)dot[1]);
}

/* --- masks, scales and statistics ------------------------------------------------------------- */
static bool is_scalar_gather(const tc_node *node) {
    return tc_node_is(node, "", "Gather") && tc_input(node, 1) && tc_value_rank(tc_input(node, 1)) == 0;
}

/* One row taken by its number is a part of a mask, as a slice is; rows that a list looks up are those of a table. */
static bool passes_mask(const tc_node *node) { return tc_node_has(node, TC_PASSES_MASK) || is_scalar_gather(node); }

/* A matrix of the file, or a view or transpose of it. */
static bool shows_matrix(const tc_value *value) {
    const tc_value *source = value ? tc_value_source(value) : NULL;
    return source && source->init && tc_value_rank(source) >= 2;
}

static bool is_vector(const tc_value *value) { return value && value->init && tc_value_rank(value) == 1; }

static bool is_number(const tc_value *value) {
    const tc_tensor *constant = value ? tc_value_constant(value) : NULL;
    return constant && constant->count == 1;
}

/* Before a scale: x for x c and x / c. */
static const tc_value *unscaled(const tc_value *value) {
    while (value && value->producer) {
        const tc_node *node = value->producer;
        bool mul = tc_node_is(node, "", "Mul"),
             by_second = (mul || tc_node_is(node, "", "Div")) && is_number(tc_input(node, 1));
        if (!by_second && !(mul && is_number(tc_input(node, 0))))
            break;
        value = tc_input(node, by_second ? 0 : 1);
    }
    return value;
}

/* A vector added to x W is a layer's bias also where a Softmax follows, raised to attention with W as its keys or not;
 * scores are products of two activations. */
static bool is_layer_bias(const tc_node *node, uint32_t index) {
    if (tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttention"))
        return index == 3 && is_vector(tc_input(node, 3)) && !tc_input(node, 4) && shows_matrix(tc_input(node, 1));
    if (!tc_node_is(node, "", "Add") || index > 1 || !is_vector(tc_input(node, index)))
        return false;
    const tc_value *product = unscaled(tc_input(node, 1 - index));
    return product && product->producer && tc_node_is(product->producer, "", "MatMul") &&
           shows_matrix(tc_input(product->producer, 1));
}

bool tc_is_learned_use(const tc_flow *flow, const tc_node *node, uint32_t index) {
    bool attention =
        tc_node_is(node, TC_TEMPO_DOMAIN, "Attention") || tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttention");
    if (tc_node_is(node, "", "Softmax") || (attention && index == 3 && !is_layer_bias(node, index)))
        return false;
    if (tc_node_is(node, "", "BatchNormalization") && (index == 3 || index == 4))
        return false;
    if (!passes_mask(node) || is_layer_bias(node, index))
        return true;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (tc_flow_has(flow, tc_output(node, i), TC_FLOW_DIRECT))
            return true;
    return false;
}
