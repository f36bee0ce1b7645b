/* test_checkpoint_faults.c: every call of the system that saving a checkpoint makes, and loading one, fails in turn:
 * once, or from there on, as on a disk that is gone. The checkpoints that were there stay, a failed save leaves nothing
 * behind, nothing is left open. The linker's --wrap puts these functions in the place of the system's (meson.build). */
#define OWN_MAIN
#include "test/unit/checkpoint_case.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/statvfs.h>

/* --- calls that fail -------------------------------------------------------------------------- */

static struct {
    size_t calls, fails_at;
    bool for_ever, slow; /* slow: each write takes less than it is given, or is interrupted */
    int error;
    const char *failed;
} faults = {.fails_at = SIZE_MAX};

static bool fails(const char *name) {
    size_t n = faults.calls++;
    if (n != faults.fails_at && !(faults.for_ever && n > faults.fails_at))
        return false;
    faults.failed = faults.failed ? faults.failed : name;
    errno = faults.error;
    return true;
}

#define WRAP(type, name, parameters, arguments, failure)                                                               \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters { return fails(#name) ? (failure) : __real_##name arguments; }
WRAP(DIR *, opendir, (const char *path), (path), NULL)
WRAP(struct dirent *, readdir64, (DIR * stream), (stream), NULL)
WRAP(DIR *, fdopendir, (int fd), (fd), NULL)
WRAP(int, flock, (int fd, int what), (fd, what), -1)
WRAP(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL)
WRAP(char *, realpath, (const char *path, char *resolved), (path, resolved), NULL)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), -1)
WRAP(int, rmdir, (const char *path), (path), -1)
WRAP(int, unlink, (const char *path), (path), -1)
WRAP(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), -1)
WRAP(int, access, (const char *path, int mode), (path, mode), -1)
WRAP(int, fflush, (FILE * stream), (stream), EOF)
WRAP(int, statvfs64, (const char *path, void *out), (path, out), -1)
WRAP(int, posix_fallocate64, (int fd, off_t at, off_t bytes), (fd, at, bytes), faults.error)
WRAP(ssize_t, read, (int fd, void *bytes, size_t n), (fd, bytes, n), -1)

/* Nothing is flushed: hundreds of saves would wait for the disk. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) { return (void)fd, fails("fsync") ? -1 : 0; }

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails("open64") ? -1 : __real_open64(path, flags, mode);
}

/* A stream is closed even where its last bytes do not reach the file. */
int __real_fclose(FILE *stream);
int __wrap_fclose(FILE *stream);
int __wrap_fclose(FILE *stream) {
    bool failed = fails("fclose");
    int result = __real_fclose(stream);
    if (failed)
        errno = faults.error;
    return failed ? EOF : result;
}

ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n) {
    if (fails("write"))
        return -1;
    if (faults.slow && faults.calls % 3 == 0)
        return errno = EINTR, -1;
    return __real_write(fd, bytes, faults.slow && n > 1000 ? 1000 : n);
}

/* --- one save or load ------------------------------------------------------------------------- */

static char top[] = "/tmp/test_checkpoint_faults_XXXXXX", dir[64];

static int count_open(void) {
    int n = 0;
    DIR *stream = opendir("/proc/self/fd");
    while (readdir(stream))
        n++;
    closedir(stream);
    return n;
}

/* A folder with steps 1 and 2. */
static void begin_case(void) {
    tc_ctx ctx;
    int64_t newest;
    tc_ctx_init(&ctx, "test");
    snprintf(dir, sizeof dir, "%s/c", top);
    case_remove_tree(dir);
    assert_int_equal(case_begin(&ctx, dir, &newest), TC_OK);
    assert_int_equal(case_save(&ctx, dir, 1, 2), TC_OK);
    assert_int_equal(case_save(&ctx, dir, 2, 2), TC_OK);
    tc_ctx_fini(&ctx);
}

