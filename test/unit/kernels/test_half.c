/* test_half.c: conversions of float16 and bfloat16 over all 65,536 values and between all neighbours, and functions of
 * one operand over all 65,536 operands: within one place of the exact result, rounded once. */
#include "test/unit/kernel_test.h"
#include "kernels/common/element.h"
#include "kernels/common/types.h"
#include "kernels/elementwise/elementwise.h"

enum { ALL = 65536 };

typedef struct format {
    tk_dtype dtype;
    int width, bias;
    uint16_t infinity;
    float (*from)(uint16_t);
    uint16_t (*to)(float), (*of_double)(double);
} format;

static float from_f16(uint16_t h) { return tk_from_f16(h); }
static float from_bf16(uint16_t h) { return tk_from_bf16(h); }
static uint16_t to_f16(float f) { return tk_to_f16(f); }
static uint16_t to_bf16(float f) { return tk_to_bf16(f); }

static const format formats[] = {
    {TK_F16, 10, 15, 0x7c00, from_f16, to_f16, tk_f16_of_double},
    {TK_BF16, 7, 127, 0x7f80, from_bf16, to_bf16, tk_bf16_of_double},
};
#define FORMATS (sizeof formats / sizeof formats[0])

static bool is_nan(const format *f, uint32_t h) { return (h & 0x7fff) > f->infinity; }

/* sign * mantissa * 2^exponent */
static double value_of(const format *f, uint32_t h) {
    int exponent = (int)(h & 0x7fff) >> f->width, mantissa = (int)h & ((1 << f->width) - 1);
    double value = exponent == 0 ? ldexp(mantissa, 1 - f->bias - f->width)
                                 : ldexp((1 << f->width) + mantissa, exponent - f->bias - f->width);
    if ((h & 0x7fff) >= f->infinity)
        value = is_nan(f, h) ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -value : value;
}

TEST(values) {
    for (size_t k = 0; k < FORMATS; k++)
        for (uint32_t h = 0; h < ALL; h++) {
            const format *f = &formats[k];
            double value = value_of(f, h);
            float got = f->from((uint16_t)h);
            if (is_nan(f, h)) {
                assert_true(isnan(got) && is_nan(f, f->to(got)) && is_nan(f, f->of_double((double)got)));
                continue;
            }
            assert_true((double)got == value && !signbit(got) == !(h & 0x8000));
            assert_int_equal(f->to(got), h);
            assert_int_equal(f->of_double(value), h);
        }
}

/* Halfway between neighbours goes to the even one; beyond the largest by half a step to infinity. */
TEST(rounding) {
    for (size_t k = 0; k < FORMATS; k++)
        for (uint32_t h = 0; h < formats[k].infinity; h++) {
            const format *f = &formats[k];
            double low = value_of(f, h), high = h + 1 < f->infinity ? value_of(f, h + 1) : 2 * low - value_of(f, h - 1);
            double middle = (low + high) / 2;
            uint32_t even = h & 1 ? h + 1 : h;
            for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
                double s = sign ? -1 : 1;
                float m = (float)(s * middle);
                assert_int_equal(f->of_double(s * middle), even | sign);
                assert_int_equal(f->of_double(s * nextafter(middle, 0)), h | sign);
                assert_int_equal(f->of_double(s * nextafter(middle, INFINITY)), (h + 1) | sign);
                if ((double)m != s * middle)
                    continue; /* between bfloat16's smallest there is no float */
                assert_int_equal(f->to(m), even | sign);
                assert_int_equal(f->to(nextafterf(m, 0)), h | sign);
                assert_int_equal(f->to(nextafterf(m, (float)s * INFINITY)), (h + 1) | sign);
            }
        }
    assert_int_equal(tk_f16_of_double(1e300), 0x7c00);
    assert_int_equal(tk_f16_of_double(-1e-300), 0x8000);
    assert_int_equal(tk_to_f16(-3e38f), 0xfc00);
    assert_int_equal(tk_to_bf16(3.4028235e38f), 0x7f80);
}

/* The compiler's own type, where it has one. */
TEST(like_the_compiler) {
#ifdef __FLT16_MAX__
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1021) {
        float x = tk_bits_float((uint32_t)bits);
        _Float16 rounded = (_Float16)x;
        uint16_t want;
        memcpy(&want, &rounded, sizeof want);
        if (!isnan(x))
            assert_int_equal(tk_to_f16(x), want);
    }
#else
    skip();
#endif
}

TEST(runs) {
    enum { N = 133 };
    float wide[N];
    uint16_t inp[N], out[N];
    for (size_t k = 0; k < FORMATS; k++)
        for (int64_t n = 0; n <= N; n++) {
            for (int64_t i = 0; i < n; i++)
                inp[i] = (uint16_t)(i * 241 & 0xfbff);
            tk_widen(wide, inp, n, formats[k].dtype);
            tk_narrow(out, wide, n, formats[k].dtype);
            assert_memory_equal(out, inp, (size_t)n * sizeof *out);
        }
}

/* --- functions -------------------------------------------------------------------------------- */

/* Places between two values that are not NaN, by counting them from the most negative on. */
static int places(uint16_t a, uint16_t b) {
    int x = a & 0x8000 ? -(a & 0x7fff) : a, y = b & 0x8000 ? -(b & 0x7fff) : b;
    return abs(x - y);
}

static void all_of(uint16_t *inp) {
    for (uint32_t h = 0; h < ALL; h++)
        inp[h] = (uint16_t)h;
}

/* got[h] against exact(h). */
static void compare(const format *f, const char *name, const uint16_t *got, const double *exact) {
    int differ = 0;
    for (uint32_t h = 0; h < ALL; h++) {
        uint16_t want = f->of_double(exact[h]);
        if (isnan(exact[h])) {
            assert_true(is_nan(f, got[h]));
            continue;
        }
        differ += places(got[h], want) != 0; /* but for the sign of 0 */
        if (is_nan(f, got[h]) || places(got[h], want) > 1)
            fail_msg("%s of %g (0x%04x, type %d) is 0x%04x, expected 0x%04x", name, value_of(f, h), (unsigned)h,
                     (int)f->dtype, (unsigned)got[h], (unsigned)want);
    }
    print_message("%s, type %d: %d of %d not the nearest\n", name, (int)f->dtype, differ, ALL);
    assert_true(differ < ALL / 200);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static const struct {
    const char *op;
    double (*exact)(double);
} functions[] = {
    {"Exp", exp}, {"Log", log}, {"Erf", erf}, {"Tanh", tanh}, {"Sigmoid", sigmoid}, {"Sqrt", sqrt},
};

TEST(elementwise) {
    static uint16_t inp[ALL], out[ALL];
    static double exact[ALL];
    const double params[TK_UNARY_PARAMS] = {0};
    all_of(inp);
    for (size_t k = 0; k < FORMATS; k++)
        for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
            tk_unary_run(queue(), tk_unary_find(functions[i].op, formats[k].dtype), out, inp, ALL, params);
            for (uint32_t h = 0; h < ALL; h++)
                exact[h] = functions[i].exact(value_of(&formats[k], h));
            compare(&formats[k], functions[i].op, out, exact);
        }
}
