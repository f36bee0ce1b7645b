/* rnn_host.c: a direction of a recurrent layer on the CPU (rnn_host.h). */
#include "rnn_host.h"
#include "../movement/cast.h"
#include "../queue.h"
#include <string.h>

/* Biases to add: both to the sums, or W's alone, and R's to the sum that r multiplies. */
static void put_bias(tk_rnn_part *a) {
    const char *of_w = tk_rnn_at(a, a->in.b, a->direction * 2 * a->gates), *of_r = tk_rnn_at(a, of_w, a->gates);
    size_t bytes = (size_t)a->gates * a->size, inside = (size_t)a->s->hidden * a->size;
    if (!of_w) {
        memset(a->bias, 0, bytes);
        memset(a->inner, 0, inside);
        return;
    }
    bool apart = a->s->cell == TK_RNN_GRU && a->s->reset_after;
    memcpy(a->bias, of_w, bytes);
    a->rows->add(a->bias, of_r, apart ? a->gates - a->s->hidden : a->gates);
    memcpy(a->inner, of_r + bytes - inside, inside);
}

/* The type's functions for rows and the biases, and for the gradient its scratch. */
static void take(tk_rnn_room *room, tk_rnn_part *a, bool back) {
    a->rows = a->s->dtype == TK_F64 ? &tk_rnn_rows_f64 : &tk_rnn_rows_f32;
    a->bias = tk_rnn_take(room, a->gates, a->size);
    a->inner = tk_rnn_take(room, a->s->hidden, a->size);
    a->now = tk_rnn_take(room, back ? a->s->batch * a->s->hidden : 0, a->size);
    a->columns = tk_rnn_take(room, back ? a->gates : 0, sizeof(double));
    if (a->bias)
        put_bias(a);
}

void tk_rnn_copy_row(const tk_rnn_part *a, void *to, const void *from) {
    size_t bytes = (size_t)a->s->hidden * a->size;
    if (to && from)
        memcpy(to, from, bytes);
    else if (to)
        memset(to, 0, bytes);
}

static bool check(tk_queue *q, const tk_rnn *s, const void *lens) {
    for (int64_t i = 0; lens && i < s->batch; i++)
        if (((const int32_t *)lens)[i] < 0 || ((const int32_t *)lens)[i] > s->steps) {
            tk_fault(q, TK_BAD_VALUE);
            return false;
        }
    return true;
}

static const int64_t chunk_bytes = (int64_t)4 << 20; /* which stay in the caches until they are used */

const tk_rnn_device tk_rnn_host = {tk_cast, tk_product_run,     &chunk_bytes,           check,
                                   take,    &tk_rnn_host_steps, &tk_rnn_host_back_steps};
