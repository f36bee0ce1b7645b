/* cublasLt.h: in the place of cuBLASLt's header of this name where the device is emulated. */
#include "test/cuda/doubles/cublaslt_double.h"
