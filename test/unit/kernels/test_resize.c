/* test_resize.c: Resize's tables against numbers of ONNX's and PyTorch's, its kernel against sums in double over a
 * matrix for each axis, in all types and at 1 and 2 threads, and the turned tables as the transpose of those matrices.
 */
#include "test/unit/kernel_test.h"
#include "kernels/common/element.h"
#include "kernels/resize/grid_taps.h"
#include "kernels/resize/resize.h"

enum { PLACES = 40, WEIGHTS = 1600, ELEMENTS = 12000 };

typedef struct axis_case {
    tk_tap taps[PLACES];
    double weights[WEIGHTS];
    float narrow[WEIGHTS];
    double matrix[PLACES][PLACES]; /* [out][inp] */
    int64_t inp, out;
} axis_case;

static void use_matrix(axis_case *a, int64_t n) {
    memset(a->matrix, 0, sizeof a->matrix);
    for (int64_t i = 0; i < a->out; i++)
        for (int32_t k = 0; k < a->taps[i].count; k++)
            a->matrix[i][a->taps[i].first + k] = a->weights[a->taps[i].weights + k];
    for (int64_t i = 0; i < n; i++)
        a->narrow[i] = (float)a->weights[i];
}

static void make_axis(axis_case *a, const tk_resize_rule *rule, int64_t inp, int64_t out) {
    const tk_resize_span span = {inp, out, (double)out / (double)inp, 0, 1};
    tk_tap most[PLACES];
    const int64_t room = tk_resize_taps(most, NULL, rule, &span);
    a->inp = inp, a->out = out;
    const int64_t n = tk_resize_taps(a->taps, a->weights, rule, &span);
    assert_true(n <= room && room <= WEIGHTS);
    use_matrix(a, n);
}

/* --- tables ----------------------------------------------------------------------------------- */

/* What a ramp 0, 1, 2, ... becomes, by PyTorch, and by ONNX's text where it has no such mode. */
TEST(known_numbers) {
    static const struct {
        tk_resize_rule rule;
        int64_t inp, out;
        double want[6];
    } cases[] = {
        {{.mode = TK_RESIZE_LINEAR, .places = TK_HALF_PIXEL}, 2, 4, {0, 0.25, 0.75, 1}},
        {{.mode = TK_RESIZE_LINEAR, .places = TK_HALF_PIXEL}, 4, 2, {0.5, 2.5}},
        {{.mode = TK_RESIZE_LINEAR, .places = TK_ALIGN_CORNERS}, 3, 5, {0, 0.5, 1, 1.5, 2}},
        {{.mode = TK_RESIZE_LINEAR, .places = TK_ALIGN_CORNERS}, 3, 1, {0}},
        {{.mode = TK_RESIZE_LINEAR, .places = TK_PYTORCH_HALF_PIXEL}, 3, 1, {0}},
        {{.mode = TK_RESIZE_LINEAR, .places = TK_ASYMMETRIC}, 2, 4, {0, 0.5, 1, 1}},
        {{.mode = TK_RESIZE_NEAREST, .places = TK_HALF_PIXEL, .rounding = TK_PREFER_FLOOR}, 4, 2, {0, 2}},
        {{.mode = TK_RESIZE_NEAREST, .places = TK_HALF_PIXEL, .rounding = TK_PREFER_CEIL}, 4, 2, {1, 3}},
        {{.mode = TK_RESIZE_NEAREST, .places = TK_ASYMMETRIC, .rounding = TK_FLOOR}, 3, 5, {0, 0, 1, 1, 2}},
        {{.mode = TK_RESIZE_NEAREST, .places = TK_ASYMMETRIC, .rounding = TK_CEIL}, 3, 5, {0, 1, 2, 2, 2}},
        {{.mode = TK_RESIZE_CUBIC, .places = TK_HALF_PIXEL, .cubic_a = -0.75},
         3,
         6,
         {-0.10546875, 0.19140625, 0.66796875, 1.33203125, 1.80859375, 2.10546875}},
        {{.mode = TK_RESIZE_LINEAR, .places = TK_HALF_PIXEL, .antialias = true, .exclude_outside = true},
         4,
         2,
         {5.0 / 7, 16.0 / 7}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static axis_case a;
        make_axis(&a, &cases[i].rule, cases[i].inp, cases[i].out);
        for (int64_t at = 0; at < a.out; at++) {
            double sum = 0;
            for (int64_t j = 0; j < a.inp; j++)
                sum += a.matrix[at][j] * (double)j;
            if (fabs(sum - cases[i].want[at]) > 1e-12)
                fail_msg("case %zu, place %lld: %.12g, expected %.12g", i, (long long)at, sum, cases[i].want[at]);
        }
    }
}

/* --- the kernel ------------------------------------------------------------------------------- */

static const tk_resize_rule rules[] = {
    {.mode = TK_RESIZE_NEAREST, .places = TK_ASYMMETRIC, .rounding = TK_FLOOR},
    {.mode = TK_RESIZE_LINEAR, .places = TK_HALF_PIXEL},
    {.mode = TK_RESIZE_CUBIC, .places = TK_HALF_PIXEL, .cubic_a = -0.75},
    {.mode = TK_RESIZE_LINEAR, .places = TK_HALF_PIXEL, .antialias = true, .exclude_outside = true},
    {.mode = TK_RESIZE_CUBIC, .places = TK_ALIGN_CORNERS, .cubic_a = -0.5, .antialias = true},
};

/* [outer, axes..., inner] by matrices; axes beyond the case's are of 1. */
static void by_matrices(double *out, const double *inp, const tk_resize *r, const axis_case *axes) {
    int64_t n = r->outer * r->inner, m = 1;
    for (int d = 0; d < r->n_axes; d++) {
        n *= axes[d].out;
        m *= axes[d].inp;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < m; j++) {
            int64_t to = i / r->inner, from = j;
            double weight = 1;
            for (int d = r->n_axes - 1; d >= 0; to /= axes[d].out, from /= axes[d].inp, d--)
                weight *= axes[d].matrix[to % axes[d].out][from % axes[d].inp];
            out[i] += weight == 0 ? 0 : weight * inp[(to * m + j) * r->inner + i % r->inner];
        }
    }
}

