/* cudnn_conv.c: a convolution as a problem of cuDNN's, the algorithms that were chosen, and the call. It takes only
 * algorithms that give the same bits each time, sum the definition's terms (Winograd's and Fourier's transforms round
 * in other places), and fit into the workspace. */
#include "cudnn_queue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- chosen algorithms ---------------------------------------------------------------------------- */

_Static_assert(sizeof(tk_conv) == (4 + 7 * TK_WINDOW_RANK) * sizeof(int64_t) &&
                   sizeof(tk_cudnn_problem) == sizeof(tk_conv) + sizeof(int64_t) + 4 * sizeof(int32_t),
               "no padding");

static tk_cudnn_solution *known(const tk_cudnn *cudnn, const tk_cudnn_problem *problem) {
    for (uint32_t i = 0; i < cudnn->n_solutions; i++)
        if (memcmp(&cudnn->solutions[i].of, problem, sizeof *problem) == 0)
            return &cudnn->solutions[i];
    return NULL;
}

static bool grow(tk_cudnn *cudnn) {
    if (cudnn->n_solutions < cudnn->capacity)
        return true;
    const uint32_t capacity = cudnn->capacity > 0 ? 2 * cudnn->capacity : 16;
    tk_cudnn_solution *solutions = realloc(cudnn->solutions, capacity * sizeof *solutions);
    if (!solutions)
        return false;
    cudnn->solutions = solutions;
    cudnn->capacity = capacity;
    return true;
}

static void free_descriptors(const tk_cudnn_functions *dnn, const tk_cudnn_solution *s) {
    if (s->wide)
        dnn->DestroyTensorDescriptor(s->wide);
    if (s->narrow)
        dnn->DestroyTensorDescriptor(s->narrow);
    if (s->filter)
        dnn->DestroyFilterDescriptor(s->filter);
    if (s->conv)
        dnn->DestroyConvolutionDescriptor(s->conv);
}

void tk_cudnn_forget(tk_cudnn *cudnn) {
    for (uint32_t i = 0; i < cudnn->n_solutions; i++)
        free_descriptors(&cudnn->dnn, &cudnn->solutions[i]);
    free(cudnn->solutions);
    cudnn->solutions = NULL;
    cudnn->n_solutions = cudnn->capacity = 0;
}

/* --- describing ----------------------------------------------------------------------------------- */

/* Stops at the first call that fails, with its status. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const cudnnStatus_t status_ = (call);                                                                          \
        if (status_ != CUDNN_STATUS_SUCCESS)                                                                           \
            return status_;                                                                                            \
    } while (0)

static cudnnDataType_t type_of(int32_t dtype) {
    return dtype == TK_F64    ? CUDNN_DATA_DOUBLE
           : dtype == TK_F16  ? CUDNN_DATA_HALF
           : dtype == TK_BF16 ? CUDNN_DATA_BFLOAT16
                              : CUDNN_DATA_FLOAT;
}

/* The spatial dims that cuDNN gets: two where the first is only padding. */
static int first_dim(const tk_window *w) {
    return w->inp[0] == 1 && w->out[0] == 1 && w->kernel[0] == 1 && w->pad_begin[0] == 0 ? 1 : 0;
}

/* As many numbers as there are dims; how many that is. */
static int to_ints(int *to, const int64_t *from, const tk_window *w) {
    const int first = first_dim(w);
    for (int d = first; d < TK_WINDOW_RANK; d++)
        to[d - first] = (int)from[d];
    return TK_WINDOW_RANK - first;
}

/* crossed: batch and channels have changed places in memory. */
static cudnnStatus_t describe_tensor(const tk_cudnn_functions *dnn, cudnnTensorDescriptor_t *out,
                                     const tk_cudnn_problem *p, int64_t channels, const int64_t *dims) {
    const bool crossed = p->way == TK_CUDNN_FILTERS;
    int sizes[TK_WINDOW_RANK + 2] = {(int)p->conv.batch, (int)channels}, steps[TK_WINDOW_RANK + 2];
    const int rank = 2 + to_ints(sizes + 2, dims, &p->conv.window), plane = (int)tk_volume(dims);
    steps[rank - 1] = 1;
    for (int d = rank - 2; d > 1; d--)
        steps[d] = steps[d + 1] * sizes[d + 1];
    steps[0] = crossed ? plane : sizes[1] * plane;
    steps[1] = crossed ? sizes[0] * plane : plane;
    TRY(dnn->CreateTensorDescriptor(out));
    return dnn->SetTensorNdDescriptor(*out, type_of(p->dtype), rank, sizes, steps);
}

