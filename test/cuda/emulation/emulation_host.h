/* emulation_host.h: what tests and the doubles of CUDA's interfaces see of the emulated device: memory that is watched
 * to the byte, launches of kernels, and what was found wrong with them. Kernels themselves see emulation.h. One host
 * thread at a time. */
#ifndef EMULATION_HOST_H
#define EMULATION_HOST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* --- memory of the device --------------------------------------------------------------------------- */

/* Bytes that kernels may touch, and none around them: 64 MB on both sides belong to nobody. Aligned to 256 bytes, every
 * bit set (no number in any type), counted as unwritten. `name` (copied, NULL is fine) is for findings. NULL: there is
 * not that much. */
void *emu_malloc(size_t bytes, const char *name);
void emu_free(void *p); /* NULL is fine; anything else that emu_malloc did not give is a finding */
/* These bytes were written by somebody other than a kernel: a copy, a double's product. */
void emu_host_wrote(void *p, size_t bytes);
/* NULL, or what is wrong with reading these bytes: not the device's, or never written. The text is the emulation's. */
const char *emu_unread(const void *p, size_t bytes);
/* Whether the bytes lie inside one allocation. */
bool emu_is_device(const void *p, size_t bytes);

/* What the next launches may touch of the device's memory; n = 0: every allocation. Copied. */
typedef struct emu_span {
    const void *at;
    size_t bytes;
    bool writable;
} emu_span;
void emu_allow(const emu_span *spans, int n);

/* --- launches --------------------------------------------------------------------------------------- */

typedef struct emu_dim3 {
    unsigned x, y, z;
} emu_dim3;

/* A launch that .cu files make: f, which is owned from here on, holds the arguments, call(f) runs one thread of the
 * kernel, free(f) ends it. `stream` is a cudaStream_t, `kernel` the kernel's address. The double of the CUDA
 * runtime has this function: it calls emu_run when the stream gets there. */
void emu_queue(const char *name, emu_dim3 grid, emu_dim3 block, size_t shared, void *stream, const void *kernel,
               void (*call)(const void *), void (*free)(const void *), const void *f);
/* Runs a launch to its end: all blocks, one after another. `name` lives as long as the program. Nothing runs after a
 * launch that was ended by a fault, until emu_forget. */
void emu_run(const char *name, emu_dim3 grid, emu_dim3 block, size_t shared, void (*call)(const void *), const void *f);
/* Launches of this name may have so much dynamic shared memory: more than 48 KiB is an invalid launch otherwise. */
void emu_allow_shared(const char *name, size_t bytes);

/* --- how kernels run -------------------------------------------------------------------------------- */

extern unsigned emu_order;     /* 0: threads and blocks in ascending order, 1: descending, else shuffled by this seed */
extern bool emu_truncate;      /* sums of products are cut towards 0 with 2 guard bits, as tensor cores may */
extern bool emu_float_atomics; /* atomicAdd of floats is allowed; default: a finding, its result depends on the order */
extern uint32_t emu_most_accesses; /* of one thread between two waits: more is an endless loop; 2^28 */
/* What approximations give (ex2, rcp, rsqrt, lg2, tanh): the nearest number, or one that is off by the bound that PTX
 * states for the instruction, upwards, downwards, or either way by the bits of the result. */
typedef enum emu_error { EMU_EXACT, EMU_ABOVE, EMU_BELOW, EMU_EITHER } emu_error;
extern emu_error emu_ex2_error;

/* --- what was found --------------------------------------------------------------------------------- */

/* Each different finding once: "KIND in KERNEL: what happened (FILE:LINE)". Printed to stderr when first found. */
extern bool emu_quiet;
int emu_findings(void);
const char *emu_finding(int i);        /* until emu_forget */
bool emu_complained(const char *part); /* one that says this */
/* Adds a finding that is no kernel's: `who` (it lives as long as the program) stands in its place. */
void emu_misused(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool emu_failed(void); /* a launch was ended by a fault */
void emu_forget(void); /* all findings, and the fault */

/* --- counting --------------------------------------------------------------------------------------- */

/* Of global memory: bytes asked for, the sectors of 32 bytes that a warp's accesses touch, the least there could be for
 * as many bytes. Of shared memory: accesses of threads, the passes that conflicts of banks make of them, the least. */
typedef struct emu_counts {
    uint64_t bytes_read, bytes_written, sectors, ideal_sectors;
    uint64_t shared_accesses, wavefronts, ideal_wavefronts;
    uint64_t switches; /* from thread to thread: counted always */
} emu_counts;
extern bool emu_counting;    /* slow */
extern emu_counts emu_total; /* of all launches; anybody may set it to 0 */
extern emu_counts emu_last;  /* of the last launch */

#ifdef __cplusplus
}
#endif
#endif
