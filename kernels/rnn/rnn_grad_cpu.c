/* rnn_grad_cpu.c: the steps of a recurrent layer's gradient on the CPU, between the products of its driver: gates of
 * all rows recomputed, the steps backward, an item of the batch in one thread, and sums over rows. */
#include "../common/parallel.h"
#include "../common/types.h"
#include "rnn_host.h"
#include <string.h>

typedef tk_rnn_walk_back walk;

/* The row of a step and an item, in rows of gates. */
static int64_t row_of(const walk *w, int64_t step, int64_t item) {
    return step * w->part.to_step + item * w->part.to_item;
}
static char *hidden_at(const walk *w, const char *base, int64_t row) {
    return tk_rnn_at(&w->part, base, row * w->part.s->hidden);
}
static char *gates_at(const walk *w, int64_t row) { return tk_rnn_at(&w->part, w->gates, row * w->part.gates); }

/* A row [hidden] of an operand, or of zeros. */
static void get_row(const walk *w, char *to, const void *from, int64_t row) {
    tk_rnn_copy_row(&w->part, to, hidden_at(w, from, row));
}

static int64_t state_of(const walk *w, int64_t item) { return tk_rnn_state_row(w->part.s, w->part.direction, item); }

/* --- forward, recomputed ---------------------------------------------------------------------- */

static void before_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    for (int64_t i = share.begin; i < share.end; i++)
        for (int64_t step = 0; step < a->s->steps; step++) {
            char *to = hidden_at(w, w->before, row_of(w, step, i));
            int64_t last = a->backward ? step + 1 : step - 1;
            if (step >= tk_rnn_length(a, i))
                get_row(w, to, NULL, 0);
            else if (tk_rnn_is_first(a, step, i))
                get_row(w, to, a->in.h0, state_of(w, i));
            else
                get_row(w, to, w->back.y, tk_rnn_y_row(a->s, last, a->direction, i));
        }
}

/* The numbers of all rows that need no new state: all sums, or, for a GRU, its two gates and r h. */
static void gates_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    bool gru = a->s->cell == TK_RNN_GRU, inside = tk_rnn_has_inner(a->s);
    for (int64_t row = share.begin; row < share.end; row++) {
        char *gates = gates_at(w, row);
        a->rows->add(gates, a->bias, a->gates);
        if (a->s->cell == TK_RNN_PLAIN)
            a->rows->apply(gates, a->with.f, a->with.clip, n);
        if (!gru)
            continue;
        a->rows->add(gates, tk_rnn_at(a, w->behind, row * (inside ? 2 : 3) * n), 2 * n);
        a->rows->apply(gates, a->with.f, a->with.clip, 2 * n);
        if (inside)
            a->rows->multiply(hidden_at(w, w->reset, row), tk_rnn_at(a, gates, n), hidden_at(w, w->before, row), n);
    }
}

/* The new states of a GRU. */
static void new_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    for (int64_t i = share.begin; i < share.end; i++)
        for (int64_t step = 0; step < a->s->steps; step++) {
            int64_t row = row_of(w, step, i);
            char *gates = gates_at(w, row), *behind = tk_rnn_at(a, w->behind, row * 3 * n + 2 * n);
            if (a->s->reset_after) {
                a->rows->add(behind, a->inner, n);
                a->rows->gru(&a->with, gates, behind, hidden_at(w, w->part.now, i));
            } else {
                a->rows->add(tk_rnn_at(a, gates, 2 * n), hidden_at(w, w->inner, row), n);
                a->rows->gru(&a->with, gates, NULL, hidden_at(w, w->part.now, i));
            }
        }
}

/* The cells of an LSTM, a sequence's steps in their order; after the end they are 0. */
static void cells_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    for (int64_t i = share.begin; i < share.end; i++) {
        char *c = hidden_at(w, w->dc, i);
        get_row(w, c, a->in.c0, state_of(w, i));
        for (int64_t k = 0; k < a->s->steps; k++) {
            int64_t step = tk_rnn_step(a, k), row = row_of(w, step, i);
            if (step < tk_rnn_length(a, i))
                a->rows->lstm(&a->with, gates_at(w, row), c, hidden_at(w, w->part.now, i));
            get_row(w, hidden_at(w, w->cells, row), step < tk_rnn_length(a, i) ? c : NULL, 0);
        }
    }
}

