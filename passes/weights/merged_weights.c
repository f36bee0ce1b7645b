/* merged_weights.c: several tensors of a model that were stored once because they were equal at export. Each group
 * of uses (parameter_uses.h) gets an initializer of its own, with its own name and kind, over the same bytes. */
#include "tied.h"
#include "passes/torch/metadata/metadata.h"
#include "trainable.h"
#include <string.h>

typedef struct merged {
    tc_value *value;
    tc_use_groups groups;
} merged;

/* The operand of a node between the initializer and its uses, if all others are constants. */
static tc_value *changing_operand(const merged *m, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_input(node, i) && !tc_value_constant(tc_input(node, i)))
            return tc_input(node, i);
    return m->value;
}

/* `value`, or a copy of the nodes that made it, with `copy` instead of the initializer. */
static tc_value *with_copy(tc_tied *t, const merged *m, tc_value *value, tc_value *copy, tc_map *made) {
    tc_value **way = NULL;
    size_t n = 0, cap = 0;
    for (; value != m->value && !tc_map_get_ptr(made, value); value = changing_operand(m, value->producer)) {
        way = tc_arena_grow(t->scratch, way, sizeof *way, &cap, n + 1);
        way[n++] = value;
    }
    tc_value *again = value == m->value ? copy : tc_map_get_ptr(made, value);
    while (n-- > 0) {
        tc_node *node = way[n]->producer;
        tc_map *values = tc_map_create(t->scratch);
        tc_map_set_ptr(values, m->value, copy);
        tc_map_set_ptr(values, changing_operand(m, node), again);
        tc_node *clone = tc_node_clone(t->graph, node, values);
        tc_node_move_before(clone, node);
        for (uint32_t i = 0; i < node->n_outputs; i++)
            tc_map_set_ptr(made, tc_output(node, i), tc_output(clone, i));
        again = tc_map_get_ptr(made, way[n]);
    }
    return again;
}

/* An initializer that the exporter computed, perhaps transposed, keeps the file's name, and records PyTorch's. An
 * initializer with PyTorch's name is stored as in PyTorch. */
static bool is_changed(const tc_tied *t, const merged *m) {
    size_t n;
    tc_torch_folded_from(t->scratch, m->value, &n);
    return n > 0;
}

/* A parameter that the file has transposed is stored as in PyTorch, if its data is available. */
static bool is_turned_back(const tc_tied *t, const merged *m, const tc_use_group *group) {
    const tc_torch_name *was = tc_torch_name_of(t->env->summary, m->value->name);
    return group->name && was && was->layout == TC_TORCH_TRANSPOSED &&
           tc_tensor_peek(t->graph->model, m->value->init) != NULL;
}

static const char *name_of_copy(const tc_tied *t, const merged *m, const tc_use_group *group) {
    if (group->learned == TC_LEARNED_NO && !group->name)
        return tc_arena_printf(t->scratch, "%s_constant", m->value->name);
    return group->name && (!is_changed(t, m) || is_turned_back(t, m, group)) ? group->name : m->value->name;
}

static void set_kind(const tc_tied *t, const merged *m, const tc_use_group *group, tc_value *copy) {
    const tc_torch_name *was = tc_torch_name_of(t->env->summary, m->value->name);
    if (group->name && is_changed(t, m) && !is_turned_back(t, m, group))
        tc_torch_set_name(t->env, copy->name, group->name, was ? was->layout : TC_TORCH_OTHER);
    copy->learned = tc_request_of(t->env, copy->name) == TC_REQUEST_TRAIN ? TC_LEARNED_YES : group->learned;
}

/* The replacement of the stored initializer: the copy, or its transpose. */
static tc_value *in_layout(const tc_tied *t, const merged *m, const tc_use_group *group, tc_value *copy) {
    if (!is_turned_back(t, m, group))
        return copy;
    tc_node *node = tc_node_create(t->graph, "", "Transpose", 1, 1);
    tc_node_set_input(node, 0, copy);
    tc_value *result =
        tc_node_add_output(node, 0, tc_arena_printf(t->scratch, "%s_transposed", copy->name), m->value->type);
    node->name = result->name;
    tc_node_insert_before(node, t->graph->first);
    return result;
}

/* An initializer for one group's tensor. TorchScript's mark, a node, becomes it; other uses are moved to it. */
static const char *give_copy(tc_tied *t, const merged *m, const tc_use_group *group) {
    tc_node *user = group->uses[0]->user;
    tc_tensor *copy = TC_NEW(t->graph->model->arena, tc_tensor);
    tc_value *value;
    *copy = *m->value->init;
    copy->origin = NULL;
    if (group->name && tc_node_is(user, "", "Identity") && strcmp(group->name, user->outputs[0]->name) == 0) {
        value = tc_node_take_output(user, 0);
        tc_node_erase(user);
        tc_graph_add_initializer(t->graph, value, copy);
    } else {
        tc_map *made = tc_map_create(t->scratch);
        if (is_turned_back(t, m, group))
            copy =
                tc_tensor_transposed(t->graph->model, m->value->init, tc_tensor_peek(t->graph->model, m->value->init));
        value = tc_constant(t->graph, name_of_copy(t, m, group), copy);
        tc_value *stored = in_layout(t, m, group, value);
        for (size_t i = 0; i < group->n; i++)
            tc_node_set_input(group->uses[i]->user, group->uses[i]->index,
                              with_copy(t, m, group->uses[i]->value, stored, made));
    }
    copy->name = value->name;
    set_kind(t, m, group, value);
    tc_record_initializer(t->env, value->name, copy);
    return value->name;
}

