/* reference_rnn.c: recurrent layers as their definition reads, one sequence after the other, and the gradient by the
 * chain rule: each step's numbers are on a tape, which is read backward. */
#include "reference.h"
#include <math.h>

typedef struct run {
    const tk_rnn *s;
    tk_rnn_operands in;
    int64_t gates; /* gates hidden */
} run;

/* The results of a step of a sequence, each a block of doubles: gates after their functions, c, h, and, of a GRU, R h +
 * Rb of the new state before r is multiplied in. */
enum { I, O, F, G, CELL, STATE, BEHIND, BLOCKS };
enum { Z = 0, R = 1, N = 2 }; /* of a GRU, instead of I, O, F */

static double apply(tk_rnn_function f, double x) {
    return f == TK_RNN_TANH ? tanh(x) : f == TK_RNN_RELU ? fmax(x, 0) : 1 / (1 + exp(-x));
}

/* By the function's result. */
static double slope(tk_rnn_function f, double y) {
    return f == TK_RNN_TANH ? 1 - y * y : f == TK_RNN_RELU ? (double)(y > 0) : y * (1 - y);
}

static double get(const run *u, const void *data, int64_t i) { return data ? tk_get(data, u->s->dtype, i) : 0; }

static int64_t length_of(const run *u, int64_t item) {
    return u->in.lens ? ((const int32_t *)u->in.lens)[item] : u->s->steps;
}

/* Step number n of a sequence, as a step of the batch. */
static int64_t step_of(const run *u, int d, int64_t item, int64_t n) {
    return tk_rnn_is_backward(u->s, d) ? length_of(u, item) - 1 - n : n;
}

static double of_input(const run *u, int d, int64_t row, int64_t step, int64_t item) {
    const tk_rnn *s = u->s;
    double sum = get(u, u->in.b, d * 2 * u->gates + row);
    for (int64_t k = 0; k < s->inputs; k++)
        sum += get(u, u->in.w, (d * u->gates + row) * s->inputs + k) *
               get(u, u->in.x, tk_rnn_row(s, step, item) * s->inputs + k);
    return sum;
}

/* R times h, or r h. */
static double of_state(const run *u, int d, int64_t row, const double *h, const double *reset) {
    double sum = get(u, u->in.b, (d * 2 + 1) * u->gates + row);
    for (int64_t k = 0; k < u->s->hidden; k++)
        sum += get(u, u->in.r, (d * u->gates + row) * u->s->hidden + k) * (reset ? reset[k] * h[k] : h[k]);
    return sum;
}

static double held(const run *u, double x) {
    double clip = u->s->clip;
    return clip > 0 ? fmin(fmax(x, -clip), clip) : x;
}

static double peephole(const run *u, int d, int gate, int64_t j) {
    return get(u, u->in.p, (d * 3 + gate) * u->s->hidden + j);
}

/* One step: blocks of `to` from the states `c` and `h` before it. */
static void step(const run *u, int d, int64_t at, int64_t item, const double *c, const double *h, double *to) {
    const int64_t n = u->s->hidden;
    const tk_rnn_function *f = u->s->functions[d];
    bool gru = u->s->cell == TK_RNN_GRU, lstm = u->s->cell == TK_RNN_LSTM;
    for (int64_t j = 0; j < (gru ? 2 : 1) * n && !lstm; j++)
        to[j] = apply(f[0], held(u, of_input(u, d, j, at, item) + of_state(u, d, j, h, NULL)));
    for (int64_t j = 0; j < n && gru; j++) {
        double behind = of_state(u, d, 2 * n + j, h, u->s->reset_after ? NULL : to + R * n);
        double first = of_input(u, d, 2 * n + j, at, item);
        to[BEHIND * n + j] = behind;
        to[N * n + j] = apply(f[1], held(u, first + (u->s->reset_after ? to[R * n + j] : 1) * behind));
        to[STATE * n + j] = (1 - to[j]) * to[N * n + j] + to[j] * h[j];
    }
    for (int64_t j = 0; j < n && !gru && !lstm; j++)
        to[STATE * n + j] = to[j];
    for (int64_t j = 0; j < n && lstm; j++) {
        double s[4];
        for (int g = 0; g < 4; g++)
            s[g] = of_input(u, d, g * n + j, at, item) + of_state(u, d, g * n + j, h, NULL);
        to[I * n + j] = apply(f[0], held(u, s[0] + peephole(u, d, 0, j) * c[j]));
        to[F * n + j] = apply(f[0], held(u, s[2] + peephole(u, d, 2, j) * c[j]));
        to[G * n + j] = apply(f[1], held(u, s[3]));
        to[CELL * n + j] = to[F * n + j] * c[j] + to[I * n + j] * to[G * n + j];
        to[O * n + j] = apply(f[0], held(u, s[1] + peephole(u, d, 1, j) * to[CELL * n + j]));
        to[STATE * n + j] = to[O * n + j] * apply(f[2], to[CELL * n + j]);
    }
}

