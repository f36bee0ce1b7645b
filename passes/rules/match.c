/* match.c: binds a rule to the graph around one node by backtracking. Open tasks are a list of goals (an operand of the
 * pattern, the value that should match it) on the C stack. A choice (order of commutative operands, optional node
 * present or absent, which user) tries the rest of the list for each alternative and undoes its bindings by a trail.
 * Time per candidate has a fixed bound (`fuel`, and at most USERS_TRIED users of a value), so a pass over a graph is
 * linear in its size for any graph. */
#include "rule_ir.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { USERS_TRIED = 64 };

typedef struct goal {
    const rule_operand *operand;
    tc_value *value;
    uint16_t node;    /* the node whose operand it is */
    uint32_t factors; /* several bits: not one operand, but the product of these operands of `node` */
    const struct goal *next;
} goal;

static bool solve(rule_match *m, const goal *goals, uint16_t down);

/* --- failures and the trail ------------------------------------------------------------------- */

/* Records the failure if it is the deepest so far; returns false, so that `return miss(...)` reads well. */
static bool miss(rule_match *m, rule_loc loc, const char *step, const tc_node *node, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static bool miss(rule_match *m, rule_loc loc, const char *step, const tc_node *node, const char *fmt, ...) {
    if (!m->explain || m->depth + 1 <= m->failure.depth)
        return false;
    m->failure = (match_failure){.depth = m->depth + 1, .loc = loc, .step = step, .node = node};
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->failure.why, sizeof m->failure.why, fmt, args);
    va_end(args);
    return false;
}

static const char *describe(const tc_value *value) {
    return !value            ? "absent"
           : value->producer ? value->producer->op_type
           : value->init     ? "a constant"
                             : "a graph input";
}

enum { TRAIL_NODE = 0x8000 };

static void undo(rule_match *m, uint16_t mark) {
    while (m->n_trail > mark) {
        uint16_t entry = m->trail[--m->n_trail];
        if (entry & TRAIL_NODE) {
            m->nodes[entry & ~TRAIL_NODE] = NULL;
            m->depth--;
        } else {
            m->state[entry] = NAME_FREE;
            m->values[entry] = NULL;
        }
    }
}

static void set_name(rule_match *m, uint16_t name, tc_value *value) {
    m->state[name] = value ? NAME_BOUND : NAME_ABSENT;
    m->values[name] = value;
    m->trail[m->n_trail++] = name;
}

/* --- constants -------------------------------------------------------------------------------- */

bool rule_same_constant(const tc_value *a, const tc_value *b) {
    const tc_tensor *s = tc_value_constant(a), *t = tc_value_constant(b);
    if (tc_may_be_trained(a) || tc_may_be_trained(b) || !s || !t || !s->data || !t->data || s->dtype != t->dtype ||
        s->rank != t->rank || s->bytes != t->bytes || s->bytes > 64)
        return false;
    return (s->rank == 0 || !memcmp(s->dims, t->dims, (size_t)s->rank * sizeof *s->dims)) &&
           !memcmp(s->data, t->data, s->bytes);
}

/* Literals are decimal: 0.70710678 also stands for the nearest number of the constant's own type. Literals written
 * as integers stand for that number alone. */
static bool is_near(double value, double want, tc_dtype dtype) {
    double tolerance = dtype == TC_FLOAT16 ? 0x1p-10 : dtype == TC_BFLOAT16 ? 0x1p-7 : RULE_TOLERANCE;
    return value == want || (isnan(value) && isnan(want)) || fabs(value - want) <= tolerance * fabs(want);
}

static bool match_number(rule_match *m, const goal *g) {
    const tc_tensor *tensor = g->value ? tc_value_constant(g->value) : NULL;
    const rule_node *node = &m->rule->match[g->node];
    const tc_node *user = m->nodes[g->node];
    if (!tensor || tensor->count != 1 || !tensor->data || tensor->dtype == TC_STRING)
        return miss(m, node->loc, node->label, user, "expected the constant %g, found %s", g->operand->number,
                    tensor ? "one that is no loaded scalar" : describe(g->value));
    double value = tc_tensor_get(tensor, 0);
    return (g->operand->integral ? value == g->operand->number : is_near(value, g->operand->number, tensor->dtype)) ||
           miss(m, node->loc, node->label, user, "constant %.8g differs from %.8g", value, g->operand->number);
}

