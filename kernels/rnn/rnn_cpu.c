/* rnn_cpu.c: a recurrent layer, direction by direction. W x is one product over some steps at once; R h is one at each
 * step, of all items of the batch; between them go rows of gates (rnn_rows.h). */
#include "../common/parallel.h"
#include "rnn_host.h"
#include <string.h>

#define CHUNK_BYTES ((int64_t)4 << 20) /* of the gates of some steps, which stay in the caches until they are used */

typedef struct walk {
    tk_rnn_part part;
    tk_rnn_results out;
    char *gates;        /* of the chunk's steps, [steps, batch, gates hidden], or, batch first, of all */
    int64_t first;      /* the step that gates begin with */
    char *sums, *reset; /* [batch, gates hidden]: R h; [batch, hidden]: r h */
    char *c, *h;        /* [batch, hidden] */
    int64_t step;
} walk;

static walk walk_of(tk_queue *q, tk_rnn_room *room, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s, int d) {
    walk w = {.part = tk_rnn_host_part(q, room, s, in, d), .out = out};
    int64_t batch = s->batch, gates = w.part.gates;
    w.gates = tk_rnn_take(room, tk_rnn_chunk(s, CHUNK_BYTES) * batch * gates, w.part.size);
    w.sums = tk_rnn_take(room, batch * gates, w.part.size);
    w.reset = tk_rnn_take(room, batch * s->hidden, w.part.size);
    w.c = tk_rnn_take(room, batch * s->hidden, w.part.size);
    w.h = tk_rnn_take(room, batch * s->hidden, w.part.size);
    return w;
}

static char *gates_of(const walk *w, int64_t item) {
    const tk_rnn_part *a = &w->part;
    return tk_rnn_at(a, w->gates, ((w->step - w->first) * a->to_step + item * a->to_item) * a->gates);
}

static char *state_at(const walk *w, const void *base, int64_t item) {
    const tk_rnn_part *a = &w->part;
    return tk_rnn_at(a, base, tk_rnn_state_row(a->s, a->direction, item) * a->s->hidden);
}

static void begin(walk *w) {
    const tk_rnn_part *a = &w->part;
    for (int64_t i = 0; i < a->s->batch; i++) {
        tk_rnn_copy_row(a, tk_rnn_at(a, w->h, i * a->s->hidden), state_at(w, a->in.h0, i));
        tk_rnn_copy_row(a, tk_rnn_at(a, w->c, i * a->s->hidden), state_at(w, a->in.c0, i));
    }
}

static void end(walk *w) {
    const tk_rnn_part *a = &w->part;
    for (int64_t i = 0; i < a->s->batch; i++) {
        tk_rnn_copy_row(a, state_at(w, w->out.h, i), tk_rnn_at(a, w->h, i * a->s->hidden));
        tk_rnn_copy_row(a, state_at(w, w->out.c, i), tk_rnn_at(a, w->c, i * a->s->hidden));
    }
}

/* --- a step ----------------------------------------------------------------------------------- */

/* The new state of an item: its row of gates has all sums but those of a GRU's new state. */
static void new_state(const walk *w, int64_t item, char *gates, char *h) {
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    char *behind = tk_rnn_at(a, w->sums, item * a->gates + 2 * n);
    if (a->s->cell == TK_RNN_LSTM) {
        a->rows->lstm(&a->with, gates, tk_rnn_at(a, w->c, item * n), h);
    } else if (a->s->cell == TK_RNN_PLAIN) {
        a->rows->apply(gates, a->with.f, a->with.clip, n);
        memcpy(h, gates, (size_t)n * a->size);
    } else if (a->s->reset_after) {
        a->rows->add(behind, a->inner, n);
        a->rows->gru(&a->with, gates, behind, h);
    } else {
        a->rows->add(tk_rnn_at(a, gates, 2 * n), tk_rnn_at(a, w->sums, item * n), n);
        a->rows->gru(&a->with, gates, NULL, h);
    }
}

/* The item's row of Y; h NULL: its sequence has ended. */
static void put_row(const walk *w, int64_t item, const char *h) {
    const tk_rnn_part *a = &w->part;
    int64_t row = tk_rnn_y_row(a->s, w->step, a->direction, item);
    tk_rnn_copy_row(a, tk_rnn_at(a, w->out.y, row * a->s->hidden), h);
}

