/* draw.c: operands that an op takes, drawn at random: a shape that fits the operands which are there already, an element type, elements
 * inside the op's domain. What an operand is follows from its row in `roles`; without one it is broadcast with the others where the
 * op is elementwise, and anything small elsewhere. Attributes: draw_attr.c. */
#include "../../../compiler/shape.h"
#include "instance.h"
#include <math.h>
#include <string.h>

enum { MAX_DIM = 5, MAX_DRAWN_RANK = 4 };

typedef struct shape {
    int rank;
    int64_t dims[TC_MAX_RANK];
    tc_dtype dtype;
} shape;

static bool shape_of(const tc_value *value, shape *out) {
    if (!value || !tc_type_is_static(value->type))
        return false;
    *out = (shape){.rank = value->type->rank, .dtype = value->type->dtype};
    for (int i = 0; i < out->rank; i++)
        out->dims[i] = value->type->dims[i].value;
    return true;
}

static bool operand_shape(const tc_node *node, uint32_t index, shape *out) { return shape_of(tc_input(node, index), out); }

static bool fail(rule_instance *inst, const char *why) {
    inst->why = why;
    return false;
}

/* --- shapes -------------------------------------------------------------------------------------------------------- */

static int64_t any_dim(rule_instance *inst) { return 1 + rule_dice_below(&inst->dice, MAX_DIM); }

static void any_shape(rule_instance *inst, int min_rank, shape *s) {
    s->rank = min_rank + (int)rule_dice_below(&inst->dice, (unsigned)(MAX_DRAWN_RANK - min_rank + 1));
    s->rank = inst->rank >= min_rank ? inst->rank : s->rank;
    for (int i = 0; i < s->rank; i++)
        s->dims[i] = any_dim(inst);
}

/* A shape that broadcasts with `with`: mostly one that leaves it as it is. */
static void broadcast_like(rule_instance *inst, const shape *with, shape *s) {
    int rank = with->rank, cut = 0;
    unsigned kind = rule_dice_below(&inst->dice, 8);
    if (kind >= 4 && rank > 0)
        cut = (int)rule_dice_below(&inst->dice, (unsigned)rank + 1);
    s->rank = rank - cut;
    for (int i = 0; i < s->rank; i++) {
        int64_t dim = with->dims[cut + i];
        bool one = kind >= 4 && rule_dice_percent(&inst->dice, 40);
        s->dims[i] = one ? 1 : dim == 1 && kind == 7 ? any_dim(inst) : dim;
    }
    if (kind == 7 && cut == 0 && rank < MAX_DRAWN_RANK) { /* more dims in front */
        memmove(s->dims + 1, s->dims, (size_t)s->rank++ * sizeof *s->dims);
        s->dims[0] = any_dim(inst);
    }
}

/* What the other operands of an elementwise op are broadcast to; false: there are none. */
static bool others(const tc_node *node, uint32_t index, shape *out) {
    bool any = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        shape s;
        if (i == index || !operand_shape(node, i, &s))
            continue;
        if (!any || s.rank > out->rank || (s.rank == out->rank && out->dtype == TC_BOOL))
            *out = s;
        for (int k = 1; any && k <= s.rank && k <= out->rank; k++)
            if (out->dims[out->rank - k] == 1)
                out->dims[out->rank - k] = s.dims[s.rank - k];
        any = true;
    }
    return any;
}

/* --- roles --------------------------------------------------------------------------------------------------------- */

/* Each fills rank and dims, and the element type where that is not the op's; false: `why` is set. */
typedef bool (*role)(rule_instance *inst, const tc_node *node, uint32_t index, shape *s);

static bool condition(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape with;
    s->dtype = TC_BOOL;
    if (others(node, index, &with))
        broadcast_like(inst, &with, s);
    else
        any_shape(inst, 0, s);
    return true;
}

static bool left_factor(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape right;
    any_shape(inst, 2, s);
    if (operand_shape(node, index + 1, &right)) {
        if (right.rank < 2)
            return fail(inst, "the right factor is no matrix");
        for (int i = 1; i <= s->rank - 2 && i <= right.rank - 2; i++)
            s->dims[s->rank - 2 - i] = right.dims[right.rank - 2 - i];
        s->dims[s->rank - 1] = right.dims[right.rank - 2];
    }
    return true;
}

