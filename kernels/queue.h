/* queue.h: where kernels run, the first argument of each of them: how many threads a loop may take, and for how many of
 * them a workspace has scratch. A session owns one, so that concurrent sessions are independent of each other, and of a
 * team of threads that calls them. */
#ifndef TK_QUEUE_H
#define TK_QUEUE_H
#include "kernel.h"

/* A queue of `threads` threads (at least 1), the caller's among them. `slots` (at least 1) is the number of threads
 * that the workspace of its launches is made for, the `slots` of each NAME_workspace: a kernel with scratch takes no
 * more threads than that, whatever `threads` says. NULL: out of memory. One host thread at a time may use a queue. */
tk_queue *tk_queue_create(int threads, int slots);
void tk_queue_destroy(tk_queue *q); /* NULL is fine */

int tk_queue_threads(const tk_queue *q);
int tk_queue_slots(const tk_queue *q);

/* The state of the queue's device: NULL on the host. The device sets it and frees it. */
void *tk_queue_context(const tk_queue *q);
void tk_queue_set_context(tk_queue *q, void *context);

/* Which launch runs now: faults are its. */
void tk_queue_begin(tk_queue *q, uint32_t launch);
uint32_t tk_queue_launch(const tk_queue *q);

/* A kernel's way to say that an operand's value is not allowed: the first fault since the queue's were taken stays,
 * with the launch that was running. Results of that launch are then in part written, or not at all; later kernels check
 * their own operands. TK_OK: nothing happens. May be called from any thread of a loop. */
void tk_fault(tk_queue *q, tk_status status);
/* The fault, TK_OK where there is none, and its launch; the queue forgets it. Call it when all queued work has run. */
tk_status tk_queue_take_fault(tk_queue *q, uint32_t *out_launch);

/* A queue of one thread and one slot, for a kernel that is called from the body of a loop. Any thread may use it at any
 * time; it is never destroyed. A kernel with faults takes the serial queue of a queue, whose faults they then are. */
tk_queue *tk_queue_serial(void);
tk_queue *tk_queue_serial_of(tk_queue *q);

/* Before memory is counted: makes libraries start their threads and, under a limit of memory, generate their code.
 * TK_NO_MEMORY, TK_NO_THREADS, TK_SMALL_STACK: the queue cannot run; call it again when something has changed.
 * matmul/matmul_cpu.c */
tk_status tk_queue_ready(tk_queue *q);
#endif
