/* faults.h: calls that take memory, made to fail. The linker's --wrap puts these functions in the place of malloc and
 * its like and of arenas', for our objects only: libc and other shared libraries are left alone. meson.build lists
 * them. */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H
#include <stdbool.h>
#include <stddef.h>

/* From now on call number `n` (from 0) fails; SIZE_MAX: none does. */
void faults_begin(size_t n);
/* Calls go well again. Returns how many there were; *out_failed: the function that failed, NULL if none did. */
size_t faults_end(const char **out_failed);
/* Blocks, streams and mappings taken and not given back. */
long faults_live(void);

/* What came of some work: a tc_status and its message. */
typedef struct faults_outcome {
    int status;
    char message[512];
} faults_outcome;
/* Every call of `work` fails in turn, of the calls behind the first 500 only a part unless `every`: each time it ends
 * with TC_LIMIT and a message of memory, or well where `may_go_well` says so of the function that failed, and has given
 * everything back. A test of cmocka's. */
void faults_fail_each(void (*work)(faults_outcome *), const char *what, bool (*may_go_well)(const char *function),
                      bool every);
#endif
