/* draw_element.c: elements of operands: inside the domain of their op, constants that satisfy guards, and edge
 * cases. */
#include "draw.h"
#include "compiler/ir/ops.h"
#include <math.h>
#include <string.h>

typedef enum domain { REAL, COMPARED, ABOVE_ZERO, BELOW_ONE, ABOVE_ONE, RATIO, STEP } domain;

/* The domain of an op, at a distance from its poles; COMPARED: everywhere, and often at 0 or 1. */
static const struct {
    const char *op;
    uint32_t operand;
    domain domain;
} domains[] = {
    {"Acos", 0, BELOW_ONE},
    {"Acosh", 0, ABOVE_ONE},
    {"Asin", 0, BELOW_ONE},
    {"Atanh", 0, BELOW_ONE},
    {"BernoulliLog", 0, RATIO},
    {"DotProductAttention", 5, RATIO},
    {"DotProductAttentionGrad", 7, RATIO},
    {"Dropout", 1, RATIO},
    {"DropoutGrad", 2, RATIO},
    {"Equal", 0, COMPARED},
    {"Log", 0, ABOVE_ZERO},
    {"MulOrZero", 0, COMPARED},
    {"Pow", 0, ABOVE_ZERO},
    {"Sinc", 0, COMPARED},
    {"Slice", 4, STEP},
    {"Sqrt", 0, ABOVE_ZERO},
    {"Tan", 0, BELOW_ONE},
};

static domain domain_of(const tc_node *node, uint32_t index) {
    for (size_t i = 0; i < TC_COUNT(domains); i++)
        if (domains[i].operand == index && strcmp(domains[i].op, node->op_type) == 0)
            return domains[i].domain;
    return REAL;
}

/* Far enough from a kink for differences over 1e-6, and sometimes near enough to test its position. */
static double away_from_zero(rule_dice *dice, double x) {
    double least = rule_dice_percent(dice, 20) ? 0.002 : 0.2;
    x = least < 0.2 ? x * 0.005 : x;
    return x < 0 ? x - least : x + least;
}

/* Edge cases; the first three are numbers of every type. */
static const double edge_numbers[] = {0.0, 1.0, 7.0, -0.0, -1.0, (double)INFINITY, (double)-INFINITY, (double)NAN};

static double element(rule_instance *inst, tc_dtype dtype, domain where, const rule_need *need) {
    rule_dice *dice = &inst->dice;
    if (dtype == TC_BOOL)
        return rule_dice_below(dice, 2);
    if (need && need->flags)
        return rule_dice_below(dice, 2);
    if (need && need->edges && rule_dice_percent(dice, 50))
        return edge_numbers[rule_dice_below(dice, tc_dtype_is_float(dtype) ? TC_COUNT(edge_numbers) : 3)];
    if (need && need->pow2)
        return ldexp(rule_dice_percent(dice, 70) ? 1 : -1, (int)rule_dice_below(dice, 7) - 3);
    if (need && need->positive)
        return pow(10, -5 * rule_dice_unit(dice));
    if (need && need->is_below)
        return rule_dice_percent(dice, 50) ? -INFINITY : need->below * (need->below < 0 ? 10 : 0.1) - 1;
    if (where == STEP)
        return rule_dice_percent(dice, 50) ? 1 : rule_dice_percent(dice, 50) ? 2 : -1;
    if (!tc_dtype_is_float(dtype)) {
        bool is_unsigned = dtype == TC_UINT8 || dtype == TC_UINT16 || dtype == TC_UINT32 || dtype == TC_UINT64;
        return (double)rule_dice_below(dice, 9) - (is_unsigned ? 0 : 4);
    }
    if (where == COMPARED && rule_dice_percent(dice, 30))
        return edge_numbers[rule_dice_below(dice, 2)];
    double x = rule_dice_normal(dice);
    if (need && need->divides)
        return (x < 0 ? -1 : 1) * (1 + rule_dice_unit(dice));
    switch (where) {
    case ABOVE_ZERO: return 0.2 + fabs(x);
    case BELOW_ONE: return tanh(away_from_zero(dice, x)) * 0.9;
    case ABOVE_ONE: return 1.2 + fabs(x);
    case RATIO: return 0.1 + 0.6 * rule_dice_unit(dice);
    default: return inst->smooth || (need && need->constant) ? away_from_zero(dice, x) : x;
    }
}

/* A class, or the ignored label; an index along an axis, also counted from its end. */
static double label(rule_instance *inst, const tc_node *node) {
    shape scores;
    bool gathers = tc_node_is(node, "", "GatherElements");
    const tc_attr *ignored = tc_attr_find(node, "ignore_index");
    if (ignored && rule_dice_percent(&inst->dice, 30))
        return (double)ignored->i;
    if (!rule_shape_of(tc_input(node, 0), &scores) || scores.rank < 1)
        return 0;
    int64_t axis = gathers ? tc_attr_int(node, "axis", 0) : 1;
    axis += axis < 0 ? scores.rank : 0;
    if (axis >= scores.rank || scores.dims[axis] < 1)
        return 0;
    double place = rule_dice_below(&inst->dice, (unsigned)scores.dims[axis]);
    return gathers && rule_dice_percent(&inst->dice, 30) ? place - (double)scores.dims[axis] : place;
}

void rule_draw_elements(rule_instance *inst, const tc_node *node, uint32_t index, tc_dtype dtype, uint64_t count,
                        void *data, const rule_need *need) {
    domain where = node ? domain_of(node, index) : REAL;
    bool labels = node && rule_role_is_labels(rule_role_of(node, index));
    for (uint64_t i = 0; i < count; i++)
        tc_element_set(dtype, data, i, labels ? label(inst, node) : element(inst, dtype, where, need));
    if (need && need->divides && count > 0 && rule_dice_percent(&inst->dice, 50)) /* one that does not divide */
        tc_element_set(dtype, data, 0, 0);
}

/* Adds edge cases. A rule that may round gets no NaN and no infinities, because formulas differ there, except for
 * rows that a mask excludes from a softmax. */
void rule_draw_edges(rule_instance *inst, rule_input *input, const tc_node *node, uint32_t index,
                     const rule_need *need) {
    if (domain_of(node, index) > COMPARED || (need && (need->divides || need->flags)))
        return;
    rule_dice *dice = &inst->dice;
    bool adds = (need && need->added) || tc_node_is(node, "", "Add") || tc_node_is(node, "", "Where") ||
                tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttention");
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
            tc_element_set(input->dtype, input->data, i, edge_numbers[rule_dice_below(dice, TC_COUNT(edge_numbers))]);
    }
}