/* All steps of a sequence. Tape entry 0 has the states before the first of them. */
static void record(const run *u, int d, int64_t item, double *tape) {
    const int64_t n = u->s->hidden, entry = BLOCKS * n, at = tk_rnn_state_row(u->s, d, item) * n;
    for (int64_t j = 0; j < n; j++) {
        tape[CELL * n + j] = get(u, u->in.c0, at + j);
        tape[STATE * n + j] = get(u, u->in.h0, at + j);
    }
    for (int64_t i = 0; i < length_of(u, item); i++, tape += entry)
        step(u, d, step_of(u, d, item, i), item, tape + CELL * n, tape + STATE * n, tape + entry);
}

static tk_status check(const run *u) {
    for (int64_t i = 0; i < u->s->batch; i++)
        if (length_of(u, i) < 0 || length_of(u, i) > u->s->steps)
            return TK_BAD_VALUE;
    return TK_OK;
}

static double *room(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }

static void put(const run *u, void *to, int64_t at, const double *from) {
    for (int64_t j = 0; to && j < u->s->hidden; j++)
        tk_put(to, u->s->dtype, at * u->s->hidden + j, from ? from[j] : 0);
}

tk_status tk_rnn_ref(tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s) {
    run u = {s, in, tk_rnn_gates(s) * s->hidden};
    if (check(&u) != TK_OK)
        return TK_BAD_VALUE;
    const int64_t n = s->hidden, entry = BLOCKS * n;
    double *tape = room((s->steps + 1) * entry);
    for (int64_t i = 0; tape && i < s->directions * s->batch; i++) {
        int d = (int)(i / s->batch);
        int64_t item = i % s->batch, length = length_of(&u, item);
        const double *last = tape + length * entry;
        record(&u, d, item, tape);
        for (int64_t step = length; step < s->steps; step++)
            put(&u, out.y, tk_rnn_y_row(s, step, d, item), NULL);
        for (int64_t k = 0; k < length; k++)
            put(&u, out.y, tk_rnn_y_row(s, step_of(&u, d, item, k), d, item), tape + (k + 1) * entry + STATE * n);
        put(&u, out.h, tk_rnn_state_row(s, d, item), last + STATE * n);
        put(&u, out.c, tk_rnn_state_row(s, d, item), last + CELL * n);
    }
    free(tape);
    return tape ? TK_OK : TK_NO_MEMORY;
}

/* --- the gradient ----------------------------------------------------------------------------- */

/* Sums of all sequences, in double. */
typedef struct sums {
    double *dx, *dw, *dr, *db, *dp;
    double *tape, *dh, *dc, *of_w, *of_r, *reset; /* of a step: gradients of W x + Wb, of R h + Rb, of r h */
} sums;

/* From the gradients dh, dc of the states after a step to those of its sums, and to the part of the previous state's
 * gradient that does not pass R. */
