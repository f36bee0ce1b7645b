/* check_softmax.c: Softmax, LogSoftmax, Hardmax, their gradients and statistics on the emulated device: rows of a warp,
 * of a block and longer ones, and columns of axes that are not the last. */
#include "cuda_case.h"
#include <math.h>
#include <stdlib.h>

static const tk_softmax_shape shapes[] = {{1, 1, 1},    {3, 31, 1},   {9, 256, 1},  {5, 257, 1},
                                          {2, 1000, 1}, {2, 2056, 1}, {1, 4099, 1}, {2, 8200, 1},
                                          {2, 20, 33},  {3, 7, 2},    {1, 600, 5},  {0, 4, 1}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static bounds of(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 1}
           : dtype == TK_F64 ? (bounds){.relative = 1e-13, .absolute = 1e-13}
                             : (bounds){.relative = 1e-6, .absolute = 1e-6};
}
/* Shares of a long row are small: no absolute bound. */
static bounds of_shares(tk_dtype dtype) {
    bounds b = of(dtype);
    b.absolute = 0;
    return b;
}
/* Sums of a row with both signs. */
static bounds of_gradients(tk_dtype dtype, tk_softmax_shape s) {
    bounds b = of(dtype);
    b.absolute = dtype == TK_F64 ? 1e-12 : (double)s.n * 4e-7;
    return b;
}

static void softmax_case(tk_softmax_shape s, int64_t first, tk_dtype dtype) {
    const int64_t n = s.outer * s.n * s.inner;
    const tk_dtype wide = tk_wide(dtype);
    pair x = pair_from(pair_random(dtype, n + first, -6, 6), first),
         y = pair_from(pair_result(dtype, n + first), first),
         g = pair_from(pair_random(dtype, n + first, -2, 2), first), most = pair_result(wide, s.outer * s.inner),
         log_sum = pair_result(wide, s.outer * s.inner), again = pair_copy(x), dx = pair_result(dtype, n);
    const long long a = s.outer, b = s.n, c = s.inner;
    ON_BOTH(softmax, AT(y), AT(x), s, dtype);
    pair_compare(y, of_shares(dtype), "softmax of %lld x %lld x %lld", a, b, c);
    ON_BOTH(softmax, AT(again), AT(again), s, dtype);
    pair_same(again, y, "softmax over its operand");
    pair_share(y);
    ON_BOTH(softmax_grad, AT(dx), AT(g), AT(y), s, dtype);
    pair_compare(dx, of_gradients(dtype, s), "its gradient, %lld x %lld x %lld", a, b, c);

    ON_BOTH(softmax_statistics, AT(most), AT(log_sum), AT(x), s, dtype);
    pair_compare(most, (bounds){0}, "largest of %lld x %lld x %lld", a, b, c);
    pair_compare(log_sum, of(wide), "log of the sum of %lld x %lld x %lld", a, b, c);
    ON_BOTH(log_softmax, AT(y), AT(x), s, dtype);
    pair_compare(y, of(dtype), "log softmax of %lld x %lld x %lld", a, b, c);
    ON_BOTH(log_softmax, AT(x), AT(x), s, dtype);
    pair_same(x, y, "log softmax over its operand");
    pair_share(y);
    ON_BOTH(log_softmax_grad, AT(g), AT(g), AT(y), s, dtype);
    pair_compare(g, of_gradients(dtype, s), "log softmax's gradient over dout, %lld x %lld x %lld", a, b, c);
}

static void softmax(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < N_SHAPES; i++) {
            softmax_case(shapes[i], 0, *t);
            if (shapes[i].n % 8 == 0)
                softmax_case(shapes[i], 1, *t);
        }
}

/* Infinities and what is no number, in each place of the reductions. */
static void special(void) {
    static const double kinds[][3] = {
        {-INFINITY, -INFINITY, -INFINITY}, {-INFINITY, 1, -INFINITY}, {1, NAN, 2}, {INFINITY, 1, 2}, {-3e4, 3e4, 0}};
    static const tk_softmax_shape rows[] = {{1, 3, 1}, {1, 1500, 1}, {1, 8200, 1}, {1, 300, 2}};
    static double numbers[8200];
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                const int64_t n = rows[r].n * rows[r].inner;
                for (int64_t i = 0; i < n; i++)
                    numbers[i] = kinds[kind][i < n - 2 ? 0 : i - n + 3];
                pair x = pair_numbers(*t, n, numbers), y = pair_result(*t, n);
                ON_BOTH(softmax, AT(y), AT(x), rows[r], *t);
                pair_compare(y, of(*t), "softmax of row %d of special numbers, %lld", (int)kind, (long long)n);
                ON_BOTH(log_softmax, AT(y), AT(x), rows[r], *t);
                pair_compare(y, of(*t), "log softmax of row %d of special numbers, %lld", (int)kind, (long long)n);
                ON_BOTH(hardmax, AT(y), AT(x), rows[r], *t);
                pair_compare(y, (bounds){0}, "hardmax of row %d of special numbers, %lld", (int)kind, (long long)n);
            }
}

/* Rows with many equal elements: the first of the largest. */
static void hardmax(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < N_SHAPES; i++) {
            const tk_softmax_shape s = shapes[i];
            const int64_t n = s.outer * s.n * s.inner;
            double *numbers = malloc((size_t)(n + 1) * sizeof *numbers);
            for (int64_t k = 0; k < n; k++)
                numbers[k] = (double)(k * 7919 % 11);
            pair x = pair_numbers(*t, n, numbers), y = pair_result(*t, n);
            free(numbers);
            ON_BOTH(hardmax, AT(y), AT(x), s, *t);
            pair_compare(y, (bounds){0}, "hardmax of %lld x %lld x %lld", (long long)s.outer, (long long)s.n,
                         (long long)s.inner);
        }
}

const cuda_check checks[] = {{"softmax", softmax}, {"special", special}, {"hardmax", hardmax}, {NULL, NULL}};
