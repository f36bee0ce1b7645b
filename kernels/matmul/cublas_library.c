/* cublas_library.c: loads cuBLASLt while the program runs: its functions by name, declared by its own header, then a
 * handle and a workspace for each queue. It stays loaded when the last queue is closed: loading takes 80 ms, and
 * libraries of CUDA are not made for unloading. */
#include "../cuda/cuda_library.h"
#include "cublas_queue.h"
#include <stdlib.h>

/* NULL: the program itself has the functions, as in tests. */
#ifndef TK_CUBLASLT
#define TK_CUBLASLT "libcublasLt.so.13"
#endif
/* NVIDIA's recommendation for Hopper, and more than enough for earlier devices. */
#ifndef TK_CUBLAS_WORKSPACE
#define TK_CUBLAS_WORKSPACE ((size_t)32 << 20)
#endif

static bool find_all(void *library, tk_cublaslt *lt, char *why, size_t why_bytes) {
#define FIND(name) &&tk_cuda_find(library, "cublasLt" #name, &lt->name, why, why_bytes)
    return true TK_CUBLASLT_FUNCTIONS(FIND);
#undef FIND
}

static bool make_handle(tk_cublas *cublas, char *why, size_t why_bytes) {
    const cublasStatus_t status = cublas->lt.Create(&cublas->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        tk_cuda_say(why, why_bytes, "it does not start: ", cublas->lt.GetStatusName(status));
        return false;
    }
    const cudaError_t error = cudaMalloc(&cublas->workspace, TK_CUBLAS_WORKSPACE);
    if (error != cudaSuccess) {
        tk_cuda_say(why, why_bytes, "there is no memory for its workspace: ", cudaGetErrorString(error));
        cublas->lt.Destroy(cublas->handle);
        return false;
    }
    cublas->workspace_bytes = TK_CUBLAS_WORKSPACE;
    return true;
}

bool tk_cublas_open(tk_cuda *cuda, char *why, size_t why_bytes) {
    if (cuda->cublas)
        return true;
    tk_cublas *cublas = calloc(1, sizeof *cublas);
    if (!cublas) {
        tk_cuda_say(why, why_bytes, "out of memory", "");
        return false;
    }
    void *library = tk_cuda_library(TK_CUBLASLT, why, why_bytes);
    if (!library || !find_all(library, &cublas->lt, why, why_bytes) || !make_handle(cublas, why, why_bytes)) {
        free(cublas);
        return false;
    }
    cuda->cublas = cublas;
    return true;
}

void tk_cublas_close(tk_cuda *cuda) {
    tk_cublas *cublas = cuda->cublas;
    if (!cublas)
        return;
    tk_cublas_forget(cublas);
    tk_cuda_note(cuda, cudaFree(cublas->workspace), "cudaFree");
    cublas->lt.Destroy(cublas->handle);
    free(cublas);
    cuda->cublas = NULL;
}

void *tk_cublas_workspace(const tk_cublas *cublas, size_t *out_bytes) {
    *out_bytes = cublas ? cublas->workspace_bytes : 0;
    return cublas ? cublas->workspace : NULL;
}
