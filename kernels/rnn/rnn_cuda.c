/* rnn_cuda.c: recurrent layers on a CUDA device: the driver with the kernels of rnn_cuda.h. Nothing is waited for. */
#include "rnn_cuda.h"
#include "../cuda/cuda_queue.h"
#include "../movement/cast.h"

TK_RNN_KERNELS(TK_DECLARE_CUDA)
TK_RNN_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
TK_MATMUL_KERNELS(TK_DECLARE_CUDA)
TK_CAST_KERNELS(TK_DECLARE_CUDA)

int64_t tk_cuda_rnn_bytes = (int64_t)64 << 20;

static const tk_rnn_device device = {.cast = tk_cuda_cast,
                                     .multiply = tk_cuda_product_run,
                                     .chunk_bytes = &tk_cuda_rnn_bytes,
                                     .check = tk_cuda_rnn_check,
                                     .steps = &tk_cuda_rnn_steps,
                                     .back_steps = &tk_cuda_rnn_back_steps};

size_t tk_cuda_rnn_workspace(const tk_rnn *s, int slots) {
    (void)slots;
    return tk_rnn_workspace_on(&device, s);
}

void tk_cuda_rnn_run(tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *s, void *workspace) {
    tk_rnn_run_on(&device, q, out, in, s, workspace);
}

size_t tk_cuda_rnn_grad_workspace(const tk_rnn *s, int slots) {
    (void)slots;
    return tk_rnn_grad_workspace_on(&device, s);
}

void tk_cuda_rnn_grad_run(tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back, const tk_rnn *s,
                          void *workspace) {
    tk_rnn_grad_run_on(&device, q, out, in, back, s, workspace);
}
