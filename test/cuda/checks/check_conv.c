/* check_conv.c: convolutions by cuDNN and as products of patches: windows of one to three dims, strides, dilations,
 * pads, groups, one image and several, with and without bias; gradients of filters as convolutions. */
#include "conv_case.h"

static const struct {
    int64_t size, kernel, stride, dilation, pad;
} windows[] = {
    {5, 1, 1, 1, 0}, {8, 3, 1, 1, 1}, {9, 2, 2, 1, 0}, {11, 3, 2, 2, 2}, {6, 4, 3, 1, 3}, {4, 1, 2, 1, 0},
};
enum { WINDOWS = sizeof windows / sizeof windows[0] };

static void all_windows(void) {
    for (size_t i = 0; i < WINDOWS; i++)
        for (int rank = 1; rank <= 3; rank++)
            for (int64_t groups = 1; groups <= 2; groups++)
                for (int even = 0; even < 2; even++) {
                    tk_conv c = {2, 4, 6, groups,
                                 (even ? even_window : window)(rank < 3 ? windows[i].size : 4, windows[i].kernel,
                                                               windows[i].stride, windows[i].dilation, windows[i].pad,
                                                               rank)};
                    const tk_dtype dtype = all_floats[(i + (size_t)rank) % 4];
                    char what[] = "window .";
                    what[7] = (char)('0' + i);
                    if (tk_volume(c.window.out) > 0 && (!even || windows[i].pad > 0))
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

/* --- gradients of filters ----------------------------------------------------------------------- */

/* They sum many products: floats as in products of matrices (check_matmul.c). */
static void gradient(const tk_conv *g, tk_dtype dtype, const char *what) {
    const double products = (double)(g->channels / g->groups * tk_volume(g->window.kernel));
    bounds b = of(dtype);
    if (dtype == TK_F32 && 3e-7 * products > b.absolute)
        b.absolute = 3e-7 * products;
    forward_within(b, g, dtype, false, what);
}

static void gradients(void) {
    for (size_t i = 0; i < WINDOWS; i++)
        for (int rank = 1; rank <= 3; rank++)
            for (int64_t groups = 1; groups <= 2; groups++)
                for (int64_t channels = groups; channels <= 4; channels *= 2) { /* of a group one, or more */
                    const tk_conv c = {3, channels, 6, groups,
                                       even_window(rank < 3 ? windows[i].size : 4, windows[i].kernel, windows[i].stride,
                                                   windows[i].dilation, windows[i].pad, rank)};
                    const tk_conv g = gradient_of(&c);
                    char what[] = "gradient .";
                    what[9] = (char)('0' + i);
                    if (tk_volume(c.window.out) > 0)
                        gradient(&g, all_floats[(i + (size_t)rank) % 4], what);
                }
}

/* A gradient that takes more workspace than products have: cuDNN's lies behind what is to be turned. */
static void large_gradient(void) {
    const tk_conv c = {3, 2, 4, 1, even_window(40, 3, 1, 1, 1, 2)};
    const tk_conv g = gradient_of(&c);
    gradient(&g, TK_F32, "large gradient");
}

/* Rounded operands are asked for, never taken. */
static void tf32(void) {
    const tk_conv c = {1, 3, 4, 1, even_window(6, 3, 1, 1, 1, 2)};
    tk_cuda *cuda = tk_queue_cuda(queues[DEVICE]);
    pair inp = pair_random(TK_F32, 3 * 7 * 8, -2, 2), weight = pair_random(TK_F32, 108, -2, 2);
    for (int on = 1; on >= 0; on--) {
        pair out = pair_result(TK_F32, 4 * 7 * 8);
        cuda->tf32 = on;
        ON_BOTH(conv_run, AT(out), AT(inp), AT(weight), NULL, &c, TK_F32,
                workspace(OF_TABLE(conv_workspace)(&c, TK_F32, 1)));
        pair_compare(out, (bounds){.absolute = on ? 27 * 4e-3 : 27 * 3e-7}, "TF32 %d", on);
    }
}

const cuda_check checks[] = {{"all_windows", all_windows},
                             {"every_type", every_type},
                             {"nothing", nothing},
                             {"gradients", gradients},
                             {"large_gradient", large_gradient},
                             {"tf32", tf32},
                             {NULL, NULL}};
