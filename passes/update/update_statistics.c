/* update_statistics.c: the running statistics of BatchNormalization in training are states, like weights, and change
 * as in PyTorch. With m the op's momentum, which is 1 less PyTorch's, and n values of each channel:
 *
 *     mean' = m mean + (1 - m) mean of x        var' = m var + (1 - m) n / (n - 1) (variance of x)
 * ONNX takes the variance without the factor n / (n - 1). The node returns the statistics of x (with a momentum of
 * 0), and readers of its results get ONNX's. A module that is called several times updates them each time. */
#include "update.h"

enum { MEAN = 3, VARIANCE = 4, FIRST_RESULT = 1 }; /* operands; the result that is the new mean */

static bool is_training_norm(const tc_node *node) {
    return tc_node_is(node, "", "BatchNormalization") && tc_attr_int(node, "training_mode", 0) != 0;
}

/* The initializer of a value that one call of the module updates and a later call reads. */
static tc_value *statistic_of(const tc_node *node, uint32_t index) {
    tc_value *value = tc_input(node, index);
    while (value && value->producer) {
        bool norm = is_training_norm(value->producer);
        if (!norm && !tc_node_is(value->producer, "", "Identity"))
            return NULL;
        value = tc_input(value->producer, norm ? index : 0);
    }
    return value && value->init ? value : NULL;
}

/* Nothing else reads it: it is no scale, no bias, and no constant that happens to hold these numbers. */
static bool is_own(const tc_value *value) {
    TC_FOR_USES(use, value)
        if (!is_training_norm(use->user) || use->index < MEAN)
            return false;
    return value->n_graph_outputs == 0;
}

/* n / (n - 1) */
static tc_value *unbias(tc_update *u, const tc_node *node, tc_dtype dtype) {
    tc_build *g = &u->g;
    tc_value *all = tc_build_cast(g, TC_OP(g, "Size", tc_input(node, 0)), TC_FLOAT);
    tc_value *n = TC_OP(g, "Div", all, tc_build_cast(g, TC_OP(g, "Size", tc_input(node, MEAN)), TC_FLOAT));
    return tc_build_cast(g, TC_OP(g, "Div", n, TC_OP(g, "Sub", n, tc_build_scalar(g, TC_FLOAT, 1))), dtype);
}

/* m old + (1 - m) x */
static tc_value *moved(tc_update *u, double m, tc_value *old, tc_value *x) {
    tc_build *g = &u->g;
    return TC_OP(g, "Add", TC_OP(g, "Mul", old, tc_build_like(g, old, m)),
                 TC_OP(g, "Mul", x, tc_build_like(g, x, 1 - m)));
}

/* The value becomes `shown`, which keeps its name. */
static void show(tc_update *u, tc_value *value, tc_value *shown) {
    tc_node *identity = tc_node_create(u->graph, "", "Identity", 1, 1);
    tc_node_set_input(identity, 0, value);
    tc_node_set_output(identity, 0, shown);
    tc_node_append(identity);
}

/* `latest`: for each statistic, its value after the norms so far. */
static tc_status move_statistic(tc_update *u, tc_node *node, uint32_t index, double m, tc_map *latest) {
    const uint32_t result = index - MEAN + FIRST_RESULT;
    tc_value *state = tc_input(node, index), *shown = tc_output(node, result);
    tc_value *old = tc_map_get_ptr(latest, state);
    const char *name = tc_arena_printf(u->env->ctx->arena, "%s.batch", state->name);
    old = old ? old : state;
    if (shown)
        (void)tc_node_take_output(node, result);
    tc_value *batch = tc_node_add_output(node, result, name, state->type);
    if (shown && tc_value_is_used(shown))
        show(u, moved(u, m, old, batch), shown);
    if (index == VARIANCE)
        batch = TC_OP(&u->g, "Mul", batch, unbias(u, node, tc_value_dtype(batch)));
    tc_map_set_ptr(latest, state, moved(u, m, old, batch));
    return u->g.status;
}

static tc_status move_both(tc_update *u, tc_node *node, tc_map *latest) {
    const double m = (double)tc_attr_float(node, "momentum", 0.9F);
    tc_node_resize_outputs(node, FIRST_RESULT + 2);
    if (m == 0) {
        tc_warn(u->env->ctx, node,
                "momentum 0: the statistics of each batch replace the old ones; exporters write 0 also for "
                "momentum=None, the mean over batches");
        tc_hint(u->env->ctx, "export the model with a momentum");
    }
    tc_attr_set_float(node, "momentum", 0);
    TC_TRY(move_statistic(u, node, MEAN, m, latest));
    return move_statistic(u, node, VARIANCE, m, latest);
}

/* A norm in training whose statistics are initializers that it does not compute with. False: it is no such norm, or
 * another node updates them. */
static bool settle(tc_node *node) {
    tc_value *mean = is_training_norm(node) ? statistic_of(node, MEAN) : NULL,
             *variance = mean ? statistic_of(node, VARIANCE) : NULL;
    if (!variance || mean->is_input || variance->is_input)
        return false;
    tc_node_set_input(node, MEAN, mean);
    tc_node_set_input(node, VARIANCE, variance);
    return true;
}

tc_status tc_update_statistics(tc_update *u) {
    tc_map *latest = tc_map_create(u->env->ctx->arena);
    tc_node **norms = TC_NEW_ARRAY(u->env->ctx->arena, tc_node *, (size_t)u->graph->n_nodes + 1);
    size_t n = 0;
    TC_FOR_NODES(node, u->graph)
        if (settle(node))
            norms[n++] = node;
    for (size_t i = 0; i < n; i++) {
        tc_node *node = norms[i];
        const tc_value *mean = tc_input(node, MEAN), *variance = tc_input(node, VARIANCE);
        bool again = tc_map_get_ptr(latest, mean) && tc_map_get_ptr(latest, variance);
        if (!again && (!is_own(mean) || !is_own(variance)))
            tc_warn(u->env->ctx, node,
                    "its running statistics are not updated: the file uses '%s' for "
                    "another purpose, too",
                    tc_quote(u->env->ctx, (is_own(mean) ? variance : mean)->name));
        else
            TC_TRY(move_both(u, node, latest));
    }
    for (uint32_t i = 0, all = u->graph->n_initializers; i < all; i++) {
        tc_value *state = u->graph->initializers[i], *made = tc_map_get_ptr(latest, state);
        if (!made)
            continue;
        tc_graph_add_input(u->graph, state);
        TC_TRY(tc_update_keep(u, made, NULL, state));
    }
    return TC_OK;
}
