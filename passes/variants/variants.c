/* variants.c: nodes with variants. A variant makes the same results, bit for bit, from other operands, or omits
 * results without readers. A table has the op of each, and the function that builds it. */
#include "passes/rules/rules.h"
#include "compiler/shape/shape.h"
#include "variants.h"

/* --- builders --------------------------------------------------------------------------------- */

static tc_node *tiled(tc_node *node) {
    tc_node *forward = tc_tileable_attention(node, NULL);
    bool can_draw = forward && (!tc_input(forward, 5) || tc_input(forward, 6)); /* a ratio needs a seed */
    return can_draw ? tc_tiled_gradient(node, forward) : NULL;
}

static tc_node *like(const tc_node *node, uint32_t n_inputs, uint32_t n_outputs) {
    tc_node *variant = tc_node_create(node->graph, node->domain, node->op_type, n_inputs, n_outputs);
    for (size_t i = 0; i < node->n_attrs; i++)
        tc_attr_copy(variant, &node->attrs[i]);
    for (uint32_t i = 0; i < n_inputs; i++)
        if (tc_input(node, i))
            tc_node_set_input(variant, i, tc_input(node, i));
    variant->name = node->name;
    variant->ordinal = node->ordinal;
    return variant;
}

/* The draw depends on the node's number, seed and step alone: applied to the gradient, it drops the same elements. */
static tc_node *redrawn(tc_node *node) {
    const tc_value *keep = tc_input(node, 1);
    const tc_node *forward = keep ? keep->producer : NULL;
    if (!forward || forward->graph != node->graph || !tc_node_is(forward, TC_TEMPO_DOMAIN, "Dropout") ||
        keep->out_index != 1 || !tc_input(forward, 2) || tc_input(forward, 1) != tc_input(node, 2))
        return NULL;
    tc_node *variant = like(forward, forward->n_inputs, 1);
    tc_node_set_input(variant, 0, tc_input(node, 0));
    variant->name = node->name;
    variant->ordinal = node->ordinal;
    return variant;
}

/* The first result alone. */
static tc_node *without_maps(tc_node *node) {
    if (node->n_outputs < 2 || !tc_output(node, 0))
        return NULL;
    tc_node *variant = like(node, node->n_inputs, 1);
    if (tc_attr_find(variant, "signed"))
        tc_attr_remove(variant, "signed");
    return variant;
}

static const struct {
    const char *op_type, *rule;
    tc_node *(*build)(tc_node *node);
} variants[] = {
    {"DotProductAttentionGrad", "attention_tiled", tiled},
    {"DotProductAttention", "attention_tiled", without_maps},
    {"DropoutGrad", "dropout_redraw", redrawn},
    {"Dropout", "dropout_redraw", without_maps},
};

/* --- a graph ---------------------------------------------------------------------------------- */

/* Comes right after its original, with results of its own without readers. */
static void insert(tc_node *variant, tc_node *node) {
    tc_arena *arena = node->graph->model->arena;
    for (uint32_t i = 0; i < variant->n_outputs; i++) {
        const tc_value *value = tc_output(node, i);
        if (!value)
            continue;
        tc_value *made = tc_node_add_output(variant, i, tc_arena_printf(arena, "%s__form", value->name), value->type);
        made->role = value->role == TC_ROLE_GRADIENT ? TC_ROLE_BACKWARD : value->role;
    }
    tc_node_insert_after(variant, node);
}

tc_variant *tc_variants_add(tc_pass_env *env, tc_arena *arena, tc_graph *graph, uint32_t *out_n) {
    tc_variant *list = NULL;
    size_t cap = 0;
    *out_n = 0;
    TC_FOR_NODES_SAFE(node, graph) {
        for (size_t i = 0; i < TC_COUNT(variants); i++) {
            bool is_meant = tc_node_is(node, TC_TEMPO_DOMAIN, variants[i].op_type) &&
                            !tc_is_disabled(env->options, variants[i].rule);
            tc_node *variant = is_meant ? variants[i].build(node) : NULL;
            if (!variant)
                continue;
            insert(variant, node);
            list = tc_arena_grow(arena, list, sizeof *list, &cap, (size_t)*out_n + 1);
            list[(*out_n)++] = (tc_variant){node, variant, variants[i].rule};
        }
    }
    return list;
}

void tc_variants_remove(const tc_variant *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        tc_node_erase(list[i].variant);
}

void tc_variants_forget(tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        if (tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttention"))
            tc_forget_maps(node);
        else if (tc_node_is(node, TC_TEMPO_DOMAIN, "Dropout") && node->n_outputs == 2 &&
                 !(node->outputs[1] && tc_value_is_used(node->outputs[1])))
            tc_node_resize_outputs(node, 1);
    }
}
