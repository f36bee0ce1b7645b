/* available.h: how much memory this process may still take, so that what cannot fit is refused with a figure before
 * the run, not killed in the middle of it. */
#ifndef TEMPO_AVAILABLE_H
#define TEMPO_AVAILABLE_H
#include "compiler/base/diag.h"
#include <stdint.h>

/* What the machine has free, what the memory control groups of this process leave (version 1 and 2, page cache that can
 * be dropped counted as free) or what `ulimit -v` and `ulimit -d` leave: that of which the least is usable.
 * *out_usable: a plan may take so much of it; of a ulimit, which this process has to itself, all but 16 MiB, or half.
 * `root` is put before /proc and /sys: "" but in tests. *out_from says which it was. UINT64_MAX where nothing tells. */
uint64_t rt_available_memory(const char *root, uint64_t *out_usable, const char **out_from);

/* How much a plan may take of memory that others use, too: fifteen sixteenths. The rest is for what no plan counts
 * (stacks of threads, tables, pages of mapped weights that would be dropped and read again) and for what other
 * processes take meanwhile. */
uint64_t rt_usable_memory(uint64_t available);

/* TC_LIMIT, with both figures, when `what` takes more bytes than are usable. */
tc_status rt_check_memory(tc_ctx *ctx, const char *what, uint64_t bytes);
/* The same of so many bytes that are free `where`. */
tc_status rt_check_usable(tc_ctx *ctx, const char *what, uint64_t bytes, uint64_t left, const char *where);
#endif
