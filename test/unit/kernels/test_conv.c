/* test_conv.c: convolutions against their definition over windows, strides, dilations, pads and groups; pools against
 * loops written out here; the same bits at 1 and 2 threads. */
#include "test/unit/kernel_test.h"
#include "kernels/reference/reference.h"
#include "kernels/common/types.h"
#include "kernels/conv/conv.h"
#include "kernels/pool/pool.h"

static tk_window window(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad, int rank) {
    tk_window w;
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        int used = d >= TK_WINDOW_RANK - rank;
        w.inp[d] = used ? size + d : 1;
        w.kernel[d] = used ? kernel : 1;
        w.stride[d] = used ? stride : 1;
        w.dilation[d] = used ? dilation : 1;
        w.pad_begin[d] = used ? pad : 0;
        w.pad_end[d] = used && pad > 0 ? pad - 1 : 0;
        w.out[d] = (w.inp[d] + w.pad_begin[d] + w.pad_end[d] - (w.kernel[d] - 1) * w.dilation[d] - 1) / w.stride[d] + 1;
    }
    return w;
}

static const tk_dtype types[] = {TK_F32, TK_F16, TK_BF16};

static void *numbers(int64_t n, tk_dtype dtype, uint64_t seed) {
    void *data = malloc((size_t)n * tk_size(dtype) + 1);
    for (int64_t i = 0; i < n; i++)
        tk_put(data, dtype, i, any_number(&seed));
    return data;
}

/* Sums of floats, rounded once where they have 16 bits. */
static void near(const void *out, int64_t i, tk_dtype dtype, double exact) {
    double place = dtype == TK_F16 ? 0x1p-11 : dtype == TK_BF16 ? 0x1p-8 : 0;
    assert_true(fabs(tk_get(out, dtype, i) - exact) < 3e-5 + place * fabs(exact));
}

static const struct {
    int64_t size, kernel, stride, dilation, pad;
} windows[] = {
    {5, 1, 1, 1, 0}, {8, 3, 1, 1, 1}, {9, 2, 2, 1, 0}, {11, 3, 2, 2, 2}, {6, 4, 3, 1, 3}, {16, 16, 16, 1, 0},
};

static void one_conv(const tk_conv *c, tk_dtype dtype, bool biased) {
    int64_t inps = c->batch * c->channels * tk_volume(c->window.inp),
            outs = c->batch * c->filters * tk_volume(c->window.out),
            weights = c->filters * c->channels / c->groups * tk_volume(c->window.kernel);
    size_t bytes = (size_t)outs * tk_size(dtype), workspace_bytes = tk_conv_workspace(c, dtype, 2);
    void *inp = numbers(inps, dtype, 1), *weight = numbers(weights, dtype, 2), *bias = numbers(6, dtype, 3),
         *added = biased ? bias : NULL;
    void *out = alloc_guarded(bytes, 4), *again = alloc_guarded(bytes, 0),
         *workspace = alloc_guarded(workspace_bytes, 0);
    use_threads(2);
    tk_conv_run(queue(), out, inp, weight, added, c, dtype, workspace);
    use_threads(1);
    tk_conv_run(queue(), again, inp, weight, added, c, dtype, workspace);
    assert_memory_equal(out, again, bytes);
    double *exact = alloc_guarded((size_t)outs * sizeof *exact, 0),
           *x = tk_reference_numbers(queue(), inp, inps, dtype),
           *w = tk_reference_numbers(queue(), weight, weights, dtype),
           *b = tk_reference_numbers(queue(), added, 6, dtype);
    tk_reference_conv_run(queue(), exact, x, w, b, c, TK_F64, NULL);
    for (int64_t k = 0; k < outs; k++)
        near(out, k, dtype, exact[k]);
    free(x), free(w), free(b), free_guarded(exact, (size_t)outs * sizeof *exact);
    free(inp), free(weight), free(bias);
    free_guarded(out, bytes), free_guarded(again, bytes), free_guarded(workspace, workspace_bytes);
}

