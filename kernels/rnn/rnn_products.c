/* rnn_products.c: the products of a recurrent layer (rnn_products.h). */
#include "rnn_products.h"

typedef struct matrix {
    const void *data;
    int64_t ld;
    bool trans;
} matrix;

/* out [m, n] = A op(B) + beta out: A [m, k], stored [k, m] where it is trans; B [k, n], stored [n, k] where it is. */
static void multiply(const tk_rnn_part *a, void *out, int64_t m, int64_t n, int64_t k, matrix left, matrix right,
                     double beta) {
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
    a->on->multiply(a->q, out, left.data, right.data, &p, a->s->dtype, NULL);
}

/* The columns of R's sums that one product makes. */
static int64_t width_of(const tk_rnn_part *a) { return tk_rnn_has_inner(a->s) ? 2 * a->s->hidden : a->gates; }
/* The rows of R that are the new state's, of a GRU. */
static const void *new_rows(const tk_rnn_part *a) { return tk_rnn_at(a, a->r, 2 * a->s->hidden * a->s->hidden); }

void tk_rnn_multiply_x(const tk_rnn_part *a, void *gates, int64_t first, int64_t steps) {
    const int64_t k = a->s->inputs, batch = a->s->batch;
    multiply(a, gates, steps * batch, a->gates, k, (matrix){tk_rnn_at(a, a->in.x, first * batch * k), k, false},
             (matrix){a->w, k, true}, 0);
}

void tk_rnn_multiply_h(const tk_rnn_part *a, void *sums, const void *h, int64_t rows, bool adds) {
    const int64_t n = a->s->hidden;
    multiply(a, sums, rows, width_of(a), n, (matrix){h, n, false}, (matrix){a->r, n, true}, adds ? 1 : 0);
}

void tk_rnn_multiply_rh(const tk_rnn_part *a, void *sums, const void *rh, int64_t rows) {
    const int64_t n = a->s->hidden;
    multiply(a, sums, rows, n, n, (matrix){rh, n, false}, (matrix){new_rows(a), n, true}, 0);
}

void tk_rnn_back_h(const tk_rnn_part *a, void *dh, const void *sums) {
    const int64_t n = a->s->hidden;
    multiply(a, dh, a->s->batch, n, width_of(a), (matrix){sums, a->to_item * a->gates, false}, (matrix){a->r, n, false},
             1);
}

void tk_rnn_back_rh(const tk_rnn_part *a, void *of_rh, const void *sums) {
    const int64_t n = a->s->hidden;
    multiply(a, of_rh, a->s->batch, n, n, (matrix){tk_rnn_at(a, sums, 2 * n), a->to_item * a->gates, false},
             (matrix){new_rows(a), n, false}, 0);
}

void tk_rnn_back_weights(const tk_rnn_part *a, const tk_rnn_gradients *out, tk_rnn_all_rows of) {
    const int64_t n = a->s->hidden, k = a->s->inputs, rows = a->s->steps * a->s->batch;
    const bool after = a->s->cell == TK_RNN_GRU && a->s->reset_after;
    char *dr = tk_rnn_at(a, out->dr, a->direction * a->gates * n);
    if (out->dx)
        multiply(a, out->dx, rows, k, a->gates, (matrix){of.gates, a->gates, false}, (matrix){a->w, k, false},
                 a->direction > 0 ? 1 : 0);
    if (out->dw)
        multiply(a, tk_rnn_at(a, out->dw, a->direction * a->gates * k), a->gates, k, rows,
                 (matrix){of.gates, a->gates, true}, (matrix){a->in.x, k, false}, 0);
    if (dr)
        multiply(a, dr, width_of(a), n, rows, (matrix){after ? of.behind : of.gates, a->gates, true},
                 (matrix){of.before, n, false}, 0);
    if (dr && tk_rnn_has_inner(a->s))
        multiply(a, tk_rnn_at(a, dr, 2 * n * n), n, n, rows, (matrix){tk_rnn_at(a, of.gates, 2 * n), a->gates, true},
                 (matrix){of.reset, n, false}, 0);
}