static bool match_ints(rule_match *m, const goal *g) {
    const tc_tensor *tensor = g->value ? tc_value_constant(g->value) : NULL;
    const rule_node *node = &m->rule->match[g->node];
    bool same =
        tensor && tensor->dtype == TC_INT64 && tensor->rank == 1 && tensor->data && tensor->count == g->operand->n_ints;
    for (uint32_t i = 0; same && i < g->operand->n_ints; i++)
        same = tc_tensor_get_int(tensor, i) == g->operand->ints[i];
    return same ||
           miss(m, node->loc, node->label, m->nodes[g->node], "operand is not the constant list that the rule names");
}

/* --- attributes ------------------------------------------------------------------------------- */

/* Defaults of absent attributes (onnx/defs), for attributes that rules use. */
static const struct {
    const char *op, *attr;
    double number;
    const char *text;
} defaults[] = {
    {"Softmax", "axis", -1, NULL},
    {"LogSoftmax", "axis", -1, NULL},
    {"LayerNormalization", "axis", -1, NULL},
    {"LayerNormalization", "epsilon", 1e-5, NULL},
    {"LayerNormalization", "stash_type", 1, NULL},
    {"Gelu", "approximate", 0, "none"},
    {"Gather", "axis", 0, NULL},
    {"Flatten", "axis", 1, NULL},
    {"Gemm", "alpha", 1, NULL},
    {"Gemm", "beta", 1, NULL},
    {"Gemm", "transA", 0, NULL},
    {"Gemm", "transB", 0, NULL},
    {"Reshape", "allowzero", 0, NULL},
    {"Cast", "saturate", 1, NULL},
    {"ReduceMean", "keepdims", 1, NULL},
    {"ReduceSum", "keepdims", 1, NULL},
    {"ReduceMax", "keepdims", 1, NULL},
    {"ReduceMin", "keepdims", 1, NULL},
    {"ReduceMean", "noop_with_empty_axes", 0, NULL},
    {"Trilu", "upper", 1, NULL},
    {"ReduceSum", "noop_with_empty_axes", 0, NULL},
    {"LeakyRelu", "alpha", 0.01, NULL},
    {"Elu", "alpha", 1, NULL},
    {"HardSigmoid", "alpha", 0.2, NULL},
    {"HardSigmoid", "beta", 0.5, NULL},
    {"Shape", "start", 0, NULL},
    {"Mod", "fmod", 0, NULL},
    {"GatherND", "batch_dims", 0, NULL},
    {"CumSum", "exclusive", 0, NULL},
    {"CumSum", "reverse", 0, NULL},
    {"SoftmaxCrossEntropyLoss", "reduction", 0, "mean"},
    {"Conv", "group", 1, NULL},
    {"Conv", "auto_pad", 0, "NOTSET"},
    {"IsInf", "detect_negative", 1, NULL},
    {"IsInf", "detect_positive", 1, NULL},
    {"DotProductAttention", "signed", 0, NULL},
    {"DotProductAttentionGrad", "signed", 0, NULL},
    {"Dropout", "packed", 0, NULL},
};

static bool default_is(const tc_node *node, const tc_attr *want) {
    for (size_t i = 0; i < TC_COUNT(defaults); i++) {
        if (strcmp(defaults[i].op, node->op_type) != 0 || strcmp(defaults[i].attr, want->name) != 0)
            continue;
        switch (want->kind) {
        case TC_ATTR_INT: return (double)want->i == defaults[i].number;
        case TC_ATTR_FLOAT: return is_near((double)want->f, defaults[i].number, TC_FLOAT);
        default:
            return defaults[i].text && want->s.size == strlen(defaults[i].text) &&
                   !memcmp(defaults[i].text, want->s.data, want->s.size);
        }
    }
    return false;
}

