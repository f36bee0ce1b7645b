/* emulated_first.c: the devices of a tempo-run of the tests, which runs everything on the emulated CUDA device. */
#include "emulated_device.h"

const rt_device *const rt_devices[] = {&rt_device_emulated, &rt_device_cpu, NULL};
