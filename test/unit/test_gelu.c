/* test_gelu.c: GELU and its slope, both forms, against their definitions in double precision over all floats, and the
 * vector body against the tail. Errors are relative: also the left tail, which falls by 40 orders of magnitude, must be
 * right. */
#include "kernel_test.h"
#include "kernels/gelu/gelu.h"

enum { STEP = 4999, CHUNK = 1000 };

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Where the slope crosses 0 it is a difference of terms of 0.2: there the error is taken relative to them. */
static double floor_at(double x, int slope) { return slope && fabs(x + 0.75) < 0.25 ? 0.2 : 1e-37; }

/* Worst error relative to |exact| + floor over a sweep of the finite floats, computed in odd chunks. */
static double worst(int tanh_form, int slope) {
    float inp[CHUNK], out[CHUNK], ones[CHUNK];
    double most = 0;
    uint64_t bits = 0;
    for (int i = 0; i < CHUNK; i++)
        ones[i] = 1;
    while (bits <= UINT32_MAX) {
        int n = 0;
        for (; n < CHUNK && bits <= UINT32_MAX; bits += STEP)
            if (isfinite(float_of((uint32_t)bits)))
                inp[n++] = float_of((uint32_t)bits);
        if (slope)
            tk_gelu_grad(queue(), out, ones, inp, n, tanh_form, TK_F32);
        else
            tk_gelu(queue(), out, inp, n, tanh_form, TK_F32);
        for (int i = 0; i < n; i++) {
            double x = (double)inp[i], exact = slope ? tk_gelu_slope_ref(x, tanh_form) : tk_gelu_ref(x, tanh_form);
            if (isnan(exact)) /* the definition overflows where the result is 0 or 1 */
                exact = x > 0;
            double error = fabs((double)out[i] - exact) / (fabs(exact) + floor_at(x, slope));
            most = error > most || isnan(error) ? error : most;
        }
    }
    return most;
}

static void sweep(void **state) {
    (void)state;
    double forward = worst(0, 0), backward = worst(0, 1), forward_tanh = worst(1, 0), backward_tanh = worst(1, 1);
    print_message("gelu %.2e, slope %.2e; tanh form: gelu %.2e, slope %.2e\n", forward, backward, forward_tanh,
                  backward_tanh);
    assert_true(forward < 5e-7 && backward < 2e-6 && forward_tanh < 5e-7 && backward_tanh < 2e-6);
}

static void body_and_tail_agree(void **state) {
    (void)state;
    float inp[131], all[131], part[131];
    fill_f32(inp, 131, 5);
    for (int tanh_form = 0; tanh_form < 2; tanh_form++) {
        tk_gelu(queue(), all, inp, 131, tanh_form, TK_F32);
        for (int64_t at = 0; at < 131; at += 7) {
            int64_t n = 131 - at < 7 ? 131 - at : 7;
            tk_gelu(queue(), part, inp + at, n, tanh_form, TK_F32);
            assert_memory_equal(part, all + at, (size_t)n * sizeof(float));
        }
    }
}

static void doubles(void **state) {
    (void)state;
    for (int tanh_form = 0; tanh_form < 2; tanh_form++)
        for (double x = -9; x < 9; x += 0.37) {
            double y, dx, dy = 2;
            tk_gelu(queue(), &y, &x, 1, tanh_form, TK_F64);
            tk_gelu_grad(queue(), &dx, &dy, &x, 1, tanh_form, TK_F64);
            assert_true(fabs(y - tk_gelu_ref(x, tanh_form)) <= 1e-13 * fabs(y));
            double numeric = (tk_gelu_ref(x + 1e-5, tanh_form) - tk_gelu_ref(x - 1e-5, tanh_form)) / 2e-5;
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
