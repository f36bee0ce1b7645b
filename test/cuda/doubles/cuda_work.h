/* cuda_work.h: what the doubles of CUDA's libraries share, and what tests ask of them: work on streams, what a stream's
 * work may touch. Beside CUDA's interface (cudart_double.h) and the emulation's (emulation_host.h). */
#ifndef CUDA_WORK_H
#define CUDA_WORK_H
#include "cudart_double.h"
#include "test/cuda/emulation/emulation_host.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Queues run(context), or adds it to the graph that the stream is captured into, where it runs with every launch of the
 * graph. end(context) follows when it cannot run any more, at once where the queue refuses it; NULL is fine. */
cudaError_t emu_on_stream(cudaStream_t stream, void (*run)(void *context), void (*end)(void *context), void *context);

/* Any stream is captured by a capture that forbids to wait and to allocate. If so, the captures are invalid from here
 * on, as CUDA has it. */
bool emu_refuses_to_wait(void);
/* Any stream is captured, in whatever mode. */
bool emu_is_capturing(void);
/* A work of the stream is being captured. */
bool emu_is_captured(cudaStream_t stream);

/* From here on work of the stream touches only these spans of the device's memory, or, with n = 0, any. It is queued,
 * as work is, and captured: what a graph says ends with the graph. */
void emu_declare(cudaStream_t stream, const emu_span *spans, int n);
/* Work that could run sooner or later: as soon as it can, not when somebody waits for it. EMU_NCCL=eager. */
bool emu_is_eager(void);
/* Adds a line about these bytes to the file that EMU_TRACE names, if it names one: "WHAT ADDRESS BYTES". Launches have
 * one "write" for each of the spans that they may write. */
void emu_trace(const char *what, const void *p, size_t bytes);
/* While work runs: whether it may read, or write, these bytes, that is, whether they lie in one allocation and within
 * what was declared. A finding if not, of `who` (a literal), about `what`. */
bool emu_may_touch(const void *p, size_t bytes, bool write, const char *who, const char *what);
/* The same for reading, and whether all of the bytes were written. */
bool emu_may_read(const void *p, size_t bytes, const char *who, const char *what);

/* Work that runs says so when it cannot go on, and says when it can, or was broken off: meanwhile nothing runs on any
 * stream, who asks is told that there is something to do, and who waits would wait for ever, which is a finding. */
void emu_hang(bool hangs);
bool emu_hangs(void);

/* A program that ends with findings ends with exit code 86, if it called the runtime at all. */

/* Forgets errors that stay, findings, what streams have to do and what was declared: for tests that provoke
 * them. Memory stays. */
void emu_reset_device(void);

#ifdef __cplusplus
}
#endif
#endif
