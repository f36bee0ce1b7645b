/* eval_make.c: evaluators of ops that make elements from shapes, attributes or whole operands: Shape, Constant, Range,
 * reductions, CumSum, OneHot, NonZero, Trilu, EyeLike. */
#include "eval.h"
#include <math.h>
#include <string.h>

const tc_contents *tc_eval_shape(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_value *x = tc_input(node, 0);
    int rank = x ? tc_value_rank(x) : TC_RANK_UNKNOWN;
    tc_contents *out = rank == TC_RANK_UNKNOWN ? NULL : tc_eval_out(ev, node, output);
    if (!out)
        return NULL;
    int64_t start = tc_attr_int(node, "start", 0);
    start = start < -rank ? 0 : start < 0 ? start + rank : start;
    for (uint64_t i = 0; i < out->count; i++)
        tc_eval_items(out)[i].i = x->type->dims[start + (int64_t)i];
    return out;
}

const tc_contents *tc_eval_size(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_value *x = tc_input(node, 0);
    int rank = x ? tc_value_rank(x) : TC_RANK_UNKNOWN;
    tc_contents *out = rank == TC_RANK_UNKNOWN ? NULL : tc_eval_out(ev, node, output);
    tc_dim product = tc_dim_const(1);
    for (int i = 0; out && i < rank; i++)
        product = tc_dim_mul(ev->dims, product, x->type->dims[i]);
    if (out)
        tc_eval_items(out)[0].i = product;
    return out;
}

const tc_contents *tc_eval_constant(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_attr *value = tc_attr_find(node, "value");
    if (value && value->kind == TC_ATTR_TENSOR)
        return tc_contents_of_tensor(ev->model, value->t);
    return tc_contents_of_tensor(ev->model, tc_value_constant(node->outputs[output]));
}

const tc_contents *tc_eval_constant_of_shape(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_attr *value = tc_attr_find(node, "value");
    tc_scalar fill = {.f = 0};
    if (value && value->kind == TC_ATTR_TENSOR && value->t) {
        const tc_contents *known = tc_contents_of_tensor(ev->model, value->t);
        if (!known || known->count != 1)
            return NULL;
        fill = known->items[0];
    }
    tc_contents *out = tc_eval_out(ev, node, output);
    for (uint64_t i = 0; out && i < out->count; i++)
        tc_eval_items(out)[i] = fill;
    return out;
}

const tc_contents *tc_eval_range(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *start = tc_eval_in(ev, node, 0), *delta = tc_eval_in(ev, node, 2);
    tc_contents *out = start && delta && start->count == 1 && delta->count == 1 ? tc_eval_out(ev, node, output) : NULL;
    for (uint64_t n = 0; out && n < out->count; n++) {
        tc_scalar step =
            tc_eval_is_int(out->dtype) ? (tc_scalar){.i = tc_dim_const((int64_t)n)} : (tc_scalar){.f = (double)n};
        tc_scalar by = tc_eval_arith(ev, TC_MUL, out->dtype, step, delta->items[0]);
        tc_eval_items(out)[n] = tc_eval_arith(ev, TC_ADD, out->dtype, start->items[0], by);
    }
    return out;
}

/* --- reductions ------------------------------------------------------------------------------- */

/* The reduced axes as a bit mask. */
static bool reduced_axes(tc_eval *ev, const tc_node *node, int rank, uint64_t *out_mask) {
    const int64_t *axes = NULL;
    size_t count = 0;
    if (tc_input(node, 1) && !tc_eval_ints(ev, node, 1, &axes, &count))
        return false;
    *out_mask = count || tc_attr_int(node, "noop_with_empty_axes", 0) ? 0 : UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        int axis = tc_eval_axis(axes[i], rank);
        if (axis < 0)
            return false;
        *out_mask |= (uint64_t)1 << axis;
    }
    return true;
}

const tc_contents *tc_eval_reduce(tc_eval *ev, const tc_node *node, uint32_t output) {
    static const struct {
        const char *op;
        tc_arith arith;
    } ops[] = {{"ReduceSum", TC_ADD},
               {"ReduceProd", TC_MUL},
               {"ReduceMax", TC_MAX},
               {"ReduceMin", TC_MIN},
               {"ReduceMean", TC_ADD}};
    const tc_contents *x = tc_eval_in(ev, node, 0);
    size_t op = 0;
    uint64_t mask;
    while (op < TC_COUNT(ops) && strcmp(ops[op].op, node->op->name) != 0)
        op++;
    if (!x || x->count == 0 || op == TC_COUNT(ops) || !reduced_axes(ev, node, x->rank, &mask))
        return NULL;
    tc_contents *out = tc_eval_out(ev, node, output);
    if (!out || out->count == 0)
        return NULL;
    /* Each element goes to the result at its coordinate without the reduced axes. */
    int64_t at[TC_MAX_RANK] = {0}, kept[TC_MAX_RANK];
    bool *started = TC_NEW_ARRAY(ev->arena, bool, (size_t)out->count);
    for (int i = 0; i < x->rank; i++)
        kept[i] = mask >> i & 1 ? 1 : x->dims[i];
    for (uint64_t n = 0; n < x->count; n++, tc_eval_next(x->rank, x->dims, at)) {
        uint64_t to = 0;
        for (int i = 0; i < x->rank; i++)
            to = to * (uint64_t)kept[i] + (kept[i] == 1 ? 0 : (uint64_t)at[i]);
        tc_scalar *sum = &tc_eval_items(out)[to];
        *sum = started[to] ? tc_eval_arith(ev, ops[op].arith, x->dtype, *sum, x->items[n]) : x->items[n];
        started[to] = true;
    }
    uint64_t per_result = x->count / out->count;
    tc_scalar by = tc_eval_is_int(x->dtype) ? (tc_scalar){.i = tc_dim_const((int64_t)per_result)}
                                            : (tc_scalar){.f = (double)per_result};
    for (uint64_t n = 0; strcmp(node->op->name, "ReduceMean") == 0 && n < out->count; n++)
        tc_eval_items(out)[n] = tc_eval_arith(ev, TC_DIV, x->dtype, out->items[n], by);
    return out;
}

