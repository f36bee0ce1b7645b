/* test_double_convolutions.c: convolutions of the cuDNN double and their gradients against plain loops, and what it
 * refuses. Operands are small integers, so that every type holds every sum exactly. */
#include "test/unit/cases.h"
#include "cudnn_double.h"
#include "cuda_work.h"
#include "double_elements.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define OK(call) assert_int_equal(call, 0)

static cudaStream_t stream;
static cudnnHandle_t handle;
static char *workspace;
enum { WORKSPACE = 16384 };

static int set_up(void **state) {
    (void)state;
    emu_quiet = true;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudnnCreate(&handle));
    OK(cudnnSetStream(handle, stream));
    OK(cudaMalloc((void **)&workspace, WORKSPACE));
    OK(cudaMemset(workspace, 0, WORKSPACE));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    emu_reset_device();
    OK(cudaFree(workspace));
    OK(cudnnDestroy(handle));
    OK(cudaStreamDestroy(stream));
    return 0;
}

/* --- a convolution ---------------------------------------------------------------------------- */

static const struct {
    cudnnDataType_t dnn, sums;
    int32_t cuda;
} types[] = {{CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDA_R_32F},
             {CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, CUDA_R_64F},
             {CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDA_R_16F},
             {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, CUDA_R_16BF}};
enum { TYPES = 4, X = 0, W, Y, OPERANDS };

/* One spatial dim is 1 where there are two of cuDNN's: the loops have three. */
typedef struct shape {
    int images, channels, filters, groups, spatial; /* channels: of a group */
    int size[3], kernel[3], pad[3], stride[3], dilation[3];
    bool crossed; /* batch and channels of x and y have changed places */
} shape;

typedef struct convolution {
    shape s;
    int type, out[3];
    int64_t n[OPERANDS];
    void *host[OPERANDS], *device[OPERANDS];
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    double alpha, beta;
} convolution;

static int64_t volume(const int *dims) { return (int64_t)dims[0] * dims[1] * dims[2]; }

static int64_t plane_at(const shape *s, int image, int channel, int channels, int64_t plane) {
    return (s->crossed ? (int64_t)channel * s->images + image : (int64_t)image * channels + channel) * plane;
}

static void set_tensor(const convolution *c, cudnnTensorDescriptor_t to, int channels, const int *plane) {
    const int skipped = 3 - c->s.spatial, size = (int)volume(plane);
    int dims[5] = {c->s.images, channels, plane[0], plane[1], plane[2]},
        steps[5] = {channels * size, size, plane[1] * plane[2], plane[2], 1};
    if (c->s.crossed)
        steps[0] = size, steps[1] = c->s.images * size;
    memmove(dims + 2, dims + 2 + skipped, sizeof(int) * (size_t)c->s.spatial);
    memmove(steps + 2, steps + 2 + skipped, sizeof(int) * (size_t)c->s.spatial);
    OK(cudnnSetTensorNdDescriptor(to, types[c->type].dnn, 2 + c->s.spatial, dims, steps));
}

static void set_conv(convolution *c, cudnnMathType_t math) {
    const int from = 3 - c->s.spatial;
    OK(cudnnSetConvolutionNdDescriptor(c->conv, c->s.spatial, c->s.pad + from, c->s.stride + from, c->s.dilation + from,
                                       CUDNN_CROSS_CORRELATION, types[c->type].sums));
    OK(cudnnSetConvolutionGroupCount(c->conv, c->s.groups));
    OK(cudnnSetConvolutionMathType(c->conv, math));
}

