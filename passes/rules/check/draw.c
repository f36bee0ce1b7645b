/* draw.c: a value for an operand: a graph input, a constant or a list, with a shape that fits the existing operands
 * (draw_shape.c), and with sensible elements (draw_element.c). Careless draws sometimes ignore the requirements of
 * the op and the guards. */
#include "compiler/shape/shape.h"
#include "draw.h"
#include <math.h>
#include <string.h>

/* --- element types ---------------------------------------------------------------------------- */

/* If the op fixes the element type, it is not drawn: an operand has the type of its neighbours, or one that operand
 * 0 may have. */
static tc_dtype dtype_for(const rule_instance *inst, const tc_node *node, uint32_t index) {
    static const tc_dtype preferred[] = {TC_DOUBLE, TC_FLOAT, TC_INT64, TC_BOOL};
    bool is_where = tc_node_is(node, "", "Where");
    for (uint32_t i = is_where; i < node->n_inputs; i++)
        if (i != index && tc_value_dtype(tc_input(node, i)) != TC_UNDEFINED)
            return tc_value_dtype(tc_input(node, i));
    uint32_t types = node->op && !is_where ? node->op->types : UINT32_MAX;
    if (types >> inst->dtype & 1)
        return inst->dtype;
    for (size_t i = 0; i < TC_COUNT(preferred); i++)
        if (types >> preferred[i] & 1)
            return preferred[i];
    return TC_INT64;
}

/* --- shapes required by guards ---------------------------------------------------------------- */

static bool needed_shape(rule_instance *inst, const rule_need *need, const shape *with, shape *s) {
    shape x, list;
    if (need->spans != RULE_NONE) {
        bool known = rule_shape_of(inst->values[need->spans_of], &x) && rule_shape_of(inst->values[need->spans], &list);
        if (!known || list.rank != 1 || list.dims[0] > x.rank)
            return rule_shape_fail(inst, "the axes that it spans are not there");
        s->rank = (int)list.dims[0];
        memcpy(s->dims, x.dims + x.rank - s->rank, (size_t)s->rank * sizeof *s->dims);
    } else if (need->trailing_of != RULE_NONE) {
        if (!rule_shape_of(inst->values[need->trailing_of], &x) || x.rank == 0)
            return rule_shape_fail(inst, "there are no last axes");
        int64_t n = 1 + rule_dice_below(&inst->dice, (unsigned)(x.rank < 3 ? x.rank : 3));
        if (need->same_count != RULE_NONE && rule_shape_of(inst->values[need->same_count], &list) && list.rank == 1)
            n = list.dims[0];
        *s = (shape){1, {n}, TC_INT64};
    } else if (need->scalar) {
        s->rank = rule_dice_percent(&inst->dice, 60) ? 0 : (int)rule_dice_below(&inst->dice, (unsigned)with->rank + 1);
        for (int i = 0; i < s->rank; i++)
            s->dims[i] = 1;
    } else if (need->same_shape != RULE_NONE && rule_shape_of(inst->values[need->same_shape], &x)) {
        x.dtype = s->dtype;
        *s = x;
    }
    return true;
}

/* Dims required by `rank` and `dim`; others are added after them. */
static void fit_rank(rule_instance *inst, const rule_need *need, shape *s) {
    int want = need->rank >= 0 ? need->rank : s->rank < need->min_rank ? need->min_rank : s->rank;
    for (; s->rank < want; s->rank++) {
        memmove(s->dims + 1, s->dims, (size_t)s->rank * sizeof *s->dims);
        s->dims[0] = rule_draw_dim(inst);
    }
    if (s->rank > want) {
        memmove(s->dims, s->dims + s->rank - want, (size_t)want * sizeof *s->dims);
        s->rank = want;
    }
    if (need->first_dim >= 0 && s->rank > 0)
        s->dims[0] = need->first_dim;
}

/* --- values ----------------------------------------------------------------------------------- */

/* A constant as an initializer or as a Constant node, in contexts where neither is a weight. */
static tc_value *constant_value(rule_instance *inst, const tc_tensor *tensor, const char *name) {
    bool weight = tensor->count > 1 && tc_dtype_is_float(tensor->dtype);
    if (!weight && rule_dice_percent(&inst->dice, 70))
        return tc_constant(inst->graph, name, tensor);
    tc_node *node = tc_node_create(inst->graph, "", "Constant", 0, 1);
    tc_attr_set_tensor(node, "value", tensor);
    tc_value *value = tc_node_add_output(node, 0, name, NULL);
    tc_node_append(node);
    return tc_infer_node(inst->ctx, node) == TC_OK ? value : NULL;
}