static void one_conv_transpose(const tk_conv *c, tk_dtype dtype, bool biased) {
    int64_t wides = c->batch * c->channels * tk_volume(c->window.inp),
            narrows = c->batch * c->filters * tk_volume(c->window.out),
            weights = c->filters * c->channels / c->groups * tk_volume(c->window.kernel);
    size_t bytes = (size_t)wides * tk_size(dtype), workspace_bytes = tk_conv_transpose_workspace(c, dtype, 2);
    void *narrow = numbers(narrows, dtype, 1), *weight = numbers(weights, dtype, 2), *bias = numbers(4, dtype, 3),
         *added = biased ? bias : NULL;
    void *wide = alloc_guarded(bytes, 4), *again = alloc_guarded(bytes, 0),
         *workspace = alloc_guarded(workspace_bytes, 0);
    use_threads(2);
    tk_conv_transpose_run(queue(), wide, narrow, weight, added, c, dtype, workspace);
    use_threads(1);
    tk_conv_transpose_run(queue(), again, narrow, weight, added, c, dtype, workspace);
    assert_memory_equal(wide, again, bytes);
    double *exact = alloc_guarded((size_t)wides * sizeof *exact, 0),
           *x = tk_reference_numbers(queue(), narrow, narrows, dtype),
           *w = tk_reference_numbers(queue(), weight, weights, dtype),
           *b = tk_reference_numbers(queue(), added, 4, dtype);
    tk_reference_conv_transpose_run(queue(), exact, x, w, b, c, TK_F64, NULL);
    for (int64_t k = 0; k < wides; k++)
        near(wide, k, dtype, exact[k]);
    free(x), free(w), free(b), free_guarded(exact, (size_t)wides * sizeof *exact);
    free(narrow), free(weight), free(bias);
    free_guarded(wide, bytes), free_guarded(again, bytes), free_guarded(workspace, workspace_bytes);
}

TEST(convolutions) {
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++)
        for (int rank = 1; rank <= 3; rank++)
            for (int64_t groups = 1; groups <= 2; groups++) {
                if (windows[i].kernel == 16 && rank == 3)
                    continue;
                tk_conv c = {2, 4, 6, groups,
                             window(windows[i].size, windows[i].kernel, windows[i].stride, windows[i].dilation,
                                    windows[i].pad, rank)};
                for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
                    one_conv(&c, types[t], rank == 2);
                    one_conv_transpose(&c, types[t], rank == 2);
                }
            }
}

/* Every element of the window, tested one by one. */
static double pooled(const float *x, const tk_pool *p, int64_t at, int64_t *out_place) {
    const tk_window *w = &p->window;
    int64_t o[] = {at / (w->out[1] * w->out[2]), at / w->out[2] % w->out[1], at % w->out[2]}, inside = 0, padded = 0;
    double best = -INFINITY, sum = 0, powers = 0;
    for (int64_t k = 0; k < tk_volume(w->kernel); k++) {
        int64_t ks[] = {k / (w->kernel[1] * w->kernel[2]), k / w->kernel[2] % w->kernel[1], k % w->kernel[2]},
                place = 0;
        int in = 1, in_pads = 1;
        for (int d = 0; d < 3; d++) {
            int64_t i = o[d] * w->stride[d] - w->pad_begin[d] + ks[d] * w->dilation[d];
            in = in && i >= 0 && i < w->inp[d];
            in_pads = in_pads && i < w->inp[d] + w->pad_end[d];
            place = place * w->inp[d] + i;
        }
        padded += in_pads;
        if (!in)
            continue;
        inside++;
        sum += (double)x[place];
        powers += pow(fabs((double)x[place]), (double)p->p);
        if ((double)x[place] > best)
            best = (double)x[place], *out_place = place;
    }
    return p->op == TK_POOL_MAX  ? best
           : p->op == TK_POOL_LP ? pow(powers, 1 / (double)p->p)
                                 : sum / (double)(p->count_pads ? padded : inside);
}

TEST(pools) {
    for (size_t i = 0; i + 1 < sizeof windows / sizeof windows[0]; i++)
        for (int rank = 1; rank <= 3; rank++)
            for (int op = 0; op < 4; op++) {
                tk_pool p = {op < 3 ? (tk_pool_op)op : TK_POOL_AVERAGE,
                             3,
                             3,
                             op == 3,
                             false,
                             window(windows[i].size, windows[i].kernel, windows[i].stride, windows[i].dilation,
                                    windows[i].pad < windows[i].kernel ? windows[i].pad : 0, rank)};
                int64_t inps = tk_volume(p.window.inp), outs = tk_volume(p.window.out);
                float *inp = malloc((size_t)(3 * inps) * sizeof(float)),
                      *out = alloc_guarded((size_t)(3 * outs) * sizeof(float), 4);
                int64_t *indices = malloc((size_t)(3 * outs) * sizeof(int64_t)), place = 0;
                fill_f32(inp, 3 * inps, i);
                use_threads(2);
                tk_pool_run(queue(), out, p.op == TK_POOL_MAX ? indices : NULL, inp, &p, TK_F32);
                for (int64_t k = 0; k < 3 * outs; k++) {
                    double exact = pooled(inp + k / outs * inps, &p, k % outs, &place);
                    assert_true(fabs((double)out[k] - exact) < 1e-5);
                    if (p.op == TK_POOL_MAX)
                        assert_int_equal(indices[k], k / outs * inps + place);
                }
                free(inp), free(indices);
                free_guarded(out, (size_t)(3 * outs) * sizeof(float));
            }
}