/* An axis may be counted from either end. */
static bool same_axis(const tc_node *node, int64_t have, int64_t want) {
    int rank = node->n_inputs ? tc_value_rank(tc_input(node, 0)) : TC_RANK_UNKNOWN;
    if (rank == TC_RANK_UNKNOWN)
        return have == want;
    return have + (have < 0 ? rank : 0) == want + (want < 0 ? rank : 0);
}

static bool attr_matches(const tc_node *node, const tc_attr *want) {
    const tc_attr *have = tc_attr_find(node, want->name);
    if (!have)
        return default_is(node, want);
    if (have->kind != want->kind)
        return false;
    switch (want->kind) {
    case TC_ATTR_INT: return !strcmp(want->name, "axis") ? same_axis(node, have->i, want->i) : have->i == want->i;
    case TC_ATTR_FLOAT: return is_near((double)have->f, (double)want->f, TC_FLOAT);
    case TC_ATTR_STRING: return have->s.size == want->s.size && !memcmp(have->s.data, want->s.data, want->s.size);
    default:
        return have->count == want->count &&
               (!want->count || !memcmp(have->ints, want->ints, want->count * sizeof *want->ints));
    }
}

/* --- nodes ------------------------------------------------------------------------------------ */

static bool has_op(const rule_node *pattern, const tc_node *node) {
    for (uint16_t i = 0; i < pattern->n_ops; i++) {
        const rule_op *op = &pattern->ops[i];
        if (op->op ? op->op == node->op && !strcmp(op->name, node->op_type) : tc_node_is(node, op->domain, op->name))
            return true;
    }
    return false;
}

/* Checks of a node that do not look at its operands. */
static bool node_fits(rule_match *m, uint16_t index, const tc_node *node, const tc_graph *graph) {
    const rule_node *pattern = &m->rule->match[index];
    if (!has_op(pattern, node))
        return miss(m, pattern->loc, pattern->label, node, "expected %s%s, found %s", pattern->ops[0].name,
                    pattern->n_ops > 1 ? " or another" : "", node->op_type);
    if (node->graph != graph)
        return miss(m, pattern->loc, pattern->label, node, "is in another graph");
    for (uint32_t i = pattern->n_operands; i < node->n_inputs; i++)
        if (tc_input(node, i))
            return miss(m, pattern->loc, pattern->label, node, "has more operands than the pattern");
    for (uint16_t i = 0; i < pattern->n_attrs; i++)
        if (!attr_matches(node, &pattern->attrs[i].literal))
            return miss(m, pattern->loc, pattern->label, node, "attribute %s differs", pattern->attrs[i].literal.name);
    return true;
}

static bool bind_outputs(rule_match *m, uint16_t index, tc_node *node) {
    const rule_node *pattern = &m->rule->match[index];
    for (uint16_t i = 0; i < pattern->n_outputs; i++) {
        uint16_t name = pattern->outputs[i];
        tc_value *value = tc_output(node, i);
        if (name == RULE_NONE)
            continue;
        if (m->state[name] == NAME_FREE)
            set_name(m, name, value);
        else if (m->values[name] != value)
            return miss(m, pattern->loc, pattern->label, node, "'%s' is bound to another value",
                        m->rule->names[name].text);
    }
    return true;
}

static const rule_operand *first_factor(const rule_node *pattern, uint32_t factors) {
    uint16_t i = 0;
    while (!(factors >> i & 1))
        i++;
    return &pattern->operands[i];
}