static cudnnStatus_t describe_filter(const tk_cudnn_functions *dnn, tk_cudnn_solution *s) {
    const tk_conv *c = &s->of.conv;
    int sizes[TK_WINDOW_RANK + 2] = {(int)c->filters, (int)(c->channels / c->groups)};
    const int rank = 2 + to_ints(sizes + 2, c->window.kernel, &c->window);
    TRY(dnn->CreateFilterDescriptor(&s->filter));
    return dnn->SetFilterNdDescriptor(s->filter, type_of(s->of.dtype), CUDNN_TENSOR_NCHW, rank, sizes);
}

/* Floats are multiplied in full precision unless TF32 was requested: cuDNN's default is TF32. */
static cudnnMathType_t math_of(const tk_cudnn_problem *p) {
    return p->dtype == TK_F64               ? CUDNN_DEFAULT_MATH
           : p->dtype == TK_F32 && !p->tf32 ? CUDNN_FMA_MATH
                                            : CUDNN_TENSOR_OP_MATH;
}

/* Doubles are summed in double, all others in float. */
static cudnnStatus_t describe_conv(const tk_cudnn_functions *dnn, tk_cudnn_solution *s) {
    const tk_window *w = &s->of.conv.window;
    int pads[TK_WINDOW_RANK], strides[TK_WINDOW_RANK], dilations[TK_WINDOW_RANK];
    const int n = to_ints(pads, w->pad_begin, w);
    to_ints(strides, w->stride, w);
    to_ints(dilations, w->dilation, w);
    TRY(dnn->CreateConvolutionDescriptor(&s->conv));
    TRY(dnn->SetConvolutionNdDescriptor(s->conv, n, pads, strides, dilations, CUDNN_CROSS_CORRELATION,
                                        s->of.dtype == TK_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
    TRY(dnn->SetConvolutionGroupCount(s->conv, (int)s->of.conv.groups));
    return dnn->SetConvolutionMathType(s->conv, math_of(&s->of));
}

/* --- choosing ------------------------------------------------------------------------------------- */

/* Answers of a heuristic: there are no more algorithms, each in up to two kinds of arithmetic. */
enum { MOST_ANSWERS = 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT };

/* The algorithms that sum products of the elements themselves, a bit each. */
enum {
    SUMS_Forward = 1 << CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM | 1 << CUDNN_CONVOLUTION_FWD_ALGO_GEMM |
                   1 << CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM | 1 << CUDNN_CONVOLUTION_FWD_ALGO_DIRECT,
    SUMS_BackwardData = 1 << CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
    SUMS_BackwardFilter = 1 << CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1
};

/* ask_WAY: the first suitable answer; answers are sorted by time. first, second and third are the descriptors in the
 * way's order. The workspace is queried for each: an answer's size is for its own arithmetic, which may differ from
 * ours. */
#define DEFINE_ASK(way, perf, kind, first, second, third)                                                              \
    static cudnnStatus_t ask_##way(const tk_cudnn *cudnn, tk_cudnn_solution *s) {                                      \
        const tk_cudnn_functions *dnn = &cudnn->dnn;                                                                   \
        perf answers[MOST_ANSWERS];                                                                                    \
        int n = 0;                                                                                                     \
        TRY(dnn->GetConvolution##way##Algorithm_v7(cudnn->handle, s->first, s->second, s->conv, s->third,              \
                                                   MOST_ANSWERS, &n, answers));                                        \
        for (int i = 0; i < n; i++) {                                                                                  \
            const int algorithm = (int)answers[i].algo;                                                                \
            if (answers[i].status != CUDNN_STATUS_SUCCESS || answers[i].determinism != CUDNN_DETERMINISTIC ||          \
                !(SUMS_##way >> algorithm & 1))                                                                        \
                continue;                                                                                              \
            s->algorithm = algorithm;                                                                                  \
            if (dnn->GetConvolution##way##WorkspaceSize(cudnn->handle, s->first, s->second, s->conv, s->third,         \
                                                        (kind)algorithm,                                               \
                                                        &s->workspace_bytes) == CUDNN_STATUS_SUCCESS &&                \
                s->workspace_bytes <= (size_t)s->of.workspace_bytes)                                                   \
                return CUDNN_STATUS_SUCCESS;                                                                           \
        }                                                                                                              \
        return CUDNN_STATUS_NOT_SUPPORTED;                                                                             \
    }
DEFINE_ASK(Forward, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t, wide, filter, narrow)
DEFINE_ASK(BackwardData, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t, filter, narrow, wide)
DEFINE_ASK(BackwardFilter, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t, wide, narrow, filter)

static cudnnStatus_t solve(const tk_cudnn *cudnn, tk_cudnn_solution *s) {
    const tk_conv *c = &s->of.conv;
    if (s->of.way == TK_CUDNN_NONE)
        return CUDNN_STATUS_NOT_SUPPORTED;
    TRY(describe_tensor(&cudnn->dnn, &s->wide, &s->of, c->channels, c->window.inp));
    TRY(describe_tensor(&cudnn->dnn, &s->narrow, &s->of, c->filters, c->window.out));
    TRY(describe_filter(&cudnn->dnn, s));
    TRY(describe_conv(&cudnn->dnn, s));
    return s->of.way == TK_CUDNN_FORWARD ? ask_Forward(cudnn, s)
           : s->of.way == TK_CUDNN_DATA  ? ask_BackwardData(cudnn, s)
                                         : ask_BackwardFilter(cudnn, s);
}

/* NULL: an error, which is noted. */
static tk_cudnn_solution *find(tk_cuda *cuda, const tk_cudnn_call *call) {
    tk_cudnn *cudnn = cuda->cudnn;
    tk_cudnn_problem problem = {.conv = tk_cudnn_words(call->conv, call->way),
                                .workspace_bytes = (int64_t)call->workspace_bytes,
                                .way = call->way,
                                .dtype = (int32_t)call->dtype,
                                .tf32 = cuda->tf32 && call->dtype == TK_F32,
                                .added = call->added};
    tk_cudnn_solution *s = known(cudnn, &problem);
    if (s)
        return s;
    if (cuda->recording) { /* a plan's first run met all of its problems, and the library may not be queried now */
        tk_cuda_note(cuda, cudaErrorStreamCaptureUnsupported, "a convolution that no run before had");
        return NULL;
    }
    if (!grow(cudnn)) {
        tk_cuda_note(cuda, cudaErrorMemoryAllocation, "convolutions");
        return NULL;
    }
    s = &cudnn->solutions[cudnn->n_solutions++];
    *s = (tk_cudnn_solution){.of = problem};
    s->status = solve(cudnn, s);
    return s;
}

static bool is_aligned(const tk_cudnn_call *call) {
    return ((uintptr_t)call->out | (uintptr_t)call->inp | (uintptr_t)call->weight) % 16 == 0;
}

bool tk_cudnn_takes(tk_cuda *cuda, const tk_cudnn_call *call) {
    if (cuda->no_cudnn || !is_aligned(call) || (!cuda->cudnn && cuda->recording))
        return false;
    const tk_cudnn *cudnn = tk_cudnn_open(cuda);
    if (!cudnn || !cudnn->handle)
        return false;
    const tk_cudnn_solution *s = find(cuda, call);
    return s && s->status == CUDNN_STATUS_SUCCESS;
}

/* --- the call ------------------------------------------------------------------------------------- */

static cudnnStatus_t run(const tk_cudnn *cudnn, const tk_cudnn_solution *s, const tk_cudnn_call *call) {
    const float narrow[] = {1, call->added ? 1 : 0};
    const double wide[] = {1, call->added ? 1 : 0};
    const bool is_double = call->dtype == TK_F64;
    const void *alpha = is_double ? (const void *)&wide[0] : &narrow[0],
               *beta = is_double ? (const void *)&wide[1] : &narrow[1];
    switch (call->way) {
    case TK_CUDNN_FORWARD:
        return cudnn->dnn.ConvolutionForward(cudnn->handle, alpha, s->wide, call->inp, s->filter, call->weight, s->conv,
                                             (cudnnConvolutionFwdAlgo_t)s->algorithm, call->workspace,
                                             s->workspace_bytes, beta, s->narrow, call->out);
    case TK_CUDNN_DATA:
        return cudnn->dnn.ConvolutionBackwardData(cudnn->handle, alpha, s->filter, call->weight, s->narrow, call->inp,
                                                  s->conv, (cudnnConvolutionBwdDataAlgo_t)s->algorithm, call->workspace,
                                                  s->workspace_bytes, beta, s->wide, call->out);
    case TK_CUDNN_FILTERS:
        return cudnn->dnn.ConvolutionBackwardFilter(cudnn->handle, alpha, s->wide, call->inp, s->narrow, call->weight,
                                                    s->conv, (cudnnConvolutionBwdFilterAlgo_t)s->algorithm,
                                                    call->workspace, s->workspace_bytes, beta, s->filter, call->out);
    default: return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

/* The library has no algorithm for the problem, and reports it only now. */
static bool is_refusal(cudnnStatus_t status) {
    const int category = (int)status / 1000 * 1000;
    return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM;
}

bool tk_cudnn_run(tk_cuda *cuda, const tk_cudnn_call *call) {
    tk_cudnn_solution *s = find(cuda, call);
    if (!s)
        return true;
    const cudnnStatus_t status = run(cuda->cudnn, s, call);
    if (is_refusal(status) && !cuda->recording) {
        s->status = status;
        return false;
    }
    if (status != CUDNN_STATUS_SUCCESS)
        tk_cuda_note(cuda, cudaErrorUnknown, cuda->cudnn->dnn.GetErrorString(status));
    return true;
}

/* --- for people ----------------------------------------------------------------------------------- */

/* "2x4x8x8": the dims of one of its tensors. */
static const char *dims_text(char text[96], int64_t a, int64_t b, const int64_t *dims, const tk_window *w) {
    int n = snprintf(text, 96, "%lldx%lld", (long long)a, (long long)b);
    for (int d = first_dim(w); d < TK_WINDOW_RANK; d++)
        n += snprintf(text + n, 96 - (size_t)n, "x%lld", (long long)dims[d]);
    return text;
}

static int describe(const tk_cudnn *cudnn, const tk_cudnn_solution *s, char *text, size_t bytes) {
    static const char *const types[] = {
        [TK_F32] = "float", [TK_F64] = "double", [TK_F16] = "float16", [TK_BF16] = "bfloat16"};
    static const char *const ways[] = {[TK_CUDNN_NONE] = "none",
                                       [TK_CUDNN_FORWARD] = "forward",
                                       [TK_CUDNN_DATA] = "gradient of data",
                                       [TK_CUDNN_FILTERS] = "gradient of filters"};
    const tk_conv *c = &s->of.conv;
    const tk_window *w = &c->window;
    char wide[96], filter[96], narrow[96];
    const int n = snprintf(text, bytes, "%s of %s, %s by %s, %s, %lld groups%s%s: ",
                           s->of.way == TK_CUDNN_NONE ? "convolution" : ways[s->of.way], types[s->of.dtype],
                           dims_text(wide, c->batch, c->channels, w->inp, w),
                           dims_text(filter, c->filters, c->channels / c->groups, w->kernel, w),
                           dims_text(narrow, c->batch, c->filters, w->out, w), (long long)c->groups,
                           s->of.added ? ", with a bias" : "", s->of.tf32 ? ", TF32" : "");
    const size_t used = (size_t)n < bytes ? (size_t)n : bytes;
    return n + (s->status == CUDNN_STATUS_SUCCESS
                    ? snprintf(text + used, bytes - used, "algorithm %d, %zu bytes of workspace\n", s->algorithm,
                               s->workspace_bytes)
                    : snprintf(text + used, bytes - used, "products of patches (%s)\n",
                               s->of.way == TK_CUDNN_NONE ? "no such pads" : cudnn->dnn.GetErrorString(s->status)));
}

size_t tk_cudnn_describe(const tk_cuda *cuda, char *text, size_t bytes) {
    const tk_cudnn *cudnn = cuda->cudnn;
    size_t n = 0;
    if (bytes > 0)
        text[0] = '\0';
    if (!cudnn)
        return 0;
    if (!cudnn->handle)
        return (size_t)snprintf(text, bytes, "no cuDNN, convolutions are products of patches: %s\n", cudnn->why);
    const size_t version = cudnn->dnn.GetVersion();
    n = (size_t)snprintf(text, bytes, "cuDNN %zu.%zu.%zu\n", version / 10000, version / 100 % 100, version % 100);
    for (uint32_t i = 0; i < cudnn->n_solutions; i++) {
        const size_t used = n < bytes ? n : bytes;
        n += (size_t)describe(cudnn, &cudnn->solutions[i], text + used, bytes - used);
    }
    return n;
}
