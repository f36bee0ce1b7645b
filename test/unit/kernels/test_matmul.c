/* test_matmul.c: products against their definition over shapes, transposes, leading dims and batches, between guard
 * bands, and the same bits at 1 and 2 threads. Products by primitives are of floats here: those of 16-bit types, which
 * not every processor has, differ in a number that the library is given. */
#include "test/unit/kernel_test.h"
#include "kernels/reference/reference.h"
#include "kernels/common/types.h"
#include "kernels/matmul/primitive.h"

/* The last two: lines of B, of A transposed, begin at multiples of 2 KiB. */
static const int64_t shapes[][4] = {
    /* batch, m, n, k */
    {1, 1, 1, 1},      {1, 3, 5, 7},      {2, 4, 0, 3},     {3, 2, 5, 0},     {1, 65, 67, 129},
    {5, 17, 33, 64},   {1, 513, 385, 70}, {1, 1, 900, 31},  {1, 700, 1, 200}, {12, 64, 64, 32},
    {1, 35, 20, 1100}, {1, 5, 511, 600},  {2, 509, 3, 600},
};

#define PRIMITIVE_BYTES (size_t)(2 << 20)

/* By primitives for the tiles, or as the processor has it best. */
static void multiply(void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype, void *workspace,
                     bool primitives) {
    if (!primitives || p->k == 0)
        tk_product_run(queue(), out, a, b, p, dtype, workspace);
    else
        assert_true(tk_product_run_primitives(queue(), out, a, b, p, dtype, workspace, PRIMITIVE_BYTES));
}

static void product(tk_dtype dtype, const int64_t *shape, int ta, int tb, double beta, bool primitives) {
    int64_t batch = shape[0], m = shape[1], n = shape[2], k = shape[3], lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1;
    int64_t a_size = (ta ? k : m) * lda, b_size = (tb ? n : k) * ldb, b_at[16];
    size_t size = tk_size(dtype), bytes = (size_t)(batch * m * n) * size;
    for (int64_t i = 0; i < batch; i++) /* every other product shares its B */
        b_at[i] = i / 2 * b_size;
    tk_product p = {batch, m, n, k, lda, ldb, ta, tb, {.step = a_size}, {.at = b_at}, 1, beta, false};
    if (tk_is_float(dtype))
        p.alpha = 0.5, p.beta = 0.75 * beta;
    char *a = alloc_guarded((size_t)(batch * a_size) * size, size),
         *b = alloc_guarded((size_t)(batch * b_size) * size, 0);
    void *out = alloc_guarded(bytes, size), *again = alloc_guarded(bytes, 0), *ref = alloc_guarded(bytes, 0);
    size_t room = primitives ? 2 * PRIMITIVE_BYTES : tk_product_workspace(&p, dtype, 2);
    void *workspace = alloc_guarded(room, 0);
    uint64_t seed = 7;
    for (int64_t i = 0; i < batch * (a_size + b_size + m * n); i++) {
        int64_t at = i < batch * a_size                    ? i
                     : i - batch * a_size < batch * b_size ? i - batch * a_size
                                                           : i - batch * (a_size + b_size);
        void *to = i < batch * a_size ? (void *)a : i - batch * a_size < batch * b_size ? (void *)b : out;
        double v = any_number(&seed);
        if (tk_is_float(dtype))
            tk_put(to, dtype, at, v);
        else if (size == 4)
            ((int32_t *)to)[at] = (int32_t)(9 * v);
        else
            ((int64_t *)to)[at] = (int64_t)(9 * v);
    }
    memcpy(again, out, bytes);
    memcpy(ref, out, bytes);
    use_queue(3, 2); /* more threads than the workspace is for */
    multiply(out, a, b, &p, dtype, workspace, primitives);
    use_threads(1);
    multiply(again, a, b, &p, dtype, workspace, primitives);
    tk_reference_product_run(queue(), ref, a, b, &p, dtype, NULL);
    assert_memory_equal(out, again, bytes);
    double tolerance = (dtype == TK_F64 ? 1e-15 : tk_is_float(dtype) ? 2e-7 : 0) * (double)(k + 1);
    double place = dtype == TK_F16 ? 0x1p-10 : dtype == TK_BF16 ? 0x1p-7 : 0; /* both are rounded */
    for (int64_t i = 0; i < batch * m * n; i++) {
        double exact = tk_get(ref, dtype, i);
        assert_true(fabs(tk_get(out, dtype, i) - exact) <= tolerance + place * fabs(exact));
    }
    free_guarded(workspace, room);
    free_guarded(ref, bytes);
    free_guarded(again, bytes);
    free_guarded(out, bytes);
    free_guarded(a, (size_t)(batch * a_size) * size);
    free_guarded(b, (size_t)(batch * b_size) * size);
}