static bool right_factor(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape left;
    if (!operand_shape(node, index - 1, &left)) { /* it will be drawn to fit */
        any_shape(inst, 2, s);
        return true;
    }
    if (left.rank < 2)
        return fail(inst, "the left factor is no matrix");
    left.dtype = s->dtype;
    *s = left;
    s->dims[s->rank - 2] = left.dims[left.rank - 1];
    s->dims[s->rank - 1] = any_dim(inst);
    for (int i = 0; i < s->rank - 2; i++) /* heads that share keys */
        s->dims[i] = rule_dice_percent(&inst->dice, 10) ? 1 : s->dims[i];
    if (inst->rank < 0 && s->rank > 2 && rule_dice_percent(&inst->dice, 10)) {
        memmove(s->dims, s->dims + s->rank - 2, 2 * sizeof *s->dims);
        s->rank = 2;
    }
    return true;
}

static bool axes(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape x;
    if (!operand_shape(node, index == 1 ? 0 : 1, &x) || x.rank == 0)
        return fail(inst, "there are no axes");
    *s = (shape){1, {1 + rule_dice_below(&inst->dice, (unsigned)x.rank)}, TC_INT64};
    return true;
}

/* Scale and bias of a normalization: the shape behind its axis. */
static bool tail(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape x;
    bool is_grad = node->n_inputs > 3 && index == 2 && !tc_node_is(node, "", "LayerNormalization"); /* (dy, x, scale, ...) */
    if (!operand_shape(node, is_grad ? 1 : 0, &x) || x.rank == 0)
        return fail(inst, "nothing to normalize");
    int64_t axis = tc_attr_int(node, "axis", -1);
    int from = (int)(axis < 0 ? axis + x.rank : axis);
    s->rank = x.rank - from;
    memcpy(s->dims, x.dims + from, (size_t)s->rank * sizeof *s->dims);
    return true;
}

static bool like(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    if (!operand_shape(node, index, s))
        return fail(inst, "the operand whose shape this one has is not there");
    if (s->dtype == TC_BOOL) /* the mask of a gradient */
        s->dtype = inst->dtype;
    return true;
}

static bool like_next(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) { return like(inst, node, index + 1, s); }

static bool like_first(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    (void)index;
    return like(inst, node, 0, s);
}

static bool one_number(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    (void)inst, (void)node, (void)index;
    s->rank = 0;
    return true;
}

static bool seed(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    (void)inst, (void)node, (void)index;
    *s = (shape){1, {2}, TC_INT64};
    return true;
}

static bool product_of(const shape *a, const shape *b, bool transposed, shape *out) {
    if (a->rank < 2 || b->rank < 2)
        return false;
    *out = a->rank >= b->rank ? *a : *b;
    for (int i = 3; i <= a->rank && i <= b->rank; i++) {
        int64_t x = a->dims[a->rank - i], y = b->dims[b->rank - i];
        out->dims[out->rank - i] = x == 1 ? y : x;
    }
    out->dims[out->rank - 2] = a->dims[a->rank - 2];
    out->dims[out->rank - 1] = b->dims[b->rank - (transposed ? 2 : 1)];
    return true;
}

/* Q is drawn like any left factor, K^T like any right one; V multiplies the scores. */
static bool attention_values(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape q, kt, scores;
    (void)index;
    if (!operand_shape(node, 0, &q) || !operand_shape(node, 1, &kt) || !product_of(&q, &kt, false, &scores))
        return fail(inst, "there are no scores");
    *s = scores;
    s->dtype = q.dtype;
    s->dims[s->rank - 2] = scores.dims[scores.rank - 1];
    s->dims[s->rank - 1] = any_dim(inst);
    return true;
}

static bool attention_scores(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape q, kt, scores;
    if (!operand_shape(node, 0, &q) || !operand_shape(node, 1, &kt) || !product_of(&q, &kt, false, &scores))
        return fail(inst, "there are no scores");
    *s = scores;
    for (int i = 0; i < s->rank - 1; i++)
        s->dims[i] = rule_dice_percent(&inst->dice, 30) ? 1 : s->dims[i];
    s->dtype = index == 4 ? TC_BOOL : q.dtype;
    return true;
}

