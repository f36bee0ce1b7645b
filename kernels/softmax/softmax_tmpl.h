/* softmax_tmpl.h: x [outer, n, inner] -> largest, sum [outer, inner] -> y [outer, n, inner].
 * The loops of softmax_cpu.c for one element type. Set before including: T, SUFFIX. Columns [first, first +
 * n) of one outer index are walked together where the axis is not the last; a single row has its own loops. */
#include "softmax_rows.h"

TK_VECTOR static double TK_CAT(row_sum_exp, SUFFIX)(const S *x, int64_t n, T largest) {
    double total = 0;
#define TERM(i) TK_EXP_OF(T)(GET(x[i]) - largest)
    SUM_OF(total, n, TERM)
#undef TERM
    return total;
}

/* row_exp and row_divide at once: exponentials in 16 bits would be rounded before they are divided. */
TK_VECTOR static void TK_CAT(row_exp_divide, SUFFIX)(S *out, const S *x, int64_t n, T largest, T sum) {
    for (int64_t i = 0; i < n; i++)
        out[i] = PUT(TK_EXP_OF(T)(GET(x[i]) - largest) / sum);
}

TK_VECTOR static void TK_CAT(row_subtract, SUFFIX)(S *out, const S *x, int64_t n, T largest, T log_sum) {
    for (int64_t i = 0; i < n; i++)
        out[i] = PUT((GET(x[i]) - largest) - log_sum);
}

TK_VECTOR static void TK_CAT(row_log_grad, SUFFIX)(S *dinp, const S *dout, const S *out, int64_t n, T sum) {
    for (int64_t i = 0; i < n; i++)
        dinp[i] = PUT(GET(dout[i]) - TK_EXP_OF(T)(GET(out[i])) * sum);
}

/* A block of columns: element (i, j) at x[i * stride + j], 0 <= j < m <= COLUMNS. */
TK_VECTOR static void TK_CAT(columns_statistics, SUFFIX)(T *largest, double *sum, const S *x, int64_t n, int64_t stride,
                                                         int64_t m) {
    for (int64_t j = 0; j < m; j++)
        largest[j] = -INFINITY, sum[j] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++)
            largest[j] = GET(x[i * stride + j]) > largest[j] ? GET(x[i * stride + j]) : largest[j];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++)
            sum[j] += (double)TK_EXP_OF(T)(GET(x[i * stride + j]) - largest[j]);
}

static void TK_CAT(statistics, SUFFIX)(T *largest, double *sum, const softmax_ctx *c, const S *x, int64_t m) {
    if (c->shape.inner == 1) {
        *largest = TK_CAT(row_max, SUFFIX)(x, c->shape.n);
        *sum = TK_CAT(row_sum_exp, SUFFIX)(x, c->shape.n, *largest);
    } else {
        TK_CAT(columns_statistics, SUFFIX)(largest, sum, x, c->shape.n, c->shape.inner, m);
    }
}

static void TK_CAT(softmax, SUFFIX)(const softmax_ctx *c, int64_t at, int64_t result, int64_t m) {
    const S *x = (const S *)c->inp + at;
    S *out = (S *)c->out + at;
    T largest[COLUMNS];
    double sum[COLUMNS];
    (void)result;
    if (c->shape.inner == 1) {
        *largest = TK_CAT(row_max, SUFFIX)(x, c->shape.n);
        if (sizeof(S) < sizeof(T)) {
            *sum = TK_CAT(row_sum_exp, SUFFIX)(x, c->shape.n, *largest);
            TK_CAT(row_exp_divide, SUFFIX)(out, x, c->shape.n, *largest, (T)*sum);
        } else {
            TK_CAT(row_exp, SUFFIX)(out, x, c->shape.n, *largest);
            TK_CAT(row_divide, SUFFIX)(out, c->shape.n, (T)TK_CAT(row_sum, SUFFIX)(out, c->shape.n));
        }
        return;
    }
    TK_CAT(columns_statistics, SUFFIX)(largest, sum, x, c->shape.n, c->shape.inner, m);
    for (int64_t i = 0; i < c->shape.n; i++)
        for (int64_t j = 0; j < m; j++)
            out[i * c->shape.inner + j] = PUT(TK_EXP_OF(T)(GET(x[i * c->shape.inner + j]) - largest[j]) / (T)sum[j]);
}

