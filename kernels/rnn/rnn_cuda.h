/* rnn_cuda.h: a recurrent layer's work between products on a CUDA device: kernels with a thread for each element of the
 * states [batch, hidden], or of all rows [rows, hidden], in rnn_rows_cuda.cu and, of the gradient,
 * rnn_rows_back_cuda.cu. They read lengths themselves; one out of range is a fault of the check, and all others hold
 * it to the range. */
#ifndef TK_RNN_CUDA_H
#define TK_RNN_CUDA_H
#include "rnn_walk.h"

extern const tk_rnn_steps tk_cuda_rnn_steps;
extern const tk_rnn_back_steps tk_cuda_rnn_back_steps;
bool tk_cuda_rnn_check(tk_queue *q, const tk_rnn *s, const void *lens); /* true: the fault is the device's to find */

/* Bytes of gates of steps whose W x is computed at once: tests set fewer. */
extern int64_t tk_cuda_rnn_bytes;
#endif
