/* reference_elementwise.c: ops whose result elements depend on the elements at their place: unary and binary ops, Pow,
 * Clip, Where, casts, sums, the rows of pointwise.def, Dropout. */
#include "../common/functions.h"
#include "../pointwise/pointwise_math.h"
#include "reference.h"
#include <math.h>
#include <string.h>

static bool is_unsigned(tk_dtype dtype) {
    return dtype == TK_U8 || dtype == TK_U16 || dtype == TK_U32 || dtype == TK_U64;
}

/* --- integers: signed and unsigned, modulo 2^64 ------------------------------------------------ */

#define INTEGERS(K)                                                                                                    \
    K(Add, (uint64_t)a + (uint64_t)b)                                                                                  \
    K(Sub, (uint64_t)a - (uint64_t)b)                                                                                  \
    K(Mul, (uint64_t)a *(uint64_t)b)                                                                                   \
    K(Div, b == 0 ? 0 : MINUS_ONE(b) ? 0 - (uint64_t)a : (uint64_t)(a / b))                                            \
    K(Mod, b == 0 || MINUS_ONE(b) ? 0 : (uint64_t)(a % b))                                                             \
    K(ModFloor, b == 0 || MINUS_ONE(b) ? 0 : (uint64_t)((a % b + b) % b))                                              \
    K(Max, (uint64_t)(a > b ? a : b))                                                                                  \
    K(Min, (uint64_t)(a < b ? a : b))                                                                                  \
    K(PRelu, NEGATIVE(a) ? (uint64_t)a *(uint64_t)b : (uint64_t)a)                                                     \
    K(Equal, a == b)                                                                                                   \
    K(Greater, a > b)                                                                                                  \
    K(Less, a < b)                                                                                                     \
    K(GreaterOrEqual, a >= b)                                                                                          \
    K(LessOrEqual, a <= b)                                                                                             \
    K(BitwiseAnd, (uint64_t)(a & b))                                                                                   \
    K(BitwiseOr, (uint64_t)(a | b))                                                                                    \
    K(BitwiseXor, (uint64_t)(a ^ b))                                                                                   \
    K(BitShiftLeft, (uint64_t)b > 63 ? 0 : (uint64_t)a << b)                                                           \
    K(BitShiftRight, (uint64_t)b > 63 ? 0 : (uint64_t)a >> b)

#define MINUS_ONE(b) ((b) == -1)
#define NEGATIVE(a) ((a) < 0)
#define DEFINE_SIGNED(op, value)                                                                                       \
    static uint64_t signed_##op(int64_t a, int64_t b) { return (value); }
INTEGERS(DEFINE_SIGNED)
#undef MINUS_ONE
#undef NEGATIVE
#define MINUS_ONE(b) false
#define NEGATIVE(a) false
#define DEFINE_UNSIGNED(op, value)                                                                                     \
    static uint64_t unsigned_##op(uint64_t a, uint64_t b) { return (value); }
INTEGERS(DEFINE_UNSIGNED)

static const struct {
    const char *op;
    uint64_t (*of_signed)(int64_t a, int64_t b);
    uint64_t (*of_unsigned)(uint64_t a, uint64_t b);
} integers[] = {
#define ROW(op, value) {#op, signed_##op, unsigned_##op},
    INTEGERS(ROW)
#undef ROW
};

static uint64_t of_integers(const char *op, int64_t a, int64_t b, tk_dtype dtype) {
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        if (strcmp(integers[i].op, op) == 0)
            return is_unsigned(dtype) ? integers[i].of_unsigned((uint64_t)a, (uint64_t)b) : integers[i].of_signed(a, b);
    return 0;
}

static uint64_t of_integer(const char *op, int64_t a, tk_dtype dtype) {
    bool negative = !is_unsigned(dtype) && a < 0;
    if (strcmp(op, "Neg") == 0 || (strcmp(op, "Abs") == 0 && negative))
        return 0 - (uint64_t)a;
    if (strcmp(op, "Sign") == 0)
        return negative ? UINT64_MAX : a != 0;
    if (strcmp(op, "Relu") == 0)
        return negative ? 0 : (uint64_t)a;
    return strcmp(op, "BitwiseNot") == 0 ? ~(uint64_t)a : (uint64_t)a;
}

