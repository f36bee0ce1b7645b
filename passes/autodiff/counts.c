/* counts.c: a pass that finds out which mean a scalar is. Batches of unequal weight can then be combined into the
 * number of one large batch: Loss = sum_i C_i Loss_i / sum_i C_i. C_i is the divisor of the loss of batch i: the
 * number of labels that are not ignored, or the sum of their weights, or the sum of a mask. The pass splits the
 * scalar into terms, from the result backwards. A term is
 *
 *     a mean of samples     a mean over the first axis, or a value that depends on no data: C_i are the samples
 *     a counted mean        a loss of labels, or a Div of two sums: C_i is a value of the graph
 *     a sum                 it adds up over batches, and nothing divides it
 *
 * If the terms of a training graph's loss have different counts, each is multiplied by a graph input (1 by default),
 * which the training program sets. In a graph for evaluation, terms and counts of every scalar become outputs. */
#include "passes/canonical/canonical.h"
#include "passes/weights/weights.h"
#include "compiler/build/build.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include <string.h>

/* What a value depends on. OF_ALL: it has no axis of samples but summarizes them, as the sum of a mask does.
 * OF_OTHERS: each element belongs to one sample but depends on others, because it was multiplied by such a summary. */
enum { OF_DATA = 1, OF_WEIGHTS = 2, OF_ALL = 4, OF_OTHERS = 8 };
enum { MOST_STEPS = 2000 }; /* for one scalar */

typedef struct term {
    tc_value *value, *scale; /* scale NULL: 1 */
    tc_value *weights;       /* of the value's elements, which are added up; NULL: 1 */
    tc_node *user;           /* reads it as operand `index`; NULL: it is the scalar itself */
    uint32_t index;
    tc_value *count;     /* NULL: the number of samples */
    tc_value *unguarded; /* the count before a Max, Clip or Add kept it from 0; NULL: there is none */
    bool adds_up, is_fixed;
} term;

typedef struct counting {
    tc_pass_env *env;
    tc_graph *graph;
    const uint8_t *depends; /* by value id, for values of the original graph */
    uint32_t n_depends;
    tc_build g; /* makes nodes at the end of the graph */
    term *terms;
    size_t n, cap;
    const tc_node *unknown; /* the first node whose count is not known */
    uint32_t steps;         /* compared with MOST_STEPS: sums of sums share operands, and chains of them are long */
} counting;

static void weigh(counting *c, term t);

/* --- dependences ------------------------------------------------------------------------------ */

static bool depends(const counting *c, const tc_value *value, int on) {
    return value && value->id < c->n_depends && (c->depends[value->id] & on);
}

static uint8_t own_dependence(const tc_value *value) {
    bool is_given = value->is_input && !value->init && strncmp(value->name, "tempo.", 6) != 0;
    return (uint8_t)((is_given ? OF_DATA : 0) | (tc_may_be_trained(value) ? OF_WEIGHTS : 0));
}

static bool is_of_samples(const tc_value *input) {
    return (own_dependence(input) & OF_DATA) && tc_value_rank(input) >= 1;
}

/* Whether each batch is known to be one sample. */
static bool is_single(const tc_graph *graph) {
    bool any = false;
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (is_of_samples(graph->inputs[i])) {
            const tc_dim samples = graph->inputs[i]->type->dims[0];
            if (!tc_dim_is_const(samples) || samples.value != 1)
                return false;
            any = true;
        }
    return any;
}

/* An axis of one element may be that of a single sample. */
static bool is_one(const tc_graph *graph, const tc_value *value) {
    uint64_t count = 1;
    for (int i = 0; i < tc_value_rank(value); i++)
        count *= tc_dim_is_const(value->type->dims[i]) ? (uint64_t)value->type->dims[i].value : 2;
    return tc_value_rank(value) == 0 || (tc_value_rank(value) > 0 && count == 1 && !is_single(graph));
}

/* Whether samples still have an axis. If all sizes are numbers, none is known to depend on the samples. */
static bool has_samples(const tc_graph *graph, const tc_value *value) {
    bool all_known = true, known = true;
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (is_of_samples(graph->inputs[i]))
            all_known = all_known && tc_dim_is_const(graph->inputs[i]->type->dims[0]);
    for (int i = 0; i < tc_value_rank(value); i++)
        known = known && tc_dim_is_const(value->type->dims[i]);
    return all_known || !known;
}

