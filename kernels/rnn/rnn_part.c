/* rnn_part.c: a direction of a recurrent layer, and the workspace (rnn_part.h). */
#include "rnn_part.h"
#include <math.h>

void *tk_rnn_take(tk_rnn_room *room, int64_t count, size_t size) {
    char *at = room->begin ? room->begin + room->used : NULL;
    room->used += ((size_t)count * size + 63) / 64 * 64;
    return at;
}

tk_rnn tk_rnn_wide(const tk_rnn *s) {
    tk_rnn wide = *s;
    wide.dtype = tk_wide(s->dtype);
    return wide;
}

/* Numbers of elements. */
typedef struct counts {
    int64_t x, w, r, b, p, y, state;
} counts;

static counts count(const tk_rnn *s) {
    int64_t gates = s->directions * tk_rnn_gates(s) * s->hidden;
    return (counts){.x = s->steps * s->batch * s->inputs,
                    .w = gates * s->inputs,
                    .r = gates * s->hidden,
                    .b = 2 * gates,
                    .p = s->directions * 3 * s->hidden,
                    .y = s->steps * s->directions * s->batch * s->hidden,
                    .state = s->directions * s->batch * s->hidden};
}

/* --- 16 bits ---------------------------------------------------------------------------------- */

static const void *widened(tk_queue *q, tk_rnn_room *room, const void *operand, int64_t n, tk_dtype dtype) {
    if (!tk_is_half(dtype))
        return operand;
    float *wide = tk_rnn_take(room, n, sizeof *wide);
    if (operand && wide)
        room->on->cast(q, wide, operand, n, TK_F32, dtype);
    return operand ? wide : NULL;
}

static void *wide_result(tk_rnn_room *room, void *result, int64_t n, tk_dtype dtype) {
    if (!tk_is_half(dtype))
        return result;
    void *wide = tk_rnn_take(room, n, sizeof(float));
    return result ? wide : NULL;
}

static void narrow(tk_queue *q, const tk_rnn_room *room, void *result, const void *wide, int64_t n, tk_dtype dtype) {
    if (result && tk_is_half(dtype))
        room->on->cast(q, result, wide, n, dtype, TK_F32);
}

tk_rnn_operands tk_rnn_wide_operands(tk_queue *q, tk_rnn_room *room, tk_rnn_operands in, const tk_rnn *s) {
    counts n = count(s);
    return (tk_rnn_operands){.x = widened(q, room, in.x, n.x, s->dtype),
                             .w = widened(q, room, in.w, n.w, s->dtype),
                             .r = widened(q, room, in.r, n.r, s->dtype),
                             .b = widened(q, room, in.b, n.b, s->dtype),
                             .lens = in.lens,
                             .h0 = widened(q, room, in.h0, n.state, s->dtype),
                             .c0 = widened(q, room, in.c0, n.state, s->dtype),
                             .p = widened(q, room, in.p, n.p, s->dtype)};
}

tk_rnn_back tk_rnn_wide_back(tk_queue *q, tk_rnn_room *room, tk_rnn_back back, const tk_rnn *s) {
    counts n = count(s);
    return (tk_rnn_back){.y = widened(q, room, back.y, n.y, s->dtype),
                         .dy = widened(q, room, back.dy, n.y, s->dtype),
                         .dh = widened(q, room, back.dh, n.state, s->dtype),
                         .dc = widened(q, room, back.dc, n.state, s->dtype)};
}

tk_rnn_results tk_rnn_wide_results(tk_rnn_room *room, tk_rnn_results out, const tk_rnn *s) {
    counts n = count(s);
    return (tk_rnn_results){.y = wide_result(room, out.y, n.y, s->dtype),
                            .h = wide_result(room, out.h, n.state, s->dtype),
                            .c = wide_result(room, out.c, n.state, s->dtype)};
}

tk_rnn_gradients tk_rnn_wide_gradients(tk_rnn_room *room, tk_rnn_gradients out, const tk_rnn *s) {
    counts n = count(s);
    return (tk_rnn_gradients){.dx = wide_result(room, out.dx, n.x, s->dtype),
                              .dw = wide_result(room, out.dw, n.w, s->dtype),
                              .dr = wide_result(room, out.dr, n.r, s->dtype),
                              .db = wide_result(room, out.db, n.b, s->dtype),
                              .dh0 = wide_result(room, out.dh0, n.state, s->dtype),
                              .dc0 = wide_result(room, out.dc0, n.state, s->dtype),
                              .dp = wide_result(room, out.dp, n.p, s->dtype)};
}

void tk_rnn_narrow_results(tk_queue *q, const tk_rnn_room *room, tk_rnn_results out, tk_rnn_results wide,
                           const tk_rnn *s) {
    counts n = count(s);
    narrow(q, room, out.y, wide.y, n.y, s->dtype);
    narrow(q, room, out.h, wide.h, n.state, s->dtype);
    narrow(q, room, out.c, wide.c, n.state, s->dtype);
}

void tk_rnn_narrow_gradients(tk_queue *q, const tk_rnn_room *room, tk_rnn_gradients out, tk_rnn_gradients wide,
                             const tk_rnn *s) {
    counts n = count(s);
    narrow(q, room, out.dx, wide.dx, n.x, s->dtype);
    narrow(q, room, out.dw, wide.dw, n.w, s->dtype);
    narrow(q, room, out.dr, wide.dr, n.r, s->dtype);
    narrow(q, room, out.db, wide.db, n.b, s->dtype);
    narrow(q, room, out.dh0, wide.dh0, n.state, s->dtype);
    narrow(q, room, out.dc0, wide.dc0, n.state, s->dtype);
    narrow(q, room, out.dp, wide.dp, n.p, s->dtype);
}

/* --- a direction ------------------------------------------------------------------------------ */

int64_t tk_rnn_chunk(const tk_rnn *s, int64_t bytes) {
    int64_t row = s->batch * tk_rnn_gates(s) * s->hidden * (int64_t)tk_size(s->dtype);
    int64_t steps = row > 0 ? bytes / row : s->steps;
    steps = steps > 1 ? steps : 1;
    return s->batch_first || steps > s->steps ? s->steps : steps;
}

tk_rnn_part tk_rnn_part_of(tk_queue *q, const tk_rnn_room *room, const tk_rnn *s, tk_rnn_operands in, int direction) {
    const tk_rnn_function *f = s->functions[direction];
    tk_rnn_part a = {.q = q, .on = room->on, .s = s, .in = in, .direction = direction};
    a.backward = tk_rnn_is_backward(s, direction);
    a.size = tk_size(s->dtype);
    a.gates = tk_rnn_gates(s) * s->hidden;
    a.with = (tk_rnn_direction){.hidden = s->hidden,
                                .f = f[0],
                                .g = f[1],
                                .h = f[2],
                                .clip = s->clip > 0 ? s->clip : INFINITY,
                                .p = tk_rnn_at(&a, in.p, direction * 3 * s->hidden)};
    a.w = tk_rnn_at(&a, in.w, direction * a.gates * s->inputs);
    a.r = tk_rnn_at(&a, in.r, direction * a.gates * s->hidden);
    a.to_item = s->batch_first ? s->steps : 1;
    a.to_step = s->batch_first ? 1 : s->batch;
    return a;
}
