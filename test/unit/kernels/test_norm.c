/* test_norm.c: LayerNormalization and its gradient against their definitions, over sizes and with scales of 0, the same
 * bits at 1 and 2 threads; the channel normalizations on small cases worked out by hand or from LayerNormalization. */
#include "test/unit/kernel_test.h"
#include "kernels/reference/reference.h"
#include "kernels/norm/norm_y.h"

static void near(const float *got, const double *exact, int64_t n, double tolerance) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabs(exact[i]) > most ? fabs(exact[i]) : most;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - exact[i]) <= tolerance * most + 1e-30))
            fail_msg("element %lld is %.9g, expected %.9g", (long long)i, (double)got[i], exact[i]);
}

static double *widened(const float *x, int64_t n) {
    double *out = malloc((size_t)(n + 1) * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)x[i];
    return out;
}

/* The gradient by the reference kernels, in double whatever `of` says of types. */
static void exact_grad(double *dx, double *dscale, double *dbias, const double *dy, const double *x,
                       const double *scale, const tk_norm_rows *of) {
    tk_norm_rows s = *of;
    s.dtype = s.stat_dtype = TK_F64;
    double *mean = calloc(2 * (size_t)s.rows + 1, sizeof *mean), *inv = mean + s.rows;
    tk_reference_norm(queue(), dx, NULL, mean, inv, x, scale, NULL, &s);
    tk_reference_norm_grad(queue(), dx, dscale, dbias, dy, x, scale, mean, inv, &s, NULL);
    free(mean);
}

/* A layer's operands and results at one size: f32 and the same in double. */
static void one_layer(int64_t rows, int64_t n, double offset, bool centered) {
    size_t bytes = (size_t)(rows * n) * sizeof(float), row_bytes = (size_t)rows * sizeof(float),
           n_bytes = (size_t)n * sizeof(float);
    float *x = alloc_guarded(bytes, 4), *dy = alloc_guarded(bytes, 0), *scale = alloc_guarded(n_bytes, 4),
          *bias = alloc_guarded(n_bytes, 0);
    float *y = alloc_guarded(bytes, 4), *again = alloc_guarded(bytes, 0), *xhat = alloc_guarded(bytes, 8);
    float *mean = alloc_guarded(row_bytes, 4), *inv = alloc_guarded(row_bytes, 4), *ds = alloc_guarded(n_bytes, 4);
    float *db = alloc_guarded(n_bytes, 4), *ds2 = alloc_guarded(n_bytes, 0), *db2 = alloc_guarded(n_bytes, 0);
    tk_norm_rows s = {rows, n, 1e-5, centered, TK_F32, TK_F32};
    fill_f32(x, rows * n, 1), fill_f32(dy, rows * n, 2), fill_f32(scale, n, 3), fill_f32(bias, n, 4);
    for (int64_t i = 0; i < rows * n; i++)
        x[i] += (float)offset;
    if (n > 3)
        scale[2] = 0; /* a gradient from y / scale would fail here */
    double *xd = widened(x, rows * n), *dyd = widened(dy, rows * n), *sd = widened(scale, n), *bd = widened(bias, n);
    double *yd = widened(x, rows * n), *dsd = widened(scale, n), *dbd = widened(bias, n), *md = widened(mean, rows),
           *vd = widened(inv, rows);
    size_t needed = tk_norm_grad_workspace(&s);
    void *workspace = needed ? malloc(needed) : NULL; /* without rows there is none, as in a run */

    const tk_norm_rows wide = {rows, n, 1e-5, centered, TK_F64, TK_F64};
    tk_reference_norm(queue(), yd, NULL, md, vd, xd, sd, bd, &wide);
    use_threads(3);
    tk_norm(queue(), y, xhat, centered ? mean : NULL, inv, x, scale, bias, &s);
    use_threads(1);
    tk_norm(queue(), again, NULL, NULL, NULL, x, scale, bias, &s);
    assert_memory_equal(y, again, bytes);
    tk_scale_bias(queue(), again, xhat, scale, bias, &s);
    assert_memory_equal(y, again, bytes);
    double rounding = 1 + (centered ? fabs(offset) : 0); /* of x - mean */
    near(y, yd, rows * n, 1e-6 * rounding);
    near(inv, vd, rows, 1e-6);
    if (centered)
        near(mean, md, rows, 1e-6);

    exact_grad(yd, dsd, dbd, dyd, xd, sd, &s);
    use_threads(2);
    tk_norm_grad(queue(), y, ds, db, dy, x, scale, centered ? mean : NULL, inv, &s, workspace);
    use_threads(1);
    tk_norm_xhat_grad(queue(), again, ds2, db2, dy, xhat, scale, inv, &s, workspace);
    assert_memory_equal(y, again, bytes);
    assert_memory_equal(ds, ds2, n_bytes);
    assert_memory_equal(db, db2, n_bytes);
    tk_norm_xhat_grad(queue(), xhat, NULL, NULL, dy, xhat, scale, inv, &s, NULL); /* in place */
    assert_memory_equal(y, xhat, bytes);
    near(y, yd, rows * n, n == 1 ? 1e9 : 3e-6 * rounding); /* of one element: the exact gradient is 0 */
    near(ds, dsd, n, 2e-6 * rounding + (n == 1 ? 1e9 : 0));
    near(db, dbd, n, 1e-6);
    free(xd), free(dyd), free(sd), free(bd), free(yd), free(dsd), free(dbd), free(md), free(vd), free(workspace);
    free_guarded(x, bytes), free_guarded(dy, bytes), free_guarded(y, bytes), free_guarded(again, bytes),
        free_guarded(xhat, bytes);
    free_guarded(scale, n_bytes), free_guarded(bias, n_bytes), free_guarded(ds, n_bytes), free_guarded(db, n_bytes);
    free_guarded(ds2, n_bytes), free_guarded(db2, n_bytes), free_guarded(mean, row_bytes), free_guarded(inv, row_bytes);
}