/* Items of the batch, with all their steps. */
static void for_items(walk *w, void (*range)(void *ctx, tk_share share)) {
    tk_parallel_for(w->part.q, w->s.batch, tk_rnn_grain(&w->part) / (w->s.steps + 1) + 1, range, w);
}

static void before(walk *w) { for_items(w, before_range); }
static void new_state(walk *w) { for_items(w, new_range); }

static void gates(walk *w) {
    tk_parallel_for(w->part.q, w->rows, tk_rnn_grain(&w->part), gates_range, w);
    if (w->s.cell == TK_RNN_LSTM)
        for_items(w, cells_range);
    else if (w->s.cell == TK_RNN_GRU && w->s.reset_after)
        for_items(w, new_range);
}

/* --- backward --------------------------------------------------------------------------------- */

static const char *cell_before(const walk *w, int64_t item, char *room) {
    const tk_rnn_part *a = &w->part;
    if (!tk_rnn_is_first(a, w->step, item))
        return hidden_at(w, w->cells, row_of(w, a->backward ? w->step + 1 : w->step - 1, item));
    get_row(w, room, a->in.c0, state_of(w, item));
    return room;
}

/* A GRU's gradients of R h + Rb are those of W x + Wb, but for its new state's. */
static void behind_back(const walk *w, int64_t row) {
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    char *gates = gates_at(w, row), *behind = tk_rnn_at(a, w->behind, row * 3 * n);
    char *inner = tk_rnn_at(a, behind, 2 * n), *new = tk_rnn_at(a, gates, 2 * n);
    a->rows->multiply(behind, new, inner, n); /* the gradient of r */
    a->rows->multiply(inner, new, tk_rnn_at(a, gates, n), n);
    a->rows->reset_back(&a->with, gates, behind);
    memcpy(behind, gates, (size_t)(2 * n) * a->size);
}

/* Gates become gradients of sums; dh and dc those of the states before the step, without R's part. */
static void step_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    for (int64_t i = share.begin; i < share.end; i++) {
        int64_t row = row_of(w, w->step, i);
        char *gates = gates_at(w, row), *dh = hidden_at(w, w->dh, i);
        if (w->step >= tk_rnn_length(a, i)) {
            memset(gates, 0, (size_t)a->gates * a->size);
            if (w->behind && a->s->reset_after)
                memset(tk_rnn_at(a, w->behind, row * 3 * n), 0, (size_t)a->gates * a->size);
            continue;
        }
        if (w->back.dy)
            a->rows->add(dh, hidden_at(w, w->back.dy, tk_rnn_y_row(a->s, w->step, a->direction, i)), n);
        if (a->s->cell == TK_RNN_GRU) {
            a->rows->gru_back(&a->with, gates, hidden_at(w, w->before, row), dh);
            if (a->s->reset_after)
                behind_back(w, row);
            continue;
        }
        if (a->s->cell == TK_RNN_LSTM)
            a->rows->lstm_back(&a->with, gates, hidden_at(w, w->cells, row),
                               cell_before(w, i, hidden_at(w, w->part.now, i)), dh, hidden_at(w, w->dc, i));
        else
            a->rows->plain_back(&a->with, gates, dh);
        memset(dh, 0, (size_t)n * a->size);
    }
}

/* If R comes after the reset: of_r has the gradients of r h. */
static void reset_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    for (int64_t i = share.begin; i < share.end; i++) {
        int64_t row = row_of(w, w->step, i);
        char *gates = gates_at(w, row), *of_r = hidden_at(w, w->of_r, i), *by_r = hidden_at(w, w->part.now, i);
        if (w->step >= tk_rnn_length(a, i))
            continue;
        a->rows->multiply(by_r, of_r, tk_rnn_at(a, gates, n), n);
        a->rows->add(hidden_at(w, w->dh, i), by_r, n);
        a->rows->multiply(by_r, of_r, hidden_at(w, w->before, row), n);
        a->rows->reset_back(&a->with, gates, by_r);
    }
}