TEST(all_products) {
    static const tk_dtype types[] = {TK_F32, TK_F64, TK_F16, TK_BF16, TK_I32, TK_I64};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int trans = 0; trans < 4; trans++)
                product(types[t], shapes[s], trans & 1, trans >> 1, (double)(s % 2), false);
}

static bool has_primitives(void) {
    tk_primitive *any;
    const tk_tile_form one = {
        .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1, .alpha = 1, .in = TK_F32, .out = TK_F32};
    assert_int_equal(tk_primitive_take(&one, &any), TK_OK);
    tk_primitive_give(any);
    return any != NULL;
}

TEST(all_primitives) {
    if (!has_primitives())
        skip(); /* built without the library */
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int trans = 0; trans < 4; trans++)
            for (int beta = 0; beta < 2; beta++)
                product(TK_F32, shapes[s], trans & 1, trans >> 1, beta, true);
}

/* More forms than are kept: those in use stay, others are made again. */
TEST(many_primitives) {
    enum { FORMS = 1500, HELD = 900, MOST = 4 };
    tk_primitive *held[HELD];
    if (!has_primitives())
        skip();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < FORMS; i++) {
            tk_tile_form form = {.m = 1,
                                 .n = 1,
                                 .k = i % MOST + 1,
                                 .lda = i / MOST + MOST,
                                 .ldb = 2,
                                 .ldc = 1,
                                 .alpha = 0.25 * (i % 3 + 1),
                                 .in = TK_F32,
                                 .out = TK_F32};
            form.ldc += i; /* no two are alike */
            tk_primitive *p;
            assert_int_equal(tk_primitive_take(&form, &p), TK_OK);
            assert_non_null(p);
            const float a[MOST] = {1, 2, 3, 4}, b[2 * MOST] = {1, 0, 1, 0, 1, 0, 1, 0};
            float out = 0;
            char scratch[4096] __attribute__((aligned(64)));
            assert_true(tk_primitive_scratch(p) <= sizeof scratch);
            assert_true(tk_primitive_run(p, &out, a, b, scratch));
            assert_true(out == form.alpha * (double)(form.k * (form.k + 1)) / 2);
            if (round == 1 && i < HELD)
                held[i] = p;
            else
                tk_primitive_give(p);
        }
    for (int i = 0; i < HELD; i++)
        tk_primitive_give(held[i]);
}

/* What the library has no primitive for is told, and left to the floats. */
TEST(refused_primitives) {
    tk_product p = {.batch = 1, .m = 2, .n = 2, .k = 2, .lda = 2, .ldb = 2, .alpha = 1};
    float a[4] = {1, 2, 3, 4}, out[4] = {5, 5, 5, 5};
    assert_false(tk_product_run_primitives(queue(), out, a, a, &p, TK_F32, NULL, 0) && has_primitives() && out[0] != 7);
    p.lda = 1; /* rows that overlap */
    assert_false(tk_product_run_primitives(queue(), out, a, a, &p, TK_F32, NULL, 0));
    assert_false(tk_primitive_fast(TK_F32) || tk_primitive_fast(TK_F16));
}

/* The product library at the shapes of transformers, in every form that a step has: the same bits for any number of
 * threads and wherever the operands begin. */