/* --- the ops ---------------------------------------------------------------------------------- */

void tk_reference_unary_run(tk_queue *q, const tk_unary *unary, void *out, const void *inp, int64_t n,
                            const double *params) {
    (void)q;
    for (int64_t i = 0; i < n; i++)
        if (tk_is_float(unary->dtype) || unary->dtype == TK_BOOL)
            tk_reference_put(out, unary->out, i, tk_unary_ref(unary->op, tk_get(inp, unary->dtype, i), params));
        else
            tk_reference_put_int(out, unary->out, i,
                                 of_integer(unary->op, tk_get_int(inp, unary->dtype, i), unary->dtype));
}

void tk_reference_binary_run(tk_queue *q, const tk_binary *binary, void *out, const void *a, const void *b,
                             const tk_bcast *bc) {
    (void)q;
    tk_dtype dtype = binary->dtype;
    for (int64_t i = 0; i < bc->count; i++) {
        int64_t at[TK_BCAST_MAX];
        tk_reference_places(bc, i, at);
        double x = tk_get(a, dtype, at[0]), y = tk_get(b, dtype, at[1]);
        if (tk_is_float(dtype))
            tk_reference_put(out, binary->out, i, tk_binary_ref(binary->op, x, y));
        else if (dtype == TK_BOOL)
            tk_reference_put(out, binary->out, i, tk_binary_ref(binary->op, x != 0, y != 0));
        else
            tk_reference_put_int(
                out, binary->out, i,
                of_integers(binary->op, tk_get_int(a, dtype, at[0]), tk_get_int(b, dtype, at[1]), dtype));
    }
}

static uint64_t power(int64_t base, int64_t exponent) {
    uint64_t result = 1;
    if (exponent < 0) /* 1 / base^-exponent, cut to a whole number */
        return base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base == -1 ? UINT64_MAX : 0;
    for (int64_t i = 63; i >= 0; i--)
        result = result * result * ((exponent >> i & 1) ? (uint64_t)base : 1);
    return result;
}

void tk_reference_pow(tk_queue *q, void *out, const void *base, tk_dtype dtype, const void *exponent,
                      tk_dtype exponent_dtype, const tk_bcast *bc) {
    (void)q;
    for (int64_t i = 0; i < bc->count; i++) {
        int64_t at[TK_BCAST_MAX];
        tk_reference_places(bc, i, at);
        double real = pow(tk_get(base, dtype, at[0]), tk_get(exponent, exponent_dtype, at[1]));
        if (tk_is_float(dtype))
            tk_put(out, dtype, i, real);
        else if (tk_is_float(exponent_dtype))
            tk_reference_put(out, dtype, i, fabs(real) <= 9.2e18 ? real : 0);
        else
            tk_reference_put_int(out, dtype, i,
                                 power(tk_get_int(base, dtype, at[0]), tk_get_int(exponent, exponent_dtype, at[1])));
    }
}

static bool is_less(const void *a, int64_t i, const void *b, int64_t k, tk_dtype dtype) {
    return tk_is_float(dtype) ? tk_get(a, dtype, i) < tk_get(b, dtype, k)
                              : of_integers("Less", tk_get_int(a, dtype, i), tk_get_int(b, dtype, k), dtype) != 0;
}

void tk_reference_clip(tk_queue *q, void *out, const void *inp, const void *low, const void *high, int64_t n,
                       tk_dtype dtype) {
    (void)q;
    size_t size = tk_size(dtype);
    for (int64_t i = 0; i < n; i++) {
        const void *from = (const char *)inp + (size_t)i * size;
        if (low && is_less(from, 0, low, 0, dtype))
            from = low;
        if (high && is_less(high, 0, from, 0, dtype))
            from = high;
        memmove((char *)out + (size_t)i * size, from, size);
    }
}

void tk_reference_where(tk_queue *q, void *out, const void *cond, const void *a, const void *b, size_t size,
                        const tk_bcast *bc) {
    (void)q;
    for (int64_t i = 0; i < bc->count; i++) {
        int64_t at[TK_BCAST_MAX];
        tk_reference_places(bc, i, at);
        bool first = ((const uint8_t *)cond)[at[0]] != 0;
        memmove((char *)out + (size_t)i * size, (const char *)(first ? a : b) + (size_t)at[first ? 1 : 2] * size, size);
    }
}

