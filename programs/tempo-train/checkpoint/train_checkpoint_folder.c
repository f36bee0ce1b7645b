/* train_checkpoint_folder.c: folders of checkpoints: lists them, and removes remains. */
#include "train_checkpoint_parts.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const suffixes[] = {[FOLDER_TEMP] = ".tmp-", [FOLDER_REPLACED] = ".old-"};

tc_status train_folder_error(tc_ctx *ctx, const char *what, const char *path) {
    const char *why = strerror(errno);
    return tc_error(ctx, TC_IO, NULL, "can't %s '%s': %s", what, tc_quote(ctx, path), why);
}

const char *train_folder_path(tc_arena *arena, const char *dir, folder_kind kind, int64_t step) {
    if (kind == FOLDER_WHOLE)
        return tc_arena_printf(arena, "%s/step-%" PRId64, dir, step);
    return tc_arena_printf(arena, "%s/step-%" PRId64 "%s%" PRIu32, dir, step, suffixes[kind], tc_random_name());
}

bool train_sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = fsync(fd) == 0 || errno == EINVAL; /* some file systems have nothing to flush of a folder */
    int saved = errno;
    close(fd);
    errno = saved;
    return good;
}

/* A link does not count: its files belong to another folder. */
static DIR *open_own_folder(const char *path) {
    int fd = tc_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !stream)
        close(fd);
    return stream;
}

static const char *next_entry(DIR *stream) {
    struct dirent *e = readdir(stream);
    while (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0))
        e = readdir(stream);
    return e ? e->d_name : NULL;
}

bool train_is_foreign_folder(const char *path) {
    bool foreign = false;
    DIR *stream = open_own_folder(path);
    if (!stream)
        return errno != ENOENT;
    for (const char *name = next_entry(stream); name; name = next_entry(stream))
        foreign = foreign ||
                  (strcmp(name, STATE_FILE) != 0 && strcmp(name, WEIGHTS_FILE) != 0 && strcmp(name, MOMENTS_FILE) != 0);
    closedir(stream);
    return foreign;
}

bool train_remove_folder(const char *path) {
    DIR *stream = open_own_folder(path);
    if (!stream)
        return errno == ENOENT;
    for (const char *name = next_entry(stream); name; name = next_entry(stream))
        (void)unlinkat(dirfd(stream), name, 0); /* where it fails, so does rmdir */
    closedir(stream);
    return rmdir(path) == 0;
}

/* --- the lock --------------------------------------------------------------------------------- */

static tc_status refuse_locked(tc_ctx *ctx, const char *dir) {
    tc_error(ctx, TC_IO, NULL, "--checkpoint: another run uses '%s'", tc_quote(ctx, dir));
    tc_hint(ctx, "wait for its end, or name another folder");
    return TC_IO;
}

static tc_status warn_unlocked(tc_ctx *ctx, const char *dir) {
    const char *why = strerror(errno);
    tc_warn(ctx, NULL, "'%s' can't be locked (%s): no other run may have it", tc_quote(ctx, dir), why);
    return TC_OK;
}

static void close_lock(void *lock) { train_unlock_folder(lock); }

/* The file is removed by the run that holds it: a file that was locked just now may have no name any more. */
tc_status train_lock_folder(tc_ctx *ctx, const char *dir, train_lock *out) {
    struct stat held, named = {0};
    *out = (train_lock){.path = tc_arena_printf(ctx->arena, "%s/.tempo-train.lock", dir), .fd = -1};
    tc_hold(&out->held, close_lock, out);
    while (!out->is_locked) {
        if (out->fd >= 0)
            close(out->fd);
        out->fd = tc_open(out->path, O_RDWR | O_CREAT | O_NOFOLLOW);
        if (out->fd < 0 || fstat(out->fd, &held) != 0)
            return train_folder_error(ctx, "lock", out->path);
        if (flock(out->fd, LOCK_EX | LOCK_NB) != 0)
            return errno == EWOULDBLOCK ? refuse_locked(ctx, dir) : warn_unlocked(ctx, dir);
        if (stat(out->path, &named) != 0 && errno != ENOENT)
            return train_folder_error(ctx, "lock", out->path);
        out->is_locked = named.st_ino == held.st_ino && named.st_dev == held.st_dev;
    }
    return TC_OK;
}

