/* forms.c: nodes beside which others may stand that make the same results, bit for bit, from other operands or without
 * what nobody reads. A table: of which op, and what builds it. */
#include "passes/rules/rules.h"
#include "compiler/shape/shape.h"
#include "forms.h"

/* --- what builds them ------------------------------------------------------------------------- */

static tc_node *tiled(tc_node *node) {
    tc_node *forward = tc_tileable_attention(node, NULL);
    bool can_draw = forward && (!tc_input(forward, 5) || tc_input(forward, 6)); /* a ratio needs a seed */
    return can_draw ? tc_tiled_gradient(node, forward) : NULL;
}

static tc_node *like(const tc_node *node, uint32_t n_inputs, uint32_t n_outputs) {
    tc_node *form = tc_node_create(node->graph, node->domain, node->op_type, n_inputs, n_outputs);
    for (size_t i = 0; i < node->n_attrs; i++)
        tc_attr_copy(form, &node->attrs[i]);
    for (uint32_t i = 0; i < n_inputs; i++)
        if (tc_input(node, i))
            tc_node_set_input(form, i, tc_input(node, i));
    form->name = node->name;
    form->ordinal = node->ordinal;
    return form;
}

/* The draw depends on the node's number, seed and step alone: of what comes back it drops the same. */
static tc_node *redrawn(tc_node *node) {
    const tc_value *keep = tc_input(node, 1);
    const tc_node *forward = keep ? keep->producer : NULL;
    if (!forward || forward->graph != node->graph || !tc_node_is(forward, TC_TEMPO_DOMAIN, "Dropout") ||
        keep->out_index != 1 || !tc_input(forward, 2) || tc_input(forward, 1) != tc_input(node, 2))
        return NULL;
    tc_node *form = like(forward, forward->n_inputs, 1);
    tc_node_set_input(form, 0, tc_input(node, 0));
    form->name = node->name;
    form->ordinal = node->ordinal;
    return form;
}

/* The first result alone. */
static tc_node *without_maps(tc_node *node) {
    if (node->n_outputs < 2 || !tc_output(node, 0))
        return NULL;
    tc_node *form = like(node, node->n_inputs, 1);
    if (tc_attr_find(form, "signed"))
        tc_attr_remove(form, "signed");
    return form;
}

static const struct {
    const char *op_type, *rule;
    tc_node *(*build)(tc_node *node);
} forms[] = {
    {"DotProductAttentionGrad", "attention_tiled", tiled},
    {"DotProductAttention", "attention_tiled", without_maps},
    {"DropoutGrad", "dropout_redraw", redrawn},
    {"Dropout", "dropout_redraw", without_maps},
};

/* --- a graph ---------------------------------------------------------------------------------- */

/* Stands right behind its original, with results of its own that nobody reads. */
static void insert(tc_node *form, tc_node *node) {
    tc_arena *arena = node->graph->model->arena;
    for (uint32_t i = 0; i < form->n_outputs; i++) {
        const tc_value *value = tc_output(node, i);
        if (!value)
            continue;
        tc_value *made = tc_node_add_output(form, i, tc_arena_printf(arena, "%s__form", value->name), value->type);
        made->role = value->role == TC_ROLE_GRADIENT ? TC_ROLE_BACKWARD : value->role;
    }
    tc_node_insert_after(form, node);
}

tc_form *tc_forms_add(tc_pass_env *env, tc_arena *arena, tc_graph *graph, uint32_t *out_n) {
    tc_form *list = NULL;
    size_t cap = 0;
    *out_n = 0;
    TC_FOR_NODES_SAFE(node, graph) {
        for (size_t i = 0; i < TC_COUNT(forms); i++) {
            bool is_meant =
                tc_node_is(node, TC_TEMPO_DOMAIN, forms[i].op_type) && !tc_is_disabled(env->options, forms[i].rule);
            tc_node *form = is_meant ? forms[i].build(node) : NULL;
            if (!form)
                continue;
            insert(form, node);
            list = tc_arena_grow(arena, list, sizeof *list, &cap, (size_t)*out_n + 1);
            list[(*out_n)++] = (tc_form){node, form, forms[i].rule};
        }
    }
    return list;
}

void tc_forms_remove(const tc_form *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        tc_node_erase(list[i].form);
}

void tc_forms_forget(tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        if (tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttention"))
            tc_forget_maps(node);
        else if (tc_node_is(node, TC_TEMPO_DOMAIN, "Dropout") && node->n_outputs == 2 &&
                 !(node->outputs[1] && tc_value_is_used(node->outputs[1])))
            tc_node_resize_outputs(node, 1);
    }
}