/* Operands (dY, Q, K^T, V, P, ...): dY has P's rows and V's columns. */
static bool attention_dy(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape p, v;
    (void)index;
    return (operand_shape(node, 4, &p) && operand_shape(node, 3, &v) && product_of(&p, &v, false, s)) ||
           fail(inst, "there is no attention to differentiate");
}

static bool reshape_target(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape x;
    (void)index;
    if (!operand_shape(node, 0, &x))
        return fail(inst, "nothing to reshape");
    *s = (shape){1, {x.rank}, TC_INT64};
    return true;
}

static const struct { const char *domain, *op; uint32_t operand; role draw; } roles[] = {
    {"", "LayerNormalization", 1, tail},
    {"", "LayerNormalization", 2, tail},
    {"", "MatMul", 0, left_factor},
    {"", "MatMul", 1, right_factor},
    {"", "ReduceL1", 1, axes},
    {"", "ReduceL2", 1, axes},
    {"", "ReduceLogSum", 1, axes},
    {"", "ReduceLogSumExp", 1, axes},
    {"", "ReduceMax", 1, axes},
    {"", "ReduceMean", 1, axes},
    {"", "ReduceMin", 1, axes},
    {"", "ReduceProd", 1, axes},
    {"", "ReduceSum", 1, axes},
    {"", "ReduceSumSquare", 1, axes},
    {"", "Reshape", 1, reshape_target},
    {"", "Where", 0, condition},
    {"ai.tempo", "DotProductAttention", 0, left_factor},
    {"ai.tempo", "DotProductAttention", 1, right_factor},
    {"ai.tempo", "DotProductAttention", 2, attention_values},
    {"ai.tempo", "DotProductAttention", 3, attention_scores},
    {"ai.tempo", "DotProductAttention", 4, attention_scores},
    {"ai.tempo", "DotProductAttention", 5, one_number},
    {"ai.tempo", "DotProductAttention", 6, seed},
    {"ai.tempo", "DotProductAttentionGrad", 0, attention_dy},
    {"ai.tempo", "DotProductAttentionGrad", 7, one_number},
    {"ai.tempo", "Dropout", 1, one_number},
    {"ai.tempo", "Dropout", 2, seed},
    {"ai.tempo", "DropoutGrad", 0, like_next},
    {"ai.tempo", "DropoutGrad", 2, one_number},
    {"ai.tempo", "GeluGrad", 0, like_next},
    {"ai.tempo", "GeluGrad", 1, like_first},
    {"ai.tempo", "LayerNormalizationGrad", 0, like_next},
    {"ai.tempo", "LayerNormalizationGrad", 2, tail},
    {"ai.tempo", "LayerNormalizationXhat", 1, tail},
    {"ai.tempo", "LayerNormalizationXhat", 2, tail},
    {"ai.tempo", "RMSNormalization", 1, tail},
    {"ai.tempo", "RMSNormalizationGrad", 0, like_next},
    {"ai.tempo", "RMSNormalizationGrad", 2, tail},
    {"ai.tempo", "RMSNormalizationXhat", 1, tail},
    {"ai.tempo", "ScaleBias", 1, tail},
    {"ai.tempo", "ScaleBias", 2, tail},
    {"ai.tempo", "SoftmaxGrad", 0, like_next},
    {"ai.tempo", "SoftmaxGrad", 1, like_first},
    {"ai.tempo", "SwishGrad", 0, like_next},
    {"ai.tempo", "SwishGrad", 1, like_first},
};

static role role_of(const tc_node *node, uint32_t index) {
    for (size_t i = 0; i < TC_COUNT(roles); i++)
        if (roles[i].operand == index && tc_node_is(node, roles[i].domain, roles[i].op))
            return roles[i].draw;
    return NULL;
}

/* Element types are not drawn where the op says: an operand has that of its neighbours, or one that operand 0 may have. */
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

/* --- what guards want of a shape ------------------------------------------------------------------------------------ */

