/* cudnn_double.c: handles, descriptors, algorithms and refusals of the double; cudnn_convolution.c computes. */
#include "cublaslt_double.h"
#include "cuda_work.h"
#include "cudnn_problem.h"
#include "double_elements.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ASKED = 4096 };

struct cudnnContext {
    int device; /* that was current when it was made */
    cudaStream_t stream;
    uint64_t asked[MOST_ASKED]; /* the numbers of problems that a heuristic had */
    int n_asked;
};
struct cudnnTensorStruct {
    dnn_tensor tensor;
};
struct cudnnFilterStruct {
    dnn_tensor tensor;
};
struct cudnnConvolutionStruct {
    dnn_window window;
};

static cudnnStatus_t refuse(cudnnStatus_t status, const char *why) {
    if (!emu_quiet)
        fprintf(stderr, "emulated device: cudnn: %s\n", why);
    return status;
}

static bool environment_is(const char *word) {
    const char *set = getenv("EMU_CUDNN");
    return set && strcmp(set, word) == 0;
}

/* --- handle and library ----------------------------------------------------------------------- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    int device;
    if (cudaGetDevice(&device) != cudaSuccess || environment_is("absent"))
        return CUDNN_STATUS_NOT_INITIALIZED;
    if (emu_refuses_to_wait())
        return refuse(CUDNN_STATUS_INTERNAL_ERROR, "cudnnCreate while a stream is captured");
    *handle = calloc(1, sizeof **handle);
    if (!*handle)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    (*handle)->device = device;
    return CUDNN_STATUS_SUCCESS;
}

static bool is_elsewhere(cudnnHandle_t handle) {
    int device;
    return cudaGetDevice(&device) != cudaSuccess || device != handle->device;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId) {
    if (!handle)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    handle->stream = streamId;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void) { return 91900; }

const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch (status) {
#define ROW(name)                                                                                                      \
    case CUDNN_STATUS_##name: return "CUDNN_STATUS_" #name;
        ROW(SUCCESS)
        ROW(NOT_INITIALIZED)
        ROW(BAD_PARAM)
        ROW(BAD_PARAM_NULL_POINTER)
        ROW(BAD_PARAM_MISALIGNED_POINTER)
        ROW(NOT_SUPPORTED)
        ROW(INTERNAL_ERROR)
        ROW(INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
        ROW(EXECUTION_FAILED)
#undef ROW
    }
    return "CUDNN_STATUS_UNKNOWN";
}

/* --- descriptors ------------------------------------------------------------------------------ */

#define DEFINE_DESCRIPTOR(name)                                                                                        \
    cudnnStatus_t cudnnCreate##name##Descriptor(cudnn##name##Descriptor_t *made) {                                     \
        *made = calloc(1, sizeof **made);                                                                              \
        return *made ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;                      \
    }                                                                                                                  \
    cudnnStatus_t cudnnDestroy##name##Descriptor(cudnn##name##Descriptor_t gone) {                                     \
        free(gone);                                                                                                    \
        return CUDNN_STATUS_SUCCESS;                                                                                   \
    }
DEFINE_DESCRIPTOR(Tensor)
DEFINE_DESCRIPTOR(Filter)
DEFINE_DESCRIPTOR(Convolution)

/* -1: none that the double knows. */
static int32_t type_of(cudnnDataType_t type) {
    switch (type) {
    case CUDNN_DATA_FLOAT: return CUDA_R_32F;
    case CUDNN_DATA_DOUBLE: return CUDA_R_64F;
    case CUDNN_DATA_HALF: return CUDA_R_16F;
    case CUDNN_DATA_BFLOAT16: return CUDA_R_16BF;
    }
    return -1;
}

/* cuDNN takes more numbers of dims for a descriptor than convolutions do; of filters it does not look how large they
 * are. */
