/* gradient_sqrt.c: the gradient of Sqrt. It is infinite at 0, except for standard deviations: PyTorch's std, which
 * exporters write as several ops, has gradient 0 if all elements are equal. */
#include "gradients.h"

enum { MOST_SCALES = 4 };

static bool is_made_by(const tc_value *value, size_t n, const char *const *ops) {
    for (size_t i = 0; value && value->producer && i < n; i++)
        if (tc_node_is(value->producer, "", ops[i]))
            return true;
    return false;
}
#define MADE_BY(value, ...)                                                                                            \
    is_made_by((value), TC_COUNT(((const char *const[]){__VA_ARGS__})), (const char *const[]){__VA_ARGS__})

static const tc_value *unmoved(const tc_value *value) {
    while (MADE_BY(value, "Cast", "CastLike", "Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
        value = tc_input(value->producer, 0);
    return value;
}

/* The square of x minus its mean. */
static bool is_centered_square(const tc_value *value) {
    value = unmoved(value);
    bool square = MADE_BY(value, "Mul") && tc_input(value->producer, 0) == tc_input(value->producer, 1);
    if (!square && !MADE_BY(value, "Pow"))
        return false;
    const tc_value *centered = unmoved(tc_input(value->producer, 0));
    return MADE_BY(centered, "Sub") && MADE_BY(unmoved(tc_input(centered->producer, 1)), "ReduceMean");
}

/* The mean or sum of the squares, times numbers. */
static bool is_variance(const tc_value *value, int depth) {
    value = unmoved(value);
    if (MADE_BY(value, "ReduceMean", "ReduceSum"))
        return is_centered_square(tc_input(value->producer, 0));
    bool divides = MADE_BY(value, "Div");
    if (depth == 0 || (!divides && !MADE_BY(value, "Mul")))
        return false;
    return is_variance(tc_input(value->producer, 0), depth - 1) ||
           (!divides && is_variance(tc_input(value->producer, 1), depth - 1));
}

void tc_gradient_sqrt(tc_build *g) {
    tc_value *y = tc_output(g->of->node, 0), *zero = tc_build_like(g, y, 0);
    tc_value *dx = TC_OP(g, "Mul", tc_build_like(g, y, 0.5), TC_OP(g, "Div", g->of->douts[0], y));
    bool deviation = is_variance(tc_input(g->of->node, 0), MOST_SCALES);
    g->of->dins[0] = deviation ? TC_OP(g, "Where", TC_OP(g, "Equal", y, zero), zero, dx) : dx;
}