/* A matrix of samples by samples, such as similarities. */
static bool is_of_pairs(const tc_graph *graph, const tc_value *value) {
    for (uint32_t i = 0; tc_value_rank(value) >= 2 && i < graph->n_inputs; i++) {
        int axes = 0;
        for (int k = 0; is_of_samples(graph->inputs[i]) && k < tc_value_rank(value); k++)
            axes += !tc_dim_is_const(value->type->dims[k]) &&
                    tc_dim_equal(value->type->dims[k], graph->inputs[i]->type->dims[0]);
        if (axes >= 2)
            return true;
    }
    return false;
}

static uint8_t result_dependence(const tc_graph *graph, const uint8_t *found, const tc_node *node,
                                 const tc_value *result, uint8_t on) {
    bool is_apart = is_one(graph, result) || (tc_value_rank(result) >= 0 && !has_samples(graph, result));
    if (tc_node_has(node, TC_SHAPE_ONLY))
        return on & OF_DATA;
    if (!(on & OF_DATA) || is_apart)
        return on | (is_apart && (on & OF_DATA) ? OF_ALL : 0);
    if (is_of_pairs(graph, result))
        on |= OF_OTHERS;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *by = tc_input(node, i);
        if (by && (found[by->id] & OF_ALL) && tc_dtype_is_float(tc_value_dtype(by)))
            on |= OF_OTHERS;
    }
    return on & (uint8_t)~OF_ALL;
}

static const uint8_t *find_dependences(tc_arena *arena, const tc_graph *graph) {
    uint8_t *found = TC_NEW_ARRAY(arena, uint8_t, graph->model->next_id + 1);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        found[graph->inputs[i]->id] = own_dependence(graph->inputs[i]);
    for (uint32_t i = 0; i < graph->n_initializers; i++)
        found[graph->initializers[i]->id] = own_dependence(graph->initializers[i]);
    TC_FOR_NODES(node, graph) {
        uint8_t on = tc_node_has(node, TC_CONTROL) ? OF_DATA | OF_WEIGHTS : tc_node_has(node, TC_RANDOM) ? OF_DATA : 0;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            on |= tc_input(node, i) ? found[tc_input(node, i)->id] : 0;
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                found[node->outputs[i]->id] = result_dependence(graph, found, node, node->outputs[i], on);
    }
    return found;
}

/* --- terms ------------------------------------------------------------------------------------ */

static void add_term(counting *c, term t) {
    c->terms = tc_arena_grow(c->env->ctx->arena, c->terms, sizeof *c->terms, &c->cap, c->n + 1);
    c->terms[c->n++] = t;
}

static void add_unknown(counting *c, term t, const tc_node *node) {
    c->unknown = c->unknown ? c->unknown : node;
    add_term(c, t);
}

static void add_counted(counting *c, term t, tc_value *count) {
    t.count = count;
    add_term(c, t);
}

static void add_sum(counting *c, term t) {
    t.adds_up = true;
    add_term(c, t);
}

static term operand(const term *t, tc_node *node, uint32_t index) {
    return (term){
        .value = tc_input(node, index), .scale = t->scale, .weights = t->weights, .user = node, .index = index};
}

static void scale_by(counting *c, term *t, const char *op, tc_value *by) {
    tc_value *scale = t->scale ? t->scale : tc_build_scalar(&c->g, TC_FLOAT, 1);
    t->scale = TC_OP(&c->g, op, scale, tc_build_cast(&c->g, by, TC_FLOAT));
}

/* --- counts ----------------------------------------------------------------------------------- */

static tc_value *total(counting *c, tc_value *x) {
    tc_node *sum = TC_BEGIN(&c->g, "ReduceSum", x);
    tc_attr_set_int(sum, "keepdims", 0);
    return tc_build_cast(&c->g, tc_build_finish(&c->g, sum), TC_FLOAT);
}

static tc_value *size_of(counting *c, tc_value *x) { return tc_build_cast(&c->g, TC_OP(&c->g, "Size", x), TC_FLOAT); }

