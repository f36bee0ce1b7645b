/* draw_shape.c: shapes for operands of an op. A row in `roles` gives the role of an operand. An operand without a
 * row is broadcast with the others if the op is elementwise; otherwise it has any small shape. */
#include "draw.h"
#include <string.h>

enum { MAX_DIM = 5 };

bool rule_shape_of(const tc_value *value, shape *out) {
    if (!value || !tc_type_is_static(value->type))
        return false;
    *out = (shape){.rank = value->type->rank, .dtype = value->type->dtype};
    for (int i = 0; i < out->rank; i++)
        out->dims[i] = value->type->dims[i].value;
    return true;
}

static bool operand_shape(const tc_node *node, uint32_t index, shape *out) {
    return rule_shape_of(tc_input(node, index), out);
}

bool rule_shape_fail(rule_instance *inst, const char *why) {
    inst->why = why;
    return false;
}

/* --- shapes ----------------------------------------------------------------------------------- */

/* In half of the instances all dims are 1 or one size. Then an operand broadcast along a wrong axis still fits by
 * its shape, so that only the numbers show the mistake. */
int64_t rule_draw_dim(rule_instance *inst) {
    if (inst->common_dim == 0)
        inst->common_dim = rule_dice_percent(&inst->dice, 50) ? -1 : 2 + (int)rule_dice_below(&inst->dice, 3);
    if (inst->common_dim > 0)
        return rule_dice_percent(&inst->dice, 20) ? 1 : inst->common_dim;
    return 1 + rule_dice_below(&inst->dice, MAX_DIM);
}

void rule_draw_shape(rule_instance *inst, int min_rank, shape *s) {
    s->rank = min_rank + (int)rule_dice_below(&inst->dice, (unsigned)(MAX_DRAWN_RANK - min_rank + 1));
    s->rank = inst->rank >= min_rank ? inst->rank : s->rank;
    for (int i = 0; i < s->rank; i++)
        s->dims[i] = rule_draw_dim(inst);
}

void rule_draw_broadcast(rule_instance *inst, const shape *with, shape *s) {
    int rank = with->rank, cut = 0;
    unsigned kind = rule_dice_below(&inst->dice, 8);
    if (kind >= 4 && rank > 0)
        cut = (int)rule_dice_below(&inst->dice, (unsigned)rank + 1);
    s->rank = rank - cut;
    for (int i = 0; i < s->rank; i++) {
        int64_t dim = with->dims[cut + i];
        bool one = kind >= 4 && rule_dice_percent(&inst->dice, 40);
        s->dims[i] = one ? 1 : dim == 1 && kind == 7 ? rule_draw_dim(inst) : dim;
    }
    if (kind == 7 && cut == 0 && rank < MAX_DRAWN_RANK) { /* more leading dims */
        memmove(s->dims + 1, s->dims, (size_t)s->rank++ * sizeof *s->dims);
        s->dims[0] = rule_draw_dim(inst);
    }
}

