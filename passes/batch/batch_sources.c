/* batch_sources.c: nodes that make as many rows as the file's batch without reading an input: an Expand from one
 * row, a constant that holds every row, an index that counts them. The rows are all the same, or numbered, so they
 * are replaced by as many rows as the batch has at run time. */
#include "compiler/contents/contents.h"
#include "compiler/shape/shape.h"
#include "batch.h"
#include <string.h>

/* --- the batch at run time ---------------------------------------------------------------------- */

static tc_node *add_before(tc_node *where, const char *op, const char *result, uint32_t n_inputs) {
    tc_node *node = tc_node_create(where->graph, "", op, n_inputs, 1);
    tc_node_add_output(node, 0, result, NULL);
    tc_node_insert_before(node, where);
    return node;
}

/* int64[1]: the first size of an input. */
static tc_status make_size(tc_batch *b) {
    tc_value *input = NULL;
    if (b->size)
        return TC_OK;
    for (uint32_t i = 0; !input && i < b->model->graph->n_inputs; i++)
        if (tc_batch_axis(b, b->model->graph->inputs[i]) == 0)
            input = b->model->graph->inputs[i];
    tc_node *shape = add_before(b->model->graph->first, "Shape", "batch_size", 1);
    tc_node_set_input(shape, 0, input);
    tc_attr_set_int(shape, "start", 0);
    tc_attr_set_int(shape, "end", 1);
    b->size = shape->outputs[0];
    return tc_batch_infer(b, shape);
}

/* int64[n]: the batch, then `rest`. */
static tc_status make_sizes(tc_batch *b, tc_node *before, const int64_t *rest, int n_rest, tc_value **out_sizes) {
    TC_TRY(make_size(b));
    *out_sizes = b->size;
    if (n_rest == 0)
        return TC_OK;
    tc_node *concat = add_before(before, "Concat", "batch_sizes", 2);
    tc_attr_set_int(concat, "axis", 0);
    tc_node_set_input(concat, 0, b->size);
    tc_node_set_input(concat, 1, tc_constant(before->graph, "sizes", tc_tensor_ints(b->model, rest, n_rest)));
    *out_sizes = concat->outputs[0];
    return tc_batch_infer(b, concat);
}

/* As many copies of the only row as there are samples. */
static tc_status repeat_row(tc_batch *b, tc_node *before, tc_value *row, tc_value **out_rows) {
    tc_value *sizes;
    int64_t ones[TC_MAX_RANK];
    for (int i = 0; i < TC_MAX_RANK; i++)
        ones[i] = 1;
    TC_TRY(make_sizes(b, before, ones, tc_value_rank(row) - 1, &sizes));
    tc_node *expand = add_before(before, "Expand", row->name, 2);
    tc_node_set_input(expand, 0, row);
    tc_node_set_input(expand, 1, sizes);
    *out_rows = expand->outputs[0];
    b->n_changed++;
    return tc_batch_infer(b, expand);
}

/* --- targets ------------------------------------------------------------------------------------ */

/* The numbers in operand `index`, if it is a list of integers that are all known; else false. */
static bool known_sizes(const tc_batch *b, const tc_node *node, uint32_t index, int64_t *out_sizes, int *out_n) {
    const tc_contents *known = tc_value_contents(b->model, tc_input(node, index));
    if (!known || known->rank != 1 || known->count > TC_MAX_RANK || tc_dtype_is_float(known->dtype))
        return false;
    *out_n = (int)known->count;
    for (int i = 0; i < *out_n; i++) {
        if (!tc_dim_is_const(known->items[i].i))
            return false;
        out_sizes[i] = known->items[i].i.value;
    }
    return true;
}

tc_status tc_batch_expand(tc_batch *b, tc_node *node) {
    int64_t sizes[TC_MAX_RANK];
    int n, axis = tc_batch_axis(b, tc_input(node, 0)), rank = tc_value_rank(tc_input(node, 0));
    if (axis < 0 || !known_sizes(b, node, 1, sizes, &n) || n - rank + axis < 0 || sizes[n - rank + axis] != b->was ||
        b->was == 1)
        return TC_OK;
    sizes[n - rank + axis] = 1; /* only the operand's size counts */
    tc_node_set_input(node, 1,
                      tc_constant(node->graph, node->inputs[1].value->name, tc_tensor_ints(b->model, sizes, n)));
    node->outputs[0]->type = NULL;
    b->n_changed++;
    return tc_batch_infer(b, node);
}

