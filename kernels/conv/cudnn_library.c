/* cudnn_library.c: loads cuDNN while the program runs, for models with convolutions: its functions by name, declared by
 * its own header, then a handle for each queue. */
#include "../cuda/cuda_library.h"
#include "cudnn_queue.h"
#include <stdlib.h>

/* NULL: the program itself has the functions, as in tests. */
#ifndef TK_CUDNN
#define TK_CUDNN "libcudnn.so.9"
#endif

static bool find_all(void *library, tk_cudnn *cudnn) {
#define FIND(name) &&tk_cuda_find(library, "cudnn" #name, &cudnn->dnn.name, cudnn->why, sizeof cudnn->why)
    return true TK_CUDNN_FUNCTIONS(FIND);
#undef FIND
}

static bool make_handle(tk_cudnn *cudnn, cudaStream_t stream) {
    cudnnStatus_t status = cudnn->dnn.Create(&cudnn->handle);
    if (status != CUDNN_STATUS_SUCCESS)
        cudnn->handle = NULL;
    else if ((status = cudnn->dnn.SetStream(cudnn->handle, stream)) != CUDNN_STATUS_SUCCESS) {
        cudnn->dnn.Destroy(cudnn->handle);
        cudnn->handle = NULL;
    }
    if (!cudnn->handle)
        tk_cuda_say(cudnn->why, sizeof cudnn->why, "it does not start: ", cudnn->dnn.GetErrorString(status));
    return cudnn->handle != NULL;
}

tk_cudnn *tk_cudnn_open(tk_cuda *cuda) {
    if (cuda->cudnn)
        return cuda->cudnn;
    tk_cudnn *cudnn = calloc(1, sizeof *cudnn);
    if (!cudnn) {
        tk_cuda_note(cuda, cudaErrorMemoryAllocation, "convolutions");
        return NULL;
    }
    cuda->cudnn = cudnn;
    void *library = tk_cuda_library(TK_CUDNN, cudnn->why, sizeof cudnn->why);
    if (library && find_all(library, cudnn))
        make_handle(cudnn, cuda->stream);
    (void)cudaGetLastError(); /* an error from a library that does not start is none of the queue's */
    return cudnn;
}

void tk_cudnn_close(tk_cuda *cuda) {
    tk_cudnn *cudnn = cuda->cudnn;
    if (!cudnn)
        return;
    tk_cudnn_forget(cudnn);
    if (cudnn->handle)
        cudnn->dnn.Destroy(cudnn->handle);
    free(cudnn);
    cuda->cudnn = NULL;
}
