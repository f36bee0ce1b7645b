/* rnn_products.h: the products of a recurrent layer and of its gradient, on every device: by the queue of the part, in
 * the type of computation. Rows of gates are [gates hidden], rows of states [hidden]; W, R and x are the part's. Where
 * a GRU's reset comes before R, R (r h) is a product of its own, and R h one of two gates. */
#ifndef TK_RNN_PRODUCTS_H
#define TK_RNN_PRODUCTS_H
#include "rnn_part.h"

/* W x of the batch's steps [first, first + steps): gates [steps batch, gates hidden], or, batch first, of all. */
void tk_rnn_multiply_x(const tk_rnn_part *a, void *gates, int64_t first, int64_t steps);
/* R h of so many rows of h, dense; `adds`: added to `sums`. */
void tk_rnn_multiply_h(const tk_rnn_part *a, void *sums, const void *h, int64_t rows, bool adds);
/* R (r h) [rows, hidden]. */
void tk_rnn_multiply_rh(const tk_rnn_part *a, void *sums, const void *rh, int64_t rows);

/* Backward through a step: sums, the step's first row of gradients of R's sums. dh [batch, hidden] gets its part added;
 * of_rh [batch, hidden] is the gradient of r h. */
void tk_rnn_back_h(const tk_rnn_part *a, void *dh, const void *sums);
void tk_rnn_back_rh(const tk_rnn_part *a, void *of_rh, const void *sums);

/* Rows of all steps, steps batch of them: the gradients of sums, of gates and, of a GRU with reset_after, of R h + Rb;
 * h before each step, and r h. */
typedef struct tk_rnn_all_rows {
    const void *gates, *behind, *before, *reset;
} tk_rnn_all_rows;
/* dx, dw and dr of `out`, those that are wanted. */
void tk_rnn_back_weights(const tk_rnn_part *a, const tk_rnn_gradients *out, tk_rnn_all_rows rows);
#endif
