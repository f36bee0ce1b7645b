/* rnn_grad_cpu.c: the gradient of a recurrent layer, direction by direction. States before each step are those that the
 * layer gave (Y), so the sums of all steps are products over all rows; then the steps backward, with one product each,
 * and the gradients of W, R and x as products over all rows again. */
#include "../common/parallel.h"
#include "../common/types.h"
#include "rnn_host.h"
#include <string.h>

typedef struct walk {
    tk_rnn_part part;
    tk_rnn_back back;
    tk_rnn_gradients out;
    char *gates;  /* rows of gates, which become the gradients of their sums */
    char *before; /* [rows, hidden]: h before each step */
    char *cells;  /* LSTM [rows, hidden]: c behind each step */
    char *behind; /* GRU: R h, [rows, 3 hidden], the gradients of R h + Rb later; where R comes behind the reset, R h of
                   * two gates [rows, 2 hidden], and R (r h) [rows, hidden] behind that */
    char *reset;  /* GRU: r h [rows, hidden] */
    char *dh, *dc, *of_r, *now; /* [batch, hidden]: gradients of the states, of r h; h as it is, where nobody asks */
    double *columns;            /* [gates hidden] */
    int64_t rows, step;
} walk;

static walk walk_of(tk_queue *q, tk_rnn_room *room, tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back,
                    const tk_rnn *s, int d) {
    walk w = {.part = tk_rnn_host_part(q, room, s, in, d), .back = back, .out = out, .rows = s->steps * s->batch};
    size_t size = w.part.size;
    int64_t n = s->hidden, gru = s->cell == TK_RNN_GRU;
    w.gates = tk_rnn_take(room, w.rows * w.part.gates, size);
    w.before = tk_rnn_take(room, w.rows * n, size);
    w.cells = tk_rnn_take(room, s->cell == TK_RNN_LSTM ? w.rows * n : 0, size);
    w.behind = tk_rnn_take(room, gru * w.rows * 3 * n, size);
    w.reset = tk_rnn_take(room, tk_rnn_has_inner(s) ? w.rows * n : 0, size);
    w.dh = tk_rnn_take(room, s->batch * n, size);
    w.dc = tk_rnn_take(room, s->batch * n, size);
    w.of_r = tk_rnn_take(room, s->batch * n, size);
    w.now = tk_rnn_take(room, s->batch * n, size);
    w.columns = tk_rnn_take(room, w.part.gates, sizeof(double));
    return w;
}

/* The row of a step and an item, in rows of gates. */
static int64_t row_of(const walk *w, int64_t step, int64_t item) {
    return step * w->part.to_step + item * w->part.to_item;
}
static char *hidden_at(const walk *w, const char *base, int64_t row) {
    return tk_rnn_at(&w->part, base, row * w->part.s->hidden);
}
static char *gates_at(const walk *w, int64_t row) { return tk_rnn_at(&w->part, w->gates, row * w->part.gates); }

/* A row [hidden] of zeros, or of what an operand has at that row. */
static void get_row(const walk *w, char *to, const void *from, int64_t row) {
    tk_rnn_copy_row(&w->part, to, hidden_at(w, from, row));
}

static int64_t state_of(const walk *w, int64_t item) { return tk_rnn_state_row(w->part.s, w->part.direction, item); }

/* --- forward, once more ----------------------------------------------------------------------- */

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

/* What is known of all rows before a new state is: all sums, or, of a GRU, its two gates and r h. */
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
                a->rows->gru(&a->with, gates, behind, hidden_at(w, w->now, i));
            } else {
                a->rows->add(tk_rnn_at(a, gates, 2 * n), tk_rnn_at(a, w->behind, w->rows * 2 * n + row * n), n);
                a->rows->gru(&a->with, gates, NULL, hidden_at(w, w->now, i));
            }
        }
}