TEST(any_threads) {
    static const int64_t sizes[][4] = {/* batch, m, n, k */
                                       {1, 256, 768, 768}, {1, 256, 3072, 768}, {1, 256, 768, 3072},
                                       {1, 768, 768, 256}, {1, 64, 30522, 128}, {1, 128, 128, 30522},
                                       {12, 128, 128, 64}, {12, 128, 64, 128},  {2, 512, 512, 64},
                                       {1, 1000, 2, 768},  {1, 1, 768, 768},    {1, 37, 50257, 64}};
    static const int64_t at[16] = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t batch = sizes[i][0], m = sizes[i][1], n = sizes[i][2], k = sizes[i][3];
        size_t bytes = (size_t)(batch * m * n) * sizeof(float);
        float *a = malloc((size_t)(m * k + 16) * sizeof(float)), *b = malloc((size_t)(k * n + 16) * sizeof(float));
        float *first = malloc(bytes), *again = malloc(bytes);
        fill_f32(a, m * k, 1);
        fill_f32(b, k * n, 2);
        for (int trans = 0; trans < 3; trans++) { /* forward, gradient of the left operand, of the right one */
            bool ta = trans == 2, tb = trans == 1;
            tk_product p = {batch, m, n, k, ta ? m : k, tb ? k : n, ta, tb, {.at = at}, {.at = at}, 1, 0, false};
            use_threads(1);
            tk_product_run(queue(), first, a, b, &p, TK_F32, NULL);
            for (int threads = 2; threads <= 4; threads++) {
                use_threads(threads);
                tk_product_run(queue(), again, a, b, &p, TK_F32, NULL);
                assert_memory_equal(first, again, bytes);
            }
            memmove(a + 3, a, (size_t)(m * k) * sizeof(float));
            memmove(b + 5, b, (size_t)(k * n) * sizeof(float));
            tk_product_run(queue(), again, a + 3, b + 5, &p, TK_F32, NULL);
            assert_memory_equal(first, again, bytes);
            memmove(a, a + 3, (size_t)(m * k) * sizeof(float));
            memmove(b, b + 5, (size_t)(k * n) * sizeof(float));
        }
        free(a), free(b), free(first), free(again);
    }
}

TEST(start) {
    const int64_t dims[] = {2, 3}, column[] = {2, 1};
    const float c[] = {1, 2};
    float out[6];
    tk_bcast bc;
    tk_bcast_init(&bc, (tk_shape){2, dims}, (tk_shape[]){{2, column}}, 1);
    tk_product_start(queue(), out, c, 3, &bc, TK_F32);
    assert_memory_equal(out, ((float[]){3, 3, 3, 6, 6, 6}), sizeof out);
}

/* A bias on every row: the bits of a start and a product on top of it. */
TEST(bias) {
    static const tk_dtype types[] = {TK_F32, TK_F64, TK_F16, TK_BF16};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        tk_product p = {.batch = 2, .m = 3, .n = 5, .k = 4, .lda = 4, .ldb = 5, .alpha = 1};
        uint64_t numbers[64], out[32], again[32];
        uint64_t seed = 3;
        for (int i = 0; i < 50; i++)
            tk_put(numbers, types[t], i, any_number(&seed));
        p.a_at.step = 12, p.b_at.step = 0;
        const char *from = (const char *)numbers;
        const void *b = from + 24 * tk_size(types[t]), *row = from + 44 * tk_size(types[t]);
        tk_bcast rows = tk_product_rows(&p);
        size_t room = tk_product_workspace(&p, types[t], 2);
        void *workspace = alloc_guarded(room, 0);
        use_threads(2);
        tk_product_start(queue(), again, row, 1, &rows, types[t]);
        p.beta = 1;
        tk_product_run(queue(), again, from, b, &p, types[t], workspace);
        p.beta = 0, p.bias = row;
        tk_product_run(queue(), out, from, b, &p, types[t], workspace);
        assert_memory_equal(out, again, 30 * tk_size(types[t]));
        free_guarded(workspace, room);
    }
}
