/* shape_rnn.c: the shape functions of RNN, GRU and LSTM, and of their gradient. */
#include "compiler/ir/recurrent.h"
#include "shape_fns.h"

/* A gate has as many rows as R has columns. gates: 0 when the cell is not known. */
static tc_status check_states(tc_shape_ctx *sc, tc_node *node, int gates, tc_dim rows, tc_dim states) {
    int64_t size = tc_attr_int(node, "hidden_size", 0);
    bool is_known = gates > 0 && tc_dim_is_const(rows) && tc_dim_is_const(states);
    if (!is_known || (rows.value == gates * states.value && (size == 0 || size == states.value)))
        return TC_OK;
    return TC_FAIL(sc, node, "%d gates of %lld states have %lld rows of weights", gates, (long long)states.value,
                   (long long)rows.value);
}

/* X's rows are W's, both have R's gates, and all one type. */
static tc_status check_weights(tc_shape_ctx *sc, tc_node *node, int gates) {
    tc_arg x = tc_arg_of(node, TC_RNN_X), w = tc_arg_of(node, TC_RNN_W), r = tc_arg_of(node, TC_RNN_R);
    tc_dim both;
    TC_TRY(tc_shape_expect_same_type(sc, node, TC_RNN_X, TC_RNN_W));
    TC_TRY(tc_shape_expect_same_type(sc, node, TC_RNN_X, TC_RNN_R));
    TC_TRY(tc_shape_expect_type(sc, node, TC_RNN_LENS, 1u << TC_INT32, "int32"));
    if (x.rank != 3 || w.rank != 3 || r.rank != 3)
        return TC_OK;
    TC_TRY(tc_shape_same_dim(sc, node, "number of inputs", x.dims[2], w.dims[2], &both));
    TC_TRY(tc_shape_same_dim(sc, node, "number of gates' rows", w.dims[1], r.dims[1], &both));
    return check_states(sc, node, gates, both, r.dims[2]);
}

tc_status tc_shape_rnn(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), recurrence = tc_arg_of(node, 2);
    tc_recurrent layer;
    const char *why;
    tc_recurrent_read(node, &layer, &why); /* the mistake stops callers that need it */
    bool batch_first = layer.batch_first;
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 3));
    TC_TRY(tc_shape_expect_rank(sc, node, 1, 3));
    TC_TRY(tc_shape_expect_rank(sc, node, 2, 3));
    TC_TRY(check_weights(sc, node, layer.gates));
    tc_dim directions = tc_dim_const(layer.directions), unknown = tc_dim_unknown();
    int64_t size = tc_attr_int(node, "hidden_size", 0);
    tc_dim hidden = size > 0 ? tc_dim_const(size) : recurrence.rank == 3 ? recurrence.dims[2] : unknown;
    tc_dim steps = x.rank == 3 ? x.dims[batch_first] : unknown, batch = x.rank == 3 ? x.dims[!batch_first] : unknown;
    tc_dim all[4] = {steps, directions, batch, hidden}, all_batch_first[4] = {batch, steps, directions, hidden};
    tc_dim last[3] = {directions, batch, hidden}, last_batch_first[3] = {batch, directions, hidden};
    TC_TRY(tc_shape_set(sc, node, 0, x.dtype, 4, batch_first ? all_batch_first : all));
    TC_TRY(tc_shape_set(sc, node, 1, x.dtype, 3, batch_first ? last_batch_first : last));
    return tc_shape_set(sc, node, 2, x.dtype, 3, batch_first ? last_batch_first : last);
}

/* Each gradient has the type of its operand; an absent operand has none. */
tc_status tc_shape_recurrence_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg y = tc_arg_of(node, TC_RNN_Y);
    TC_TRY(tc_shape_expect_rank(sc, node, TC_RNN_LAYER + TC_RNN_X, 3));
    for (uint32_t i = 0; i < TC_RNN_GRADIENTS; i++) {
        const uint32_t of = TC_RNN_LAYER + tc_recurrent_gradient_of[i];
        tc_arg operand = tc_arg_of(node, of);
        if (!operand.value && tc_output(node, i))
            return TC_FAIL(sc, node, "result %u is the gradient of operand %u, which is absent", (unsigned)i,
                           (unsigned)of);
        TC_TRY(tc_shape_like(sc, node, i, y.dtype, operand));
    }
    return TC_OK;
}
