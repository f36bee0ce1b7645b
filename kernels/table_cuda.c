/* table_cuda.c: the table of the CUDA device's kernels. What is NULL here no row of runtime/launch/kernels.def claims.
 */
#include "table_cuda.h"
#include "attention/attention_tile.h"

#define DECLARE_KERNEL(name, parameters, arguments) void tk_cuda_##name parameters;
#define DECLARE_WORKSPACE(name, parameters, arguments) size_t tk_cuda_##name parameters;
/* clang-format off */
#define FAMILIES(K, W) \
    TK_ACTIVATION_KERNELS(K) \
    TK_ATTENTION_KERNELS(K) TK_ATTENTION_WORKSPACES(W) \
    TK_CAST_KERNELS(K) \
    TK_CHAIN_KERNELS(K) \
    TK_CONV_KERNELS(K) TK_CONV_WORKSPACES(W) \
    TK_CREATE_KERNELS(K) TK_CREATE_WORKSPACES(W) \
    TK_DETERMINANT_KERNELS(K) TK_DETERMINANT_WORKSPACES(W) \
    TK_DROPOUT_KERNELS(K) \
    TK_EINSUM_KERNELS(K) \
    TK_ELEMENTWISE_KERNELS(K) \
    TK_EMBEDDING_KERNELS(K) TK_EMBEDDING_WORKSPACES(W) \
    TK_FOURIER_KERNELS(K) TK_FOURIER_WORKSPACES(W) \
    TK_GRID_KERNELS(K) \
    TK_LINEAR_LOSS_KERNELS(K) TK_LINEAR_LOSS_WORKSPACES(W) \
    TK_LOSS_KERNELS(K) TK_LOSS_WORKSPACES(W) \
    TK_MATMUL_KERNELS(K) TK_MATMUL_WORKSPACES(W) \
    TK_MOVEMENT_KERNELS(K) \
    TK_NORM_CHAIN_KERNELS(K) \
    TK_NORM_KERNELS(K) TK_NORM_WORKSPACES(W) \
    TK_OPTIMIZER_KERNELS(K) TK_OPTIMIZER_WORKSPACES(W) \
    TK_POINTWISE_KERNELS(K) TK_POINTWISE_BOTH_KERNELS(K) \
    TK_POOL_KERNELS(K) \
    TK_REDUCE_KERNELS(K) TK_REDUCE_WORKSPACES(W) \
    TK_RESIZE_KERNELS(K) TK_RESIZE_WORKSPACES(W) \
    TK_RNN_KERNELS(K) TK_RNN_WORKSPACES(W) \
    TK_SOFTMAX_KERNELS(K)
/* clang-format on */
FAMILIES(DECLARE_KERNEL, DECLARE_WORKSPACE)

#define ENTRY(name, parameters, arguments) .name = tk_cuda_##name,
const tk_table tk_table_cuda = {FAMILIES(ENTRY, ENTRY).attention_spreads = tk_cuda_tile_has};