void tk_reference_divide(tk_queue *q, void *out, int64_t n, double divisor, tk_dtype dtype) {
    (void)q;
    for (int64_t i = 0; i < n; i++)
        tk_put(out, dtype, i, tk_get(out, dtype, i) / divisor);
}

void tk_reference_half_sum(tk_queue *q, void *out, const void *const *inp, const tk_bcast *bc, int count,
                           double divisor, tk_dtype dtype) {
    (void)q;
    for (int64_t i = 0; i < bc[0].count; i++) {
        double sum = 0;
        for (int k = 0; k < count; k++) {
            int64_t at[TK_BCAST_MAX];
            tk_reference_places(&bc[k], i, at);
            sum += tk_get(inp[k], dtype, at[0]);
        }
        tk_put(out, dtype, i, sum / divisor);
    }
}

void tk_reference_cast(tk_queue *q, void *out, const void *inp, int64_t n, tk_dtype to, tk_dtype from) {
    (void)q;
    for (int64_t i = 0; i < n; i++) {
        bool negative = !tk_is_float(from) && from != TK_U64 && tk_get_int(inp, from, i) < 0;
        uint64_t bits = tk_is_float(from) ? 0 : (uint64_t)tk_get_int(inp, from, i);
        if (tk_is_float(from))
            tk_reference_put(out, to, i, tk_get(inp, from, i));
        else if (to == TK_F32) /* rounded once */
            ((float *)out)[i] = negative ? (float)(int64_t)bits : (float)bits;
        else if (tk_is_float(to))
            tk_put(out, to, i, negative ? (double)(int64_t)bits : (double)bits);
        else
            tk_reference_put_int(out, to, i, to == TK_BOOL || from == TK_BOOL ? bits != 0 : bits);
    }
}

/* --- the rows of pointwise.def ------------------------------------------------------------------ */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

static double gelu(double x, double alpha) {
    (void)alpha;
    return x * 0.5 * erfc(-x / sqrt(2));
}
static double gelu_slope(double x, double alpha) {
    (void)alpha;
    double bell = exp(-x * x / 2) / sqrt(2 * acos(-1));
    return 0.5 * erfc(-x / sqrt(2)) + (bell == 0 ? 0 : x * bell);
}
static double tanh_form(double x) { return 2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x); }
static double gelu_tanh(double x, double alpha) {
    (void)alpha;
    return x * sigmoid(tanh_form(x));
}
static double gelu_tanh_slope(double x, double alpha) {
    (void)alpha;
    double s = sigmoid(tanh_form(x)), rest = s * (1 - s);
    return s + (rest == 0 ? 0 : x * rest * 2 * sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x));
}
static double log_sigmoid(double x, double alpha) {
    (void)alpha;
    return -softplus(-x);
}
static double log_sigmoid_slope(double x, double alpha) {
    (void)alpha;
    return sigmoid(-x);
}
static double mish(double x, double alpha) {
    (void)alpha;
    return x * tanh(softplus(x));
}
static double mish_slope(double x, double alpha) {
    (void)alpha;
    double t = tanh(softplus(x)), rest = 1 - t * t;
    return t + (rest == 0 ? 0 : x * sigmoid(x) * rest);
}
static double swish(double x, double alpha) { return x * sigmoid(alpha * x); }
static double swish_slope(double x, double alpha) {
    double s = sigmoid(alpha * x), rest = s * (1 - s);
    return s + (rest == 0 ? 0 : alpha * x * rest);
}

/* A row without a definition above is evaluated as written, in double precision. */
#define FN(name) tk_##name##_f64
#define NONE NAN
#define POINTWISE(name, domain, op, form, default_alpha, term, y, slope)                                               \
    static double name##_by_row(double x, double alpha, bool of_slope) {                                               \
        double t = (double)(term);                                                                                     \
        (void)alpha, (void)t;                                                                                          \
        return of_slope ? (slope) : (y);                                                                               \
    }
#define POINTWISE_FORM POINTWISE
#include "../pointwise/pointwise.def"
#undef POINTWISE