/* The names of the copies, and their number. */
static const char **split(tc_tied *t, const merged *m, size_t *out_n) {
    size_t first = m->groups.homeless ? 0 : 1, n = 0;
    const char **names = TC_NEW_ARRAY(t->scratch, const char *, m->groups.n + 1);
    for (size_t g = first; g < m->groups.n; g++)
        names[n++] = give_copy(t, m, &m->groups.groups[g]);
    *out_n = n;
    return names;
}

/* --- from records of the file ----------------------------------------------------------------- */
/* Whether a group of it is a parameter, or may be one. Buffers and constants may share one initializer. */
static bool concerns_training(const tc_tied *t, size_t i, const tc_use_groups *groups) {
    bool any = t->w.trained[i] || t->w.values[i]->learned == TC_LEARNED_YES;
    for (size_t g = 0; g < groups->n; g++)
        any = any || groups->groups[g].learned != TC_LEARNED_NO;
    return any;
}

bool tc_part_merged(tc_tied *t) {
    merged *found = TC_NEW_ARRAY(t->scratch, merged, t->w.n + 1);
    const char **names = NULL;
    size_t n = 0, parts = 0, cap = 0, here;
    for (size_t i = 0; i < t->w.n; i++) {
        tc_use_groups groups = tc_group_uses(t->scratch, t->program, t->w.values[i], false);
        if (groups.recorded && (groups.n > 1 || groups.homeless) && concerns_training(t, i, &groups))
            found[n++] = (merged){t->w.values[i], groups};
    }
    for (size_t i = 0; i < n; i++) {
        const char **copies = split(t, &found[i], &here);
        names = tc_arena_grow(t->scratch, names, sizeof *names, &cap, parts + here);
        memcpy(names + parts, copies, here * sizeof *names);
        parts += here;
        if (found[i].groups.homeless && !tc_value_is_used(found[i].value) && !found[i].value->is_input) {
            tc_record_initializer(t->env, found[i].value->name, NULL);
            tc_graph_remove_initializer(t->graph, found[i].value);
        }
    }
    if (parts)
        tc_note(t->env->ctx, NULL, "equal tensors that were stored as one have initializers of their own again: %s",
                tc_quote_list(t->env->ctx, names, parts));
    return n > 0;
}

/* --- from the structure of the graph ---------------------------------------------------------- */
static void warn_merged(const tc_tied *t, const merged *found, size_t n) {
    tc_ctx *ctx = t->env->ctx;
    const char **names = TC_NEW_ARRAY(t->scratch, const char *, n + 1);
    size_t parameters = 0;
    for (size_t i = 0; i < n; i++) {
        const tc_use_groups *g = &found[i].groups;
        names[i] = found[i].value->name;
        parameters += g->n;
        if (n > TC_LIST_FEW)
            continue;
        tc_warn(ctx, NULL,
                "%s seems to stand for %zu parameters that were equal when the model was exported, such as "
                "those of %s and %s: they would be trained as one",
                tc_quote(ctx, names[i]), g->n, tc_tied_place(t, g->groups[0].uses[0]),
                tc_tied_place(t, g->groups[1].uses[0]));
        tc_hint(ctx, "--untie gives each a copy of its own");
    }
    if (n <= TC_LIST_FEW)
        return;
    tc_warn(ctx, NULL,
            "%zu initializers seem to stand for %zu parameters that were equal when the model was exported: "
            "they would be trained as one; %s",
            n, parameters, tc_quote_list(t->env->ctx, names, n));
    tc_hint(ctx, "--untie gives each parameter a copy of its own");
}

bool tc_guess_merged(tc_tied *t) {
    merged *found = TC_NEW_ARRAY(t->scratch, merged, t->w.n + 1);
    size_t n = 0, here;
    for (size_t i = 0; i < t->w.n; i++) {
        if (!t->w.trained[i] || !t->w.equal[i].uniform || tc_value_use_count(t->w.values[i]) < 2)
            continue;
        tc_use_groups groups = tc_group_uses(t->scratch, t->program, t->w.values[i], true);
        if (!groups.recorded && groups.n > 1)
            found[n++] = (merged){t->w.values[i], groups};
    }
    if (!t->env->options->untie) {
        warn_merged(t, found, n);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const char **names = split(t, &found[i], &here);
        tc_note(t->env->ctx, NULL, "--untie: copies of %s are trained separately: %s",
                tc_quote(t->env->ctx, found[i].value->name), tc_quote_list(t->env->ctx, names, here));
    }
    if (n == 0)
        tc_note(t->env->ctx, NULL, "--untie: nothing more seems to stand for several parameters");
    return n > 0;
}
