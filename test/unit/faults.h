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
#endif
