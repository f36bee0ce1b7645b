/* rule_gradient.c: gradient rules. The right side of `gradient Op (...; ...; ...) => (...)` is built at the end of
 * the graph, as far as needed results depend on it; ReduceLike sums a gradient to the shape before broadcasting. */
#include "compiler/shape/shape.h"
#include "rule_ir.h"
#include <string.h>

/* --- ReduceLike ------------------------------------------------------------------------------- */

typedef struct reducer {
    tc_ctx *ctx;
    tc_graph *graph;
    const char *label;
} reducer;

static tc_value *emit(reducer *r, tc_status *status, const char *op, tc_value *a, tc_value *b, const char *attr,
                      int64_t number) {
    tc_model *model = r->graph->model;
    tc_node *node = tc_node_create(r->graph, "", op, b ? 2 : 1, 1);
    node->name = *r->label ? tc_arena_printf(model->arena, "%s/%s", r->label, op) : "";
    tc_node_set_input(node, 0, a);
    if (b)
        tc_node_set_input(node, 1, b);
    if (attr)
        tc_attr_set_int(node, attr, number);
    tc_value *value = tc_node_add_output(node, 0, *node->name ? node->name : op, NULL);
    tc_node_append(node);
    if (*status == TC_OK)
        *status = tc_infer_node(r->ctx, node);
    return value;
}

static tc_value *axes_constant(reducer *r, const int64_t *axes, int64_t n) {
    return tc_constant(r->graph, "axes", tc_tensor_ints(r->graph->model, axes, n));
}

/* Sums over axes: leading ones disappear, inner ones stay as 1. */
static tc_value *reduce_static(reducer *r, tc_status *status, tc_value *grad, const int64_t *axes, int n,
                               int n_leading) {
    if (n == 0)
        return grad;
    bool keep = n > n_leading;
    tc_value *sum = emit(r, status, "ReduceSum", grad, axes_constant(r, axes, n), "keepdims", keep);
    return keep && n_leading ? emit(r, status, "Squeeze", sum, axes_constant(r, axes, n_leading), NULL, 0) : sum;
}

/* If dims do not show the axes, the graph compares both shapes at run time. Leading ones extend like's shape: axes =
 * nonzero(shape(grad) != shape(like)), and the sum is reshaped to like in the end. */
static tc_value *reduce_dynamic(reducer *r, tc_status *status, tc_value *grad, tc_value *like) {
    tc_value *have = emit(r, status, "Shape", grad, NULL, NULL, 0),
             *want = emit(r, status, "Shape", like, NULL, NULL, 0);
    int leading = tc_value_rank(grad) - tc_value_rank(like);
    tc_value *padded = want;
    if (leading > 0) {
        int64_t ones[TC_MAX_RANK];
        for (int i = 0; i < leading; i++)
            ones[i] = 1;
        padded = emit(r, status, "Concat", axes_constant(r, ones, leading), want, "axis", 0);
    }
    tc_value *differs = emit(r, status, "Not", emit(r, status, "Equal", have, padded, NULL, 0), NULL, NULL, 0);
    static const int64_t all = -1;
    tc_value *axes = emit(r, status, "Reshape", emit(r, status, "NonZero", differs, NULL, NULL, 0),
                          axes_constant(r, &all, 1), NULL, 0);
    tc_value *sum = emit(r, status, "ReduceSum", grad, axes, "keepdims", 1);
    tc_attr_set_int(sum->producer, "noop_with_empty_axes", 1);
    return emit(r, status, "Reshape", sum, want, NULL, 0);
}

tc_status tc_reduce_like(tc_ctx *ctx, tc_value *grad, tc_value *like, const char *label, tc_value **out_value) {
    *out_value = NULL;
    if (!grad || !like)
        return TC_OK;
    reducer r = {ctx, grad->graph, label};
    tc_status status = TC_OK;
    int rank = tc_value_rank(grad), rank_like = tc_value_rank(like), n = 0;
    if (rank == TC_RANK_UNKNOWN || rank_like == TC_RANK_UNKNOWN || rank < rank_like)
        return tc_error(ctx, TC_UNSUPPORTED, like->producer, "the gradient of '%s' needs its rank, which is not known",
                        like->name);
    int64_t axes[TC_MAX_RANK];
    bool known = true;
    for (int i = 0; i < rank - rank_like; i++)
        axes[n++] = i;
    for (int i = 0; i < rank_like; i++) {
        tc_dim want = like->type->dims[i], have = grad->type->dims[rank - rank_like + i];
        if (tc_dim_equal(want, have) ||
            (tc_dim_is_const(want) && want.value != 1)) /* a dim other than 1 was not broadcast */
            continue;
        if (tc_dim_is_const(want) && want.value == 1)
            axes[n++] = rank - rank_like + i;
        else
            known = false;
    }
    *out_value =
        known ? reduce_static(&r, &status, grad, axes, n, rank - rank_like) : reduce_dynamic(&r, &status, grad, like);
    if (*out_value != grad && like->type)
        (*out_value)->type = tc_type_tensor(like->graph->model, tc_value_dtype(grad), rank_like, like->type->dims);
    return status;
}

/* --- rules ------------------------------------------------------------------------------------ */

