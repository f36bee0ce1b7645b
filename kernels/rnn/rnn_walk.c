/* rnn_walk.c: the driver of recurrent layers (rnn_walk.h), direction by direction. Forward, W x of many steps is one
 * product and R h one at each step, of all items of the batch. Backward, states before each step are rows of Y, so the
 * sums of all steps are products over all rows; then the steps, with a product or two each; and the gradients of W, R
 * and x are products over all rows again. */
#include "rnn_walk.h"

static tk_rnn_part part_of(tk_queue *q, tk_rnn_room *room, const tk_rnn *s, tk_rnn_operands in, int d, bool back) {
    tk_rnn_part part = tk_rnn_part_of(q, room, s, in, d);
    if (room->on->take)
        room->on->take(room, &part, back);
    return part;
}

/* --- forward ---------------------------------------------------------------------------------- */

static tk_rnn_walk walk_of(tk_queue *q, tk_rnn_room *room, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s,
                           int d) {
    tk_rnn_walk w = {.s = *s, .part = part_of(q, room, s, in, d, false), .out = out};
    int64_t batch = s->batch, gates = w.part.gates;
    w.gates = tk_rnn_take(room, tk_rnn_chunk(s, *room->on->chunk_bytes) * batch * gates, w.part.size);
    w.sums = tk_rnn_take(room, batch * gates, w.part.size);
    w.reset = tk_rnn_take(room, tk_rnn_has_inner(s) ? batch * s->hidden : 0, w.part.size);
    w.c = tk_rnn_take(room, batch * s->hidden, w.part.size);
    w.h = tk_rnn_take(room, batch * s->hidden, w.part.size);
    return w;
}

static void walk_step(tk_rnn_walk *w) {
    const tk_rnn_part *a = &w->part;
    tk_rnn_multiply_h(a, w->sums, w->h, a->s->batch, false);
    a->on->steps->step(w);
    if (!tk_rnn_has_inner(a->s))
        return;
    tk_rnn_multiply_rh(a, w->sums, w->reset, a->s->batch);
    a->on->steps->reset(w);
}

/* W x of a chunk's steps, and then the steps. */
static void walk_part(tk_rnn_walk *w) {
    const tk_rnn_part *a = &w->part;
    const tk_rnn *s = a->s;
    int64_t chunk = tk_rnn_chunk(s, *a->on->chunk_bytes);
    a->on->steps->begin(w);
    for (int64_t at = 0; at < s->steps; at += chunk) {
        int64_t steps = s->steps - at < chunk ? s->steps - at : chunk;
        w->first = a->backward ? s->steps - at - steps : at;
        tk_rnn_multiply_x(a, w->gates, w->first, steps);
        for (int64_t i = at; i < at + steps; i++) {
            w->step = tk_rnn_step(a, i);
            walk_step(w);
        }
    }
    a->on->steps->end(w);
}

/* Returns the bytes that it takes. q NULL: this is all that it does. */
static size_t layer(tk_rnn_room room, tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s) {
    tk_rnn wide = tk_rnn_wide(s);
    tk_rnn_operands wide_in = tk_rnn_wide_operands(q, &room, in, s);
    tk_rnn_results wide_out = tk_rnn_wide_results(&room, out, s);
    size_t bytes = room.used;
    for (int d = 0; d < s->directions; d++) {
        tk_rnn_room rest = room;
        tk_rnn_walk w = walk_of(q, &rest, wide_out, wide_in, &wide, d);
        bytes = rest.used;
        if (q)
            walk_part(&w);
    }
    if (q)
        tk_rnn_narrow_results(q, &room, out, wide_out, s);
    return bytes;
}

size_t tk_rnn_workspace_on(const tk_rnn_device *on, const tk_rnn *s) {
    return layer((tk_rnn_room){NULL, 0, on}, NULL, (tk_rnn_results){NULL, NULL, NULL}, (tk_rnn_operands){.x = NULL}, s);
}

void tk_rnn_run_on(const tk_rnn_device *on, tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s,
                   void *workspace) {
    if (on->check(q, s, in.lens) && s->directions * s->batch * s->hidden > 0)
        layer((tk_rnn_room){workspace, 0, on}, q, out, in, s);
}

/* --- backward --------------------------------------------------------------------------------- */

