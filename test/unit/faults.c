/* faults.c: see faults.h. */
#include "faults.h"
#include "compiler/base/base.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static size_t calls, fails_at = SIZE_MAX;
static const char *failed;
static long live;

void faults_begin(size_t n) {
    calls = 0;
    failed = NULL;
    fails_at = n;
}

size_t faults_end(const char **out_failed) {
    fails_at = SIZE_MAX;
    *out_failed = failed;
    return calls;
}

long faults_live(void) { return live; }

static bool fails(const char *function) {
    if (calls++ != fails_at)
        return false;
    failed = function;
    errno = ENOMEM;
    return true;
}

static void *taken(void *what, long n) {
    live += what ? n : 0;
    return what;
}

/* The function NAME, and what of it counts as taken. */
#define WRAP(name, parameters, arguments, n)                                                                           \
    void *__real_##name parameters;                                                                                    \
    void *__wrap_##name parameters;                                                                                    \
    void *__wrap_##name parameters { return fails(#name) ? NULL : taken(__real_##name arguments, n); }
WRAP(malloc, (size_t size), (size), 1)
WRAP(calloc, (size_t n, size_t size), (n, size), 1)
WRAP(realloc, (void *block, size_t size), (block, size), !block)
WRAP(aligned_alloc, (size_t align, size_t size), (align, size), 1)
WRAP(strdup, (const char *text), (text), 1)
WRAP(strndup, (const char *text, size_t n), (text, n), 1)
WRAP(realpath, (const char *path, char *resolved), (path, resolved), !resolved)
WRAP(fopen64, (const char *path, const char *mode), (path, mode), 1)
WRAP(fdopen, (int fd, const char *mode), (fd, mode), 1)
WRAP(open_memstream, (char **out_text, size_t *out_size), (out_text, out_size), 2) /* a stream and its text */

/* An arena that has room would not fail; one that is full would. */
#define WRAP_ARENA(name, parameters, arguments)                                                                        \
    void *__real_##name parameters;                                                                                    \
    void *__wrap_##name parameters;                                                                                    \
    void *__wrap_##name parameters {                                                                                   \
        if (fails(#name))                                                                                              \
            tc_out_of_memory(1);                                                                                       \
        return __real_##name arguments;                                                                                \
    }
WRAP_ARENA(tc_arena_alloc, (tc_arena * arena, size_t count, size_t size), (arena, count, size))
WRAP_ARENA(tc_arena_grow, (tc_arena * arena, void *items, size_t size, size_t *cap, size_t need),
           (arena, items, size, cap, need))
WRAP_ARENA(tc_arena_strdup, (tc_arena * arena, const char *text), (arena, text))
WRAP_ARENA(tc_arena_strndup, (tc_arena * arena, const char *text, size_t n), (arena, text, n))

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block) {
    live -= block != NULL;
    __real_free(block);
}

int __real_fclose(FILE *stream);
int __wrap_fclose(FILE *stream);
int __wrap_fclose(FILE *stream) {
    live--;
    return __real_fclose(stream);
}

void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    void *map = fails("mmap64") ? MAP_FAILED : __real_mmap64(at, size, protection, flags, fd, offset);
    live += map != MAP_FAILED;
    return map;
}

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size) {
    live--;
    return __real_munmap(at, size);
}

/* --- every call in turn ----------------------------------------------------------------------- */

/* The lowest free descriptor: a higher one afterwards means that a file was left open. */
static int free_descriptor(void) {
    int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
}

void faults_fail_each(void (*work)(faults_outcome *), const char *what, bool (*may_go_well)(const char *function),
                      bool every) {
    const char *function;
    faults_outcome got = {0};
    faults_begin(SIZE_MAX);
    work(&got);
    size_t total = faults_end(&function), step = every || total < 2000 ? 1 : total / 1000, tried = 0;
    if (got.status != 0)
        fail_msg("%s", got.message);
    int fd = free_descriptor();
    long before = faults_live();
    for (size_t n = 0;; n += n < 500 ? 1 : step, tried++) {
        got = (faults_outcome){0};
        faults_begin(n);
        work(&got);
        faults_end(&function);
        if (!function)
            break;
        if (!(got.status == 0 && may_go_well(function)) && (got.status != TC_LIMIT || !strstr(got.message, "memory")))
            fail_msg("%s: call %zu (%s) failed: status %d, message: %s", what, n, function, got.status, got.message);
        if (faults_live() != before)
            fail_msg("%s: call %zu (%s) failed: %ld blocks left: %s", what, n, function, faults_live() - before,
                     got.message);
        if (free_descriptor() != fd)
            fail_msg("%s: call %zu (%s) failed: a file stays open", what, n, function);
    }
    assert_int_equal(got.status, 0);
    print_message("%s: %zu of %zu calls failed in turn\n", what, tried, total);
    assert_true(tried > 50);
}
