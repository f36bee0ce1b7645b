/* eval_arith.c: evaluators of elementwise ops. Integers go through symbolic arithmetic: a size computed from "seq"
 * stays a size. An integer that is not known becomes unknown; a float that is not known makes the whole result unknown.
 * Floats are computed in double and rounded to their type, which gives the correctly rounded result for + - * /
 * sqrt. */
#include "eval.h"
#include <math.h>
#include <string.h>

/* --- two operands ----------------------------------------------------------------------------- */

static double arith_float(tc_arith op, double a, double b) {
    switch (op) {
    case TC_ADD: return a + b;
    case TC_SUB: return a - b;
    case TC_MUL: return a * b;
    case TC_DIV: return a / b;
    case TC_MOD: return b == 0 ? NAN : a - b * floor(a / b);
    case TC_FMOD: return fmod(a, b);
    case TC_POW: return pow(a, b);
    case TC_MAX: return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    case TC_MIN: return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    default: return NAN;
    }
}

/* base ** exponent for exponent >= 0. */
static tc_dim power(tc_dim_pool *pool, tc_dim base, tc_dim exponent) {
    tc_dim result = tc_dim_const(1);
    if (!tc_dim_is_const(exponent) || exponent.value < 0)
        return tc_dim_unknown();
    for (uint64_t e = (uint64_t)exponent.value; e && !tc_dim_is_unknown(result); e >>= 1) {
        if (e & 1)
            result = tc_dim_mul(pool, result, base);
        if (e > 1)
            base = tc_dim_mul(pool, base, base);
        if (tc_dim_is_unknown(base) && e > 1)
            return base;
    }
    return result;
}

/* ONNX divides integers toward zero; Mod takes the divisor's sign, with fmod=1 the dividend's. */
static tc_dim divide(tc_dim_pool *pool, tc_arith op, tc_dim a, tc_dim b) {
    tc_dim zero = tc_dim_const(0);
    if (tc_dim_is_const(a) && tc_dim_is_const(b)) {
        if (b.value == 0 || (a.value == INT64_MIN && b.value == -1))
            return tc_dim_unknown();
        int64_t rest = a.value % b.value;
        if (op == TC_MOD && rest != 0 && (rest < 0) != (b.value < 0))
            rest += b.value;
        return tc_dim_const(op == TC_DIV ? a.value / b.value : rest);
    }
    if (tc_dim_less(zero, b) != 1 || (op != TC_MOD && tc_dim_less(a, zero) != 0))
        return tc_dim_unknown();
    tc_dim quotient = tc_dim_div(pool, a, b);
    return op == TC_DIV ? quotient : tc_dim_sub(pool, a, tc_dim_mul(pool, b, quotient));
}

static tc_dim bits(tc_arith op, tc_dtype dtype, tc_dim a, tc_dim b) {
    if (tc_dim_is_const(a) && tc_dim_is_const(b))
        return tc_dim_const(op == TC_AND ? a.value & b.value : op == TC_OR ? a.value | b.value : a.value ^ b.value);
    tc_dim known = tc_dim_is_const(a) ? a : b;
    if (op == TC_XOR || !tc_dim_is_const(known) || dtype != TC_BOOL)
        return tc_dim_unknown();
    return (known.value != 0) == (op == TC_OR) ? known : tc_dim_unknown();
}

static tc_dim arith_int(tc_dim_pool *pool, tc_arith op, tc_dtype dtype, tc_dim a, tc_dim b) {
    switch (op) {
    case TC_ADD: return tc_dim_add(pool, a, b);
    case TC_SUB: return tc_dim_sub(pool, a, b);
    case TC_MUL: return tc_dim_mul(pool, a, b);
    case TC_MAX: return tc_dim_max(pool, a, b);
    case TC_MIN: return tc_dim_min(pool, a, b);
    case TC_POW: return power(pool, a, b);
    case TC_AND:
    case TC_OR:
    case TC_XOR: return bits(op, dtype, a, b);
    default: return divide(pool, op, a, b);
    }
}