static bool wished_shape(rule_instance *inst, const rule_wish *wish, const shape *with, shape *s) {
    shape x, list;
    if (wish->spans != RULE_NONE) {
        bool known = shape_of(inst->values[wish->spans_of], &x) && shape_of(inst->values[wish->spans], &list);
        if (!known || list.rank != 1 || list.dims[0] > x.rank)
            return fail(inst, "the axes that it spans are not there");
        s->rank = (int)list.dims[0];
        memcpy(s->dims, x.dims + x.rank - s->rank, (size_t)s->rank * sizeof *s->dims);
    } else if (wish->trailing_of != RULE_NONE) {
        if (!shape_of(inst->values[wish->trailing_of], &x) || x.rank == 0)
            return fail(inst, "there are no last axes");
        int64_t n = 1 + rule_dice_below(&inst->dice, (unsigned)(x.rank < 3 ? x.rank : 3));
        if (wish->same_count != RULE_NONE && shape_of(inst->values[wish->same_count], &list) && list.rank == 1)
            n = list.dims[0];
        *s = (shape){1, {n}, TC_INT64};
    } else if (wish->scalar) {
        s->rank = rule_dice_percent(&inst->dice, 60) ? 0 : (int)rule_dice_below(&inst->dice, (unsigned)with->rank + 1);
        for (int i = 0; i < s->rank; i++)
            s->dims[i] = 1;
    } else if (wish->same_shape != RULE_NONE && shape_of(inst->values[wish->same_shape], &x)) {
        x.dtype = s->dtype;
        *s = x;
    }
    return true;
}

/* Dims that `rank` and `dim` name; others follow. */
static void fit_rank(rule_instance *inst, const rule_wish *wish, shape *s) {
    int want = wish->rank >= 0 ? wish->rank : s->rank < wish->min_rank ? wish->min_rank : s->rank;
    for (; s->rank < want; s->rank++) {
        memmove(s->dims + 1, s->dims, (size_t)s->rank * sizeof *s->dims);
        s->dims[0] = any_dim(inst);
    }
    if (s->rank > want) {
        memmove(s->dims, s->dims + s->rank - want, (size_t)want * sizeof *s->dims);
        s->rank = want;
    }
    if (wish->first_dim >= 0 && s->rank > 0)
        s->dims[0] = wish->first_dim;
}

/* --- elements ------------------------------------------------------------------------------------------------------- */

typedef enum domain { REAL, ABOVE_ZERO, BELOW_ONE, ABOVE_ONE, RATIO } domain;

/* Where an op is defined, and far enough from its poles. */
static const struct { const char *op; uint32_t operand; domain domain; } domains[] = {
    {"Acos", 0, BELOW_ONE}, {"Acosh", 0, ABOVE_ONE}, {"Asin", 0, BELOW_ONE}, {"Atanh", 0, BELOW_ONE},
    {"DotProductAttention", 5, RATIO}, {"DotProductAttentionGrad", 7, RATIO}, {"Dropout", 1, RATIO}, {"DropoutGrad", 2, RATIO},
    {"Log", 0, ABOVE_ZERO}, {"Pow", 0, ABOVE_ZERO}, {"Sqrt", 0, ABOVE_ZERO}, {"Tan", 0, BELOW_ONE},
};

static domain domain_of(const tc_node *node, uint32_t index) {
    for (size_t i = 0; i < TC_COUNT(domains); i++)
        if (domains[i].operand == index && strcmp(domains[i].op, node->op_type) == 0)
            return domains[i].domain;
    return REAL;
}

static double away_from_zero(double x) { return x < 0 ? x - 0.2 : x + 0.2; }