static void step(walk *w) { tk_parallel_for(w->part.q, w->s.batch, tk_rnn_grain(&w->part), step_range, w); }
static void reset(walk *w) { tk_parallel_for(w->part.q, w->s.batch, tk_rnn_grain(&w->part), reset_range, w); }

static void begin(walk *w) {
    for (int64_t i = 0; i < w->part.s->batch; i++) {
        get_row(w, hidden_at(w, w->dh, i), w->back.dh, state_of(w, i));
        get_row(w, hidden_at(w, w->dc, i), w->back.dc, state_of(w, i));
    }
}

static void end(walk *w) {
    for (int64_t i = 0; i < w->part.s->batch; i++) {
        tk_rnn_copy_row(&w->part, hidden_at(w, w->out.dh0, state_of(w, i)), hidden_at(w, w->dh, i));
        tk_rnn_copy_row(&w->part, hidden_at(w, w->out.dc0, state_of(w, i)), hidden_at(w, w->dc, i));
    }
}

/* --- sums over all rows ----------------------------------------------------------------------- */

typedef struct columns_ctx {
    const walk *w;
    const char *of; /* rows of gates */
} columns_ctx;

/* Columns of rows of gates, added up row by row. */
static void columns_range(void *ctx, tk_share share) {
    const columns_ctx *c = ctx;
    const tk_rnn_part *a = &c->w->part;
    for (int64_t i = share.begin; i < share.end; i++)
        c->w->part.columns[i] = 0;
    for (int64_t row = 0; row < c->w->rows; row++)
        a->rows->add_products(c->w->part.columns + share.begin, tk_rnn_at(a, c->of, row * a->gates + share.begin), NULL,
                              share.end - share.begin);
}

static void put_columns(const walk *w, char *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        tk_put(to, w->part.s->dtype, i, w->part.columns[i]);
}

static void bias_gradient(const walk *w) {
    const tk_rnn_part *a = &w->part;
    char *of_w = tk_rnn_at(a, w->out.db, a->direction * 2 * a->gates), *of_r = tk_rnn_at(a, of_w, a->gates);
    bool after = a->s->cell == TK_RNN_GRU && a->s->reset_after;
    tk_parallel_for(a->q, a->gates, 1024, columns_range, &(columns_ctx){w, w->gates});
    put_columns(w, of_w, a->gates);
    if (after)
        tk_parallel_for(a->q, a->gates, 1024, columns_range, &(columns_ctx){w, w->behind});
    put_columns(w, of_r, a->gates);
}

/* P's rows i and f were multiplied with c before the step, o with c after it. */
static void peephole_gradient(walk *w) {
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    memset(w->part.columns, 0, (size_t)a->gates * sizeof *w->part.columns);
    for (int64_t i = 0; i < w->rows; i++) {
        int64_t item = i % a->s->batch, row;
        w->step = i / a->s->batch;
        row = row_of(w, w->step, item);
        if (w->step >= tk_rnn_length(a, item))
            continue;
        const char *gates = gates_at(w, row), *before = cell_before(w, item, w->part.now);
        a->rows->add_products(w->part.columns, gates, before, n);
        a->rows->add_products(w->part.columns + n, tk_rnn_at(a, gates, n), hidden_at(w, w->cells, row), n);
        a->rows->add_products(w->part.columns + 2 * n, tk_rnn_at(a, gates, 2 * n), before, n);
    }
    put_columns(w, tk_rnn_at(a, w->out.dp, a->direction * 3 * n), 3 * n);
}

static void sums(walk *w) {
    if (w->out.db)
        bias_gradient(w);
    if (w->out.dp)
        peephole_gradient(w);
}

const tk_rnn_back_steps tk_rnn_host_back_steps = {before, gates, new_state, begin, step, reset, end, sums};

/* --- the layer -------------------------------------------------------------------------------- */

size_t tk_rnn_grad_workspace(const tk_rnn *s, int slots) {
    (void)slots;
    return tk_rnn_grad_workspace_on(&tk_rnn_host, s);
}

void tk_rnn_grad_run(tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back, const tk_rnn *s,
                     void *workspace) {
    tk_rnn_grad_run_on(&tk_rnn_host, q, out, in, back, s, workspace);
}
