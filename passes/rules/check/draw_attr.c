/* draw_attr.c: attributes of the nodes of an instance. Those of the pattern are spelled in one of their ways; others
 * that the op has get any sensible value. A rule must hold for all of these, or name the attribute. */
#include "check.h"
#include <math.h>
#include <string.h>

static bool draw_perm(rule_instance *inst, const tc_node *node, tc_node *to) {
    int64_t perm[TC_MAX_RANK];
    int rank = tc_value_rank(tc_input(node, 0));
    if (rank < 0)
        return false;
    rule_draw_axes(inst, perm, rank, rank, false);
    for (int i = 0; i < rank; i++)
        perm[i] += perm[i] < 0 ? rank : 0;
    tc_attr_set_ints(to, "perm", perm, (size_t)rank);
    return true;
}

/* Values for an attribute, by its name: [n] numbers or words. */
static const struct {
    const char *name;
    unsigned n;
    double numbers[3];
    const char *words[3];
} settings[] = {
    {"alpha", 3, {0.5, 1.702, 1}, {NULL}},
    {"approximate", 2, {0}, {"none", "tanh"}},
    {"beta", 2, {0.3, 0.7}, {NULL}},
    {"bias_first", 2, {0, 1}, {NULL}},
    {"detect_negative", 2, {0, 1}, {NULL}},
    {"detect_positive", 2, {0, 1}, {NULL}},
    {"epsilon", 3, {1e-5, 1e-3, 0.1}, {NULL}},
    {"fill", 2, {-10000, -INFINITY}, {NULL}},
    {"gamma", 2, {1.1, 0.8}, {NULL}},
    {"guard", 2, {0, 1}, {NULL}},
    {"ignore_index", 2, {-100, 0}, {NULL}},
    {"keepdims", 2, {0, 1}, {NULL}},
    {"label_share", 2, {0.75, 0.5}, {NULL}},
    {"label_smoothing", 2, {0.25, 0.5}, {NULL}},
    {"node", 3, {0, 1, 7}, {NULL}},
    {"outcome", 2, {0, 1}, {NULL}},
    {"reduction", 3, {0}, {"mean", "sum", "none"}},
    {"scale", 2, {0.25, 1.5}, {NULL}},
    {"seed", 2, {1000, 7}, {NULL}},
    {"softcap", 2, {2, 0.5}, {NULL}},
    {"to", 2, {TC_FLOAT, TC_DOUBLE}, {NULL}},
    {"transA", 2, {0, 1}, {NULL}},
    {"transB", 2, {0, 1}, {NULL}},
    {"z_loss", 2, {0.25, 0.0625}, {NULL}},
};

/* False: there is no row for it. */
static bool draw_setting(rule_instance *inst, tc_node *node, const char *name, tc_attr_kind kind) {
    for (size_t i = 0; i < TC_COUNT(settings); i++) {
        if (strcmp(settings[i].name, name) != 0)
            continue;
        unsigned pick = rule_dice_below(&inst->dice, settings[i].n);
        if (kind == TC_ATTR_STRING && settings[i].words[0])
            tc_attr_set_string(node, settings[i].name, settings[i].words[pick]);
        else if (kind == TC_ATTR_INT)
            tc_attr_set_int(node, settings[i].name, (int64_t)settings[i].numbers[pick]);
        else if (kind == TC_ATTR_FLOAT)
            tc_attr_set_float(node, settings[i].name, (float)settings[i].numbers[pick]);
        return true;
    }
    return false;
}

static bool draw_axis(rule_instance *inst, tc_node *node) {
    bool is_grad = strstr(node->op_type, "Grad") != NULL;
    int rank = tc_value_rank(tc_input(node, is_grad ? 1 : 0));
    if (rank < 1)
        return false;
    tc_attr_set_int(node, "axis", (int64_t)rule_dice_below(&inst->dice, 2 * (unsigned)rank) - rank);
    return true;
}

/* Two nodes of one pattern, such as an op and its gradient, get the same value of an attribute. */
static bool draw_attr(rule_instance *inst, tc_node *node, const char *name, tc_attr_kind kind, bool required) {
    for (unsigned i = 0; i < inst->n_attrs; i++)
        if (strcmp(inst->attrs[i].name, name) == 0) {
            if (inst->attrs[i].set)
                tc_attr_copy(node, &inst->attrs[i].attr);
            return inst->attrs[i].set || !required;
        }
    bool set = false;
    if (required || rule_dice_percent(&inst->dice, 70))
        set = !strcmp(name, "axis")   ? draw_axis(inst, node)
              : !strcmp(name, "perm") ? draw_perm(inst, node, node)
                                      : draw_setting(inst, node, name, kind);
    if (inst->n_attrs < RULE_MAX_ATTRS) {
        unsigned at = inst->n_attrs++;
        inst->attrs[at].name = name;
        inst->attrs[at].set = set;
        if (set)
            inst->attrs[at].attr = *tc_attr_find(node, name);
    }
    return set || !required;
}

static bool in_pattern(const rule_node *pattern, const char *name) {
    for (uint16_t i = 0; i < pattern->n_attrs; i++)
        if (strcmp(pattern->attrs[i].literal.name, name) == 0)
            return true;
    return false;
}

static void set_pattern_attr(rule_instance *inst, tc_node *node, const tc_attr *attr, bool required) {
    if (!required && rule_dice_percent(&inst->dice, 20)) /* perhaps this is the default */
        return;
    tc_attr_copy(node, attr);
    int rank = tc_value_rank(tc_input(node, 0));
    if (!strcmp(attr->name, "axis") && rank > 0 && rule_dice_percent(&inst->dice, 40))
        tc_attr_set_int(node, "axis", attr->i + (attr->i < 0 ? rank : -rank));
}

bool rule_draw_attrs(rule_instance *inst, tc_node *node, const rule_node *pattern) {
    tc_attr_kind kind;
    bool required = false;
    for (uint16_t i = 0; i < pattern->n_attrs; i++) {
        const tc_attr *attr = &pattern->attrs[i].literal;
        required = node->op && tc_op_attr(node->op, attr->name, &kind, &required) && required;
        set_pattern_attr(inst, node, attr, required || !node->op);
    }
    for (const char *p = node->op ? node->op->attrs : ""; *p;) { /* "axis:i to:i!" */
        size_t n = strcspn(p, ":");
        const char *name = tc_arena_strndup(inst->model->arena, p, n);
        bool is_open = tc_op_attr(node->op, name, &kind, &required) && !in_pattern(pattern, name);
        if (is_open && !draw_attr(inst, node, name, kind, required)) {
            inst->why =
                tc_arena_printf(inst->model->arena, "nothing can be drawn for attribute %s of %s", name, node->op_type);
            return false;
        }
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    return true;
}
