/* text_number.c: floating-point numbers as the shortest decimals that read back as the same number, spelled as C++'s
 * std::to_chars spells them, because onnx.printer uses it: without exponent unless that is longer. */
#include "text.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A positive number d[0].d[1]d[2]... x 10^exponent, no zero at the end. */
typedef struct decimal {
    char digits[20];
    int n, exponent;
} decimal;

/* Parses "d.ddde+xx". */
static decimal split(const char *text) {
    decimal d = {0};
    for (; *text != 'e'; text++)
        if (*text != '.')
            d.digits[d.n++] = *text;
    d.exponent = atoi(text + 1);
    while (d.n > 1 && d.digits[d.n - 1] == '0')
        d.n--;
    return d;
}

/* Decimals of `always` digits survive the conversion to binary and back, so a shorter one shows as zeros at the end of
 * that many. That does not hold below the normal numbers, which have fewer bits. */
static decimal shortest(double value, bool is_float) {
    char text[48];
    int always = is_float ? 6 : 15, enough = is_float ? 9 : 17;
    if (value < (is_float ? (double)FLT_MIN : DBL_MIN))
        always = 1;
    for (int digits = always; digits <= enough; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (is_float ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
            break;
    }
    return split(text);
}

/* The same for most floats at a tenth of the time, by doubles. A float's 24 bits leave a double 29 bits of room: only
 * numbers within `EDGE` of a decision are left to the exact way (false). */
static bool shortest_float(float value, decimal *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                    1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
    static const double EDGE = 1e-12;
    if (!(value >= 1e-9F && value < 1e9F))
        return false;
    double exact = (double)value;
    int exponent = (int)floor(log10(exact));
    double low = (exact + (double)nextafterf(value, 0)) / 2, high = (exact + (double)nextafterf(value, HUGE_VALF)) / 2;
    for (int digits = 6; digits <= 9; digits++) {
        int shift = digits - 1 - exponent; /* from -3 to 17 */
        double scaled = shift < 0 ? exact / powers[-shift] : exact * powers[shift];
        double rounded = floor(scaled + 0.5), rest = fabs(scaled - floor(scaled) - 0.5);
        double back = shift < 0 ? rounded * powers[-shift] : rounded / powers[shift];
        if (rest < 1e-6 || fabs(back - low) < EDGE * exact || fabs(back - high) < EDGE * exact ||
            rounded >= powers[digits] || rounded < powers[digits - 1])
            return false;
        if (back <= low || back >= high)
            continue;
        uint32_t number = (uint32_t)rounded;
        *out = (decimal){.n = digits, .exponent = exponent};
        for (; out->n > 1 && number % 10 == 0; number /= 10)
            out->n--;
        for (int i = out->n; i-- > 0; number /= 10)
            out->digits[i] = (char)('0' + number % 10);
        return true;
    }
    return false;
}

static size_t put_fixed(const decimal *d, double value, char *out) {
    int point = d->exponent + 1; /* digits before the point */
    if (point >= d->n)           /* an integer: its own digits, not zeros after the shortest */
        return (size_t)snprintf(out, TC_NUMBER_TEXT - 1, "%.0f", value);
    if (point > 0)
        return (size_t)snprintf(out, TC_NUMBER_TEXT - 1, "%.*s.%.*s", point, d->digits, d->n - point,
                                d->digits + point);
    return (size_t)snprintf(out, TC_NUMBER_TEXT - 1, "0.%.*s%.*s", -point, "0000000000000000000000", d->n, d->digits);
}

static size_t number_text(double value, bool is_float, char *out) {
    size_t sign = signbit(value) ? 1 : 0;
    *out = '-';
    out += sign;
    value = fabs(value);
    if (!isfinite(value) || value == 0) {
        strcpy(out, value == 0 ? "0" : isnan(value) ? "nan" : "inf");
        return sign + strlen(out);
    }
    decimal d;
    if (!is_float || !shortest_float((float)value, &d))
        d = shortest(value, is_float);
    int last = d.exponent - (d.n - 1); /* the last digit's power of ten */
    int one = d.n == 1;                /* "1e+05" has no point */
    if (last >= -(d.n + 3) + one && last <= 5 - one)
        return sign + put_fixed(&d, value, out);
    return sign + (size_t)snprintf(out, TC_NUMBER_TEXT - 1, "%c%s%.*se%c%02d", d.digits[0], one ? "" : ".", d.n - 1,
                                   d.digits + 1, d.exponent < 0 ? '-' : '+', abs(d.exponent));
}

size_t tc_float_text(float value, char out[TC_NUMBER_TEXT]) { return number_text((double)value, true, out); }

size_t tc_double_text(double value, char out[TC_NUMBER_TEXT]) { return number_text(value, false, out); }
