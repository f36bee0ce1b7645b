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

tc_status tc_shape_size(tc_shape_ctx *sc, tc_node *node) { return tc_shape_set(sc, node, 0, TC_INT64, 0, NULL); }

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

#define RANGE_LIMIT 0x1p62 /* elements; far more than there is memory for */

static tc_status range_too_long(tc_shape_ctx *sc, const tc_node *node) {
    return tc_error(sc->ctx, TC_LIMIT, node, "the range would have 2^62 elements or more");
}

/* Numbers whose difference may not fit in 63 bits. */
static tc_status range_of_ints(tc_shape_ctx *sc, tc_node *node, int64_t start, int64_t limit, int64_t delta,
                               tc_dim *out_count) {
    bool up = delta > 0;
    uint64_t step = up ? (uint64_t)delta : -(uint64_t)delta;
    uint64_t span = up ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t count = (up ? limit > start : limit < start) ? (span - 1) / step + 1 : 0;
    *out_count = tc_dim_const((int64_t)count);
    return (double)count < RANGE_LIMIT ? TC_OK : range_too_long(sc, node);
}

static tc_status range_of_floats(tc_shape_ctx *sc, tc_node *node, double start, double limit, double delta,
                                 tc_dim *out_count) {
    double count = ceil((limit - start) / delta);
    if (isnan(count))
        return TC_FAIL(sc, node, "start %g, limit %g and delta %g make no range", start, limit, delta);
    if (count >= RANGE_LIMIT)
        return range_too_long(sc, node);
    *out_count = tc_dim_const(count > 0 ? (int64_t)count : 0);
    return TC_OK;
}

/* ceil((limit - start) / delta), at least 0. */
static tc_status range_count(tc_shape_ctx *sc, tc_node *node, const tc_contents *known[3], tc_dim *out_count) {
    tc_dim_pool *pool = sc->model->dims;
    *out_count = tc_dim_unknown();
    if (!known[0] || !known[1] || !known[2] || known[0]->count != 1 || known[1]->count != 1 || known[2]->count != 1)
        return TC_OK;
    tc_scalar start = known[0]->items[0], limit = known[1]->items[0], delta = known[2]->items[0];
    if (tc_dtype_is_float(known[0]->dtype))
        return range_of_floats(sc, node, start.f, limit.f, delta.f, out_count);
    if (tc_dim_is_const(start.i) && tc_dim_is_const(limit.i) && tc_dim_is_const(delta.i))
        return range_of_ints(sc, node, start.i.value, limit.i.value, delta.i.value, out_count);
    if (!tc_dim_is_const(delta.i) || delta.i.value == INT64_MIN)
        return TC_OK;
    tc_dim span = delta.i.value > 0 ? tc_dim_sub(pool, limit.i, start.i) : tc_dim_sub(pool, start.i, limit.i);
    int64_t step = delta.i.value > 0 ? delta.i.value : -delta.i.value;
    tc_dim count = tc_dim_div(pool, tc_dim_add(pool, span, tc_dim_const(step - 1)), tc_dim_const(step));
    *out_count = tc_dim_max(pool, count, tc_dim_const(0));
    return TC_OK;
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
    tc_dim count;
    TC_TRY(range_count(sc, node, known, &count));
    if (tc_dim_is_unknown(count))
        count = tc_shape_fresh(sc, node, 0, 0);
    return tc_shape_set(sc, node, 0, first.dtype, 1, &count);
}