/* Sums, and what follows from them: of a GRU with its reset before R, r h. */
static void sums_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    bool gru = a->s->cell == TK_RNN_GRU, inside = tk_rnn_has_inner(a->s);
    int64_t width = inside ? 2 * n : a->gates;
    for (int64_t i = share.begin; i < share.end; i++) {
        char *gates = gates_of(w, i), *h = tk_rnn_at(a, w->h, i * n);
        if (w->step >= tk_rnn_length(a, i)) {
            put_row(w, i, NULL);
            continue;
        }
        a->rows->add(gates, tk_rnn_at(a, w->sums, i * width), gru ? 2 * n : a->gates);
        a->rows->add(gates, a->bias, a->gates);
        if (gru)
            a->rows->apply(gates, a->with.f, a->with.clip, 2 * n);
        if (inside) {
            a->rows->multiply(tk_rnn_at(a, w->reset, i * n), tk_rnn_at(a, gates, n), h, n);
        } else {
            new_state(w, i, gates, h);
            put_row(w, i, h);
        }
    }
}

static void reset_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    for (int64_t i = share.begin; i < share.end; i++) {
        char *h = tk_rnn_at(a, w->h, i * a->s->hidden);
        if (w->step >= tk_rnn_length(a, i))
            continue;
        new_state(w, i, gates_of(w, i), h);
        put_row(w, i, h);
    }
}

static void walk_step(walk *w) {
    const tk_rnn_part *a = &w->part;
    const int64_t batch = a->s->batch;
    tk_rnn_multiply_h(a, w->sums, w->h, batch, false);
    tk_parallel_for(a->q, batch, tk_rnn_grain(a), sums_range, w);
    if (!tk_rnn_has_inner(a->s))
        return;
    tk_rnn_multiply_rh(a, w->sums, w->reset, batch);
    tk_parallel_for(a->q, batch, tk_rnn_grain(a), reset_range, w);
}

/* W x of a chunk's steps, and then the steps. */
static void walk_part(walk *w) {
    const tk_rnn_part *a = &w->part;
    const tk_rnn *s = a->s;
    int64_t chunk = tk_rnn_chunk(s, CHUNK_BYTES);
    begin(w);
    for (int64_t at = 0; at < s->steps; at += chunk) {
        int64_t steps = s->steps - at < chunk ? s->steps - at : chunk;
        w->first = a->backward ? s->steps - at - steps : at;
        tk_rnn_multiply_x(a, w->gates, w->first, steps);
        for (int64_t i = at; i < at + steps; i++) {
            w->step = tk_rnn_step(a, i);
            walk_step(w);
        }
    }
    end(w);
}

/* --- the layer -------------------------------------------------------------------------------- */

size_t tk_rnn_workspace(const tk_rnn *s, int slots) {
    tk_rnn_room room = {NULL, 0, NULL};
    tk_rnn wide = tk_rnn_wide(s);
    (void)slots;
    tk_rnn_wide_operands(NULL, &room, (tk_rnn_operands){.x = NULL}, s);
    tk_rnn_wide_results(&room, (tk_rnn_results){NULL, NULL, NULL}, s);
    walk_of(NULL, &room, (tk_rnn_results){NULL, NULL, NULL}, (tk_rnn_operands){.x = NULL}, &wide, 0);
    return room.used;
}

void tk_rnn_run(tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s, void *workspace) {
    tk_rnn_room room = {workspace, 0, &tk_rnn_host};
    tk_rnn wide = tk_rnn_wide(s);
    if (!tk_rnn_check(q, s, in.lens) || s->directions * s->batch * s->hidden == 0)
        return;
    tk_rnn_operands wide_in = tk_rnn_wide_operands(q, &room, in, s);
    tk_rnn_results wide_out = tk_rnn_wide_results(&room, out, s);
    for (int d = 0; d < s->directions; d++) {
        tk_rnn_room rest = room;
        walk w = walk_of(q, &rest, wide_out, wide_in, &wide, d);
        walk_part(&w);
    }
    tk_rnn_narrow_results(q, &room, out, wide_out, s);
}
