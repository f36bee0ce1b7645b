/* device.h: where a session computes: one table of functions for each device. Four laws let one plan serve them all.
 *   1. A run function reads no byte of an operand, a result or a table: kernels do (launch.h).
 *   2. Data that a kernel reads besides operands is a table that the plan lists; it is uploaded with the plan.
 *   3. A batch of products begins at even steps, or where such a table says (kernels/common/places.h).
 *   4. Facts that are known when a launch is made are constants: no arithmetic on shapes reaches a device.
 * The tests have a second device whose memory the host cannot touch between kernels (test/device). */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H
#include "compiler/base/base.h"
#include "kernels/queue.h"
#include "kernels/table.h"

#define RT_ALIGN 64 /* of all buffers */
static inline size_t rt_aligned(size_t bytes) { return (bytes + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN; }

struct rt_plan;

/* Devices of one kind have kernels for the same ops and element types: a column of kernels.def. */
typedef enum rt_device_kind {
    RT_CPU,
    RT_CUDA,
    RT_DEVICE_KINDS,
} rt_device_kind;

/* Elements that ranks average. */
typedef struct rt_piece {
    void *memory; /* of the device */
    int64_t count;
    tk_dtype dtype; /* a float */
} rt_piece;

enum { RT_GROUP_BYTES = 128 };

typedef struct rt_device {
    const char *name; /* as in --device */
    rt_device_kind kind;
    bool host_memory;        /* kernels read and write the host's memory: nothing is uploaded or downloaded */
    const tk_table *kernels; /* all of them */
    /* A queue of so many threads and slots (kernels/queue.h); NULL: out of memory. */
    tk_queue *(*open)(int threads, int slots);
    void (*close)(tk_queue *q); /* NULL is fine */
    /* Allocates the memory that a run takes besides its plan's, before that is counted (kernels/queue.h); NULL:
     * nothing. */
    tk_status (*ready)(tk_queue *q);
    /* Memory of the device, aligned to 64 bytes, not set; NULL: there is not that much. Free takes NULL. */
    void *(*alloc)(tk_queue *q, size_t bytes);
    void (*free)(tk_queue *q, void *memory);
    /* Copies between `host` and memory of the device, in the order of the queue. When the call returns, the host's
     * bytes may change, or are there. */
    void (*upload)(tk_queue *q, void *memory, const void *host, size_t bytes);
    void (*download)(tk_queue *q, void *host, const void *memory, size_t bytes);
    /* Waits until all queued work has run. The first fault and its launch, or TK_OK; it is forgotten. */
    tk_status (*wait)(tk_queue *q, uint32_t *out_launch);

    /* Further functions of devices with memory of their own; NULL in the host's. */
    /* Prepares the device of this number among its kind: called after open, before all but close. TC_UNSUPPORTED: there
     * is none, and why. */
    tc_status (*start)(tc_ctx *ctx, tk_queue *q, int number);
    /* The calling thread is about to use the queue, and may have used another one, or none, before. */
    void (*enter)(tk_queue *q);
    /* From now on products of floats may round their operands to TF32: 10 bits after the point. */
    void (*allow_tf32)(tk_queue *q);
    /* From now on convolutions do not use cuDNN. */
    void (*leave_cudnn)(tk_queue *q);
    /* The products and convolutions that ran and how: a line for each, as snprintf gives it. */
    size_t (*products)(const tk_queue *q, char *text, size_t bytes);
    /* A line about the device of this number; false: there are no more. */
    bool (*describe)(int number, char *text, size_t bytes);
    uint64_t (*available)(tk_queue *q); /* bytes that alloc may still give */
    /* Memory of the host that downloads reach without a copy between; NULL: there is not that much. */
    void *(*host_alloc)(tk_queue *q, size_t bytes);
    void (*host_free)(tk_queue *q, void *memory);
    /* The error for which wait returned TK_DEVICE_FAILED, until the next wait. */
    const char *(*failure)(const tk_queue *q);
    /* A recording: work queued between record and recorded does not run, but is kept as one piece. replay queues it, as
     * often as wanted, at the same addresses. False, NULL: that failed, and wait says so. */
    bool (*record)(tk_queue *q);
    void *(*recorded)(tk_queue *q);
    void (*replay)(tk_queue *q, void *recording);
    void (*forget)(tk_queue *q, void *recording);
    /* Notes the time at which the queue gets here as moment `index`; seconds from moment 0 to it, after a wait. */
    bool (*mark)(tk_queue *q, uint32_t index);
    double (*marked)(tk_queue *q, uint32_t index);
    /* Ranks: sessions that train together, each on a device of its own. NULL: not supported by this device in this
     * build. The id of a new group, RT_GROUP_BYTES, for all of its ranks. TC_UNSUPPORTED: ranks need a library that is
     * not here. TC_IO: it is here, and fails. */
    tc_status (*make_group)(tc_ctx *ctx, tk_queue *q, unsigned char *out_id);
    /* Waits until all `ranks` have joined. From here on, waiting for others ends after `patience` seconds. */
    tc_status (*join)(tc_ctx *ctx, tk_queue *q, const unsigned char *id, int rank, int ranks, double patience);
    /* Leaves the group at once and breaks off work that waits for other ranks. Remaining recordings run no more. */
    void (*part)(tk_queue *q);
    /* Queues the mean over all ranks of each piece, in place: beside work that is queued from here on, after work that
     * was queued before, earlier buckets included. Every rank queues the same numbers, in the same order. */
    void (*average)(tk_queue *q, uint32_t bucket, const rt_piece *pieces, uint32_t n);
    /* Work that is queued from here on waits for the bucket. */
    void (*averaged)(tk_queue *q, uint32_t bucket);
    /* Where wait said TK_DEVICE_FAILED: the reason is that other ranks were lost or did not come. */
    bool (*peer_lost)(const tk_queue *q);
    /* For devices of tests: called before launch `index` of the plan is queued. */
    void (*begin)(tk_queue *q, const struct rt_plan *plan, uint32_t index);
} rt_device;

extern const rt_device rt_device_cpu;
/* The host with the reference kernels (kernels/reference/): no part of libtempo. device_reference.c */
extern const rt_device rt_device_reference;

/* A GPU by CUDA: in builds that have it, and in tests, emulated. cuda/device_cuda.c */
extern const rt_device rt_device_cuda;

/* The devices that a session may name, ended by NULL; the first one is the default. devices.c; a program of the tests
 * has a list of its own. */
extern const rt_device *const rt_devices[];
/* The device that `text` names, NAME or NAME:NUMBER; NULL text: the first one. TC_USAGE for an unknown name,
 * TC_UNSUPPORTED for a device that this build lacks. */
tc_status rt_find_device(tc_ctx *ctx, const char *text, const rt_device **out_device, int *out_number);

/* Memory of devices that compute in the host's. */
void *rt_host_alloc(tk_queue *q, size_t bytes);
void rt_host_free(tk_queue *q, void *memory);
void rt_host_upload(tk_queue *q, void *memory, const void *host, size_t bytes);
void rt_host_download(tk_queue *q, void *host, const void *memory, size_t bytes);
/* Such a device, by its name and its kernels. */
#define RT_HOST_DEVICE(name_, table)                                                                                   \
    {                                                                                                                  \
        .name = (name_), .kind = RT_CPU, .host_memory = true, .kernels = (table), .open = tk_queue_create,             \
        .close = tk_queue_destroy, .ready = tk_queue_ready, .alloc = rt_host_alloc, .free = rt_host_free,              \
        .upload = rt_host_upload, .download = rt_host_download, .wait = tk_queue_take_fault                            \
    }
#endif
