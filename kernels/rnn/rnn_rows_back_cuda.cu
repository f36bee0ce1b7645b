/* rnn_rows_back_cuda.cu: the gradient of a recurrent layer on a CUDA device, between the products of its driver: gates
 * of all rows recomputed, the steps backward, a thread for an element of an item's state; and sums over rows. */
#include "../cuda/column.cuh"
#include "rnn_rows.cuh"

namespace {

typedef tk_rnn_walk_back walk;

/* --- rows ------------------------------------------------------------------------------------- */

/* The row of a step and an item, in rows of gates, and back. */
__device__ __forceinline__ int64_t row_of(const walk &w, int64_t step, int64_t item) {
    return step * w.part.to_step + item * w.part.to_item;
}
__device__ __forceinline__ void place_of(const walk &w, int64_t row, int64_t *step, int64_t *item) {
    const int64_t by = w.s.batch_first ? w.s.steps : w.s.batch;
    *step = w.s.batch_first ? row % by : row / by;
    *item = w.s.batch_first ? row / by : row % by;
}

/* Whether the step is the first one of the item's sequence; the step before it, in the order of the walk. */
__device__ __forceinline__ bool is_first(const walk &w, int64_t step, int64_t item) {
    return step == (w.part.backward ? tk_rnn_length(w, item) - 1 : 0);
}
__device__ __forceinline__ int64_t step_before(const walk &w, int64_t step) {
    return w.part.backward ? step + 1 : step - 1;
}

/* c before a step of the sequence. */
template <class T> __device__ __forceinline__ T cell_before(const walk &w, int64_t step, int64_t item, int64_t j) {
    return is_first(w, step, item) ? tk_rnn_get<T>(w.part.in.c0, tk_rnn_state_at(w, item, j))
                                   : ((const T *)w.cells)[row_of(w, step_before(w, step), item) * w.s.hidden + j];
}

/* --- forward, recomputed ---------------------------------------------------------------------- */

template <class T> __device__ __forceinline__ void before(const walk &w, int64_t row, int64_t j) {
    int64_t step, item;
    place_of(w, row, &step, &item);
    T h = 0;
    if (step < tk_rnn_length(w, item))
        h = is_first(w, step, item) ? tk_rnn_get<T>(w.part.in.h0, tk_rnn_state_at(w, item, j))
                                    : ((const T *)w.back.y)[tk_rnn_y_at(w, step_before(w, step), item, j)];
    ((T *)w.before)[row * w.s.hidden + j] = h;
}

template <class T> __device__ __forceinline__ void plain_gates(const walk &w, int64_t row, int64_t j) {
    T &gate = ((T *)w.gates)[row * w.s.hidden + j];
    gate = tk_rnn_held(w.part.with.f, (T)w.part.with.clip, gate + tk_rnn_bias<T>(w, 0, j));
}

/* After a sequence's end r h is 0, as h is. */
template <class T> __device__ __forceinline__ void gru_gates(const walk &w, int64_t row, int64_t j) {
    const int64_t n = w.s.hidden;
    const tk_rnn_direction &d = w.part.with;
    const bool inside = !w.s.reset_after;
    T *gates = (T *)w.gates + row * 3 * n + j, *behind = (T *)w.behind + row * (inside ? 2 : 3) * n + j;
    T h = ((const T *)w.before)[row * n + j];
#pragma unroll
    for (int k = 0; k < 2; k++)
        gates[k * n] = tk_rnn_held(d.f, (T)d.clip, gates[k * n] + tk_rnn_bias<T>(w, k, j) + behind[k * n]);
    gates[2 * n] += tk_rnn_bias<T>(w, 2, j);
    if (inside) {
        ((T *)w.reset)[row * n + j] = gates[n] * h;
        return;
    }
    behind[2 * n] += tk_rnn_inner_bias<T>(w, j);
    tk_rnn_gru(d.g, (T)d.clip, gates[0], gates[n], behind[2 * n], gates[2 * n], h);
}

template <class T> __device__ __forceinline__ void new_state(const walk &w, int64_t row, int64_t j) {
    const int64_t n = w.s.hidden;
    T *gates = (T *)w.gates + row * 3 * n + j, unused = 0;
    gates[2 * n] += ((const T *)w.inner)[row * n + j];
    tk_rnn_gru(w.part.with.g, (T)w.part.with.clip, gates[0], T(0), T(0), gates[2 * n], unused);
}

/* Gates and cells of an LSTM, a sequence's steps in their order; after the end cells are 0. */
template <class T> __device__ __forceinline__ void lstm_gates(const walk &w, int64_t item, int64_t j) {
    const int64_t n = w.s.hidden, length = tk_rnn_length(w, item);
    T c = tk_rnn_get<T>(w.part.in.c0, tk_rnn_state_at(w, item, j));
    for (int64_t k = 0; k < w.s.steps; k++) {
        const int64_t step = w.part.backward ? w.s.steps - 1 - k : k, row = row_of(w, step, item);
        T *gates = (T *)w.gates + row * 4 * n + j, g[4];
        if (step < length) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                g[i] = gates[i * n] + tk_rnn_bias<T>(w, i, j);
            tk_rnn_lstm(w, j, g, c);
#pragma unroll
            for (int i = 0; i < 4; i++)
                gates[i * n] = g[i];
        }
        ((T *)w.cells)[row * n + j] = step < length ? c : T(0);
    }
}