/* A quick check whether a value can match an operand of the pattern. */
static bool looks_right(const rule_match *m, const rule_operand *operand, const tc_value *value) {
    uint16_t made_by = operand->kind == OPERAND_NODE ? operand->index : RULE_NONE;
    for (uint16_t i = 0; operand->kind == OPERAND_CHOICE && i < operand->n_choices; i++)
        if (looks_right(m, &operand->choices[i], value))
            return true;
    if (!value)
        return operand->kind == OPERAND_ABSENT;
    if (operand->kind == OPERAND_NUMBER || operand->kind == OPERAND_INTS)
        return tc_value_constant(value) != NULL;
    if (operand->kind == OPERAND_NAME && m->state[operand->index] == NAME_BOUND)
        return m->values[operand->index] == value;
    if (operand->kind == OPERAND_NAME)
        made_by = m->rule->names[operand->index].node;
    return made_by != RULE_NONE && value->producer && has_op(&m->rule->match[made_by], value->producer);
}

/* The order to try first: the likelier one. Then no optional node is left out because of the order, and --explain
 * reports the failure that the author means. */
static unsigned first_order(const rule_match *m, const rule_node *pattern, const tc_node *node) {
    int score[2] = {0, 0};
    for (unsigned order = 0; order < 2; order++)
        for (uint16_t i = 0; i < 2; i++)
            score[order] += looks_right(m, &pattern->operands[i], tc_input(node, order ? 1u - i : i));
    return score[1] > score[0];
}

/* Binds the operands in `factors` of a product to the factors of the two operands of `node`. */
static bool split_product(rule_match *m, uint16_t index, uint32_t factors, tc_node *node, const goal *rest,
                          uint16_t down) {
    const rule_node *pattern = &m->rule->match[index];
    uint16_t mark = m->n_trail;
    for (uint32_t left = (factors - 1) & factors; left; left = (left - 1) & factors) {
        goal second = {first_factor(pattern, factors & ~left), tc_input(node, 1), index, factors & ~left, rest};
        goal first = {first_factor(pattern, left), tc_input(node, 0), index, left, &second};
        if (solve(m, &first, down))
            return true;
        undo(m, mark);
    }
    return false;
}

/* An inner node of a product: the op must make the value, and escapes() checks that nothing else uses it. */
static bool match_product(rule_match *m, const goal *g, uint16_t down) {
    const rule_node *pattern = &m->rule->match[g->node];
    uint16_t slot = pattern->spare, mark = m->n_trail;
    tc_node *node = g->value ? g->value->producer : NULL;
    if (!node || !has_op(pattern, node) || node->graph != m->nodes[g->node]->graph || !tc_input(node, 0) ||
        !tc_input(node, 1))
        return miss(m, pattern->loc, pattern->label, m->nodes[g->node], "expected %s of several factors, found %s",
                    pattern->ops[0].name, describe(g->value));
    while (m->nodes[slot])
        slot++;
    m->nodes[slot] = node;
    m->trail[m->n_trail++] = slot | TRAIL_NODE;
    m->depth++;
    if (split_product(m, g->node, g->factors, node, g->next, down))
        return true;
    undo(m, mark);
    return false;
}

/* Binds a pattern node, then its operands in each order, then the rest. */
static bool try_node(rule_match *m, uint16_t index, tc_node *node, const goal *rest, uint16_t down) {
    const rule_node *pattern = &m->rule->match[index];
    const tc_graph *graph = m->nodes[m->rule->anchor] ? m->nodes[m->rule->anchor]->graph : node->graph;
    uint16_t mark = m->n_trail;
    if (m->fuel == 0 || --m->fuel == 0 || !node_fits(m, index, node, graph))
        return false;
    m->nodes[index] = node;
    m->trail[m->n_trail++] = index | TRAIL_NODE;
    m->depth++;
    unsigned orders = pattern->commutative && pattern->n_operands == 2 ? 2 : 1;
    unsigned swap = orders == 2 ? first_order(m, pattern, node) : 0;
    goal goals[RULE_MAX_OPERANDS];
    bool bound = bind_outputs(m, index, node);
    if (bound && pattern->product) {
        if (tc_input(node, 0) && tc_input(node, 1) &&
            split_product(m, index, (1u << pattern->n_operands) - 1, node, rest, down))
            return true;
    } else if (bound) {
        for (unsigned order = 0; order < orders; order++) {
            uint16_t inner = m->n_trail;
            for (uint16_t i = 0; i < pattern->n_operands; i++) {
                uint32_t from = order != swap ? 1u - i : i;
                goals[i] = (goal){&pattern->operands[i], tc_input(node, from), index, 0,
                                  i + 1 < pattern->n_operands ? &goals[i + 1] : rest};
            }
            if (solve(m, pattern->n_operands ? goals : rest, down))
                return true;
            undo(m, inner);
        }
    }
    undo(m, mark);
    return false;
}

