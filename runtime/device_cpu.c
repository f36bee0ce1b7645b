/* device_cpu.c: the device that is always there: the host itself. Kernels have run when their call returns. */
#include "device.h"
#include "plan.h"
#include <stdlib.h>
#include <string.h>

void *rt_host_alloc(tk_queue *q, size_t bytes) {
    (void)q;
    return bytes > SIZE_MAX - RT_ALIGN ? NULL : aligned_alloc(RT_ALIGN, rt_aligned(bytes));
}

void rt_host_free(tk_queue *q, void *memory) {
    (void)q;
    free(memory);
}

static void copy(void *to, const void *from, size_t bytes) {
    if (to != from && bytes > 0)
        memcpy(to, from, bytes);
}

void rt_host_upload(tk_queue *q, void *memory, const void *host, size_t bytes) {
    (void)q;
    copy(memory, host, bytes);
}

void rt_host_download(tk_queue *q, void *host, const void *memory, size_t bytes) {
    (void)q;
    copy(host, memory, bytes);
}

const rt_device rt_device_cpu = {.name = "cpu",
                                 .kind = RT_CPU,
                                 .host_memory = true,
                                 .kernels = &tk_table_cpu,
                                 .open = tk_queue_create,
                                 .close = tk_queue_destroy,
                                 .alloc = rt_host_alloc,
                                 .free = rt_host_free,
                                 .upload = rt_host_upload,
                                 .download = rt_host_download,
                                 .wait = tk_queue_take_fault};
