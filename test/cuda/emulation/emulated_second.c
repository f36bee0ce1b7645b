/* emulated_second.c: the devices of a tempo-run that is built with -Dcuda=emulated: --device=cuda is emulated. */
#include "emulated_device.h"

const rt_device *const rt_devices[] = {&rt_device_cpu, &rt_device_emulated, NULL};
