/* fit_curves.c: a program of the build: the slope of an activation as a function of its result, as a table in C on
 * standard output. An activation y(x) with one interior minimum (x*, y*) falls to it from the left and rises from it,
 * so y and one bit, left or right, determine x. Near the minimum the slope is like a square root of y - y*; in t =
 * sqrt(y - y*) it is smooth. On the left, y and slope go to 0 together: there slope / y is smooth in u = sqrt(-ln(-y)).
 * Both become one coordinate k, which rises with x:
 *     k = t on the right, -t on the left, -u where y is so close to 0 that the tail begins,
 * and the slope, divided by y in the tail, is a polynomial in k on each of some pieces. Pieces are made as long as the
 * tolerance allows; polynomials go through the Chebyshev points of a piece, and are measured between them. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef long double number;
#define PI 3.141592653589793238462643383279502884L

typedef struct activation {
    const char *name;
    number (*value)(number x), (*slope)(number x);
} activation;

/* --- activations: a row each, of any function with one interior minimum that is 0 at -inf and x at inf ---------- */

static number sigmoid(number x) { return x >= 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x)); }

static number normal(number x) { return erfcl(-x * sqrtl(0.5L)) / 2; }
static number gelu(number x) { return x * normal(x); }
static number gelu_slope(number x) { return normal(x) + x * expl(-x * x / 2) / sqrtl(2 * PI); }

static number tanh_argument(number x) { return 2 * sqrtl(2 / PI) * (x + 0.044715L * x * x * x); }
static number gelu_tanh(number x) { return x * sigmoid(tanh_argument(x)); }
static number gelu_tanh_slope(number x) {
    number s = sigmoid(tanh_argument(x)), rest = sigmoid(-tanh_argument(x));
    return s + x * s * rest * 2 * sqrtl(2 / PI) * (1 + 3 * 0.044715L * x * x);
}

/* tanh(ln(1 + e^x)), by e^-|x|. */
static number mish_gate(number x) {
    number e = expl(-fabsl(x)), above = x < 0 ? e * e + 2 * e : 1 + 2 * e;
    return above / (above + 2 * (x < 0 ? 1 : e * e));
}
static number mish(number x) { return x * mish_gate(x); }
static number mish_slope(number x) {
    number gate = mish_gate(x);
    return gate + x * sigmoid(x) * (1 - gate * gate);
}

static number silu(number x) { return x * sigmoid(x); }
static number silu_slope(number x) { return sigmoid(x) + x * sigmoid(x) * sigmoid(-x); }

static const activation activations[] = {
    {"gelu", gelu, gelu_slope},
    {"gelu_tanh", gelu_tanh, gelu_tanh_slope},
    {"mish", mish, mish_slope},
    {"swish", silu, silu_slope}, /* of alpha: y(alpha x) / alpha */
};

/* --- functions to fit --------------------------------------------------------------------------------------------- */

enum { MAX_TERMS = 16, MAX_PIECES = 12, CHECKS = 32, STEPS = 8 };
#define TAIL 0.25L /* the tail begins where y is this part of the minimum */
#define NEAR 0.25L /* so close to the minimum, y - y* = (x - x*)^2 p(x - x*) */
#define FAR 800.0L /* further left, activations are 0 */

/* For each type of numbers: terms of polynomials; the error that a piece may have, relative in the tail; y = -e^-last,
 * which counts as 0. */
static const struct precision {
    const char *name;
    int terms;
    number slope_error, tail_error, last;
} precisions[] = {{"f32", 9, 6e-8L, 2e-7L, 87}, {"f64", 15, 1e-12L, 1e-11L, 700}};

typedef struct piece {
    number begin, end, error, terms[MAX_TERMS]; /* in (k - middle) / (half of the length) */
} piece;

typedef struct curve {
    const activation *f;
    const struct precision *type;
    number x, y, tail;                   /* the minimum; the y at which the tail begins */
    number least, most, near[MAX_TERMS]; /* the first and the last k; the polynomial p, in (x - x*) / NEAR */
    int pieces;
    piece piece[MAX_PIECES];
} curve;

/* --- from k to x ------------------------------------------------------------------------------------------------- */

/* Whether x lies beyond the point that is searched. */
typedef bool (*beyond)(const curve *c, number x, number sought);

static bool rises(const curve *c, number x, number sought) { return c->f->slope(x) >= sought; }
static bool is_above(const curve *c, number x, number sought) { return c->f->value(x) - c->y >= sought; }
static bool is_below(const curve *c, number x, number sought) { return c->f->value(x) - c->y <= sought; }
static bool is_in_tail(const curve *c, number x, number sought) { return -logl(-c->f->value(x)) <= sought; }