/* --- optional nodes --------------------------------------------------------------------------- */

static bool make_absent(rule_match *m, uint16_t name) {
    if (m->state[name] == NAME_FREE)
        set_name(m, name, NULL);
    return m->state[name] == NAME_ABSENT;
}

/* Leaves an optional node out: `value` is its first operand and becomes its first result. Its other results, and the
 * optional names among its other operands, are unbound. */
static bool skip_node(rule_match *m, uint16_t index, tc_value *value, const goal *rest, uint16_t down) {
    const rule_node *pattern = &m->rule->match[index];
    uint16_t mark = m->n_trail;
    bool fits = true;
    for (uint16_t i = 1; fits && i < pattern->n_outputs; i++)
        fits = pattern->outputs[i] == RULE_NONE || make_absent(m, pattern->outputs[i]);
    for (uint16_t i = 1; fits && i < pattern->n_operands; i++) {
        const rule_operand *operand = &pattern->operands[i];
        if (operand->kind == OPERAND_NAME && m->rule->names[operand->index].optional)
            fits = make_absent(m, operand->index);
    }
    if (fits && pattern->n_outputs && pattern->outputs[0] != RULE_NONE && m->state[pattern->outputs[0]] == NAME_FREE)
        set_name(m, pattern->outputs[0], value);
    goal first = {&pattern->operands[0], value, index, 0, rest};
    if (fits && pattern->n_operands && solve(m, &first, down))
        return true;
    undo(m, mark);
    return false;
}

/* --- goals ------------------------------------------------------------------------------------ */

/* `value` must be result `output` of a node that fits pattern node `index`. */
static bool match_made_by(rule_match *m, uint16_t index, uint16_t output, const goal *g, uint16_t down) {
    const rule_node *pattern = &m->rule->match[index];
    tc_value *value = g->value;
    if (m->nodes[index])
        return tc_output(m->nodes[index], output) == value && solve(m, g->next, down);
    if (value && value->producer && value->out_index == output) {
        if (try_node(m, index, value->producer, g->next, down))
            return true;
    } else {
        miss(m, pattern->loc, pattern->label, m->nodes[g->node], "expected a result of %s, found %s",
             pattern->ops[0].name, describe(value));
    }
    return pattern->optional && value && output == 0 && skip_node(m, index, value, g->next, down);
}

static bool match_choice(rule_match *m, const goal *g, uint16_t down) {
    uint16_t mark = m->n_trail;
    for (uint16_t i = 0; i < g->operand->n_choices; i++) {
        goal choice = {&g->operand->choices[i], g->value, g->node, 0, g->next};
        if (solve(m, &choice, down))
            return true;
        undo(m, mark);
    }
    return false;
}

static bool match_name(rule_match *m, const goal *g, uint16_t down) {
    uint16_t index = g->operand->index;
    const rule_name *name = &m->rule->names[index];
    const rule_node *user = &m->rule->match[g->node];
    if (m->state[index] != NAME_FREE) {
        bool same = m->values[index] == g->value ||
                    (m->values[index] && g->value && rule_same_constant(m->values[index], g->value));
        if (!same)
            return miss(m, user->loc, user->label, m->nodes[g->node], "'%s' would be two values", name->text);
        return solve(m, g->next, down);
    }
    if (name->node != RULE_NONE)
        return match_made_by(m, name->node, name->output, g, down);
    if (!g->value && !name->optional)
        return miss(m, user->loc, user->label, m->nodes[g->node], "operand '%s' is absent", name->text);
    uint16_t mark = m->n_trail;
    set_name(m, index, g->value);
    if (solve(m, g->next, down))
        return true;
    undo(m, mark);
    return false;
}