/* The number of labels that are not ignored, or the sum of their weights, as in restore_smoothing.c. */
static tc_value *count_labels(counting *c, const tc_node *node, tc_value *labels, tc_value *weights) {
    tc_build *g = &c->g;
    tc_value *ignored = NULL, *each = NULL;
    if (tc_attr_find(node, "ignore_index"))
        ignored = TC_OP(g, "Equal", labels, tc_build_like(g, labels, (double)tc_attr_int(node, "ignore_index", 0)));
    if (!ignored && !weights)
        return size_of(c, labels);
    if (weights)
        each = TC_OP(g, "Gather", weights,
                     ignored ? TC_OP(g, "Where", ignored, tc_build_like(g, labels, 0), labels) : labels);
    if (!ignored)
        return total(c, each);
    each = each ? each : tc_build_scalar(g, TC_FLOAT, 1);
    return total(c, TC_OP(g, "Where", ignored, tc_build_like(g, each, 0), each));
}

/* Scores, or X and W of the last product; then labels, bias and weights. */
static void weigh_loss(counting *c, term t, tc_node *node) {
    bool linear = strcmp(node->op_type, "LinearCrossEntropy") == 0;
    tc_value *labels = tc_input(node, linear ? 2 : 1), *weights = tc_input(node, linear ? 4 : 2);
    const char *reduction = tc_attr_string(node, "reduction", "mean");
    bool ignores = tc_attr_find(node, "ignore_index") != NULL;
    bool mixed = ignores && tc_attr_float(node, "z_loss", 0) != 0; /* two means, of labels and of rows */
    if (strcmp(reduction, "sum") == 0)
        add_sum(c, t);
    else if (strcmp(reduction, "mean") != 0 || mixed || depends(c, labels, OF_WEIGHTS) ||
             depends(c, tc_input(node, 0), OF_OTHERS))
        add_unknown(c, t, node);
    else
        add_counted(c, t, count_labels(c, node, labels, weights));
}

/* Computed from shapes alone. */
static bool is_size(const tc_value *value) {
    for (int depth = 0; value && value->producer && depth < 16; depth++) {
        if (tc_node_has(value->producer, TC_SHAPE_ONLY))
            return true;
        value = tc_input(value->producer, 0);
    }
    return false;
}

/* Skips ops that keep a divisor from being 0, or change its type: returns y of Max(y, 1), Clip(y, 1e-9), Add(y,
 * 1e-8). */
static tc_value *without_guard(tc_value *value) {
    static const char *const guards[] = {"Max", "Clip", "Add"};
    tc_value *made = value;
    double bound;
    while (made->producer && tc_node_is(made->producer, "", "Cast"))
        made = tc_input(made->producer, 0);
    for (size_t i = 0; made->producer && i < TC_COUNT(guards); i++) {
        const tc_node *node = made->producer;
        if (!tc_node_is(node, "", guards[i]))
            continue;
        bool turned = !tc_build_known_number(tc_input(node, 1), &bound);
        if ((!turned && bound <= 1) || (turned && tc_build_known_number(tc_input(node, 0), &bound) && bound <= 1))
            return tc_input(node, turned ? 1 : 0);
    }
    return value;
}

/* Whether all terms of the value are sums, or all are means of samples. */
static enum { MIXED, SUMS, SAMPLES } terms_of(counting *c, tc_value *value) {
    size_t first = c->n;
    const tc_node *unknown = c->unknown;
    bool sums = true, samples = true;
    c->unknown = NULL;
    weigh(c, (term){.value = value});
    for (size_t i = first; i < c->n; i++) {
        sums = sums && c->terms[i].adds_up;
        samples = samples && !c->terms[i].adds_up && !c->terms[i].count;
    }
    bool known = !c->unknown;
    c->n = first;
    c->unknown = unknown;
    return !known ? MIXED : sums ? SUMS : samples ? SAMPLES : MIXED;
}

/* The value whose mean this one is: x of a view of ReduceMean(x) over samples. NULL: it is no mean. */
static tc_value *meant(counting *c, tc_value *value) {
    if (terms_of(c, value) != SAMPLES)
        return NULL;
    while (value->producer && tc_node_has(value->producer, TC_VIEW))
        value = tc_input(value->producer, 0);
    return value->producer && tc_node_is(value->producer, "", "ReduceMean") ? tc_input(value->producer, 0) : NULL;
}

/* y, or y times the number of elements of the mean. */
static tc_value *times(counting *c, tc_value *y, tc_value *of) {
    y = tc_build_cast(&c->g, y, TC_FLOAT);
    return of ? TC_OP(&c->g, "Mul", y, size_of(c, of)) : y;
}