static double got[ELEMENTS], want[ELEMENTS], x[ELEMENTS];

static void run(void *out, const void *inp, const tk_resize *r, tk_dtype dtype, int threads) {
    use_threads(threads);
    void *workspace = malloc(tk_resize_workspace(r, dtype, threads) + 1);
    tk_resize_run(queue(), out, inp, r, dtype, workspace);
    free(workspace);
}

static void one_type(tk_resize r, axis_case *axes, tk_dtype dtype, int64_t n_inp, int64_t n_out) {
    const size_t bytes = (size_t)n_out * tk_size(dtype);
    void *inp = malloc((size_t)n_inp * tk_size(dtype) + 1), *out = alloc_guarded(bytes, 8), *again = malloc(bytes + 1);
    for (int d = 0; d < r.n_axes; d++)
        r.axes[d] = (tk_resize_axis){axes[d].inp, axes[d].out, axes[d].taps,
                                     dtype == TK_F64 ? (const void *)axes[d].weights : axes[d].narrow};
    uint64_t seed = 5;
    for (int64_t i = 0; i < n_inp; i++) {
        tk_put(inp, dtype, i, any_number(&seed));
        x[i] = tk_get(inp, dtype, i);
    }
    run(out, inp, &r, dtype, 1);
    run(again, inp, &r, dtype, 2);
    assert_memory_equal(out, again, bytes);
    by_matrices(want, x, &r, axes);
    const double limit = dtype == TK_F64 ? 1e-13 : dtype == TK_F32 ? 2e-6 : dtype == TK_F16 ? 1e-3 : 8e-3;
    for (int64_t i = 0; i < n_out; i++) {
        got[i] = tk_get(out, dtype, i);
        if (!(fabs(got[i] - want[i]) <= limit))
            fail_msg("type %d, element %lld: %.9g, expected %.9g", (int)dtype, (long long)i, got[i], want[i]);
    }
    free_guarded(out, bytes);
    free(inp), free(again);
}

static const struct {
    int64_t outer, inp[3], out[3], inner;
    int n;
} shapes[] = {{3, {7}, {11}, 1, 1},
              {2, {9, 5}, {4, 10}, 1, 2},
              {5, {8, 6}, {16, 12}, 1, 2},
              {1, {9, 6}, {5, 6}, 70, 2},
              {2, {4, 3, 5}, {6, 6, 3}, 2, 3}};
static const tk_dtype floats[] = {TK_F64, TK_F32, TK_F16, TK_BF16};

TEST(filters) {
    static axis_case axes[3], turned[3];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes * sizeof rules / sizeof *rules; i++) {
        size_t s = i % (sizeof shapes / sizeof *shapes), rule = i / (sizeof shapes / sizeof *shapes);
        tk_resize r = {.outer = shapes[s].outer, .inner = shapes[s].inner, .n_axes = shapes[s].n};
        int64_t n_inp = r.outer * r.inner, n_out = n_inp;
        for (int d = 0; d < r.n_axes; d++) {
            make_axis(&axes[d], &rules[rule], shapes[s].inp[d], shapes[s].out[d]);
            turned[d].inp = axes[d].out, turned[d].out = axes[d].inp;
            use_matrix(&turned[d], tk_resize_turn(turned[d].taps, turned[d].weights, axes[d].inp, axes[d].taps,
                                                  axes[d].weights, axes[d].out));
            for (int64_t a = 0; a < axes[d].out; a++)
                for (int64_t b = 0; b < axes[d].inp; b++)
                    assert_true(axes[d].matrix[a][b] == turned[d].matrix[b][a]);
            n_inp *= axes[d].inp;
            n_out *= axes[d].out;
        }
        assert_true(n_inp <= ELEMENTS && n_out <= ELEMENTS);
        for (size_t t = 0; t < sizeof floats / sizeof *floats; t++) {
            one_type(r, axes, floats[t], n_inp, n_out);
            one_type(r, turned, floats[t], n_out, n_inp);
        }
    }
}

