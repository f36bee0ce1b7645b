/* rnn_rows.h: functions of rows of gates between the products, on the CPU: one item of the batch at a step, in the
 * calling thread. */
#ifndef TK_RNN_ROWS_H
#define TK_RNN_ROWS_H
#include "rnn.h"

/* Settings that all rows of a direction share. Elements are of the type of computation. */
typedef struct tk_rnn_direction {
    int64_t hidden;
    tk_rnn_function f, g, h;
    double clip;   /* infinity: none */
    const void *p; /* [3 hidden]; NULL: 0 */
} tk_rnn_direction;

/* For one type. Rows of gates are [gates hidden], other rows [hidden]; `n` are elements. */
typedef struct tk_rnn_rows {
    void (*add)(void *to, const void *x, int64_t n); /* to += x */
    void (*apply)(void *x, tk_rnn_function f, double clip, int64_t n);
    void (*multiply)(void *out, const void *a, const void *b, int64_t n); /* out = a b */
    void (*lstm)(const tk_rnn_direction *d, void *gates, void *c, void *h);
    void (*lstm_back)(const tk_rnn_direction *d, void *gates, const void *c, const void *before, const void *dh,
                      void *dc);
    /* z and r are gates already; `behind` is R h + Rb, or NULL where R's part is added to the gates. */
    void (*gru)(const tk_rnn_direction *d, void *gates, const void *behind, void *h);
    void (*gru_back)(const tk_rnn_direction *d, void *gates, const void *before, void *dh);
    /* r of the gates becomes the gradient of its sum: of_r is that of r. */
    void (*reset_back)(const tk_rnn_direction *d, void *gates, const void *of_r);
    void (*plain_back)(const tk_rnn_direction *d, void *gates, const void *dh);
    void (*add_products)(double *sum, const void *a, const void *b, int64_t n); /* sum += a b; b NULL: 1 */
} tk_rnn_rows;

extern const tk_rnn_rows tk_rnn_rows_f32, tk_rnn_rows_f64;
#endif
