/* check_reduce.c: reductions of rows, columns and both, ArgMax, ArgMin, CumSum and the plain loop of Einsum on the
 * emulated device. */
#include "cuda_case.h"
#include <math.h>

static const bounds exact = {0};

typedef struct reduce_case {
    int rank;
    int64_t dims[5];
    bool reduced[5];
} reduce_case;

static const reduce_case cases[] = {
    {1, {1}, {true}},
    {2, {5, 33}, {false, true}},
    {2, {9, 64}, {false, true}},
    {2, {3, 1000}, {false, true}},
    {2, {2, 4104}, {false, true}},
    {2, {33, 5}, {true, false}},
    {2, {130, 24}, {true, false}},
    {2, {40, 300}, {true, false}},
    {3, {3, 7, 16}, {true, false, true}},
    {3, {3, 7, 13}, {true, false, true}},
    {4, {3, 4, 5, 8}, {false, true, false, true}},
    {4, {3, 4, 5, 17}, {true, false, true, false}},
    {2, {6, 11}, {false, false}},
    {2, {4, 0}, {false, true}},
    {2, {0, 9}, {true, false}},
};
/* Cut into chunks. */
static const reduce_case long_cases[] = {
    {1, {70001}, {true}},
    {2, {2, 66000}, {false, true}},
    {2, {9000, 9}, {true, false}},
    {2, {300, 264}, {true, false}},
};

/* Sums of n terms of about 1, or of their functions. */
static bounds of_sums(tk_reduce_op op, tk_dtype dtype, int64_t n) {
    double error = dtype == TK_F64 ? 1e-14 : 2e-6;
    if (op == TK_REDUCE_MAX || op == TK_REDUCE_MIN || !tk_is_float(dtype))
        return exact;
    return (bounds){.relative = error, .absolute = error * sqrt((double)n + 1), .ulps = tk_is_half(dtype) ? 1 : 0};
}

static void one(const reduce_case *c, tk_reduce_op op, tk_dtype dtype, int64_t first) {
    tk_reduction r;
    tk_reduction_init(&r, c->rank, c->dims, c->reduced);
    double low = op == TK_REDUCE_PROD ? 0.9 : op == TK_REDUCE_LOG_SUM ? 0.1 : -2, high = op == TK_REDUCE_PROD ? 1.1 : 2;
    if (!tk_is_float(dtype))
        low = op == TK_REDUCE_LOG_SUM ? 1 : -9, high = 9;
    if (r.n_each == 0 &&
        (op == TK_REDUCE_MEAN || (!tk_is_float(dtype) && op >= TK_REDUCE_LOG_SUM && op != TK_REDUCE_PROD)))
        return; /* what these are of nothing no kernel says */
    pair x = pair_from(pair_random(dtype, r.n_out * r.n_each + first, low, high), first),
         y = pair_result(dtype, r.n_out);
    ON_BOTH(reduce, AT(y), AT(x), &r, op, dtype, workspace(OF_TABLE(reduce_workspace)(&r)));
    pair_compare(y, of_sums(op, dtype, r.n_each), "op %d, [%lld, %lld, ...] from %lld", (int)op, (long long)c->dims[0],
                 (long long)c->dims[1], (long long)first);
}

static void reductions(void) {
    for (const tk_dtype *t = all_types; *t; t++)
        for (int op = 0; op < TK_REDUCE_OPS; op++)
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                for (int64_t first = 0; first < 2; first++) /* packed, and not */
                    if (tk_reduce_has((tk_reduce_op)op, *t) && (first == 0 || op == TK_REDUCE_SUM))
                        one(&cases[i], (tk_reduce_op)op, *t, first);
}

static void chunks(void) {
    static const tk_dtype types[] = {TK_F32, TK_BF16, TK_I64};
    static const tk_reduce_op ops[] = {TK_REDUCE_SUM, TK_REDUCE_MAX, TK_REDUCE_LOG_SUM_EXP};
    for (size_t i = 0; i < sizeof long_cases / sizeof *long_cases; i++)
        for (size_t t = 0; t < 3; t++)
            for (size_t o = 0; o < 3; o++)
                if (t == 0 || o == 0)
                    one(&long_cases[i], ops[o], types[t], t == 0 && o == 0);
}

/* Not a number is the largest and the smallest; infinities in LogSumExp; sums of 2^20 ones are exact. */
static void extremes(void) {
    const double numbers[] = {1, NAN, -3, 2, INFINITY, 0, 1, -1, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    const int64_t dims[] = {3, 4}, turned[] = {4, 3};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int columns = 0; columns < 2; columns++)
            for (int op = TK_REDUCE_LOG_SUM_EXP; op < TK_REDUCE_OPS; op++) {
                if (op == TK_REDUCE_PROD)
                    continue;
                tk_reduction r;
                tk_reduction_init(&r, 2, columns ? turned : dims, (bool[]){columns, !columns});
                pair x = pair_numbers(*t, 12, numbers), y = pair_result(*t, r.n_out);
                ON_BOTH(reduce, AT(y), AT(x), &r, (tk_reduce_op)op, *t, workspace(OF_TABLE(reduce_workspace)(&r)));
                pair_compare(y, of_sums((tk_reduce_op)op, *t, 4), "op %d, columns %d", op, columns);
            }
}