static number find(const curve *c, beyond test, number sought, number low, number high) {
    for (number middle = (low + high) / 2; low < middle && middle < high; middle = (low + high) / 2)
        *(test(c, middle, sought) ? &high : &low) = middle;
    return high;
}

static number x_of(const curve *c, number k) {
    if (k >= 0)
        return find(c, is_above, k * k, c->x, FAR);
    return k > c->least && k * k < -c->y ? find(c, is_below, k * k, -FAR, c->x)
                                         : find(c, is_in_tail, k * k, -FAR, c->x);
}

/* --- polynomials ------------------------------------------------------------------------------------------------- */

/* The function that a polynomial is fitted to. */
typedef number (*target)(const curve *c, number at);

static number slope_at(const curve *c, number k) { return c->f->slope(x_of(c, k)); }
static number tail_at(const curve *c, number k) {
    number x = x_of(c, k);
    return c->f->slope(x) / c->f->value(x);
}
static number bend_at(const curve *c, number off) { return (c->f->value(c->x + off) - c->y) / (off * off); }

static number horner(const number *terms, int n, number s) {
    number sum = 0;
    while (n-- > 0)
        sum = sum * s + terms[n];
    return sum;
}

/* terms: of the polynomial through the n Chebyshev points of [begin, end], by powers. */
static void interpolate(const curve *c, target f, number begin, number end, int n, number *terms) {
    number values[MAX_TERMS], last[MAX_TERMS] = {1}, before[MAX_TERMS] = {0}; /* Chebyshev polynomials, by powers */
    for (int i = 0; i < n; i++)
        values[i] = f(c, (begin + end) / 2 + (end - begin) / 2 * cosl(PI * ((number)i + 0.5L) / n));
    for (int i = 0; i < n; i++)
        terms[i] = 0;
    for (int degree = 0; degree < n; degree++) {
        number sum = 0, next[MAX_TERMS];
        for (int i = 0; i < n; i++)
            sum += values[i] * cosl(PI * degree * ((number)i + 0.5L) / n);
        for (int i = 0; i < n; i++)
            terms[i] += sum * (degree == 0 ? 1 : 2) / n * last[i];
        for (int i = 0; i < n; i++)
            next[i] = (degree == 0 ? 1 : 2) * (i > 0 ? last[i - 1] : 0) - before[i];
        for (int i = 0; i < n; i++)
            before[i] = last[i], last[i] = next[i];
    }
}

static number error_between(const curve *c, target f, const piece *p, bool relative) {
    number worst = 0;
    for (int i = 0; i < CHECKS; i++) {
        number s = ((number)i + 0.5L) / CHECKS * 2 - 1,
               exact = f(c, (p->begin + p->end) / 2 + (p->end - p->begin) / 2 * s);
        worst = fmaxl(worst, fabsl(horner(p->terms, c->type->terms, s) - exact) / (relative ? fabsl(exact) : 1));
    }
    return worst;
}

static piece fit(const curve *c, target f, number begin, number end, bool relative) {
    piece p = {.begin = begin, .end = end};
    interpolate(c, f, begin, end, c->type->terms, p.terms);
    p.error = error_between(c, f, &p, relative);
    return p;
}

/* The end of the piece from `begin` on, nearly as long as the tolerance allows; `begin` where no piece is good. */
static piece longest(const curve *c, target f, number begin, number end, number tolerance) {
    piece best = fit(c, f, begin, end, f == tail_at);
    if (best.error <= tolerance)
        return best;
    best.end = begin;
    for (int i = 0; i < STEPS; i++) {
        piece tried = fit(c, f, begin, (best.end + end) / 2, f == tail_at);
        if (tried.error <= tolerance)
            best = tried;
        else
            end = tried.end;
    }
    return best;
}

/* Appends pieces for [begin, end]. */
static void fit_pieces(curve *c, target f, number begin, number end, number tolerance) {
    while (begin < end) {
        piece p = longest(c, f, begin, end, tolerance);
        if (!(p.end > begin) || c->pieces == MAX_PIECES) {
            fprintf(stderr, "fit_curves: %s does not reach %Lg from %Lg on\n", c->f->name, tolerance, begin);
            exit(1);
        }
        c->piece[c->pieces++] = p;
        begin = p.end;
    }
}

