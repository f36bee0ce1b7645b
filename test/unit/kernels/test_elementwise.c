/* test_elementwise.c: every unary and binary kernel against its definition in double precision, over sizes, alignments
 * and broadcasts, between guard bands, at 1 and 2 threads. */
#include "test/unit/kernel_test.h"
#include "kernels/common/types.h"
#include "kernels/elementwise/elementwise.h"

static void put(void *data, tk_dtype dtype, int64_t i, double v) {
    switch (dtype) {
    case TK_F32:
    case TK_F64:
    case TK_F16:
    case TK_BF16: tk_put(data, dtype, i, v); break;
    case TK_I8: ((int8_t *)data)[i] = (int8_t)v; break;
    case TK_U8: ((uint8_t *)data)[i] = (uint8_t)v; break;
    case TK_BOOL: ((uint8_t *)data)[i] = v > 3; break;
    case TK_I16: ((int16_t *)data)[i] = (int16_t)v; break;
    case TK_U16: ((uint16_t *)data)[i] = (uint16_t)v; break;
    case TK_I32: ((int32_t *)data)[i] = (int32_t)v; break;
    case TK_U32: ((uint32_t *)data)[i] = (uint32_t)v; break;
    case TK_I64: ((int64_t *)data)[i] = (int64_t)v; break;
    default: ((uint64_t *)data)[i] = (uint64_t)v; break;
    }
}

static int is_signed(tk_dtype dtype) {
    return tk_is_float(dtype) || dtype == TK_I8 || dtype == TK_I16 || dtype == TK_I32 || dtype == TK_I64;
}

/* Small numbers, so that no integer type wraps; `least` where an op has a domain. */
static void *numbers(tk_dtype dtype, int64_t n, uint64_t seed, double least, double most) {
    void *data = alloc_guarded((size_t)n * tk_size(dtype), tk_size(dtype));
    for (int64_t i = 0; i < n; i++) {
        double v = (any_number(&seed) + 1) / 2 * (most - least) + least;
        put(data, dtype, i, tk_is_float(dtype) ? v : floor(v));
    }
    return data;
}

static void expect(const void *out, tk_dtype dtype, int64_t i, double exact, const char *op) {
    double got = tk_get(out, dtype, i), scale = fabs(exact) + 1;
    double tolerance = scale * (dtype == TK_F32    ? 4e-7
                                : dtype == TK_F64  ? 1e-14
                                : dtype == TK_F16  ? 0x1.01p-11 /* half of the last place, and what float lacks */
                                : dtype == TK_BF16 ? 0x1.01p-8
                                                   : 0);
    if (isnan(exact) ? !isnan(got) : !(got == exact || fabs(got - exact) <= tolerance))
        fail_msg("%s: element %lld of type %d is %.9g, expected %.9g", op, (long long)i, (int)dtype, got, exact);
}

static const int64_t sizes[] = {0, 1, 7, 64, 1001, 40000};

TEST(unary) {
    const double params[TK_UNARY_PARAMS] = {0.3, 0.5};
    for (int64_t k = 0; tk_unary_at(k); k++) {
        const tk_unary *u = tk_unary_at(k);
        int inside = strcmp(u->op, "Asin") == 0 || strcmp(u->op, "Acos") == 0 || strcmp(u->op, "Atanh") == 0;
        int above = strcmp(u->op, "Acosh") == 0, positive = strcmp(u->op, "Log") == 0 || strcmp(u->op, "Sqrt") == 0;
        double least = above                              ? 1
                       : inside                           ? -0.99
                       : positive || !is_signed(u->dtype) ? 0.01
                                                          : -9,
               most = inside ? 0.99 : 9;
        if (!is_signed(u->dtype) && strcmp(u->op, "BitwiseNot") == 0)
            continue; /* the definition is of signed types */
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            int64_t n = sizes[s];
            size_t bytes = (size_t)n * tk_size(u->out);
            void *inp = numbers(u->dtype, n, (uint64_t)k, least, most), *out = alloc_guarded(bytes, tk_size(u->out));
            void *again = alloc_guarded(bytes, 0);
            use_threads(2);
            tk_unary_run(queue(), u, out, inp, n, params);
            use_threads(1);
            tk_unary_run(queue(), u, again, inp, n, params);
            assert_memory_equal(out, again, bytes);
            for (int64_t i = 0; i < n; i++)
                expect(out, u->out, i, tk_unary_ref(u->op, tk_get(inp, u->dtype, i), params), u->op);
            free_guarded(again, bytes);
            free_guarded(out, bytes);
            free_guarded(inp, (size_t)n * tk_size(u->dtype));
        }
    }
}