/* --- backward --------------------------------------------------------------------------------- */

template <class T> __device__ __forceinline__ void begin_back(const walk &w, int64_t item, int64_t j) {
    const int64_t at = tk_rnn_state_at(w, item, j), i = item * w.s.hidden + j;
    ((T *)w.dh)[i] = tk_rnn_get<T>(w.back.dh, at);
    ((T *)w.dc)[i] = tk_rnn_get<T>(w.back.dc, at);
}

template <class T> __device__ __forceinline__ void end_back(const walk &w, int64_t item, int64_t j) {
    const int64_t at = tk_rnn_state_at(w, item, j), i = item * w.s.hidden + j;
    tk_rnn_put<T>(w.out.dh0, at, ((const T *)w.dh)[i]);
    tk_rnn_put<T>(w.out.dc0, at, ((const T *)w.dc)[i]);
}

template <class T>
__device__ __forceinline__ void lstm_back(const walk &w, int64_t row, int64_t item, int64_t j, T dh, T &dc) {
    const int64_t n = w.s.hidden;
    const T y = tk_rnn_held(w.part.with.h, (T)INFINITY, ((const T *)w.cells)[row * n + j]);
    T *gates = (T *)w.gates + row * 4 * n + j, g[4], p[3];
#pragma unroll
    for (int k = 0; k < 4; k++)
        g[k] = gates[k * n];
    tk_rnn_peepholes(w, j, p);
    tk_rnn_lstm_back(w.part.with, p, g, y, cell_before<T>(w, w.step, item, j), dh, dc);
#pragma unroll
    for (int k = 0; k < 4; k++)
        gates[k * n] = g[k];
}

/* The gradients of R h + Rb are those of W x + Wb, but for the new state's. */
template <class T> __device__ __forceinline__ void gru_back(const walk &w, int64_t row, int64_t j, T &dh) {
    const int64_t n = w.s.hidden;
    T *gates = (T *)w.gates + row * 3 * n + j;
    tk_rnn_gru_back(w.part.with, gates[0], gates[2 * n], ((const T *)w.before)[row * n + j], dh);
    if (!w.s.reset_after)
        return;
    T *behind = (T *)w.behind + row * 3 * n + j;
    const T r = gates[n], of_r = gates[2 * n] * behind[2 * n];
    behind[2 * n] = gates[2 * n] * r;
    gates[n] = of_r * tk_rnn_slope(w.part.with.f, r);
    behind[0] = gates[0];
    behind[n] = gates[n];
}

/* Where the item's sequence has ended, sums have no gradients. */
template <class T> __device__ __forceinline__ void step_back(const walk &w, int64_t item, int64_t j) {
    const int64_t n = w.s.hidden, row = row_of(w, w.step, item);
    T *gates = (T *)w.gates + row * w.part.gates + j;
    if (w.step >= tk_rnn_length(w, item)) {
        for (int64_t k = 0; k < w.part.gates; k += n) {
            gates[k] = 0;
            if (w.s.cell == TK_RNN_GRU && w.s.reset_after)
                ((T *)w.behind)[row * w.part.gates + k + j] = 0;
        }
        return;
    }
    T dh = ((const T *)w.dh)[item * n + j] + tk_rnn_get<T>(w.back.dy, tk_rnn_y_at(w, w.step, item, j));
    if (w.s.cell == TK_RNN_LSTM)
        lstm_back<T>(w, row, item, j, dh, ((T *)w.dc)[item * n + j]);
    else if (w.s.cell == TK_RNN_GRU)
        gru_back<T>(w, row, j, dh);
    else
        gates[0] = dh * tk_rnn_slope(w.part.with.f, gates[0]);
    ((T *)w.dh)[item * n + j] = w.s.cell == TK_RNN_GRU ? dh : T(0);
}