static void step_back(const run *u, int d, const double *before, const double *now, sums *a) {
    const int64_t n = u->s->hidden;
    const tk_rnn_function *f = u->s->functions[d];
    for (int64_t j = 0; j < n && u->s->cell == TK_RNN_PLAIN; j++) {
        a->of_w[j] = a->dh[j] * slope(f[0], now[j]);
        a->dh[j] = 0;
    }
    for (int64_t j = 0; j < n && u->s->cell == TK_RNN_LSTM; j++) {
        double c = before[CELL * n + j], y = apply(f[2], now[CELL * n + j]);
        double i = now[I * n + j], o = now[O * n + j], forget = now[F * n + j], g = now[G * n + j];
        double of_o = a->dh[j] * y * slope(f[0], o);
        double dc = a->dc[j] + a->dh[j] * o * slope(f[2], y) + of_o * peephole(u, d, 1, j);
        double of_i = dc * g * slope(f[0], i), of_f = dc * c * slope(f[0], forget);
        a->of_w[I * n + j] = of_i, a->of_w[O * n + j] = of_o, a->of_w[F * n + j] = of_f;
        a->of_w[G * n + j] = dc * i * slope(f[1], g);
        a->dc[j] = dc * forget + of_i * peephole(u, d, 0, j) + of_f * peephole(u, d, 2, j);
        a->dh[j] = 0;
        a->dp[(d * 3 + 0) * n + j] += of_i * c;
        a->dp[(d * 3 + 1) * n + j] += of_o * now[CELL * n + j];
        a->dp[(d * 3 + 2) * n + j] += of_f * c;
    }
    for (int64_t j = 0; j < n && u->s->cell == TK_RNN_GRU; j++) {
        double z = now[j], new = now[N * n + j];
        a->of_w[j] = a->dh[j] * (before[STATE * n + j] - new) * slope(f[0], z);
        a->of_w[N * n + j] = a->dh[j] * (1 - z) * slope(f[1], new);
        a->dh[j] *= z;
    }
}

/* The gradient of a GRU's reset gate, and those of R h + Rb, which equal those of W x + Wb except for the new
 * state's. */
static void behind_reset(const run *u, int d, const double *before, const double *now, sums *a) {
    const int64_t n = u->s->hidden;
    for (int64_t i = 0; i < u->gates; i++)
        a->of_r[i] = a->of_w[i];
    for (int64_t j = 0; j < n && u->s->cell == TK_RNN_GRU; j++) {
        double reset = now[R * n + j], of_reset = a->of_w[N * n + j] * now[BEHIND * n + j];
        a->reset[j] = 0;
        for (int64_t k = 0; k < n && !u->s->reset_after; k++)
            a->reset[j] += a->of_w[N * n + k] * get(u, u->in.r, (d * u->gates + N * n + k) * n + j);
        if (u->s->reset_after)
            a->of_r[N * n + j] *= reset;
        else
            of_reset = a->reset[j] * before[STATE * n + j];
        a->dh[j] += a->reset[j] * reset;
        a->of_w[R * n + j] = a->of_r[R * n + j] = of_reset * slope(u->s->functions[d][0], reset);
    }
}

/* Adds a step's part to the sums of the operands' gradients. */
static void add_step(const run *u, int d, int64_t at, int64_t item, const double *before, const double *now, sums *a) {
    const tk_rnn *s = u->s;
    const int64_t n = s->hidden, x = tk_rnn_row(s, at, item) * s->inputs;
    for (int64_t i = 0; i < u->gates; i++) {
        bool inside = s->cell == TK_RNN_GRU && !s->reset_after && i >= 2 * n; /* R is multiplied with r h */
        a->db[d * 2 * u->gates + i] += a->of_w[i];
        a->db[(d * 2 + 1) * u->gates + i] += a->of_r[i];
        for (int64_t k = 0; k < s->inputs; k++) {
            a->dw[(d * u->gates + i) * s->inputs + k] += a->of_w[i] * get(u, u->in.x, x + k);
            a->dx[x + k] += a->of_w[i] * get(u, u->in.w, (d * u->gates + i) * s->inputs + k);
        }
        for (int64_t k = 0; k < n; k++) {
            double h = before[STATE * n + k];
            a->dr[(d * u->gates + i) * n + k] += a->of_r[i] * (inside ? now[R * n + k] * h : h);
            if (!inside)
                a->dh[k] += a->of_r[i] * get(u, u->in.r, (d * u->gates + i) * n + k);
        }
    }
}

