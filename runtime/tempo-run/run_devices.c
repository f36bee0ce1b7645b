/* run_devices.c: what --device can name; without it the first one runs. */
#include "run.h"

const rt_device *const run_devices[] = {
    &rt_device_cpu,
#ifdef TEMPO_CUDA
    &rt_device_cuda,
#endif
    NULL,
};
