/* nccl.h: in the place of NCCL's header of this name where the device is emulated. */
#include "test/cuda/doubles/nccl_double.h"