tc_value *rule_draw_number(rule_instance *inst, const tc_node *node, uint32_t index, double number) {
    tc_dtype dtype = dtype_for(inst, node, index);
    int rank = rule_dice_percent(&inst->dice, 65) ? 0 : 1 + (int)rule_dice_below(&inst->dice, 3);
    int64_t ones[3] = {1, 1, 1};
    tc_tensor *tensor = tc_tensor_create(inst->model, dtype, rank, ones, NULL);
    if (!tc_dtype_is_float(dtype) && number != floor(number)) {
        rule_shape_fail(inst, "a literal is no number of this element type");
        return NULL;
    }
    tc_element_set(dtype, (void *)(uintptr_t)tensor->data, 0, number);
    return constant_value(inst, tensor, "c");
}

tc_value *rule_draw_ints(rule_instance *inst, const int64_t *ints, uint32_t n) {
    return constant_value(inst, tc_tensor_ints(inst->model, ints, n), "list");
}

/* A rule runs hundreds of times, so guards that ask for large operands are ignored. */
static bool count_elements(rule_instance *inst, int rank, const int64_t *dims, uint64_t *out_count) {
    enum { MAX_ELEMENTS = 1 << 16 };
    return (tc_shape_count(rank, dims, out_count) && *out_count <= MAX_ELEMENTS) ||
           rule_shape_fail(inst, "an operand would have more than 65536 elements");
}

tc_value *rule_draw_input(rule_instance *inst, const char *name, tc_dtype dtype, int rank, const int64_t *dims) {
    rule_input *input = &inst->inputs[inst->n_inputs];
    if (inst->n_inputs == RULE_MAX_INPUTS) {
        rule_shape_fail(inst, "too many inputs");
        return NULL;
    }
    if (!count_elements(inst, rank, dims, &input->count))
        return NULL;
    *input = (rule_input){.rank = rank, .dtype = dtype, .count = input->count};
    memcpy(input->dims, dims, (size_t)rank * sizeof *dims);
    input->data = tc_arena_alloc(inst->model->arena, tc_tensor_bytes(dtype, input->count) + 1, 1);
    rule_draw_elements(inst, NULL, 0, dtype, input->count, input->data, NULL);
    input->value = tc_value_create(inst->graph, name, tc_type_tensor_static(inst->model, dtype, rank, dims));
    tc_graph_add_input(inst->graph, input->value);
    inst->n_inputs++;
    return input->value;
}

void rule_draw_axes(rule_instance *inst, int64_t *list, int64_t n, int rank, bool trailing) {
    int64_t all[TC_MAX_RANK];
    for (int i = 0; i < rank; i++)
        all[i] = i;
    int64_t *from = trailing ? all + rank - n : all, count = trailing ? n : rank;
    for (int64_t i = 0; i < n; i++) {
        int64_t pick = i + rule_dice_below(&inst->dice, (unsigned)(count - i)), kept = from[pick];
        from[pick] = from[i];
        list[i] = kept - (rule_dice_percent(&inst->dice, 60) ? rank : 0);
    }
}

/* A split of the first dim, the first two joined, or any shape with as many elements. */
static int64_t fill_target(rule_instance *inst, const shape *x, int64_t *list) {
    int rank = x->rank, grows = inst->result_rank - rank;
    unsigned kind = inst->result_rank < 0 ? rule_dice_below(&inst->dice, 3) : grows > 0 ? 0 : grows < 0 ? 1 : 2;
    if (kind == 0 && rank > 0) {
        int64_t factor = 1 + rule_dice_below(&inst->dice, 3);
        if (x->dims[0] % factor == 0) {
            list[0] = x->dims[0] / factor;
            list[1] = factor;
            memcpy(list + 2, x->dims + 1, (size_t)(rank - 1) * sizeof *list);
            return rank + 1;
        }
    }
    if (kind == 1 && rank > 1) {
        list[0] = x->dims[0] * x->dims[1];
        memcpy(list + 1, x->dims + 2, (size_t)(rank - 2) * sizeof *list);
        return rank - 1;
    }
    memcpy(list, x->dims, (size_t)rank * sizeof *list);
    return rank;
}

static tc_value *draw_list(rule_instance *inst, const tc_node *node, uint32_t index, const rule_need *need,
                           bool careless, const shape *s, const char *name) {
    int64_t list[TC_MAX_RANK + 1];
    shape x;
    int64_t n = s->dims[0];
    bool trailing = need && need->trailing_of != RULE_NONE;
    if (!rule_shape_of(trailing ? inst->values[need->trailing_of] : tc_input(node, 0), &x))
        return NULL;
    if (rule_role_is_target(rule_role_of(node, index)))
        n = fill_target(inst, &x, list);
    else if (n > x.rank)
        return NULL; /* more axes than there are */
    else
        rule_draw_axes(inst, list, n, x.rank, trailing && !careless);
    return constant_value(inst, tc_tensor_ints(inst->model, list, n), name);
}

