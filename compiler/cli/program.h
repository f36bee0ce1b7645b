/* program.h: the programs as processes. Not part of libtempo: that neither prints nor exits nor catches signals. */
#ifndef TC_PROGRAM_H
#define TC_PROGRAM_H
#include "compiler/base/base.h"
#include <signal.h>

/* The main of a program: makes sure that the three standard files are open, runs `run` in a recovery point, prints its
 * diagnostics or its failure to stderr, flushes stdout, and returns the exit code, a tc_status. Where a library ends
 * the process for lack of memory or threads, the exit code is TC_LIMIT. */
int tc_program(const char *tool, tc_status (*run)(tc_ctx *ctx, int argc, char **argv), int argc, char **argv);

/* Called by tc_program, where the process has no handlers of its own. Temporary files are removed when it ends early by
 * exit or by a signal. A mapped file that becomes shorter ends it with one line and exit code 5, not with SIGBUS. A
 * file that would exceed a limit (ulimit -f) is a write error, not SIGXFSZ. False: out of memory. */
bool tc_program_handlers(void);

/* Lets all threads take memory from one heap: otherwise glibc reserves 64 MiB of addresses for each thread, and kernels
 * allocate nothing. Call it before there are threads. */
void tc_program_one_heap(void);

/* For handlers of signals that ask for an end: whether this is a repeated request. A second signal right after the
 * first does not count: some tools send one to the process and one to its group. */
bool tc_program_insists(bool first);

/* While it is on, the first interrupt (SIGINT) only sets the flag at tc_program_interrupted. A later one ends the
 * process as usual, unless it comes right after the first. Turning it on forgets earlier interrupts. */
void tc_program_catch_interrupt(bool on);
const volatile sig_atomic_t *tc_program_interrupted(void);
#endif
