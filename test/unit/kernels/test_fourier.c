/* test_fourier.c: transforms of all kinds of lengths, and windows put back, against their definitions summed up in long
 * double, in all element types, the same bits at 1 and 2 threads. */
#include "test/unit/fourier_shapes.h"
#include "test/unit/kernel_test.h"
#include "kernels/common/types.h"
#include "kernels/pool/pool.h"

static const tk_dtype types[] = {TK_F32, TK_F64, TK_F16, TK_BF16};
static const double limits[] = {1e-6, 1e-14, 1e-3, 8e-3}; /* of the largest result: one rounding */

enum { MOST = 1 << 16 };

/* Numbers that the type holds. */
static void fill(void *data, tk_dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        tk_put(data, dtype, i, (double)((i * 7919 + 13) % 1009) / 512 - 1);
}

static void near(const void *got, const long double *want, int64_t n, size_t type, const char *what, int64_t size) {
    long double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabsl(want[i]) > most ? fabsl(want[i]) : most;
    for (int64_t i = 0; i < n; i++)
        if (!(fabsl(tk_get(got, types[type], i) - want[i]) <= (long double)limits[type] * most))
            fail_msg("%s of %lld, type %d: element %lld is %.9g, expected %.9g", what, (long long)size, types[type],
                     (long long)i, tk_get(got, types[type], i), (double)want[i]);
}

/* sum over j of x_j e^(-+2 pi i j k / n), as complex numbers. */
static void define(long double *out, const tk_dft_shape *d, const void *inp, const void *window, tk_dtype dtype) {
    for (int64_t o = 0; o < d->outer; o++)
        for (int64_t k = 0; k < d->n_out; k++)
            for (int64_t i = 0; i < d->inner; i++) {
                long double re = 0, im = 0, scale = d->inverse ? 1 / (long double)d->n : 1;
                for (int64_t j = 0; j < d->n; j++) {
                    int64_t from = d->half && j > d->n / 2 ? d->n - j : j;
                    int64_t at = o / d->frames * d->across + o % d->frames * d->step + from * d->inner + i;
                    if (from >= d->n_inp)
                        continue;
                    long double w = window ? tk_get(window, dtype, from) : 1,
                                x = w * tk_get(inp, dtype, at * d->inp_parts);
                    long double y = d->inp_parts == 2 ? w * tk_get(inp, dtype, at * 2 + 1) : 0;
                    long double angle =
                        (d->inverse ? 2 : -2) * acosl(-1) * (long double)(j * k % d->n) / (long double)d->n;
                    y = from == j ? y : -y;
                    re += x * cosl(angle) - y * sinl(angle);
                    im += x * sinl(angle) + y * cosl(angle);
                }
                int64_t to = (o * d->n_out + k) * d->inner + i;
                out[to * d->out_parts] = scale * re;
                if (d->out_parts == 2)
                    out[to * 2 + 1] = scale * im;
            }
}

static void check(tk_dft_shape d, int64_t n, int64_t n_elements, const char *what) {
    static double inp[MOST], window[MOST], out[MOST], again[MOST];
    static long double want[MOST];
    tk_dft_plan(&d, n);
    double *tables = malloc((size_t)(2 * d.length + 2 * n + 4 * d.length) * sizeof *tables);
    tk_dft_tables(&d, tables, tables + 2 * d.length, tables + 2 * d.length + 2 * n);
    d.roots = tables;
    d.chirp = d.length == n ? NULL : tables + 2 * d.length;
    d.filter = tables + 2 * d.length + 2 * n;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const void *by = d.step ? window : NULL;
        int64_t results = d.outer * d.inner * d.n_out * d.out_parts;
        fill(inp, types[t], n_elements);
        fill(window, types[t], d.n_inp);
        use_threads(2);
        void *workspace = malloc(tk_dft_workspace(&d, tk_queue_slots(queue())));
        tk_dft(queue(), out, inp, by, &d, types[t], workspace);
        free(workspace);
        use_threads(1);
        workspace = malloc(tk_dft_workspace(&d, tk_queue_slots(queue())));
        tk_dft(queue(), again, inp, by, &d, types[t], workspace);
        free(workspace);
        assert_memory_equal(out, again, (size_t)results * tk_size(types[t]));
        define(want, &d, inp, by, types[t]);
        near(out, want, results, t, what, n);
    }
    free(tables);
}

TEST(transforms) {
    static const int64_t lengths[] = {1,  2,  3,  4,  5,  6,  7,  8,   9,   12,  13, 16,
                                      17, 19, 22, 30, 34, 64, 97, 105, 169, 211, 256};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int64_t n = lengths[i], half = n / 2 + 1;
        tk_dft_shape d = complex_lanes(n);
        check(d, n, 12 * n, "transform");
        d.inverse = true;
        check(d, n, 12 * n, "inverse");
        d.inverse = false, d.inp_parts = 1, d.n_out = half;
        check(d, n, 6 * n, "half");
        check(half_lanes(n), n, 12 * half, "inverse of a half");
        d = real_frames(n);
        check(d, n, 2 * (n + 4), "frames");
        d.n_inp = n > 2 ? n - 2 : n;
        check(d, n, 2 * (n + 4), "frames filled up");
    }
}

TEST(folds) {
    static const tk_window windows[] = {
        {{1, 1, 9}, {1, 1, 4}, {1, 1, 3}, {1, 1, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
        {{1, 5, 6}, {1, 5, 3}, {1, 3, 2}, {1, 1, 2}, {1, 1, 1}, {0, 1, 0}, {0, 1, 0}},
        {{4, 5, 6}, {3, 3, 4}, {2, 2, 2}, {1, 2, 1}, {2, 1, 2}, {1, 0, 0}, {0, 0, 0}},
    };
    static double inp[MOST], out[MOST], again[MOST];
    static long double want[MOST];
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const tk_window *w = &windows[i];
            int64_t taps = tk_volume(w->kernel), outs = tk_volume(w->out), ins = tk_volume(w->inp), planes = 5;
            fill(inp, types[t], planes * taps * outs);
            memset(want, 0, sizeof want);
            for (int64_t e = 0; e < planes * taps * outs; e++) {
                int64_t o = e % outs, k = e / outs % taps, at = 0;
                bool inside = true;
                for (int d = 0; d < 3; d++) {
                    int64_t behind_o = 1, behind_k = 1;
                    for (int b = d + 1; b < 3; b++)
                        behind_o *= w->out[b], behind_k *= w->kernel[b];
                    int64_t x = o / behind_o % w->out[d] * w->stride[d] + k / behind_k % w->kernel[d] * w->dilation[d] -
                                w->pad_begin[d];
                    inside = inside && x >= 0 && x < w->inp[d];
                    at = at * w->inp[d] + x;
                }
                if (inside)
                    want[e / outs / taps * ins + at] += tk_get(inp, types[t], e);
            }
            use_threads(2);
            tk_fold(queue(), out, inp, planes, w, types[t]);
            use_threads(1);
            tk_fold(queue(), again, inp, planes, w, types[t]);
            assert_memory_equal(out, again, (size_t)(planes * ins) * tk_size(types[t]));
            near(out, want, planes * ins, t, "fold", (int64_t)i);
        }
}
