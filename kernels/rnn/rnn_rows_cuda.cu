/* rnn_rows_cuda.cu: the steps of a recurrent layer on a CUDA device, between the products of its driver: a thread has
 * an element of an item's state. */
#include "rnn_rows.cuh"

namespace {

__global__ void __launch_bounds__(TK_RNN_THREADS)
    check_lengths(const int32_t *lens, int64_t batch, int64_t steps, tk_fault_place fault) {
    TK_FOR_EACH(i, batch) {
        if (lens[i] < 0 || lens[i] > steps)
            tk_fault_set(fault, TK_BAD_VALUE);
    }
}

template <class T> __device__ __forceinline__ void begin(const tk_rnn_walk &w, int64_t item, int64_t j) {
    const int64_t at = tk_rnn_state_at(w, item, j), i = item * w.s.hidden + j;
    ((T *)w.h)[i] = tk_rnn_get<T>(w.part.in.h0, at);
    ((T *)w.c)[i] = tk_rnn_get<T>(w.part.in.c0, at);
}

template <class T> __device__ __forceinline__ void end(const tk_rnn_walk &w, int64_t item, int64_t j) {
    const int64_t at = tk_rnn_state_at(w, item, j), i = item * w.s.hidden + j;
    tk_rnn_put<T>(w.out.h, at, ((const T *)w.h)[i]);
    tk_rnn_put<T>(w.out.c, at, ((const T *)w.c)[i]);
}

/* The item's row of gates. */
template <class T> __device__ __forceinline__ T *gates_of(const tk_rnn_walk &w, int64_t item) {
    const tk_rnn_part &a = w.part;
    return (T *)w.gates + ((w.step - w.first) * a.to_step + item * a.to_item) * a.gates;
}

template <class T> __device__ __forceinline__ T gru(const tk_rnn_walk &w, int64_t item, int64_t j) {
    const int64_t n = w.s.hidden;
    const tk_rnn_direction &d = w.part.with;
    T *gates = gates_of<T>(w, item) + j, h = ((const T *)w.h)[item * n + j], g[2];
    const bool inside = !w.s.reset_after;
    const T *sums = (const T *)w.sums + item * (inside ? 2 : 3) * n + j;
#pragma unroll
    for (int k = 0; k < 2; k++)
        g[k] = tk_rnn_held(d.f, (T)d.clip, gates[k * n] + sums[k * n] + tk_rnn_bias<T>(w, k, j));
    if (inside) {
        gates[0] = g[0];
        ((T *)w.reset)[item * n + j] = g[1] * h;
        return h;
    }
    T fresh = gates[2 * n] + tk_rnn_bias<T>(w, 2, j);
    tk_rnn_gru(d.g, (T)d.clip, g[0], g[1], sums[2 * n] + tk_rnn_inner_bias<T>(w, j), fresh, h);
    return h;
}

template <class T> __device__ __forceinline__ T lstm(const tk_rnn_walk &w, int64_t item, int64_t j) {
    const int64_t n = w.s.hidden;
    const T *gates = gates_of<T>(w, item) + j, *sums = (const T *)w.sums + item * 4 * n + j;
    T g[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        g[k] = gates[k * n] + sums[k * n] + tk_rnn_bias<T>(w, k, j);
    return tk_rnn_lstm(w, j, g, ((T *)w.c)[item * n + j]);
}

template <class T> __device__ __forceinline__ T plain(const tk_rnn_walk &w, int64_t item, int64_t j) {
    const T sum = gates_of<T>(w, item)[j] + ((const T *)w.sums)[item * w.s.hidden + j] + tk_rnn_bias<T>(w, 0, j);
    return tk_rnn_held(w.part.with.f, (T)w.part.with.clip, sum);
}

template <class T> __device__ __forceinline__ void put_state(const tk_rnn_walk &w, int64_t item, int64_t j, T h) {
    ((T *)w.h)[item * w.s.hidden + j] = h;
    tk_rnn_put<T>(w.out.y, tk_rnn_y_at(w, w.step, item, j), h);
}

/* Where the item's sequence has ended its states stay, and the products of all items read 0. */
template <class T> __device__ __forceinline__ void step(const tk_rnn_walk &w, int64_t item, int64_t j) {
    const bool inside = w.s.cell == TK_RNN_GRU && !w.s.reset_after;
    if (w.step >= tk_rnn_length(w, item)) {
        tk_rnn_put<T>(w.out.y, tk_rnn_y_at(w, w.step, item, j), 0);
        if (inside)
            ((T *)w.reset)[item * w.s.hidden + j] = 0;
        return;
    }
    const T h = w.s.cell == TK_RNN_LSTM  ? lstm<T>(w, item, j)
                : w.s.cell == TK_RNN_GRU ? gru<T>(w, item, j)
                                         : plain<T>(w, item, j);
    if (!inside)
        put_state<T>(w, item, j, h);
}

template <class T> __device__ __forceinline__ void reset(const tk_rnn_walk &w, int64_t item, int64_t j) {
    const int64_t n = w.s.hidden;
    const tk_rnn_direction &d = w.part.with;
    if (w.step >= tk_rnn_length(w, item))
        return;
    const T *gates = gates_of<T>(w, item) + j;
    T fresh = gates[2 * n] + tk_rnn_bias<T>(w, 2, j) + ((const T *)w.sums)[item * n + j],
      h = ((const T *)w.h)[item * n + j];
    tk_rnn_gru(d.g, (T)d.clip, gates[0], T(0), T(0), fresh, h);
    put_state<T>(w, item, j, h);
}

#define STEP(name)                                                                                                     \
    void launch_##name(tk_rnn_walk *w) { TK_RNN_LAUNCH(tk_rnn_walk, name, w, w->s.batch); }
STEP(begin)
STEP(step)
STEP(reset)
STEP(end)

} // namespace

bool tk_cuda_rnn_check(tk_queue *q, const tk_rnn *s, const void *lens) {
    if (lens && s->batch > 0)
        TK_LAUNCH(check_lengths, tk_blocks(q, s->batch, TK_RNN_THREADS), TK_RNN_THREADS, 0, q, (const int32_t *)lens,
                  s->batch, s->steps, tk_fault_of(q));
    return true;
}

const tk_rnn_steps tk_cuda_rnn_steps = {launch_begin, launch_step, launch_reset, launch_end};