static cudnnStatus_t set_dims(dnn_tensor *t, cudnnDataType_t type, int n, const int *dims, const int *steps,
                              bool filter) {
    int64_t last = 0;
    if (n < (filter ? 3 : 2) || n > DNN_DIMS || type_of(type) < 0)
        return refuse(CUDNN_STATUS_BAD_PARAM, "a number of dims, or a type, that there is not");
    t->type = type_of(type);
    t->n_dims = n;
    for (int d = 0; d < n; d++) {
        if (dims[d] < 1 || steps[d] < 1)
            return refuse(CUDNN_STATUS_BAD_PARAM, "an empty dim, or one that stands still");
        t->dims[d] = dims[d];
        t->steps[d] = steps[d];
        last += (int64_t)(dims[d] - 1) * steps[d];
    }
    return filter || last < INT32_MAX ? CUDNN_STATUS_SUCCESS
                                      : refuse(CUDNN_STATUS_NOT_SUPPORTED, "a tensor of 2^31 elements or more");
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensorDesc, cudnnDataType_t dataType, int nbDims,
                                         const int dimA[], const int strideA[]) {
    if (!tensorDesc || !dimA || !strideA)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    return set_dims(&tensorDesc->tensor, dataType, nbDims, dimA, strideA, false);
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filterDesc, cudnnDataType_t dataType,
                                         cudnnTensorFormat_t format, int nbDims, const int filterDimA[]) {
    int steps[DNN_DIMS];
    int64_t step = 1;
    if (!filterDesc || !filterDimA)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (format != CUDNN_TENSOR_NCHW || nbDims > DNN_DIMS)
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a format, or a number of dims, that the double does not know");
    for (int d = nbDims - 1; d >= 0; step *= filterDimA[d--])
        steps[d] = step <= INT32_MAX ? (int)step : INT32_MAX;
    return set_dims(&filterDesc->tensor, dataType, nbDims, filterDimA, steps, true);
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convDesc, int arrayLength, const int padA[],
                                              const int filterStrideA[], const int dilationA[],
                                              cudnnConvolutionMode_t mode, cudnnDataType_t computeType) {
    if (!convDesc || !padA || !filterStrideA || !dilationA)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    dnn_window w = {.n = arrayLength, .mode = (int32_t)mode, .type = type_of(computeType), .groups = 1};
    if (arrayLength < 1 || arrayLength > DNN_SPATIAL || w.type < 0)
        return refuse(CUDNN_STATUS_BAD_PARAM, "a window of no or too many dims, or of a type that there is not");
    for (int d = 0; d < arrayLength; d++) {
        if (padA[d] < 0 || filterStrideA[d] < 1 || dilationA[d] < 1)
            return refuse(CUDNN_STATUS_BAD_PARAM, "pads below 0, or strides or dilations below 1");
        w.pads[d] = padA[d];
        w.strides[d] = filterStrideA[d];
        w.dilations[d] = dilationA[d];
    }
    convDesc->window = w;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convDesc, int groupCount) {
    if (!convDesc || groupCount < 1)
        return refuse(CUDNN_STATUS_BAD_PARAM, "no groups");
    convDesc->window.groups = groupCount;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convDesc, cudnnMathType_t mathType) {
    if (!convDesc || (int)mathType < CUDNN_DEFAULT_MATH || mathType > CUDNN_FMA_MATH)
        return refuse(CUDNN_STATUS_BAD_PARAM, "arithmetic that there is not");
    convDesc->window.math = (int32_t)mathType;
    return CUDNN_STATUS_SUCCESS;
}

/* --- what is a convolution -------------------------------------------------------------------- */

/* Moves `n` numbers to the end of three, behind ones. */
static void lead(int32_t *numbers, int n, int32_t by) {
    memmove(numbers + DNN_SPATIAL - n, numbers, (size_t)n * sizeof *numbers);
    for (int d = 0; d < DNN_SPATIAL - n; d++)
        numbers[d] = by;
}

