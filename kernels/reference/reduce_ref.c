/* reduce_ref.c: one result of every reduction by its definition. */
#include "../common/types.h"
#include "../reduce/reduce.h"
#include <math.h>

static int64_t place(int64_t index, int n, const int64_t *dims, const int64_t *strides) {
    int64_t offset = 0;
    for (int i = n - 1; i >= 0; i--) {
        offset += index % dims[i] * strides[i];
        index /= dims[i];
    }
    return offset;
}

void tk_reduce_ref(double results[TK_REDUCE_OPS], const void *inp, const tk_reduction *r, tk_dtype dtype,
                   int64_t index) {
    double sum = 0, product = 1, absolute = 0, square = 0, exponential = 0, largest = -INFINITY, smallest = INFINITY;
    int64_t base = place(index / r->inner, r->n_outer, r->outer, r->outer_strides) + index % r->inner;
    for (int64_t i = 0; i < r->n_each; i++) {
        int64_t at = base + place(i / r->run, r->n_reduced, r->reduced, r->reduced_strides) + i % r->run;
        double x = tk_get(inp, dtype, at);
        sum += x;
        product *= x;
        absolute += fabs(x);
        square += x * x;
        exponential += exp(x);
        largest = isnan(x) || isnan(largest) ? NAN : fmax(largest, x);
        smallest = isnan(x) || isnan(smallest) ? NAN : fmin(smallest, x);
    }
    results[TK_REDUCE_SUM] = sum;
    results[TK_REDUCE_MEAN] = sum / (double)r->n_each;
    results[TK_REDUCE_L1] = absolute;
    results[TK_REDUCE_L2] = sqrt(square);
    results[TK_REDUCE_SUM_SQUARE] = square;
    results[TK_REDUCE_LOG_SUM] = log(sum);
    results[TK_REDUCE_LOG_SUM_EXP] = log(exponential);
    results[TK_REDUCE_PROD] = product;
    results[TK_REDUCE_MAX] = largest;
    results[TK_REDUCE_MIN] = smallest;
}