/* Result, operand a, operand b: 4 dims each. */
static const int64_t shapes[][3][4] = {
    {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}},           {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}},
    {{2, 3, 4, 5}, {2, 3, 4, 5}, {1, 1, 1, 5}},           {{2, 3, 4, 5}, {1, 1, 1, 1}, {2, 3, 4, 5}},
    {{2, 3, 4, 5}, {2, 3, 4, 1}, {1, 1, 4, 5}},           {{2, 3, 4, 5}, {1, 3, 1, 5}, {2, 1, 4, 1}},
    {{3, 0, 4, 5}, {3, 0, 4, 5}, {1, 1, 4, 1}},           {{4, 1, 70, 129}, {4, 1, 1, 129}, {1, 1, 70, 129}},
    {{2, 130, 1, 257}, {2, 130, 1, 257}, {2, 130, 1, 1}}, {{5, 6, 7, 1}, {5, 1, 7, 1}, {1, 6, 1, 1}},
    {{2, 3, 4, 5}, {2, 3, 4, 1}, {1, 1, 1, 1}},           {{2, 1, 1, 2100}, {2, 1, 1, 1}, {2, 1, 1, 1}},
};

static int64_t count_of(const int64_t *dims) { return dims[0] * dims[1] * dims[2] * dims[3]; }

static int64_t offset_of(int64_t i, const int64_t *out, const int64_t *dims) {
    int64_t offset = 0, stride = 1;
    for (int d = 3; d >= 0; d--) {
        offset += dims[d] == 1 ? 0 : i % out[d] * stride;
        stride *= dims[d];
        i /= out[d];
    }
    return offset;
}

TEST(binary) {
    for (int64_t k = 0; tk_binary_at(k); k++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            const tk_binary *b = tk_binary_at(k);
            const int64_t *out_dims = shapes[s][0], *a_dims = shapes[s][1], *b_dims = shapes[s][2];
            int64_t n = count_of(out_dims), a_n = count_of(a_dims), b_n = count_of(b_dims);
            int sub = strcmp(b->op, "Sub") == 0, division = strcmp(b->op, "Div") == 0;
            double least = is_signed(b->dtype) ? -8 : sub ? 4 : 0;
            size_t bytes = (size_t)n * tk_size(b->out);
            void *x = numbers(b->dtype, a_n, (uint64_t)k, least, 8);
            void *y = numbers(b->dtype, b_n, (uint64_t)k + 99,
                              tk_is_float(b->dtype) ? least
                              : sub                 ? 0
                                                    : 1,
                              sub && !is_signed(b->dtype) ? 4 : 8);
            void *out = alloc_guarded(bytes, tk_size(b->out)), *again = alloc_guarded(bytes, 0);
            tk_bcast bc;
            assert_true(tk_bcast_init(&bc, (tk_shape){4, out_dims}, (tk_shape[]){{4, a_dims}, {4, b_dims}}, 2));
            assert_int_equal(bc.count, n);
            use_threads(2);
            tk_binary_run(queue(), b, out, x, y, &bc);
            use_threads(1);
            tk_binary_run(queue(), b, again, x, y, &bc);
            assert_memory_equal(out, again, bytes);
            for (int64_t i = 0; i < n; i++) {
                double exact = tk_binary_ref(b->op, tk_get(x, b->dtype, offset_of(i, out_dims, a_dims)),
                                             tk_get(y, b->dtype, offset_of(i, out_dims, b_dims)));
                exact = division && !tk_is_float(b->dtype) ? trunc(exact) : exact;
                exact = b->dtype == TK_I8 || b->dtype == TK_U8 ? (double)((int64_t)exact & 0xff) : exact;
                exact = b->dtype == TK_I8 && exact > 127 ? exact - 256 : exact;
                if (strcmp(b->op, "ModFloor") != 0 || !tk_is_float(b->dtype))
                    expect(out, b->out, i, exact, b->op);
            }
            free_guarded(again, bytes);
            free_guarded(out, bytes);
            free_guarded(x, (size_t)a_n * tk_size(b->dtype));
            free_guarded(y, (size_t)b_n * tk_size(b->dtype));
        }
}

TEST(integers_do_not_trap) {
    const int32_t a[] = {INT32_MIN, INT32_MIN, 7, -7, -7, 7}, b[] = {-1, 0, 0, 2, -2, -2};
    const int32_t div[] = {INT32_MIN, 0, 0, -3, 3, -3}, mod[] = {0, 0, 0, -1, -1, 1},
                  floor_mod[] = {0, 0, 0, 1, -1, -1};
    int32_t out[6];
    const int64_t dims[] = {6};
    tk_bcast bc;
    assert_true(tk_bcast_init(&bc, (tk_shape){1, dims}, (tk_shape[]){{1, dims}, {1, dims}}, 2));
    tk_binary_run(queue(), tk_binary_find("Div", TK_I32), out, a, b, &bc);
    assert_memory_equal(out, div, sizeof div);
    tk_binary_run(queue(), tk_binary_find("Mod", TK_I32), out, a, b, &bc);
    assert_memory_equal(out, mod, sizeof mod);
    tk_binary_run(queue(), tk_binary_find("ModFloor", TK_I32), out, a, b, &bc);
    assert_memory_equal(out, floor_mod, sizeof floor_mod);
}

TEST(shapes_that_do_not_broadcast) {
    const int64_t out[] = {2, 3}, other[] = {2, 2}, longer[] = {1, 2, 3};
    tk_bcast bc;
    assert_false(tk_bcast_init(&bc, (tk_shape){2, out}, (tk_shape[]){{2, other}}, 1));
    assert_false(tk_bcast_init(&bc, (tk_shape){2, out}, (tk_shape[]){{3, longer}}, 1));
}