static double element(rule_instance *inst, tc_dtype dtype, domain where, const rule_wish *wish) {
    rule_dice *dice = &inst->dice;
    if (dtype == TC_BOOL)
        return rule_dice_below(dice, 2);
    if (wish && wish->pow2)
        return ldexp(rule_dice_percent(dice, 70) ? 1 : -1, (int)rule_dice_below(dice, 7) - 3);
    if (wish && wish->positive)
        return pow(10, -5 * rule_dice_unit(dice));
    if (wish && wish->is_below)
        return rule_dice_percent(dice, 50) ? -INFINITY : wish->below * (wish->below < 0 ? 10 : 0.1) - 1;
    if (!tc_dtype_is_float(dtype)) {
        bool is_unsigned = dtype == TC_UINT8 || dtype == TC_UINT16 || dtype == TC_UINT32 || dtype == TC_UINT64;
        return (double)rule_dice_below(dice, 9) - (is_unsigned ? 0 : 4);
    }
    double x = rule_dice_normal(dice);
    switch (where) {
    case ABOVE_ZERO: return 0.2 + fabs(x);
    case BELOW_ONE: return tanh(away_from_zero(x)) * 0.9;
    case ABOVE_ONE: return 1.2 + fabs(x);
    case RATIO: return 0.1 + 0.6 * rule_dice_unit(dice);
    default: return inst->smooth || (wish && wish->constant) ? away_from_zero(x) : x;
    }
}

static void fill(rule_instance *inst, tc_dtype dtype, uint64_t count, void *data, domain where, const rule_wish *wish) {
    for (uint64_t i = 0; i < count; i++)
        tc_element_set(dtype, data, i, element(inst, dtype, where, wish));
}

/* Elements that rules stumble over. A rule that may round is spared NaN and infinities, where formulas differ, but for rows that a mask
 * excludes from a softmax. */
static void make_special(rule_instance *inst, rule_input *input, const tc_node *node) {
    static const double hard[] = {0.0, -0.0, 1.0, -1.0, (double)INFINITY, (double)-INFINITY, (double)NAN};
    rule_dice *dice = &inst->dice;
    bool adds = tc_node_is(node, "", "Add") || tc_node_is(node, "", "Where") || tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttention");
    bool may_round = inst->rule->rounds || inst->rule->inexact;
    uint64_t row = input->rank > 0 ? (uint64_t)input->dims[input->rank - 1] : 1;
    unsigned kind = 0;
    for (uint64_t i = 0; i < input->count; i++) {
        if (row && i % row == 0)
            kind = rule_dice_below(dice, 4);
        bool excluded = kind == 0 || (kind == 1 && rule_dice_percent(dice, 30));
        if (input->dtype == TC_BOOL && excluded)
            tc_element_set(TC_BOOL, input->data, i, 0);
        else if (inst->has_scores && adds && tc_dtype_is_float(input->dtype) && excluded && input->rank > 0)
            tc_element_set(input->dtype, input->data, i, -INFINITY);
        else if (!may_round && tc_dtype_is_float(input->dtype) && rule_dice_percent(dice, 30))
            tc_element_set(input->dtype, input->data, i, hard[rule_dice_below(dice, TC_COUNT(hard))]);
    }
}

/* --- values --------------------------------------------------------------------------------------------------------- */

/* A constant as an initializer or as a Constant node, where it is no weight either way. */
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
    int rank = rule_dice_percent(&inst->dice, 80) ? 0 : 1 + (int)rule_dice_below(&inst->dice, 3);
    int64_t ones[3] = {1, 1, 1};
    tc_tensor *tensor = tc_tensor_create(inst->model, dtype, rank, ones, NULL);
    if (!tc_dtype_is_float(dtype) && number != floor(number)) {
        fail(inst, "a literal is no number of this element type");
        return NULL;
    }
    tc_element_set(dtype, (void *)(uintptr_t)tensor->data, 0, number);
    return constant_value(inst, tensor, "c");
}

tc_value *rule_draw_ints(rule_instance *inst, const int64_t *ints, uint32_t n) {
    return constant_value(inst, tc_tensor_ints(inst->model, ints, n), "list");
}