void train_unlock_folder(train_lock *lock) {
    tc_let_go(&lock->held);
    if (lock->path && lock->is_locked)
        (void)unlink(lock->path);
    if (lock->path && lock->fd >= 0)
        close(lock->fd);
    lock->is_locked = false;
    lock->fd = -1;
}

/* --- listing ---------------------------------------------------------------------------------- */

/* Digits without zeros before them, as they are printed; NULL: there are none. */
static const char *read_digits(const char *text, int64_t *out_number) {
    char *end;
    if (*text < '0' || *text > '9' || (*text == '0' && text[1] >= '0' && text[1] <= '9'))
        return NULL;
    errno = 0;
    *out_number = strtoll(text, &end, 10);
    return errno == 0 ? end : NULL;
}

static bool read_name(const char *name, step_folder *out) {
    int64_t number;
    if (strncmp(name, "step-", 5) != 0 || !(name = read_digits(name + 5, &out->step)))
        return false;
    *out = (step_folder){.kind = FOLDER_WHOLE, .step = out->step};
    if (!*name)
        return true;
    for (folder_kind kind = FOLDER_TEMP; kind <= FOLDER_REPLACED; kind++) {
        size_t n = strlen(suffixes[kind]);
        if (strncmp(name, suffixes[kind], n) != 0)
            continue;
        const char *end = read_digits(name + n, &number);
        out->kind = kind;
        return end && !*end;
    }
    return false;
}

static int newest_first(const void *a, const void *b) {
    const step_folder *x = a, *y = b;
    return x->step != y->step ? (x->step < y->step) - (x->step > y->step) : (x->kind > y->kind) - (x->kind < y->kind);
}

static void close_stream(void *stream) { closedir(stream); }

tc_status train_list_folders(tc_ctx *ctx, tc_arena *arena, const char *dir, step_folder **out_folders, size_t *out_n) {
    size_t cap = 0;
    *out_folders = NULL;
    *out_n = 0;
    DIR *stream = opendir(dir);
    if (!stream)
        return errno == ENOENT ? TC_OK : train_folder_error(ctx, "list", dir);
    tc_held held;
    tc_hold(&held, close_stream, stream);
    errno = 0;
    for (struct dirent *e = readdir(stream); e; errno = 0, e = readdir(stream)) {
        step_folder one;
        if (!read_name(e->d_name, &one))
            continue;
        one.path = tc_arena_printf(arena, "%s/%s", dir, e->d_name);
        *out_folders = tc_arena_grow(arena, *out_folders, sizeof one, &cap, *out_n + 1);
        (*out_folders)[(*out_n)++] = one;
    }
    int failed = errno;
    tc_let_go(&held);
    closedir(stream);
    errno = failed;
    if (failed) {
        *out_n = 0; /* with half a list, missing entries would count as deleted */
        return train_folder_error(ctx, "list", dir);
    }
    if (*out_n > 0)
        qsort(*out_folders, *out_n, sizeof **out_folders, newest_first);
    return TC_OK;
}

/* --- remains ---------------------------------------------------------------------------------- */

/* One that was to be replaced when the process died gets its name back, unless its successor has it. */
static void clean(tc_arena *arena, const char *dir, const step_folder *f) {
    const char *whole = train_folder_path(arena, dir, FOLDER_WHOLE, f->step);
    if (f->kind == FOLDER_REPLACED && access(whole, F_OK) != 0)
        (void)rename(f->path, whole);
    else
        train_remove_folder(f->path);
}

tc_status train_clean_folders(tc_ctx *ctx, const char *dir) {
    step_folder *folders;
    size_t n;
    tc_arena *arena = tc_arena_create();
    tc_status status = train_list_folders(ctx, arena, dir, &folders, &n);
    for (size_t i = 0; status == TC_OK && i < n; i++)
        if (folders[i].kind != FOLDER_WHOLE)
            clean(arena, dir, &folders[i]);
    tc_arena_destroy(arena);
    return status;
}
