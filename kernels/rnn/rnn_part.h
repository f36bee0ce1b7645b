/* rnn_part.h: state that a recurrent layer and its gradient share on every device: a direction, its operands in the
 * type of computation, and the workspace. Parts of a workspace are taken from its begin, at multiples of 64 bytes: a
 * walk over the same takes without memory, from NULL, counts the bytes. Nothing here reads or writes an operand by
 * itself. */
#ifndef TK_RNN_PART_H
#define TK_RNN_PART_H
#include "rnn_rows.h"

/* --- the workspace, and 16 bits --------------------------------------------------------------- */

typedef struct tk_rnn_part tk_rnn_part;
typedef struct tk_rnn_walk tk_rnn_walk;
typedef struct tk_rnn_walk_back tk_rnn_walk_back;
typedef struct tk_rnn_room tk_rnn_room;

/* A device as the driver of recurrent layers sees it (rnn_walk.h): movement/cast.h's and matmul/matmul.h's kernels, and
 * the work between products. */
typedef struct tk_rnn_device {
    void (*cast)(tk_queue *q, void *out, const void *inp, int64_t n, tk_dtype to, tk_dtype from);
    void (*multiply)(tk_queue *q, void *out, const void *a, const void *b, const tk_product *product, tk_dtype dtype,
                     void *workspace);
    const int64_t *chunk_bytes; /* of gates of steps whose W x is computed at once; one step may have more */
    /* A fault where a length is out of range; false where this is known already and nothing must run. */
    bool (*check)(tk_queue *q, const tk_rnn *s, const void *lens);
    /* Takes room for the part's own state on this device; NULL: there is none. `back`: for the gradient. */
    void (*take)(tk_rnn_room *room, tk_rnn_part *part, bool back);
    const struct tk_rnn_steps *steps;
    const struct tk_rnn_back_steps *back_steps;
} tk_rnn_device;

/* Bytes taken so far; `begin` NULL: they are only counted, on no device. */
struct tk_rnn_room {
    char *begin;
    size_t used;
    const tk_rnn_device *on;
};
void *tk_rnn_take(tk_rnn_room *room, int64_t count, size_t size);

/* The layer in the type of computation: float for elements of 16 bits. */
tk_rnn tk_rnn_wide(const tk_rnn *s);
/* Operands in the type of computation: in place, or, for 16 bits, in the workspace, whose room is taken whether there
 * is an operand or not. NULL stays. */
tk_rnn_operands tk_rnn_wide_operands(tk_queue *q, tk_rnn_room *room, tk_rnn_operands in, const tk_rnn *s);
tk_rnn_back tk_rnn_wide_back(tk_queue *q, tk_rnn_room *room, tk_rnn_back back, const tk_rnn *s);
/* Where results are to be computed: in their places, or in the room; and back. */
tk_rnn_results tk_rnn_wide_results(tk_rnn_room *room, tk_rnn_results out, const tk_rnn *s);
tk_rnn_gradients tk_rnn_wide_gradients(tk_rnn_room *room, tk_rnn_gradients out, const tk_rnn *s);
void tk_rnn_narrow_results(tk_queue *q, const tk_rnn_room *room, tk_rnn_results out, tk_rnn_results wide,
                           const tk_rnn *s);
void tk_rnn_narrow_gradients(tk_queue *q, const tk_rnn_room *room, tk_rnn_gradients out, tk_rnn_gradients wide,
                             const tk_rnn *s);

/* Steps whose W x is computed at once, so that their gates take about `bytes`: by shape alone. Batch first: all. */
int64_t tk_rnn_chunk(const tk_rnn *s, int64_t bytes);

/* --- a direction ------------------------------------------------------------------------------ */

struct tk_rnn_part {
    tk_queue *q;
    const tk_rnn_device *on;
    const tk_rnn *s; /* float or double */
    tk_rnn_operands in;
    int direction;
    bool backward;
    size_t size;
    int64_t gates; /* gates hidden */
    tk_rnn_direction with;
    const char *w, *r;        /* the direction's */
    int64_t to_item, to_step; /* from one row of gates to the next */
    /* The host's alone: rnn_host.h. */
    const tk_rnn_rows *rows;
    char *bias, *inner; /* [gates hidden] added to W x; of a GRU with reset_after [hidden] added to R h */
    char *now;          /* of the gradient [batch, hidden]: a row of each item as scratch */
    double *columns;    /* of the gradient [gates hidden] */
};

tk_rnn_part tk_rnn_part_of(tk_queue *q, const tk_rnn_room *room, const tk_rnn *s, tk_rnn_operands in, int direction);

/* A GRU whose reset comes before R: R (r h) is a product of its own. */
static inline bool tk_rnn_has_inner(const tk_rnn *s) { return s->cell == TK_RNN_GRU && !s->reset_after; }
/* The step of the batch that is number n of the part's walk. */
static inline int64_t tk_rnn_step(const tk_rnn_part *a, int64_t n) { return a->backward ? a->s->steps - 1 - n : n; }
static inline char *tk_rnn_at(const tk_rnn_part *a, const void *base, int64_t element) {
    return base ? (char *)base + element * (int64_t)a->size : NULL;
}
#endif