/* Binds names to the node's operands, results and their gradients. False: a name without `?` has nothing to bind to. */
static bool bind(const tc_rule *rule, tc_node *node, tc_value *const *douts, tc_value **values) {
    for (uint32_t i = rule->n_params; i < node->n_inputs; i++)
        if (tc_input(node, i))
            return false;
    for (uint16_t i = 0; i < rule->n_params; i++)
        if (rule->params[i] != RULE_NONE)
            values[rule->params[i]] = tc_input(node, i);
    for (uint16_t i = 0; i < rule->n_outs; i++)
        if (rule->outs[i] != RULE_NONE)
            values[rule->outs[i]] = tc_output(node, i);
    for (uint16_t i = 0; i < rule->n_douts; i++)
        if (rule->douts[i] != RULE_NONE)
            values[rule->douts[i]] = i < node->n_outputs ? douts[i] : NULL;
    for (uint32_t i = rule->n_douts; i < node->n_outputs; i++)
        if (douts[i]) /* a gradient that the rule does not mention must not be lost */
            return false;
    for (uint16_t i = 0; i < rule->n_names; i++) {
        bool is_result = false;
        for (uint16_t k = 0; k < rule->n_outs; k++)
            is_result |= rule->outs[k] == i;
        if (rule->names[i].param && !rule->names[i].optional && !is_result && !values[i])
            return false;
    }
    return true;
}

static void demand(const tc_rule *rule, uint16_t node, bool *wanted, bool *used) {
    if (wanted[node])
        return;
    wanted[node] = true;
    for (uint16_t i = 0; i < rule->build[node].n_operands; i++) {
        const rule_operand *operand = &rule->build[node].operands[i];
        if (operand->kind == OPERAND_NODE)
            demand(rule, operand->index, wanted, used);
        if (operand->kind != OPERAND_NAME)
            continue;
        used[operand->index] = true;
        if (rule->names[operand->index].build != RULE_NONE)
            demand(rule, rule->names[operand->index].build, wanted, used);
    }
}

/* Adds results of the node that the right side reads and the node lacks: Mean and InvStdDev of a LayerNormalization. */
static tc_status add_results(tc_ctx *ctx, const tc_rule *rule, tc_node *node, const bool *used, tc_value **values) {
    bool added = false;
    for (uint16_t i = 0; i < rule->n_outs; i++) {
        uint16_t name = rule->outs[i];
        if (name == RULE_NONE || values[name] || !used[name] || rule->names[name].optional)
            continue;
        const char *base =
            tc_arena_printf(node->graph->model->arena, "%s_%s", tc_node_label(node), rule->names[name].text);
        values[name] = tc_node_add_output(node, i, base, NULL);
        added = true;
    }
    return added ? tc_infer_node(ctx, node) : TC_OK;
}

static tc_status apply(tc_pass_env *env, tc_rule *rule, tc_node *node, tc_value **values, const bool *needed,
                       tc_value **dins) {
    bool wanted[RULE_MAX_NODES] = {false}, used[RULE_MAX_NAMES] = {false};
    for (uint16_t i = 0; i < rule->n_results && i < node->n_inputs; i++)
        if (rule->results[i] != RULE_NONE && needed[i] && tc_input(node, i)) {
            used[rule->results[i]] = true;
            demand(rule, rule->names[rule->results[i]].build, wanted, used);
        }
    TC_TRY(add_results(env->ctx, rule, node, used, values));
    rule_builder b = {.ctx = env->ctx, .rule = rule, .graph = node->graph, .values = values, .anchor = node};
    tc_arena *arena = node->graph->model->arena;
    b.used = used;
    b.label = tc_arena_printf(arena, "%s_grad", tc_node_label(node));
    b.base = b.label;
    for (uint16_t i = 0; i < rule->n_build; i++)
        if (wanted[i])
            TC_TRY(rule_build_node(&b, i));
    for (uint16_t i = 0; i < rule->n_results && i < node->n_inputs; i++)
        if (rule->results[i] != RULE_NONE && needed[i] && tc_input(node, i))
            dins[i] = b.built[rule->results[i]];
    rule->matched++;
    return TC_OK;
}

static const rule_bucket *bucket_of(const tc_rule_set *set, const tc_node *node) {
    return rule_bucket_of(set->gradients, node->domain, node->op ? node->op->name : node->op_type);
}

tc_status tc_gradient_rule_apply(tc_pass_env *env, const tc_rule_set *set, tc_node *node, tc_value *const *douts,
                                 const bool *needed, tc_value **dins, bool *out_found) {
    *out_found = false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        dins[i] = NULL;
    const rule_bucket *bucket = bucket_of(set, node);
    for (size_t i = 0; bucket && i < bucket->n && !*out_found; i++) {
        tc_rule *rule = bucket->rules[i];
        tc_value *values[RULE_MAX_NAMES] = {NULL};
        rule->tried++;
        if (rule->disabled || !bind(rule, node, douts, values) || guards_failing(rule, values, needed))
            continue;
        *out_found = true;
        TC_TRY(apply(env, rule, node, values, needed, dins));
    }
    return TC_OK;
}

bool tc_gradient_rule_exists(const tc_rule_set *set, const tc_node *node) {
    const rule_bucket *bucket = bucket_of(set, node);
    for (size_t i = 0; bucket && i < bucket->n; i++)
        if (!bucket->rules[i]->disabled)
            return true;
    return false;
}

bool tc_gradient_rule_reaches(const tc_rule_set *set, const tc_node *node, uint32_t index) {
    const rule_bucket *bucket = bucket_of(set, node);
    for (size_t i = 0; bucket && i < bucket->n; i++) {
        const tc_rule *rule = bucket->rules[i];
        if (!rule->disabled && index < rule->n_results && rule->results[index] != RULE_NONE)
            return true;
    }
    return false;
}

bool tc_gradient_rule_next(const tc_rule_set *set, size_t *cursor, const char **out_domain, const char **out_op) {
    const void *key;
    void *bucket;
    if (!tc_map_next(set->gradients, cursor, &key, &bucket))
        return false;
    const rule_op *op = &((const rule_bucket *)bucket)->rules[0]->op;
    *out_domain = op->domain;
    *out_op = op->name;
    return true;
}