static void TK_CAT(log_softmax, SUFFIX)(const softmax_ctx *c, int64_t at, int64_t result, int64_t m) {
    const S *x = (const S *)c->inp + at;
    S *out = (S *)c->out + at;
    T largest[COLUMNS];
    double sum[COLUMNS];
    (void)result;
    TK_CAT(statistics, SUFFIX)(largest, sum, c, x, m);
    if (c->shape.inner == 1)
        TK_CAT(row_subtract, SUFFIX)(out, x, c->shape.n, *largest, (T)log(*sum));
    for (int64_t i = 0; i < c->shape.n && c->shape.inner != 1; i++)
        for (int64_t j = 0; j < m; j++)
            out[i * c->shape.inner + j] = PUT((GET(x[i * c->shape.inner + j]) - largest[j]) - (T)log(sum[j]));
}

static void TK_CAT(stats, SUFFIX)(const softmax_ctx *c, int64_t at, int64_t result, int64_t m) {
    double sum[COLUMNS];
    TK_CAT(statistics, SUFFIX)((T *)c->out + result, sum, c, (const S *)c->inp + at, m);
    for (int64_t j = 0; j < m; j++)
        ((T *)c->log_sum)[result + j] = (T)log(sum[j]);
}

static void TK_CAT(hardmax, SUFFIX)(const softmax_ctx *c, int64_t at, int64_t result, int64_t m) {
    const S *x = (const S *)c->inp + at;
    S *out = (S *)c->out + at;
    int64_t stride = c->shape.inner;
    (void)result;
    for (int64_t j = 0; j < m; j++) {
        int64_t best = 0;
        for (int64_t i = 0; i < c->shape.n; i++) {
            best = GET(x[i * stride + j]) > GET(x[best * stride + j]) ? i : best;
            out[i * stride + j] = PUT(0);
        }
        out[best * stride + j] = PUT(1);
    }
}

static void TK_CAT(softmax_grad, SUFFIX)(const softmax_ctx *c, int64_t at, int64_t result, int64_t m) {
    const S *y = (const S *)c->inp + at, *dout = (const S *)c->dout + at;
    S *dinp = (S *)c->out + at;
    int64_t n = c->shape.n, stride = c->shape.inner;
    (void)result;
    if (stride == 1)
        TK_CAT(row_grad, SUFFIX)(dinp, dout, y, n, (T)TK_CAT(row_dot, SUFFIX)(dout, y, n));
    for (int64_t j = 0; j < m && stride != 1; j++) {
        double dot = 0;
        for (int64_t i = 0; i < n; i++)
            dot += (double)(GET(dout[i * stride + j]) * GET(y[i * stride + j]));
        for (int64_t i = 0; i < n; i++)
            dinp[i * stride + j] = PUT((GET(dout[i * stride + j]) - (T)dot) * GET(y[i * stride + j]));
    }
}

static void TK_CAT(log_softmax_grad, SUFFIX)(const softmax_ctx *c, int64_t at, int64_t result, int64_t m) {
    const S *y = (const S *)c->inp + at, *dout = (const S *)c->dout + at;
    S *dinp = (S *)c->out + at;
    int64_t n = c->shape.n, stride = c->shape.inner;
    (void)result;
    if (stride == 1)
        TK_CAT(row_log_grad, SUFFIX)(dinp, dout, y, n, (T)TK_CAT(row_sum, SUFFIX)(dout, n));
    for (int64_t j = 0; j < m && stride != 1; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += (double)GET(dout[i * stride + j]);
        for (int64_t i = 0; i < n; i++)
            dinp[i * stride + j] = PUT(GET(dout[i * stride + j]) - TK_EXP_OF(T)(GET(y[i * stride + j])) * (T)sum);
    }
}
#undef T
#undef SUFFIX
#undef LANES
#undef BLOCK
#undef SUM_OF
