/* shape_arith.c: shape functions of ops that turn shapes into values and values into shapes. */
#include "shape_fns.h"
#include <math.h>

tc_status tc_shape_shape(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dim count = tc_dim_unknown();
    if (x.rank != TC_RANK_UNKNOWN) {
        int64_t start = tc_attr_int(node, "start", 0), end = tc_attr_int(node, "end", x.rank);
        start = start < -x.rank ? 0 : start > x.rank ? x.rank : start < 0 ? start + x.rank : start;
        end = end < -x.rank ? 0 : end > x.rank ? x.rank : end < 0 ? end + x.rank : end;
        count = tc_dim_const(end > start ? end - start : 0);
    }
    return tc_shape_set(sc, node, 0, TC_INT64, 1, &count);
}

tc_status tc_shape_size(tc_shape_ctx *sc, tc_node *node) {
    return tc_shape_set(sc, node, 0, TC_INT64, 0, NULL);
}

tc_status tc_shape_constant(tc_shape_ctx *sc, tc_node *node) {
    static const struct {
        const char *name;
        tc_attr_kind kind;
        tc_dtype dtype;
        int rank;
    } forms[] = {
        {"value_float", TC_ATTR_FLOAT, TC_FLOAT, 0},    {"value_floats", TC_ATTR_FLOATS, TC_FLOAT, 1},
        {"value_int", TC_ATTR_INT, TC_INT64, 0},        {"value_ints", TC_ATTR_INTS, TC_INT64, 1},
        {"value_string", TC_ATTR_STRING, TC_STRING, 0}, {"value_strings", TC_ATTR_STRINGS, TC_STRING, 1},
    };
    const tc_attr *value = tc_attr_find(node, "value");
    if (value && value->kind == TC_ATTR_TENSOR && value->t) {
        const tc_tensor *t = value->t;
        const tc_type *type = tc_type_tensor_static(sc->model, t->dtype, t->rank, t->dims);
        return tc_output(node, 0) ? tc_shape_merge(sc, node, tc_output(node, 0), type) : TC_OK;
    }
    for (size_t i = 0; i < TC_COUNT(forms); i++) {
        const tc_attr *attr = tc_attr_find(node, forms[i].name);
        if (!attr || attr->kind != forms[i].kind || attr->ref)
            continue;
        tc_dim count = tc_dim_const((int64_t)attr->count);
        return tc_shape_set(sc, node, 0, forms[i].dtype, forms[i].rank, &count);
    }
    if (node->n_attrs == 0)
        return TC_FAIL(sc, node, "has no value: expected one attribute, such as value");
    return TC_OK; /* sparse, or an attribute of the enclosing function */
}

tc_status tc_shape_constant_of_shape(tc_shape_ctx *sc, tc_node *node) {
    const tc_attr *value = tc_attr_find(node, "value");
    tc_dtype dtype = value && value->kind == TC_ATTR_TENSOR && value->t ? value->t->dtype : TC_FLOAT;
    size_t count;
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 1));
    const tc_dim *sizes = tc_shape_dims(sc, node, 0, &count);
    if (!sizes)
        return tc_shape_set(sc, node, 0, dtype, TC_RANK_UNKNOWN, NULL);
    if (count > TC_MAX_RANK)
        return tc_error(sc->ctx, TC_LIMIT, node, "shape has %zu sizes, above the limit of %d", count, TC_MAX_RANK);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < (int)count; i++)
        dims[i] = tc_dim_is_unknown(sizes[i]) ? tc_shape_fresh(sc, node, 0, i) : sizes[i];
    return tc_shape_set(sc, node, 0, dtype, (int)count, dims);
}

/* ceil((limit - start) / delta), at least 0. */
static tc_dim range_count(tc_shape_ctx *sc, const tc_contents *known[3]) {
    tc_dim_pool *pool = sc->model->dims;
    if (!known[0] || !known[1] || !known[2] || known[0]->count != 1 || known[1]->count != 1 || known[2]->count != 1)
        return tc_dim_unknown();
    if (tc_dtype_is_float(known[0]->dtype)) {
        double count = ceil((known[1]->items[0].f - known[0]->items[0].f) / known[2]->items[0].f);
        return count > 0 && count < 9e15 ? tc_dim_const((int64_t)count)
               : count <= 0              ? tc_dim_const(0)
                                         : tc_dim_unknown();
    }
    tc_dim start = known[0]->items[0].i, limit = known[1]->items[0].i, delta = known[2]->items[0].i;
    if (!tc_dim_is_const(delta) || delta.value == 0 || delta.value == INT64_MIN)
        return tc_dim_unknown();
    tc_dim span = delta.value > 0 ? tc_dim_sub(pool, limit, start) : tc_dim_sub(pool, start, limit);
    int64_t step = delta.value > 0 ? delta.value : -delta.value;
    tc_dim count = tc_dim_div(pool, tc_dim_add(pool, span, tc_dim_const(step - 1)), tc_dim_const(step));
    return tc_dim_max(pool, count, tc_dim_const(0));
}

tc_status tc_shape_range(tc_shape_ctx *sc, tc_node *node) {
    const tc_contents *known[3];
    tc_arg first = tc_arg_of(node, 0);
    for (uint32_t i = 0; i < 3; i++) {
        known[i] = tc_value_contents(sc->model, tc_input(node, i));
        TC_TRY(tc_shape_expect_same_type(sc, node, 0, i));
    }
    if (known[2] && known[2]->count == 1 &&
        (tc_dtype_is_float(known[2]->dtype) ? known[2]->items[0].f == 0
                                            : tc_dim_equal(known[2]->items[0].i, tc_dim_const(0))))
        return TC_FAIL(sc, node, "delta is 0");
    tc_dim count = range_count(sc, known);
    if (tc_dim_is_unknown(count))
        count = tc_shape_fresh(sc, node, 0, 0);
    return tc_shape_set(sc, node, 0, first.dtype, 1, &count);
}
