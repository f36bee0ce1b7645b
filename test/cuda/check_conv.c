/* check_conv.c: convolutions on the emulated device: windows of one to three dims, strides, dilations, pads, groups,
 * one image and several, with and without bias. */
#include "cuda_case.h"

static tk_window window(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad, int rank) {
    tk_window w;
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        bool used = d >= TK_WINDOW_RANK - rank;
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

static const struct {
    int64_t size, kernel, stride, dilation, pad;
} windows[] = {
    {5, 1, 1, 1, 0}, {8, 3, 1, 1, 1}, {9, 2, 2, 1, 0}, {11, 3, 2, 2, 2}, {6, 4, 3, 1, 3}, {4, 1, 2, 1, 0},
};

/* Sums of floats or doubles; of 16 bits each side is rounded once, which near the middle of two numbers is a place. */
static bounds of(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 1, .absolute = 3e-5}
           : dtype == TK_F64 ? (bounds){.absolute = 1e-13}
                             : (bounds){.absolute = 3e-5};
}

static void both_ways(const tk_conv *c, tk_dtype dtype, bool biased, const char *what) {
    int64_t wides = c->batch * c->channels * tk_volume(c->window.inp),
            narrows = c->batch * c->filters * tk_volume(c->window.out),
            weights = c->filters * c->channels / c->groups * tk_volume(c->window.kernel);
    pair inp = pair_random(dtype, wides, -2, 2), weight = pair_random(dtype, weights, -2, 2),
         bias = pair_random(dtype, c->filters + c->channels, -2, 2), out = pair_result(dtype, narrows);
    ON_BOTH(conv_run, AT(out), AT(inp), AT(weight), biased ? AT(bias) : NULL, c, dtype,
            workspace(OF_TABLE(conv_workspace)(c, dtype, 1)));
    pair_compare(out, of(dtype), "conv, %s, %lld groups, %lld images", what, (long long)c->groups, (long long)c->batch);
    pair narrow = pair_random(dtype, narrows, -2, 2), wide = pair_result(dtype, wides);
    ON_BOTH(conv_transpose_run, AT(wide), AT(narrow), AT(weight), biased ? AT(bias) : NULL, c, dtype,
            workspace(OF_TABLE(conv_transpose_workspace)(c, dtype, 1)));
    pair_compare(wide, of(dtype), "transposed, %s, %lld groups, %lld images", what, (long long)c->groups,
                 (long long)c->batch);
}

static void all_windows(void) {
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++)
        for (int rank = 1; rank <= 3; rank++)
            for (int64_t groups = 1; groups <= 2; groups++) {
                tk_conv c = {2, 4, 6, groups,
                             window(rank < 3 ? windows[i].size : 4, windows[i].kernel, windows[i].stride,
                                    windows[i].dilation, windows[i].pad, rank)};
                const tk_dtype dtype = all_floats[(i + (size_t)rank) % 4];
                char what[] = "window .";
                what[7] = (char)('0' + i);
                if (tk_volume(c.window.out) > 0)
                    both_ways(&c, dtype, rank == 2, what);
            }
}

static void every_type(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int64_t groups = 1; groups <= 4; groups *= 4) { /* 4: depthwise */
            tk_conv c = {3, 4, 4, groups, window(7, 3, 2, 1, 1, 2)};
            both_ways(&c, *t, groups == 1, "types");
        }
}

static void nothing(void) {
    tk_conv c = {2, 0, 3, 1, window(5, 3, 1, 1, 1, 2)}; /* no channels: the bias alone */
    pair none = pair_result(TK_F32, 0), bias = pair_random(TK_F32, 3, -2, 2),
         out = pair_result(TK_F32, 2 * 3 * tk_volume(c.window.out));
    ON_BOTH(conv_run, AT(out), AT(none), AT(none), AT(bias), &c, TK_F32,
            workspace(OF_TABLE(conv_workspace)(&c, TK_F32, 1)));
    pair_compare(out, (bounds){0}, "no channels");
    c = (tk_conv){0, 2, 3, 1, window(5, 3, 1, 1, 1, 2)};
    both_ways(&c, TK_F32, true, "no images");
    c = (tk_conv){2, 3, 0, 1, window(5, 3, 1, 1, 1, 2)};
    both_ways(&c, TK_F32, true, "no filters");
}

const cuda_check checks[] = {
    {"all_windows", all_windows}, {"every_type", every_type}, {"nothing", nothing}, {NULL, NULL}};
