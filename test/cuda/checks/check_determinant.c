/* check_determinant.c: determinants and their gradients on the emulated device: matrices of all ranks, more of them
 * than a block has threads. */
#include "cuda_case.h"
#include <stdlib.h>

/* The device eliminates in another order than the reference, which takes each cofactor by its minor. */
static bounds of(tk_dtype dtype) {
    return dtype == TK_F64 ? (bounds){.relative = 1e-11, .absolute = 1e-11}
                           : (bounds){.relative = 1e-5, .absolute = 1e-5, .ulps = tk_is_half(dtype) ? 1 : 0};
}

/* Integers, so that every type has the same: of each matrix row k + `lack` is row k again. */
static pair matrices(tk_dtype dtype, int64_t batch, int64_t n, int64_t lack) {
    double *numbers = malloc((size_t)(batch * n * n + 1) * sizeof *numbers);
    for (int64_t i = 0; i < batch * n * n; i++) {
        int64_t row = i / n % n, from = lack > 0 && row >= n - lack ? i - (n - lack) * n : i;
        numbers[i] = (double)(from * 7919 % 11) - 5;
    }
    pair p = pair_numbers(dtype, batch * n * n, numbers);
    free(numbers);
    return p;
}

static void determinants(void) {
    static const struct {
        int64_t batch, n, lack;
    } cases[] = {{1, 1, 0}, {70, 2, 0}, {33, 3, 1}, {3, 4, 2}, {2, 5, 0}, {2, 6, 1}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const int64_t batch = cases[i].batch, n = cases[i].n;
            pair x = matrices(*t, batch, n, cases[i].lack), y = pair_result(*t, batch),
                 dy = pair_random(*t, batch, -2, 2), dx = pair_result(*t, batch * n * n);
            ON_BOTH(determinant, AT(y), AT(x), batch, n, *t, workspace(OF_TABLE(determinant_workspace)(batch, n, 1)));
            pair_compare(y, of(*t), "determinants of %lld rows", (long long)n);
            ON_BOTH(determinant_grad, AT(dx), AT(dy), AT(x), batch, n, *t,
                    workspace(OF_TABLE(determinant_workspace)(batch, n, 1)));
            pair_compare(dx, of(*t), "cofactors of %lld rows", (long long)n);
            pairs_give_back();
        }
}

const cuda_check checks[] = {{"determinants", determinants}, {NULL, NULL}};
