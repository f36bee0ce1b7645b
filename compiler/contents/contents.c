/* contents.c: known elements of small values: from constants, to constants, and the driver of the evaluators in
 * contents/. A result is evaluated when its shape is static and it is small; the total size of larger results is
 * limited for each model. */
#include "contents.h"
#include "eval.h"
#include <math.h>
#include <string.h>

enum { MAX_ITEMS = 16384, SMALL = 64 };
#define MAX_EVALUATED (UINT64_C(4) << 20) /* elements in results of more than SMALL, over the life of a model */

bool tc_eval_is_int(tc_dtype dtype) {
    return dtype == TC_BOOL || (dtype >= TC_UINT8 && dtype <= TC_INT64) || dtype == TC_UINT32 || dtype == TC_UINT64;
}

/* An empty contents; NULL when the type is not evaluated or it would be too large. */
static tc_contents *create(tc_model *model, tc_dtype dtype, int rank, const int64_t *dims) {
    uint64_t count;
    if (!tc_dtype_is_number(dtype) || !tc_shape_count(rank, dims, &count) || count > MAX_ITEMS ||
        tc_tensor_bytes(dtype, count) > TC_CONTENTS_LIMIT)
        return NULL;
    if (count > SMALL) {
        if (model->evaluated + count > MAX_EVALUATED)
            return NULL;
        model->evaluated += count;
    }
    tc_contents *made = TC_NEW(model->arena, tc_contents);
    int64_t *copy = TC_NEW_ARRAY(model->arena, int64_t, (size_t)rank + 1);
    for (int i = 0; i < rank; i++)
        copy[i] = dims[i];
    *made = (tc_contents){.dtype = dtype, .rank = rank, .dims = copy, .count = count};
    made->items = TC_NEW_ARRAY(model->arena, tc_scalar, (size_t)count + 1);
    return made;
}

const tc_contents *tc_contents_of_tensor(tc_model *model, const tc_tensor *tensor) {
    if (!tensor || (!tensor->data && tensor->count > 0))
        return NULL;
    tc_contents *made = create(model, tensor->dtype, tensor->rank, tensor->dims);
    if (!made)
        return NULL;
    made->tensor = tensor;
    tc_scalar *items = tc_eval_items(made);
    for (uint64_t i = 0; i < made->count; i++) {
        if (tc_eval_is_int(tensor->dtype))
            items[i].i = tc_eval_wrap(tensor->dtype, tc_dim_const(tc_tensor_get_int(tensor, i)));
        else
            items[i].f = tc_tensor_get(tensor, i);
    }
    return made;
}

const tc_contents *tc_value_contents(tc_model *model, tc_value *value) {
    bool constant = value->init ? !value->is_input && value->learned != TC_LEARNED_YES
                                : value->producer && tc_node_is(value->producer, "", "Constant");
    bool stale = value->contents && value->init && constant && value->contents->tensor != value->init;
    if (constant && (!value->contents || stale))
        value->contents = tc_contents_of_tensor(model, tc_value_constant(value));
    return value->contents;
}

bool tc_contents_is_const(const tc_contents *contents) {
    for (uint64_t i = 0; tc_eval_is_int(contents->dtype) && i < contents->count; i++)
        if (!tc_dim_is_const(contents->items[i].i))
            return false;
    return true;
}

bool tc_value_number(tc_model *model, tc_value *value, int64_t *out_number) {
    const tc_contents *contents = value ? tc_value_contents(model, value) : NULL;
    if (!contents || contents->count != 1 || tc_dtype_is_float(contents->dtype) ||
        !tc_dim_is_const(contents->items[0].i))
        return false;
    *out_number = contents->items[0].i.value;
    return true;
}

