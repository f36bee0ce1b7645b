/* rnn_point.h: one element of a recurrent layer's state between two products, forward and backward, for any device. Set
 * before including: T, float or double, and SUFFIX. Gates are rows of [gates hidden], in which an element has one place
 * in each block of n: i, o, f, g of an LSTM; z, r and the new state of a GRU. */
#include "../common/functions.h"
#include "rnn.h"

TK_INLINE T TK_CAT(rnn_apply, SUFFIX)(tk_rnn_function f, T x) {
    return f == TK_RNN_TANH      ? TK_CAT(tk_tanh, SUFFIX)(x)
           : f == TK_RNN_SIGMOID ? TK_CAT(tk_sigmoid, SUFFIX)(x)
                                 : (x > 0    ? x
                                    : x != x ? x
                                             : 0);
}

/* The slope by the function's result. */
TK_INLINE T TK_CAT(rnn_slope, SUFFIX)(tk_rnn_function f, T y) {
    return f == TK_RNN_TANH ? 1 - y * y : f == TK_RNN_SIGMOID ? y * (1 - y) : (T)(y > 0);
}

/* NaN stays NaN. */
TK_INLINE T TK_CAT(rnn_hold, SUFFIX)(T clip, T x) { return x > clip ? clip : x < -clip ? -clip : x; }

/* Gates become the gradients of their sums; dc, the gradient of c after the step, becomes that of c before it; dh is
 * the gradient of h after it. y is the function h of c after the step, `before` is c before it. */
TK_INLINE void TK_CAT(rnn_lstm_back_point, SUFFIX)(tk_rnn_function f, tk_rnn_function g, tk_rnn_function h_of, T p_i,
                                                   T p_o, T p_f, T *i, T *o, T *forget, T *in, T y, T before, T dh,
                                                   T *dc) {
    const T was_i = *i, was_o = *o, was_f = *forget, was_in = *in;
    *o = dh * y * TK_CAT(rnn_slope, SUFFIX)(f, was_o);
    const T of_c = *dc + dh * was_o * TK_CAT(rnn_slope, SUFFIX)(h_of, y) + *o * p_o;
    *i = of_c * was_in * TK_CAT(rnn_slope, SUFFIX)(f, was_i);
    *forget = of_c * before * TK_CAT(rnn_slope, SUFFIX)(f, was_f);
    *in = of_c * was_i * TK_CAT(rnn_slope, SUFFIX)(g, was_in);
    *dc = of_c * was_f + *i * p_i + *forget * p_f;
}

/* The new state of a GRU from its sum in `fresh` and R's part in `behind`, and with it h after the step. `behind` is 0
 * where R's part is in `fresh` already. */
TK_INLINE void TK_CAT(rnn_gru_point, SUFFIX)(tk_rnn_function g, T clip, T z, T r, T behind, T *fresh, T *h) {
    *fresh = TK_CAT(rnn_apply, SUFFIX)(g, TK_CAT(rnn_hold, SUFFIX)(clip, *fresh + r * behind));
    *h = (1 - z) * *fresh + z * *h;
}

/* z and the new state become the gradients of their sums; dh that of h before the step, by z alone. */
TK_INLINE void TK_CAT(rnn_gru_back_point, SUFFIX)(tk_rnn_function f, tk_rnn_function g, T *z, T *fresh, T before,
                                                  T *dh) {
    const T was_z = *z, was_fresh = *fresh, of = *dh;
    *z = of * (before - was_fresh) * TK_CAT(rnn_slope, SUFFIX)(f, was_z);
    *fresh = of * (1 - was_z) * TK_CAT(rnn_slope, SUFFIX)(g, was_fresh);
    *dh = of * was_z;
}
