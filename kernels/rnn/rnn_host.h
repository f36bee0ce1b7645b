/* rnn_host.h: what a recurrent layer and its gradient share on the CPU. */
#ifndef TK_RNN_HOST_H
#define TK_RNN_HOST_H
#include "rnn_products.h"

#define TK_RNN_GRAIN 4096 /* gates that are worth a thread */

extern const tk_rnn_device tk_rnn_host;

/* A direction with its rows and its biases, which are taken from the room. */
tk_rnn_part tk_rnn_host_part(tk_queue *q, tk_rnn_room *room, const tk_rnn *s, tk_rnn_operands in, int direction);

/* False, and a fault: a length is out of range. */
bool tk_rnn_check(tk_queue *q, const tk_rnn *s, const void *lens);

static inline int64_t tk_rnn_length(const tk_rnn_part *a, int64_t item) {
    return a->in.lens ? ((const int32_t *)a->in.lens)[item] : a->s->steps;
}
/* Whether the step is the first one of the item's sequence. */
static inline bool tk_rnn_is_first(const tk_rnn_part *a, int64_t step, int64_t item) {
    return step == (a->backward ? tk_rnn_length(a, item) - 1 : 0);
}
/* A row [hidden] of `from`, or of zeros where that is NULL; nowhere where `to` is. */
void tk_rnn_copy_row(const tk_rnn_part *a, void *to, const void *from);
/* Items of the batch that are worth a thread. */
static inline int64_t tk_rnn_grain(const tk_rnn_part *a) { return TK_RNN_GRAIN / (a->gates + 1) + 1; }
#endif