bool rule_others(const tc_node *node, uint32_t index, shape *out) {
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

/* --- roles ------------------------------------------------------------------------------------ */

static bool condition(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape with;
    s->dtype = TC_BOOL;
    if (rule_others(node, index, &with))
        rule_draw_broadcast(inst, &with, s);
    else
        rule_draw_shape(inst, 0, s);
    return true;
}

static bool left_factor(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape right;
    rule_draw_shape(inst, 2, s);
    if (operand_shape(node, index + 1, &right)) {
        if (right.rank < 2)
            return rule_shape_fail(inst, "the right factor is no matrix");
        for (int i = 1; i <= s->rank - 2 && i <= right.rank - 2; i++)
            s->dims[s->rank - 2 - i] = right.dims[right.rank - 2 - i];
        s->dims[s->rank - 1] = right.dims[right.rank - 2];
    }
    return true;
}

static bool right_factor(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape left;
    if (!operand_shape(node, index - 1, &left)) { /* it will be drawn to fit */
        rule_draw_shape(inst, 2, s);
        return true;
    }
    if (left.rank < 2)
        return rule_shape_fail(inst, "the left factor is no matrix");
    left.dtype = s->dtype;
    *s = left;
    s->dims[s->rank - 2] = left.dims[left.rank - 1];
    s->dims[s->rank - 1] = rule_draw_dim(inst);
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
        return rule_shape_fail(inst, "there are no axes");
    *s = (shape){1, {1 + rule_dice_below(&inst->dice, (unsigned)x.rank)}, TC_INT64};
    return true;
}

/* Scale and bias of a normalization: the shape after its axis. */
static bool tail(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape x;
    bool is_grad =
        node->n_inputs > 3 && index == 2 && !tc_node_is(node, "", "LayerNormalization"); /* (dy, x, scale, ...) */
    if (!operand_shape(node, is_grad ? 1 : 0, &x) || x.rank == 0)
        return rule_shape_fail(inst, "nothing to normalize");
    int64_t axis = tc_attr_int(node, "axis", -1);
    int from = (int)(axis < 0 ? axis + x.rank : axis);
    s->rank = x.rank - from;
    memcpy(s->dims, x.dims + from, (size_t)s->rank * sizeof *s->dims);
    return true;
}

static bool like(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    if (!operand_shape(node, index, s))
        return rule_shape_fail(inst, "the operand whose shape this one has is not there");
    if (s->dtype == TC_BOOL) /* the mask of a gradient */
        s->dtype = inst->dtype;
    return true;
}

static bool like_next(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    return like(inst, node, index + 1, s);
}

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
        return rule_shape_fail(inst, "there are no scores");
    *s = scores;
    s->dtype = q.dtype;
    s->dims[s->rank - 2] = scores.dims[scores.rank - 1];
    s->dims[s->rank - 1] = rule_draw_dim(inst);
    return true;
}

static bool attention_scores(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape q, kt, scores;
    if (!operand_shape(node, 0, &q) || !operand_shape(node, 1, &kt) || !product_of(&q, &kt, false, &scores))
        return rule_shape_fail(inst, "there are no scores");
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
           rule_shape_fail(inst, "there is no attention to differentiate");
}

/* The elements that the products reach, in P's shape. */
static bool reached(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    (void)index;
    if (!operand_shape(node, 4, s))
        return rule_shape_fail(inst, "there is no attention to differentiate");
    s->dtype = TC_BOOL;
    return true;
}

static bool reshape_target(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape x;
    (void)index;
    if (!operand_shape(node, 0, &x))
        return rule_shape_fail(inst, "nothing to reshape");
    *s = (shape){1, {x.rank}, TC_INT64};
    return true;
}

/* A matrix, drawn to fit the existing one. */
static bool gemm_factor(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape other;
    s->rank = 2;
    for (int i = 0; i < 2; i++)
        s->dims[i] = rule_draw_dim(inst);
    if (operand_shape(node, 1 - index, &other) && other.rank == 2) {
        bool ta = tc_attr_int(node, "transA", 0) != 0, tb = tc_attr_int(node, "transB", 0) != 0;
        s->dims[index ? tb : !ta] = other.dims[index ? !ta : tb];
    }
    return true;
}

static bool gemm_bias(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape b;
    (void)inst, (void)index;
    if (!operand_shape(node, 1, &b) || b.rank != 2)
        return rule_shape_fail(inst, "there is no product to add to");
    s->rank = 1;
    s->dims[0] = b.dims[tc_attr_int(node, "transB", 0) == 0];
    return true;
}

/* Labels of scores [batch, classes, ...]; below, weights of the classes. */
static bool labels(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    (void)index;
    if (!operand_shape(node, 0, s) || s->rank < 2)
        return rule_shape_fail(inst, "there are no scores");
    memmove(s->dims + 1, s->dims + 2, (size_t)(--s->rank - 1) * sizeof *s->dims);
    s->dtype = TC_INT64;
    return true;
}