static const char *check_window(const dnn_problem *p) {
    const dnn_window *w = &p->window;
    const dnn_tensor *wide = &p->tensors[DNN_WIDE], *filter = &p->tensors[DNN_FILTER],
                     *narrow = &p->tensors[DNN_NARROW];
    if (wide->dims[1] != filter->dims[1] * w->groups || narrow->dims[1] != filter->dims[0] ||
        filter->dims[0] % w->groups != 0)
        return "channels, filters and groups that do not fit";
    if (wide->dims[0] != narrow->dims[0])
        return "images that do not fit";
    for (int d = 0; d < DNN_SPATIAL; d++) {
        const int64_t room = (int64_t)wide->dims[2 + d] + 2 * (int64_t)w->pads[d] -
                             (int64_t)(filter->dims[2 + d] - 1) * w->dilations[d] - 1;
        if (room < 0 || room / w->strides[d] + 1 != narrow->dims[2 + d])
            return "a result of another size than the window gives";
    }
    return NULL;
}

static const char *check_tensors(const dnn_problem *p) {
    const int32_t type = p->tensors[DNN_WIDE].type;
    for (int i = 0; i < DNN_OPERANDS; i++) {
        const dnn_tensor *t = &p->tensors[i];
        if (t->type != type)
            return "tensors of several types";
        if (t->steps[4] != 1 || t->steps[3] != t->dims[4] || t->steps[2] != t->dims[3] * t->dims[4])
            return "a plane that is not dense";
    }
    if (p->window.type != (type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F))
        return "a type to sum in that does not go with the tensors'";
    return p->window.mode != CUDNN_CROSS_CORRELATION ? "a mode that the double does not know" : NULL;
}

/* NULL, or why there is no such convolution. */
static const char *make_problem(dnn_problem *p, dnn_operand result, cudnnTensorDescriptor_t wide,
                                cudnnFilterDescriptor_t filter, cudnnTensorDescriptor_t narrow,
                                cudnnConvolutionDescriptor_t conv) {
    if (!wide || !filter || !narrow || !conv)
        return "a descriptor is missing";
    memset(p, 0, sizeof *p);
    p->result = result;
    p->tensors[DNN_WIDE] = wide->tensor;
    p->tensors[DNN_FILTER] = filter->tensor;
    p->tensors[DNN_NARROW] = narrow->tensor;
    p->window = conv->window;
    const int n = p->window.n;
    for (int i = 0; i < DNN_OPERANDS; i++) {
        dnn_tensor *t = &p->tensors[i];
        if (n < 2 || t->n_dims != n + 2)
            return "another number of dims than 4 or 5, or not the window's";
        lead(t->dims + 2, n, 1);
        lead(t->steps + 2, n, t->dims[3] * t->steps[2]); /* of the first dim that was given */
    }
    lead(p->window.pads, n, 0);
    lead(p->window.strides, n, 1);
    lead(p->window.dilations, n, 1);
    const char *wrong = check_tensors(p);
    return wrong ? wrong : check_window(p);
}

static uint64_t number_of(const dnn_problem *p) {
    const unsigned char *bytes = (const unsigned char *)p;
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *p; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

/* --- algorithms ------------------------------------------------------------------------------- */

#define TOO_MUCH ((size_t)1 << 40)

typedef struct offer {
    int algorithm;
    bool deterministic, rough;
    size_t bytes;
    bool refused; /* named, with a status that says no */
} offer;

enum { OFFERS = 6 };
/* By the result of the convolution, sorted by their time, as it were. */
static const offer offers[DNN_OPERANDS][OFFERS] = {
    [DNN_NARROW] = {{CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, true, true, 1024, false},
                    {CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING, true, true, 0, true},
                    {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, false, false, 0, false},
                    {CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, true, false, TOO_MUCH, false},
                    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, true, false, 4096, false},
                    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, true, false, 0, false}},
    [DNN_WIDE] = {{CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, false, false, 0, false},
                  {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, true, true, 0, false},
                  {CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, true, true, TOO_MUCH, false},
                  {CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING, true, true, 0, true},
                  {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, true, false, 2048, false},
                  {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED, true, true, 0, false}},
    [DNN_FILTER] = {{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, false, false, 512, false},
                    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, false, false, 0, false},
                    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, true, true, 1024, false},
                    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, true, true, 0, true},
                    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, true, false, 8192, false},
                    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING, true, true, 0, false}},
};

