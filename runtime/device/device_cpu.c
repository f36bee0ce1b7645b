/* device_cpu.c: the device that is always there: the host itself. Kernels have run when their call returns. */
#include "device.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* In huge pages where it is large and the system allows them: a step touches far more memory than the processor caches
 * page addresses for. */
void *rt_host_alloc(tk_queue *q, size_t bytes) {
    (void)q;
    if (bytes > SIZE_MAX - 2 * HUGE_PAGE)
        return NULL;
    size_t size = rt_aligned(bytes);
    if (size < 2 * HUGE_PAGE)
        return aligned_alloc(RT_ALIGN, size);
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *memory = aligned_alloc(HUGE_PAGE, size);
#ifdef MADV_HUGEPAGE
    if (memory)
        madvise(memory, size, MADV_HUGEPAGE);
#endif
    return memory;
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

const rt_device rt_device_cpu = RT_HOST_DEVICE("cpu", &tk_table_cpu);