tc_value *rule_draw_input(rule_instance *inst, const char *name, tc_dtype dtype, int rank, const int64_t *dims) {
    rule_input *input = &inst->inputs[inst->n_inputs];
    if (inst->n_inputs == RULE_MAX_INPUTS || !tc_shape_count(rank, dims, &input->count)) {
        fail(inst, "too many inputs");
        return NULL;
    }
    *input = (rule_input){.rank = rank, .dtype = dtype, .count = input->count};
    memcpy(input->dims, dims, (size_t)rank * sizeof *dims);
    input->data = tc_arena_alloc(inst->model->arena, tc_tensor_bytes(dtype, input->count) + 1, 1);
    fill(inst, dtype, input->count, input->data, REAL, NULL);
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

/* A split of the first dim, the first two joined, or anything of as many elements. */
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

static tc_value *draw_list(rule_instance *inst, const tc_node *node, uint32_t index, const rule_wish *wish, const shape *s, const char *name) {
    int64_t list[TC_MAX_RANK + 1];
    shape x;
    int64_t n = s->dims[0];
    bool trailing = wish && wish->trailing_of != RULE_NONE;
    if (!shape_of(trailing ? inst->values[wish->trailing_of] : tc_input(node, 0), &x))
        return NULL;
    if (role_of(node, index) == reshape_target)
        n = fill_target(inst, &x, list);
    else
        rule_draw_axes(inst, list, n, x.rank, trailing);
    return constant_value(inst, tc_tensor_ints(inst->model, list, n), name);
}

static bool is_scalar(const shape *s) {
    bool one = true;
    for (int i = 0; i < s->rank; i++)
        one &= s->dims[i] == 1;
    return one;
}

/* Elementwise nodes hand on what their users need: the q of MatMul(Mul(q, 0.5), kt) is a left factor. */
static bool fit_outer(rule_instance *inst, bool elementwise, shape *s) {
    shape with;
    for (const rule_place *p = inst->place; p && elementwise; p = p->outer) {
        role draw = role_of(p->node, p->index);
        if (draw && draw != condition)
            return draw(inst, p->node, p->index, s);
        elementwise = tc_node_has(p->node, TC_ELEMENTWISE) || tc_node_has(p->node, TC_SAME_TYPE);
        if (elementwise && others(p->node, p->index, &with) && !is_scalar(&with)) {
            broadcast_like(inst, &with, s);
            return true;
        }
    }
    any_shape(inst, 0, s);
    return true;
}

tc_value *rule_draw_operand(rule_instance *inst, const tc_node *node, uint32_t index, const rule_wish *wish, const char *name) {
    shape s = {.dtype = dtype_for(inst, node, index)}, with = {0};
    role draw = role_of(node, index);
    bool elementwise = tc_node_has(node, TC_ELEMENTWISE) || tc_node_has(node, TC_SAME_TYPE), has_others = others(node, index, &with);
    inst->rank = wish ? wish->rank : -1;
    if (wish && wish->wants_bool)
        s.dtype = TC_BOOL;
    if (draw ? !draw(inst, node, index, &s) : false)
        return NULL;
    if (!draw && elementwise && has_others && !is_scalar(&with))
        broadcast_like(inst, &with, &s);
    else if (!draw && !fit_outer(inst, elementwise, &s))
        return NULL;
    if (wish && !wished_shape(inst, wish, &with, &s))
        return NULL;
    if (wish)
        fit_rank(inst, wish, &s);
    bool is_list = draw == axes || draw == reshape_target || (wish && wish->trailing_of != RULE_NONE);
    if (is_list)
        return draw_list(inst, node, index, wish, &s, name);
    domain where = domain_of(node, index);
    uint64_t count;
    if (wish && wish->constant) {
        tc_shape_count(s.rank, s.dims, &count);
        tc_tensor *tensor = tc_tensor_create(inst->model, s.dtype, s.rank, s.dims, NULL);
        fill(inst, s.dtype, count, (void *)(uintptr_t)tensor->data, where, wish);
        return constant_value(inst, tensor, name);
    }
    tc_value *value = rule_draw_input(inst, name, s.dtype, s.rank, s.dims);
    if (!value)
        return NULL;
    rule_input *input = &inst->inputs[inst->n_inputs - 1];
    fill(inst, s.dtype, input->count, input->data, where, wish);
    if (inst->special && where == REAL)
        make_special(inst, input, node);
    if (wish && wish->kept) { /* what an expensive node makes is kept, not there anyway or made again */
        int64_t last = s.rank - 1;
        tc_value *axis = s.rank ? tc_constant(inst->graph, "axis", tc_tensor_scalar_int(inst->model, last)) : NULL;
        value = axis ? rule_append_node(inst, "CumSum", value, axis, name) : NULL;
    }
    return value;
}
