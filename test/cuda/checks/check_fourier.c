/* check_fourier.c: transforms on the emulated device: lengths by factors and by Bluestein's way, real and complex, in
 * frames and apart. */
#include "test/unit/fourier_shapes.h"
#include "cuda_case.h"
#include <stdlib.h>

static bounds of(tk_dtype dtype) {
    return dtype == TK_F64 ? (bounds){.relative = 1e-11, .absolute = 1e-12}
                           : (bounds){.relative = 1e-5, .absolute = 1e-5, .ulps = tk_is_half(dtype) ? 1 : 0};
}

static void one(tk_dft_shape d, int64_t n, int64_t n_inp, tk_dtype dtype) {
    tk_dft_plan(&d, n);
    double *numbers = malloc((size_t)(6 * d.length + 2 * n) * sizeof *numbers);
    double *chirps = numbers + 2 * d.length, *filters = chirps + 2 * n;
    tk_dft_tables(&d, numbers, chirps, filters);
    bool direct = d.length == n;
    pair x = pair_random(dtype, n_inp, -2, 2), window = pair_random(dtype, n, 0, 1),
         y = pair_result(dtype, d.outer * d.inner * d.n_out * d.out_parts),
         roots = pair_numbers(TK_F64, 2 * d.length, numbers),
         chirp = pair_numbers(TK_F64, 2 * n, direct ? numbers : chirps),
         filter = pair_numbers(TK_F64, 2 * d.length, direct ? numbers : filters);
    for (side = HOST; side < SIDES; side++) {
        tk_dft_shape here = d;
        here.roots = AT(roots);
        here.chirp = direct ? NULL : AT(chirp);
        here.filter = direct ? NULL : AT(filter);
        tables[side]->dft(queues[side], AT(y), AT(x), d.step > 0 ? AT(window) : NULL, &here, dtype,
                          workspace(OF_TABLE(dft_workspace)(&here, 1)));
    }
    wait_for_both();
    pair_compare(y, of(dtype), "length %lld, %d parts, inverse %d", (long long)n, d.inp_parts, d.inverse);
    free(numbers);
}

static void transforms(void) {
    static const int64_t lengths[] = {1, 6, 16, 17, 26, 97};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const int64_t n = lengths[i];
            tk_dft_shape whole = complex_lanes(n);
            whole.inverse = i % 2 == 1;
            one(whole, n, 12 * n, *t);
            one(half_lanes(n), n, 12 * (n / 2 + 1), *t);
            one(real_frames(n), n, 2 * (n + 4), *t);
            pairs_give_back();
        }
}

const cuda_check checks[] = {{"transforms", transforms}, {NULL, NULL}};
