/* rnn.h: recurrent layers and their gradients: ONNX's LSTM (Hochreiter and Schmidhuber, 1997, with the forget gate of
 * Gers et al., 2000), GRU (Cho et al., 2014, arXiv:1406.1078) and RNN (Elman, 1990).
 *
 * A direction d and a step t of one sequence, with s = W x_t + R h + Wb + Rb, h and c those of the step before:
 *   RNN:   h' = f(s)
 *   LSTM:  i, o, f = f(s_i + P_i c), f(s_o + P_o c'), f(s_f + P_f c); c' = f c + i g(s_c); h' = o h(c')
 *   GRU:   z, r = f(s_z), f(s_r); n = g(W x_t + Wb + R (r h) + Rb), where `reset_after` g(W x_t + Wb + r (R h + Rb));
 *          h' = (1 - z) n + z h
 * A sequence that ends before the batch does has results of 0 after its end; the backward direction begins at its end.
 *
 * The gradient reads the layer's operands and Y, its result. The sums of all steps are recomputed as one product, since
 * Y holds all that a step needs of the step before. Nothing else is kept for it. */
#ifndef TK_RNN_H
#define TK_RNN_H
#include "../matmul/matmul.h"

typedef enum tk_rnn_cell { TK_RNN_PLAIN, TK_RNN_GRU, TK_RNN_LSTM } tk_rnn_cell;
typedef enum tk_rnn_function { TK_RNN_TANH, TK_RNN_SIGMOID, TK_RNN_RELU } tk_rnn_function;
#define TK_RNN_FUNCTIONS 3 /* at most, of a direction: f, g, h */

typedef struct tk_rnn {
    tk_rnn_cell cell;
    int64_t steps, batch, inputs, hidden;
    int directions;   /* 1, or 2 with the second backward */
    bool backward;    /* the only one is backward */
    bool batch_first; /* ONNX's layout 1 */
    bool reset_after; /* ONNX's linear_before_reset, of a GRU */
    tk_rnn_function functions[2][TK_RNN_FUNCTIONS];
    double clip;    /* functions' operands are held to [-clip, clip]; 0: they are not. Without a gradient */
    tk_dtype dtype; /* any float type; of 16 bits all sums and states are floats, and results are rounded once */
} tk_rnn;

/* The gates of a step: rows of W and R are theirs, `hidden` each. */
TK_INLINE int64_t tk_rnn_gates(const tk_rnn *s) { return s->cell == TK_RNN_LSTM ? 4 : s->cell == TK_RNN_GRU ? 3 : 1; }
TK_INLINE bool tk_rnn_is_backward(const tk_rnn *s, int direction) { return s->backward || direction == 1; }
/* Where the row [inputs] of x, the row [hidden] of y and that of a state (initial_h, Y_h and their like) are, in
 * rows. */
TK_INLINE int64_t tk_rnn_row(const tk_rnn *s, int64_t step, int64_t item) {
    return s->batch_first ? item * s->steps + step : step * s->batch + item;
}
TK_INLINE int64_t tk_rnn_y_row(const tk_rnn *s, int64_t step, int direction, int64_t item) {
    return s->batch_first ? (item * s->steps + step) * s->directions + direction
                          : (step * s->directions + direction) * s->batch + item;
}
TK_INLINE int64_t tk_rnn_state_row(const tk_rnn *s, int direction, int64_t item) {
    return s->batch_first ? item * s->directions + direction : direction * s->batch + item;
}

/* x [steps, batch, inputs]; w [directions, gates hidden, inputs]; r [directions, gates hidden, hidden]; b [directions,
 * 2 gates hidden]; lens int32[batch], each in [0, steps]; h0, c0 [directions, batch, hidden]; p [directions, 3 hidden].
 * `batch_first`: [batch, steps, inputs] and [batch, directions, hidden]. Gates stand in ONNX's order: z r h, i o f c,
 * and P's i o f. b, h0, c0 and p may be NULL, which is 0, and lens NULL, which is `steps`. */
typedef struct tk_rnn_operands {
    const void *x, *w, *r, *b, *lens, *h0, *c0, *p;
} tk_rnn_operands;

/* y [steps, directions, batch, hidden]; h, c [directions, batch, hidden]; each may be NULL. `batch_first`: [batch,
 * steps, directions, hidden], [batch, directions, hidden]. */
typedef struct tk_rnn_results {
    void *y, *h, *c;
} tk_rnn_results;

/* The layer's results and their gradients, each of which may be NULL. */
typedef struct tk_rnn_back {
    const void *y, *dy, *dh, *dc;
} tk_rnn_back;

/* The gradients of the operands, each of which may be NULL. */
typedef struct tk_rnn_gradients {
    void *dx, *dw, *dr, *db, *dh0, *dc0, *dp;
} tk_rnn_gradients;

/* The definition in double precision, step by step, rounded once. TK_BAD_VALUE: a length out of range; TK_NO_MEMORY. */
tk_status tk_rnn_ref(tk_rnn_results out, tk_rnn_operands in, const tk_rnn *rnn);
/* The gradient by the chain rule, backward through a run of the definition; y is not read. */
tk_status tk_rnn_grad_ref(tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back, const tk_rnn *rnn);

/* clang-format off */
#define TK_RNN_KERNELS(K) \
    /* Faults: TK_BAD_VALUE for a length out of range. */ \
    K(rnn_run, (tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *rnn, void *workspace), \
      (q, out, in, rnn, workspace)) \
    K(rnn_grad_run, (tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back, const tk_rnn *rnn, \
      void *workspace), (q, out, in, back, rnn, workspace))
#define TK_RNN_WORKSPACES(W) \
    W(rnn_workspace, (const tk_rnn *rnn, int slots), (rnn, slots)) \
    W(rnn_grad_workspace, (const tk_rnn *rnn, int slots), (rnn, slots))
/* clang-format on */

TK_RNN_KERNELS(TK_DECLARE_KERNEL)
TK_RNN_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
