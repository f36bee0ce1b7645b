/* table.h: every kernel as a member of a table, which a device fills and launches call. */
#ifndef TK_TABLE_H
#define TK_TABLE_H
#include "activation/activation.h"
#include "attention/attention.h"
#include "conv/conv.h"
#include "create/create.h"
#include "determinant/determinant.h"
#include "dropout/dropout.h"
#include "elementwise/chain.h"
#include "elementwise/elementwise.h"
#include "embedding/embedding.h"
#include "fourier/fourier.h"
#include "loss/linear_loss.h"
#include "loss/loss.h"
#include "matmul/einsum.h"
#include "matmul/matmul.h"
#include "movement/cast.h"
#include "movement/movement.h"
#include "norm/norm.h"
#include "norm/norm_chain.h"
#include "norm/norm_y.h"
#include "optimizer/optimizer.h"
#include "pointwise/pointwise.h"
#include "pool/pool.h"
#include "reduce/reduce.h"
#include "resize/grid_sample.h"
#include "resize/resize.h"
#include "rnn/rnn.h"
#include "softmax/softmax.h"

/* clang-format off */
/* Kernels that every device has, those of the host alone, and those of graphs that fuse, which the CPU lacks. */
#define TK_SHARED_KERNELS(K) \
    TK_ACTIVATION_KERNELS(K) TK_ATTENTION_KERNELS(K) TK_CAST_KERNELS(K) TK_CONV_KERNELS(K) TK_CREATE_KERNELS(K) \
    TK_DETERMINANT_KERNELS(K) TK_DROPOUT_KERNELS(K) TK_EINSUM_KERNELS(K) TK_ELEMENTWISE_KERNELS(K) \
    TK_EMBEDDING_KERNELS(K) TK_FOURIER_KERNELS(K) TK_GRID_KERNELS(K) TK_LINEAR_LOSS_KERNELS(K) TK_LOSS_KERNELS(K) \
    TK_MATMUL_KERNELS(K) TK_MOVEMENT_KERNELS(K) TK_NORM_KERNELS(K) TK_OPTIMIZER_KERNELS(K) TK_POINTWISE_KERNELS(K) \
    TK_POOL_KERNELS(K) TK_REDUCE_KERNELS(K) TK_RESIZE_KERNELS(K) TK_RNN_KERNELS(K) TK_SOFTMAX_KERNELS(K)
#define TK_SHARED_WORKSPACES(W) \
    TK_ATTENTION_WORKSPACES(W) TK_CONV_WORKSPACES(W) TK_CREATE_WORKSPACES(W) TK_DETERMINANT_WORKSPACES(W) \
    TK_EMBEDDING_WORKSPACES(W) TK_FOURIER_WORKSPACES(W) TK_LINEAR_LOSS_WORKSPACES(W) TK_LOSS_WORKSPACES(W) \
    TK_MATMUL_WORKSPACES(W) TK_NORM_WORKSPACES(W) TK_OPTIMIZER_WORKSPACES(W) TK_REDUCE_WORKSPACES(W) \
    TK_RESIZE_WORKSPACES(W) TK_RNN_WORKSPACES(W)
#define TK_FUSED_KERNELS(K) TK_CHAIN_KERNELS(K) TK_NORM_CHAIN_KERNELS(K) TK_POINTWISE_BOTH_KERNELS(K)
#define TK_KERNELS(K) TK_SHARED_KERNELS(K) TK_NORM_Y_KERNELS(K) TK_LAMB_KERNELS(K)
#define TK_WORKSPACES(W) TK_SHARED_WORKSPACES(W) TK_NORM_Y_WORKSPACES(W) TK_LAMB_WORKSPACES(W)
/* clang-format on */

#define TK_KERNEL_MEMBER(name, parameters, arguments) void(*name) parameters;
#define TK_WORKSPACE_MEMBER(name, parameters, arguments) size_t(*name) parameters;
typedef struct tk_table {
    TK_KERNELS(TK_KERNEL_MEMBER)
    /* NULL where a device has none, as kernels.def says; of norms with chains: of Chain. */
    TK_FUSED_KERNELS(TK_KERNEL_MEMBER)
    TK_WORKSPACES(TK_WORKSPACE_MEMBER)
    /* Whether attention of these sizes (t, d, e) and this type, without a map as result, takes lines of any kind
     * (tk_lines); NULL: none does. */
    bool (*attention_spreads)(const tk_queue *q, const tk_attention *a);
} tk_table;

extern const tk_table tk_table_cpu;
#endif
