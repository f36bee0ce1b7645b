/* check_elementwise.c: the elementwise family on the emulated device: every row of the tables of unary and binary ops,
 * Pow, Clip, Where, sums, with operands broadcast in all ways. */
#include "cuda_case.h"
#include <math.h>
#include <string.h>

static const int64_t sizes[] = {1, 31, 257, 1003};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static bounds of(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 1, .absolute = 1e-6}
           : dtype == TK_F64 ? (bounds){.relative = 1e-13, .absolute = 1e-14}
           : dtype == TK_F32 ? (bounds){.relative = 2e-6, .absolute = 2e-7}
                             : (bounds){0};
}

static bool is_signed(tk_dtype dtype) {
    return tk_is_float(dtype) || dtype == TK_I8 || dtype == TK_I16 || dtype == TK_I32 || dtype == TK_I64;
}

/* Small numbers, among them those that are special. */
static pair operand(tk_dtype dtype, int64_t n) {
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1};
    double numbers[2048];
    pair p = pair_random(dtype, n, is_signed(dtype) ? -4 : 0, 5);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = i % 29 == 11 && tk_is_float(dtype) ? special[i / 29 % (int64_t)COUNT(special)]
                                                        : tk_get(p.at[HOST], dtype, i);
    return pair_numbers(dtype, n, numbers);
}

/* --- unary ops ---------------------------------------------------------------------------------- */

static void run_unary(const tk_unary *row, pair y, pair x, const double *params, const char *how) {
    ON_BOTH(unary_run, row, AT(y), AT(x), y.n, params);
    pair_compare(y, of(row->out), "%s of %lld elements of type %d, %s", row->op, (long long)y.n, (int)row->dtype, how);
}

/* Operands of an op: definitions by fmax and fmin lose what is not a number, that of ModFloor what an infinite divisor
 * leaves; kernels keep both. */
static pair operand_of(const char *op, tk_dtype dtype, int64_t n) {
    static const char *const plain[] = {"Relu", "HardSigmoid", "HardSwish", "ModFloor"};
    for (size_t i = 0; i < COUNT(plain); i++)
        if (strcmp(plain[i], op) == 0)
            return pair_random(dtype, n, is_signed(dtype) ? -4 : 0, 5);
    return operand(dtype, n);
}

static void unary(void) {
    static const double params[][TK_UNARY_PARAMS] = {{0.75, 0.5}, {0, 1}};
    for (int64_t r = 0; tk_unary_at(r); r++) {
        const tk_unary *row = tk_unary_at(r);
        for (size_t i = 0; i < COUNT(sizes); i++) {
            const double *p = params[i % 2 && strcmp(row->op, "Celu") != 0];
            pair x = operand_of(row->op, row->dtype, sizes[i] + 1), y = pair_result(row->out, sizes[i] + 1);
            x.n = y.n = sizes[i];
            run_unary(row, y, x, p, "at its start");
            x.n = y.n = sizes[i] + 1;
            run_unary(row, pair_from(y, 1), pair_from(x, 1), p, "one behind");
        }
        if (row->out == row->dtype) {
            pair x = operand_of(row->op, row->dtype, 100);
            run_unary(row, x, x, params[0], "in place");
        }
    }
}

/* All numbers of 16 bits, against the op in double: half an ulp, and what fast functions may lose. */
static void unary_halves(void) {
    static const char *const ops[] = {"Exp", "Erf", "Tanh", "Sigmoid", "Sqrt", "Reciprocal", "Log"};
    enum { ALL = 65536 };
    static uint16_t bits[ALL];
    static double exact[ALL], least[ALL]; /* what is below 2^-126 may be 0 */
    const double params[TK_UNARY_PARAMS] = {0};
    for (int i = 0; i < ALL; i++)
        bits[i] = (uint16_t)i, least[i] = 0x1p-126;
    for (size_t k = 0; k < 2 * COUNT(ops); k++) {
        tk_dtype dtype = k % 2 ? TK_BF16 : TK_F16;
        const tk_unary *row = tk_unary_find(ops[k / 2], dtype);
        pair x = pair_of(dtype, ALL, bits), y = pair_result(dtype, ALL);
        for (int i = 0; i < ALL; i++) {
            exact[i] = tk_unary_ref(row->op, tk_get(x.at[HOST], dtype, i), params);
            if (fabs(exact[i]) >= (dtype == TK_F16 ? 65520 : 0x1.ffp127))
                exact[i] = copysign(INFINITY, exact[i]);
        }
        tables[DEVICE]->unary_run(queues[DEVICE], row, y.at[DEVICE], x.at[DEVICE], ALL, params);
        wait_for_both();
        pair_compare_exact(y, exact, 0.52, least, "%s of all numbers", row->op);
    }
}

