/* check_cudnn.c: which convolutions are cuDNN's, and in which way, what it is asked, and what becomes of those that it
 * does not take: beside its double, whose answers are known. */
#include "kernels/conv/conv_cudnn.h"
#include "conv_case.h"
#include "test/cuda/emulation/emulation_host.h"
#include <stdlib.h>
#include <string.h>

static void expect_way(const tk_conv *c, bool back, bool biased, tk_cudnn_way expected, const char *what) {
    const tk_cudnn_way way = tk_cudnn_way_of(c, back, biased);
    if (way != expected)
        wrong("the way of %s is %d, not %d", what, (int)way, (int)expected);
}

static void ways(void) {
    tk_conv c = {8, 64, 64, 1, even_window(56, 3, 1, 1, 1, 2)}, g = gradient_of(&c);
    expect_way(&c, false, true, TK_CUDNN_FORWARD, "a layer of an image model");
    expect_way(&c, true, true, TK_CUDNN_DATA, "its gradient of data");
    expect_way(&g, false, false, TK_CUDNN_FILTERS, "its gradient of filters");
    expect_way(&g, false, true, TK_CUDNN_FORWARD, "the same with a bias");
    c.window = even_window(56, 3, 2, 1, 1, 2), g = gradient_of(&c);
    expect_way(&c, false, true, TK_CUDNN_FORWARD, "a layer with strides");
    expect_way(&g, false, false, TK_CUDNN_FILTERS, "its gradient of filters, with less pads at the end");
    c.window = even_window(224, 16, 16, 1, 0, 2);
    expect_way(&c, false, true, TK_CUDNN_FORWARD, "patches of an image");
    expect_way(&c, false, false, TK_CUDNN_FORWARD, "patches of an image, more taps than places");
    c = (tk_conv){8, 64, 64, 2, even_window(56, 3, 1, 1, 1, 2)}, g = gradient_of(&c);
    expect_way(&g, false, false, TK_CUDNN_FORWARD, "the gradient of filters in groups");
    c = (tk_conv){8, 64, 64, 64, even_window(56, 3, 2, 1, 1, 2)}, g = gradient_of(&c);
    expect_way(&g, false, false, TK_CUDNN_FILTERS, "the gradient of a depthwise layer's filters");
    c = (tk_conv){8, 64, 64, 1, window(8, 3, 1, 1, 1, 2)};
    expect_way(&c, false, false, TK_CUDNN_NONE, "other pads at the end");
    expect_way(&c, true, false, TK_CUDNN_NONE, "the transposed one with such pads");
    c = (tk_conv){1 << 16, 1 << 10, 1, 1, even_window(8, 3, 1, 1, 1, 2)};
    expect_way(&c, false, false, TK_CUDNN_NONE, "2^32 elements");
}

static const char *described(void) {
    static char text[1 << 18];
    if (tk_cudnn_describe(tk_queue_cuda(queues[DEVICE]), text, sizeof text) >= sizeof text)
        wrong("the description is longer than %zu", sizeof text);
    return text;
}

static void expect_described(const char *part, bool expected) {
    if ((strstr(described(), part) != NULL) != expected)
        wrong("%s is %s in\n%s", part, expected ? "not" : "told", described());
}