/* The bits of a sum don't depend on whether its operand is aligned. */
static void alignment(void) {
    static const reduce_case same[] = {{2, {3, 2056}, {false, true}}, {2, {200, 264}, {true, false}}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < 2; i++) {
            tk_reduction r;
            tk_reduction_init(&r, same[i].rank, same[i].dims, same[i].reduced);
            pair x = pair_random(*t, r.n_out * r.n_each + 1, -2, 2), a = pair_result(*t, r.n_out),
                 b = pair_result(*t, r.n_out), moved = pair_result(*t, r.n_out * r.n_each + 9);
            pair to = pair_from(moved, 9);
            ON_BOTH(copy, AT(to), AT(x), (size_t)to.n * tk_size(*t));
            ON_BOTH(reduce, AT(a), AT(x), &r, TK_REDUCE_SUM, *t, workspace(OF_TABLE(reduce_workspace)(&r)));
            ON_BOTH(reduce, AT(b), AT(to), &r, TK_REDUCE_SUM, *t, workspace(OF_TABLE(reduce_workspace)(&r)));
            for (int64_t k = 0; k < r.n_out; k++)
                if (device_number(a, k) != device_number(b, k))
                    wrong("type %d: sum %lld of %zu is %.17g, and %.17g of operands that are not aligned", (int)*t,
                          (long long)k, i, device_number(a, k), device_number(b, k));
        }
}

static void args(void) {
    static const int64_t shapes[][3] = {{3, 1, 1}, {4, 70, 1}, {2, 9, 40}, {1, 300, 3}};
    const double odd[] = {NAN, 3, NAN, 1, 3, NAN, 2, 3};
    for (const tk_dtype *t = all_numbers; *t; t++)
        for (size_t i = 0; i < 4; i++)
            for (int flags = 0; flags < 4; flags++) {
                const int64_t *s = shapes[i];
                pair x = pair_random(*t, s[0] * s[1] * s[2], 0, 9), y = pair_result(TK_I64, s[0] * s[2]);
                ON_BOTH(arg, AT(y), AT(x), s[0], s[1], s[2], flags & 1, flags & 2, *t);
                pair_compare(y, exact, "shape %zu, flags %d", i, flags);
                pair z = pair_numbers(*t, 8, odd), w = pair_result(TK_I64, 2);
                if (!tk_is_float(*t) || i > 1)
                    continue;
                ON_BOTH(arg, AT(w), AT(z), i ? 1 : 2, i ? 4 : 4, i ? 2 : 1, flags & 1, flags & 2, *t);
                pair_compare(w, exact, "not a number, flags %d", flags);
            }
}

static void cumsums(void) {
    static const int64_t ns[] = {1, 7, 50, 300};
    for (const tk_dtype *t = all_numbers; *t; t++)
        for (int64_t inner = 1; inner < 40; inner += 32)
            for (int flags = 0; flags < 4 * (int)(sizeof ns / sizeof *ns); flags++) {
                const int64_t n = ns[flags / 4];
                pair x = pair_random(*t, 3 * n * inner, -9, 9), y = pair_result(*t, 3 * n * inner);
                ON_BOTH(cumsum, AT(y), AT(x), 3, n, inner, flags & 1, flags & 2, *t,
                        workspace(OF_TABLE(cumsum_workspace)(3 * inner, n, *t)));
                pair_compare(y, of_sums(TK_REDUCE_SUM, *t, 2000), "n %lld, inner %lld, flags %d", (long long)n,
                             (long long)inner, flags % 4);
            }
}

static void einsums(void) {
    /* out[i, k] = sum over j, l of a[i, j, l] b[l, k] c[j] */
    const tk_einsum e = {.n_operands = 3,
                         .n_indices = 4,
                         .n_out = 2,
                         .dims = {5, 7, 3, 4},
                         .strides = {{12, 0, 4, 1}, {0, 1, 0, 7}, {0, 0, 1, 0}}};
    for (const tk_dtype *t = all_numbers; *t; t++) {
        if (!tk_einsum_has(*t))
            continue;
        pair a = pair_random(*t, 60, -3, 3), b = pair_random(*t, 28, -3, 3), c = pair_random(*t, 3, -3, 3),
             y = pair_result(*t, 35);
        ON_BOTH(einsum_loop, AT(y), ((const void *const[]){AT(a), AT(b), AT(c)}), &e, *t);
        pair_compare(y, of_sums(TK_REDUCE_SUM, *t, 100), "three operands");
    }
}

const cuda_check checks[] = {{"reductions", reductions}, {"chunks", chunks}, {"extremes", extremes},
                             {"alignment", alignment},   {"args", args},     {"cumsums", cumsums},
                             {"einsums", einsums},       {NULL, NULL}};
