/* rnn_rows_tmpl.h: gates [gates hidden], c, h [hidden] -> c, h [hidden]; back: dh, dc -> the gradients of gates. Rows
 * of gates, for one type. Set before including: T, SUFFIX. The compiler does not vectorize a loop of several functions:
 * for an LSTM each has a loop of its own. */
#include "rnn_point.h"

#define ROW(name) TK_CAT(name, SUFFIX)
#define BLOCK 256

TK_VECTOR static void ROW(add)(void *to_, const void *x_, int64_t n) {
    T *restrict to = to_;
    const T *restrict x = x_;
    for (int64_t i = 0; i < n; i++)
        to[i] += x[i];
}

TK_VECTOR static void ROW(multiply)(void *out_, const void *a_, const void *b_, int64_t n) {
    T *restrict out = out_;
    const T *restrict a = a_, *restrict b = b_;
    for (int64_t i = 0; i < n; i++)
        out[i] = a[i] * b[i];
}

#define APPLY_ALL(f)                                                                                                   \
    for (int64_t i = 0; i < n; i++)                                                                                    \
    x[i] = ROW(rnn_apply)(f, ROW(rnn_hold)(limit, x[i]))
TK_VECTOR static void ROW(apply)(void *x_, tk_rnn_function f, double clip, int64_t n) {
    T *x = x_;
    const T limit = (T)clip;
    if (f == TK_RNN_TANH)
        APPLY_ALL(TK_RNN_TANH);
    else if (f == TK_RNN_SIGMOID)
        APPLY_ALL(TK_RNN_SIGMOID);
    else
        APPLY_ALL(TK_RNN_RELU);
}
#undef APPLY_ALL

/* to += a b */
TK_VECTOR static void ROW(add_product)(T *restrict to, const T *restrict a, const T *restrict b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] += a[i] * b[i];
}

TK_VECTOR static void ROW(scale)(T *restrict to, const T *restrict by, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] *= by[i];
}

TK_VECTOR static void ROW(cell)(T *restrict c, const T *restrict forget, const T *restrict i, const T *restrict in,
                                int64_t n) {
    for (int64_t j = 0; j < n; j++)
        c[j] = forget[j] * c[j] + i[j] * in[j];
}

static void ROW(lstm)(const tk_rnn_direction *d, void *gates, void *c, void *h) {
    const int64_t n = d->hidden;
    T *i = gates, *o = i + n, *forget = o + n, *in = forget + n;
    const T *p = d->p;
    if (p) {
        ROW(add_product)(i, p, c, n);
        ROW(add_product)(forget, p + 2 * n, c, n);
    }
    ROW(apply)(i, d->f, d->clip, n);
    ROW(apply)(forget, d->f, d->clip, n);
    ROW(apply)(in, d->g, d->clip, n);
    ROW(cell)(c, forget, i, in, n);
    if (p)
        ROW(add_product)(o, p + n, c, n);
    ROW(apply)(o, d->f, d->clip, n);
    memcpy(h, c, (size_t)n * sizeof(T));
    ROW(apply)(h, d->h, INFINITY, n);
    ROW(scale)(h, o, n);
}

#define LSTM_BACK_ALL(f, g, h_of, p_i, p_o, p_f)                                                                       \
    for (int64_t j = 0; j < m; j++)                                                                                    \
        ROW(rnn_lstm_back_point)                                                                                       \
    (f, g, h_of, p_i, p_o, p_f, &i[j], &o[j], &forget[j], &in[j], y[j], before[j], dh[j], &dc[j])
/* m elements from each operand's begin; y is the function h of c after the step. */
TK_VECTOR static void ROW(lstm_back_block)(const tk_rnn_direction *d, T *gates, const T *restrict p,
                                           const T *restrict y, const T *restrict before, const T *restrict dh,
                                           T *restrict dc, int64_t m) {
    const int64_t n = d->hidden;
    T *restrict i = gates, *restrict o = i + n, *restrict forget = o + n, *restrict in = forget + n;
    if (p)
        LSTM_BACK_ALL(d->f, d->g, d->h, p[j], p[n + j], p[2 * n + j]);
    else if (d->f == TK_RNN_SIGMOID && d->g == TK_RNN_TANH && d->h == TK_RNN_TANH)
        LSTM_BACK_ALL(TK_RNN_SIGMOID, TK_RNN_TANH, TK_RNN_TANH, 0, 0, 0);
    else
        LSTM_BACK_ALL(d->f, d->g, d->h, 0, 0, 0);
}
#undef LSTM_BACK_ALL

