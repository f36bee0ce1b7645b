/* test_swish.c: Swish and its slope against their definitions in double precision over all floats, for several alpha,
 * and the vector body against the tail. Errors are relative, the left tail included. */
#include "kernel_test.h"
#include "kernels/swish/swish.h"

enum { STEP = 9973, CHUNK = 1000 };
static const double alphas[] = {1, 1.75, -0.5};

/* The slope crosses 0 where alpha x = -1.2785: it is a difference of terms of 0.2 there. */
static double floor_at(double z, int slope) { return slope && fabs(z + 1.28) < 0.4 ? 0.2 : 1e-36; }

/* Worst error relative to |exact| + floor over a sweep of the floats up to 1e30. */
static double worst(double alpha, int slope) {
    float inp[CHUNK], out[CHUNK], ones[CHUNK];
    double most = 0;
    uint64_t bits = 0;
    for (int i = 0; i < CHUNK; i++)
        ones[i] = 1;
    while (bits <= UINT32_MAX) {
        int n = 0;
        for (; n < CHUNK && bits <= UINT32_MAX; bits += STEP) {
            uint32_t low = (uint32_t)bits;
            memcpy(&inp[n], &low, sizeof low);
            n += fabsf(inp[n]) < 1e30f;
        }
        if (slope)
            tk_swish_grad(queue(), out, ones, inp, n, alpha, TK_F32);
        else
            tk_swish(queue(), out, inp, n, alpha, TK_F32);
        for (int i = 0; i < n; i++) {
            double x = (double)inp[i], exact = slope ? tk_swish_slope_ref(x, alpha) : tk_swish_ref(x, alpha);
            if (isnan(exact)) /* the definition overflows where the result is 0 or 1 */
                exact = alpha * x > 0;
            double error = fabs((double)out[i] - exact) / (fabs(exact) + floor_at(alpha * x, slope));
            most = error > most || isnan(error) ? error : most;
        }
    }
    return most;
}

static void sweep(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof alphas / sizeof alphas[0]; i++) {
        double forward = worst(alphas[i], 0), backward = worst(alphas[i], 1);
        print_message("alpha %g: swish %.2e, slope %.2e\n", alphas[i], forward, backward);
        /* with alpha no power of two, alpha x rounds by 6e-8 of up to 88 in the far tail */
        double tail = alphas[i] == 1.75 ? 6e-6 : 0;
        assert_true(forward < 5e-7 + tail && backward < 1e-6 + tail);
    }
}

static void body_and_tail_agree(void **state) {
    (void)state;
    float inp[131], all[131], part[131];
    fill_f32(inp, 131, 5);
    tk_swish(queue(), all, inp, 131, 1, TK_F32);
    for (int64_t at = 0; at < 131; at += 7) {
        int64_t n = 131 - at < 7 ? 131 - at : 7;
        tk_swish(queue(), part, inp + at, n, 1, TK_F32);
        assert_memory_equal(part, all + at, (size_t)n * sizeof(float));
    }
}

static void doubles(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof alphas / sizeof alphas[0]; i++)
        for (double x = -9; x < 9; x += 0.37) {
            double y, dx, dy = 2, alpha = alphas[i];
            tk_swish(queue(), &y, &x, 1, alpha, TK_F64);
            tk_swish_grad(queue(), &dx, &dy, &x, 1, alpha, TK_F64);
            assert_true(fabs(y - tk_swish_ref(x, alpha)) <= 1e-13 * fabs(y));
            double numeric = (tk_swish_ref(x + 1e-5, alpha) - tk_swish_ref(x - 1e-5, alpha)) / 2e-5;
            assert_true(fabs(dx - 2 * numeric) < 1e-8);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweep),
        cmocka_unit_test(body_and_tail_agree),
        cmocka_unit_test(doubles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