/* The cells of an LSTM, a sequence's steps in their order; behind the end they are 0. */
static void cells_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    for (int64_t i = share.begin; i < share.end; i++) {
        char *c = hidden_at(w, w->dc, i);
        get_row(w, c, a->in.c0, state_of(w, i));
        for (int64_t k = 0; k < a->s->steps; k++) {
            int64_t step = tk_rnn_step(a, k), row = row_of(w, step, i);
            if (step < tk_rnn_length(a, i))
                a->rows->lstm(&a->with, gates_at(w, row), c, hidden_at(w, w->now, i));
            get_row(w, hidden_at(w, w->cells, row), step < tk_rnn_length(a, i) ? c : NULL, 0);
        }
    }
}

static void make_gates(walk *w) {
    const tk_rnn_part *a = &w->part;
    const int64_t rows = w->rows, grain = tk_rnn_grain(a), items = grain / (a->s->steps + 1) + 1;
    bool gru = a->s->cell == TK_RNN_GRU;
    tk_parallel_for(a->q, a->s->batch, items, before_range, w);
    tk_rnn_multiply_x(a, w->gates, 0, a->s->steps);
    tk_rnn_multiply_h(a, gru ? w->behind : w->gates, w->before, rows, !gru);
    tk_parallel_for(a->q, rows, grain, gates_range, w);
    if (tk_rnn_has_inner(a->s))
        tk_rnn_multiply_rh(a, tk_rnn_at(a, w->behind, rows * 2 * a->s->hidden), w->reset, rows);
    if (gru)
        tk_parallel_for(a->q, a->s->batch, items, new_range, w);
    if (a->s->cell == TK_RNN_LSTM)
        tk_parallel_for(a->q, a->s->batch, items, cells_range, w);
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

/* Gates become gradients of sums; dh and dc those of the states before the step, but for what comes by R. */
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
            a->rows->lstm_back(&a->with, gates, hidden_at(w, w->cells, row), cell_before(w, i, hidden_at(w, w->now, i)),
                               dh, hidden_at(w, w->dc, i));
        else
            a->rows->plain_back(&a->with, gates, dh);
        memset(dh, 0, (size_t)n * a->size);
    }
}

/* Where R comes behind the reset: of_r has the gradients of r h. */
static void reset_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    for (int64_t i = share.begin; i < share.end; i++) {
        int64_t row = row_of(w, w->step, i);
        char *gates = gates_at(w, row), *of_r = hidden_at(w, w->of_r, i), *by_r = hidden_at(w, w->now, i);
        if (w->step >= tk_rnn_length(a, i))
            continue;
        a->rows->multiply(by_r, of_r, tk_rnn_at(a, gates, n), n);
        a->rows->add(hidden_at(w, w->dh, i), by_r, n);
        a->rows->multiply(by_r, of_r, hidden_at(w, w->before, row), n);
        a->rows->reset_back(&a->with, gates, by_r);
    }
}

static void walk_step(walk *w) {
    const tk_rnn_part *a = &w->part;
    const int64_t batch = a->s->batch, row = row_of(w, w->step, 0);
    bool after = a->s->cell == TK_RNN_GRU && a->s->reset_after;
    const char *sums = after ? tk_rnn_at(a, w->behind, row * a->gates) : gates_at(w, row);
    tk_parallel_for(a->q, batch, tk_rnn_grain(a), step_range, w);
    if (tk_rnn_has_inner(a->s)) {
        tk_rnn_back_rh(a, w->of_r, sums);
        tk_parallel_for(a->q, batch, tk_rnn_grain(a), reset_range, w);
    }
    tk_rnn_back_h(a, w->dh, sums);
}