static void ROW(lstm_back)(const tk_rnn_direction *d, void *gates, const void *c, const void *before, const void *dh,
                           void *dc) {
    T y[BLOCK];
    for (int64_t at = 0; at < d->hidden; at += BLOCK) {
        int64_t m = d->hidden - at < BLOCK ? d->hidden - at : BLOCK;
        memcpy(y, (const T *)c + at, (size_t)m * sizeof(T));
        ROW(apply)(y, d->h, INFINITY, m);
        ROW(lstm_back_block)
        (d, (T *)gates + at, d->p ? (const T *)d->p + at : NULL, y, (const T *)before + at, (const T *)dh + at,
         (T *)dc + at, m);
    }
}

#define GRU_ALL(g, behind)                                                                                             \
    for (int64_t j = 0; j < n; j++)                                                                                    \
    ROW(rnn_gru_point)(g, clip, z[j], r[j], behind, &new[j], &h[j])
TK_VECTOR static void ROW(gru)(const tk_rnn_direction *d, void *gates, const void *behind_, void *h_) {
    const int64_t n = d->hidden;
    T *restrict z = gates, *restrict r = z + n, *restrict new = r + n, *restrict h = h_;
    const T *restrict behind = behind_, clip = (T)d->clip;
    if (!behind)
        GRU_ALL(d->g, 0);
    else if (d->g == TK_RNN_TANH)
        GRU_ALL(TK_RNN_TANH, behind[j]);
    else
        GRU_ALL(d->g, behind[j]);
}
#undef GRU_ALL

#define GRU_BACK_ALL(f, g)                                                                                             \
    for (int64_t j = 0; j < n; j++)                                                                                    \
    ROW(rnn_gru_back_point)(f, g, &z[j], &new[j], before[j], &dh[j])
TK_VECTOR static void ROW(gru_back)(const tk_rnn_direction *d, void *gates, const void *before_, void *dh_) {
    const int64_t n = d->hidden;
    T *restrict z = gates, *restrict new = z + 2 * n, *restrict dh = dh_;
    const T *restrict before = before_;
    if (d->f == TK_RNN_SIGMOID && d->g == TK_RNN_TANH)
        GRU_BACK_ALL(TK_RNN_SIGMOID, TK_RNN_TANH);
    else
        GRU_BACK_ALL(d->f, d->g);
}
#undef GRU_BACK_ALL

TK_VECTOR static void ROW(reset_back)(const tk_rnn_direction *d, void *gates, const void *of_r_) {
    T *restrict r = (T *)gates + d->hidden;
    const T *restrict of_r = of_r_;
    for (int64_t j = 0; j < d->hidden; j++)
        r[j] = of_r[j] * ROW(rnn_slope)(d->f, r[j]);
}

TK_VECTOR static void ROW(plain_back)(const tk_rnn_direction *d, void *gates_, const void *dh_) {
    T *restrict gates = gates_;
    const T *restrict dh = dh_;
    for (int64_t j = 0; j < d->hidden; j++)
        gates[j] = dh[j] * ROW(rnn_slope)(d->f, gates[j]);
}

TK_VECTOR static void ROW(add_products)(double *restrict sum, const void *a_, const void *b_, int64_t n) {
    const T *restrict a = a_, *restrict b = b_;
    for (int64_t i = 0; i < n && b; i++)
        sum[i] += (double)a[i] * (double)b[i];
    for (int64_t i = 0; i < n && !b; i++)
        sum[i] += (double)a[i];
}

const tk_rnn_rows ROW(tk_rnn_rows) = {ROW(add), ROW(apply),    ROW(multiply),   ROW(lstm),       ROW(lstm_back),
                                      ROW(gru), ROW(gru_back), ROW(reset_back), ROW(plain_back), ROW(add_products)};
#undef ROW
#undef BLOCK
#undef T
#undef SUFFIX
