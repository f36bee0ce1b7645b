/* build.c: nodes that are appended to a graph and inferred one by one; small constants are shared by their text. */
#include "build.h"
#include "compiler/contents/contents.h"
#include "compiler/ir/ops.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- nodes ------------------------------------------------------------------------------------ */
tc_node *tc_build_node_with(tc_build *g, const char *domain, const char *op, size_t n_inputs, tc_value *const *inputs,
                            uint32_t n_outputs, const bool *wanted) {
    tc_node *node = tc_node_create(g->graph, domain, op, (uint32_t)n_inputs, n_outputs);
    for (size_t i = 0; i < n_inputs; i++)
        tc_node_set_input(node, (uint32_t)i, inputs[i]);
    tc_node_append(node);
    const char *name = g->label ? tc_arena_printf(g->pool->arena, "%s/%s", g->label, op) : op;
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

tc_node *tc_build_node(tc_build *g, const char *domain, const char *op, size_t n_inputs, tc_value *const *inputs,
                       uint32_t n_outputs) {
    return tc_build_node_with(g, domain, op, n_inputs, inputs, n_outputs, NULL);
}

tc_value *tc_build_finish(tc_build *g, tc_node *node) {
    if (g->status == TC_OK)
        g->status = tc_infer_node(g->ctx, node);
    return node->outputs[0];
}

/* --- constants and shapes --------------------------------------------------------------------- */
static tc_value *pooled(tc_build *g, const char *key, const char *name, tc_dtype dtype, int rank, const int64_t *dims,
                        const void *data) {
    tc_value *value = tc_map_get(g->pool->constants, key);
    if (value)
        return value;
    value = tc_constant(g->graph, name, tc_tensor_create(g->model, dtype, rank, dims, data));
    tc_map_set(g->pool->constants, tc_arena_strdup(g->pool->arena, key), value);
    return value;
}

tc_value *tc_build_ints(tc_build *g, const int64_t *ints, size_t count) {
    char *key = tc_arena_alloc(g->pool->arena, count + 2, 21);
    size_t at = (size_t)sprintf(key, "ints");
    for (size_t i = 0; i < count; i++)
        at += (size_t)sprintf(key + at, " %" PRId64, ints[i]);
    return pooled(g, key, "ints", TC_INT64, 1, (int64_t[]){(int64_t)count}, ints);
}

tc_value *tc_build_int(tc_build *g, int64_t i) { return tc_build_ints(g, &i, 1); }

tc_value *tc_build_scalar(tc_build *g, tc_dtype dtype, double number) {
    char key[64];
    if (dtype == TC_UNDEFINED)
        dtype = TC_FLOAT; /* only after an error */
    snprintf(key, sizeof(key), "scalar %d %.17g", (int)dtype, number);
    return pooled(g, key, "scalar", dtype, 0, NULL, tc_tensor_scalar(g->model, dtype, number)->data);
}

tc_value *tc_build_like(tc_build *g, const tc_value *like, double number) {
    return tc_build_scalar(g, tc_value_dtype(like), number);
}

bool tc_build_static(const tc_value *value, int axis, int64_t *out_dim) {
    if (axis >= tc_value_rank(value) || !tc_dim_is_const(value->type->dims[axis]))
        return false;
    *out_dim = value->type->dims[axis].value;
    return true;
}

tc_value *tc_build_dims(tc_build *g, tc_value *value, int64_t from, int64_t to) {
    int64_t dims[TC_MAX_RANK];
    int rank = tc_value_rank(value);
    bool known = rank != TC_RANK_UNKNOWN;
    for (int64_t i = from; known && i < to; i++)
        known = tc_build_static(value, (int)i, &dims[i - from]);
    if (known)
        return tc_build_ints(g, dims, (size_t)(to - from));
    tc_node *node = TC_BEGIN(g, "Shape", value);
    if (from != 0)
        tc_attr_set_int(node, "start", from);
    if (to != rank)
        tc_attr_set_int(node, "end", to);
    return tc_build_finish(g, node);
}

tc_value *tc_build_shape(tc_build *g, tc_value *value) { return tc_build_dims(g, value, 0, tc_value_rank(value)); }

tc_value *tc_build_zeros(tc_build *g, tc_value *shape, tc_dtype dtype) {
    tc_node *node = TC_BEGIN(g, "ConstantOfShape", shape);
    double zero = 0;
    tc_attr_set_tensor(node, "value",
                       tc_tensor_create(g->model, dtype == TC_UNDEFINED ? TC_FLOAT : dtype, 1, (int64_t[]){1}, &zero));
    return tc_build_finish(g, node);
}

bool tc_build_known_ints(const tc_value *value, int64_t *out_ints, size_t max, size_t *out_count) {
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

bool tc_build_known_number(const tc_value *value, double *out_number) {
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
tc_value *tc_build_reshape(tc_build *g, tc_value *value, tc_value *shape) {
    tc_node *node = TC_BEGIN(g, "Reshape", value, shape);
    int64_t dims[TC_MAX_RANK];
    size_t count = 0;
    bool zero_free = tc_build_known_ints(shape, dims, TC_MAX_RANK, &count);
    for (size_t i = 0; i < count; i++)
        zero_free = zero_free && dims[i] != 0;
    if (!zero_free)
        tc_attr_set_int(node, "allowzero", 1);
    return tc_build_finish(g, node);
}

tc_value *tc_build_reshape_like(tc_build *g, tc_value *value, tc_value *like) {
    return tc_same_shape(value, like) ? value : tc_build_reshape(g, value, tc_build_shape(g, like));
}

tc_value *tc_build_reduce(tc_build *g, const char *op, tc_value *value, const int64_t *axes, size_t n_axes,
                          bool keepdims) {
    if (n_axes == 0)
        return value;
    tc_node *node = TC_BEGIN(g, op, value, tc_build_ints(g, axes, n_axes));
    tc_attr_set_int(node, "keepdims", keepdims);
    return tc_build_finish(g, node);
}

tc_value *tc_build_unsqueeze(tc_build *g, tc_value *value, const int64_t *axes, size_t n_axes) {
    return n_axes == 0 ? value : TC_OP(g, "Unsqueeze", value, tc_build_ints(g, axes, n_axes));
}

tc_value *tc_build_transpose(tc_build *g, tc_value *value, const int64_t *perm, int rank) {
    bool moves = false;
    for (int i = 0; i < rank; i++)
        moves = moves || perm[i] != i;
    if (!moves)
        return value;
    tc_node *node = TC_BEGIN(g, "Transpose", value);
    tc_attr_set_ints(node, "perm", perm, (size_t)rank);
    return tc_build_finish(g, node);
}

tc_value *tc_build_expand_like(tc_build *g, tc_value *value, tc_value *like) {
    return tc_same_shape(value, like) ? value : TC_OP(g, "Expand", value, tc_build_shape(g, like));
}

tc_value *tc_build_concat(tc_build *g, size_t count, tc_value *const *values, int64_t axis) {
    if (count == 1)
        return values[0];
    tc_node *node = tc_build_node(g, "", "Concat", count, values, 1);
    tc_attr_set_int(node, "axis", axis);
    return tc_build_finish(g, node);
}

tc_value *tc_build_cast(tc_build *g, tc_value *value, tc_dtype dtype) {
    if (tc_value_dtype(value) == dtype || dtype == TC_UNDEFINED)
        return value;
    tc_node *node = TC_BEGIN(g, "Cast", value);
    tc_attr_set_int(node, "to", dtype);
    return tc_build_finish(g, node);
}

tc_value *tc_build_wide(tc_build *g, tc_value *value) {
    return tc_dtype_is_half(tc_value_dtype(value)) ? tc_build_cast(g, value, TC_FLOAT) : value;
}

tc_value *tc_build_sum(tc_build *g, size_t count, tc_value *const *values) {
    if (count == 1)
        return values[0];
    return tc_build_finish(g, tc_build_node(g, "", count == 2 ? "Add" : "Sum", count, values, 1));
}
