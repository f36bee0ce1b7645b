/* restore_renorm.c: nn.Embedding(max_norm=...), which dynamo exports as aten.embedding_renorm. The rows that are
 * looked up, each once (Unique), are scaled in a copy of the table that gradients do not pass, and read from there.
 * Their number depends on data. This file scales each row as often as it is read instead, and restores PyTorch's
 * gradient: PyTorch scales the table in place, outside of autograd, so that a row's gradient goes to the table's row
 * unchanged. */
#include "passes/weights/weights.h"
#include "compiler/ir/ops.h"
#include "passes/autodiff/autodiff.h"
#include "restore_nodes.h"

typedef struct renorm {
    tc_restore *r;
    tc_node *unique, *gather, *scatter;
    tc_value *table;
} renorm;

/* `result`, which has no producer, becomes `scaled` with the gradient of `plain`: scaled + (plain - plain), where
 * only the first plain passes a gradient. `at`: the source of both. */
static void pass_gradient(const renorm *n, tc_node *at, tc_value *scaled, tc_value *plain, tc_value *result) {
    if (!n->r->trains) {
        tc_value_replace(result, scaled);
        return;
    }
    scaled = tc_stopped(n->r->env, scaled);
    tc_value *same = tc_stopped(n->r->env, plain);
    while (at->next && tc_node_is(at->next, TC_TEMPO_DOMAIN, "StopGradient"))
        at = at->next;
    tc_restore_nodes nodes = {.r = n->r, .last = at, .name = tc_arena_printf(n->r->arena, "%s_path", result->name)};
    tc_value *nothing = tc_restore_add(&nodes, "Sub", plain, same, NULL);
    tc_node_set_output(tc_restore_add_node(&nodes, "Add", scaled, nothing, NULL), 0, result);
}

/* Rows that are read from the scaled copy: replaces them by rows of the table, scaled. */
static void scale_rows(const renorm *n, tc_node *lookup) {
    tc_restore_nodes nodes = tc_restore_after(n->r, lookup, "shape");
    tc_value *result = tc_node_take_output(lookup, 0);
    tc_value *rows = tc_node_add_output(lookup, 0, tc_arena_printf(n->r->arena, "%s_rows", result->name), NULL);
    tc_node_set_input(lookup, 0, n->table);
    tc_value *shape = tc_restore_add(&nodes, "Shape", rows, NULL, NULL);
    tc_value *scaled = tc_restore_add(&nodes, "Reshape", tc_input(n->scatter, 2), shape, NULL);
    pass_gradient(n, nodes.last, scaled, rows, result);
}

static bool is_lookup(const renorm *n, const tc_node *node) {
    return tc_node_is(node, "", "Gather") && tc_input(node, 1) == tc_input(n->unique, 0) && tc_output(node, 0) &&
           tc_attr_int(node, "axis", 0) == 0;
}

static void scale(const renorm *n) {
    tc_value *scaled = n->scatter->outputs[0], *places = tc_input(n->unique, 0);
    tc_restore_nodes nodes = tc_restore_after(n->r, n->unique, "rows");
    tc_value_replace(n->unique->outputs[0],
                     tc_restore_add(&nodes, "Reshape", places, tc_restore_int(&nodes, -1), NULL));
    tc_node_set_input(n->gather, 0, n->table);
    tc_node_set_input(n->scatter, 0, n->table);
    for (tc_use *use = scaled->uses, *next = NULL; use; use = next) {
        next = use->next;
        if (is_lookup(n, use->user))
            scale_rows(n, use->user);
    }
    if (!tc_value_is_used(scaled) || !n->r->trains)
        return;
    tc_value *result = tc_node_take_output(n->scatter, 0);
    tc_value *raw = tc_node_add_output(n->scatter, 0, tc_arena_printf(n->r->arena, "%s_raw", result->name), NULL);
    pass_gradient(n, n->scatter, raw, n->table, result);
}

/* The nodes now read the table itself instead of the value that their call names. */
static void forget_call(tc_restore_call *call) {
    for (size_t i = 0; i < call->n; i++)
        call->nodes[i]->origin = NULL;
    call->n = 0;
}

/* The operand of aten.detach, if its Identity is in the file. Only the scaling reads it, so it is no stop. */
static tc_value *attached(tc_restore *r, tc_value *value) {
    tc_torch_call call;
    const tc_node *node = value->producer;
    if (!node || !tc_node_is(node, "", "Identity") || !tc_input(node, 0) ||
        !tc_torch_call_read(r->arena, node, &call) || !tc_torch_call_is(&call, "aten.detach") || call.users > 1)
        return value;
    uintptr_t at = (uintptr_t)tc_map_get(r->by_result, call.result);
    if (at)
        r->calls[at - 1].n = 0;
    return tc_input(node, 0);
}

/* The exporter's optimizer leaves the table under the name of the detached value. It is trained, and gets the
 * embedding's name if the file has it. */
static void name_table(const renorm *n) {
    const tc_torch_signature *signature = n->r->signature;
    const char *module = tc_torch_module(n->r->arena, n->scatter);
    tc_value *table = n->table;
    if (!table->init || table->is_input || !signature || tc_map_get(signature->by_target, table->name))
        return;
    const char *name = module ? tc_arena_printf(table->graph->model->arena, "%s.weight", module) : "";
    const tc_torch_input *input = tc_map_get(signature->by_target, name);
    if (input && input->kind == TC_TORCH_PARAMETER && !tc_map_get(table->graph->names, name)) {
        tc_record_initializer(n->r->env, table->name, NULL);
        tc_value_rename(table, name);
        tc_record_initializer(n->r->env, tc_arena_strdup(n->r->arena, name), table->init);
    }
    table->learned = TC_LEARNED_YES;
}

tc_status tc_restore_renorm(tc_restore *r) {
    for (size_t i = 0; i < r->n; i++) {
        tc_restore_call *call = &r->calls[i];
        if (!tc_torch_call_is(&call->call, "aten.embedding_renorm"))
            continue;
        renorm n = {r, tc_restore_node(call, "Unique"), tc_restore_node(call, "Gather"),
                    tc_restore_node(call, "ScatterND"), NULL};
        if (!n.unique || !n.gather || !n.scatter || tc_input(n.gather, 1) != n.unique->outputs[0] ||
            tc_input(n.gather, 0) != tc_input(n.scatter, 0) || !tc_input(n.scatter, 2))
            continue;
        n.table = attached(r, tc_input(n.scatter, 0));
        name_table(&n);
        scale(&n);
        forget_call(call);
        tc_note(r->env->ctx, n.scatter,
                "rows of '%s' are scaled to max_norm where they are read; unlike in PyTorch, the table "
                "itself is not scaled",
                tc_quote(r->env->ctx, n.table->name));
    }
    return TC_OK;
}
