/* softmax_rows.h: x [n] -> largest, sum -> y [n]; dy, y [n] -> dx [n].
 * One row of Softmax and of its gradient, for one element type, on softmax_sums.h. Set before including: T, SUFFIX. */
#include "softmax_sums.h"

TK_VECTOR static double TK_CAT(row_dot, SUFFIX)(const S *x, const S *y, int64_t n) {
    double total = 0;
#define TERM(i) (GET(x[i]) * GET(y[i]))
    SUM_OF(total, n, TERM)
#undef TERM
    return total;
}

TK_VECTOR static void TK_CAT(row_divide, SUFFIX)(S *out, int64_t n, T sum) {
    for (int64_t i = 0; i < n; i++)
        out[i] = PUT(GET(out[i]) / sum);
}

TK_VECTOR static void TK_CAT(row_grad, SUFFIX)(S *dinp, const S *dout, const S *out, int64_t n, T dot) {
    for (int64_t i = 0; i < n; i++)
        dinp[i] = PUT((GET(dout[i]) - dot) * GET(out[i]));
}