static const offer *offer_of(const dnn_problem *p, int algorithm) {
    for (int i = 0; i < OFFERS; i++)
        if (offers[p->result][i].algorithm == algorithm && !offers[p->result][i].refused)
            return &offers[p->result][i];
    return NULL;
}

/* What may be asked, and answered, now. */
static cudnnStatus_t check_question(cudnnHandle_t handle, const char *wrong) {
    if (!handle)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (is_elsewhere(handle))
        return refuse(CUDNN_STATUS_BAD_PARAM, "a handle of another device");
    if (emu_is_capturing())
        return refuse(CUDNN_STATUS_INTERNAL_ERROR, "a question while a stream is captured");
    return wrong ? refuse(CUDNN_STATUS_BAD_PARAM, wrong) : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t note_asked(cudnnHandle_t handle, const dnn_problem *p) {
    if (environment_is("none"))
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (handle->n_asked == MOST_ASKED)
        return refuse(CUDNN_STATUS_INTERNAL_ERROR, "more problems than the double keeps");
    handle->asked[handle->n_asked++] = number_of(p);
    return CUDNN_STATUS_SUCCESS;
}

#define DEFINE_HEURISTIC(way, perf, kind, result)                                                                      \
    static cudnnStatus_t answer_##way(cudnnHandle_t handle, const dnn_problem *p, const char *wrong, int most, int *n, \
                                      perf *answers) {                                                                 \
        cudnnStatus_t status = check_question(handle, !wrong && most < 1 ? "no answer is asked for" : wrong);          \
        *n = 0;                                                                                                        \
        if (status == CUDNN_STATUS_SUCCESS)                                                                            \
            status = note_asked(handle, p);                                                                            \
        for (int i = 0; status == CUDNN_STATUS_SUCCESS && i < OFFERS && i < most; i++) {                               \
            const offer *o = &offers[result][i];                                                                       \
            answers[(*n)++] = (perf){.algo = (kind)o->algorithm,                                                       \
                                     .status = o->refused ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS,         \
                                     .time = -1,                                                                       \
                                     .memory = o->bytes,                                                               \
                                     .determinism = o->deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC,  \
                                     .mathType = CUDNN_DEFAULT_MATH};                                                  \
        }                                                                                                              \
        return status;                                                                                                 \
    }
