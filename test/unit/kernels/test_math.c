/* test_math.c: the float functions of kernels/common/math.h, by the kernels made of them, against the C library in
 * double precision, over a dense sweep of all floats. */
#include "kernels/common/math.h"
#include "test/unit/kernel_test.h"
#include "kernels/elementwise/elementwise.h"

static double erfc_wrapped(double t) { return erfc(t < 10.2 ? t : 10.2); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double log1p_wrapped(double x) { return log1p(x); }
static float exp_f(float x) { return tk_expf(x); }
static float log_f(float x) { return tk_logf(x); }
static float log1p_f(float x) { return tk_log1p_posf(x); }
static float tanh_f(float x) { return tk_tanhf(x); }
static float sigmoid_f(float x) { return tk_sigmoidf(x); }
static float erf_f(float x) { return tk_erff(x); }
static float erfc_f(float x) { return tk_erfc_posf(x); }

/* Worst error allowed, in ulp; erfc falls by 1e-46 over its range, and its error is that of t^2 there. */
static const struct {
    const char *name;
    float (*fn)(float);
    double (*exact)(double);
    float low, high;
    double ulp;
} functions[] = {
    {"exp", exp_f, exp, -INFINITY, INFINITY, 1.5},       {"log", log_f, log, -1, INFINITY, 1.5},
    {"log1p", log1p_f, log1p_wrapped, 0, INFINITY, 2},   {"tanh", tanh_f, tanh, -INFINITY, INFINITY, 2},
    {"sigmoid", sigmoid_f, sigmoid, -80, INFINITY, 2.5}, {"erf", erf_f, erf, -INFINITY, INFINITY, 1.5},
    {"erfc", erfc_f, erfc_wrapped, 0, 8.5f, 5},
};

TEST(sweep) {
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
        double worst = 0;
        float at = 0;
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1021) {
            float x = tk_float_of_bits((uint32_t)bits);
            if (!(x >= functions[f].low && x <= functions[f].high))
                continue;
            double u = ulps(functions[f].fn(x), functions[f].exact((double)x));
            if (u > worst)
                worst = u, at = x;
        }
        print_message("%s: worst error %.3f ulp, at %.9g\n", functions[f].name, worst, (double)at);
        assert_true(worst <= functions[f].ulp);
    }
}

TEST(special_values) {
    assert_true(isnan(tk_expf(NAN)) && isnan(tk_logf(NAN)) && isnan(tk_tanhf(NAN)) && isnan(tk_erff(NAN)) &&
                isnan(tk_sigmoidf(NAN)));
    assert_true(isnan(tk_logf(-1.0f)) && tk_logf(0.0f) == -INFINITY && tk_logf(INFINITY) == INFINITY);
    assert_true(tk_expf(-INFINITY) == 0 && tk_expf(INFINITY) == INFINITY && tk_expf(0) == 1);
    assert_true(tk_tanhf(INFINITY) == 1 && tk_tanhf(-INFINITY) == -1 && tk_erff(-INFINITY) == -1);
    assert_true(signbit(tk_tanhf(-0.0f)) && signbit(tk_erff(-0.0f)));
}

/* The vector body and the tail of a loop, and the function itself, give the same bits. */
TEST(body_and_tail_agree) {
    static const struct {
        const char *op;
        float (*fn)(float);
    } ops[] = {{"Exp", exp_f}, {"Erf", erf_f}, {"Tanh", tanh_f}, {"Log", log_f}};
    float inp[67], out[67];
    double params[TK_UNARY_PARAMS] = {0};
    for (size_t f = 0; f < sizeof ops / sizeof ops[0]; f++) {
        fill_f32(inp, 67, f);
        for (int64_t n = 1; n <= 67; n++) {
            tk_unary_run(queue(), tk_unary_find(ops[f].op, TK_F32), out, inp, n, params);
            for (int64_t i = 0; i < n; i++) {
                float one = ops[f].fn(inp[i]);
                assert_true(memcmp(&out[i], &one, sizeof one) == 0 || (isnan(one) && isnan(out[i])));
            }
        }
    }
}
