/* rnn_grad_cuda.c: the gradient of a recurrent layer on a CUDA device, direction by direction. States before each step
 * are rows of Y, so the sums of all steps are products over all rows; then the steps backward, with a product or two
 * each, and the gradients of W, R and x as products over all rows again. Between them the kernels of rnn_cuda.h. */
#include "../common/cuda_queue.h"
#include "rnn_cuda.h"

TK_RNN_KERNELS(TK_DECLARE_CUDA)
TK_RNN_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)

static tk_rnn_walk_back walk_of(tk_queue *q, tk_rnn_room *room, tk_rnn_gradients out, tk_rnn_operands in,
                                tk_rnn_back back, const tk_rnn *s, int d) {
    tk_rnn_walk_back w = {.s = *s, .part = tk_rnn_part_of(q, room, s, in, d), .back = back, .out = out};
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

static void make_gates(const tk_rnn_walk_back *w) {
    const tk_rnn_part *a = &w->part;
    bool gru = a->s->cell == TK_RNN_GRU;
    tk_cuda_rnn_before(a->q, w);
    tk_rnn_multiply_x(a, w->gates, 0, a->s->steps);
    tk_rnn_multiply_h(a, gru ? w->behind : w->gates, w->before, w->rows, !gru);
    tk_cuda_rnn_gates(a->q, w);
    if (!tk_rnn_has_inner(a->s))
        return;
    tk_rnn_multiply_rh(a, w->inner, w->reset, w->rows);
    tk_cuda_rnn_new(a->q, w);
}

static void walk_step(const tk_rnn_walk_back *w) {
    const tk_rnn_part *a = &w->part;
    bool after = a->s->cell == TK_RNN_GRU && a->s->reset_after;
    const char *sums = tk_rnn_at(a, after ? w->behind : w->gates, w->step * a->to_step * a->gates);
    tk_cuda_rnn_step_back(a->q, w);
    if (tk_rnn_has_inner(a->s)) {
        tk_rnn_back_rh(a, w->of_r, sums);
        tk_cuda_rnn_reset_back(a->q, w);
    }
    tk_rnn_back_h(a, w->dh, sums);
}

static void walk_part(tk_rnn_walk_back *w) {
    const tk_rnn_part *a = &w->part;
    make_gates(w);
    tk_cuda_rnn_begin_back(a->q, w);
    for (int64_t k = a->s->steps; k-- > 0;) {
        w->step = tk_rnn_step(a, k);
        walk_step(w);
    }
    tk_cuda_rnn_end_back(a->q, w);
    tk_rnn_back_weights(a, &w->out, (tk_rnn_all_rows){w->gates, w->behind, w->before, w->reset});
    tk_cuda_rnn_sums_back(a->q, w);
}

size_t tk_cuda_rnn_grad_workspace(const tk_rnn *s, int slots) {
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

void tk_cuda_rnn_grad_run(tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back, const tk_rnn *s,
                          void *workspace) {
    tk_rnn_room room = {workspace, 0, &tk_cuda_rnn};
    tk_rnn wide = tk_rnn_wide(s);
    tk_cuda_rnn_check(q, s, in.lens);
    tk_rnn_operands wide_in = tk_rnn_wide_operands(q, &room, in, s);
    tk_rnn_back wide_given = tk_rnn_wide_back(q, &room, back, s);
    tk_rnn_gradients wide_out = tk_rnn_wide_gradients(&room, out, s);
    for (int d = 0; d < s->directions; d++) {
        tk_rnn_room rest = room;
        tk_rnn_walk_back w = walk_of(q, &rest, wide_out, wide_in, wide_given, &wide, d);
        walk_part(&w);
    }
    tk_rnn_narrow_gradients(q, &room, out, wide_out, s);
}
