/* rnn_cuda.c: a recurrent layer on a CUDA device, direction by direction: W x of many steps by one product, R h by one
 * at each step, of all items of the batch; between them the kernels of rnn_cuda.h. Nothing is waited for. */
#include "rnn_cuda.h"
#include "../common/cuda_queue.h"
#include "../movement/cast.h"

TK_RNN_KERNELS(TK_DECLARE_CUDA)
TK_RNN_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
TK_MATMUL_KERNELS(TK_DECLARE_CUDA)
TK_CAST_KERNELS(TK_DECLARE_CUDA)

int64_t tk_cuda_rnn_bytes = (int64_t)64 << 20;

const tk_rnn_device tk_cuda_rnn = {tk_cuda_cast, tk_cuda_product_run};

static tk_rnn_walk walk_of(tk_queue *q, tk_rnn_room *room, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s,
                           int d) {
    tk_rnn_walk w = {.s = *s, .part = tk_rnn_part_of(q, room, s, in, d), .out = out};
    int64_t batch = s->batch, gates = w.part.gates;
    w.gates = tk_rnn_take(room, tk_rnn_chunk(s, tk_cuda_rnn_bytes) * batch * gates, w.part.size);
    w.sums = tk_rnn_take(room, batch * gates, w.part.size);
    w.reset = tk_rnn_take(room, tk_rnn_has_inner(s) ? batch * s->hidden : 0, w.part.size);
    w.c = tk_rnn_take(room, batch * s->hidden, w.part.size);
    w.h = tk_rnn_take(room, batch * s->hidden, w.part.size);
    return w;
}

static void walk_step(const tk_rnn_walk *w) {
    const tk_rnn_part *a = &w->part;
    tk_rnn_multiply_h(a, w->sums, w->h, a->s->batch, false);
    tk_cuda_rnn_step(a->q, w);
    if (!tk_rnn_has_inner(a->s))
        return;
    tk_rnn_multiply_rh(a, w->sums, w->reset, a->s->batch);
    tk_cuda_rnn_reset(a->q, w);
}

/* W x of a chunk's steps, and then the steps. */
static void walk_part(tk_rnn_walk *w) {
    const tk_rnn_part *a = &w->part;
    const tk_rnn *s = a->s;
    int64_t chunk = tk_rnn_chunk(s, tk_cuda_rnn_bytes);
    tk_cuda_rnn_begin(a->q, w);
    for (int64_t at = 0; at < s->steps; at += chunk) {
        int64_t steps = s->steps - at < chunk ? s->steps - at : chunk;
        w->first = a->backward ? s->steps - at - steps : at;
        tk_rnn_multiply_x(a, w->gates, w->first, steps);
        for (int64_t i = at; i < at + steps; i++) {
            w->step = tk_rnn_step(a, i);
            walk_step(w);
        }
    }
    tk_cuda_rnn_end(a->q, w);
}

size_t tk_cuda_rnn_workspace(const tk_rnn *s, int slots) {
    tk_rnn_room room = {NULL, 0, NULL};
    tk_rnn wide = tk_rnn_wide(s);
    (void)slots;
    tk_rnn_wide_operands(NULL, &room, (tk_rnn_operands){.x = NULL}, s);
    tk_rnn_wide_results(&room, (tk_rnn_results){NULL, NULL, NULL}, s);
    walk_of(NULL, &room, (tk_rnn_results){NULL, NULL, NULL}, (tk_rnn_operands){.x = NULL}, &wide, 0);
    return room.used;
}

void tk_cuda_rnn_run(tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s, void *workspace) {
    tk_rnn_room room = {workspace, 0, &tk_cuda_rnn};
    tk_rnn wide = tk_rnn_wide(s);
    tk_cuda_rnn_check(q, s, in.lens);
    if (s->directions * s->batch * s->hidden == 0)
        return;
    tk_rnn_operands wide_in = tk_rnn_wide_operands(q, &room, in, s);
    tk_rnn_results wide_out = tk_rnn_wide_results(&room, out, s);
    for (int d = 0; d < s->directions; d++) {
        tk_rnn_room rest = room;
        tk_rnn_walk w = walk_of(q, &rest, wide_out, wide_in, &wide, d);
        walk_part(&w);
    }
    tk_rnn_narrow_results(q, &room, out, wide_out, s);
}
