/* rnn_part.c: a direction of a recurrent layer (rnn_part.h). */
#include "rnn_part.h"
#include "../movement/cast.h"
#include "../queue.h"
#include <math.h>
#include <string.h>

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

tk_rnn_counts tk_rnn_count(const tk_rnn *s) {
    int64_t gates = s->directions * tk_rnn_gates(s) * s->hidden;
    return (tk_rnn_counts){.x = s->steps * s->batch * s->inputs,
                           .w = gates * s->inputs,
                           .r = gates * s->hidden,
                           .b = 2 * gates,
                           .p = s->directions * 3 * s->hidden,
                           .y = s->steps * s->directions * s->batch * s->hidden,
                           .state = s->directions * s->batch * s->hidden};
}

/* --- 16 bits ---------------------------------------------------------------------------------- */

const void *tk_rnn_widened(tk_queue *q, tk_rnn_room *room, const void *operand, int64_t count, tk_dtype dtype) {
    if (!tk_is_half(dtype))
        return operand;
    float *wide = tk_rnn_take(room, count, sizeof *wide);
    if (operand && wide)
        tk_cast(q, wide, operand, count, TK_F32, dtype);
    return operand ? wide : NULL;
}

void *tk_rnn_wide_result(tk_rnn_room *room, void *result, int64_t count, tk_dtype dtype) {
    if (!tk_is_half(dtype))
        return result;
    void *wide = tk_rnn_take(room, count, sizeof(float));
    return result ? wide : NULL;
}

void tk_rnn_narrow_result(tk_queue *q, void *result, const void *wide, int64_t count, tk_dtype dtype) {
    if (result && tk_is_half(dtype))
        tk_cast(q, result, wide, count, dtype, TK_F32);
}

tk_rnn_operands tk_rnn_wide_operands(tk_queue *q, tk_rnn_room *room, tk_rnn_operands in, const tk_rnn *s) {
    tk_rnn_counts n = tk_rnn_count(s);
    return (tk_rnn_operands){.x = tk_rnn_widened(q, room, in.x, n.x, s->dtype),
                             .w = tk_rnn_widened(q, room, in.w, n.w, s->dtype),
                             .r = tk_rnn_widened(q, room, in.r, n.r, s->dtype),
                             .b = tk_rnn_widened(q, room, in.b, n.b, s->dtype),
                             .lens = in.lens,
                             .h0 = tk_rnn_widened(q, room, in.h0, n.state, s->dtype),
                             .c0 = tk_rnn_widened(q, room, in.c0, n.state, s->dtype),
                             .p = tk_rnn_widened(q, room, in.p, n.p, s->dtype)};
}

/* --- a direction ------------------------------------------------------------------------------ */

/* What is added once: both biases where they are sums' own, else W's alone, and R's to what r is multiplied with. */
static void put_bias(tk_rnn_part *a) {
    const char *of_w = tk_rnn_at(a, a->in.b, a->direction * 2 * a->gates), *of_r = tk_rnn_at(a, of_w, a->gates);
    size_t bytes = (size_t)a->gates * a->size, inside = (size_t)a->s->hidden * a->size;
    if (!of_w) {
        memset(a->bias, 0, bytes);
        memset(a->inner, 0, inside);
        return;
    }
    bool apart = a->s->cell == TK_RNN_GRU && a->s->reset_after;
    memcpy(a->bias, of_w, bytes);
    a->rows->add(a->bias, of_r, apart ? a->gates - a->s->hidden : a->gates);
    memcpy(a->inner, of_r + bytes - inside, inside);
}

tk_rnn_part tk_rnn_part_of(tk_queue *q, tk_rnn_room *room, const tk_rnn *s, tk_rnn_operands in, int direction) {
    const tk_rnn_function *f = s->functions[direction];
    tk_rnn_part a = {.q = q, .s = s, .in = in, .direction = direction, .backward = tk_rnn_is_backward(s, direction)};
    a.size = tk_size(s->dtype);
    a.gates = tk_rnn_gates(s) * s->hidden;
    a.rows = s->dtype == TK_F64 ? &tk_rnn_rows_f64 : &tk_rnn_rows_f32;
    a.with = (tk_rnn_direction){.hidden = s->hidden,
                                .f = f[0],
                                .g = f[1],
                                .h = f[2],
                                .clip = s->clip > 0 ? s->clip : INFINITY,
                                .p = tk_rnn_at(&a, in.p, direction * 3 * s->hidden)};
    a.w = tk_rnn_at(&a, in.w, direction * a.gates * s->inputs);
    a.r = tk_rnn_at(&a, in.r, direction * a.gates * s->hidden);
    a.bias = tk_rnn_take(room, a.gates, a.size);
    a.inner = tk_rnn_take(room, s->hidden, a.size);
    a.to_item = s->batch_first ? s->steps : 1;
    a.to_step = s->batch_first ? 1 : s->batch;
    if (a.bias)
        put_bias(&a);
    return a;
}

void tk_rnn_copy_row(const tk_rnn_part *a, void *to, const void *from) {
    size_t bytes = (size_t)a->s->hidden * a->size;
    if (to && from)
        memcpy(to, from, bytes);
    else if (to)
        memset(to, 0, bytes);
}

bool tk_rnn_check(tk_queue *q, const tk_rnn *s, const void *lens) {
    for (int64_t i = 0; lens && i < s->batch; i++)
        if (((const int32_t *)lens)[i] < 0 || ((const int32_t *)lens)[i] > s->steps) {
            tk_fault(q, TK_BAD_VALUE);
            return false;
        }
    return true;
}

void tk_rnn_multiply(const tk_rnn_part *a, void *out, int64_t m, int64_t n, int64_t k, tk_rnn_matrix left,
                     tk_rnn_matrix right, double beta) {
    tk_product p = {.batch = 1,
                    .m = m,
                    .n = n,
                    .k = k,
                    .lda = left.ld,
                    .ldb = right.ld,
                    .trans_a = left.trans,
                    .trans_b = right.trans,
                    .alpha = 1,
                    .beta = beta};
    tk_product_run(a->q, out, left.data, right.data, &p, a->s->dtype, NULL);
}
