/* cublas_library.c: cuBLASLt as a library that is looked for while the program runs: its functions by name, declared by
 * its own header, then a handle and a workspace for each queue. It stays loaded when the last queue is closed: loading
 * takes 80 ms, and libraries of CUDA are not made to go. */
#include "cublas_queue.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: the program itself has the functions, as in tests. */
#ifndef TK_CUBLASLT
#define TK_CUBLASLT "libcublasLt.so.13"
#endif
/* The toolkit that the program was built with: where to look behind the loader's own path. */
#ifndef TK_CUDA_HOME
#define TK_CUDA_HOME NULL
#endif
/* What NVIDIA recommends for Hopper, and more than enough for what came before. */
#ifndef TK_CUBLAS_WORKSPACE
#define TK_CUBLAS_WORKSPACE ((size_t)32 << 20)
#endif

static void say(char *why, size_t bytes, const char *what, const char *which) {
    if (why && bytes > 0)
        snprintf(why, bytes, "%s%s", what, which);
}

static void *load(char *why, size_t why_bytes) {
    static const char *const folders[] = {"lib64", "lib"}; /* as the toolkit has it, and the PyPI wheels */
    const char *name = TK_CUBLASLT, *home = TK_CUDA_HOME;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library;
    say(why, why_bytes, "it is not to be found: ", dlerror());
    for (int i = 0; name && home && !library && i < 2; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s/%s", home, folders[i], name);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static bool find(void *library, const char *name, void *function, char *why, size_t why_bytes) {
    void *found = dlsym(library, name);
    if (!found)
        say(why, why_bytes, "the one here is of another version: it has no ", name);
    memcpy(function, &found, sizeof found); /* POSIX: a function's address is one of data */
    return found != NULL;
}

static bool find_all(void *library, tk_cublaslt *lt, char *why, size_t why_bytes) {
#define FIND(name) &&find(library, "cublasLt" #name, &lt->name, why, why_bytes)
    return true TK_CUBLASLT_FUNCTIONS(FIND);
#undef FIND
}

static bool make_handle(tk_cublas *cublas, char *why, size_t why_bytes) {
    const cublasStatus_t status = cublas->lt.Create(&cublas->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        say(why, why_bytes, "it does not start: ", cublas->lt.GetStatusName(status));
        return false;
    }
    const cudaError_t error = cudaMalloc(&cublas->workspace, TK_CUBLAS_WORKSPACE);
    if (error != cudaSuccess) {
        say(why, why_bytes, "there is no memory for its workspace: ", cudaGetErrorString(error));
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
        say(why, why_bytes, "out of memory", "");
        return false;
    }
    void *library = load(why, why_bytes);
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
