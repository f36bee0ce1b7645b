/* device_list.c: the devices that a session may name; without a name the first one runs. Programs of the tests have
 * others. */
#include "runtime/device/device.h"

const rt_device *const rt_devices[] = {
    &rt_device_cpu,
#ifdef TEMPO_CUDA
    &rt_device_cuda,
#endif
    NULL,
};