/* Operands from -2 to 2. */
static convolution make(shape s, int type) {
    static uint32_t drawn = 1;
    convolution c = {.s = s, .type = type, .alpha = 1};
    for (int d = 0; d < 3; d++)
        c.out[d] = (s.size[d] + 2 * s.pad[d] - (s.kernel[d] - 1) * s.dilation[d] - 1) / s.stride[d] + 1;
    c.n[X] = s.images * s.channels * s.groups * volume(s.size);
    c.n[W] = s.filters * s.channels * volume(s.kernel);
    c.n[Y] = s.images * s.filters * volume(c.out);
    for (int i = 0; i < OPERANDS; i++) {
        const size_t bytes = (size_t)c.n[i] * double_size(types[type].cuda);
        c.host[i] = calloc(1, bytes);
        for (int64_t k = 0; k < c.n[i]; k++) {
            drawn = drawn * 1664525 + 1013904223;
            double_put(c.host[i], types[type].cuda, k, (int)(drawn >> 24) % 5 - 2);
        }
        OK(cudaMalloc(&c.device[i], bytes));
        OK(cudaMemcpy(c.device[i], c.host[i], bytes, cudaMemcpyHostToDevice));
    }
    OK(cudnnCreateTensorDescriptor(&c.x));
    OK(cudnnCreateTensorDescriptor(&c.y));
    OK(cudnnCreateFilterDescriptor(&c.w));
    OK(cudnnCreateConvolutionDescriptor(&c.conv));
    set_tensor(&c, c.x, s.channels * s.groups, s.size);
    set_tensor(&c, c.y, s.filters, c.out);
    int dims[5] = {s.filters, s.channels};
    memcpy(dims + 2, s.kernel + 3 - s.spatial, sizeof(int) * (size_t)s.spatial);
    OK(cudnnSetFilterNdDescriptor(c.w, types[type].dnn, CUDNN_TENSOR_NCHW, 2 + s.spatial, dims));
    set_conv(&c, CUDNN_FMA_MATH);
    return c;
}

static void drop(convolution *c) {
    OK(cudnnDestroyTensorDescriptor(c->x));
    OK(cudnnDestroyTensorDescriptor(c->y));
    OK(cudnnDestroyFilterDescriptor(c->w));
    OK(cudnnDestroyConvolutionDescriptor(c->conv));
    for (int i = 0; i < OPERANDS; i++) {
        OK(cudaFree(c->device[i]));
        free(c->host[i]);
    }
}

/* The heuristic's answer: how many, and the place of this algorithm among them. */
static cudnnStatus_t ask(const convolution *c, int result, int *n) {
    cudnnConvolutionFwdAlgoPerf_t forward[16];
    cudnnConvolutionBwdDataAlgoPerf_t data[16];
    cudnnConvolutionBwdFilterAlgoPerf_t filters[16];
    return result == Y ? cudnnGetConvolutionForwardAlgorithm_v7(handle, c->x, c->w, c->conv, c->y, 16, n, forward)
           : result == X
               ? cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, c->w, c->y, c->conv, c->x, 16, n, data)
               : cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, c->x, c->y, c->conv, c->w, 16, n, filters);
}

static cudnnStatus_t run_in(const convolution *c, int result, int algorithm, void *scratch, size_t bytes) {
    const float narrow[] = {(float)c->alpha, (float)c->beta};
    const bool is_double = types[c->type].cuda == CUDA_R_64F;
    const void *alpha = is_double ? (const void *)&c->alpha : &narrow[0],
               *beta = is_double ? (const void *)&c->beta : &narrow[1];
    return result == Y
               ? cudnnConvolutionForward(handle, alpha, c->x, c->device[X], c->w, c->device[W], c->conv,
                                         (cudnnConvolutionFwdAlgo_t)algorithm, scratch, bytes, beta, c->y, c->device[Y])
           : result == X ? cudnnConvolutionBackwardData(handle, alpha, c->w, c->device[W], c->y, c->device[Y], c->conv,
                                                        (cudnnConvolutionBwdDataAlgo_t)algorithm, scratch, bytes, beta,
                                                        c->x, c->device[X])
                         : cudnnConvolutionBackwardFilter(handle, alpha, c->x, c->device[X], c->y, c->device[Y],
                                                          c->conv, (cudnnConvolutionBwdFilterAlgo_t)algorithm, scratch,
                                                          bytes, beta, c->w, c->device[W]);
}

static cudnnStatus_t run(const convolution *c, int result, int algorithm) {
    return run_in(c, result, algorithm, workspace, WORKSPACE);
}

/* --- plain loops ------------------------------------------------------------------------------ */