template <class T> __device__ __forceinline__ void reset_back(const walk &w, int64_t item, int64_t j) {
    const int64_t n = w.s.hidden, row = row_of(w, w.step, item);
    if (w.step >= tk_rnn_length(w, item))
        return;
    T &r = ((T *)w.gates)[row * 3 * n + n + j];
    const T of_r = ((const T *)w.of_r)[item * n + j];
    ((T *)w.dh)[item * n + j] += of_r * r;
    r = of_r * ((const T *)w.before)[row * n + j] * tk_rnn_slope(w.part.with.f, r);
}

/* --- sums over rows --------------------------------------------------------------------------- */

/* A row's term of a column of the biases' gradient, and of one of the peepholes': i and f were multiplied with c before
 * the step, o with c after it. */
template <class T> struct of_bias {
    static __device__ __forceinline__ double term(const walk &w, const T *gates, int64_t row, int64_t column) {
        return (double)gates[row * w.part.gates + column];
    }
};
template <class T> struct of_peephole {
    static __device__ __forceinline__ double term(const walk &w, const T *gates, int64_t row, int64_t column) {
        const int64_t n = w.s.hidden, j = column % n;
        int64_t step, item;
        place_of(w, row, &step, &item);
        if (step >= tk_rnn_length(w, item))
            return 0;
        const T c = column / n == 1 ? ((const T *)w.cells)[row * n + j] : cell_before<T>(w, step, item, j);
        return (double)gates[row * w.part.gates + column] * (double)c;
    }
};

/* also: a second place of the sums, or NULL. */
template <class T, class TERM>
__global__ void __launch_bounds__(TK_COLUMN_THREADS)
    add_rows(const __grid_constant__ walk w, T *out, T *also, const T *gates, int64_t columns) {
    __shared__ double room[TK_COLUMN_THREADS];
    TK_FOR_EACH_TILE(tile, 1, columns) {
        const tk_column at = tk_column_of(tile, columns);
        double sum = 0;
        if (at.is_one)
            for (int64_t row = threadIdx.y; row < w.rows; row += blockDim.y)
                sum += TERM::term(w, gates, row, at.inner);
        sum = tk_column_reduce(sum, room, tk_plus());
        if (threadIdx.y == 0 && at.is_one) {
            out[at.inner] = (T)sum;
            if (also)
                also[at.inner] = (T)sum;
        }
    }
}

template <class T, class TERM> void launch_sums(const walk *w, T *out, T *also, const void *gates, int64_t columns) {
    if (columns > 0)
        TK_LAUNCH((add_rows<T, TERM>), tk_column_blocks(1, columns), tk_column_block(columns), 0, w->part.q, *w, out,
                  also, (const T *)gates, columns);
}

template <class T> void sums_back(const walk *w) {
    const tk_rnn_part *a = &w->part;
    const bool after = w->s.cell == TK_RNN_GRU && w->s.reset_after;
    T *db = (T *)tk_rnn_at(a, w->out.db, a->direction * 2 * a->gates),
      *dp = (T *)tk_rnn_at(a, w->out.dp, a->direction * 3 * w->s.hidden);
    if (db)
        launch_sums<T, of_bias<T>>(w, db, after ? nullptr : db + a->gates, w->gates, a->gates);
    if (db && after)
        launch_sums<T, of_bias<T>>(w, db + a->gates, nullptr, w->behind, a->gates);
    if (dp)
        launch_sums<T, of_peephole<T>>(w, dp, nullptr, w->gates, 3 * w->s.hidden);
}

void gates(walk *w) {
    if (w->s.cell == TK_RNN_LSTM)
        TK_RNN_LAUNCH(walk, lstm_gates, w, w->s.batch);
    else if (w->s.cell == TK_RNN_GRU)
        TK_RNN_LAUNCH(walk, gru_gates, w, w->rows);
    else
        TK_RNN_LAUNCH(walk, plain_gates, w, w->rows);
}

void sums(walk *w) { (w->s.dtype == TK_F64 ? sums_back<double> : sums_back<float>)(w); }

#define STEP(name, rows)                                                                                               \
    void launch_##name(walk *w) { TK_RNN_LAUNCH(walk, name, w, rows); }
STEP(before, w->rows)
STEP(new_state, w->rows)
STEP(begin_back, w->s.batch)
STEP(step_back, w->s.batch)
STEP(reset_back, w->s.batch)
STEP(end_back, w->s.batch)

} // namespace

const tk_rnn_back_steps tk_cuda_rnn_back_steps = {
    launch_before,   gates, launch_new_state, launch_begin_back, launch_step_back, launch_reset_back,
    launch_end_back, sums};
