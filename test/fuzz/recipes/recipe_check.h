/* recipe_check.h: one program, compiled by every recipe and run, and what must then hold. */
#ifndef FUZZ_CHECK_H
#define FUZZ_CHECK_H
#include "recipe_program.h"

typedef enum fz_kind_of_end {
    FZ_PASSED,
    FZ_SKIPPED,      /* NaN, infinity or very large numbers in double precision: nothing to compare */
    FZ_UNSURE,       /* apart, but not further than rounding takes this program */
    FZ_REFUSED,      /* a recipe or the runtime gave it back */
    FZ_NOT_EXACT,    /* exact is not none bit for bit */
    FZ_APART,        /* outputs or gradients of two recipes */
    FZ_APART_64,     /* the same in double */
    FZ_UNREAD,       /* the forward pass as read */
    FZ_SLOPE,        /* finite differences */
    FZ_LEDGER,       /* the ledger and the runtime */
    FZ_NOT_STANDARD, /* portable left an op that is not in the standard */
    FZ_BUDGET        /* a plan and what it takes to run it */
} fz_kind_of_end;

extern const char *const fz_end_names[];
#define FZ_IS_FAILURE(end) ((end) >= FZ_REFUSED)

typedef struct fz_end {
    fz_kind_of_end kind;
    char why[500];
} fz_end;

/* How often, by name: without pointers, so that processes can share it. */
enum { FZ_COUNTS = 400, FZ_COUNT_NAME = 48 };
typedef struct fz_counts {
    char names[FZ_COUNTS][FZ_COUNT_NAME];
    uint64_t counts[FZ_COUNTS];
    int n, next;
} fz_counts;
uint64_t *fz_count_of(fz_counts *counts, const char *name); /* added where it is not there */

/* `rules` may be NULL. A program's seed decides which of the expensive checks it gets, unless `all`. */
void fz_check(const fz_program *program, bool all, fz_counts *rules, fz_end *out_end);
#endif
