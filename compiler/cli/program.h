/* program.h: what the programs are as processes. Not part of libtempo, which neither prints nor exits nor catches
 * signals. */
#ifndef TC_PROGRAM_H
#define TC_PROGRAM_H
#include "compiler/base/diag.h"
#include <signal.h>

/* The main of a program: makes sure that the three standard files are open, runs `run` in a recovery point, prints its
 * diagnostics or what ended it to stderr, flushes stdout, and returns the exit code, a tc_status. A library that ends
 * the process for lack of memory or threads ends it with TC_LIMIT. */
int tc_program(const char *tool, tc_status (*run)(tc_ctx *ctx, int argc, char **argv), int argc, char **argv);

/* Done by tc_program, where the process has no handlers of its own: temporary files go when it ends early by exit or by
 * a signal, a mapped file that becomes shorter ends it with one line and exit code 5, not with SIGBUS, and a file that
 * would get larger than a limit (ulimit -f) is an error of writing it, not SIGXFSZ. False: out of memory. */
bool tc_program_handlers(void);

/* Lets all threads take memory from one heap: glibc reserves 64 MiB of addresses for each thread else, and kernels
 * allocate nothing. Before there are threads. */
void tc_program_one_heap(void);

/* For handlers of signals that ask for an end: whether it is asked for again. One that comes right behind the first
 * does not count: some send a process one as itself and once more as one of its group. */
bool tc_program_insists(bool first);

/* While it is on, the first interrupt (SIGINT) only sets what tc_program_interrupted points to; a later one, but
 * for one that comes at once, ends the process as ever. Turning it on forgets an earlier one. */
void tc_program_catch_interrupt(bool on);
const volatile sig_atomic_t *tc_program_interrupted(void);
#endif
