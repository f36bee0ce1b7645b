/* cudnn_none.c: builds without cuDNN's header have no cuDNN. */
#include "conv_cudnn.h"

bool tk_cudnn_takes(tk_cuda *cuda, const tk_cudnn_call *call) {
    (void)cuda, (void)call;
    return false;
}

bool tk_cudnn_run(tk_cuda *cuda, const tk_cudnn_call *call) {
    (void)cuda, (void)call;
    return false;
}

void tk_cudnn_close(tk_cuda *cuda) { (void)cuda; }

size_t tk_cudnn_describe(const tk_cuda *cuda, char *text, size_t bytes) {
    (void)cuda;
    if (bytes > 0)
        text[0] = '\0';
    return 0;
}
