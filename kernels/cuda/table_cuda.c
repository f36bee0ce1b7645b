/* table_cuda.c: the table of the CUDA device's kernels. No row of runtime/launch/kernels.def claims a kernel that is
 NULL here.
 */
#include "table_cuda.h"
#include "../attention/attention_tile.h"
#include "cuda_queue.h"

TK_SHARED_KERNELS(TK_DECLARE_CUDA)
TK_FUSED_KERNELS(TK_DECLARE_CUDA)
TK_SHARED_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)

#define ENTRY(name, parameters, arguments) .name = tk_cuda_##name,
const tk_table tk_table_cuda = {
    TK_SHARED_KERNELS(ENTRY) TK_FUSED_KERNELS(ENTRY) TK_SHARED_WORKSPACES(ENTRY).attention_spreads = tk_cuda_tile_has};
