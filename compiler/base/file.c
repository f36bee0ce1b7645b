/* file.c: whole files in, and files that appear whole or not at all. Output goes to a temporary file beside its target,
 * and takes the target's name only when all of it is on the disk: after a full disk, a crash or a kill the old file is
 * unchanged. A failure (recover.h) closes open files and removes temporary ones; the program's handlers remove those of
 * a process that dies early (program.c). */
#include "file.h"
#include "written_files.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { SMALL_FILE = 1 << 20, TRIES = 100 };

bool tc_ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* --- opening ---------------------------------------------------------------------------------- */

int tc_above_standard(int fd) {
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), saved = errno;
    close(fd);
    errno = saved;
    return above;
}

int tc_open(const char *path, int flags) {
    return tc_above_standard(open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
}

/* Another process may be about to open the other end of a pipe: a hundredth of a second, TRIES times. */
static bool wait_a_little(unsigned *tries) {
    const struct timespec pause = {.tv_nsec = 10000000};
    return (*tries)++ < TRIES && (nanosleep(&pause, NULL) == 0 || errno == EINTR);
}

uint32_t tc_random_name(void) {
    uint32_t number;
    struct timespec now;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number)
        return number;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint32_t)now.tv_nsec ^ (uint32_t)getpid() << 16;
}

/* --- reading ---------------------------------------------------------------------------------- */

static tc_status system_error(tc_ctx *ctx, const char *what, const char *path) {
    tc_status status = errno == ENOMEM ? TC_LIMIT : TC_IO;
    const char *why = strerror(errno);
    return tc_error(ctx, status, NULL, "can't %s '%s': %s", what, tc_quote(ctx, path), why);
}

/* Grows by doubling up to 2 GiB; no model in protobuf exceeds that. A pipe without a writer is at its end. */
static tc_status read_to_end(tc_ctx *ctx, int fd, size_t cap, const char *path, tc_file *file) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    char *data = NULL;
    for (;; cap *= 2) {
        if (cap > (size_t)1 << 32)
            return tc_error(ctx, TC_LIMIT, NULL, "more than 2 GiB of input");
        char *grown = realloc(data, cap);
        if (!grown)
            tc_out_of_memory(cap);
        file->data = data = grown;
        while (file->size < cap) {
            ssize_t n = read(fd, data + file->size, cap - file->size);
            if (n == 0)
                return TC_OK;
            if (n < 0 && errno == EAGAIN)
                n = poll(&wait, 1, -1) < 0 ? -1 : 0;
            if (n < 0 && errno != EINTR)
                return system_error(ctx, "read", path);
            file->size += n > 0 ? (size_t)n : 0;
        }
    }
}

static tc_status read_all(tc_ctx *ctx, int fd, size_t guess, const char *path, tc_file *out_file) {
    tc_held held;
    tc_file_hold(out_file, &held);
    tc_status status = read_to_end(ctx, fd, guess + 1, path, out_file);
    tc_let_go(&held);
    if (status != TC_OK)
        tc_file_close(out_file);
    return status;
}

/* A device may have no end: one that does not end at once is refused. Terminals and /dev/null end. */
static tc_status read_device(tc_ctx *ctx, int fd, const char *path, tc_file *out_file) {
    char bytes[512];
    ssize_t n = isatty(fd) ? 0 : read(fd, bytes, sizeof bytes);
    if (n < 0)
        return system_error(ctx, "read", path);
    if (n == 0)
        return read_all(ctx, fd, SMALL_FILE, path, out_file);
    return tc_error(ctx, TC_IO, NULL, "'%s' is a device, expected a file or a pipe", tc_quote(ctx, path));
}

/* A pipe with another name than standard input's. Without a writer it has no end. */
static tc_status read_pipe(tc_ctx *ctx, int fd, const char *path, tc_file *out_file) {
    unsigned tries = 0;
    do {
        TC_TRY(read_all(ctx, fd, 64 << 10, path, out_file));
        if (out_file->size)
            return TC_OK;
        tc_file_close(out_file);
    } while (wait_a_little(&tries));
    tc_error(ctx, TC_IO, NULL, "'%s' is a pipe without a writer", tc_quote(ctx, path));
    tc_hint(ctx, "start its writer first, or give a file");
    return TC_IO;
}

