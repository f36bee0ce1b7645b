/* gradient.c: the table of gradients and the helpers that builders share: see gradient.h. Nodes are appended to the
 * graph and inferred one by one; small constants are shared by their text. */
#include "gradient.h"
#include "compiler/contents/contents.h"
#include "compiler/ir/ops.h"
#include "compiler/cli/ways_around.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GRADIENT(domain, op, operands, build) void build(tc_grad *g);
#include "gradients.def"
#undef GRADIENT

typedef struct gradient_row {
    const char *domain, *op;
    uint32_t operands; /* bit i: a gradient can flow to operand i; bit 31 stands for all from there on */
    tc_grad_builder build;
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

bool tc_gradient_build(tc_grad *g) {
    const gradient_row *row = find_row(g->node);
    if (row)
        row->build(g);
    return row != NULL;
}

tc_status tc_gradient_apply(tc_pass_env *env, const tc_rule_set *rules, tc_grad *g, bool *out_found) {
    TC_TRY(tc_gradient_rule_apply(env, rules, g->node, g->douts, g->needed, g->dins, out_found));
    if (*out_found)
        return TC_OK;
    *out_found = tc_gradient_build(g);
    return g->status;
}

/* --- failing ---------------------------------------------------------------------------------- */
/* A size that the caller may choose: a dim of an input that is no number; NULL where there is none. */
static const char *open_size(const tc_grad *g) {
    const tc_graph *graph = g->model->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_type *type = graph->inputs[i]->type;
        for (int d = 0; type && type->kind == TC_TENSOR && d < type->rank; d++)
            if (!tc_dim_is_const(type->dims[d]) && !tc_dim_is_unknown(type->dims[d]))
                return tc_quote(g->ctx, tc_dim_text(g->pool->arena, type->dims[d]));
    }
    return NULL;
}

void tc_grad_refuse(tc_grad *g, const char *fmt, ...) {
    if (g->status != TC_OK)
        return;
    va_list args;
    va_start(args, fmt);
    const char *why = tc_arena_vprintf(g->pool->arena, fmt, args), *open = open_size(g);
    va_end(args);
    g->status = tc_error(g->ctx, TC_UNSUPPORTED, g->node, "no gradient for this form of the op: %s", why);
    bool by_size = strstr(why, "not known") || strstr(why, "not constant"); /* as messages about sizes are worded */
    if (open && by_size)
        tc_hint(g->ctx, "give open sizes a value (--dim %s=N)", open);
    else
        tc_hint_way_around(g->ctx, g->node);
}

int tc_grad_rank(tc_grad *g, const tc_value *value) {
    int rank = tc_value_rank(value);
    if (rank != TC_RANK_UNKNOWN)
        return rank;
    tc_grad_refuse(g, "the rank of %s is not known", tc_quote(g->ctx, value->name));
    return 0;
}

int tc_grad_axis(tc_grad *g, int64_t axis, int rank) {
    int64_t positive = axis < 0 ? axis + rank : axis;
    if (positive >= 0 && positive < rank)
        return (int)positive;
    tc_grad_refuse(g, "axis %" PRId64 " is out of range for rank %d", axis, rank);
    return 0;
}

/* --- nodes ------------------------------------------------------------------------------------ */
tc_node *tc_grad_node_with(tc_grad *g, const char *domain, const char *op, size_t n_inputs, tc_value *const *inputs,
                           uint32_t n_outputs, const bool *wanted) {
    tc_node *node = tc_node_create(g->graph, domain, op, (uint32_t)n_inputs, n_outputs);
    for (size_t i = 0; i < n_inputs; i++)
        tc_node_set_input(node, (uint32_t)i, inputs[i]);
    tc_node_append(node);
    const char *name =
        g->label ? tc_arena_printf(g->pool->arena, "%s%s/%s", g->label, g->forward ? "" : "_grad", op) : op;
    node->name = "";
    for (uint32_t i = 0; i < n_outputs; i++) {
        if (wanted && !wanted[i])
            continue;
        tc_node_add_output(node, i, name, NULL);
        if (*node->name == '\0')
            node->name = node->outputs[i]->name;
    }
    return node;
}

tc_node *tc_grad_node(tc_grad *g, const char *domain, const char *op, size_t n_inputs, tc_value *const *inputs,
                      uint32_t n_outputs) {
    return tc_grad_node_with(g, domain, op, n_inputs, inputs, n_outputs, NULL);
}

