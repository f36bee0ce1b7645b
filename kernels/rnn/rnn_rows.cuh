/* rnn_rows.cuh: an element of a recurrent layer's state on a CUDA device: its sums, its gates, its place, with the
 * CPU's formulas (rnn_point.h). */
#ifndef TK_RNN_ROWS_CUH
#define TK_RNN_ROWS_CUH
#include "../cuda/device.cuh"
extern "C" {
#include "rnn_cuda.h"
#define T float
#define SUFFIX f32
#include "rnn_point.h"
#undef T
#undef SUFFIX
#define T double
#define SUFFIX f64
#include "rnn_point.h"
#undef T
#undef SUFFIX
}

#define TK_RNN_THREADS 256

/* Both types under one name. */
#define TK_RNN_POINTS(T, suffix)                                                                                       \
    __device__ __forceinline__ T tk_rnn_held(tk_rnn_function f, T clip, T x) {                                         \
        return rnn_apply_##suffix(f, rnn_hold_##suffix(clip, x));                                                      \
    }                                                                                                                  \
    __device__ __forceinline__ T tk_rnn_slope(tk_rnn_function f, T y) { return rnn_slope_##suffix(f, y); }             \
    __device__ __forceinline__ void tk_rnn_gru(tk_rnn_function g, T clip, T z, T r, T behind, T &fresh, T &h) {        \
        rnn_gru_point_##suffix(g, clip, z, r, behind, &fresh, &h);                                                     \
    }                                                                                                                  \
    __device__ __forceinline__ void tk_rnn_gru_back(const tk_rnn_direction &d, T &z, T &fresh, T before, T &dh) {      \
        rnn_gru_back_point_##suffix(d.f, d.g, &z, &fresh, before, &dh);                                                \
    }                                                                                                                  \
    __device__ __forceinline__ void tk_rnn_lstm_back(const tk_rnn_direction &d, const T *p, T *gates, T y, T before,   \
                                                     T dh, T &dc) {                                                    \
        rnn_lstm_back_point_##suffix(d.f, d.g, d.h, p[0], p[1], p[2], &gates[0], &gates[1], &gates[2], &gates[3], y,   \
                                     before, dh, &dc);                                                                 \
    }
TK_RNN_POINTS(float, f32)
TK_RNN_POINTS(double, f64)
#undef TK_RNN_POINTS

/* An element; 0 where there is no operand. */
template <class T> __device__ __forceinline__ T tk_rnn_get(const void *data, int64_t i) {
    return data ? ((const T *)data)[i] : T(0);
}
/* Nothing where there is no result. */
template <class T> __device__ __forceinline__ void tk_rnn_put(void *data, int64_t i, T x) {
    if (data)
        ((T *)data)[i] = x;
}

/* The rest is of a walk, of either kind, an item and an element j of its state. */

/* Steps of the item's sequence. */
template <class W> __device__ __forceinline__ int64_t tk_rnn_length(const W &w, int64_t item) {
    if (!w.part.in.lens)
        return w.s.steps;
    const int64_t length = ((const int32_t *)w.part.in.lens)[item];
    return length < 0 ? 0 : length < w.s.steps ? length : w.s.steps;
}
template <class W> __device__ __forceinline__ int64_t tk_rnn_state_at(const W &w, int64_t item, int64_t j) {
    return tk_rnn_state_row(&w.s, w.part.direction, item) * w.s.hidden + j;
}
template <class W> __device__ __forceinline__ int64_t tk_rnn_y_at(const W &w, int64_t step, int64_t item, int64_t j) {
    return tk_rnn_y_row(&w.s, step, w.part.direction, item) * w.s.hidden + j;
}

/* The bias of a sum: both biases, or, for the new state of a GRU with its reset after R, W's alone. */
template <class T, class W> __device__ __forceinline__ T tk_rnn_bias(const W &w, int gate, int64_t j) {
    const tk_rnn_part &a = w.part;
    const int64_t at = a.direction * 2 * a.gates + gate * w.s.hidden + j;
    const bool apart = w.s.cell == TK_RNN_GRU && w.s.reset_after && gate == 2;
    return apart ? tk_rnn_get<T>(a.in.b, at) : tk_rnn_get<T>(a.in.b, at) + tk_rnn_get<T>(a.in.b, at + a.gates);
}
/* R's bias, in the sum that r multiplies. */
template <class T, class W> __device__ __forceinline__ T tk_rnn_inner_bias(const W &w, int64_t j) {
    return tk_rnn_get<T>(w.part.in.b, (w.part.direction * 2 + 1) * w.part.gates + 2 * w.s.hidden + j);
}

/* The element's peepholes of i, o and f. */
template <class T, class W> __device__ __forceinline__ void tk_rnn_peepholes(const W &w, int64_t j, T (&p)[3]) {
#pragma unroll
    for (int k = 0; k < 3; k++)
        p[k] = tk_rnn_get<T>(w.part.with.p, k * w.s.hidden + j);
}

/* Sums i, o, f, g become gates; c before the step becomes c after it. Returns h. */
template <class T, class W> __device__ __forceinline__ T tk_rnn_lstm(const W &w, int64_t j, T (&gates)[4], T &c) {
    const tk_rnn_direction &d = w.part.with;
    const T clip = (T)d.clip;
    T p[3];
    tk_rnn_peepholes(w, j, p);
    if (d.p)
        gates[0] += p[0] * c, gates[2] += p[2] * c;
    gates[0] = tk_rnn_held(d.f, clip, gates[0]);
    gates[2] = tk_rnn_held(d.f, clip, gates[2]);
    gates[3] = tk_rnn_held(d.g, clip, gates[3]);
    c = gates[2] * c + gates[0] * gates[3];
    if (d.p)
        gates[1] += p[1] * c;
    gates[1] = tk_rnn_held(d.f, clip, gates[1]);
    return gates[1] * tk_rnn_held(d.h, (T)INFINITY, c);
}

/* --- launches --------------------------------------------------------------------------------- */

/* A thread for each element: POINT(walk, row, j). */
template <class W, void POINT(const W &, int64_t, int64_t)>
__global__ void __launch_bounds__(TK_RNN_THREADS) tk_rnn_for_each(const __grid_constant__ W w, int64_t rows) {
    TK_FOR_EACH(i, rows * w.s.hidden)
    POINT(w, i / w.s.hidden, i % w.s.hidden);
}
template <class W, void IN_FLOAT(const W &, int64_t, int64_t), void IN_DOUBLE(const W &, int64_t, int64_t)>
static inline void tk_rnn_launch(const W &w, int64_t rows) {
    tk_queue *q = w.part.q;
    const int64_t n = rows * w.s.hidden;
    const unsigned blocks = tk_blocks(q, n, TK_RNN_THREADS);
    if (n > 0 && w.s.dtype == TK_F64)
        TK_LAUNCH((tk_rnn_for_each<W, IN_DOUBLE>), blocks, TK_RNN_THREADS, 0, q, w, rows);
    else if (n > 0)
        TK_LAUNCH((tk_rnn_for_each<W, IN_FLOAT>), blocks, TK_RNN_THREADS, 0, q, w, rows);
}
#define TK_RNN_LAUNCH(W, point, w, rows) tk_rnn_launch<W, point<float>, point<double>>(*(w), rows)
#endif
