/* cudnn_queue.h: cudnn_library.c and cudnn_conv.c share the library's functions and a queue's state. */
#ifndef TK_CUDNN_QUEUE_H
#define TK_CUDNN_QUEUE_H
#include "conv_cudnn.h"
#include <cudnn.h>

/* clang-format off */
#define TK_CUDNN_FUNCTIONS(F) \
    F(Create) F(Destroy) F(SetStream) F(GetVersion) F(GetErrorString) F(CreateTensorDescriptor) \
    F(DestroyTensorDescriptor) F(SetTensorNdDescriptor) F(CreateFilterDescriptor) F(DestroyFilterDescriptor) \
    F(SetFilterNdDescriptor) F(CreateConvolutionDescriptor) F(DestroyConvolutionDescriptor) \
    F(SetConvolutionNdDescriptor) F(SetConvolutionGroupCount) F(SetConvolutionMathType) \
    F(GetConvolutionForwardAlgorithm_v7) F(GetConvolutionForwardWorkspaceSize) F(ConvolutionForward) \
    F(GetConvolutionBackwardDataAlgorithm_v7) F(GetConvolutionBackwardDataWorkspaceSize) F(ConvolutionBackwardData) \
    F(GetConvolutionBackwardFilterAlgorithm_v7) F(GetConvolutionBackwardFilterWorkspaceSize) \
    F(ConvolutionBackwardFilter)
/* clang-format on */

#define TK_CUDNN_MEMBER(name) __typeof__(cudnn##name) *name;
typedef struct tk_cudnn_functions {
    TK_CUDNN_FUNCTIONS(TK_CUDNN_MEMBER)
} tk_cudnn_functions;

/* All that an algorithm depends on. Compared as bytes: there is no padding. */
typedef struct tk_cudnn_problem {
    tk_conv conv; /* in its own words */
    int64_t workspace_bytes;
    int32_t way, dtype, tf32, added;
} tk_cudnn_problem;

/* A problem with all that a call needs. */
typedef struct tk_cudnn_solution {
    tk_cudnn_problem of;
    cudnnStatus_t status; /* else there is no algorithm, for this reason */
    cudnnTensorDescriptor_t wide, narrow;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t conv;
    int algorithm; /* of the way's kind */
    size_t workspace_bytes;
} tk_cudnn_solution;

struct tk_cudnn {
    tk_cudnn_functions dnn;
    cudnnHandle_t handle;         /* NULL: there is no cuDNN */
    char why[256];                /* not */
    tk_cudnn_solution *solutions; /* in the order in which they were met; a model has some tens */
    uint32_t n_solutions, capacity;
};

/* The queue's cuDNN, loaded at the first call; NULL: out of memory, which is noted. */
tk_cudnn *tk_cudnn_open(tk_cuda *cuda);
void tk_cudnn_forget(tk_cudnn *cudnn); /* all solutions */
#endif
