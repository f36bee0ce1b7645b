/* rnn_cpu.c: the steps of a recurrent layer on the CPU, between the products of its driver: rows of gates (rnn_rows.h),
 * an item of the batch in one thread. */
#include "../common/parallel.h"
#include "rnn_host.h"
#include <string.h>

typedef tk_rnn_walk walk;

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

/* Sums, and for a GRU with its reset before R also r h. */
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

static void step(walk *w) { tk_parallel_for(w->part.q, w->s.batch, tk_rnn_grain(&w->part), sums_range, w); }
static void reset(walk *w) { tk_parallel_for(w->part.q, w->s.batch, tk_rnn_grain(&w->part), reset_range, w); }

const tk_rnn_steps tk_rnn_host_steps = {begin, step, reset, end};

/* --- the layer -------------------------------------------------------------------------------- */

size_t tk_rnn_workspace(const tk_rnn *s, int slots) {
    (void)slots;
    return tk_rnn_workspace_on(&tk_rnn_host, s);
}

void tk_rnn_run(tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s, void *workspace) {
    tk_rnn_run_on(&tk_rnn_host, q, out, in, s, workspace);
}
