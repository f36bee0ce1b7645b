/* cudnn_problem.h: what the parts of the cuDNN double share: cudnn_double.c makes problems of descriptors and refuses,
 * cudnn_convolution.c computes. */
#ifndef CUDNN_PROBLEM_H
#define CUDNN_PROBLEM_H
#include "cudnn_double.h"
#include <stdbool.h>
#include <stdint.h>

enum { DNN_SPATIAL = 3, DNN_DIMS = DNN_SPATIAL + 2 };

/* Batch and channels, or filters and channels of a group, then the plane; steps in elements. */
typedef struct dnn_tensor {
    int32_t type; /* a cudaDataType */
    int32_t n_dims, dims[DNN_DIMS], steps[DNN_DIMS];
} dnn_tensor;

typedef struct dnn_window {
    int32_t n, pads[DNN_SPATIAL], strides[DNN_SPATIAL], dilations[DNN_SPATIAL];
    int32_t mode, type, groups, math; /* type: a cudaDataType */
} dnn_window;

typedef enum { DNN_WIDE, DNN_FILTER, DNN_NARROW, DNN_OPERANDS } dnn_operand;

/* Of all dims there are five, and of the window three: the first of the plane's are of 1 where fewer were given. No
 * padding: it is hashed as it lies. */
typedef struct dnn_problem {
    dnn_operand result;
    dnn_tensor tensors[DNN_OPERANDS];
    dnn_window window;
} dnn_problem;

/* A convolution that waits for its turn. */
typedef struct dnn_convolution {
    dnn_problem problem;
    const void *at[DNN_OPERANDS];
    double alpha, beta;
    bool rough, orderless; /* what its algorithm is */
    void *workspace;
    size_t workspace_bytes;
} dnn_convolution;

static inline int64_t dnn_plane(const dnn_tensor *t) { return (int64_t)t->dims[2] * t->dims[3] * t->dims[4]; }

void dnn_run_convolution(void *convolution); /* dnn_convolution */
#endif
