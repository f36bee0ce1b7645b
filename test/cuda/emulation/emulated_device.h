/* emulated_device.h: the CUDA device on the emulation and the doubles of CUDA's libraries. */
#ifndef EMULATED_DEVICE_H
#define EMULATED_DEVICE_H
#include "runtime/device/device.h"

extern rt_device rt_device_emulated; /* filled before main */
#endif