static tc_status map_or_read(tc_ctx *ctx, int fd, const char *path, tc_file *out_file) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return system_error(ctx, "look at", path);
    TC_TRY(tc_written_check(ctx, &st, path));
    if (S_ISFIFO(st.st_mode) && fd != STDIN_FILENO)
        return read_pipe(ctx, fd, path, out_file);
    if (S_ISDIR(st.st_mode))
        return tc_error(ctx, TC_IO, NULL, "'%s' is a folder, expected a file", tc_quote(ctx, path));
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
        return read_device(ctx, fd, path, out_file);
    size_t size = S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    if (size <= SMALL_FILE)
        return read_all(ctx, fd, size ? size : 64 << 10, path, out_file);
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return read_all(ctx, fd, size, path, out_file);
    *out_file = (tc_file){.data = map, .size = size, .map = map};
    return TC_OK;
}

tc_status tc_file_open(tc_ctx *ctx, const char *path, tc_file *out_file) {
    *out_file = (tc_file){0};
    if (strcmp(path, "-") == 0)
        return map_or_read(ctx, STDIN_FILENO, "standard input", out_file);
    int fd = tc_open(path, O_RDONLY);
    if (fd < 0)
        return system_error(ctx, "open", path);
    tc_held held;
    tc_hold(&held, tc_close_fd, &fd);
    tc_status status = map_or_read(ctx, fd, path, out_file);
    tc_let_go(&held);
    close(fd);
    return status;
}

void tc_close_fd(void *fd) { close(*(int *)fd); }

void tc_file_close(tc_file *file) {
    if (file->map)
        munmap(file->map, file->size);
    else
        free((void *)(uintptr_t)file->data);
    *file = (tc_file){0};
}

static void close_file(void *file) { tc_file_close(file); }

void tc_file_hold(tc_file *file, tc_held *held) { tc_hold(held, close_file, file); }

/* --- writing ---------------------------------------------------------------------------------- */

struct tc_out_file {
    FILE *stream;
    char *target; /* NULL: standard output */
    char *temp;   /* NULL: written in place (a pipe, /dev/null) */
    tc_out_file *next;
    tc_held held;
};

/* Open outputs of all threads: those whose temporary files a handler removes. */
static tc_out_file *open_files;
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

void tc_remove_temporary_files(void) {
    for (tc_out_file *file = open_files; file; file = file->next)
        if (file->temp)
            unlink(file->temp);
}

static void forget(tc_out_file *file) {
    tc_let_go(&file->held);
    pthread_mutex_lock(&open_lock);
    for (tc_out_file **at = &open_files; *at; at = &(*at)->next) {
        if (*at != file)
            continue;
        *at = file->next;
        break;
    }
    pthread_mutex_unlock(&open_lock);
    free(file->target);
    free(file->temp);
    free(file);
}

/* Processes that share a folder may not know each other's numbers: the name is drawn. */
static char *format_temp(const char *target) {
    const char *slash = strrchr(target, '/');
    int folder = slash ? (int)(slash - target + 1) : 0;
    size_t n = strlen(target) + 64;
    char *temp = malloc(n);
    if (!temp)
        tc_out_of_memory(n);
    snprintf(temp, n, "%.*s.%.200s.tmp-%08x", folder, target, target + folder, tc_random_name());
    return temp;
}