/* --- broadcast operands ----------------------------------------------------------------------------- */

/* Shapes of a result and three operands. */
typedef struct shapes {
    int rank;
    int64_t out[6];
    struct {
        int rank;
        int64_t dims[6];
    } inp[3];
} shapes;
static const shapes cases[] = {
    {1, {1}, {{1, {1}}, {1, {1}}, {1, {1}}}},
    {1, {257}, {{1, {257}}, {1, {257}}, {1, {257}}}},
    {1, {1001}, {{1, {1001}}, {1, {1}}, {1, {1001}}}},
    {1, {1003}, {{1, {1}}, {1, {1003}}, {0, {0}}}},
    {2, {5, 32}, {{2, {5, 32}}, {1, {32}}, {2, {5, 1}}}},    /* a bias, in packs */
    {2, {5, 33}, {{1, {33}}, {2, {5, 33}}, {2, {5, 1}}}},    /* and not in packs */
    {2, {64, 16}, {{2, {64, 16}}, {2, {64, 1}}, {1, {16}}}}, /* one number for a row */
    {2, {3, 1}, {{2, {3, 1}}, {2, {3, 1}}, {1, {1}}}},
    {3, {3, 7, 16}, {{3, {3, 1, 16}}, {2, {7, 1}}, {3, {1, 7, 16}}}},
    {4, {2, 3, 5, 8}, {{4, {2, 1, 5, 1}}, {4, {1, 3, 1, 8}}, {4, {2, 3, 5, 8}}}},
    {4, {2, 3, 5, 7}, {{4, {2, 1, 5, 1}}, {4, {1, 3, 1, 7}}, {4, {2, 3, 5, 7}}}},
    {6, {2, 3, 2, 3, 2, 3}, {{6, {2, 1, 2, 1, 2, 1}}, {6, {1, 3, 1, 3, 1, 3}}, {6, {2, 3, 2, 3, 2, 3}}}},
    {2, {0, 5}, {{2, {0, 5}}, {1, {5}}, {1, {1}}}},
};

static tk_bcast bcast_of(const shapes *s, int first, int n) {
    tk_bcast bc;
    tk_shape inp[3];
    for (int k = 0; k < n; k++)
        inp[k] = (tk_shape){s->inp[first + k].rank, s->inp[first + k].dims};
    if (!tk_bcast_init(&bc, (tk_shape){s->rank, s->out}, inp, n))
        wrong("shapes do not broadcast");
    return bc;
}

static int64_t count_of(const shapes *s, int k) {
    int64_t n = 1;
    for (int d = 0; d < s->inp[k].rank; d++)
        n *= s->inp[k].dims[d];
    return n;
}

static void binary(void) {
    for (int64_t r = 0; tk_binary_at(r); r++) {
        const tk_binary *row = tk_binary_at(r);
        for (size_t i = 0; i < COUNT(cases); i++) {
            tk_bcast bc = bcast_of(&cases[i], 0, 2);
            pair a = operand_of(row->op, row->dtype, count_of(&cases[i], 0) + 1);
            pair b = operand_of(row->op, row->dtype, count_of(&cases[i], 1));
            pair y = pair_result(row->out, bc.count);
            ON_BOTH(binary_run, row, AT(y), AT(a), AT(b), &bc);
            pair_compare(y, of(row->out), "%s of type %d, case %zu", row->op, (int)row->dtype, i);
            pair shifted = pair_from(a, 1);
            ON_BOTH(binary_run, row, AT(y), AT(shifted), AT(b), &bc);
            pair_compare(y, of(row->out), "%s of type %d, case %zu, one behind", row->op, (int)row->dtype, i);
        }
        if (row->out == row->dtype) {
            tk_bcast bc = bcast_of(&cases[4], 0, 2);
            pair a = operand_of(row->op, row->dtype, bc.count), b = operand_of(row->op, row->dtype, 32);
            ON_BOTH(binary_run, row, AT(a), AT(a), AT(b), &bc);
            pair_compare(a, of(row->out), "%s of type %d, over its operand", row->op, (int)row->dtype);
        }
    }
}

static void where(void) {
    static const tk_dtype types[] = {TK_U8, TK_F16, TK_F32, TK_I64};
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t i = 0; i < COUNT(cases); i++) {
            tk_bcast bc = bcast_of(&cases[i], 0, 3);
            pair cond = pair_random(TK_BOOL, count_of(&cases[i], 0) + 1, 0, 1), y = pair_result(types[t], bc.count);
            pair a = operand(types[t], count_of(&cases[i], 1)), b = operand(types[t], count_of(&cases[i], 2));
            for (int64_t first = 0; first < 2; first++) {
                pair from = pair_from(cond, first);
                ON_BOTH(where, AT(y), AT(from), AT(a), AT(b), tk_size(types[t]), &bc);
                pair_compare(y, (bounds){0}, "Where, case %zu, condition from %d", i, (int)first);
            }
            if (count_of(&cases[i], 2) == bc.count) {
                ON_BOTH(where, AT(b), AT(cond), AT(a), AT(b), tk_size(types[t]), &bc);
                pair_compare(b, (bounds){0}, "Where, case %zu, over its operand", i);
            }
        }
}