/* What was asked is asked no more, and told. */
static void asked_once(void) {
    tk_conv c = {2, 5, 3, 1, even_window(9, 3, 1, 1, 1, 2)}, g = gradient_of(&c);
    for (int i = 0; i < 2; i++) {
        both_ways(&c, TK_F16, true, "asked once");
        forward(&g, TK_F64, false, "asked once");
    }
    expect_described("cuDNN 9.19.0\n", true);
    expect_described("forward of float16, 2x5x10x11 by 3x5x3x3, 2x3x10x11, 1 groups, with a bias: algorithm 1, 4096 "
                     "bytes of workspace\n",
                     true);
    expect_described(
        "gradient of data of float16, 2x5x10x11 by 3x5x3x3, 2x3x10x11, 1 groups, with a bias: algorithm 1, "
        "2048 bytes",
        true);
    expect_described(
        "gradient of filters of double, 2x5x10x11 by 3x5x3x3, 2x3x10x11, 1 groups: algorithm 1, 8192 bytes", true);
    const char *first = strstr(described(), "forward of float16, 2x5x10x11");
    if (strstr(first + 1, "forward of float16, 2x5x10x11"))
        wrong("a problem is kept twice:\n%s", described());
    c.window = window(9, 3, 1, 1, 2, 2);
    forward(&c, TK_F32, false, "pads that cuDNN has not");
    expect_described("convolution of float, 2x5x10x11 by 3x5x3x3, 2x3x11x12, 1 groups: products of patches (no such "
                     "pads)\n",
                     true);
    c = (tk_conv){2, 5, 3, 1, even_window(10, 1, 1, 1, 0, 2)};
    forward(&c, TK_F32, false, "a product as it is");
    expect_described("by 3x5x1x1", false);
}

/* Operands at odd places, no algorithm, one that is taken back: the patches are as good. */
static void refused(void) {
    static const char *const says[] = {"none", "late"};
    for (int i = 0; i < 2; i++) {
        tk_conv c = {2, 3, 4, 1, even_window(7 + i, 3, 1, 1, 1, 2)}, g = gradient_of(&c);
        setenv("EMU_CUDNN", says[i], 1);
        for (int again = 0; again < 2; again++) {
            both_ways(&c, TK_F32, true, says[i]);
            forward(&g, TK_F32, false, says[i]);
        }
        unsetenv("EMU_CUDNN");
        both_ways(&c, TK_F32, true, "remembered");
    }
    expect_described("forward of float, 2x3x8x9 by 4x3x3x3, 2x4x8x9, 1 groups, with a bias: products of patches "
                     "(CUDNN_STATUS_NOT_SUPPORTED)\n",
                     true);
    expect_described(
        "gradient of filters of float, 2x3x9x10 by 4x3x3x3, 2x4x9x10, 1 groups: products of patches (CUDNN", true);
    const tk_conv c = {1, 1, 1, 1, even_window(6, 2, 1, 1, 0, 1)};
    pair inp = pair_from(pair_random(TK_F32, 10, -2, 2), 1), weight = pair_random(TK_F32, 2, -2, 2),
         out = pair_result(TK_F32, 7);
    ON_BOTH(conv_run, AT(out), AT(inp), AT(weight), NULL, &c, TK_F32,
            workspace(OF_TABLE(conv_workspace)(&c, TK_F32, 1)));
    pair_compare(out, of(TK_F32), "an odd place");
    expect_described("1x1x1x8 by 1x1x1x2", false);
}

