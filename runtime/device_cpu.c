/* device_cpu.c: the device that is always there: the host itself. Kernels have run when their call returns. */
#include "device.h"
#include "plan.h"
#include <stdlib.h>
#include <string.h>

static void *alloc(tk_queue *q, size_t bytes) {
    (void)q;
    return bytes > SIZE_MAX - RT_ALIGN ? NULL : aligned_alloc(RT_ALIGN, rt_aligned(bytes));
}

static void free_memory(tk_queue *q, void *memory) {
    (void)q;
    free(memory);
}

static void copy(void *to, const void *from, size_t bytes) {
    if (to != from && bytes > 0)
        memcpy(to, from, bytes);
}

static void upload(tk_queue *q, void *memory, const void *host, size_t bytes) {
    (void)q;
    copy(memory, host, bytes);
}

static void download(tk_queue *q, void *host, const void *memory, size_t bytes) {
    (void)q;
    copy(host, memory, bytes);
}

const rt_device rt_device_cpu = {.name = "cpu",
                                 .kind = RT_CPU,
                                 .host_memory = true,
                                 .kernels = &tk_table_cpu,
                                 .open = tk_queue_create,
                                 .close = tk_queue_destroy,
                                 .alloc = alloc,
                                 .free = free_memory,
                                 .upload = upload,
                                 .download = download,
                                 .wait = tk_queue_take_fault};