const tc_contents *tc_eval_cumsum(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    const int64_t *given;
    size_t count;
    if (!x || !tc_eval_ints(ev, node, 1, &given, &count) || count != 1)
        return NULL;
    tc_contents *out = tc_eval_out(ev, node, output);
    int axis = tc_eval_axis(given[0], x->rank);
    bool exclusive = tc_attr_int(node, "exclusive", 0) != 0, reverse = tc_attr_int(node, "reverse", 0) != 0;
    if (!out || axis < 0)
        return NULL;
    int64_t strides[TC_MAX_RANK], size = x->dims[axis];
    tc_eval_strides(x->rank, x->dims, strides);
    int64_t step = strides[axis];
    for (int64_t n = 0; n < (int64_t)out->count; n++) {
        if (n / step % size != 0)
            continue;
        tc_scalar sum = tc_eval_is_int(x->dtype) ? (tc_scalar){.i = tc_dim_const(0)} : (tc_scalar){.f = 0};
        for (int64_t i = 0; i < size; i++) {
            int64_t at = n + (reverse ? size - 1 - i : i) * step;
            tc_scalar more = tc_eval_arith(ev, TC_ADD, x->dtype, sum, x->items[at]);
            tc_eval_items(out)[at] = exclusive ? sum : more;
            sum = more;
        }
    }
    return out;
}

/* --- patterns --------------------------------------------------------------------------------- */

const tc_contents *tc_eval_trilu(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    const int64_t *given = NULL;
    size_t count;
    if (!x || x->rank < 2 || (tc_input(node, 1) && (!tc_eval_ints(ev, node, 1, &given, &count) || count != 1)))
        return NULL;
    tc_contents *out = tc_eval_out(ev, node, output);
    int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1], k = given ? given[0] : 0;
    bool upper = tc_attr_int(node, "upper", 1) != 0;
    for (uint64_t n = 0; out && n < out->count; n++) {
        int64_t row = (int64_t)(n / (uint64_t)columns) % rows, column = (int64_t)(n % (uint64_t)columns);
        bool keep = upper ? column - row >= k : column - row <= k;
        if (keep)
            tc_eval_items(out)[n] = x->items[n];
    }
    return out;
}

const tc_contents *tc_eval_eye_like(tc_eval *ev, const tc_node *node, uint32_t output) {
    tc_contents *out = tc_eval_out(ev, node, output);
    int64_t k = tc_attr_int(node, "k", 0);
    if (!out || out->rank != 2)
        return NULL;
    for (uint64_t n = 0; n < out->count; n++) {
        int64_t row = (int64_t)(n / (uint64_t)out->dims[1]), column = (int64_t)(n % (uint64_t)out->dims[1]);
        if (column - row != k)
            continue;
        if (tc_eval_is_int(out->dtype))
            tc_eval_items(out)[n].i = tc_dim_const(1);
        else
            tc_eval_items(out)[n].f = 1;
    }
    return out;
}

const tc_contents *tc_eval_onehot(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *indices = tc_eval_in(ev, node, 0), *values = tc_eval_in(ev, node, 2);
    tc_contents *out = indices && values && values->count == 2 ? tc_eval_out(ev, node, output) : NULL;
    int axis = out ? tc_eval_axis(tc_attr_int(node, "axis", -1), out->rank) : -1;
    if (axis < 0 || !tc_eval_is_int(indices->dtype) || !tc_contents_is_const(indices))
        return NULL;
    int64_t strides[TC_MAX_RANK], depth = out->dims[axis];
    tc_eval_strides(out->rank, out->dims, strides);
    for (uint64_t n = 0; n < out->count; n++) {
        int64_t inner = strides[axis], at = (int64_t)n / inner % depth, outer = (int64_t)n / inner / depth;
        int64_t hot = indices->items[outer * inner + (int64_t)n % inner].i.value;
        hot = hot < 0 ? hot + depth : hot;
        tc_eval_items(out)[n] = values->items[hot == at];
    }
    return out;
}

const tc_contents *tc_eval_nonzero(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    tc_contents *out = x && tc_contents_is_const(x) ? tc_eval_out(ev, node, output) : NULL;
    int64_t at[TC_MAX_RANK] = {0};
    uint64_t found = 0;
    if (!out || out->rank != 2 || out->dims[0] != x->rank)
        return NULL;
    uint64_t total = (uint64_t)out->dims[1];
    for (uint64_t n = 0; n < x->count; n++, tc_eval_next(x->rank, x->dims, at)) {
        if (tc_eval_is_int(x->dtype) ? x->items[n].i.value == 0 : x->items[n].f == 0)
            continue;
        if (found == total)
            return NULL;
        for (int i = 0; i < x->rank; i++)
            tc_eval_items(out)[(uint64_t)i * total + found].i = tc_dim_const(at[i]);
        found++;
    }
    return found == total ? out : NULL;
}
