/* cublasLt.h: in the place of cuBLASLt's header of this name where the device is emulated. */
#include "../cublaslt_double.h"