/* --- from users ------------------------------------------------------------------------------- */

static size_t count_uses(const tc_value *value) {
    size_t n = 0;
    for (const tc_use *use = value->uses; use && n <= USERS_TRIED; use = use->next)
        n++;
    return n;
}

/* The bound operand of a pattern node with the fewest users. */
static tc_value *rarest_operand(const rule_match *m, const rule_node *pattern) {
    tc_value *best = NULL;
    size_t best_uses = 0;
    for (uint16_t i = 0; i < pattern->n_operands; i++) {
        const rule_operand *operand = &pattern->operands[i];
        tc_value *value = NULL;
        if (operand->kind == OPERAND_NAME && m->state[operand->index] == NAME_BOUND)
            value = m->values[operand->index];
        else if (operand->kind == OPERAND_NODE && m->nodes[operand->index])
            value = m->nodes[operand->index]->outputs[0];
        if (!value || tc_value_constant(value))
            continue;
        size_t uses = count_uses(value);
        if (!best || uses < best_uses) {
            best = value;
            best_uses = uses;
        }
    }
    return best;
}

static bool match_down(rule_match *m, uint16_t down) {
    uint16_t index = m->rule->down[down];
    const rule_node *pattern = &m->rule->match[index];
    if (m->nodes[index])
        return solve(m, NULL, (uint16_t)(down + 1));
    tc_value *value = rarest_operand(m, pattern);
    size_t tried = 0;
    for (tc_use *use = value ? value->uses : NULL; use && tried < USERS_TRIED; use = use->next, tried++)
        if (has_op(pattern, use->user) && try_node(m, index, use->user, NULL, (uint16_t)(down + 1)))
            return true;
    miss(m, pattern->loc, pattern->label, value ? value->producer : NULL, "no user of '%s' fits %s",
         value ? value->name : "?", pattern->ops[0].name);
    const rule_operand *first = &pattern->operands[0];
    tc_value *through = first->kind == OPERAND_NAME ? m->values[first->index] : value;
    return pattern->optional && through && skip_node(m, index, through, NULL, (uint16_t)(down + 1));
}

/* --- the end ---------------------------------------------------------------------------------- */

static bool is_matched(const rule_match *m, const tc_node *node) {
    for (uint16_t i = 0; i < m->rule->n_match; i++)
        if (m->nodes[i] == node)
            return true;
    return false;
}

/* Matched nodes that stay: those that compute a kept result, which the right side does not define. */
static void mark_kept(const rule_match *m, bool kept[RULE_MAX_NODES]) {
    const tc_rule *rule = m->rule;
    for (uint16_t i = 0; i < rule->n_outs; i++) {
        const rule_name *name = &rule->names[rule->outs[i]];
        for (uint16_t n = 0; name->build == RULE_NONE && m->values[rule->outs[i]] && n < rule->n_match; n++)
            kept[n] |= m->nodes[n] == m->values[rule->outs[i]]->producer && m->nodes[n];
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint16_t n = 0; n < rule->n_match; n++)
            for (uint32_t i = 0; kept[n] && m->nodes[n] && i < m->nodes[n]->n_inputs; i++)
                for (uint16_t up = 0; up < rule->n_match; up++) {
                    const tc_value *value = tc_input(m->nodes[n], i);
                    if (value && m->nodes[up] && !kept[up] && value->producer == m->nodes[up])
                        kept[up] = changed = true;
                }
    }
}

static bool is_out(const rule_match *m, const tc_value *value) {
    for (uint16_t i = 0; i < m->rule->n_outs; i++)
        if (m->values[m->rule->outs[i]] == value)
            return true;
    return false;
}

