/* launch_rnn.c: LSTM, GRU, RNN and ai.tempo.RecurrenceGrad to the kernels of kernels/rnn. */
#include "compiler/ir/recurrent.h"
#include "kernels/rnn/rnn.h"
#include "launch_util.h"

/* The operands of a layer, which begin at `first`. */
static tk_rnn_operands operands_of(const rt_launch *launch, uint32_t first) {
    return (tk_rnn_operands){.x = launch->in[first + TC_RNN_X].data,
                             .w = launch->in[first + TC_RNN_W].data,
                             .r = launch->in[first + TC_RNN_R].data,
                             .b = rt_data(rt_in(launch, first + TC_RNN_B)),
                             .lens = rt_data(rt_in(launch, first + TC_RNN_LENS)),
                             .h0 = rt_data(rt_in(launch, first + TC_RNN_H0)),
                             .c0 = rt_data(rt_in(launch, first + TC_RNN_C0)),
                             .p = rt_data(rt_in(launch, first + TC_RNN_P))};
}

static void run_rnn(tk_queue *q, const rt_launch *launch) {
    tk_rnn_results out = {launch->out[0].data, rt_data(rt_out(launch, 1)), rt_data(rt_out(launch, 2))};
    launch->kernels->rnn_run(q, out, operands_of(launch, 0), launch->params, launch->workspace);
}

static void run_grad(tk_queue *q, const rt_launch *launch) {
    tk_rnn_back back = {.y = launch->in[TC_RNN_Y].data,
                        .dy = rt_data(rt_in(launch, TC_RNN_DY)),
                        .dh = rt_data(rt_in(launch, TC_RNN_DH)),
                        .dc = rt_data(rt_in(launch, TC_RNN_DC))};
    tk_rnn_gradients out = {.dx = rt_data(rt_out(launch, TC_RNN_DX)),
                            .dw = rt_data(rt_out(launch, TC_RNN_DW)),
                            .dr = rt_data(rt_out(launch, TC_RNN_DR)),
                            .db = rt_data(rt_out(launch, TC_RNN_DB)),
                            .dh0 = rt_data(rt_out(launch, TC_RNN_DH0)),
                            .dc0 = rt_data(rt_out(launch, TC_RNN_DC0)),
                            .dp = rt_data(rt_out(launch, TC_RNN_DP))};
    launch->kernels->rnn_grad_run(q, out, operands_of(launch, TC_RNN_LAYER), back, launch->params, launch->workspace);
}

/* The layer by its attributes and by the shapes of x, w and r. */
static tc_status read_layer(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t first,
                            tk_rnn *p) {
    static const tk_rnn_cell cells[] = {[TC_RNN] = TK_RNN_PLAIN, [TC_GRU] = TK_RNN_GRU, [TC_LSTM] = TK_RNN_LSTM};
    static const tk_rnn_function functions[] = {
        [TC_RNN_TANH] = TK_RNN_TANH, [TC_RNN_SIGMOID] = TK_RNN_SIGMOID, [TC_RNN_RELU] = TK_RNN_RELU};
    const rt_arg *x = &launch->in[first + TC_RNN_X], *r = &launch->in[first + TC_RNN_R];
    tc_recurrent layer;
    TC_TRY(tc_recurrent_of(launcher->ctx, node, &layer));
    TC_TRY(rt_expect(launcher, node, x->rank == 3 && launch->in[first + TC_RNN_W].rank == 3 && r->rank == 3));
    *p = (tk_rnn){.cell = cells[layer.cell],
                  .steps = x->dims[layer.batch_first],
                  .batch = x->dims[!layer.batch_first],
                  .inputs = x->dims[2],
                  .hidden = r->dims[2],
                  .directions = layer.directions,
                  .backward = layer.backward,
                  .batch_first = layer.batch_first,
                  .reset_after = layer.reset_after,
                  .clip = (double)layer.clip,
                  .dtype = x->dtype};
    for (int d = 0; d < layer.directions; d++)
        for (int i = 0; i < layer.n_functions; i++)
            p->functions[d][i] = functions[layer.functions[d][i]];
    return TC_OK;
}

