/* test_reduce.c: reductions against their definition over which axes are reduced, sizes that are empty, odd and long,
 * and the same bits at 1 and 2 threads; ArgMax and CumSum on small cases with known answers. */
#include "test/unit/kernel_test.h"
#include "kernels/common/types.h"
#include "kernels/reduce/reduce.h"

/* One kind of input serves several ops: logarithms and products take numbers that are not negative, and products small
 * ones. */
typedef enum input_kind { ANY_SIGN, POSITIVE, FACTORS } input_kind;

static input_kind kind_of(int op) {
    return op == TK_REDUCE_PROD ? FACTORS : op == TK_REDUCE_LOG_SUM ? POSITIVE : ANY_SIGN;
}

static void fill(void *inp, int64_t n, tk_dtype dtype, input_kind kind) {
    uint64_t seed = (uint64_t)n;
    for (int64_t i = 0; i < n; i++) {
        double v = any_number(&seed) + (kind == ANY_SIGN ? 0.2 : 1.0);
        if (dtype == TK_F32)
            ((float *)inp)[i] = (float)v;
        else if (dtype == TK_F64)
            ((double *)inp)[i] = v;
        else
            ((int32_t *)inp)[i] = (int32_t)(v * (kind == FACTORS ? 1 : 5));
    }
}

/* The results of one op, exact[i * TK_REDUCE_OPS + op] being the definition's. */
static void check(const void *out, tk_reduce_op op, tk_dtype dtype, const tk_reduction *r, const double *all_exact) {
    double tolerance = dtype == TK_F32 ? 3e-7 : dtype == TK_F64 ? 1e-13 : 1;
    for (int64_t i = 0; i < r->n_out; i++) {
        const double *results = all_exact + i * TK_REDUCE_OPS;
        double exact = results[op], got = tk_get(out, dtype, i);
        if (dtype == TK_I32 && (r->n_each == 0 || fabs(exact) > 2e9))
            continue;
        double scale = op == TK_REDUCE_SUM || op == TK_REDUCE_MEAN ? results[TK_REDUCE_L1] : fabs(exact);
        if (op == TK_REDUCE_MEAN)
            scale /= (double)r->n_each;
        if (op == TK_REDUCE_LOG_SUM || op == TK_REDUCE_LOG_SUM_EXP)
            scale += 1; /* a relative error below the logarithm is an absolute one above */
        if (!(exact == got || fabs(got - exact) <= tolerance * (scale + 1e-30) || (isnan(exact) && isnan(got))))
            fail_msg("op %d, type %d, %lld results of %lld: %.9g, expected %.9g", (int)op, (int)dtype,
                     (long long)r->n_out, (long long)r->n_each, got, exact);
    }
}

static void every_op(tk_dtype dtype, const int64_t *dims, int axes) {
    bool is_reduced[4];
    for (int i = 0; i < 4; i++)
        is_reduced[i] = axes >> i & 1;
    tk_reduction r;
    tk_reduction_init(&r, 4, dims, is_reduced);
    int64_t n = dims[0] * dims[1] * dims[2] * dims[3];
    size_t size = tk_size(dtype), bytes = (size_t)r.n_out * size;
    char *inp = alloc_guarded((size_t)n * size, size), *out = alloc_guarded(bytes, size),
         *again = alloc_guarded(bytes, 0);
    void *workspace = malloc(tk_reduce_workspace(&r) + 1);
    double *exact = malloc(((size_t)r.n_out + 1) * TK_REDUCE_OPS * sizeof *exact);
    for (input_kind kind = ANY_SIGN; kind <= FACTORS; kind++) {
        fill(inp, n, dtype, kind);
        for (int64_t i = 0; i < r.n_out; i++)
            tk_reduce_ref(exact + i * TK_REDUCE_OPS, inp, &r, dtype, i);
        for (int op = 0; op < TK_REDUCE_OPS; op++) {
            if (kind_of(op) != kind)
                continue;
            use_threads(2);
            tk_reduce(queue(), out, inp, &r, (tk_reduce_op)op, dtype, workspace);
            use_threads(1);
            tk_reduce(queue(), again, inp, &r, (tk_reduce_op)op, dtype, workspace);
            assert_memory_equal(out, again, bytes);
            check(out, (tk_reduce_op)op, dtype, &r, exact);
            check_guards(out, bytes);
        }
    }
    free(exact);
    free(workspace);
    free_guarded(inp, (size_t)n * size);
    free_guarded(out, bytes);
    free_guarded(again, bytes);
}

