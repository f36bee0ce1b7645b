/* rnn_cuda.h: what a recurrent layer does on a CUDA device between its products (rnn_cuda.c): kernels with a thread for
 * each element of the states [batch, hidden], or of all rows [rows, hidden], in rnn_rows_cuda.cu and, of the gradient,
 * rnn_rows_back_cuda.cu. They look up lengths themselves; one out of range is a fault of the check, and held to the
 * range by all others. Elements are floats or doubles. */
#ifndef TK_RNN_CUDA_H
#define TK_RNN_CUDA_H
#include "rnn_products.h"

/* Bytes of gates of steps whose W x is made at once, but for one step has more: tests have fewer. */
extern int64_t tk_cuda_rnn_bytes;

extern const tk_rnn_device tk_cuda_rnn;
/* A fault where a length is out of range. */
void tk_cuda_rnn_check(tk_queue *q, const tk_rnn *s, const void *lens);

/* A direction's walk over the steps. Kernels get it by value: what `part` has of the host they do not look at. */
typedef struct tk_rnn_walk {
    tk_rnn s;
    tk_rnn_part part;
    tk_rnn_results out;
    int64_t step, first; /* of the batch; the step that gates begin with */
    void *gates;         /* W x: rows of gates of a chunk's steps */
    void *sums;          /* R h [batch, gates hidden]; R (r h) [batch, hidden] */
    void *reset, *c, *h; /* [batch, hidden]: r h of a GRU whose reset comes before R; the states */
} tk_rnn_walk;

void tk_cuda_rnn_begin(tk_queue *q, const tk_rnn_walk *w); /* states before the first step */
/* From R h to the states behind the step, and Y; of a GRU whose reset comes before R, to its gates and r h. */
void tk_cuda_rnn_step(tk_queue *q, const tk_rnn_walk *w);
void tk_cuda_rnn_reset(tk_queue *q, const tk_rnn_walk *w); /* and from R (r h) to its states, and Y */
void tk_cuda_rnn_end(tk_queue *q, const tk_rnn_walk *w);   /* the last states are results */

/* A direction's walk backward over the steps, by value too. */
typedef struct tk_rnn_walk_back {
    tk_rnn s;
    tk_rnn_part part;
    tk_rnn_back back;
    tk_rnn_gradients out;
    int64_t rows, step;
    void *gates;  /* rows of gates, which become the gradients of their sums */
    void *before; /* [rows, hidden]: h before each step */
    void *cells;  /* LSTM [rows, hidden]: c behind each step */
    void *behind; /* GRU: R h [rows, 3 hidden], the gradients of R h + Rb later; where the reset comes before R, R h of
                   * two gates [rows, 2 hidden] */
    void *inner;  /* where the reset comes before R [rows, hidden]: R (r h) */
    void *reset;  /* and r h */
    void *dh, *dc, *of_r; /* [batch, hidden]: gradients of the states, of r h */
} tk_rnn_walk_back;

void tk_cuda_rnn_before(tk_queue *q, const tk_rnn_walk_back *w); /* h before each step, by Y */
/* From the sums of all rows to gates, but for what waits for a product: of a GRU whose reset comes before R, the new
 * state; and r h. Of an LSTM, whose cells are one after the other, with these. */
void tk_cuda_rnn_gates(tk_queue *q, const tk_rnn_walk_back *w);
void tk_cuda_rnn_new(tk_queue *q, const tk_rnn_walk_back *w);        /* that new state, by R (r h) */
void tk_cuda_rnn_begin_back(tk_queue *q, const tk_rnn_walk_back *w); /* dh, dc behind the last step */
/* Gates become gradients of sums; dh and dc those of the states before the step, but for what comes by R. */
void tk_cuda_rnn_step_back(tk_queue *q, const tk_rnn_walk_back *w);
void tk_cuda_rnn_reset_back(tk_queue *q, const tk_rnn_walk_back *w); /* from of_r to dh and to the reset's gradient */
void tk_cuda_rnn_end_back(tk_queue *q, const tk_rnn_walk_back *w);   /* dh0, dc0 */
/* db and dp, where they are wanted: sums over all rows, in double. */
void tk_cuda_rnn_sums_back(tk_queue *q, const tk_rnn_walk_back *w);
#endif
