/* gradient_pad.c: the gradient of Pad. The constant around x gets the gradient of the padding. In modes that repeat
 * elements of x, each element gets the sum of its copies' gradients. */
#include "compiler/ir/ops.h"
#include "gradients.h"
#include <string.h>

/* The part of dy at the positions of x, if nothing was cut off. */
static tc_value *unpad(tc_build *g, const int64_t *amounts, size_t n, tc_value *axes) {
    int64_t ends[TC_MAX_RANK];
    for (size_t i = 0; i < n; i++)
        ends[i] = amounts[n + i] ? -amounts[n + i] : INT64_MAX;
    tc_value *operands[] = {g->of->douts[0], tc_build_ints(g, amounts, n), tc_build_ints(g, ends, n), axes};
    return tc_build_finish(g, tc_build_node(g, "", "Slice", axes ? 4 : 3, operands, 1));
}

/* Padding by the negated amounts removes what was added and puts zeros where elements were cut off. */
static tc_value *pad_back(tc_build *g, tc_value *x, tc_value *pads, tc_value *axes) {
    int64_t amounts[2 * TC_MAX_RANK];
    size_t n = 0;
    bool known = tc_build_known_ints(pads, amounts, TC_COUNT(amounts), &n), cuts = !known;
    for (size_t i = 0; i < n; i++)
        cuts = cuts || amounts[i] < 0;
    if (!cuts)
        return unpad(g, amounts, n / 2, axes);
    for (size_t i = 0; i < n; i++)
        amounts[i] = -amounts[i];
    tc_value *operands[] = {g->of->douts[0], known ? tc_build_ints(g, amounts, n) : TC_OP(g, "Neg", pads),
                            tc_build_like(g, x, 0), axes};
    return tc_build_finish(g, tc_build_node(g, "", "Pad", axes ? 4 : 3, operands, 1));
}

/* The source of each position of the padded axis: Pad of 0, 1, 2, .... */
static tc_value *sources(tc_build *g, tc_value *dim, tc_value *pads, size_t i, size_t n) {
    tc_value *places = TC_OP(g, "Range", tc_build_scalar(g, TC_INT64, 0), TC_OP(g, "Squeeze", dim, tc_build_int(g, 0)),
                             tc_build_scalar(g, TC_INT64, 1));
    tc_value *around = TC_OP(g, "Gather", pads, tc_build_ints(g, (int64_t[]){(int64_t)i, (int64_t)(n + i)}, 2));
    tc_node *node = TC_BEGIN(g, "Pad", places, around);
    tc_attr_set_string(node, "mode", tc_attr_string(g->of->node, "mode", ""));
    return tc_build_finish(g, node);
}

/* For modes that repeat elements: gradients of all copies of an element add up, one axis at a time. The shape goes
 * from dy's to x's. */
static void pad_copies(tc_build *g, tc_value *x, tc_value *pads, tc_value *list) {
    int64_t axes[TC_MAX_RANK], amounts[2 * TC_MAX_RANK];
    int rank = tc_grad_rank(g, x);
    size_t n = 0, n_amounts = 0;
    if (list && !tc_build_known_ints(list, axes, TC_MAX_RANK, &n))
        tc_grad_refuse(g, "its axes %s are not constant", tc_quote(g->ctx, list->name));
    for (; !list && n < (size_t)rank; n++)
        axes[n] = (int64_t)n;
    bool known = tc_build_known_ints(pads, amounts, TC_COUNT(amounts), &n_amounts) && n_amounts == 2 * n;
    tc_value *dx = g->of->douts[0];
    for (size_t i = 0; i < n && g->status == TC_OK; i++) {
        int64_t axis = tc_grad_axis(g, axes[i], rank);
        if (known && amounts[i] == 0 && amounts[n + i] == 0)
            continue;
        tc_value *dim = tc_build_dims(g, x, axis, axis + 1);
        tc_value *parts[] = {tc_build_dims(g, dx, 0, axis), dim, tc_build_dims(g, dx, axis + 1, rank)};
        tc_value *operands[] = {tc_build_concat(g, 3, parts, 0), sources(g, dim, pads, i, n), dx};
        tc_node *node = tc_build_node(g, TC_TEMPO_DOMAIN, "GatherGrad", 3, operands, 1);
        tc_attr_set_int(node, "axis", axis);
        dx = tc_build_finish(g, node);
    }
    g->of->dins[0] = dx;
}

void tc_gradient_pad(tc_build *g) {
    tc_value *dy = g->of->douts[0], *x = tc_input(g->of->node, 0);
    if (strcmp(tc_attr_string(g->of->node, "mode", "constant"), "constant") != 0) {
        pad_copies(g, x, tc_input(g->of->node, 1), tc_input(g->of->node, 3));
        return;
    }
    tc_value *dx = pad_back(g, x, tc_input(g->of->node, 1), tc_input(g->of->node, 3));
    if (g->of->needed[0])
        g->of->dins[0] = dx;
    if (g->of->node->n_inputs > 2 && g->of->needed[2]) { /* the fill value gets the gradient of all other positions */
        tc_node *total = TC_BEGIN(g, "ReduceSum", dy), *kept = TC_BEGIN(g, "ReduceSum", dx);
        tc_attr_set_int(total, "keepdims", 0);
        tc_attr_set_int(kept, "keepdims", 0);
        tc_value *rest = TC_OP(g, "Sub", tc_build_finish(g, total), tc_build_finish(g, kept));
        g->of->dins[2] = tc_build_reshape_like(g, rest, tc_input(g->of->node, 2));
    }
}
