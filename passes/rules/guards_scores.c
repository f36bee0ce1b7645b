/* guards_scores.c: guards of rules that bring attention's scores into one spelling (maps.rules, scores.rules): the
 * producers and readers of a value, and comparisons of shapes. */
#include "compiler/contents/contents.h"
#include "compiler/shape/shape.h"
#include "rule_ir.h"
#include <string.h>

enum { MOST_STEPS = 16 }; /* nodes between a product and its softmax: scales, masks, biases, views, a cast */

static const char *const on_the_way[] = {"Add", "Cast", "Concat", "Div", "Max", "Mul", "Reshape", "Sub", "Where"};

static bool is_on_the_way(const tc_node *node) {
    for (size_t i = 0; i < TC_COUNT(on_the_way); i++)
        if (tc_node_is(node, "", on_the_way[i]))
            return true;
    return false;
}

static bool is_softmax_of_rows(const tc_node *node) {
    int64_t axis = tc_attr_int(node, "axis", -1);
    return tc_node_is(node, "", "Softmax") && (axis == -1 || axis == tc_value_rank(tc_input(node, 0)) - 1);
}

bool tc_leads_to_softmax(const tc_value *value) {
    for (int step = 0; step < MOST_STEPS; step++) {
        const tc_node *user = NULL;
        TC_FOR_USES(use, value)
            if (!tc_node_has(use->user, TC_SHAPE_ONLY)) {
                if (is_softmax_of_rows(use->user))
                    return true;
                user = is_on_the_way(use->user) && !user ? use->user : user;
            }
        if (!user)
            return false;
        value = tc_output(user, 0);
    }
    return false;
}

bool guard_is_scored(const guard_call *call) { return tc_leads_to_softmax(guard_value(call, 0)); }

static tc_dim from_end(const tc_value *value, int i) { return value->type->dims[tc_value_rank(value) - i]; }

/* Dims of the first that are not 1, counted from the end, lie where the other two agree: if it broadcasts to one, it
 * broadcasts to its view in the same way. */
bool guard_is_in_tail(const guard_call *call) {
    const tc_value *x = guard_value(call, 0), *a = guard_value(call, 1), *b = guard_value(call, 2);
    int rank = tc_value_rank(x), rank_a = tc_value_rank(a), rank_b = tc_value_rank(b);
    bool same = rank != TC_RANK_UNKNOWN && rank_a >= rank && rank_b >= rank;
    bool fits = same;
    for (int i = 1; i <= rank && fits; i++) {
        same = same && tc_dim_equal(from_end(a, i), from_end(b, i));
        bool is_one = tc_dim_equal(from_end(x, i), tc_dim_const(1));
        fits = is_one || (same && tc_dim_equal(from_end(x, i), from_end(a, i)));
    }
    return fits;
}

/* A target of Reshape that gives each dim, or leaves it to be computed: no 0, which would copy one of the operand. */
bool guard_is_named(const guard_call *call) {
    tc_value *target = guard_value(call, 0);
    const tc_contents *contents = tc_value_contents(target->graph->model, target);
    if (!contents)
        return false;
    for (uint64_t i = 0; i < contents->count; i++)
        if (tc_dim_is_const(contents->items[i].i) && contents->items[i].i.value == 0)
            return false;
    return true;
}

bool guard_is_column(const guard_call *call) {
    const tc_value *value = guard_value(call, 0);
    int rank = tc_value_rank(value);
    return rank == 0 || (rank > 0 && tc_dim_equal(from_end(value, 1), tc_dim_const(1)));
}

/* The operand of a scale by a constant, or of a view; NULL: the node is neither. */
static const tc_value *without_scale(const tc_node *node) {
    if (tc_node_is(node, "", "Reshape"))
        return tc_input(node, 0);
    if (!tc_node_is(node, "", "Mul") && !tc_node_is(node, "", "Div"))
        return NULL;
    if (tc_value_constant(tc_input(node, 1)))
        return tc_input(node, 0);
    return tc_value_constant(tc_input(node, 0)) ? tc_input(node, 1) : NULL;
}

bool guard_is_product(const guard_call *call) {
    const tc_value *value = guard_value(call, 0);
    while (value && value->producer && !tc_node_is(value->producer, "", "MatMul"))
        value = without_scale(value->producer);
    return value && value->producer;
}