/* x / y, where y depends on data. Both are sums, or both are means; x is one, or `always` is set. */
static void weigh_quotient(counting *c, term t, tc_node *node, tc_value *x, tc_value *y, bool always) {
    tc_value *guarded = without_guard(y);
    bool sum = always || terms_of(c, x) == SUMS, counts = is_size(guarded) || terms_of(c, guarded) == SUMS;
    tc_value *of = !counts && terms_of(c, x) == SAMPLES ? meant(c, guarded) : NULL;
    if (!(of || (sum && counts)) || !is_one(c->graph, y) || depends(c, guarded, OF_WEIGHTS)) {
        add_unknown(c, t, node);
        return;
    }
    t.unguarded = guarded == y || of ? NULL : times(c, guarded, NULL);
    add_counted(c, t, times(c, y, of));
}

static void weigh_division(counting *c, term t, tc_node *node) {
    tc_value *y = tc_input(node, 1);
    if (depends(c, y, OF_DATA) && !(y->is_input && terms_of(c, tc_input(node, 0)) == SUMS)) {
        weigh_quotient(c, t, node, tc_input(node, 0), y, false);
        return;
    }
    term x = operand(&t, node, 0);
    scale_by(c, &x, "Div", y);
    weigh(c, x);
}

/* --- one op after another --------------------------------------------------------------------- */

/* One for each of the value's elements. */
static bool are_weights(const tc_value *by, const tc_value *value) {
    return tc_value_rank(by) == 1 && tc_same_shape(by, value);
}

/* A mean over all rows, times all rows by those that a mask picks (masked_sums.c), or a sum times 1 / y. */
static void weigh_product(counting *c, term t, tc_node *node) {
    for (uint32_t i = 0; i < 2; i++) {
        tc_value *by = tc_input(node, 1 - i);
        if (!depends(c, by, OF_DATA) && (is_one(c->graph, by) || (!t.weights && are_weights(by, t.value)))) {
            term x = operand(&t, node, i);
            if (is_one(c->graph, by))
                scale_by(c, &x, "Mul", by);
            else
                x.weights = by;
            weigh(c, x);
            return;
        }
        const tc_node *made = by->producer;
        if (made && tc_node_is(made, "", "Div") && is_size(tc_input(made, 0)))
            return weigh_quotient(c, t, node, tc_input(node, i), tc_input(made, 1), true);
        if (made && tc_node_is(made, "", "Reciprocal"))
            return weigh_quotient(c, t, node, tc_input(node, i), tc_input(made, 0), false);
    }
    add_unknown(c, t, node);
}

static void weigh_sum(counting *c, term t, tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        term x = operand(&t, node, i);
        if (i > 0 && strcmp(node->op_type, "Sub") == 0)
            scale_by(c, &x, "Mul", tc_build_like(&c->g, t.value, -1));
        weigh(c, x);
    }
}

static void weigh_negative(counting *c, term t, tc_node *node) {
    term x = operand(&t, node, 0);
    scale_by(c, &x, "Mul", tc_build_like(&c->g, t.value, -1));
    weigh(c, x);
}

static void weigh_same(counting *c, term t, tc_node *node) { weigh(c, operand(&t, node, 0)); }

/* where(n > 0, s / n, 0) */
static void weigh_choice(counting *c, term t, tc_node *node) {
    double number;
    for (uint32_t i = 1; i < 3; i++)
        if (tc_build_known_number(tc_input(node, 3 - i), &number) && number == 0)
            return weigh(c, operand(&t, node, i));
    add_unknown(c, t, node);
}

/* y, which depends on data, of (x / y).sum() or (x w / y).sum(): x depends on other samples only through y. */
static tc_value *divisor_of(const counting *c, const tc_value *x) {
    static const char *const through[] = {"Neg", "Reshape", "Cast", "Unsqueeze", "Squeeze", "Expand"};
    while (x && x->producer) {
        const tc_node *node = x->producer;
        tc_value *a = tc_input(node, 0), *b = tc_input(node, 1);
        bool divides = tc_node_is(node, "", "Div"), passes = divides || tc_node_is(node, "", "Mul");
        if (divides && depends(c, b, OF_DATA) && is_one(c->graph, b))
            return depends(c, a, OF_OTHERS) ? NULL : b;
        if (tc_node_is(node, "", "Reciprocal"))
            return is_one(c->graph, a) ? a : NULL;
        if (passes && depends(c, a, OF_ALL | OF_OTHERS) && depends(c, b, OF_ALL | OF_OTHERS))
            return NULL;
        if (passes && depends(c, b, OF_ALL | OF_OTHERS))
            a = divides ? NULL : b;
        for (size_t i = 0; i < TC_COUNT(through); i++)
            passes = passes || tc_node_is(node, "", through[i]);
        x = passes ? a : NULL;
    }
    return NULL;
}