/* --- Pow and Clip ------------------------------------------------------------------------------------- */

static void power(void) {
    for (const tk_dtype *base = all_numbers; *base; base++)
        for (const tk_dtype *exponent = all_numbers; *exponent; exponent++) {
            if (!tk_pow_has(*base, *exponent))
                continue;
            for (size_t i = 0; i < COUNT(cases); i++) {
                tk_bcast bc = bcast_of(&cases[i], 0, 2);
                pair x = operand(*base, count_of(&cases[i], 0));
                pair e = pair_random(*exponent, count_of(&cases[i], 1), is_signed(*exponent) ? -2 : 0, 4);
                pair y = pair_result(*base, bc.count);
                ON_BOTH(pow, AT(y), AT(x), *base, AT(e), *exponent, &bc);
                pair_compare(y, of(*base), "Pow with exponents of type %d, case %zu", (int)*exponent, i);
            }
            tk_bcast bc = bcast_of(&cases[2], 0, 2);
            pair x = operand(*base, 1001), two = pair_numbers(*exponent, 1, (double[]){2});
            ON_BOTH(pow, AT(x), AT(x), *base, AT(two), *exponent, &bc);
            pair_compare(x, of(*base), "squares, in place");
        }
}

static void clip(void) {
    for (const tk_dtype *t = all_numbers; *t; t++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (int which = 0; which < 4; which++) {
                pair x = operand(*t, sizes[i] + 1), y = pair_result(*t, sizes[i] + 1);
                pair low = pair_numbers(*t, 1, (double[]){i == 1 ? 3 : 1}), high = pair_numbers(*t, 1, (double[]){2});
                const pair none = {0}, from = which & 1 ? low : none, to = which & 2 ? high : none;
                for (int64_t first = 0; first < 2; first++) {
                    pair a = pair_from(x, first), b = pair_from(y, first);
                    b.n = sizes[i];
                    ON_BOTH(clip, AT(b), AT(a), AT(from), AT(to), sizes[i], *t);
                    pair_compare(b, (bounds){0}, "Clip with bounds %d", which);
                }
                x.n = sizes[i];
                ON_BOTH(clip, AT(x), AT(x), AT(from), AT(to), sizes[i], *t);
                pair_compare(x, (bounds){0}, "Clip with bounds %d, in place", which);
            }
}

/* --- sums ------------------------------------------------------------------------------------------- */

static void divide(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < COUNT(sizes) && !tk_is_half(*t); i++) {
            pair x = operand(*t, sizes[i]);
            ON_BOTH(divide, AT(x), sizes[i], 3.0, *t);
            pair_compare(x, of(*t), "%lld elements by 3", (long long)sizes[i]);
        }
}

/* Sums of more operands than one launch has are rounded more than once. */
static void half_sum(void) {
    static const int counts[] = {1, 3, 4, 5, 32, 40};
    enum { MOST = 40 };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t c = 0; c < 2 * COUNT(counts); c++) {
            tk_dtype dtype = c % 2 ? TK_BF16 : TK_F16;
            int count = counts[c / 2];
            tk_bcast bc[MOST];
            pair inp[MOST];
            const void *at[SIDES][MOST];
            for (int k = 0; k < count; k++) {
                bc[k] = bcast_of(&cases[i], k % 3, 1);
                inp[k] = pair_random(dtype, count_of(&cases[i], k % 3), -1, 1);
                for (int s = HOST; s < SIDES; s++)
                    at[s][k] = inp[k].at[s];
            }
            pair y = count_of(&cases[i], 0) == bc[0].count && c > 3 ? inp[0] : pair_result(dtype, bc[0].count);
            bool more = count > 32 || (count > 4 && cases[i].rank > 4);
            double half_ulp = dtype == TK_BF16 ? 0x1p-9 : 0x1p-12;
            ON_BOTH(half_sum, AT(y), at[side], bc, count, 2.5, dtype);
            pair_compare(y, (bounds){.ulps = 1, .absolute = more ? 20 * half_ulp : 1e-6}, "sums of %d, case %zu", count,
                         i);
        }
}

const cuda_check checks[] = {
    {"unary", unary},   {"unary of all halves", unary_halves},
    {"binary", binary}, {"where", where},
    {"pow", power},     {"clip", clip},
    {"divide", divide}, {"half_sum", half_sum},
    {NULL, NULL},
};