/* What the result is to be: the loops of all three are the same. */
static double *expected(const convolution *c, int result) {
    const shape *s = &c->s;
    const int32_t type = types[c->type].cuda;
    const int per = s->filters / s->groups, channels = s->channels * s->groups;
    double *sums = calloc((size_t)c->n[result], sizeof *sums);
    for (int image = 0; image < s->images; image++)
        for (int f = 0; f < s->filters; f++)
            for (int ch = 0; ch < s->channels; ch++)
                for (int64_t out = 0; out < volume(c->out); out++)
                    for (int64_t tap = 0; tap < volume(s->kernel); tap++) {
                        const int64_t o[3] = {out / c->out[2] / c->out[1], out / c->out[2] % c->out[1],
                                              out % c->out[2]},
                                      k[3] = {tap / s->kernel[2] / s->kernel[1], tap / s->kernel[2] % s->kernel[1],
                                              tap % s->kernel[2]};
                        int64_t in[3];
                        bool inside = true;
                        for (int d = 0; d < 3; d++) {
                            in[d] = o[d] * s->stride[d] + k[d] * s->dilation[d] - s->pad[d];
                            inside = inside && in[d] >= 0 && in[d] < s->size[d];
                        }
                        if (!inside)
                            continue;
                        const int64_t x = plane_at(s, image, f / per * s->channels + ch, channels, volume(s->size)) +
                                          (in[0] * s->size[1] + in[1]) * s->size[2] + in[2],
                                      w = ((int64_t)f * s->channels + ch) * volume(s->kernel) + tap,
                                      y = plane_at(s, image, f, s->filters, volume(c->out)) + out;
                        const double vx = double_get(c->host[X], type, x), vw = double_get(c->host[W], type, w),
                                     vy = double_get(c->host[Y], type, y);
                        if (result == Y)
                            sums[y] += vx * vw;
                        else if (result == X)
                            sums[x] += vy * vw;
                        else
                            sums[w] += vx * vy;
                    }
    for (int64_t i = 0; i < c->n[result]; i++)
        sums[i] = c->alpha * sums[i] + (c->beta == 0 ? 0 : c->beta * double_get(c->host[result], type, i));
    return sums;
}

static void check(const convolution *c, int result, int algorithm) {
    const int32_t type = types[c->type].cuda;
    const size_t bytes = (size_t)c->n[result] * double_size(type);
    double *sums = expected(c, result);
    void *got = malloc(bytes);
    int n;
    OK(ask(c, result, &n));
    OK(run(c, result, algorithm));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(got, c->device[result], bytes, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(c->device[result], c->host[result], bytes, cudaMemcpyHostToDevice));
    for (int64_t i = 0; i < c->n[result]; i++)
        if (double_get(got, type, i) != sums[i])
            fail_msg("result %d of type %d: element %lld is %g, not %g", result, c->type, (long long)i,
                     double_get(got, type, i), sums[i]);
    assert_int_equal(emu_findings(), 0);
    free(got);
    free(sums);
}

static const shape plain = {2, 2, 3, 1, 2, {1, 5, 6}, {1, 3, 2}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, false};