static bool is_stack(const counting *c, const tc_node *node) {
    bool ones = node && tc_node_is(node, "", "Concat");
    for (uint32_t i = 0; ones && i < node->n_inputs; i++)
        ones = is_one(c->graph, tc_input(node, i));
    return ones;
}

/* Numbers without an axis of samples. */
static bool are_numbers(const counting *c, const tc_value *x) {
    const tc_value *weighed = x->producer && tc_node_is(x->producer, "", "Mul") ? tc_input(x->producer, 0) : x;
    return is_one(c->graph, x) || !has_samples(c->graph, x) || is_stack(c, weighed->producer);
}

static bool count_alike(const counting *c, size_t first);

/* x: numbers without an axis of samples whose sum is t. Either the terms of x as a whole, or those of each element,
 * as for torch.stack((a, b)).mean(). */
static void weigh_numbers(counting *c, term t, tc_node *node, term x) {
    size_t first = c->n;
    bool each = true;
    const tc_node *unknown = c->unknown;
    weigh(c, x);
    for (size_t i = first; i < c->n; i++)
        each = each && is_one(c->graph, c->terms[i].value) && !c->terms[i].weights;
    if (each)
        return;
    x = c->terms[first];
    bool alike = !x.is_fixed && c->unknown == unknown && count_alike(c, first);
    c->n = first;
    t.count = x.count;
    t.unguarded = x.unguarded;
    t.adds_up = x.adds_up;
    if (alike)
        add_term(c, t);
    else
        add_unknown(c, t, node);
}

static void weigh_reduction(counting *c, term t, tc_node *node) {
    tc_value *x = tc_input(node, 0), *y = divisor_of(c, x);
    bool mean = strcmp(node->op_type, "ReduceMean") == 0, linear = mean || strcmp(node->op_type, "ReduceSum") == 0;
    if (are_numbers(c, x)) {
        term numbers = operand(&t, node, 0);
        if (mean && !is_one(c->graph, x))
            scale_by(c, &numbers, "Div", size_of(c, x));
        if (linear && !t.weights)
            weigh_numbers(c, t, node, numbers);
        else
            add_unknown(c, t, node);
    } else if (y && linear) {
        weigh_quotient(c, t, node, x, y, !mean);
    } else {
        t.adds_up = !mean;
        if (depends(c, x, OF_OTHERS))
            add_unknown(c, t, node);
        else
            add_term(c, t);
    }
}

/* A product of two vectors: dot(losses, mask), or numbers by weights. */
static void weigh_contraction(counting *c, term t, tc_node *node) {
    for (uint32_t i = 0; i < 2; i++) {
        tc_value *x = tc_input(node, i), *by = tc_input(node, 1 - i);
        if (are_numbers(c, x) && are_weights(by, x) && !depends(c, by, OF_DATA) && !t.weights) {
            term numbers = operand(&t, node, i);
            numbers.weights = by;
            weigh_numbers(c, t, node, numbers);
            return;
        }
    }
    if (is_one(c->graph, t.value) && has_samples(c->graph, tc_input(node, 0)) && !depends(c, t.value, OF_OTHERS))
        add_sum(c, t);
    else
        add_unknown(c, t, node);
}

static void weigh_stack(counting *c, term t, tc_node *node) {
    if (!is_stack(c, node)) {
        add_unknown(c, t, node);
        return;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        term x = operand(&t, node, i);
        x.weights = NULL;
        if (t.weights)
            scale_by(c, &x, "Mul", TC_OP(&c->g, "Gather", t.weights, tc_build_ints(&c->g, &(int64_t){i}, 1)));
        weigh(c, x);
    }
}

