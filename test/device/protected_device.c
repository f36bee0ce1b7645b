/* protected_device.c: the CPU as a device with memory of its own, which the host can reach only while a kernel runs or
 * bytes are copied: whoever reads an operand between kernels is stopped by the processor. It stands in the place of the
 * CPU in a tempo-run of the tests, so that the four laws of runtime/device/device.h hold before a GPU asks for them. */
#include "runtime/device/device.h"
#include "programs/tempo-run/run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RESERVED ((size_t)16 << 30) /* of the address space; what is touched is taken */
#define PAGE ((size_t)4096)

/* One piece of address space for all queues: used from the beginning, and anew when all was given back. */
static struct {
    char *base;
    size_t used, n_live;
} memory;

static void protect(int how) {
    if (memory.used > 0 && mprotect(memory.base, memory.used, how) != 0)
        perror("mprotect"), abort();
}

static void open_memory(void) { protect(PROT_READ | PROT_WRITE); }
static void close_memory(void) { protect(PROT_NONE); }

/* --- kernels: those of the CPU, between opening and closing ---------------------------------------- */

#define WRAP(name, parameters, arguments)                                                                              \
    static void protected_##name parameters {                                                                          \
        open_memory();                                                                                                 \
        tk_##name arguments;                                                                                           \
        close_memory();                                                                                                \
    }
TK_KERNELS(WRAP)

#define KERNEL_ENTRY(name, parameters, arguments) .name = protected_##name,
#define WORKSPACE_ENTRY(name, parameters, arguments) .name = tk_##name,
static const tk_table kernels = {TK_KERNELS(KERNEL_ENTRY) TK_WORKSPACES(WORKSPACE_ENTRY)};

/* --- memory ----------------------------------------------------------------------------------- */

static void *alloc(tk_queue *q, size_t bytes) {
    (void)q;
    if (!memory.base) {
        void *base = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            return NULL;
        memory.base = base;
    }
    size_t taken = (bytes / PAGE + 1) * PAGE; /* an empty buffer has an address, too */
    if (taken > RESERVED - memory.used)
        return NULL;
    char *at = memory.base + memory.used;
    memory.used += taken;
    memory.n_live++;
    open_memory();
    memset(at, 0xa5, taken);
    close_memory();
    return at;
}

static void free_memory(tk_queue *q, void *at) {
    (void)q;
    if (!at || --memory.n_live > 0)
        return;
    munmap(memory.base, RESERVED);
    memory.base = NULL;
    memory.used = 0;
}

static void upload(tk_queue *q, void *at, const void *host, size_t bytes) {
    (void)q;
    open_memory();
    if (bytes > 0)
        memcpy(at, host, bytes);
    close_memory();
}

static void download(tk_queue *q, void *host, const void *at, size_t bytes) {
    (void)q;
    open_memory();
    if (bytes > 0)
        memcpy(host, at, bytes);
    close_memory();
}

static const rt_device rt_device_protected = {.name = "protected",
                                              .kind = RT_CPU,
                                              .kernels = &kernels,
                                              .open = tk_queue_create,
                                              .close = tk_queue_destroy,
                                              .alloc = alloc,
                                              .free = free_memory,
                                              .upload = upload,
                                              .download = download,
                                              .wait = tk_queue_take_fault};

const rt_device *const rt_devices[] = {&rt_device_protected, &rt_device_cpu, NULL};