/* Elements of any size move as they are; what lies outside of a cut-out becomes the one that is told. */
TEST(picks) {
    tk_tap taps[4];
    const tk_resize_rule rule = {.mode = TK_RESIZE_NEAREST, .places = TK_TF_CROP_AND_RESIZE};
    assert_int_equal(tk_resize_taps(taps, NULL, &rule, &(tk_resize_span){3, 4, 1, 0, 1.5}), 3); /* 0, 1, 2, 3 */
    tk_resize r = {.outer = 2, .inner = 1, .n_axes = 1, .axes = {{3, 4, taps, NULL}}, .outside = 77, .picks = true};
    const uint8_t bytes[] = {1, 2, 3, 4, 5, 6};
    const int64_t longs[] = {-1, 2, 3, INT64_MIN, 5, 6};
    uint8_t bytes_out[8];
    int64_t longs_out[8];
    tk_resize_run(queue(), bytes_out, bytes, &r, TK_U8, NULL);
    tk_resize_run(queue(), longs_out, longs, &r, TK_I64, NULL);
    assert_memory_equal(bytes_out, ((uint8_t[]){1, 2, 3, 77, 4, 5, 6, 77}), sizeof bytes_out);
    assert_memory_equal(longs_out, ((int64_t[]){-1, 2, 3, 77, INT64_MIN, 5, 6, 77}), sizeof longs_out);
    r.outer = 1, r.inner = 2;
    tk_resize_run(queue(), bytes_out, bytes, &r, TK_BOOL, NULL);
    assert_memory_equal(bytes_out, ((uint8_t[]){1, 2, 3, 4, 5, 6, 77, 77}), sizeof bytes_out);
}

/* Of elements and coordinates that all types hold. */
TEST(samples) {
    enum {
        CHANNELS = 3,
        HEIGHT = 4,
        WIDTH = 5,
        AT = 100,
        READ = 2 * CHANNELS * HEIGHT * WIDTH,
        DONE = 2 * CHANNELS * AT
    };
    for (int kind = 0; kind < 9; kind++) {
        const tk_grid_sample s = {.batch = 2,
                                  .channels = CHANNELS,
                                  .places = AT,
                                  .n_axes = 2,
                                  .dims = {HEIGHT, WIDTH},
                                  .mode = (tk_resize_mode)(kind % 3),
                                  .padding = (tk_grid_padding)(kind / 3),
                                  .align_corners = kind % 2 == 1};
        static double exact[DONE];
        for (size_t t = 0; t < sizeof floats / sizeof *floats; t++) {
            static unsigned char inp[READ * 8], grid[2 * AT * 2 * 8], out[DONE * 8], again[DONE * 8];
            uint64_t seed = 9;
            for (int64_t i = 0; i < READ; i++)
                tk_put(inp, floats[t], i, rint(16 * any_number(&seed)) / 16);
            for (int64_t i = 0; i < 2 * AT * 2; i++)
                tk_put(grid, floats[t], i, rint(24 * any_number(&seed)) / 16);
            use_threads(2);
            tk_grid_sample_run(queue(), out, inp, grid, &s, floats[t]);
            use_threads(1);
            tk_grid_sample_run(queue(), again, inp, grid, &s, floats[t]);
            assert_memory_equal(out, again, DONE * tk_size(floats[t]));
            for (int64_t i = 0; i < DONE; i++) {
                exact[i] = floats[t] == TK_F64 ? tk_get(out, TK_F64, i) : exact[i];
                const double limit = floats[t] == TK_F16 ? 1e-3 : floats[t] == TK_BF16 ? 8e-3 : 2e-6;
                assert_true(fabs(tk_get(out, floats[t], i) - exact[i]) <= limit);
            }
        }
    }
}

/* A coordinate that is not a number gives an element, or zero. */
TEST(lost_places) {
    for (int kind = 0; kind < 9; kind++) {
        const tk_grid_sample s = {.mode = (tk_resize_mode)(kind % 3), .padding = (tk_grid_padding)(kind / 3)};
        const tk_grid_taps taps = tk_grid_taps_of(&s, 5, NAN);
        for (int k = 0; k < taps.n; k++)
            assert_true(taps.at[k] >= 0 && taps.at[k] < 5 && (taps.weights[k] == 0 || taps.weights[k] == 1));
    }
}
