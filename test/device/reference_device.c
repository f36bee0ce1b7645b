/* reference_device.c: a tempo-run of the tests that computes with the reference kernels alone. */
#include "programs/tempo-run/run.h"

const rt_device *const rt_devices[] = {&rt_device_reference, NULL};
