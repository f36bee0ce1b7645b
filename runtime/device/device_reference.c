/* device_reference.c: the host with the reference kernels: what a graph computes by definition (tempoc --verify). */
#include "kernels/reference/reference.h"
#include "device.h"

const rt_device rt_device_reference = RT_HOST_DEVICE("reference", &tk_table_reference);
