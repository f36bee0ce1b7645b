/* rnn_walk.h: the driver of recurrent layers and their gradients, on every device. It takes the workspace, walks over
 * directions and steps and multiplies (rnn_products.h); between the products it calls a device's functions by two
 * tables, one for the layer and one for its gradient. Elements are floats or doubles. */
#ifndef TK_RNN_WALK_H
#define TK_RNN_WALK_H
#include "rnn_products.h"

/* A direction's walk over the steps. CUDA's kernels get it by value, and do not follow pointers to the host in
 * `part`. */
struct tk_rnn_walk {
    tk_rnn s;
    tk_rnn_part part;
    tk_rnn_results out;
    int64_t step, first; /* of the batch; the step that gates begin with */
    void *gates;         /* W x of a chunk's steps [steps, batch, gates hidden]; batch first: of all steps */
    void *sums;          /* R h [batch, gates hidden]; R (r h) [batch, hidden] */
    void *reset, *c, *h; /* [batch, hidden]: r h of a GRU whose reset comes before R; the states */
};

typedef struct tk_rnn_steps {
    void (*begin)(tk_rnn_walk *w); /* states before the first step */
    /* From R h to the states after the step, and Y; of a GRU whose reset comes before R, to its gates and r h. */
    void (*step)(tk_rnn_walk *w);
    void (*reset)(tk_rnn_walk *w); /* and from R (r h) to its states, and Y */
    void (*end)(tk_rnn_walk *w);   /* the last states are results */
} tk_rnn_steps;

/* A direction's walk backward over the steps, by value too. */
struct tk_rnn_walk_back {
    tk_rnn s;
    tk_rnn_part part;
    tk_rnn_back back;
    tk_rnn_gradients out;
    int64_t rows, step;
    void *gates;  /* rows of gates, which become the gradients of their sums */
    void *before; /* [rows, hidden]: h before each step */
    void *cells;  /* LSTM [rows, hidden]: c after each step */
    void *behind; /* GRU: R h [rows, 3 hidden], the gradients of R h + Rb later; where the reset comes before R, R h of
                   * two gates [rows, 2 hidden] */
    void *inner;  /* where the reset comes before R [rows, hidden]: R (r h) */
    void *reset;  /* and r h */
    void *dh, *dc, *of_r; /* [batch, hidden]: gradients of the states, of r h */
};

typedef struct tk_rnn_back_steps {
    void (*before)(tk_rnn_walk_back *w); /* h before each step, by Y */
    /* From the sums of all rows to gates, and of an LSTM its cells; of a GRU whose reset comes before R, to its two
     * gates and r h. */
    void (*gates)(tk_rnn_walk_back *w);
    void (*new_state)(tk_rnn_walk_back *w); /* that GRU's new state, by R (r h) */
    void (*begin)(tk_rnn_walk_back *w);     /* dh, dc after the last step */
    /* Gates become gradients of sums; dh and dc those of the states before the step, without R's part. */
    void (*step)(tk_rnn_walk_back *w);
    void (*reset)(tk_rnn_walk_back *w); /* from of_r to dh and to the reset's gradient */
    void (*end)(tk_rnn_walk_back *w);   /* dh0, dc0 */
    void (*sums)(tk_rnn_walk_back *w);  /* db and dp, where they are wanted: sums over all rows, in double */
} tk_rnn_back_steps;

/* The kernels of rnn.h on a device, and the bytes of workspace that they need there. */
void tk_rnn_run_on(const tk_rnn_device *on, tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s,
                   void *workspace);
void tk_rnn_grad_run_on(const tk_rnn_device *on, tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in,
                        tk_rnn_back back, const tk_rnn *s, void *workspace);
size_t tk_rnn_workspace_on(const tk_rnn_device *on, const tk_rnn *s);
size_t tk_rnn_grad_workspace_on(const tk_rnn_device *on, const tk_rnn *s);
#endif