static bool class_weights(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    shape scores;
    (void)index;
    if (!operand_shape(node, 0, &scores) || scores.rank < 2)
        return rule_shape_fail(inst, "there are no scores");
    *s = (shape){1, {scores.dims[1]}, scores.dtype};
    return true;
}

/* One element of each row along the axis. */
static bool gathered(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    (void)index;
    if (!operand_shape(node, 0, s) || s->rank == 0)
        return rule_shape_fail(inst, "there is nothing to gather from");
    int64_t axis = tc_attr_int(node, "axis", 0);
    s->dims[axis < 0 ? axis + s->rank : axis] = 1;
    s->dtype = TC_INT64;
    return true;
}

/* An operand that fits beside the first one, mostly one of its slices. */
static bool beside(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    (void)index;
    if (!operand_shape(node, 0, s) || s->rank == 0)
        return rule_shape_fail(inst, "there is nothing to lie beside");
    int64_t axis = tc_attr_int(node, "axis", 0);
    s->dims[axis < 0 ? axis + s->rank : axis] = rule_dice_percent(&inst->dice, 70) ? 1 : rule_draw_dim(inst);
    return true;
}

/* The start, end and step of a Slice for one axis. */
static bool bound(rule_instance *inst, const tc_node *node, uint32_t index, shape *s) {
    (void)inst, (void)node, (void)index;
    *s = (shape){1, {1}, TC_INT64};
    return true;
}

static const struct {
    const char *domain, *op;
    uint32_t operand;
    role draw;
} roles[] = {
    {"", "Concat", 1, beside},
    {"", "Gemm", 0, gemm_factor},
    {"", "Gemm", 1, gemm_factor},
    {"", "Gemm", 2, gemm_bias},
    {"", "GatherElements", 1, gathered},
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
    {"", "NegativeLogLikelihoodLoss", 1, labels},
    {"", "NegativeLogLikelihoodLoss", 2, class_weights},
    {"", "Reshape", 1, reshape_target},
    {"", "Slice", 1, bound},
    {"", "Slice", 2, bound},
    {"", "Slice", 4, bound},
    {"", "SoftmaxCrossEntropyLoss", 1, labels},
    {"", "SoftmaxCrossEntropyLoss", 2, class_weights},
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
    {"ai.tempo", "DotProductAttentionGrad", 8, reached},
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
    {"ai.tempo", "MishGrad", 0, like_next},
    {"ai.tempo", "MishGrad", 1, like_first},
    {"ai.tempo", "RMSNormalization", 1, tail},
    {"ai.tempo", "RMSNormalizationGrad", 0, like_next},
    {"ai.tempo", "RMSNormalizationGrad", 2, tail},
    {"ai.tempo", "RMSNormalizationXhat", 1, tail},
    {"ai.tempo", "ScaleBias", 1, tail},
    {"ai.tempo", "ScaleBias", 2, tail},
    {"ai.tempo", "ScoresCrossEntropy", 1, labels},
    {"ai.tempo", "ScoresCrossEntropy", 2, class_weights},
    {"ai.tempo", "SoftmaxGrad", 0, like_next},
    {"ai.tempo", "SoftmaxGrad", 1, like_first},
    {"ai.tempo", "SwishGrad", 0, like_next},
    {"ai.tempo", "SwishGrad", 1, like_first},
};

role rule_role_of(const tc_node *node, uint32_t index) {
    for (size_t i = 0; i < TC_COUNT(roles); i++)
        if (roles[i].operand == index && tc_node_is(node, roles[i].domain, roles[i].op))
            return roles[i].draw;
    return NULL;
}

bool rule_role_is_labels(role draw) { return draw == labels || draw == gathered; }
bool rule_role_is_axes(role draw) { return draw == axes; }
bool rule_role_is_target(role draw) { return draw == reshape_target; }
bool rule_role_is_shared(role draw) { return draw == condition; }

bool rule_role_is_matrix(role draw, bool *out_left) {
    *out_left = draw == left_factor;
    return draw == left_factor || draw == right_factor || draw == attention_values;
}
