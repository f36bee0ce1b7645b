/* rnn_case.h: recurrent layers for tests of kernels: their arrays by number, every cell, direction and layout. */
#ifndef TEST_RNN_CASE_H
#define TEST_RNN_CASE_H
#include "kernels/rnn/rnn.h"
#include <string.h>

enum { X, W, R, B, H0, C0, P, OPERANDS, Y = OPERANDS, H, C, DY, DH, DC, ARRAYS };

typedef struct layer_case {
    tk_rnn s;
    unsigned absent;    /* bits of operands and gradients of results */
    unsigned no_result; /* bits of operands whose gradients nobody asks for */
    bool lens;
} layer_case;

/* Of the largest element, of an element of 1. */
static const double rnn_tolerances[] = {[TK_F32] = 1e-5, [TK_F64] = 1e-13, [TK_F16] = 3e-3, [TK_BF16] = 2.5e-2};

/* Elements of each array. */
static inline void rnn_sizes(const tk_rnn *s, int64_t n[ARRAYS]) {
    int64_t gates = s->directions * tk_rnn_gates(s) * s->hidden, state = s->directions * s->batch * s->hidden;
    n[X] = s->steps * s->batch * s->inputs, n[W] = gates * s->inputs, n[R] = gates * s->hidden, n[B] = 2 * gates;
    n[H0] = n[C0] = n[H] = n[C] = n[DH] = n[DC] = state, n[P] = s->directions * 3 * s->hidden;
    n[Y] = n[DY] = s->steps * state;
}

/* Cells with and without reset_after; a GRU and an RNN have neither C0 nor P. */
static inline layer_case of_cell(int number, int64_t steps, int64_t batch, int64_t inputs, int64_t hidden) {
    static const struct {
        tk_rnn_cell cell;
        bool reset_after;
        tk_rnn_function functions[TK_RNN_FUNCTIONS];
    } cells[] = {{TK_RNN_PLAIN, false, {TK_RNN_TANH}},
                 {TK_RNN_GRU, false, {TK_RNN_SIGMOID, TK_RNN_TANH}},
                 {TK_RNN_GRU, true, {TK_RNN_SIGMOID, TK_RNN_TANH}},
                 {TK_RNN_LSTM, false, {TK_RNN_SIGMOID, TK_RNN_TANH, TK_RNN_TANH}}};
    layer_case c = {.s = {.cell = cells[number].cell,
                          .steps = steps,
                          .batch = batch,
                          .inputs = inputs,
                          .hidden = hidden,
                          .directions = 1,
                          .reset_after = cells[number].reset_after,
                          .dtype = TK_F32}};
    memcpy(c.s.functions[0], cells[number].functions, sizeof c.s.functions[0]);
    memcpy(c.s.functions[1], cells[number].functions, sizeof c.s.functions[1]);
    c.absent = c.s.cell == TK_RNN_LSTM ? 1u << P : 1u << C0 | 1u << P | 1u << C | 1u << DC;
    return c;
}

/* Every direction, layout, type and set of operands: `way` 0, 1, 3, 4, 6, ... below RNN_WAYS. */
#define RNN_WAYS (3 * 2 * 2 * 4 * 4)
static inline layer_case rnn_way(int cell, int way) {
    static const tk_dtype types[] = {TK_F32, TK_F64, TK_F16, TK_BF16};
    static const unsigned absent[] = {0, 1u << B | 1u << H0 | 1u << C0, 1u << DY, 1u << DH | 1u << DC | 1u << H};
    layer_case c = of_cell(cell, 4, 3, 4, 6);
    c.s.directions = way % 3 == 2 ? 2 : 1;
    c.s.backward = way % 3 == 1;
    c.s.batch_first = way / 3 % 2;
    c.lens = way / 6 % 2;
    c.s.dtype = types[way / 12 % 4];
    c.absent |= absent[way / 48];
    return c;
}

/* Other functions, each direction its own, and peepholes of every other `way`, 0 to 53. */
static inline layer_case rnn_functions(int cell, int way, int64_t batch) {
    layer_case c = of_cell(cell, 4, batch, 3, 5);
    c.s.directions = 2;
    c.lens = way / 27;
    for (int d = 0; d < 2; d++)
        for (int i = 0, rest = way + d; i < 3; i++, rest /= 3)
            c.s.functions[d][i] = (tk_rnn_function)(rest % 3);
    if (c.s.cell == TK_RNN_LSTM && way % 2)
        c.absent &= ~(1u << P);
    return c;
}
#endif