/* Operand `index` is a list of sizes, the batch first. */
static tc_status follow_sizes(tc_batch *b, tc_node *node, uint32_t index) {
    int64_t sizes[TC_MAX_RANK];
    int n;
    tc_value *made;
    if (!known_sizes(b, node, index, sizes, &n) || n < 2 || sizes[0] != b->was)
        return TC_OK;
    TC_TRY(make_sizes(b, node, sizes + 1, n - 1, &made));
    tc_node_set_input(node, index, made);
    b->n_changed++;
    return TC_OK;
}

static tc_status follow_expand(tc_batch *b, tc_node *node) {
    const tc_value *x = tc_input(node, 0);
    int64_t sizes[TC_MAX_RANK];
    int n;
    if (!known_sizes(b, node, 1, sizes, &n) || n < tc_value_rank(x) || tc_batch_axis(b, x) >= 0)
        return TC_OK;
    bool one_row = n > tc_value_rank(x) || (tc_dim_is_const(x->type->dims[0]) && x->type->dims[0].value == 1);
    return one_row ? follow_sizes(b, node, 1) : TC_OK;
}

/* --- constants ---------------------------------------------------------------------------------- */

/* A constant with one row per sample; NULL: it is another value, or may be a parameter. */
static const tc_tensor *rows_of(const tc_batch *b, const tc_value *value) {
    const tc_tensor *t = value && !value->is_input ? tc_value_constant(value) : NULL;
    if (!t || t->rank < 2 || t->dims[0] != b->was || t->count == 0 || tc_dtype_bits(t->dtype) < 8 || !t->data)
        return NULL;
    return tc_dtype_is_float(t->dtype) && value->learned != TC_LEARNED_NO ? NULL : t;
}

static tc_tensor *first_row(const tc_batch *b, const tc_tensor *t, const void *data) {
    int64_t dims[TC_MAX_RANK];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[0] = 1;
    return tc_tensor_create(b->model, t->dtype, t->rank, dims, data);
}

static tc_value *typed_constant(const tc_batch *b, tc_node *node, const char *name, const tc_tensor *t) {
    tc_value *value = tc_constant(node->graph, name, t);
    value->type = tc_type_tensor_static(b->model, t->dtype, t->rank, t->dims);
    return value;
}

static bool rows_are_equal(const tc_tensor *t) {
    size_t row = t->bytes / (size_t)t->dims[0];
    return memcmp(t->data, (const char *)t->data + row, t->bytes - row) == 0;
}

static tc_status repeat_constant(tc_batch *b, tc_node *node, uint32_t index) {
    tc_value *value = tc_input(node, index), *rows;
    const tc_tensor *t = rows_of(b, value);
    if (!t || !rows_are_equal(t))
        return TC_OK;
    TC_TRY(repeat_row(b, node, typed_constant(b, node, value->name, first_row(b, t, t->data)), &rows));
    tc_node_set_input(node, index, rows);
    return TC_OK;
}

/* A constant that counts the rows, 0, 1, ..., along its first axis. A plain list of them is taken for sizes or the
 * like, unless it gets other axes. */
static const tc_tensor *count_of(const tc_batch *b, const tc_node *node, const tc_value *value) {
    const tc_tensor *t = value && !value->is_input ? tc_value_constant(value) : NULL;
    bool gets_axes = tc_node_is(node, "", "Unsqueeze") || tc_node_is(node, "", "Expand");
    if (!t || t->dtype != TC_INT64 || !t->data || t->rank < (gets_axes ? 1 : 2) || t->dims[0] != b->was ||
        t->count != (uint64_t)b->was || b->was == 1)
        return NULL;
    for (uint64_t i = 0; i < t->count; i++)
        if (tc_tensor_get_int(t, i) != (int64_t)i)
            return NULL;
    return t;
}

static tc_status follow_count(tc_batch *b, tc_node *node, uint32_t index) {
    const tc_value *value = tc_input(node, index);
    const tc_tensor *t = count_of(b, node, value);
    int64_t shape[TC_MAX_RANK];
    if (!t)
        return TC_OK;
    TC_TRY(make_size(b));
    tc_node *n = add_before(node, "Squeeze", "batch_size", 1);
    tc_node_set_input(n, 0, b->size);
    TC_TRY(tc_batch_infer(b, n));
    tc_node *range = add_before(node, "Range", value->name, 3);
    tc_node_set_input(range, 0, typed_constant(b, node, "first", tc_tensor_scalar_int(b->model, 0)));
    tc_node_set_input(range, 1, n->outputs[0]);
    tc_node_set_input(range, 2, typed_constant(b, node, "step", tc_tensor_scalar_int(b->model, 1)));
    TC_TRY(tc_batch_infer(b, range));
    for (int i = 0; i < t->rank; i++)
        shape[i] = i == 0 ? -1 : 1;
    tc_node *reshape = add_before(node, "Reshape", value->name, 2);
    tc_node_set_input(reshape, 0, range->outputs[0]);
    tc_node_set_input(reshape, 1, typed_constant(b, node, "shape", tc_tensor_ints(b->model, shape, t->rank)));
    tc_node_set_input(node, index, reshape->outputs[0]);
    b->n_changed++;
    return tc_batch_infer(b, reshape);
}