static double (*const by_row[])(double x, double alpha, bool of_slope) = {
#define POINTWISE(name, ...) name##_by_row,
#include "../pointwise/pointwise.def"
#undef POINTWISE
#undef POINTWISE_FORM
};

static const struct {
    double (*value)(double x, double alpha), (*slope)(double x, double alpha);
} definitions[TK_POINTWISE_COUNT] = {
    [TK_POINTWISE_gelu] = {gelu, gelu_slope},
    [TK_POINTWISE_gelu_tanh] = {gelu_tanh, gelu_tanh_slope},
    [TK_POINTWISE_log_sigmoid] = {log_sigmoid, log_sigmoid_slope},
    [TK_POINTWISE_mish] = {mish, mish_slope},
    [TK_POINTWISE_swish] = {swish, swish_slope},
};

double tk_reference_point(tk_pointwise_row row, double x, double alpha, bool of_slope) {
    if (!definitions[row].value)
        return by_row[row](x, alpha, of_slope);
    return of_slope ? definitions[row].slope(x, alpha) : definitions[row].value(x, alpha);
}

void tk_reference_pointwise(tk_queue *q, tk_pointwise_row row, void *out, const void *inp, int64_t n, double alpha,
                            tk_dtype dtype) {
    (void)q;
    for (int64_t i = 0; i < n; i++)
        tk_put(out, dtype, i, tk_reference_point(row, tk_get(inp, dtype, i), alpha, false));
}

void tk_reference_pointwise_grad(tk_queue *q, tk_pointwise_row row, void *dinp, const void *dout, const void *inp,
                                 int64_t n, double alpha, tk_dtype dtype) {
    (void)q;
    for (int64_t i = 0; i < n; i++)
        tk_put(dinp, dtype, i, tk_get(dout, dtype, i) * tk_reference_point(row, tk_get(inp, dtype, i), alpha, true));
}

void tk_reference_pointwise_both(tk_queue *q, tk_pointwise_row row, void *dinp, void *out, const void *dout,
                                 const void *inp, int64_t n, double alpha, tk_dtype dtype) {
    (void)q;
    for (int64_t i = 0; i < n; i++) {
        const double x = tk_get(inp, dtype, i), g = tk_get(dout, dtype, i);
        tk_put(dinp, dtype, i, g * tk_reference_point(row, x, alpha, true));
        tk_put(out, dtype, i, tk_reference_point(row, x, alpha, false));
    }
}

/* --- Dropout ---------------------------------------------------------------------------------- */

void tk_reference_dropout(tk_queue *q, void *out, uint8_t *mask, const void *inp, int64_t n, tk_number ratio,
                          tk_seed seed, const uint8_t *training, tk_dtype dtype) {
    bool drops = !training || *training;
    tk_draw draw = drops ? tk_draw_of(seed) : (tk_draw){0};
    double part = tk_reference_ratio(q, drops, ratio);
    if (part < 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        bool kept = !drops || tk_reference_kept(&draw, part, i);
        tk_put(out, dtype, i, kept ? tk_get(inp, dtype, i) / (1 - part) : 0);
        if (mask)
            mask[i] = kept;
    }
}

void tk_reference_dropout_grad(tk_queue *q, void *dinp, const void *dout, const uint8_t *mask, int64_t n,
                               tk_number ratio, tk_dtype dtype) {
    double part = tk_reference_ratio(q, true, ratio);
    if (part < 0)
        return;
    for (int64_t i = 0; i < n; i++)
        tk_put(dinp, dtype, i, mask[i] ? tk_get(dout, dtype, i) / (1 - part) : 0);
}

void tk_reference_pack_bits(tk_queue *q, uint8_t *bits, const uint8_t *mask, int64_t n) {
    (void)q;
    memset(bits, 0, (size_t)tk_bit_bytes(n));
    for (int64_t i = 0; i < n; i++)
        if (mask[i])
            bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << i % 8);
}

void tk_reference_unpack_bits(tk_queue *q, uint8_t *mask, const uint8_t *bits, int64_t n) {
    (void)q;
    for (int64_t i = 0; i < n; i++)
        mask[i] = bits[i / 8] >> i % 8 & 1;
}
