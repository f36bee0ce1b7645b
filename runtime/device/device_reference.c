/* device_reference.c: the host with the reference kernels: what a graph computes by definition (tempoc --verify). */
#include "kernels/reference/reference.h"
#include "device.h"

const rt_device rt_device_reference = {.name = "reference",
                                       .kind = RT_CPU,
                                       .host_memory = true,
                                       .kernels = &tk_table_reference,
                                       .open = tk_queue_create,
                                       .close = tk_queue_destroy,
                                       .ready = tk_queue_ready,
                                       .alloc = rt_host_alloc,
                                       .free = rt_host_free,
                                       .upload = rt_host_upload,
                                       .download = rt_host_download,
                                       .wait = tk_queue_take_fault};