tc_value *tc_grad_finish(tc_grad *g, tc_node *node) {
    if (g->status == TC_OK)
        g->status = tc_infer_node(g->ctx, node);
    return node->outputs[0];
}

tc_value *tc_grad_result(tc_grad *g, uint32_t index, const char *suffix) {
    tc_node *node = g->node;
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

void tc_grad_infer_forward(tc_grad *g) {
    if (g->status == TC_OK)
        g->status = tc_infer_node(g->ctx, g->node);
}

/* --- constants and shapes --------------------------------------------------------------------- */
static tc_value *pooled(tc_grad *g, const char *key, const char *name, tc_dtype dtype, int rank, const int64_t *dims,
                        const void *data) {
    tc_value *value = tc_map_get(g->pool->constants, key);
    if (value)
        return value;
    value = tc_constant(g->graph, name, tc_tensor_create(g->model, dtype, rank, dims, data));
    tc_map_set(g->pool->constants, tc_arena_strdup(g->pool->arena, key), value);
    return value;
}

tc_value *tc_grad_ints(tc_grad *g, const int64_t *ints, size_t count) {
    char *key = tc_arena_alloc(g->pool->arena, count + 2, 21);
    size_t at = (size_t)sprintf(key, "ints");
    for (size_t i = 0; i < count; i++)
        at += (size_t)sprintf(key + at, " %" PRId64, ints[i]);
    return pooled(g, key, "ints", TC_INT64, 1, (int64_t[]){(int64_t)count}, ints);
}

tc_value *tc_grad_int(tc_grad *g, int64_t i) { return tc_grad_ints(g, &i, 1); }

tc_value *tc_grad_scalar(tc_grad *g, tc_dtype dtype, double number) {
    char key[64];
    if (dtype == TC_UNDEFINED)
        dtype = TC_FLOAT; /* only after an error */
    snprintf(key, sizeof(key), "scalar %d %.17g", (int)dtype, number);
    return pooled(g, key, "scalar", dtype, 0, NULL, tc_tensor_scalar(g->model, dtype, number)->data);
}

tc_value *tc_grad_like(tc_grad *g, const tc_value *like, double number) {
    return tc_grad_scalar(g, tc_value_dtype(like), number);
}

bool tc_grad_static(const tc_value *value, int axis, int64_t *out_dim) {
    if (axis >= tc_value_rank(value) || !tc_dim_is_const(value->type->dims[axis]))
        return false;
    *out_dim = value->type->dims[axis].value;
    return true;
}

tc_value *tc_grad_dims(tc_grad *g, tc_value *value, int64_t from, int64_t to) {
    int64_t dims[TC_MAX_RANK];
    int rank = tc_value_rank(value);
    bool known = rank != TC_RANK_UNKNOWN;
    for (int64_t i = from; known && i < to; i++)
        known = tc_grad_static(value, (int)i, &dims[i - from]);
    if (known)
        return tc_grad_ints(g, dims, (size_t)(to - from));
    tc_node *node = TC_BEGIN(g, "Shape", value);
    if (from != 0)
        tc_attr_set_int(node, "start", from);
    if (to != rank)
        tc_attr_set_int(node, "end", to);
    return tc_grad_finish(g, node);
}

tc_value *tc_grad_shape(tc_grad *g, tc_value *value) { return tc_grad_dims(g, value, 0, tc_value_rank(value)); }

tc_value *tc_grad_zeros(tc_grad *g, tc_value *shape, tc_dtype dtype) {
    tc_node *node = TC_BEGIN(g, "ConstantOfShape", shape);
    double zero = 0;
    tc_attr_set_tensor(node, "value",
                       tc_tensor_create(g->model, dtype == TC_UNDEFINED ? TC_FLOAT : dtype, 1, (int64_t[]){1}, &zero));
    return tc_grad_finish(g, node);
}

bool tc_grad_known_ints(const tc_value *value, int64_t *out_ints, size_t max, size_t *out_count) {
    if (!value)
        return false;
    const tc_tensor *tensor = tc_value_constant(value);
    if (tensor && tensor->data && !tc_dtype_is_float(tensor->dtype) && tensor->count <= max) {
        for (size_t i = 0; i < tensor->count; i++)
            out_ints[i] = tc_tensor_get_int(tensor, i);
        *out_count = (size_t)tensor->count;
        return true;
    }
    const tc_contents *contents = value->contents;
    if (!contents || tc_dtype_is_float(contents->dtype) || contents->count > max || !tc_contents_is_const(contents))
        return false;
    for (size_t i = 0; i < contents->count; i++)
        out_ints[i] = contents->items[i].i.value;
    *out_count = (size_t)contents->count;
    return true;
}

bool tc_grad_known_number(const tc_value *value, double *out_number) {
    if (!value)
        return false;
    const tc_tensor *tensor = tc_value_constant(value);
    if (tensor && tensor->data && tensor->count == 1) {
        *out_number = tc_tensor_get(tensor, 0);
        return true;
    }
    const tc_contents *contents = value->contents;
    if (!contents || contents->count != 1 || !tc_contents_is_const(contents))
        return false;
    *out_number = tc_dtype_is_float(contents->dtype) ? contents->items[0].f : (double)contents->items[0].i.value;
    return true;
}

/* --- what many gradients need ----------------------------------------------------------------- */
tc_value *tc_grad_reshape(tc_grad *g, tc_value *value, tc_value *shape) {
    tc_node *node = TC_BEGIN(g, "Reshape", value, shape);
    int64_t dims[TC_MAX_RANK];
    size_t count = 0;
    bool zero_free = tc_grad_known_ints(shape, dims, TC_MAX_RANK, &count);
    for (size_t i = 0; i < count; i++)
        zero_free = zero_free && dims[i] != 0;
    if (!zero_free)
        tc_attr_set_int(node, "allowzero", 1);
    return tc_grad_finish(g, node);
}

tc_value *tc_grad_reshape_like(tc_grad *g, tc_value *value, tc_value *like) {
    return tc_same_shape(value, like) ? value : tc_grad_reshape(g, value, tc_grad_shape(g, like));
}

tc_value *tc_grad_reduce(tc_grad *g, const char *op, tc_value *value, const int64_t *axes, size_t n_axes,
                         bool keepdims) {
    if (n_axes == 0)
        return value;
    tc_node *node = TC_BEGIN(g, op, value, tc_grad_ints(g, axes, n_axes));
    tc_attr_set_int(node, "keepdims", keepdims);
    return tc_grad_finish(g, node);
}

tc_value *tc_grad_unsqueeze(tc_grad *g, tc_value *value, const int64_t *axes, size_t n_axes) {
    return n_axes == 0 ? value : TC_OP(g, "Unsqueeze", value, tc_grad_ints(g, axes, n_axes));
}

tc_value *tc_grad_transpose(tc_grad *g, tc_value *value, const int64_t *perm, int rank) {
    bool moves = false;
    for (int i = 0; i < rank; i++)
        moves = moves || perm[i] != i;
    if (!moves)
        return value;
    tc_node *node = TC_BEGIN(g, "Transpose", value);
    tc_attr_set_ints(node, "perm", perm, (size_t)rank);
    return tc_grad_finish(g, node);
}

tc_value *tc_grad_expand_like(tc_grad *g, tc_value *value, tc_value *like) {
    return tc_same_shape(value, like) ? value : TC_OP(g, "Expand", value, tc_grad_shape(g, like));
}

tc_value *tc_grad_reduce_like(tc_grad *g, tc_value *grad, tc_value *like) {
    if (g->status != TC_OK)
        return grad;
    const char *label = g->label ? tc_arena_printf(g->model->arena, "%s_grad", g->label) : "";
    tc_value *sum = grad;
    g->status = tc_reduce_like(g->ctx, grad, like, label, &sum);
    return sum ? sum : grad;
}

tc_value *tc_grad_concat(tc_grad *g, size_t count, tc_value *const *values, int64_t axis) {
    if (count == 1)
        return values[0];
    tc_node *node = tc_grad_node(g, "", "Concat", count, values, 1);
    tc_attr_set_int(node, "axis", axis);
    return tc_grad_finish(g, node);
}

tc_value *tc_grad_cast(tc_grad *g, tc_value *value, tc_dtype dtype) {
    if (tc_value_dtype(value) == dtype || dtype == TC_UNDEFINED)
        return value;
    tc_node *node = TC_BEGIN(g, "Cast", value);
    tc_attr_set_int(node, "to", dtype);
    return tc_grad_finish(g, node);
}

tc_value *tc_grad_wide(tc_grad *g, tc_value *value) {
    return tc_dtype_is_half(tc_value_dtype(value)) ? tc_grad_cast(g, value, TC_FLOAT) : value;
}

tc_value *tc_grad_sum(tc_grad *g, size_t count, tc_value *const *values) {
    if (count == 1)
        return values[0];
    return tc_grad_finish(g, tc_grad_node(g, "", count == 2 ? "Add" : "Sum", count, values, 1));
}