DEFINE_HEURISTIC(forward, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t, DNN_NARROW)
DEFINE_HEURISTIC(data, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t, DNN_WIDE)
DEFINE_HEURISTIC(filter, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t, DNN_FILTER)

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
                                                     const cudnnFilterDescriptor_t filterDesc,
                                                     const cudnnConvolutionDescriptor_t convDesc,
                                                     const cudnnTensorDescriptor_t destDesc,
                                                     const int requestedAlgoCount, int *returnedAlgoCount,
                                                     cudnnConvolutionFwdAlgoPerf_t *perfResults) {
    dnn_problem p;
    const char *wrong = make_problem(&p, DNN_NARROW, srcDesc, filterDesc, destDesc, convDesc);
    return answer_forward(handle, &p, wrong, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc, const cudnnTensorDescriptor_t diffDesc,
    const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t gradDesc, const int requestedAlgoCount,
    int *returnedAlgoCount, cudnnConvolutionBwdDataAlgoPerf_t *perfResults) {
    dnn_problem p;
    const char *wrong = make_problem(&p, DNN_WIDE, gradDesc, filterDesc, diffDesc, convDesc);
    return answer_data(handle, &p, wrong, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
                                                            const cudnnTensorDescriptor_t diffDesc,
                                                            const cudnnConvolutionDescriptor_t convDesc,
                                                            const cudnnFilterDescriptor_t gradDesc,
                                                            const int requestedAlgoCount, int *returnedAlgoCount,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t *perfResults) {
    dnn_problem p;
    const char *wrong = make_problem(&p, DNN_FILTER, srcDesc, gradDesc, diffDesc, convDesc);
    return answer_filter(handle, &p, wrong, requestedAlgoCount, returnedAlgoCount, perfResults);
}

static cudnnStatus_t answer_bytes(cudnnHandle_t handle, const dnn_problem *p, const char *wrong, int algorithm,
                                  size_t *bytes) {
    const cudnnStatus_t status = check_question(handle, wrong);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    const offer *o = offer_of(p, algorithm);
    if (!o)
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "an algorithm that the problem has not");
    *bytes = o->bytes;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc,
                                                      const cudnnFilterDescriptor_t wDesc,
                                                      const cudnnConvolutionDescriptor_t convDesc,
                                                      const cudnnTensorDescriptor_t yDesc,
                                                      cudnnConvolutionFwdAlgo_t algo, size_t *sizeInBytes) {
    dnn_problem p;
    const char *wrong = make_problem(&p, DNN_NARROW, xDesc, wDesc, yDesc, convDesc);
    return answer_bytes(handle, &p, wrong, (int)algo, sizeInBytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc,
                                                           const cudnnTensorDescriptor_t dyDesc,
                                                           const cudnnConvolutionDescriptor_t convDesc,
                                                           const cudnnTensorDescriptor_t dxDesc,
                                                           cudnnConvolutionBwdDataAlgo_t algo, size_t *sizeInBytes) {
    dnn_problem p;
    const char *wrong = make_problem(&p, DNN_WIDE, dxDesc, wDesc, dyDesc, convDesc);
    return answer_bytes(handle, &p, wrong, (int)algo, sizeInBytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc,
                                                             const cudnnTensorDescriptor_t dyDesc,
                                                             const cudnnConvolutionDescriptor_t convDesc,
                                                             const cudnnFilterDescriptor_t gradDesc,
                                                             cudnnConvolutionBwdFilterAlgo_t algo,
                                                             size_t *sizeInBytes) {
    dnn_problem p;
    const char *wrong = make_problem(&p, DNN_FILTER, xDesc, gradDesc, dyDesc, convDesc);
    return answer_bytes(handle, &p, wrong, (int)algo, sizeInBytes);
}

/* --- the convolution -------------------------------------------------------------------------- */

static emu_span bytes_of(const dnn_convolution *c, int operand) {
    const dnn_tensor *t = &c->problem.tensors[operand];
    int64_t last = 0;
    for (int d = 0; d < DNN_DIMS; d++)
        last += (int64_t)(t->dims[d] - 1) * t->steps[d];
    return (emu_span){c->at[operand], (size_t)(last + 1) * double_size(t->type), false};
}

static bool overlap(emu_span a, emu_span b) {
    return (const char *)a.at < (const char *)b.at + b.bytes && (const char *)b.at < (const char *)a.at + a.bytes;
}

static const char *check_places(const dnn_convolution *c) {
    const int result = (int)c->problem.result;
    const emu_span written = bytes_of(c, result), workspace = {c->workspace, c->workspace_bytes, true};
    if ((!c->workspace && c->workspace_bytes > 0) || (uintptr_t)c->workspace % 256 != 0)
        return "no workspace, or one that is not aligned to 256 bytes";
    for (int i = 0; i < DNN_OPERANDS; i++) {
        if (!c->at[i] || (uintptr_t)c->at[i] % 16 != 0)
            return "an operand that is missing, or not aligned to 16 bytes";
        if ((i != result && overlap(written, bytes_of(c, i))) ||
            (workspace.bytes > 0 && overlap(workspace, bytes_of(c, i)))) {
            emu_misused("a convolution", "an operand lies over the result, or over the workspace");
            return "operands that overlap";
        }
    }
    return NULL;
}

static const char *check_algorithm(const struct cudnnContext *handle, dnn_convolution *c, int algorithm) {
    const offer *o = offer_of(&c->problem, algorithm);
    const uint64_t number = number_of(&c->problem);
    bool asked = false;
    for (int i = 0; i < handle->n_asked; i++)
        asked = asked || handle->asked[i] == number;
    if (!o || !asked)
        return "an algorithm that nobody named for the problem";
    if (c->workspace_bytes < o->bytes)
        return "less workspace than the algorithm takes";
    c->rough = o->rough;
    c->orderless = !o->deterministic;
    return NULL;
}

static void set_factors(dnn_convolution *c, const void *alpha, const void *beta) {
    float factors[2];
    if (c->problem.window.type == CUDA_R_64F) {
        memcpy(&c->alpha, alpha, sizeof c->alpha);
        memcpy(&c->beta, beta, sizeof c->beta);
        return;
    }
    memcpy(&factors[0], alpha, sizeof factors[0]);
    memcpy(&factors[1], beta, sizeof factors[1]);
    c->alpha = (double)factors[0];
    c->beta = (double)factors[1];
}

/* `made` has its problem and operands. */
static cudnnStatus_t queue(cudnnHandle_t handle, dnn_convolution *made, const char *wrong, int algorithm,
                           const void *alpha, const void *beta) {
    if (!handle || !alpha || !beta)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!wrong && is_elsewhere(handle))
        wrong = "a handle of another device";
    if (!wrong)
        wrong = check_algorithm(handle, made, algorithm);
    if (!wrong)
        wrong = check_places(made);
    if (wrong)
        return refuse(CUDNN_STATUS_BAD_PARAM, wrong);
    if (environment_is("late"))
        return CUDNN_STATUS_NOT_SUPPORTED;
    set_factors(made, alpha, beta);
    dnn_convolution *c = malloc(sizeof *c);
    if (!c)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    *c = *made;
    return emu_on_stream(handle->stream, dnn_run_convolution, free, c) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                                                      : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xDesc,
                                      const void *x, const cudnnFilterDescriptor_t wDesc, const void *w,
                                      const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionFwdAlgo_t algo,
                                      void *workSpace, size_t workSpaceSizeInBytes, const void *beta,
                                      const cudnnTensorDescriptor_t yDesc, void *y) {
    dnn_convolution c = {.at = {x, w, y}, .workspace = workSpace, .workspace_bytes = workSpaceSizeInBytes};
    const char *wrong = make_problem(&c.problem, DNN_NARROW, xDesc, wDesc, yDesc, convDesc);
    return queue(handle, &c, wrong, (int)algo, alpha, beta);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t wDesc,
                                           const void *w, const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                           const cudnnConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdDataAlgo_t algo, void *workSpace,
                                           size_t workSpaceSizeInBytes, const void *beta,
                                           const cudnnTensorDescriptor_t dxDesc, void *dx) {
    dnn_convolution c = {.at = {dx, w, dy}, .workspace = workSpace, .workspace_bytes = workSpaceSizeInBytes};
    const char *wrong = make_problem(&c.problem, DNN_WIDE, dxDesc, wDesc, dyDesc, convDesc);
    return queue(handle, &c, wrong, (int)algo, alpha, beta);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                             const cudnnTensorDescriptor_t xDesc, const void *x,
                                             const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                             const cudnnConvolutionDescriptor_t convDesc,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void *workSpace,
                                             size_t workSpaceSizeInBytes, const void *beta,
                                             const cudnnFilterDescriptor_t dwDesc, void *dw) {
    dnn_convolution c = {.at = {x, dw, dy}, .workspace = workSpace, .workspace_bytes = workSpaceSizeInBytes};
    const char *wrong = make_problem(&c.problem, DNN_FILTER, xDesc, dwDesc, dyDesc, convDesc);
    return queue(handle, &c, wrong, (int)algo, alpha, beta);
}