static tc_status with_faults(size_t at, bool for_ever, int error, tc_status (*work)(tc_ctx *, int64_t), int64_t step) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    faults.calls = 0;
    faults.failed = NULL;
    faults.for_ever = for_ever;
    faults.error = error;
    faults.fails_at = at;
    tc_status status = work(&ctx, step);
    faults.fails_at = SIZE_MAX;
    size_t errors = 0;
    for (size_t i = 0; i < ctx.n_diags; i++)
        errors += ctx.diags[i].severity == TC_ERROR;
    if (errors != (status != TC_OK))
        fail_msg("status %d, but %zu errors, when %s failed", (int)status, errors, faults.failed);
    tc_ctx_fini(&ctx);
    return status;
}

static void check_newest(int64_t least, int64_t most) {
    tc_ctx ctx;
    train_checkpoint c;
    int64_t newest;
    tc_ctx_init(&ctx, "test");
    assert_int_equal(case_begin(&ctx, dir, &newest), TC_OK);
    assert_int_equal(train_checkpoint_load(&ctx, dir, &c), TC_OK);
    assert_in_range(c.progress.step, least, most);
    case_check(&c, c.progress.step);
    assert_int_equal(ctx.n_diags, 0);
    train_checkpoint_close(&c);
    assert_int_equal(case_remains(dir), 0);
    tc_ctx_fini(&ctx);
}

static tc_status save(tc_ctx *ctx, int64_t step) { return case_save(ctx, dir, step, 2); }

static tc_status load(tc_ctx *ctx, int64_t step) {
    train_checkpoint c;
    tc_status status = train_checkpoint_load(ctx, dir, &c);
    (void)step;
    if (status == TC_OK && c.path)
        case_check(&c, c.progress.step);
    if (status == TC_OK)
        train_checkpoint_close(&c);
    return status;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* The number of calls that were made to fail. */
static size_t fail_saves(int64_t step, bool for_ever, int error) {
    size_t n = 0;
    for (; n < 1000; n++) {
        begin_case();
        int open_before = count_open();
        tc_status status = with_faults(n, for_ever, error, save, step);
        if (!faults.failed)
            break;
        if (status != TC_OK && status != TC_IO)
            fail_msg("status %d when %s failed", (int)status, faults.failed);
        assert_int_equal(count_open(), open_before);
        assert_true(status == TC_OK || case_exists(dir, "step-1"));
        if (!case_exists(dir, "step-2") && !for_ever)
            fail_msg("step-2 is gone when %s failed, call %zu", faults.failed, n);
        /* a new one is there whose name may not have reached the disk: the one that it replaced stays, too */
        bool doubt = case_exists(dir, "step-3") || step == 2;
        if (status != TC_OK && !for_ever && !doubt && case_remains(dir) != 0)
            fail_msg("something is left when %s failed, call %zu", faults.failed, n);
        check_newest(status == TC_OK ? step : 2, step);
    }
    return n;
}

TEST(failing_saves) {
    size_t n = 0;
    for (int64_t step = 3; step >= 2; step--) { /* a new one, and one in the place of another */
        n += fail_saves(step, false, EIO);
        n += fail_saves(step, true, ENOSPC);
    }
    print_message("%zu failed calls\n", n);
    assert_true(n > 100);
}

TEST(failing_loads) {
    size_t n = 0;
    begin_case();
    for (; n < 1000; n++) {
        int open_before = count_open();
        tc_status status = with_faults(n / 2, n % 2, EIO, load, 0);
        if (!faults.failed)
            break;
        assert_true(status == TC_OK || status == TC_IO || status == TC_BAD_INPUT);
        assert_int_equal(count_open(), open_before);
        check_newest(2, 2);
    }
    assert_true(n > 20);
}

TEST(slow_writes) {
    begin_case();
    faults.slow = true;
    tc_status status = with_faults(SIZE_MAX, false, 0, save, 3);
    faults.slow = false;
    assert_int_equal(status, TC_OK);
    assert_true(faults.calls > 60);
    check_newest(3, 3);
}

static int begin_all(void **state) { return (void)state, mkdtemp(top) ? 0 : -1; }
static int end_all(void **state) { return (void)state, case_remove_tree(top), 0; }

int main(void) { return run_all_tests(begin_all, end_all); }