tc_scalar tc_eval_arith(tc_eval *ev, tc_arith op, tc_dtype dtype, tc_scalar a, tc_scalar b) {
    if (tc_eval_is_int(dtype))
        return (tc_scalar){.i = tc_eval_wrap(dtype, arith_int(ev->dims, op, dtype, a.i, b.i))};
    return (tc_scalar){.f = tc_round_float(dtype, arith_float(op, a.f, b.f))};
}

typedef enum relation { EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL } relation;

static tc_dim compare(relation r, tc_dtype dtype, tc_scalar a, tc_scalar b) {
    if (!tc_eval_is_int(dtype)) {
        bool holds[] = {a.f == b.f, a.f<b.f, a.f <= b.f, a.f> b.f, a.f >= b.f};
        return tc_dim_const(holds[r]);
    }
    if (r == GREATER || r == GREATER_EQUAL)
        return compare(r == GREATER ? LESS : LESS_EQUAL, dtype, b, a);
    int less = tc_dim_less(a.i, b.i), more = tc_dim_less(b.i, a.i);
    bool same = tc_dim_equal(a.i, b.i);
    int answer = r == LESS                ? less
                 : r == LESS_EQUAL        ? (more < 0 ? -1 : !more)
                 : same                   ? 1
                 : less == 1 || more == 1 ? 0
                                          : -1;
    return answer < 0 ? tc_dim_unknown() : tc_dim_const(answer);
}

static const struct {
    const char *op;
    bool relation;
    int code;
} binaries[] = {
    {"Add", false, TC_ADD},
    {"Sub", false, TC_SUB},
    {"Mul", false, TC_MUL},
    {"Div", false, TC_DIV},
    {"Mod", false, TC_MOD},
    {"Pow", false, TC_POW},
    {"Max", false, TC_MAX},
    {"Min", false, TC_MIN},
    {"Sum", false, TC_ADD},
    {"And", false, TC_AND},
    {"Or", false, TC_OR},
    {"Xor", false, TC_XOR},
    {"Equal", true, EQUAL},
    {"Less", true, LESS},
    {"LessOrEqual", true, LESS_EQUAL},
    {"Greater", true, GREATER},
    {"GreaterOrEqual", true, GREATER_EQUAL},
    {"BitwiseAnd", false, TC_AND},
    {"BitwiseOr", false, TC_OR},
    {"BitwiseXor", false, TC_XOR},
};

/* The position in `contents` of the element for a coordinate of the broadcast result. */
static uint64_t broadcast_index(const tc_contents *contents, int rank, const int64_t *at) {
    uint64_t index = 0;
    for (int i = 0; i < contents->rank; i++) {
        int64_t x = contents->dims[i] == 1 ? 0 : at[rank - contents->rank + i];
        index = index * (uint64_t)contents->dims[i] + (uint64_t)x;
    }
    return index;
}

/* An exponent may have its own type. */
static tc_scalar convert(tc_dtype to, tc_dtype from, tc_scalar item) {
    if (tc_eval_is_int(to) == tc_eval_is_int(from))
        return item;
    if (tc_eval_is_int(to))
        return (tc_scalar){.i = item.f == floor(item.f) && fabs(item.f) < 9e15 ? tc_dim_const((int64_t)item.f)
                                                                               : tc_dim_unknown()};
    return (tc_scalar){.f = tc_dim_is_const(item.i) ? (double)item.i.value : NAN};
}