TEST_WITH(values, set_up, tear_down) {
    static const shape shapes[] = {
        {2, 2, 3, 1, 2, {1, 5, 6}, {1, 3, 2}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, false},
        {2, 2, 4, 2, 2, {1, 7, 6}, {1, 3, 3}, {0, 1, 2}, {1, 2, 3}, {1, 1, 1}, false},
        {1, 1, 3, 3, 2, {1, 9, 8}, {1, 2, 3}, {0, 0, 1}, {1, 1, 2}, {1, 3, 2}, false},
        {2, 2, 2, 1, 3, {4, 3, 5}, {2, 3, 2}, {1, 0, 1}, {2, 1, 1}, {1, 1, 2}, false},
        {3, 2, 2, 1, 2, {1, 4, 4}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, true},
        {2, 1, 4, 4, 3, {3, 3, 3}, {2, 2, 2}, {0, 1, 0}, {1, 2, 1}, {1, 1, 1}, true},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int type = 0; type < TYPES; type++) {
            convolution c = make(shapes[i], type);
            for (int beta = 0; beta < 2; beta++) {
                c.beta = beta;
                c.alpha = 1 + beta;
                check(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
                check(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
                check(&c, X, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
                check(&c, W, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
            }
            drop(&c);
        }
}

/* One product: of what x is rounded to, and 1. */
TEST_WITH(tf32, set_up, tear_down) {
    static const shape one = {1, 1, 1, 1, 2, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}, false};
    const float x = 1 + 0x1p-11f, w = 1;
    for (int math = CUDNN_DEFAULT_MATH; math <= CUDNN_FMA_MATH; math++) {
        convolution c = make(one, 0);
        float y;
        int n;
        OK(cudaMemcpy(c.device[X], &x, sizeof x, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(c.device[W], &w, sizeof w, cudaMemcpyHostToDevice));
        set_conv(&c, (cudnnMathType_t)math);
        OK(ask(&c, Y, &n));
        OK(run(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM));
        OK(cudaStreamSynchronize(stream));
        OK(cudaMemcpy(&y, c.device[Y], sizeof y, cudaMemcpyDeviceToHost));
        assert_true(y == (math == CUDNN_FMA_MATH ? x : 1 + 0x1p-10f));
        drop(&c);
    }
}

/* --- what it looks at ------------------------------------------------------------------------- */

static void run_and_expect_finding(const char *part) {
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(emu_findings(), 1);
    assert_non_null(strstr(emu_finding(0), part));
    emu_reset_device();
}

TEST_WITH(convolutions_wait_and_scribble, set_up, tear_down) {
    static unsigned char bytes[WORKSPACE];
    convolution c = make(plain, 0);
    int n;
    OK(ask(&c, X, &n));
    OK(run_in(&c, X, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace, 2048));
    OK(cudaMemcpy(bytes, workspace, WORKSPACE, cudaMemcpyDeviceToHost));
    assert_int_equal(bytes[0], 0); /* its stream was not waited for */
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(bytes, workspace, WORKSPACE, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < WORKSPACE; i++)
        assert_int_equal(bytes[i], i < 2048 ? 0xff : 0);
    drop(&c);
}

TEST_WITH(operands_are_looked_at, set_up, tear_down) {
    static const char *const names[] = {"data of x", "filters", "data of y"};
    static const int algorithms[] = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                                     CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM};
    for (int result = 0; result < OPERANDS; result++) {
        convolution c = make(plain, 0);
        emu_span all[OPERANDS + 1] = {{workspace, WORKSPACE, true}};
        int n;
        OK(ask(&c, result, &n));
        for (int i = 0; i < OPERANDS; i++)
            all[i + 1] = (emu_span){c.device[i], (size_t)c.n[i] * 4, i == result};
        for (int missing = 0; missing <= OPERANDS; missing++) {
            emu_span most[OPERANDS + 1];
            memcpy(most, all, sizeof most);
            most[missing].bytes -= 1;
            emu_declare(stream, most, OPERANDS + 1);
            OK(run(&c, result, algorithms[result]));
            run_and_expect_finding(missing == 0 ? "workspace" : names[missing - 1]);
        }
        all[result + 1].writable = false;
        emu_declare(stream, all, OPERANDS + 1);
        OK(run(&c, result, algorithms[result]));
        run_and_expect_finding("was not declared to be written");
        const int operand = (result + 1) % OPERANDS;
        void *old = c.device[operand];
        OK(cudaMalloc(&c.device[operand], (size_t)c.n[operand] * 4)); /* not written */
        OK(run(&c, result, algorithms[result]));
        run_and_expect_finding(names[operand]);
        OK(cudaFree(c.device[operand]));
        c.device[operand] = old;
        old = c.device[result];
        OK(cudaMalloc(&c.device[result], (size_t)c.n[result] * 4));
        OK(run(&c, result, algorithms[result])); /* a result need not be */
        OK(cudaStreamSynchronize(stream));
        assert_int_equal(emu_findings(), 0);
        OK(cudaFree(c.device[result]));
        c.device[result] = old;
        drop(&c);
    }
}

/* Two kinds that are not to be taken: one gives other numbers, one a finding. */
TEST_WITH(algorithms_that_tempt, set_up, tear_down) {
    convolution c = make(plain, 1);
    double *sums = expected(&c, Y), y = 0;
    cudnnConvolutionBwdDataAlgoPerf_t data[16];
    cudnnConvolutionFwdAlgoPerf_t forward[16];
    int n, at = 0;
    while (sums[at] == 0)
        at++;
    OK(cudnnGetConvolutionForwardAlgorithm_v7(handle, c.x, c.w, c.conv, c.y, 2, &n, forward));
    assert_int_equal(n, 2);
    assert_int_equal(forward[0].determinism, CUDNN_DETERMINISTIC);
    assert_int_equal(forward[1].status, CUDNN_STATUS_NOT_SUPPORTED);
    OK(run(&c, Y, (int)forward[0].algo));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&y, (double *)c.device[Y] + at, sizeof y, cudaMemcpyDeviceToHost));
    assert_true(y == sums[at] * (1 + 0x1p-12));
    assert_int_equal(run(&c, Y, (int)forward[1].algo), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(run(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT), CUDNN_STATUS_BAD_PARAM); /* its workspace */
    OK(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, c.w, c.y, c.conv, c.x, 16, &n, data));
    assert_int_equal(data[0].determinism, CUDNN_NON_DETERMINISTIC);
    OK(run(&c, X, (int)data[0].algo));
    run_and_expect_finding("not deterministic");
    free(sums);
    drop(&c);
}

/* --- what is refused --------------------------------------------------------------------------- */

TEST_WITH(what_is_asked, set_up, tear_down) {
    convolution c = make(plain, 0);
    size_t bytes = 1;
    int n;
    const int direct = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    assert_int_equal(run(&c, Y, direct), CUDNN_STATUS_BAD_PARAM); /* nobody asked */
    OK(ask(&c, X, &n));
    assert_int_equal(run(&c, Y, direct), CUDNN_STATUS_BAD_PARAM); /* for another way */
    OK(ask(&c, Y, &n));
    OK(run(&c, Y, direct));
    OK(cudnnGetConvolutionForwardWorkspaceSize(handle, c.x, c.w, c.conv, c.y, (cudnnConvolutionFwdAlgo_t)direct,
                                               &bytes));
    assert_int_equal(bytes, 4096);
    OK(run_in(&c, Y, direct, workspace, bytes));
    assert_int_equal(run_in(&c, Y, direct, workspace, bytes - 1), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(run_in(&c, Y, direct, workspace + 128, bytes), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(run_in(&c, Y, direct, NULL, bytes), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(
        cudnnGetConvolutionForwardWorkspaceSize(handle, c.x, c.w, c.conv, c.y, CUDNN_CONVOLUTION_FWD_ALGO_FFT, &bytes),
        CUDNN_STATUS_NOT_SUPPORTED);
    set_conv(&c, CUDNN_TENSOR_OP_MATH);
    assert_int_equal(run(&c, Y, direct), CUDNN_STATUS_BAD_PARAM); /* other arithmetic */
    OK(cudaStreamSynchronize(stream));
    drop(&c);
}

TEST_WITH(places, set_up, tear_down) {
    convolution c = make(plain, 0);
    void *const old = c.device[Y];
    int n;
    OK(ask(&c, Y, &n));
    void *const places[] = {NULL, (char *)old + 8, c.device[X], c.device[W], workspace};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        c.device[Y] = places[i];
        assert_int_equal(run(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), CUDNN_STATUS_BAD_PARAM);
        assert_int_equal(emu_findings(), i < 2 ? 0 : 1); /* cuDNN would run */
        emu_forget();
    }
    c.device[Y] = old;
    OK(run(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM));
    OK(cudaStreamSynchronize(stream));
    drop(&c);
}

TEST_WITH(problems_that_are_none, set_up, tear_down) {
    int n;
    const int steps[] = {60, 30, 6, 1}, dims[] = {2, 2, 5, 6}, wrong[][4] = {{3, 2, 5, 6}, {2, 3, 5, 6}, {2, 2, 4, 6}};
    convolution c = make(plain, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        OK(cudnnSetTensorNdDescriptor(c.x, CUDNN_DATA_FLOAT, 4, wrong[i], steps));
        assert_int_equal(ask(&c, Y, &n), CUDNN_STATUS_BAD_PARAM);
        assert_int_equal(n, 0);
    }
    OK(cudnnSetTensorNdDescriptor(c.x, CUDNN_DATA_HALF, 4, dims, steps));
    assert_int_equal(ask(&c, Y, &n), CUDNN_STATUS_BAD_PARAM);
    OK(cudnnSetTensorNdDescriptor(c.x, CUDNN_DATA_FLOAT, 3, dims, steps));
    assert_int_equal(ask(&c, Y, &n), CUDNN_STATUS_BAD_PARAM);
    OK(cudnnSetTensorNdDescriptor(c.x, CUDNN_DATA_FLOAT, 4, dims, steps));
    OK(ask(&c, Y, &n));
    OK(cudnnSetConvolutionGroupCount(c.conv, 2));
    assert_int_equal(ask(&c, Y, &n), CUDNN_STATUS_BAD_PARAM);
    OK(cudnnSetConvolutionNdDescriptor(c.conv, 2, c.s.pad + 1, c.s.stride + 1, c.s.dilation + 1,
                                       CUDNN_CROSS_CORRELATION, CUDNN_DATA_DOUBLE));
    assert_int_equal(ask(&c, Y, &n), CUDNN_STATUS_BAD_PARAM);
    OK(cudnnSetConvolutionNdDescriptor(c.conv, 2, c.s.pad + 1, c.s.stride + 1, c.s.dilation + 1, CUDNN_CONVOLUTION,
                                       CUDNN_DATA_FLOAT));
    assert_int_equal(ask(&c, Y, &n), CUDNN_STATUS_BAD_PARAM);
    drop(&c);
}

TEST_WITH(questions_are_refused_while_capturing, set_up, tear_down) {
    convolution c = make(plain, 0), other = make(plain, 2);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudnnHandle_t more;
    size_t bytes;
    int n;
    OK(ask(&c, Y, &n));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(run(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM));
    assert_int_equal(ask(&other, Y, &n), CUDNN_STATUS_INTERNAL_ERROR);
    assert_int_equal(cudnnGetConvolutionForwardWorkspaceSize(handle, c.x, c.w, c.conv, c.y,
                                                             CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &bytes),
                     CUDNN_STATUS_INTERNAL_ERROR);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(emu_findings(), 0);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    drop(&c);
    drop(&other);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(cudnnCreate(&more), CUDNN_STATUS_INTERNAL_ERROR);
}

TEST_WITH(devices, set_up, tear_down) {
    convolution c = make(plain, 0);
    int n;
    OK(ask(&c, Y, &n));
    setenv("EMU_DEVICES", "2", 1);
    OK(cudaSetDevice(1));
    assert_int_equal(ask(&c, Y, &n), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(run(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), CUDNN_STATUS_BAD_PARAM);
    OK(cudaSetDevice(0));
    unsetenv("EMU_DEVICES");
    OK(run(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM));
    OK(cudaStreamSynchronize(stream));
    drop(&c);
}

TEST_WITH(environment, set_up, tear_down) {
    convolution c = make(plain, 0);
    cudnnHandle_t none;
    int n;
    setenv("EMU_CUDNN", "none", 1);
    assert_int_equal(ask(&c, Y, &n), CUDNN_STATUS_NOT_SUPPORTED);
    setenv("EMU_CUDNN", "late", 1);
    OK(ask(&c, Y, &n));
    assert_int_equal(run(&c, Y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), CUDNN_STATUS_NOT_SUPPORTED);
    setenv("EMU_CUDNN", "absent", 1);
    assert_int_equal(cudnnCreate(&none), CUDNN_STATUS_NOT_INITIALIZED);
    unsetenv("EMU_CUDNN");
    setenv("EMU_DEVICES", "0", 1);
    assert_int_equal(cudnnCreate(&none), CUDNN_STATUS_NOT_INITIALIZED);
    unsetenv("EMU_DEVICES");
    assert_string_equal(cudnnGetErrorString(CUDNN_STATUS_NOT_SUPPORTED), "CUDNN_STATUS_NOT_SUPPORTED");
    drop(&c);
}

/* --- descriptors beside the library's ---------------------------------------------------------- */

#define FUNCTIONS(F)                                                                                                   \
    F(CreateTensorDescriptor)                                                                                          \
    F(SetTensorNdDescriptor)                                                                                           \
    F(DestroyTensorDescriptor)                                                                                         \
    F(CreateFilterDescriptor)                                                                                          \
    F(SetFilterNdDescriptor)                                                                                           \
    F(DestroyFilterDescriptor)                                                                                         \
    F(CreateConvolutionDescriptor)                                                                                     \
    F(SetConvolutionNdDescriptor)                                                                                      \
    F(SetConvolutionGroupCount)                                                                                        \
    F(SetConvolutionMathType)                                                                                          \
    F(DestroyConvolutionDescriptor)                                                                                    \
    F(GetErrorString)
typedef struct functions {
#define MEMBER(name) __typeof__(cudnn##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} functions;

enum { MOST_STATUSES = 64 };

/* What a library says of descriptors, good and bad ones. */
static int statuses(const functions *f, cudnnStatus_t *to) {
    static const struct {
        cudnnDataType_t type;
        int n, dims[5], steps[5];
    } tensors[] = {
        {CUDNN_DATA_FLOAT, 4, {2, 4, 8, 9}, {288, 72, 9, 1}},
        {CUDNN_DATA_BFLOAT16, 4, {2, 4, 8, 9}, {72, 144, 9, 1}},        /* crossed */
        {CUDNN_DATA_HALF, 5, {2, 4, 3, 8, 9}, {864, 216, 72, 9, 1}},    /* three spatial dims */
        {CUDNN_DATA_DOUBLE, 4, {1, 1, 1, 9}, {9, 9, 9, 1}},             /* one */
        {CUDNN_DATA_FLOAT, 3, {2, 4, 8}, {32, 8, 1}},                   /* less than convolutions take */
        {CUDNN_DATA_FLOAT, 2, {2, 4}, {4, 1}},                          /* too few for a filter */
        {CUDNN_DATA_FLOAT, 1, {2}, {1}},                                /* and for a tensor */
        {CUDNN_DATA_FLOAT, 4, {0, 4, 8, 9}, {288, 72, 9, 1}},           /* empty */
        {CUDNN_DATA_FLOAT, 4, {2, 4, 8, 9}, {0, 72, 9, 1}},             /* standing still */
        {CUDNN_DATA_FLOAT, 4, {65536, 1024, 64, 1}, {65536, 64, 1, 1}}, /* 2^32 elements */
        {CUDNN_DATA_FLOAT, 4, {32767, 1024, 64, 1}, {65536, 64, 1, 1}}, /* just less than 2^31 */
        {CUDNN_DATA_FLOAT, 4, {-2, 4, 8, 9}, {288, 72, 9, 1}},
    };
    static const int windows[][6] = {{1, 1, 2, 2, 1, 1},  {0, 0, 1, 1, 3, 2},  {-1, 1, 1, 1, 1, 1},
                                     {0, 0, 0, 1, 1, 1},  {0, 0, 1, 1, 1, 0},  {0, 0, -1, 1, 1, 1},
                                     {0, 0, 1, 1, -1, 1}, {9, 9, 7, 7, 30, 3}, {0, -3, 1, 1, 1, 1}};
    cudnnTensorDescriptor_t t;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t c;
    int n = 0;
    to[n++] = f->CreateTensorDescriptor(&t);
    to[n++] = f->CreateFilterDescriptor(&w);
    to[n++] = f->CreateConvolutionDescriptor(&c);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        to[n++] = f->SetTensorNdDescriptor(t, tensors[i].type, tensors[i].n, tensors[i].dims, tensors[i].steps);
        to[n++] = f->SetFilterNdDescriptor(w, tensors[i].type, CUDNN_TENSOR_NCHW, tensors[i].n, tensors[i].dims);
    }
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++)
        for (int both = 0; both < 2; both++)
            to[n++] =
                f->SetConvolutionNdDescriptor(c, 2, windows[i], windows[i] + 2, windows[i] + 4, CUDNN_CROSS_CORRELATION,
                                              both ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
    for (int groups = -1; groups < 3; groups++)
        to[n++] = f->SetConvolutionGroupCount(c, groups);
    for (int math = CUDNN_DEFAULT_MATH; math <= CUDNN_FMA_MATH; math++)
        to[n++] = f->SetConvolutionMathType(c, (cudnnMathType_t)math);
    to[n++] = f->DestroyTensorDescriptor(t);
    to[n++] = f->DestroyFilterDescriptor(w);
    to[n++] = f->DestroyConvolutionDescriptor(c);
    return n;
}

typedef cudnnStatus_t size_fn(cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, int,
                              int *);

/* The size of a result is the one that the double wants, and none where a window is larger than what it slides over. */
static void expect_size(const functions *f, size_fn *size_of, const int *window) {
    const int size = window[0], kernel = window[1], pad = window[2], stride = window[3], dilation = window[4],
              room = size + 2 * pad - (kernel - 1) * dilation - 1;
    cudnnTensorDescriptor_t x;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t c;
    int dims[4] = {0};
    OK(f->CreateTensorDescriptor(&x));
    OK(f->CreateFilterDescriptor(&w));
    OK(f->CreateConvolutionDescriptor(&c));
    OK(f->SetTensorNdDescriptor(x, CUDNN_DATA_FLOAT, 4, (int[]){2, 6, 1, size}, (int[]){6 * size, size, size, 1}));
    OK(f->SetFilterNdDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, (int[]){4, 3, 1, kernel}));
    OK(f->SetConvolutionNdDescriptor(c, 2, (int[]){0, pad}, (int[]){1, stride}, (int[]){1, dilation},
                                     CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    OK(f->SetConvolutionGroupCount(c, 2));
    const cudnnStatus_t status = size_of(c, x, w, 4, dims);
    assert_int_equal(status == CUDNN_STATUS_SUCCESS && dims[3] > 0, room >= 0);
    if (room >= 0) {
        assert_int_equal(dims[0], 2);
        assert_int_equal(dims[1], 4);
        assert_int_equal(dims[2], 1);
        assert_int_equal(dims[3], room / stride + 1);
    }
    OK(f->DestroyTensorDescriptor(x));
    OK(f->DestroyFilterDescriptor(w));
    OK(f->DestroyConvolutionDescriptor(c));
}

static void expect_sizes(void *library, const functions *f) {
    size_fn *size_of;
    void *found = dlsym(library, "cudnnGetConvolutionNdForwardOutputDim");
    assert_non_null(found);
    memcpy(&size_of, &found, sizeof found);
    for (int i = 0; i < 8 * 4 * 4 * 3 * 3; i++)
        expect_size(f, size_of, (int[]){1 + i % 8, 1 + i / 8 % 4, i / 32 % 4, 1 + i / 128 % 3, 1 + i / 384 % 3});
}

/* Descriptors need no GPU: where the library is, it is asked. */
TEST_WITH(descriptors_are_the_librarys, set_up, tear_down) {
    static const char *const names[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"};
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        skip();
    functions ours, theirs;
#define OURS(name) ours.name = cudnn##name;
    FUNCTIONS(OURS)
#undef OURS
#define THEIRS(name)                                                                                                   \
    {                                                                                                                  \
        void *found = dlsym(library, "cudnn" #name);                                                                   \
        assert_non_null(found);                                                                                        \
        memcpy(&theirs.name, &found, sizeof found);                                                                    \
    }
    FUNCTIONS(THEIRS)
#undef THEIRS
    cudnnStatus_t a[MOST_STATUSES], b[MOST_STATUSES];
    const int n = statuses(&ours, a);
    assert_int_equal(statuses(&theirs, b), n);
    int differ = 0;
    for (int i = 0; i < n; i++)
        if (a[i] != b[i]) {
            print_error("call %d gives %s, and cuDNN gives %s\n", i, ours.GetErrorString(a[i]),
                        theirs.GetErrorString(b[i]));
            differ++;
        }
    assert_int_equal(differ, 0);
    expect_sizes(library, &theirs);
}