static const struct {
    const char *domain, *op;
    void (*weigh)(counting *c, term t, tc_node *node);
} ways[] = {
    {"", "Identity", weigh_same},
    {"", "Cast", weigh_same},
    {"", "Concat", weigh_stack},
    {"", "Reshape", weigh_same},
    {"", "Squeeze", weigh_same},
    {"", "Unsqueeze", weigh_same},
    {"", "Neg", weigh_negative},
    {"", "Add", weigh_sum},
    {"", "Sub", weigh_sum},
    {"", "Sum", weigh_sum},
    {"", "Mul", weigh_product},
    {"", "Div", weigh_division},
    {"", "Where", weigh_choice},
    {"", "ReduceMean", weigh_reduction},
    {"", "ReduceSum", weigh_reduction},
    {"", "ReduceSumSquare", weigh_reduction},
    {"", "ReduceL1", weigh_reduction},
    {"", "MatMul", weigh_contraction},
    {"", "SoftmaxCrossEntropyLoss", weigh_loss},
    {"", "NegativeLogLikelihoodLoss", weigh_loss},
    {TC_TEMPO_DOMAIN, "LinearCrossEntropy", weigh_loss},
    {TC_TEMPO_DOMAIN, "ScoresCrossEntropy", weigh_loss},
};

static void weigh(counting *c, term t) {
    tc_node *node = t.value ? t.value->producer : NULL;
    double number;
    if (!depends(c, t.value, OF_DATA)) {
        if (tc_build_known_number(t.value, &number) && number == 0)
            return;
        t.is_fixed = true;
        add_term(c, t);
        return;
    }
    for (size_t i = 0; node && c->steps < MOST_STEPS && i < TC_COUNT(ways); i++)
        if (tc_node_is(node, ways[i].domain, ways[i].op)) {
            c->steps++;
            return ways[i].weigh(c, t, node);
        }
    add_unknown(c, t, node);
}

/* --- results ---------------------------------------------------------------------------------- */

/* Whether two nodes compute the same; looks a few nodes deep. */
static bool is_same(const tc_value *a, const tc_value *b, int depth) {
    double x, y;
    if (a == b || !a || !b || depth == 0)
        return a == b;
    if (tc_build_known_number(a, &x) && tc_build_known_number(b, &y) && tc_value_dtype(a) == tc_value_dtype(b))
        return x == y;
    const tc_node *m = a->producer, *n = b->producer;
    if (!m || !n || m->n_inputs != n->n_inputs || a->out_index != b->out_index || !tc_can_merge(m) || !tc_same_op(m, n))
        return false;
    for (uint32_t i = 0; i < m->n_inputs; i++)
        if (!is_same(tc_input(m, i), tc_input(n, i), depth - 1))
            return false;
    return true;
}

/* Whether all terms can share one count. A term without data takes the count of the others, unless they are sums. */
static bool count_alike(const counting *c, size_t begin) {
    const term *first = NULL;
    bool fixed = false;
    for (size_t i = begin; i < c->n; i++) {
        const term *t = &c->terms[i];
        fixed = fixed || t->is_fixed;
        if (t->is_fixed)
            continue;
        if (first && (first->adds_up != t->adds_up || !is_same(first->count, t->count, 8) ||
                      !is_same(first->unguarded, t->unguarded, 8)))
            return false;
        first = first ? first : t;
    }
    return !(first && first->adds_up && fixed);
}

static void note_term(counting *c, const tc_value *score, const term *t, tc_counted names) {
    tc_summary *s = c->env->summary;
    s->counted = tc_arena_grow(c->env->ctx->arena, s->counted, sizeof *s->counted, &s->cap_counted, s->n_counted + 1);
    names.score = tc_arena_strdup(c->env->ctx->arena, score->name);
    names.adds_up = t->adds_up;
    s->counted[s->n_counted++] = names;
}

/* Terms times factors. A factor of 0 removes a term even if it is NaN, because its count is 0. */
static tc_status add_factor(counting *c, const tc_value *score, const term *t, size_t at) {
    tc_graph *graph = c->graph;
    const char *name = tc_arena_printf(c->env->ctx->arena, "tempo.factor.%zu", at);
    const tc_type *type = tc_type_tensor_static(graph->model, TC_FLOAT, 0, NULL);
    tc_value *factor = tc_value_create_exact(graph, name, type);
    tc_insert insert;
    tc_graph_add_input(graph, factor);
    tc_graph_add_initializer(graph, factor, tc_tensor_scalar(graph->model, TC_FLOAT, 1));
    tc_insert_begin(&insert, c->env->ctx, c->env->ctx->arena, t->user);
    tc_value *by = tc_build_cast(&insert.g, factor, tc_value_dtype(t->value)), *zero = tc_build_like(&insert.g, by, 0);
    tc_value *kept = TC_OP(&insert.g, "Where", TC_OP(&insert.g, "Greater", by, zero), t->value, zero);
    tc_value *weighed = TC_OP(&insert.g, "Mul", kept, by);
    TC_TRY(tc_insert_end(&insert));
    tc_node_set_input(t->user, t->index, weighed);
    note_term(c, score, t, (tc_counted){.factor = name});
    return TC_OK;
}

