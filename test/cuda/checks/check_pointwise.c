/* check_pointwise.c: the rows of pointwise.def on the emulated device. */
#include "cuda_case.h"
#include "test/cuda/emulation/emulation_host.h"
#include <math.h>

#define LEAST 0x1p-118 /* numbers below 2^-126 may be 0 in between, and are then multiplied */
static const int64_t sizes[] = {1, 31, 257, 4099};

static bounds of(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 1, .absolute = LEAST}
           : dtype == TK_F64 ? (bounds){.relative = 1e-11, .absolute = 1e-13}
                             : (bounds){.relative = 2e-6, .absolute = 2e-7};
}

static void forward(void) {
    for (int row = 0; row < TK_POINTWISE_COUNT; row++)
        for (const tk_dtype *t = all_floats; *t; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                pair x = pair_random(*t, sizes[i] + 1, -12, 12), y = pair_result(*t, sizes[i] + 1);
                for (int64_t first = 0; first < 2; first++) { /* packed, and not */
                    pair from = pair_from(x, first), to = pair_from(y, first);
                    ON_BOTH(pointwise, (tk_pointwise_row)row, AT(to), AT(from), sizes[i], 1.25, *t);
                    to.n = sizes[i];
                    pair_compare(to, of(*t), "row %d of %lld elements", row, (long long)sizes[i]);
                }
            }
}

static void grad(void) {
    for (int row = 0; row < TK_POINTWISE_COUNT; row++)
        for (const tk_dtype *t = all_floats; *t; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                pair x = pair_random(*t, sizes[i], -12, 12), g = pair_random(*t, sizes[i], -2, 2);
                ON_BOTH(pointwise_grad, (tk_pointwise_row)row, AT(x), AT(g), AT(x), sizes[i], 1.25, *t);
                pair_compare(x, of(*t), "row %d of %lld elements, over its operand", row, (long long)sizes[i]);
            }
}

/* In one walk, over both operands; and with the bits of the two kernels one by one. */
static void both(void) {
    for (int row = 0; row < TK_POINTWISE_COUNT; row++)
        for (const tk_dtype *t = all_floats; *t; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (int64_t first = 0; first < 2; first++) {
                    const tk_pointwise_row r = (tk_pointwise_row)row;
                    const int64_t n = sizes[i];
                    pair x = pair_from(pair_random(*t, n + first, -12, 12), first);
                    pair g = pair_from(pair_random(*t, n + first, -2, 2), first);
                    pair y = pair_result(*t, n), dx = pair_result(*t, n);
                    ON_BOTH(pointwise, r, AT(y), AT(x), n, 1.25, *t);
                    ON_BOTH(pointwise_grad, r, AT(dx), AT(g), AT(x), n, 1.25, *t);
                    ON_BOTH(pointwise_both, r, AT(g), AT(x), AT(g), AT(x), n, 1.25, *t);
                    pair_compare(x, of(*t), "row %d of %lld elements, beside its gradient", row, (long long)n);
                    pair_compare(g, of(*t), "row %d of %lld elements, beside its value", row, (long long)n);
                    pair_same(x, y, "a value in one walk with its gradient");
                    pair_same(g, dx, "a gradient in one walk with its value");
                }
}

/* --- all numbers of 16 bits, against the definitions in double --------------------------------------- */

enum { ALL = 65536 };
/* Half an ulp, and what fast functions may lose (pointwise_fast.cuh): 2^-17 of a float16, 2^-15 of a bfloat16. */
#define ULPS 0.516

/* Slopes are 0 somewhere, where their terms are not. */
static void compare_all(pair y, const double *exact, const double *x, bool slopes, int row) {
    static double finite[ALL], absolute[ALL];
    for (int i = 0; i < ALL; i++) {
        absolute[i] = slopes && fabs(x[i]) < 4 ? 0x1p-21 : LEAST;
        const bool over = fabs(exact[i]) >= (y.dtype == TK_F16 ? 65520 : 0x1.ffp127);
        finite[i] = over ? copysign(INFINITY, exact[i]) : exact[i];
    }
    pair_compare_exact(y, finite, ULPS, absolute, "%s of row %d", slopes ? "slopes" : "all numbers", row);
}

static void sweep(tk_pointwise_row row, tk_dtype dtype, double alpha) {
    static uint16_t bits[ALL], ones[ALL];
    static double wide[ALL], one[ALL], exact[ALL];
    for (int i = 0; i < ALL; i++) {
        bits[i] = (uint16_t)i;
        ones[i] = dtype == TK_F16 ? 0x3c00 : 0x3f80;
        wide[i] = tk_get(bits, dtype, i);
        one[i] = 1;
    }
    pair x = pair_of(dtype, ALL, bits), g = pair_of(dtype, ALL, ones), y = pair_result(dtype, ALL);
    tables[HOST]->pointwise(queues[HOST], row, exact, wide, ALL, alpha, TK_F64);
    tables[DEVICE]->pointwise(queues[DEVICE], row, y.at[DEVICE], x.at[DEVICE], ALL, alpha, dtype);
    wait_for_both();
    compare_all(y, exact, wide, false, row);
    for (int i = 0; i < ALL; i++)
        if (isinf(wide[i])) /* times 0 in a row's slope, also on the CPU */
            bits[i] = 0, wide[i] = 0;
    x = pair_of(dtype, ALL, bits);
    tables[HOST]->pointwise_grad(queues[HOST], row, exact, one, wide, ALL, alpha, TK_F64);
    tables[DEVICE]->pointwise_grad(queues[DEVICE], row, y.at[DEVICE], g.at[DEVICE], x.at[DEVICE], ALL, alpha, dtype);
    wait_for_both();
    compare_all(y, exact, wide, true, row);
}

/* With each way in which the special function unit may err, one in each order of threads. */
static void halves(void) {
    const emu_error otherwise = emu_ex2_error;
    emu_ex2_error = emu_order == 0 ? EMU_ABOVE : emu_order == 1 ? EMU_BELOW : EMU_EITHER;
    for (int row = 0; row < TK_POINTWISE_COUNT; row++) {
        sweep((tk_pointwise_row)row, TK_F16, 1);
        sweep((tk_pointwise_row)row, TK_BF16, 1.25);
    }
    emu_ex2_error = otherwise;
}

const cuda_check checks[] = {{"forward", forward}, {"grad", grad}, {"both", both}, {"halves", halves}, {NULL, NULL}};
