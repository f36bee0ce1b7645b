/* cudnn.h: in the place of cuDNN's header of this name where the device is emulated. */
#include "test/cuda/doubles/cudnn_double.h"