/* The output tempo.WHAT.AT.SCORE; NULL if there is none. */
static tc_status show(counting *c, tc_value *value, const char *what, size_t at, const tc_value *score,
                      const char **out_name) {
    if (!value)
        return TC_OK;
    value = TC_OP(&c->g, "Identity", value);
    TC_TRY(c->g.status);
    *out_name = tc_arena_printf(c->env->ctx->arena, "tempo.%s.%zu.%s", what, at, score->name);
    tc_value_rename(value, *out_name);
    tc_graph_add_output(c->graph, value);
    return TC_OK;
}

static tc_status show_term(counting *c, const tc_value *score, const term *t, size_t at) {
    tc_counted names = {0};
    tc_value *value = t->value;
    if (t->scale)
        value = TC_OP(&c->g, "Mul", value, tc_build_cast(&c->g, t->scale, tc_value_dtype(value)));
    TC_TRY(show(c, value, "part", at, score, &names.part));
    TC_TRY(show(c, t->count, "count", at, score, &names.count));
    TC_TRY(show(c, t->unguarded, "behind", at, score, &names.unguarded));
    note_term(c, score, t, names);
    return TC_OK;
}

/* A mean of samples needs no outputs. */
static bool is_plain(const counting *c) {
    bool plain = true;
    for (size_t i = 0; i < c->n; i++)
        plain = plain && !c->terms[i].count && !c->terms[i].adds_up;
    return plain;
}

static tc_status count_score(counting *c, tc_value *score) {
    bool shows = c->env->options->counting == TC_COUNT_OUTPUT;
    c->n = c->steps = 0;
    c->unknown = NULL;
    weigh(c, (term){.value = score});
    TC_TRY(c->g.status);
    if (c->unknown && !c->env->summary->uncounted)
        c->env->summary->uncounted = tc_arena_printf(c->env->ctx->arena,
                                                     "'%s': its node %s '%s' does not show over which "
                                                     "elements it is a mean",
                                                     tc_quote(c->env->ctx, score->name), c->unknown->op_type,
                                                     tc_quote(c->env->ctx, tc_node_label(c->unknown)));
    if (is_plain(c) || (count_alike(c, 0) && !shows))
        return TC_OK;
    if (shows && count_alike(c, 0)) { /* the whole scalar is its only term */
        size_t at = 0;
        while (c->terms[at].is_fixed)
            at++;
        return show_term(c, score,
                         &(term){.value = score,
                                 .count = c->terms[at].count,
                                 .unguarded = c->terms[at].unguarded,
                                 .adds_up = c->terms[at].adds_up},
                         0);
    }
    for (size_t i = 0; i < c->n; i++)
        TC_TRY(shows ? show_term(c, score, &c->terms[i], i) : add_factor(c, score, &c->terms[i], i));
    return TC_OK;
}

tc_status tc_pass_counts(tc_pass_env *env, tc_model *model) {
    tc_graph *graph = model->graph;
    tc_arena *arena = env->ctx->arena;
    tc_value *loss;
    if (env->options->counting == TC_COUNT_NOT)
        return TC_OK;
    TC_TRY(tc_infer_graph(env->ctx, graph));
    tc_build_pool pool = {arena, tc_map_create(arena)};
    counting c = {.env = env, .graph = graph, .depends = find_dependences(arena, graph), .n_depends = model->next_id};
    c.g = (tc_build){.ctx = env->ctx, .model = model, .graph = graph, .pool = &pool, .label = "counts"};
    if (env->options->counting == TC_COUNT_SHARE) {
        loss = tc_unambiguous_loss(env->options, graph);
        TC_TRY(loss ? count_score(&c, loss) : TC_OK);
    }
    for (uint32_t i = 0, n = graph->n_outputs; env->options->counting == TC_COUNT_OUTPUT && i < n; i++)
        if (tc_is_scalar_float(graph->outputs[i]))
            TC_TRY(count_score(&c, graph->outputs[i]));
    tc_remove_dead(graph);
    return tc_infer_graph(env->ctx, graph);
}
