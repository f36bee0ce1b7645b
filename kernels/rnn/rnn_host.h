/* rnn_host.h: functions that a recurrent layer and its gradient share on the CPU. */
#ifndef TK_RNN_HOST_H
#define TK_RNN_HOST_H
#include "rnn_walk.h"

#define TK_RNN_GRAIN 4096 /* gates that are worth a thread */

extern const tk_rnn_device tk_rnn_host;

extern const tk_rnn_steps tk_rnn_host_steps;
extern const tk_rnn_back_steps tk_rnn_host_back_steps;

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