/* An algorithm takes what workspace there is, or is not taken. */
static void little_workspace(void) {
    const tk_conv c = {1, 2, 3, 1, even_window(5, 3, 1, 1, 1, 2)};
    tk_cuda *cuda = tk_queue_cuda(queues[DEVICE]);
    pair inp = pair_random(TK_F32, 2 * 6 * 7, -2, 2), weight = pair_random(TK_F32, 54, -2, 2),
         out = pair_result(TK_F32, 3 * 6 * 7);
    const struct {
        tk_cudnn_way way;
        size_t bytes;
        bool taken;
    } cases[] = {{TK_CUDNN_FORWARD, 4096, true}, {TK_CUDNN_FORWARD, 4095, true}, {TK_CUDNN_FORWARD, 0, true},
                 {TK_CUDNN_DATA, 2048, true},    {TK_CUDNN_DATA, 2047, false},   {TK_CUDNN_FILTERS, 8191, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const tk_conv turned = tk_cudnn_words(&c, cases[i].way); /* words of words are what they were */
        const tk_cudnn_call call = {.conv = &turned,
                                    .way = cases[i].way,
                                    .dtype = TK_F32,
                                    .out = out.at[DEVICE],
                                    .inp = inp.at[DEVICE],
                                    .weight = weight.at[DEVICE],
                                    .workspace_bytes = cases[i].bytes};
        if (tk_cudnn_takes(cuda, &call) != cases[i].taken)
            wrong("case %zu is taken with %zu bytes:\n%s", i, cases[i].bytes, described());
    }
    expect_described("forward of float, 1x2x6x7 by 3x2x3x3, 1x3x6x7, 1 groups: algorithm 0, 0 bytes", true);
}

/* Of floats, those to be rounded to TF32 are problems of their own. */
static void tf32(void) {
    const tk_conv c = {1, 3, 4, 1, even_window(6, 3, 1, 1, 1, 2)};
    tk_cuda *cuda = tk_queue_cuda(queues[DEVICE]);
    for (int on = 1; on >= 0; on--) {
        cuda->tf32 = on;
        forward_within((bounds){.absolute = on ? 27 * 4e-3 : 3e-5}, &c, TK_F32, false, "TF32");
    }
    expect_described("forward of float, 1x3x7x8 by 4x3x3x3, 1x4x7x8, 1 groups, TF32: algorithm 1", true);
    expect_described("forward of float, 1x3x7x8 by 4x3x3x3, 1x4x7x8, 1 groups: algorithm 1", true);
}

/* A recording asks nothing: a problem that it brings up is an error, one that is known is not. */
static void recorded(void) {
    tk_conv c = {1, 2, 2, 1, even_window(12, 3, 1, 1, 1, 2)};
    tk_cuda *cuda = tk_queue_cuda(queues[DEVICE]);
    forward(&c, TK_F32, false, "before a recording");
    for (int i = 0; i < 2 && emu_order == 0; i++) { /* later, the second one is known */
        c.batch = 1 + i;
        pair inp = pair_random(TK_F32, c.batch * 2 * 13 * 14, -2, 2), weight = pair_random(TK_F32, 36, -2, 2),
             out = pair_result(TK_F32, c.batch * 2 * 13 * 14);
        side = DEVICE;
        void *scratch = workspace(tables[DEVICE]->conv_workspace(&c, TK_F32, 1));
        cuda->recording = true;
        tables[DEVICE]->conv_run(queues[DEVICE], AT(out), AT(inp), AT(weight), NULL, &c, TK_F32, scratch);
        cuda->recording = false;
        if (cuda->error != (i == 0 ? cudaSuccess : cudaErrorStreamCaptureUnsupported))
            wrong("recording convolution %d gives %s", i, cudaGetErrorString(cuda->error));
        cuda->error = cudaSuccess;
        wait_for_both();
    }
}

/* Where there is none, that is told, and all goes by patches. The next checks have it again. */
static void absent(void) {
    const tk_conv c = {2, 3, 4, 1, even_window(8, 3, 1, 1, 1, 2)};
    tk_cuda *cuda = tk_queue_cuda(queues[DEVICE]);
    tk_cudnn_close(cuda);
    if (tk_cudnn_describe(cuda, NULL, 0) != 0)
        wrong("before the first convolution there is %s", described());
    setenv("EMU_CUDNN", "absent", 1);
    both_ways(&c, TK_F32, true, "no cuDNN");
    unsetenv("EMU_CUDNN");
    if (strcmp(described(), "no cuDNN, convolutions are products of patches: it does not start: "
                            "CUDNN_STATUS_NOT_INITIALIZED\n") != 0)
        wrong("without cuDNN there is %s", described());
    tk_cudnn_close(cuda);
}

const cuda_check checks[] = {
    {"ways", ways}, {"asked_once", asked_once}, {"refused", refused}, {"little_workspace", little_workspace},
    {"tf32", tf32}, {"recorded", recorded},     {"absent", absent},   {NULL, NULL}};
