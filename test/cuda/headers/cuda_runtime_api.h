/* cuda_runtime_api.h: in the place of CUDA's header of this name where the device is emulated. */
#include "test/cuda/doubles/cudart_double.h"