const tc_contents *tc_eval_binary(tc_eval *ev, const tc_node *node, uint32_t output) {
    size_t op = 0;
    while (op < TC_COUNT(binaries) && strcmp(binaries[op].op, node->op->name) != 0)
        op++;
    if (op == TC_COUNT(binaries) || node->n_inputs == 0)
        return NULL;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!tc_eval_in(ev, node, i))
            return NULL;
    tc_contents *out = tc_eval_out(ev, node, output);
    int code = binaries[op].code;
    if (code == TC_MOD && !binaries[op].relation && tc_attr_int(node, "fmod", 0) != 0)
        code = TC_FMOD;
    if (!out)
        return NULL;
    int64_t at[TC_MAX_RANK] = {0};
    for (uint64_t n = 0; n < out->count; n++, tc_eval_next(out->rank, out->dims, at)) {
        const tc_contents *a = tc_eval_in(ev, node, 0);
        tc_scalar sum = a->items[broadcast_index(a, out->rank, at)];
        for (uint32_t i = 1; i < node->n_inputs; i++) {
            const tc_contents *b = tc_eval_in(ev, node, i);
            tc_scalar item = convert(a->dtype, b->dtype, b->items[broadcast_index(b, out->rank, at)]);
            if (binaries[op].relation)
                sum.i = compare((relation)code, a->dtype, sum, item);
            else
                sum = tc_eval_arith(ev, (tc_arith)code, out->dtype, sum, item);
        }
        tc_eval_items(out)[n] = sum;
    }
    return out;
}

/* --- one operand ------------------------------------------------------------------------------ */

typedef double (*float_fn)(double x);
typedef tc_dim (*int_fn)(tc_dim_pool *pool, tc_dim x);

