/* gradient.c: the table of gradients, and helpers that gradient builders share. */
#include "gradients.h"
#include "compiler/contents/contents.h"
#include "compiler/ir/ops.h"
#include "compiler/cli/cli.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GRADIENT(domain, op, operands, build) void build(tc_build *g);
#include "gradients.def"
#undef GRADIENT

typedef struct gradient_row {
    const char *domain, *op;
    uint32_t operands; /* bit i: a gradient can flow to operand i; bit 31: to all operands from there on */
    tc_gradient_builder build;
} gradient_row;

#define ALL UINT32_MAX
#define BIT(i) (1u << (i))
static const gradient_row table[] = {
#define GRADIENT(domain, op, operands, build) {domain, #op, operands, build},
#include "gradients.def"
#undef GRADIENT
};
#undef ALL
#undef BIT

static const gradient_row *find_row(const tc_node *node) {
    for (size_t i = 0; i < TC_COUNT(table); i++)
        if (strcmp(table[i].op, node->op_type) == 0 && strcmp(table[i].domain, node->domain) == 0)
            return &table[i];
    return NULL;
}

bool tc_gradient_exists(const tc_rule_set *rules, const tc_node *node) {
    return find_row(node) || tc_gradient_rule_exists(rules, node);
}

bool tc_gradient_flows(const tc_rule_set *rules, const tc_node *node, uint32_t index) {
    const tc_value *value = tc_input(node, index);
    bool has_rule = tc_gradient_rule_exists(rules, node), none = tc_node_has(node, TC_NO_GRADIENT);
    if (!value || tc_node_has(node, TC_SHAPE_ONLY) || (none && !has_rule))
        return false;
    tc_dtype dtype = tc_value_dtype(value);
    if (dtype != TC_UNDEFINED && !tc_dtype_is_float(dtype))
        return false;
    const gradient_row *row = find_row(node);
    if (row && (row->operands >> (index < 31 ? index : 31) & 1))
        return true;
    return has_rule ? tc_gradient_rule_reaches(rules, node, index) : !row;
}

bool tc_gradient_build(tc_build *g) {
    const gradient_row *row = find_row(g->of->node);
    if (row)
        row->build(g);
    return row != NULL;
}

tc_status tc_gradient_apply(tc_pass_env *env, const tc_rule_set *rules, tc_build *g, bool *out_found) {
    TC_TRY(tc_gradient_rule_apply(env, rules, g->of->node, g->of->douts, g->of->needed, g->of->dins, out_found));
    if (*out_found)
        return TC_OK;
    *out_found = tc_gradient_build(g);
    return g->status;
}

/* --- refusals --------------------------------------------------------------------------------- */
/* Options for the sizes that the user may choose: dims of inputs that are no numbers; NULL if there is none. */
static const char *open_sizes(const tc_build *g) {
    const tc_graph *graph = g->model->graph;
    const char *options = NULL;
    tc_map *seen = tc_map_create(g->pool->arena);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_type *type = graph->inputs[i]->type;
        for (int d = 0; type && type->kind == TC_TENSOR && d < type->rank; d++) {
            const char *dim = tc_dim_text(g->pool->arena, type->dims[d]);
            if (tc_dim_is_const(type->dims[d]) || tc_dim_is_unknown(type->dims[d]) || tc_map_get(seen, dim))
                continue;
            tc_map_set(seen, dim, seen);
            options = tc_arena_printf(g->pool->arena, "%s%s--dim %s=N", options ? options : "", options ? " " : "",
                                      tc_quote(g->ctx, dim));
        }
    }
    return options;
}

void tc_grad_refuse(tc_build *g, const char *fmt, ...) {
    if (g->status != TC_OK)
        return;
    va_list args;
    va_start(args, fmt);
    const char *why = tc_arena_vprintf(g->pool->arena, fmt, args), *open = open_sizes(g);
    va_end(args);
    g->status = tc_error(g->ctx, TC_UNSUPPORTED, g->of->node, "no gradient for this form of the op: %s", why);
    bool by_size = strstr(why, "not known") || strstr(why, "not constant"); /* in the words of messages about sizes */
    if (open && by_size)
        tc_hint(g->ctx, "give dimensions a value (%s)", open);
    else
        tc_hint_way_around(g->ctx, g->of->node);
}

int tc_grad_rank(tc_build *g, const tc_value *value) {
    int rank = tc_value_rank(value);
    if (rank != TC_RANK_UNKNOWN)
        return rank;
    tc_grad_refuse(g, "the rank of %s is not known", tc_quote(g->ctx, value->name));
    return 0;
}

int tc_grad_axis(tc_build *g, int64_t axis, int rank) {
    int64_t positive = axis < 0 ? axis + rank : axis;
    if (positive >= 0 && positive < rank)
        return (int)positive;
    tc_grad_refuse(g, "axis %" PRId64 " is out of range for rank %d", axis, rank);
    return 0;
}

tc_value *tc_grad_result(tc_build *g, uint32_t index, const char *suffix) {
    tc_node *node = g->of->node;
    if (tc_output(node, index))
        return node->outputs[index];
    if (node->n_outputs <= index)
        tc_node_resize_outputs(node, index + 1);
    tc_node_add_output(node, index,
                       tc_arena_printf(g->model->arena, "%s_%s",
                                       tc_output(node, 0) ? node->outputs[0]->name : tc_node_label(node), suffix),
                       NULL);
    return node->outputs[index];
}

void tc_grad_infer_forward(tc_build *g) {
    if (g->status == TC_OK)
        g->status = tc_infer_node(g->ctx, g->of->node);
}

tc_value *tc_grad_reduce_like(tc_build *g, tc_value *grad, tc_value *like) {
    if (g->status != TC_OK)
        return grad;
    tc_value *sum = grad;
    g->status = tc_reduce_like(g->ctx, grad, like, g->label ? g->label : "", &sum);
    return sum ? sum : grad;
}
