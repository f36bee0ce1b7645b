/* rnn_part.h: what a recurrent layer and its gradient share on the CPU: a direction, its operands in the type that is
 * computed in, and its products. Parts of a workspace are taken from its begin, at multiples of 64 bytes: a walk over
 * the same takes without memory, from NULL, tells how much is needed. */
#ifndef TK_RNN_PART_H
#define TK_RNN_PART_H
#include "rnn_rows.h"

#define TK_RNN_GRAIN 4096 /* gates that are worth a thread */

/* Bytes taken so far; `begin` NULL: they are only counted. */
typedef struct tk_rnn_room {
    char *begin;
    size_t used;
} tk_rnn_room;
void *tk_rnn_take(tk_rnn_room *room, int64_t count, size_t size);

/* The layer with elements that are computed in: float for those of 16 bits. */
tk_rnn tk_rnn_wide(const tk_rnn *s);
/* An operand of `count` elements as they are computed in: where it is, or, of 16 bits, in the room, which is taken from
 * whether there is an operand or not. NULL stays. */
const void *tk_rnn_widened(tk_queue *q, tk_rnn_room *room, const void *operand, int64_t count, tk_dtype dtype);
/* Where a result is to be computed: in its place, or in the room; and back. */
void *tk_rnn_wide_result(tk_rnn_room *room, void *result, int64_t count, tk_dtype dtype);
void tk_rnn_narrow_result(tk_queue *q, void *result, const void *wide, int64_t count, tk_dtype dtype);
tk_rnn_operands tk_rnn_wide_operands(tk_queue *q, tk_rnn_room *room, tk_rnn_operands in, const tk_rnn *s);

/* Numbers of elements. */
typedef struct tk_rnn_counts {
    int64_t x, w, r, b, p, y, state;
} tk_rnn_counts;
tk_rnn_counts tk_rnn_count(const tk_rnn *s);

typedef struct tk_rnn_part {
    tk_queue *q;
    const tk_rnn *s; /* float or double */
    tk_rnn_operands in;
    int direction;
    bool backward;
    size_t size;
    int64_t gates; /* gates hidden */
    const tk_rnn_rows *rows;
    tk_rnn_direction with;
    const char *w, *r;        /* the direction's */
    char *bias, *inner;       /* [gates hidden] added to W x; of a GRU with reset_after [hidden] added to R h */
    int64_t to_item, to_step; /* from one row of gates to the next */
} tk_rnn_part;

tk_rnn_part tk_rnn_part_of(tk_queue *q, tk_rnn_room *room, const tk_rnn *s, tk_rnn_operands in, int direction);

/* False, and a fault: a length is out of range. */
bool tk_rnn_check(tk_queue *q, const tk_rnn *s, const void *lens);

static inline int64_t tk_rnn_length(const tk_rnn_part *a, int64_t item) {
    return a->in.lens ? ((const int32_t *)a->in.lens)[item] : a->s->steps;
}
/* The step of the batch that is number n of the part's walk, and whether it is the first one of the item's sequence. */
static inline int64_t tk_rnn_step(const tk_rnn_part *a, int64_t n) { return a->backward ? a->s->steps - 1 - n : n; }
static inline bool tk_rnn_is_first(const tk_rnn_part *a, int64_t step, int64_t item) {
    return step == (a->backward ? tk_rnn_length(a, item) - 1 : 0);
}
static inline char *tk_rnn_at(const tk_rnn_part *a, const void *base, int64_t element) {
    return base ? (char *)base + element * (int64_t)a->size : NULL;
}
/* A row [hidden] of `from`, or of zeros where that is NULL; nowhere where `to` is. */
void tk_rnn_copy_row(const tk_rnn_part *a, void *to, const void *from);
/* Items of the batch that are worth a thread. */
static inline int64_t tk_rnn_grain(const tk_rnn_part *a) { return TK_RNN_GRAIN / (a->gates + 1) + 1; }

/* out [m, n] = A op(B) + beta out: A [m, k], stored [k, m] where trans_a; B [k, n], stored [n, k] where trans_b. */
typedef struct tk_rnn_matrix {
    const void *data;
    int64_t ld;
    bool trans;
} tk_rnn_matrix;
void tk_rnn_multiply(const tk_rnn_part *a, void *out, int64_t m, int64_t n, int64_t k, tk_rnn_matrix left,
                     tk_rnn_matrix right, double beta);
#endif
