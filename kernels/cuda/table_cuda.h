/* table_cuda.h: the kernels of the CUDA device: kernels/<family>/NAME_cuda.cu. */
#ifndef TK_TABLE_CUDA_H
#define TK_TABLE_CUDA_H
#include "../table.h"

extern const tk_table tk_table_cuda;
#endif