TEST(row_norms) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 5}, {0, 4}, {2, 33}, {130, 768}, {517, 64}, {40, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int kind = 0; kind < 4; kind++)
            one_layer(shapes[i][0], shapes[i][1], kind & 1 ? 10 : 0, kind & 2);
}

/* Scales of 0 and nearly 0, beside biases up to 1024 times as large: what was saved must not be divided by the scale.
 */
TEST(tiny_scales) {
    enum { ROWS = 70, N = 96 };
    static float x[ROWS * N], dy[ROWS * N], y[ROWS * N], xhat[ROWS * N], dx[ROWS * N], scale[N], bias[N], ds[N], db[N],
        inv[ROWS];
    static double dxd[ROWS * N], dsd[N], dbd[N], workspace[8 * 2 * N];
    static const float scales[] = {0, 1e-8f, 1e-4f, 1e-2f, 1, -1e-4f};
    const tk_norm_rows s = {ROWS, N, 1e-12, true, TK_F32, TK_F32};
    fill_f32(x, ROWS * N, 1), fill_f32(dy, ROWS * N, 2);
    assert_true(tk_norm_grad_workspace(&s) <= sizeof workspace);
    for (int64_t i = 0; i < N; i++) {
        scale[i] = scales[i % 6];
        bias[i] = i % 6 == 0 ? 0.5f : scale[i] * (float)(1 << i % 11);
    }
    double *xd = widened(x, ROWS * N), *dyd = widened(dy, ROWS * N), *sd = widened(scale, N);
    exact_grad(dxd, dsd, dbd, dyd, xd, sd, &s);
    tk_norm(queue(), y, xhat, NULL, inv, x, scale, bias, &s);
    tk_norm_xhat_grad(queue(), dx, ds, db, dy, xhat, scale, inv, &s, workspace);
    near(dx, dxd, ROWS * N, 2e-6);
    near(ds, dsd, N, 1e-6);
    near(db, dbd, N, 1e-6);
    free(xd), free(dyd), free(sd);
}

/* From y: the sides in order, with x-hat beside y, the bits of tk_norm, in place and at any number of threads; the
 * gradient beside its definition. */
