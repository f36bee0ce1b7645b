/* available.h: how much memory this process may still take: a run that cannot fit is refused with a figure before it
 * starts, not killed in the middle. */
#ifndef TEMPO_AVAILABLE_H
#define TEMPO_AVAILABLE_H
#include "compiler/base/base.h"
#include <stdint.h>

/* The memory that the machine has free, that the memory control groups of this process leave (version 1 and 2, page
 * cache that can be dropped counted as free), or that `ulimit -v` and `ulimit -d` leave: the one with the least usable
 * bytes. *out_usable: how much of it a plan may take; of a ulimit, which this process has to itself, all but 16 MiB, or
 * half. `root` is put before /proc and /sys: "" but in tests. *out_from names the limit. UINT64_MAX where there is
 * none. */
uint64_t rt_available_memory(const char *root, uint64_t *out_usable, const char **out_from);

/* The share of memory that a plan may take where others use it, too: fifteen sixteenths. The rest is for memory outside
 * of plans (stacks of threads, tables, pages of mapped weights that would be dropped and read again) and for other
 * processes. */
uint64_t rt_usable_memory(uint64_t available);

/* TC_LIMIT, with both figures, when `what` takes more bytes than are usable. */
tc_status rt_check_memory(tc_ctx *ctx, const char *what, uint64_t bytes);
/* The same for so many bytes that are free `where`. */
tc_status rt_check_usable(tc_ctx *ctx, const char *what, uint64_t bytes, uint64_t left, const char *where);
#endif