static curve fit_curve(const activation *f, const struct precision *type) {
    curve c = {.f = f, .type = type};
    c.x = find(&c, rises, 0, -4, 0);
    c.y = f->value(c.x);
    c.tail = TAIL * c.y;
    number tail_t = sqrtl(c.tail - c.y), tail_u = sqrtl(-logl(-c.tail)), x = c.x;
    while (fabsl(f->slope(x) - 1) > type->slope_error || x < 1)
        x += 0.0625L;
    c.least = -sqrtl(type->last);
    c.most = sqrtl(f->value(x) - c.y);
    if (tail_u <= tail_t) {
        fprintf(stderr, "fit_curves: the left of %s has no room for its tail\n", f->name);
        exit(1);
    }
    fit_pieces(&c, tail_at, c.least, -tail_u, type->tail_error);
    fit_pieces(&c, slope_at, -tail_t, 0, type->slope_error);
    fit_pieces(&c, slope_at, 0, c.most, type->slope_error);
    interpolate(&c, bend_at, -NEAR, NEAR, type->terms - type->terms % 2, c.near);
    return c;
}

/* --- the table --------------------------------------------------------------------------------------------------- */

static void print_row(const char *name, const number *numbers, size_t stride, int n, int room, number pad) {
    printf("     .%s = {", name);
    for (int i = 0; i < room; i++)
        printf("%s%.17Lg", i > 0 ? ", " : "", i < n ? numbers[(size_t)i * stride] : pad);
    printf("},\n");
}

/* A number in two parts, of doubles. */
static void print_split(const char *name, number value) {
    number parts[2] = {(number)(double)value, value - (number)(double)value};
    print_row(name, parts, 1, 2, 2, 0);
}

static void print_curve(const curve *c, int room) {
    number begins[MAX_PIECES], middles[MAX_PIECES], scales[MAX_PIECES], worst[2] = {0, 0};
    for (int i = 0; i < c->pieces; i++) {
        const piece *p = &c->piece[i];
        begins[i] = p->begin, middles[i] = (p->begin + p->end) / 2, scales[i] = 2 / (p->end - p->begin);
        number *most = &worst[p->end < -sqrtl(c->tail - c->y) ? 1 : 0];
        *most = fmaxl(*most, p->error);
    }
    printf("    {/* %s: %d pieces; slopes are off by at most %.1Le, in the tail by %.1Le of themselves */\n",
           c->f->name, c->pieces, worst[0], worst[1]);
    print_split("x", c->x);
    print_split("y", c->y);
    printf("     .tail = %.17Lg, .least = %.17Lg, .most = %.17Lg,\n", c->tail, c->least, c->most);
    print_row("near", c->near, 1, c->type->terms, c->type->terms, 0);
    print_row("begin", begins, 1, c->pieces, room, 1e30L); /* no k reaches unused pieces */
    print_row("middle", middles, 1, c->pieces, room, 0);
    print_row("scale", scales, 1, c->pieces, room, 0);
    printf("     .terms = {\n");
    for (int term = 0; term < c->type->terms; term++) {
        printf("      {");
        for (int i = 0; i < room; i++)
            printf("%s%.17Lg", i > 0 ? ", " : "", i < c->pieces ? c->piece[i].terms[term] : 0);
        printf("},\n");
    }
    printf("     }},\n");
}

static void print_type(const struct precision *type, int rows) {
    curve curves[sizeof activations / sizeof *activations];
    const int room = MAX_PIECES;
    for (int i = 0; i < rows; i++)
        curves[i] = fit_curve(&activations[i], type);
    printf("enum { CURVE_TERMS_%s = %d };\n", type->name, type->terms);
    printf("struct curve_%s {\n    double x[2], y[2], tail, least, most, near[%d];\n", type->name, type->terms);
    printf("    double begin[%d], middle[%d], scale[%d], terms[%d][%d];\n};\n", room, room, room, type->terms, room);
    printf("static const struct curve_%s curves_%s[] = {\n", type->name, type->name);
    for (int i = 0; i < rows; i++)
        print_curve(&curves[i], room);
    printf("};\n");
}

int main(void) {
    const int rows = sizeof activations / sizeof *activations;
    puts("/* Made by fit_curves.c, which says what the names mean: slopes as functions of the results. */");
    printf("#define CURVE_NEAR %.17Lg\n#define CURVE_PIECES %d\n#define CURVES(K)", NEAR, MAX_PIECES);
    for (int i = 0; i < rows; i++)
        printf(" K(%s)", activations[i].name);
    puts("");
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        print_type(&precisions[i], rows);
    return fflush(stdout) == 0 ? 0 : 1;
}