/* Operand or result `arg` is absent, or has so many elements of the layer's type. */
static bool fits(const rt_arg *arg, int64_t count, tk_dtype dtype) {
    return !arg || (arg->count == count && arg->dtype == dtype);
}

static tc_status check_operands(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t first,
                                const tk_rnn *p) {
    const int64_t rows = p->directions * tk_rnn_gates(p) * p->hidden, state = p->directions * p->batch * p->hidden;
    const rt_arg *lens = rt_in(launch, first + TC_RNN_LENS);
    const struct {
        const char *name;
        uint32_t index;
        int64_t count;
    } operands[] = {{"W", TC_RNN_W, rows * p->inputs}, {"R", TC_RNN_R, rows * p->hidden},
                    {"B", TC_RNN_B, 2 * rows},         {"initial_h", TC_RNN_H0, state},
                    {"initial_c", TC_RNN_C0, state},   {"P", TC_RNN_P, p->directions * 3 * p->hidden}};
    for (size_t i = 0; i < TC_COUNT(operands); i++) {
        const rt_arg *arg = rt_in(launch, first + operands[i].index);
        if (!fits(arg, operands[i].count, p->dtype))
            return tc_error(launcher->ctx, TC_BAD_INPUT, node,
                            "%s has %lld elements of %s, expected %lld of %s for %lld steps of %lld items, %lld inputs "
                            "and %lld states",
                            operands[i].name, (long long)arg->count, tc_dtype_name((tc_dtype)arg->dtype),
                            (long long)operands[i].count, tc_dtype_name((tc_dtype)p->dtype), (long long)p->steps,
                            (long long)p->batch, (long long)p->inputs, (long long)p->hidden);
    }
    if (!fits(lens, p->batch, TK_I32))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "sequence_lens is not int32[%lld]", (long long)p->batch);
    return TC_OK;
}

tc_status rt_launch_rnn(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_rnn *p = RT_PARAMS(launcher, tk_rnn);
    TC_TRY(read_layer(launcher, node, launch, 0, p));
    TC_TRY(check_operands(launcher, node, launch, 0, p));
    const int64_t state = p->directions * p->batch * p->hidden;
    TC_TRY(rt_expect(launcher, node,
                     fits(&launch->out[0], p->steps * state, p->dtype) && fits(rt_out(launch, 1), state, p->dtype) &&
                         fits(rt_out(launch, 2), state, p->dtype)));
    launch->params = p;
    launch->workspace_bytes = launcher->kernels->rnn_workspace(p, launcher->slots);
    launch->run = run_rnn;
    return TC_OK;
}

tc_status rt_launch_recurrence_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_rnn *p = RT_PARAMS(launcher, tk_rnn);
    TC_TRY(read_layer(launcher, node, launch, TC_RNN_LAYER, p));
    TC_TRY(check_operands(launcher, node, launch, TC_RNN_LAYER, p));
    const int64_t state = p->directions * p->batch * p->hidden;
    const uint32_t states[] = {TC_RNN_DH, TC_RNN_DC}, all[] = {TC_RNN_Y, TC_RNN_DY};
    bool holds = true;
    for (size_t i = 0; i < TC_COUNT(states); i++)
        holds = holds && fits(rt_in(launch, states[i]), state, p->dtype) &&
                fits(rt_in(launch, all[i]), p->steps * state, p->dtype);
    for (uint32_t i = TC_RNN_DX; i < TC_RNN_GRADIENTS; i++) { /* of operands that there are */
        const rt_arg *out = rt_out(launch, i), *in = rt_in(launch, TC_RNN_LAYER + tc_recurrent_gradient_of[i]);
        holds = holds && (!out || (in && fits(out, in->count, p->dtype)));
    }
    TC_TRY(rt_expect(launcher, node, holds));
    launch->params = p;
    launch->workspace_bytes = launcher->kernels->rnn_grad_workspace(p, launcher->slots);
    launch->run = run_grad;
    return TC_OK;
}
