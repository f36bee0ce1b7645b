/* linear_loss_tmpl.h: scores [rows of a chunk, classes] -> log sum exp, loss [rows]; scores -> dscores over them.
 * A chunk's rows between the products, for one type to compute in. Set before including: T, SUFFIX. */
#include "../softmax/softmax_sums.h"

TK_VECTOR static void TK_CAT(add_row, SUFFIX)(T *z, const T *b, int64_t n) {
    for (int64_t c = 0; c < n; c++)
        z[c] += b[c];
}

TK_VECTOR static void TK_CAT(scale_row, SUFFIX)(T *z, int64_t n, T factor) {
    for (int64_t c = 0; c < n; c++)
        z[c] *= factor;
}

TK_VECTOR static void TK_CAT(subtract_row, SUFFIX)(T *z, const T *weights, int64_t n, T share) {
    for (int64_t c = 0; c < n; c++)
        z[c] -= share * (weights ? weights[c] : (T)1);
}

/* The sum of w[c] (largest - z[c]): no difference of large sums. */
TK_VECTOR static double TK_CAT(row_below, SUFFIX)(const T *z, const T *weights, int64_t n, T largest) {
    double total = 0;
#define TERM(i) ((largest - z[i]) * (weights ? weights[i] : (T)1))
    SUM_OF(total, n, TERM)
#undef TERM
    return total;
}

/* One row: its scores z become their gradient, and its loss comes back. `seed` is the factor of the row's loss where
 * nothing is reduced. */
static double TK_CAT(one_row, SUFFIX)(const walk *c, T *z, int64_t label, double seed) {
    const tk_linear_loss *s = c->shape;
    const T *weights = c->weights;
    const int64_t n = s->classes;
    if (c->bias)
        TK_CAT(add_row, SUFFIX)(z, c->bias, n);
    const T largest = TK_CAT(row_max, SUFFIX)(z, n);
    const double own = s->share * (weights ? (double)weights[label] : 1), share = s->smoothing / (double)n;
    const double of_label = (double)largest - (double)z[label];
    double scores = 0; /* of all classes: how far they are below the largest, by weights */
    if (share != 0)
        scores = TK_CAT(row_below, SUFFIX)(z, weights, n, largest);
    TK_CAT(row_exp, SUFFIX)(z, z, n, largest);
    const double sum = TK_CAT(row_sum, SUFFIX)(z, n), log_sum = log(sum), lse = (double)largest + log_sum;
    double loss = own * (of_label + log_sum), mass = own;
    if (share != 0) {
        loss += share * (scores + c->weight_sum * log_sum);
        mass += share * c->weight_sum;
    }
    if (s->square != 0) {
        loss += s->square * lse * lse;
        mass += 2 * s->square * lse;
    }
    if (!c->has_gradient)
        return loss;
    const double at_label = ((double)z[label] / sum * mass - own) * seed;
    TK_CAT(scale_row, SUFFIX)(z, n, (T)(mass / sum * seed));
    z[label] = (T)at_label;
    if (share != 0)
        TK_CAT(subtract_row, SUFFIX)(z, weights, n, (T)(share * seed));
    return loss;
}

/* sum[c] += column c of the chunk, rows in their order. */
TK_VECTOR static void TK_CAT(add_columns, SUFFIX)(double *sum, const T *z, int64_t rows, int64_t stride, int64_t n) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++)
            sum[c] += (double)z[i * stride + c];
}
#undef T
#undef SUFFIX
#undef LANES
#undef BLOCK
#undef SUM_OF
