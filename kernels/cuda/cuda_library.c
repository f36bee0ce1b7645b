/* cuda_library.c: looking for a library and its functions. */
#include "cuda_library.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The toolkit that the program was built with: the place to look after the loader's own path. */
#ifndef TK_CUDA_HOME
#define TK_CUDA_HOME NULL
#endif

void tk_cuda_say(char *why, size_t bytes, const char *what, const char *which) {
    if (why && bytes > 0)
        snprintf(why, bytes, "%s%s", what, which);
}

void *tk_cuda_library(const char *name, char *why, size_t bytes) {
    /* as the toolkit has it, and the PyPI wheels, where cuDNN lies beside it */
    static const char *const folders[] = {"lib64", "lib", "../cudnn/lib"};
    const char *home = TK_CUDA_HOME;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library;
    tk_cuda_say(why, bytes, "it is not to be found: ", dlerror());
    for (size_t i = 0; name && home && !library && i < sizeof folders / sizeof folders[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s/%s", home, folders[i], name);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

bool tk_cuda_find(void *library, const char *name, void *function, char *why, size_t bytes) {
    void *found = dlsym(library, name);
    if (!found)
        tk_cuda_say(why, bytes, "the one here is of another version: it has no ", name);
    memcpy(function, &found, sizeof found); /* POSIX: a function's address is one of data */
    return found != NULL;
}
