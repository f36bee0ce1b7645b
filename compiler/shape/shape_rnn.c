/* shape_rnn.c: the shape function of RNN, GRU and LSTM. */
#include "shape_fns.h"
#include <string.h>

tc_status tc_shape_rnn(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), recurrence = tc_arg_of(node, 2);
    bool batch_first = tc_attr_int(node, "layout", 0) != 0;
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 3));
    TC_TRY(tc_shape_expect_rank(sc, node, 1, 3));
    TC_TRY(tc_shape_expect_rank(sc, node, 2, 3));
    const char *direction = tc_attr_string(node, "direction", "forward");
    tc_dim directions = tc_dim_const(strcmp(direction, "bidirectional") == 0 ? 2 : 1), unknown = tc_dim_unknown();
    int64_t size = tc_attr_int(node, "hidden_size", 0);
    tc_dim hidden = size > 0 ? tc_dim_const(size) : recurrence.rank == 3 ? recurrence.dims[2] : unknown;
    tc_dim steps = x.rank == 3 ? x.dims[batch_first] : unknown, batch = x.rank == 3 ? x.dims[!batch_first] : unknown;
    tc_dim all[4] = {steps, directions, batch, hidden}, all_batch_first[4] = {batch, steps, directions, hidden};
    tc_dim last[3] = {directions, batch, hidden}, last_batch_first[3] = {batch, directions, hidden};
    TC_TRY(tc_shape_set(sc, node, 0, x.dtype, 4, batch_first ? all_batch_first : all));
    TC_TRY(tc_shape_set(sc, node, 1, x.dtype, 3, batch_first ? last_batch_first : last));
    return tc_shape_set(sc, node, 2, x.dtype, 3, batch_first ? last_batch_first : last);
}
