/* elementwise_ref.c: the unary and binary ops as ONNX defines them, on one element in double precision. The tests
 * compare with them. */
#include "../elementwise/elementwise.h"
#include <math.h>
#include <string.h>

#define PARAMS_1 double x, const double *p
static double neg(PARAMS_1) {
    (void)p;
    return -x;
}
static double sign(PARAMS_1) {
    (void)p;
    return x > 0 ? 1 : x < 0 ? -1 : x;
}
static double reciprocal(PARAMS_1) {
    (void)p;
    return 1 / x;
}
static double sigmoid(PARAMS_1) {
    (void)p;
    return 1 / (1 + exp(-x));
}
static double relu(PARAMS_1) {
    (void)p;
    return fmax(x, 0);
}
static double leaky_relu(PARAMS_1) { return x < 0 ? p[0] * x : x; }
static double thresholded_relu(PARAMS_1) { return x > p[0] ? x : 0; }
static double elu(PARAMS_1) { return x < 0 ? p[0] * (exp(x) - 1) : x; }
static double selu(PARAMS_1) { return x <= 0 ? p[1] * (p[0] * exp(x) - p[0]) : p[1] * x; }
static double celu(PARAMS_1) { return fmax(0, x) + fmin(0, p[0] * (exp(x / p[0]) - 1)); }
static double softplus(PARAMS_1) {
    (void)p;
    return x > 40 ? x : log1p(exp(x));
}
static double softsign(PARAMS_1) {
    (void)p;
    return x / (1 + fabs(x));
}
static double hard_sigmoid(PARAMS_1) { return fmax(0, fmin(1, p[0] * x + p[1])); }
static double hard_swish(PARAMS_1) {
    (void)p;
    return x * fmax(0, fmin(1, x / 6 + 0.5));
}
static double shrink(PARAMS_1) { return x < -p[1] ? x + p[0] : x > p[1] ? x - p[0] : 0; }
static double is_nan(PARAMS_1) {
    (void)p;
    return isnan(x);
}
static double is_inf(PARAMS_1) { return isinf(x) && (x > 0 ? p[1] : p[0]) != 0; }
static double bitwise_not(PARAMS_1) {
    (void)p;
    return -x - 1;
} /* of signed types */
static double not(PARAMS_1) {
    (void)p;
    return x == 0;
}
#define FROM_LIBRARY(name)                                                                                             \
    static double name##_(PARAMS_1) {                                                                                  \
        (void)p;                                                                                                       \
        return name(x);                                                                                                \
    }
FROM_LIBRARY(fabs)
FROM_LIBRARY(sqrt)
FROM_LIBRARY(exp)
FROM_LIBRARY(log)
FROM_LIBRARY(erf)
FROM_LIBRARY(tanh)
FROM_LIBRARY(floor)
FROM_LIBRARY(ceil)
FROM_LIBRARY(rint)
FROM_LIBRARY(sin)
FROM_LIBRARY(cos)
FROM_LIBRARY(tan)
FROM_LIBRARY(asin)
FROM_LIBRARY(acos)
FROM_LIBRARY(atan)
FROM_LIBRARY(sinh)
FROM_LIBRARY(cosh)
FROM_LIBRARY(asinh)
FROM_LIBRARY(acosh)
FROM_LIBRARY(atanh)

static const struct {
    const char *op;
    double (*fn)(PARAMS_1);
} unary[] = {
    {"Neg", neg},
    {"Abs", fabs_},
    {"Sign", sign},
    {"Sqrt", sqrt_},
    {"Reciprocal", reciprocal},
    {"Exp", exp_},
    {"Log", log_},
    {"Erf", erf_},
    {"Tanh", tanh_},
    {"Sigmoid", sigmoid},
    {"Relu", relu},
    {"LeakyRelu", leaky_relu},
    {"ThresholdedRelu", thresholded_relu},
    {"Elu", elu},
    {"Selu", selu},
    {"Celu", celu},
    {"Softplus", softplus},
    {"Softsign", softsign},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"Shrink", shrink},
    {"Floor", floor_},
    {"Ceil", ceil_},
    {"Round", rint_},
    {"Sin", sin_},
    {"Cos", cos_},
    {"Tan", tan_},
    {"Asin", asin_},
    {"Acos", acos_},
    {"Atan", atan_},
    {"Sinh", sinh_},
    {"Cosh", cosh_},
    {"Asinh", asinh_},
    {"Acosh", acosh_},
    {"Atanh", atanh_},
    {"IsNaN", is_nan},
    {"IsInf", is_inf},
    {"BitwiseNot", bitwise_not},
    {"Not", not },
};

double tk_unary_ref(const char *op, double x, const double *params) {
    for (size_t i = 0; i < sizeof unary / sizeof unary[0]; i++)
        if (strcmp(unary[i].op, op) == 0)
            return unary[i].fn(x, params);
    return NAN;
}

#define PARAMS_2 double a, double b
static double add(PARAMS_2) { return a + b; }
static double sub(PARAMS_2) { return a - b; }
static double mul(PARAMS_2) { return a * b; }
static double divide(PARAMS_2) { return a / b; }
static double floor_mod(PARAMS_2) { return a - floor(a / b) * b; }
static double max(PARAMS_2) { return isnan(a) || isnan(b) ? NAN : fmax(a, b); }
static double min(PARAMS_2) { return isnan(a) || isnan(b) ? NAN : fmin(a, b); }
static double prelu(PARAMS_2) { return a < 0 ? a * b : a; }
static double equal(PARAMS_2) { return a == b; }
static double greater(PARAMS_2) { return a > b; }
static double less(PARAMS_2) { return a < b; }
static double greater_equal(PARAMS_2) { return a >= b; }
static double less_equal(PARAMS_2) { return a <= b; }
static double and (PARAMS_2) { return a != 0 && b != 0; }
static double or (PARAMS_2) { return a != 0 || b != 0; }
static double xor (PARAMS_2) { return (a != 0) != (b != 0); } static double bit_and(PARAMS_2) {
    return (double)((int64_t)a & (int64_t)b);
}
static double bit_or(PARAMS_2) { return (double)((int64_t)a | (int64_t)b); }
static double bit_xor(PARAMS_2) { return (double)((int64_t)a ^ (int64_t)b); }
static double shift_left(PARAMS_2) { return ldexp(a, (int)b); }
static double shift_right(PARAMS_2) { return floor(ldexp(a, -(int)b)); }

static const struct {
    const char *op;
    double (*fn)(PARAMS_2);
} binary[] = {
    {"Add", add},
    {"Sub", sub},
    {"Mul", mul},
    {"Div", divide},
    {"Mod", fmod},
    {"ModFloor", floor_mod},
    {"Max", max},
    {"Min", min},
    {"PRelu", prelu},
    {"Equal", equal},
    {"Greater", greater},
    {"Less", less},
    {"GreaterOrEqual", greater_equal},
    {"LessOrEqual", less_equal},
    {"And", and},
    {"Or", or },
    {"Xor", xor},
    {"BitwiseAnd", bit_and},
    {"BitwiseOr", bit_or},
    {"BitwiseXor", bit_xor},
    {"BitShiftLeft", shift_left},
    {"BitShiftRight", shift_right},
};

double tk_binary_ref(const char *op, double a, double b) {
    for (size_t i = 0; i < sizeof binary / sizeof binary[0]; i++)
        if (strcmp(binary[i].op, op) == 0)
            return binary[i].fn(a, b);
    return NAN;
}