/* A value of the same shape that outlives the match and comes before `user`, for uses that read a shape only. */
tc_value *rule_shape_twin(const rule_match *m, const tc_value *value, const tc_node *user) {
    int rank = tc_value_rank(value);
    for (uint16_t i = 0; rank != TC_RANK_UNKNOWN && i < m->rule->n_params; i++) {
        tc_value *param = m->rule->params[i] == RULE_NONE ? NULL : m->values[m->rule->params[i]];
        bool same = param && tc_value_rank(param) == rank && param->graph == user->graph && !tc_value_constant(param);
        for (int d = 0; same && d < rank; d++)
            same = tc_dim_equal(param->type->dims[d], value->type->dims[d]);
        if (same && (!param->producer || tc_node_before(param->producer, user)))
            return param;
    }
    return NULL;
}

static bool escapes(rule_match *m) {
    bool kept[RULE_MAX_NODES] = {false};
    mark_kept(m, kept);
    for (uint16_t n = 0; n < m->rule->n_match; n++) {
        const tc_node *node = m->nodes[n];
        const rule_node *pattern = &m->rule->match[n];
        for (uint32_t i = 0; node && !kept[n] && i < node->n_outputs; i++) {
            const tc_value *value = node->outputs[i];
            if (!value || is_out(m, value))
                continue;
            if (value->n_graph_outputs)
                return !miss(m, pattern->loc, pattern->label, node, "'%s' is a graph output", value->name);
            TC_FOR_USES(use, value) {
                bool shape_only = tc_node_has(use->user, TC_SHAPE_ONLY) && rule_shape_twin(m, value, use->user);
                if (!shape_only && !is_matched(m, use->user))
                    return !miss(m, pattern->loc, pattern->label, node,
                                 "'%s' is used outside of the match too, by %s \"%s\"", value->name, use->user->op_type,
                                 tc_node_label(use->user));
            }
        }
    }
    return false;
}

static bool finish(rule_match *m) {
    unsigned depth = m->depth;
    m->depth += RULE_MAX_NODES; /* the pattern matches: later failures are the deepest */
    const rule_guard *guard = guards_failing(m->rule, m->values, NULL);
    bool good = !guard && !escapes(m);
    if (guard)
        miss(m, guard->loc, "where", m->nodes[m->rule->anchor], "'%s' does not hold", guard->text);
    m->depth = depth;
    return good;
}

static bool solve(rule_match *m, const goal *goals, uint16_t down) {
    if (!goals)
        return down < m->rule->n_down ? match_down(m, down) : finish(m);
    if (m->fuel == 0 || --m->fuel == 0)
        return false;
    const rule_node *node = &m->rule->match[goals->node];
    if (goals->factors & (goals->factors - 1))
        return match_product(m, goals, down);
    switch (goals->operand->kind) {
    case OPERAND_ABSENT:
        return goals->value
                   ? miss(m, node->loc, node->label, m->nodes[goals->node], "an operand is present that must be absent")
                   : solve(m, goals->next, down);
    case OPERAND_ANY: return solve(m, goals->next, down);
    case OPERAND_NAME: return match_name(m, goals, down);
    case OPERAND_NODE: return match_made_by(m, goals->operand->index, 0, goals, down);
    case OPERAND_CHOICE: return match_choice(m, goals, down);
    case OPERAND_NUMBER: return match_number(m, goals) && solve(m, goals->next, down);
    default: return match_ints(m, goals) && solve(m, goals->next, down);
    }
}

bool rule_match_at(rule_match *m, const tc_rule *rule, tc_node *anchor, bool explain) {
    m->rule = rule;
    m->explain = explain;
    m->failure = (match_failure){0};
    m->fuel = RULE_FUEL;
    m->depth = m->n_trail = 0;
    memset(m->state, NAME_FREE, rule->n_names);
    memset(m->values, 0, rule->n_names * sizeof *m->values);
    memset(m->nodes, 0, rule->n_match * sizeof *m->nodes);
    return try_node(m, rule->anchor, anchor, NULL, 0);
}