TEST(selections) {
    const float inp[] = {-2, NAN, 0.5f, 9}, low = -1, high = 4;
    float out[4];
    tk_clip(queue(), out, inp, &low, &high, 4, TK_F32);
    assert_true(out[0] == -1 && isnan(out[1]) && out[2] == 0.5f && out[3] == 4);
    tk_clip(queue(), out, inp, &high, &low, 4, TK_F32);
    assert_true(out[0] == -1 && out[3] == -1);
    tk_clip(queue(), out, inp, NULL, NULL, 4, TK_F32);
    assert_true(out[0] == -2 && out[3] == 9);
    const uint16_t half_low = 0xbc00, half_high = 0x4400, halves[] = {0xc000, 0x7e00, 0x3800, 0x4880};
    const uint16_t clipped[] = {0xbc00, 0x7e00, 0x3800, 0x4400};
    uint16_t half_out[4];
    tk_clip(queue(), half_out, halves, &half_low, &half_high, 4, TK_F16); /* the same numbers */
    assert_memory_equal(half_out, clipped, sizeof clipped);
    const int64_t dims[] = {2, 2}, column[] = {2, 1}, one[] = {1};
    const uint8_t cond[] = {1, 0};
    const int64_t base[] = {3, -1, 2, 0}, exponents[] = {3, -3}, minus[] = {-9};
    int64_t whole[4];
    tk_bcast bc;
    tk_bcast_init(&bc, (tk_shape){2, dims}, (tk_shape[]){{2, column}, {2, dims}, {1, one}}, 3);
    tk_where(queue(), whole, cond, base, minus, sizeof(int64_t), &bc);
    assert_memory_equal(whole, ((int64_t[]){3, -1, -9, -9}), sizeof whole);
    tk_bcast_init(&bc, (tk_shape){2, dims}, (tk_shape[]){{2, dims}, {2, column}}, 2);
    tk_pow(queue(), whole, base, TK_I64, exponents, TK_I64, &bc);
    assert_memory_equal(whole, ((int64_t[]){27, -1, 0, 0}), sizeof whole);
}

/* 2048 + 1 + 1 is 2048 where each sum is rounded to 11 bits, 2050 where only the last one is. */
TEST(sums_of_halves) {
    enum { ROWS = 5, COLUMNS = 3001 };
    const int64_t dims[] = {ROWS, COLUMNS}, column[] = {ROWS, 1}, one[] = {1};
    uint16_t *big = alloc_guarded(ROWS * COLUMNS * 2, 2), *out = alloc_guarded(ROWS * COLUMNS * 2, 2), ones[ROWS],
             single = 0x3c00;
    tk_bcast bc[3];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        big[i] = i % 2 ? 0x6800 : 0x7bff; /* 2048, 65504 */
    for (int i = 0; i < ROWS; i++)
        ones[i] = 0x3c00;
    tk_bcast_init(&bc[0], (tk_shape){2, dims}, (tk_shape[]){{2, column}}, 1);
    tk_bcast_init(&bc[1], (tk_shape){2, dims}, (tk_shape[]){{2, dims}}, 1);
    tk_bcast_init(&bc[2], (tk_shape){2, dims}, (tk_shape[]){{1, one}}, 1);
    use_threads(2);
    tk_half_sum(queue(), out, (const void *[]){ones, big, &single}, bc, 3, 1, TK_F16);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_int_equal(out[i], i % 2 ? 0x6801 : 0x7bff);
    tk_half_sum(queue(), big, (const void *[]){ones, big, &single}, bc, 3, 2, TK_F16); /* in place: a mean */
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_int_equal(big[i], i % 2 ? 0x6401 : 0x77ff);
    free_guarded(out, ROWS * COLUMNS * 2);
    free_guarded(big, ROWS * COLUMNS * 2);
}

/* Every way in which the operands are repeated along the last dim. */
TEST(where) {
    enum { ROWS = 3, N = 133 };
    const int64_t dims[] = {ROWS, N}, column[] = {ROWS, 1};
    uint8_t cond[ROWS * N];
    float a[ROWS * N], b[ROWS * N], out[ROWS * N];
    fill_f32(a, ROWS * N, 1);
    fill_f32(b, ROWS * N, 2);
    for (int i = 0; i < ROWS * N; i++)
        cond[i] = i % 3 == 0;
    for (int way = 0; way < 8; way++) {
        tk_bcast bc;
        const int64_t *d[] = {way & 1 ? column : dims, way & 2 ? column : dims, way & 4 ? column : dims};
        assert_true(tk_bcast_init(&bc, (tk_shape){2, dims}, (tk_shape[]){{2, d[0]}, {2, d[1]}, {2, d[2]}}, 3));
        tk_where(queue(), out, cond, a, b, sizeof(float), &bc);
        for (int i = 0; i < ROWS * N; i++)
            assert_true(out[i] == (cond[way & 1 ? i / N : i] ? a[way & 2 ? i / N : i] : b[way & 4 ? i / N : i]));
    }
}
