/* gradient_linear_loss.c: the gradient of ai.tempo.LinearCrossEntropy. The forward op computes it together with the
 * loss: dX, dW and dB are results that are added to it. It needs the factors that multiply the loss later (a scale,
 * a mask of rows, a count) as an operand, if they do not depend on the loss itself. If they do, its results are
 * multiplied afterwards; without a reduction, the gradient is computed from scores that exist as a whole. */
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "gradients.h"
#include <string.h>

enum { X, W, LABELS, BIAS, WEIGHTS, DLOSS };

#define MOST_STEPS 256 /* steps of a walk: only a few nodes multiply a loss */

/* Which nodes read the loss, directly or through others; the forward node counts. */
typedef struct seed_walk {
    tc_node *node;
    bool *late; /* by node id */
    int steps;
} seed_walk;

/* The losses of rows, and values computed from them, have the shape of the labels. */
static bool asks_shape_of_rows(const seed_walk *s, const tc_node *maker) {
    const tc_type *type = tc_input(maker, 0) ? tc_input(maker, 0)->type : NULL,
                  *labels = tc_input(s->node, LABELS)->type;
    if (!tc_node_has(maker, TC_SHAPE_ONLY) || !type || !labels || type->rank < 0 || type->rank != labels->rank)
        return false;
    for (int i = 0; i < type->rank; i++)
        if (!tc_dim_equal(type->dims[i], labels->dims[i]))
            return false;
    return true;
}

/* Whether the nodes after the forward node that make `value` read nothing of it. Then `value` can be computed before
 * it. */
static bool is_early(seed_walk *s, const tc_value *value) {
    const tc_node *maker = value->producer;
    if (!maker || !s->late[maker->id] || asks_shape_of_rows(s, maker))
        return true;
    if (maker == s->node || tc_has_nested(maker) || ++s->steps > MOST_STEPS)
        return false;
    for (uint32_t i = 0; i < maker->n_inputs; i++)
        if (tc_input(maker, i) && !is_early(s, tc_input(maker, i)))
            return false;
    return true;
}

static void move_before(seed_walk *s, tc_value *value) {
    tc_node *maker = value->producer;
    if (!maker || !s->late[maker->id])
        return;
    s->late[maker->id] = false;
    if (asks_shape_of_rows(s, maker))
        tc_node_set_input(maker, 0, tc_input(s->node, LABELS));
    for (uint32_t i = 0; i < maker->n_inputs; i++)
        if (tc_input(maker, i))
            move_before(s, tc_input(maker, i));
    tc_node_move_before(maker, s->node);
}

/* The factor of the loss, as an operand of the forward node; NULL: it is 1, or not known there. */
static tc_value *early_seed(tc_build *g, tc_value *dloss, bool *out_is_one) {
    double number;
    *out_is_one = tc_build_known_number(dloss, &number) && number == 1;
    if (*out_is_one)
        return NULL;
    seed_walk s = {g->of->node, TC_NEW_ARRAY(g->pool->arena, bool, g->model->next_id), 0};
    for (const tc_node *node = g->of->node; node; node = node->next)
        s.late[node->id] = true;
    if (!is_early(&s, dloss))
        return NULL;
    move_before(&s, dloss);
    return dloss;
}

/* The factors of the losses of rows depend on them: recomputes the scores as a whole. */
static void gradients_after(tc_build *g) {
    tc_node *node = g->of->node;
    tc_value *x = tc_input(node, X), *w = tc_input(node, W), *bias = tc_input(node, BIAS), *dz;
    tc_dtype loss_type = tc_value_dtype(g->of->douts[0]);
    const tc_attr *ignored = tc_attr_find(node, "ignore_index");
    bool trans = tc_attr_int(node, "transB", 0) != 0;
    if (tc_attr_float(node, "label_smoothing", 0) != 0 || tc_attr_find(node, "label_share") ||
        tc_attr_float(node, "z_loss", 0) != 0)
        tc_grad_refuse(g, "the factors of its rows' losses depend on these losses");
    tc_value *flat = tc_build_int(g, -1), *labels = TC_OP(g, "Reshape", tc_input(node, LABELS), flat);
    tc_node *as_rows = TC_BEGIN(g, "Flatten", x);
    tc_attr_set_int(as_rows, "axis", -1);
    tc_value *rows = tc_build_finish(g, as_rows), *back = tc_grad_swap_last(g, w);
    tc_value *scores = TC_OP(g, "MatMul", rows, trans ? back : w);
    scores = bias ? TC_OP(g, "Add", scores, bias) : scores;
    scores = loss_type == tc_value_dtype(x) ? scores : tc_build_cast(g, scores, loss_type);
    tc_node *logs = TC_BEGIN(g, "LogSoftmax", scores);
    tc_attr_set_int(logs, "axis", 1);
    tc_value *weights = tc_input(node, WEIGHTS),
             *operands[] = {TC_OP(g, "Reshape", g->of->douts[0], flat), tc_build_finish(g, logs), labels, weights};
    tc_node *grad = tc_build_node(g, TC_TEMPO_DOMAIN, "SoftmaxCrossEntropyLossGrad", weights ? 4 : 3, operands, 1);
    tc_attr_set_string(grad, "reduction", "none");
    if (ignored)
        tc_attr_set_int(grad, "ignore_index", ignored->i);
    dz = tc_build_finish(g, grad);
    dz = loss_type == tc_value_dtype(x) ? dz : tc_build_cast(g, dz, tc_value_dtype(x));
    if (g->of->needed[X])
        g->of->dins[X] = tc_build_reshape_like(g, TC_OP(g, "MatMul", dz, trans ? w : back), x);
    if (g->of->needed[W] && trans)
        g->of->dins[W] = TC_OP(g, "MatMul", tc_grad_swap_last(g, dz), rows);
    else if (g->of->needed[W])
        g->of->dins[W] = TC_OP(g, "MatMul", tc_grad_swap_last(g, rows), dz);
    if (bias && g->of->needed[BIAS])
        g->of->dins[BIAS] = tc_build_reduce(g, "ReduceSum", dz, (int64_t[]){0}, 1, false);
}

void tc_gradient_linear_loss(tc_build *g) {
    static const struct {
        uint32_t operand, result;
        const char *name;
    } results[] = {{X, 1, "dx"}, {W, 2, "dw"}, {BIAS, 3, "db"}};
    tc_node *node = g->of->node;
    bool is_one, none = strcmp(tc_attr_string(node, "reduction", "mean"), "none") == 0;
    for (uint32_t i = 1; i < node->n_outputs; i++)
        if (g->of->douts[i])
            tc_grad_refuse(g, "the loss depends on its result %u", (unsigned)i);
    if (g->status != TC_OK)
        return;
    tc_value *seed = early_seed(g, g->of->douts[0], &is_one);
    if (none && !is_one && !seed) {
        gradients_after(g);
        return;
    }
    if (seed)
        tc_node_set_input(node, DLOSS, seed);
    for (size_t i = 0; i < TC_COUNT(results) && g->status == TC_OK; i++) {
        if (results[i].operand >= node->n_inputs || !g->of->needed[results[i].operand])
            continue;
        tc_value *gradient = tc_grad_result(g, results[i].result, results[i].name);
        tc_grad_infer_forward(g);
        if (!seed && !is_one)
            gradient = TC_OP(g, "Mul", gradient, tc_build_cast(g, g->of->douts[0], tc_value_dtype(gradient)));
        g->of->dins[results[i].operand] = gradient;
    }
}