TEST(all_reductions) {
    static const int64_t shapes[][4] = {{1, 1, 1, 1},   {2, 3, 4, 5},     {3, 0, 2, 4},
                                        {1, 7, 70, 65}, {300, 1, 3, 129}, {2, 40, 1, 513}};
    static const tk_dtype types[] = {TK_F32, TK_F64, TK_I32};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int axes = 0; axes < 16; axes++)
            for (int t = 0; t < 3; t++)
                every_op(types[t], shapes[s], axes);
}

TEST(long_rows) {
    static const int64_t shape[] = {2, 1, 30, 10001};
    every_op(TK_F32, shape, 12);
    every_op(TK_F64, shape, 15);
}

/* A sum of ten million tenths, which a plain float loop gets wrong in the second digit. */
TEST(sums_are_accurate) {
    int64_t dims[] = {10000000, 1};
    float *inp = malloc(sizeof(float) * 10000000), out;
    for (int64_t i = 0; i < 10000000; i++)
        inp[i] = 0.1f;
    tk_reduction r;
    tk_reduction_init(&r, 2, dims, (bool[]){true, true});
    void *workspace = malloc(tk_reduce_workspace(&r));
    tk_reduce(queue(), &out, inp, &r, TK_REDUCE_SUM, TK_F32, workspace);
    assert_true(ulps(out, 10000000 * (double)0.1f) <= 8);
    free(workspace);
    free(inp);
}

TEST(not_a_number_wins) {
    const float inp[] = {1, NAN, 3, -INFINITY};
    float out;
    tk_reduction r;
    tk_reduction_init(&r, 1, (int64_t[]){4}, (bool[]){true});
    tk_reduce(queue(), &out, inp, &r, TK_REDUCE_MAX, TK_F32, NULL);
    assert_true(isnan(out));
    tk_reduce(queue(), &out, inp, &r, TK_REDUCE_MIN, TK_F32, NULL);
    assert_true(isnan(out));
}

TEST(log_sum_exp_of_large_numbers) {
    const float inp[] = {1000, 1000, -INFINITY, -INFINITY};
    float out[2];
    tk_reduction r;
    tk_reduction_init(&r, 2, (int64_t[]){2, 2}, (bool[]){false, true});
    tk_reduce(queue(), out, inp, &r, TK_REDUCE_LOG_SUM_EXP, TK_F32, NULL);
    assert_true(ulps(out[0], 1000 + log(2)) <= 1 && out[1] == -INFINITY);
}

TEST(along_an_axis) {
    const float inp[] = {1, 5, 5, 2, 1, 7}; /* [1, 3, 2]: columns 1 5 1 and 5 2 7 */
    int64_t at[2];
    tk_arg(queue(), at, inp, 1, 3, 2, true, false, TK_F32);
    assert_true(at[0] == 1 && at[1] == 2);
    tk_arg(queue(), at, inp, 1, 3, 2, false, true, TK_F32);
    assert_true(at[0] == 2 && at[1] == 1);
    tk_arg(queue(), at, inp, 1, 3, 2, false, false, TK_F32);
    assert_true(at[0] == 0 && at[1] == 1);
    const int32_t ints[] = {1, 2, 3, 4};
    int32_t out[4];
    tk_cumsum(queue(), out, ints, 1, 4, 1, false, false, TK_I32, NULL);
    assert_memory_equal(out, ((int32_t[]){1, 3, 6, 10}), sizeof out);
    tk_cumsum(queue(), out, ints, 1, 4, 1, true, false, TK_I32, NULL);
    assert_memory_equal(out, ((int32_t[]){0, 1, 3, 6}), sizeof out);
    tk_cumsum(queue(), out, ints, 1, 4, 1, false, true, TK_I32, NULL);
    assert_memory_equal(out, ((int32_t[]){10, 9, 7, 4}), sizeof out);
    tk_cumsum(queue(), out, ints, 1, 4, 1, true, true, TK_I32, NULL);
    assert_memory_equal(out, ((int32_t[]){9, 7, 4, 0}), sizeof out);
    tk_cumsum(queue(), out, ints, 1, 2, 2, true, true, TK_I32, NULL);
    assert_memory_equal(out, ((int32_t[]){3, 4, 0, 0}), sizeof out);
}