/* Creates the temporary file with the mode that the target has or would get. */
static int create_temp(tc_out_file *file, const struct stat *old) {
    for (unsigned attempt = 0; attempt < TRIES; attempt++) {
        file->temp = format_temp(file->target);
        int fd = tc_open(file->temp, O_WRONLY | O_CREAT | O_EXCL);
        if (fd >= 0 && old)
            (void)fchmod(fd, old->st_mode & 07777); /* a file system without modes is fine */
        if (fd >= 0)
            return fd;
        free(file->temp);
        file->temp = NULL;
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

/* Takes `fd` over; where it is negative, errno has the reason. */
static tc_status open_stream(tc_ctx *ctx, tc_out_file *file, int fd, const char *path) {
    file->stream = fd < 0 ? NULL : fdopen(fd, "wb");
    if (file->stream)
        return TC_OK;
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
    return system_error(ctx, "write", path);
}

/* Devices that discard all they are given: /dev/null, /dev/zero, /dev/full. */
static bool is_sink(dev_t device) {
    return major(device) == 1 && (minor(device) == 3 || minor(device) == 5 || minor(device) == 7);
}

/* Opening a pipe without a reader would wait, and the contents of a disk, say, must not be replaced by accident. */
static tc_status open_in_place(tc_ctx *ctx, const char *path, int flags, int *out_fd) {
    struct stat st;
    unsigned tries = 0;
    do
        *out_fd = tc_open(path, O_WRONLY | flags);
    while (*out_fd < 0 && errno == ENXIO && wait_a_little(&tries));
    if (*out_fd < 0)
        return errno == ENXIO ? tc_error(ctx, TC_IO, NULL, "no process reads from '%s'", tc_quote(ctx, path))
                              : system_error(ctx, "write", path);
    bool fits = fstat(*out_fd, &st) == 0 && !S_ISBLK(st.st_mode) &&
                (!S_ISCHR(st.st_mode) || isatty(*out_fd) || is_sink(st.st_rdev));
    if (fits && (S_ISREG(st.st_mode) || fcntl(*out_fd, F_SETFL, flags & O_APPEND) == 0))
        return TC_OK;
    close(*out_fd);
    *out_fd = -1;
    return tc_error(ctx, TC_IO, NULL, "'%s' is a device; expected a file, a pipe or a terminal", tc_quote(ctx, path));
}

/* Two runs would write over each other's lines. The lock ends with the stream. */
static tc_status begin_log(tc_ctx *ctx, int fd, const char *path, bool append) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return TC_OK;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return tc_error(ctx, TC_IO, NULL, "another run writes to '%s'", tc_quote(ctx, path));
    return append || ftruncate(fd, 0) == 0 ? TC_OK : system_error(ctx, "write", path);
}

FILE *tc_out_in_place(tc_ctx *ctx, const char *path, bool append) {
    int fd;
    tc_out_file file = {0};
    if (open_in_place(ctx, path, O_CREAT | (append ? O_APPEND : 0), &fd) != TC_OK)
        return NULL;
    if (begin_log(ctx, fd, path, append) == TC_OK)
        (void)open_stream(ctx, &file, fd, path);
    else
        close(fd);
    return file.stream;
}

static tc_status open_target(tc_ctx *ctx, const char *path, tc_out_file *file) {
    struct stat st;
    int fd;
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return system_error(ctx, "write", path);
    }
    errno = 0;
    bool in_place = exists && !S_ISREG(st.st_mode);
    char *resolved = in_place ? NULL : realpath(path, NULL); /* a link stays a link: its target is replaced */
    if (!resolved && errno == ENOMEM)
        return system_error(ctx, "write", path);
    file->target = resolved ? resolved : strdup(path);
    if (!file->target)
        tc_out_of_memory(strlen(path));
    if (exists && !in_place && access(file->target, W_OK) != 0)
        return system_error(ctx, "write", path);
    if (in_place)
        TC_TRY(open_in_place(ctx, path, 0, &fd));
    else
        fd = create_temp(file, exists ? &st : NULL);
    return open_stream(ctx, file, fd, path);
}

static void abandon(void *file) { tc_out_abandon(file); }

tc_status tc_out_open(tc_ctx *ctx, const char *path, tc_out_file **out_file) {
    *out_file = NULL;
    tc_out_file *file = calloc(1, sizeof *file);
    if (!file)
        tc_out_of_memory(sizeof *file);
    pthread_mutex_lock(&open_lock);
    file->next = open_files;
    open_files = file;
    pthread_mutex_unlock(&open_lock);
    tc_hold(&file->held, abandon, file);
    tc_status status =
        strcmp(path, "-") == 0
            ? open_stream(ctx, file, fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), "standard output")
            : open_target(ctx, path, file);
    if (status == TC_OK)
        *out_file = file;
    else
        tc_out_abandon(file);
    return status;
}

FILE *tc_out_stream(tc_out_file *file) { return file->stream; }

const char *tc_out_temp_path(tc_out_file *file) { return file->temp ? file->temp : file->target; }

/* The new name itself must reach the disk: the folder is synced too. */
static void sync_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd); /* some file systems cannot; the rename itself has succeeded */
        close(fd);
    }
    free(folder);
}

static bool close_stream(tc_out_file *file) {
    bool good = fflush(file->stream) == 0 && !ferror(file->stream);
    good = good && (!file->temp || fsync(fileno(file->stream)) == 0);
    int saved = errno;
    if (fclose(file->stream) != 0 && good) {
        saved = errno;
        good = false;
    }
    file->stream = NULL;
    errno = saved;
    return good;
}

tc_status tc_out_commit(tc_ctx *ctx, tc_out_file *file) {
    tc_status status = TC_OK;
    const char *shown = file->target ? file->target : "standard output";
    if (!close_stream(file) || (file->temp && rename(file->temp, file->target) != 0)) {
        status = system_error(ctx, "write", shown);
        if (file->temp)
            unlink(file->temp);
    } else if (file->temp) {
        sync_folder(file->target);
    }
    forget(file);
    return status;
}

void tc_out_abandon(tc_out_file *file) {
    if (!file)
        return;
    if (file->stream)
        fclose(file->stream);
    if (file->temp)
        unlink(file->temp);
    forget(file);
}