static void sequence_back(const run *u, int d, int64_t item, tk_rnn_back back, sums *a) {
    const int64_t n = u->s->hidden, entry = BLOCKS * n, state = tk_rnn_state_row(u->s, d, item) * n;
    record(u, d, item, a->tape);
    for (int64_t j = 0; j < n; j++) {
        a->dh[j] = get(u, back.dh, state + j);
        a->dc[j] = get(u, back.dc, state + j);
    }
    for (int64_t i = length_of(u, item); i-- > 0;) {
        const double *before = a->tape + i * entry, *now = before + entry;
        int64_t at = step_of(u, d, item, i);
        for (int64_t j = 0; j < n; j++)
            a->dh[j] += get(u, back.dy, tk_rnn_y_row(u->s, at, d, item) * n + j);
        step_back(u, d, before, now, a);
        behind_reset(u, d, before, now, a);
        add_step(u, d, at, item, before, now, a);
    }
}

static void put_all(const run *u, void *to, const double *from, int64_t n) {
    for (int64_t i = 0; to && i < n; i++)
        tk_put(to, u->s->dtype, i, from[i]);
}

tk_status tk_rnn_grad_ref(tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back, const tk_rnn *s) {
    run u = {s, in, tk_rnn_gates(s) * s->hidden};
    if (check(&u) != TK_OK)
        return TK_BAD_VALUE;
    const int64_t n = s->hidden, x = s->steps * s->batch * s->inputs, w = s->directions * u.gates * s->inputs,
                  r = s->directions * u.gates * n, b = s->directions * 2 * u.gates, p = s->directions * 3 * n,
                  tape = (s->steps + 1) * BLOCKS * n;
    double *all = room(x + w + r + b + p + tape + 3 * n + 2 * u.gates);
    if (!all)
        return TK_NO_MEMORY;
    sums a = {.dx = all};
    a.dw = a.dx + x, a.dr = a.dw + w, a.db = a.dr + r, a.dp = a.db + b, a.tape = a.dp + p, a.dh = a.tape + tape;
    a.dc = a.dh + n, a.reset = a.dc + n, a.of_w = a.reset + n, a.of_r = a.of_w + u.gates;
    for (int64_t i = 0; i < s->directions * s->batch; i++) {
        int d = (int)(i / s->batch);
        sequence_back(&u, d, i % s->batch, back, &a);
        put(&u, out.dh0, tk_rnn_state_row(s, d, i % s->batch), a.dh);
        put(&u, out.dc0, tk_rnn_state_row(s, d, i % s->batch), a.dc);
    }
    put_all(&u, out.dx, a.dx, x);
    put_all(&u, out.dw, a.dw, w);
    put_all(&u, out.dr, a.dr, r);
    put_all(&u, out.db, a.db, b);
    put_all(&u, out.dp, a.dp, p);
    free(all);
    return TK_OK;
}

/* --- kernels ------------------------------------------------------------------------------------ */

static void note(tk_queue *q, tk_status status) {
    if (status != TK_OK)
        tk_fault(q, status);
}

void tk_reference_rnn_run(tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *rnn, void *workspace) {
    (void)workspace;
    note(q, tk_rnn_ref(out, in, rnn));
}

void tk_reference_rnn_grad_run(tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back,
                               const tk_rnn *rnn, void *workspace) {
    (void)workspace;
    note(q, tk_rnn_grad_ref(out, in, back, rnn));
}