static bool is_scalar(const shape *s) {
    bool one = true;
    for (int i = 0; i < s->rank; i++)
        one &= s->dims[i] == 1;
    return one;
}

/* Elementwise nodes pass on the requirements of their users: the q of MatMul(Mul(q, 0.5), kt) is a left factor. */
static bool fit_outer(rule_instance *inst, bool elementwise, shape *s) {
    shape with;
    for (const rule_place *p = inst->place; p && elementwise; p = p->outer) {
        role draw = rule_role_of(p->node, p->index);
        if (draw && !rule_role_is_shared(draw))
            return draw(inst, p->node, p->index, s);
        elementwise = tc_node_has(p->node, TC_ELEMENTWISE) || tc_node_has(p->node, TC_SAME_TYPE);
        if (elementwise && rule_others(p->node, p->index, &with) && !is_scalar(&with)) {
            rule_draw_broadcast(inst, &with, s);
            return true;
        }
    }
    rule_draw_shape(inst, 0, s);
    return true;
}

/* The requirements of a careless draw: none of the guards', except that a required constant mostly stays one, then
 * with the numbers that guards must catch. */
static rule_need forget(rule_instance *inst, const rule_need *need) {
    rule_need none = rule_no_need;
    none.kept = need && need->kept;
    none.divides = need && need->divides; /* otherwise the graph does not run */
    none.constant = need && need->constant && rule_dice_percent(&inst->dice, 70);
    none.scalar = none.constant && rule_dice_percent(&inst->dice, 50);
    none.edges = none.constant;
    return none;
}

/* Makes a vector instead of a matrix, or adds dims where nothing should be broadcast. */
static void distort(rule_instance *inst, role draw, shape *s) {
    bool left;
    if (rule_role_is_matrix(draw, &left) && s->rank >= 2) {
        s->dims[0] = s->dims[left ? s->rank - 1 : s->rank - 2];
        s->rank = 1;
    } else if (!draw && s->rank < MAX_DRAWN_RANK && rule_dice_percent(&inst->dice, 50)) {
        memmove(s->dims + 1, s->dims, (size_t)s->rank++ * sizeof *s->dims);
        s->dims[0] = rule_draw_dim(inst);
    }
}

tc_value *rule_draw_operand(rule_instance *inst, const tc_node *node, uint32_t index, const rule_need *need,
                            const char *name) {
    bool careless = inst->careless && rule_dice_percent(&inst->dice, 30);
    const rule_need none = careless ? forget(inst, need) : rule_no_need;
    bool is_list = need && need->trailing_of != RULE_NONE;
    need = careless && !is_list ? &none : need;
    shape s = {.dtype = dtype_for(inst, node, index)}, with = {0};
    role draw = rule_role_of(node, index);
    bool elementwise = tc_node_has(node, TC_ELEMENTWISE) || tc_node_has(node, TC_SAME_TYPE),
         has_others = rule_others(node, index, &with);
    inst->rank = need ? need->rank : -1;
    if (need && need->wants_bool)
        s.dtype = TC_BOOL;
    if (draw ? !draw(inst, node, index, &s) : false)
        return NULL;
    if (!draw && elementwise && has_others && !is_scalar(&with))
        rule_draw_broadcast(inst, &with, &s);
    else if (!draw && !fit_outer(inst, elementwise, &s))
        return NULL;
    if (careless)
        distort(inst, draw, &s);
    if (need && !needed_shape(inst, need, &with, &s))
        return NULL;
    if (need)
        fit_rank(inst, need, &s);
    if (is_list || rule_role_is_axes(draw) || rule_role_is_target(draw))
        return draw_list(inst, node, index, need, careless, &s, name);
    uint64_t count;
    if (need && need->constant) {
        if (!count_elements(inst, s.rank, s.dims, &count))
            return NULL;
        tc_tensor *tensor = tc_tensor_create(inst->model, s.dtype, s.rank, s.dims, NULL);
        rule_draw_elements(inst, node, index, s.dtype, count, (void *)(uintptr_t)tensor->data, need);
        return constant_value(inst, tensor, name);
    }
    tc_value *value = rule_draw_input(inst, name, s.dtype, s.rank, s.dims);
    if (!value)
        return NULL;
    rule_input *input = &inst->inputs[inst->n_inputs - 1];
    rule_draw_elements(inst, node, index, s.dtype, input->count, input->data, need);
    if (inst->edges)
        rule_draw_edges(inst, input, node, index, need);
    if (need && need->kept) { /* the result of an expensive node is kept, neither available anyway nor recomputed */
        int64_t last = s.rank - 1;
        tc_value *axis = s.rank ? tc_constant(inst->graph, "axis", tc_tensor_scalar_int(inst->model, last)) : NULL;
        value = axis ? rule_append_node(inst, "CumSum", value, axis, name) : NULL;
    }
    return value;
}