static void begin(walk *w) {
    for (int64_t i = 0; i < w->part.s->batch; i++) {
        get_row(w, hidden_at(w, w->dh, i), w->back.dh, state_of(w, i));
        get_row(w, hidden_at(w, w->dc, i), w->back.dc, state_of(w, i));
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
        c->w->columns[i] = 0;
    for (int64_t row = 0; row < c->w->rows; row++)
        a->rows->add_products(c->w->columns + share.begin, tk_rnn_at(a, c->of, row * a->gates + share.begin), NULL,
                              share.end - share.begin);
}

static void put_columns(const walk *w, char *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        tk_put(to, w->part.s->dtype, i, w->columns[i]);
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

/* P's rows i and f were multiplied with c before the step, o with c behind it. */
static void peephole_gradient(walk *w) {
    const tk_rnn_part *a = &w->part;
    const int64_t n = a->s->hidden;
    memset(w->columns, 0, (size_t)a->gates * sizeof *w->columns);
    for (int64_t i = 0; i < w->rows; i++) {
        int64_t item = i % a->s->batch, row;
        w->step = i / a->s->batch;
        row = row_of(w, w->step, item);
        if (w->step >= tk_rnn_length(a, item))
            continue;
        const char *gates = gates_at(w, row), *before = cell_before(w, item, w->now);
        a->rows->add_products(w->columns, gates, before, n);
        a->rows->add_products(w->columns + n, tk_rnn_at(a, gates, n), hidden_at(w, w->cells, row), n);
        a->rows->add_products(w->columns + 2 * n, tk_rnn_at(a, gates, 2 * n), before, n);
    }
    put_columns(w, tk_rnn_at(a, w->out.dp, a->direction * 3 * n), 3 * n);
}

static void put_states(const walk *w) {
    for (int64_t i = 0; i < w->part.s->batch; i++) {
        tk_rnn_copy_row(&w->part, hidden_at(w, w->out.dh0, state_of(w, i)), hidden_at(w, w->dh, i));
        tk_rnn_copy_row(&w->part, hidden_at(w, w->out.dc0, state_of(w, i)), hidden_at(w, w->dc, i));
    }
}

static void walk_part(walk *w) {
    const tk_rnn_part *a = &w->part;
    make_gates(w);
    begin(w);
    for (int64_t k = a->s->steps; k-- > 0;) {
        w->step = tk_rnn_step(a, k);
        walk_step(w);
    }
    put_states(w);
    tk_rnn_back_weights(a, &w->out, (tk_rnn_all_rows){w->gates, w->behind, w->before, w->reset});
    if (w->out.db)
        bias_gradient(w);
    if (w->out.dp)
        peephole_gradient(w);
}

/* --- the layer -------------------------------------------------------------------------------- */

size_t tk_rnn_grad_workspace(const tk_rnn *s, int slots) {
    tk_rnn_room room = {NULL, 0, NULL};
    tk_rnn wide = tk_rnn_wide(s);
    (void)slots;
    tk_rnn_wide_operands(NULL, &room, (tk_rnn_operands){.x = NULL}, s);
    tk_rnn_wide_back(NULL, &room, (tk_rnn_back){.y = NULL}, s);
    tk_rnn_wide_gradients(&room, (tk_rnn_gradients){.dx = NULL}, s);
    walk_of(NULL, &room, (tk_rnn_gradients){.dx = NULL}, (tk_rnn_operands){.x = NULL}, (tk_rnn_back){.y = NULL}, &wide,
            0);
    return room.used;
}

void tk_rnn_grad_run(tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back, const tk_rnn *s,
                     void *workspace) {
    tk_rnn_room room = {workspace, 0, &tk_rnn_host};
    tk_rnn wide = tk_rnn_wide(s);
    if (!tk_rnn_check(q, s, in.lens))
        return;
    tk_rnn_operands wide_in = tk_rnn_wide_operands(q, &room, in, s);
    tk_rnn_back wide_given = tk_rnn_wide_back(q, &room, back, s);
    tk_rnn_gradients wide_out = tk_rnn_wide_gradients(&room, out, s);
    for (int d = 0; d < s->directions; d++) {
        tk_rnn_room rest = room;
        walk w = walk_of(q, &rest, wide_out, wide_in, wide_given, &wide, d);
        walk_part(&w);
    }
    tk_rnn_narrow_gradients(q, &room, out, wide_out, s);
}
