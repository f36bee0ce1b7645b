/* resident.h: from this process to the bytes that it takes, for programs that run long and must not grow. Included by
 * one file of a program. */
#ifndef TEST_RESIDENT_H
#define TEST_RESIDENT_H
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* AddressSanitizer asks for its options here; those of the environment come behind. It keeps what was freed, 256 MB if
 * nobody says otherwise, so that a process grows for long before it is as large as it stays. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "quarantine_size_mb=1:thread_local_quarantine_size_kb=64"; }

static inline uint64_t resident(void) { /* 0: not told */
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all, pages = 0;
    if (file && fscanf(file, "%lu %lu", &all, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
#endif