static double sign_float(double x) { return isnan(x) ? x : (x > 0) - (x < 0); }
static double reciprocal(double x) { return 1 / x; }
static double negate(double x) { return -x; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double relu(double x) { return x < 0 ? 0 : x; }
static double is_nan(double x) { return isnan(x); }
static double is_inf(double x) { return isinf(x); }

static tc_dim negate_int(tc_dim_pool *pool, tc_dim x) { return tc_dim_sub(pool, tc_dim_const(0), x); }

static tc_dim sign_int(tc_dim_pool *pool, tc_dim x) {
    (void)pool;
    tc_dim zero = tc_dim_const(0);
    if (tc_dim_less(zero, x) == 1 || tc_dim_less(x, zero) == 1)
        return tc_dim_const(tc_dim_less(zero, x) == 1 ? 1 : -1);
    return tc_dim_equal(x, zero) ? zero : tc_dim_unknown();
}

static tc_dim abs_int(tc_dim_pool *pool, tc_dim x) { return tc_dim_max(pool, x, negate_int(pool, x)); }
static tc_dim relu_int(tc_dim_pool *pool, tc_dim x) { return tc_dim_max(pool, x, tc_dim_const(0)); }

static tc_dim not_bool(tc_dim_pool *pool, tc_dim x) {
    (void)pool;
    return tc_dim_is_const(x) ? tc_dim_const(!x.value) : tc_dim_unknown();
}

static tc_dim not_bits(tc_dim_pool *pool, tc_dim x) { return tc_dim_sub(pool, tc_dim_const(-1), x); }

static const struct {
    const char *op;
    float_fn f;
    int_fn i;
} unaries[] = {
    {"Abs", fabs, abs_int},     {"Neg", negate, negate_int},
    {"Sqrt", sqrt, NULL},       {"Floor", floor, NULL},
    {"Ceil", ceil, NULL},       {"Exp", exp, NULL},
    {"Log", log, NULL},         {"Reciprocal", reciprocal, NULL},
    {"Round", nearbyint, NULL}, {"Erf", erf, NULL},
    {"Tanh", tanh, NULL},       {"Sigmoid", sigmoid, NULL},
    {"Sin", sin, NULL},         {"Cos", cos, NULL},
    {"Relu", relu, relu_int},   {"Sign", sign_float, sign_int},
    {"Not", NULL, not_bool},    {"BitwiseNot", NULL, not_bits},
    {"IsNaN", is_nan, NULL},    {"IsInf", is_inf, NULL},
};

/* IsInf may be asked for infinities of one sign only. */
static bool detects(const tc_node *node, double x) {
    return tc_attr_int(node, x > 0 ? "detect_positive" : "detect_negative", 1) != 0;
}

const tc_contents *tc_eval_unary(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    size_t op = 0;
    while (op < TC_COUNT(unaries) && strcmp(unaries[op].op, node->op->name) != 0)
        op++;
    if (!x || op == TC_COUNT(unaries) || (tc_eval_is_int(x->dtype) ? !unaries[op].i : !unaries[op].f))
        return NULL;
    tc_contents *out = tc_eval_out(ev, node, output);
    for (uint64_t n = 0; out && n < out->count; n++) {
        tc_scalar *item = &tc_eval_items(out)[n];
        if (tc_eval_is_int(x->dtype))
            item->i = tc_eval_wrap(out->dtype, unaries[op].i(ev->dims, x->items[n].i));
        else if (out->dtype == TC_BOOL)
            item->i = tc_dim_const(unaries[op].f(x->items[n].f) != 0 && detects(node, x->items[n].f));
        else
            item->f = tc_round_float(out->dtype, unaries[op].f(x->items[n].f));
    }
    return out;
}

/* --- Where, Cast ------------------------------------------------------------------------------ */

const tc_contents *tc_eval_where(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *condition = tc_eval_in(ev, node, 0), *a = tc_eval_in(ev, node, 1), *b = tc_eval_in(ev, node, 2);
    tc_contents *out = condition && a && b ? tc_eval_out(ev, node, output) : NULL;
    if (!out)
        return NULL;
    int64_t at[TC_MAX_RANK] = {0};
    for (uint64_t n = 0; n < out->count; n++, tc_eval_next(out->rank, out->dims, at)) {
        tc_dim chosen = condition->items[broadcast_index(condition, out->rank, at)].i;
        tc_scalar x = a->items[broadcast_index(a, out->rank, at)], y = b->items[broadcast_index(b, out->rank, at)];
        bool is_int = tc_eval_is_int(out->dtype);
        if (!tc_dim_is_const(chosen)) {
            if (!is_int && memcmp(&x.f, &y.f, sizeof x.f) != 0)
                return NULL;
            if (is_int && !tc_dim_equal(x.i, y.i))
                x.i = tc_dim_unknown();
            chosen = tc_dim_const(1);
        }
        tc_eval_items(out)[n] = chosen.value ? x : y;
    }
    return out;
}

/* False: the result is not defined or not known. */
static bool cast_item(tc_dtype to, tc_dtype from, tc_scalar x, tc_scalar *out) {
    if (!tc_eval_is_int(from)) {
        if (!tc_eval_is_int(to))
            out->f = tc_round_float(to, x.f);
        else if (to == TC_BOOL)
            out->i = tc_dim_const(x.f != 0);
        else if (fabs(x.f) < 9.2e18) { /* not NaN either */
            out->i = tc_eval_wrap(to, tc_dim_const((int64_t)x.f));
            return tc_dim_is_const(out->i) && out->i.value == (int64_t)x.f; /* out of range: undefined */
        } else
            return false;
        return true;
    }
    if (!tc_eval_is_int(to)) {
        out->f = tc_dim_is_const(x.i) ? tc_round_float(to, (double)x.i.value) : 0;
        return tc_dim_is_const(x.i);
    }
    if (to == TC_BOOL && !tc_dim_is_const(x.i))
        out->i = tc_dim_less(tc_dim_const(0), x.i) == 1 ? tc_dim_const(1) : tc_dim_unknown();
    else
        out->i = tc_eval_wrap(to, x.i);
    return true;
}

const tc_contents *tc_eval_cast(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    tc_contents *out = x ? tc_eval_out(ev, node, output) : NULL;
    for (uint64_t n = 0; out && n < out->count; n++)
        if (!cast_item(out->dtype, x->dtype, x->items[n], &tc_eval_items(out)[n]))
            return NULL;
    return out;
}