tc_tensor *tc_contents_to_tensor(tc_model *model, const tc_contents *contents) {
    if (!tc_contents_is_const(contents))
        return NULL;
    unsigned char *data = tc_arena_alloc(model->arena, (size_t)contents->count + 1, 8);
    for (uint64_t i = 0; i < contents->count; i++) {
        const tc_scalar item = contents->items[i];
        if (contents->dtype == TC_INT64 || contents->dtype == TC_UINT64)
            memcpy(data + 8 * i, &item.i.value, 8);
        else
            tc_element_set(contents->dtype, data, i, tc_eval_is_int(contents->dtype) ? (double)item.i.value : item.f);
    }
    return tc_tensor_create(model, contents->dtype, contents->rank, contents->dims, data);
}

/* --- for evaluators --------------------------------------------------------------------------- */

const tc_contents *tc_eval_in(tc_eval *ev, const tc_node *node, uint32_t index) {
    tc_value *value = tc_input(node, index);
    return value ? tc_value_contents(ev->model, value) : NULL;
}

tc_contents *tc_eval_out(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_type *type = node->outputs[output]->type;
    int64_t dims[TC_MAX_RANK];
    if (!tc_type_is_static(type))
        return NULL;
    for (int i = 0; i < type->rank; i++)
        dims[i] = type->dims[i].value;
    return create(ev->model, type->dtype, type->rank, dims);
}

bool tc_eval_ints(tc_eval *ev, const tc_node *node, uint32_t index, const int64_t **out, size_t *out_count) {
    const tc_contents *known = tc_eval_in(ev, node, index);
    if (!known || !tc_eval_is_int(known->dtype) || !tc_contents_is_const(known))
        return false;
    int64_t *ints = TC_NEW_ARRAY(ev->arena, int64_t, (size_t)known->count + 1);
    for (uint64_t i = 0; i < known->count; i++)
        ints[i] = known->items[i].i.value;
    *out = ints;
    *out_count = (size_t)known->count;
    return true;
}

void tc_eval_strides(int rank, const int64_t *dims, int64_t strides[TC_MAX_RANK]) {
    int64_t step = 1;
    for (int i = rank; i-- > 0;) {
        strides[i] = step;
        step *= dims[i] > 0 ? dims[i] : 1;
    }
}

void tc_eval_next(int rank, const int64_t *dims, int64_t at[TC_MAX_RANK]) {
    for (int i = rank; i-- > 0;) {
        if (++at[i] < dims[i])
            return;
        at[i] = 0;
    }
}

int tc_eval_axis(int64_t axis, int rank) {
    return axis < -rank || axis >= rank ? -1 : (int)(axis < 0 ? axis + rank : axis);
}

tc_dim tc_eval_wrap(tc_dtype dtype, tc_dim value) {
    unsigned bits = tc_dtype_bits(dtype);
    if (!tc_dim_is_const(value))
        return value;
    if (dtype == TC_BOOL)
        return tc_dim_const(value.value != 0);
    if (dtype == TC_UINT64)
        return value.value < 0 ? tc_dim_unknown() : value;
    if (bits == 64)
        return value;
    uint64_t kept = (uint64_t)value.value & (((uint64_t)1 << bits) - 1);
    bool is_signed = dtype == TC_INT8 || dtype == TC_INT16 || dtype == TC_INT32;
    if (is_signed && (kept >> (bits - 1)))
        return tc_dim_const((int64_t)kept - ((int64_t)1 << bits));
    return tc_dim_const((int64_t)kept);
}

/* By tc_op.index. */
#define tc_eval_none NULL
static const tc_eval_fn evaluators[] = {
#define ROW(name, since, in_lo, in_hi, out_lo, out_hi, types, traits, shape, eval, ...) tc_eval_##eval,
#include "compiler/ir/ops.def"
};

/* No shape: nothing to evaluate. The evaluators themselves handle float results of operands that are no constants. */
void tc_contents_eval(tc_model *model, tc_node *node) {
    tc_eval_fn eval = node->op ? evaluators[node->op->index] : NULL;
    if (!eval)
        return;
    tc_eval ev = {.model = model, .arena = model->arena, .dims = model->dims};
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && node->outputs[i]->type)
            node->outputs[i]->contents = eval(&ev, node, i);
}