static tk_rnn_walk_back walk_back_of(tk_queue *q, tk_rnn_room *room, tk_rnn_gradients out, tk_rnn_operands in,
                                     tk_rnn_back back, const tk_rnn *s, int d) {
    tk_rnn_walk_back w = {.s = *s, .part = part_of(q, room, s, in, d, true), .back = back, .out = out};
    size_t size = w.part.size;
    bool gru = s->cell == TK_RNN_GRU, inside = tk_rnn_has_inner(s);
    int64_t n = s->hidden, each = s->batch * n, rows = s->steps * s->batch;
    w.rows = rows;
    w.gates = tk_rnn_take(room, rows * w.part.gates, size);
    w.before = tk_rnn_take(room, rows * n, size);
    w.cells = tk_rnn_take(room, s->cell == TK_RNN_LSTM ? rows * n : 0, size);
    w.behind = tk_rnn_take(room, gru ? rows * (inside ? 2 : 3) * n : 0, size);
    w.inner = tk_rnn_take(room, inside ? rows * n : 0, size);
    w.reset = tk_rnn_take(room, inside ? rows * n : 0, size);
    w.dh = tk_rnn_take(room, each, size);
    w.dc = tk_rnn_take(room, each, size);
    w.of_r = tk_rnn_take(room, inside ? each : 0, size);
    return w;
}

static void make_gates(tk_rnn_walk_back *w) {
    const tk_rnn_part *a = &w->part;
    bool gru = a->s->cell == TK_RNN_GRU;
    a->on->back_steps->before(w);
    tk_rnn_multiply_x(a, w->gates, 0, a->s->steps);
    tk_rnn_multiply_h(a, gru ? w->behind : w->gates, w->before, w->rows, !gru);
    a->on->back_steps->gates(w);
    if (!tk_rnn_has_inner(a->s))
        return;
    tk_rnn_multiply_rh(a, w->inner, w->reset, w->rows);
    a->on->back_steps->new_state(w);
}

static void walk_step_back(tk_rnn_walk_back *w) {
    const tk_rnn_part *a = &w->part;
    bool after = a->s->cell == TK_RNN_GRU && a->s->reset_after;
    const char *sums = tk_rnn_at(a, after ? w->behind : w->gates, w->step * a->to_step * a->gates);
    a->on->back_steps->step(w);
    if (tk_rnn_has_inner(a->s)) {
        tk_rnn_back_rh(a, w->of_r, sums);
        a->on->back_steps->reset(w);
    }
    tk_rnn_back_h(a, w->dh, sums);
}

static void walk_part_back(tk_rnn_walk_back *w) {
    const tk_rnn_part *a = &w->part;
    make_gates(w);
    a->on->back_steps->begin(w);
    for (int64_t k = a->s->steps; k-- > 0;) {
        w->step = tk_rnn_step(a, k);
        walk_step_back(w);
    }
    a->on->back_steps->end(w);
    tk_rnn_back_weights(a, &w->out, (tk_rnn_all_rows){w->gates, w->behind, w->before, w->reset});
    a->on->back_steps->sums(w);
}

/* Returns bytes, as `layer` does. */
static size_t gradient(tk_rnn_room room, tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back,
                       const tk_rnn *s) {
    tk_rnn wide = tk_rnn_wide(s);
    tk_rnn_operands wide_in = tk_rnn_wide_operands(q, &room, in, s);
    tk_rnn_back wide_given = tk_rnn_wide_back(q, &room, back, s);
    tk_rnn_gradients wide_out = tk_rnn_wide_gradients(&room, out, s);
    size_t bytes = room.used;
    for (int d = 0; d < s->directions; d++) {
        tk_rnn_room rest = room;
        tk_rnn_walk_back w = walk_back_of(q, &rest, wide_out, wide_in, wide_given, &wide, d);
        bytes = rest.used;
        if (q)
            walk_part_back(&w);
    }
    if (q)
        tk_rnn_narrow_gradients(q, &room, out, wide_out, s);
    return bytes;
}

size_t tk_rnn_grad_workspace_on(const tk_rnn_device *on, const tk_rnn *s) {
    return gradient((tk_rnn_room){NULL, 0, on}, NULL, (tk_rnn_gradients){.dx = NULL}, (tk_rnn_operands){.x = NULL},
                    (tk_rnn_back){.y = NULL}, s);
}

void tk_rnn_grad_run_on(const tk_rnn_device *on, tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in,
                        tk_rnn_back back, const tk_rnn *s, void *workspace) {
    if (on->check(q, s, in.lens))
        gradient((tk_rnn_room){workspace, 0, on}, q, out, in, back, s);
}