/* Indices {i, ...} in row i, the rest the same in all rows. With the batch as a common axis, row i has the rest.
 * NULL: the indices are others. */
static tc_tensor *rest_of_indices(const tc_batch *b, const tc_tensor *t) {
    int64_t width = t->dims[t->rank - 1];
    uint64_t per_row = t->count / (uint64_t)t->dims[0], tuples = per_row / (uint64_t)width;
    int64_t dims[TC_MAX_RANK];
    if (t->dtype != TC_INT64 || width < 2)
        return NULL;
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[0] = 1;
    dims[t->rank - 1] = width - 1;
    tc_tensor *rest = tc_tensor_create(b->model, TC_INT64, t->rank, dims, NULL);
    int64_t *out = (int64_t *)(uintptr_t)rest->data;
    const int64_t *all = t->data;
    for (uint64_t i = 0; i < tuples; i++)
        memcpy(out + i * (uint64_t)(width - 1), all + i * (uint64_t)width + 1, (size_t)(width - 1) * sizeof *out);
    for (uint64_t i = 0; i < t->count; i += (uint64_t)width) {
        uint64_t row = i / per_row, tuple = i % per_row / (uint64_t)width;
        if (all[i] != (int64_t)row ||
            memcmp(all + i + 1, out + tuple * (uint64_t)(width - 1), (size_t)(width - 1) * sizeof *out) != 0)
            return NULL;
    }
    return rest;
}

static tc_status follow_indices(tc_batch *b, tc_node *node) {
    tc_value *value = tc_input(node, 1), *rows;
    const tc_tensor *t = rows_of(b, value);
    bool fits = t && tc_attr_int(node, "batch_dims", 0) == 0 && tc_batch_axis(b, tc_input(node, 0)) == 0 &&
                tc_dim_equal(tc_input(node, 0)->type->dims[0], b->symbol);
    tc_tensor *rest = fits ? rest_of_indices(b, t) : NULL;
    if (!rest)
        return TC_OK;
    TC_TRY(repeat_row(b, node, typed_constant(b, node, value->name, rest), &rows));
    tc_node_set_input(node, 1, rows);
    tc_attr_set_int(node, "batch_dims", 1);
    b->n_ambiguous += b->was == 1;
    return TC_OK;
}

/* --- concatenated rows -------------------------------------------------------------------------- */

/* The operands of a Concat need as many rows as the one that has the batch: a single row is repeated. */
static tc_status follow_others(tc_batch *b, tc_node *node) {
    int64_t along = tc_attr_int(node, "axis", 0);
    bool follows = false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        follows = follows || tc_batch_axis(b, tc_input(node, i)) == 0;
    for (uint32_t i = 0; follows && along != 0 && i < node->n_inputs; i++) {
        tc_value *x = tc_input(node, i), *rows;
        int rank = tc_value_rank(x);
        if (rank < 2 || along == -rank || tc_batch_axis(b, x) >= 0 || !tc_type_is_static(x->type) ||
            x->type->dims[0].value != 1)
            continue;
        TC_TRY(repeat_row(b, node, x, &rows));
        tc_node_set_input(node, i, rows);
    }
    return TC_OK;
}

tc_status tc_batch_sources(tc_batch *b, tc_node *node) {
    if (tc_node_is(node, "", "Concat"))
        TC_TRY(follow_others(b, node));
    if (tc_node_is(node, "", "GatherND"))
        TC_TRY(follow_indices(b, node));
    if (b->was == 1)
        return TC_OK; /* one row broadcasts to any number of them elsewhere */
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        TC_TRY(repeat_constant(b, node, i));
        TC_TRY(follow_count(b, node, i));
    }
    if (tc_node_is(node, "", "Expand"))
        TC_TRY(follow_expand(b, node));
    if (tc_node_is(node, "", "ConstantOfShape"))
        TC_TRY(follow_sizes(b, node, 0));
    return TC_OK;
}