TEST(from_y) {
    enum { ROWS = 70, N = 96, BYTES = ROWS * N * sizeof(float) };
    static float x[ROWS * N], dy[ROWS * N], y[ROWS * N], xhat[ROWS * N], place[ROWS * N], dx[ROWS * N], scale[N],
        bias[N];
    static float ds[N], db[N], inv[ROWS], kept[ROWS * 6];
    static double dxd[ROWS * N], dsd[N], dbd[N];
    int32_t channels[6];
    const tk_norm_rows s = {ROWS, N, 1e-12, true, TK_F32, TK_F32};
    tk_norm_sides sides = {6, ldexp(1, -126), 2};
    fill_f32(x, ROWS * N, 1), fill_f32(dy, ROWS * N, 2);
    for (int64_t i = 0; i < N; i++)
        scale[i] = i % 2 == 0 ? 1 : -0.5f, bias[i] = i % 3 == 0 ? 0.25f : 1;
    scale[7] = 0, bias[7] = 0, scale[20] = 1e-39f, bias[20] = 0;        /* no digits */
    bias[0] = 1024, bias[95] = -1.001f, bias[50] = -2, bias[51] = 1.0f; /* 50 and 51: just as large as allowed */
    double *xd = widened(x, ROWS * N), *dyd = widened(dy, ROWS * N), *sd = widened(scale, N);
    void *workspace = malloc(tk_norm_from_y_grad_workspace(&s));
    tk_norm(queue(), y, xhat, NULL, inv, x, scale, bias, &s);
    memcpy(place, x, BYTES);
    use_threads(3);
    tk_norm_from_y(queue(), place, inv, channels, kept, place, scale, bias, &sides, &s);
    assert_memory_equal(place, y, BYTES);
    assert_memory_equal(channels, ((const int32_t[]){0, 7, 20, 95, -1, -1}), sizeof channels);
    for (int64_t i = 0; i < ROWS; i++)
        for (int k = 0; k < 6; k++)
            assert_true(kept[i * 6 + k] == (k < 4 ? xhat[i * N + channels[k]] : 0));
    exact_grad(dxd, dsd, dbd, dyd, xd, sd, &s);
    tk_norm_from_y_grad(queue(), dx, ds, db, dy, y, scale, bias, inv, channels, kept, 6, &s, workspace);
    near(dx, dxd, ROWS * N, 2e-6);
    near(ds, dsd, N, 2e-6);
    near(db, dbd, N, 1e-6);
    use_threads(1);
    tk_norm_from_y_grad(queue(), place, NULL, NULL, dy, place, scale, bias, inv, channels, kept, 6, &s, workspace);
    assert_memory_equal(place, dx, BYTES); /* over y */
    sides.capacity = 3;
    assert_int_equal(FAULT_OF(tk_norm_from_y(queue(), y, inv, channels, kept, x, scale, bias, &sides, &s)),
                     TK_MANY_SIDES);
    channels[0] = N;
    assert_int_equal(
        FAULT_OF(tk_norm_from_y_grad(queue(), dx, ds, db, dy, y, scale, bias, inv, channels, kept, 3, &s, workspace)),
        TK_BAD_INDEX);
    free(xd), free(dyd), free(sd), free(workspace);
}

TEST(batch_norm) {
    /* [2, 2, 2]: channel 0 holds 1 3 5 7 (mean 4, variance 5), channel 1 holds 2 2 2 2 */
    const float x[] = {1, 3, 2, 2, 5, 7, 2, 2}, scale[] = {2, 1}, bias[] = {1, -1}, mean[] = {0, 1},
                variance[] = {1, 4};
    float y[8], new_mean[2], new_variance[2];
    const tk_channel_operands in = {x, scale, bias, mean, variance};
    tk_channels s = {.batch = 2, .channels = 2, .inner = 2, .momentum = 0.75, .dtype = TK_F32};
    tk_batch_norm(queue(), (tk_channel_results){.y = y}, in, &s);
    near(y, (const double[]){3, 7, -0.5, -0.5, 11, 15, -0.5, -0.5}, 8, 1e-6);
    s.train = true, s.epsilon = 1e-9;
    tk_batch_norm(queue(), (tk_channel_results){y, new_mean, new_variance}, in, &s);
    double r = 2 / sqrt(5);
    near(y, (const double[]){1 - 3 * r, 1 - r, -1, -1, 1 + r, 1 + 3 * r, -1, -1}, 8, 1e-6);
    near(new_mean, (const double[]){1, 1.25}, 2, 1e-6);
    near(new_variance, (const double[]){2, 3}, 2, 1e-6);
}

TEST(group_norm) {
    enum { BATCH = 2, CHANNELS = 6, INNER = 5, N = BATCH * CHANNELS * INNER };
    float x[N], y[N], scale[CHANNELS], bias[CHANNELS];
    double exact[N], ones[N], *xd;
    fill_f32(x, N, 1), fill_f32(scale, CHANNELS, 2), fill_f32(bias, CHANNELS, 3);
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    xd = widened(x, N);
    for (int64_t groups = 1; groups <= CHANNELS; groups *= groups == 1 ? 2 : 3) {
        tk_reference_norm(queue(), exact, NULL, NULL, NULL, xd, ones, NULL,
                          &(tk_norm_rows){BATCH * groups, CHANNELS / groups * INNER, 1e-3, true, TK_F64, TK_F64});
        for (int i = 0; i < N; i++)
            exact[i] = exact[i] * (double)scale[i / INNER % CHANNELS] + (double)bias[i / INNER % CHANNELS];
        tk_group_norm(queue(), (tk_channel_results){.y = y},
                      (tk_channel_operands){.x = x, .scale = scale, .bias = bias},
                      &(tk_channels){BATCH, CHANNELS, INNER, .groups = groups, .epsilon = 1e-3, .dtype = TK_F32});
        near(y, exact, N, 1e-6);
    }
    free(xd);
}

TEST(lrn) {
    const float x[] = {1, 2, 3};
    float y[3];
    tk_lrn(queue(), (tk_channel_results){.y = y}, (tk_channel_operands){.x = x}, /* 2 + squares around: 7, 16, 15 */
           &(tk_channels){1, 3, 1, .size = 3, .alpha = 3, .beta = 0.5, .add = 2, .dtype = TK_F32});
    near(y, (const double[]){1 / sqrt(7), 2 / sqrt(16), 3 / sqrt(15)}, 3, 1e-6);
}
