/* tensor_map.c: external tensors -> pointers into files mapped read-only, one mapping for each file. A model names its
 * files, and no name may reach a file outside the model's folder, by ".." or by links. Excepted are the links by which
 * a download cache keeps its files (find_blob). So each file is opened relative to the folder: by openat2, which
 * refuses both, or, on a Linux without openat2, one component at a time. */
#include "compiler/ir/ir.h"
#include "compiler/base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- opening below a folder ------------------------------------------------------------------- */

enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

/* Each folder on the way is opened from the one before, none of them a link. */
static int open_by_components(int folder, const char *location) {
    int at = dup(folder);
    while (at >= 0) {
        size_t n = strcspn(location, "/");
        char name[NAME_MAX + 1];
        int next = -1;
        bool last = location[n + strspn(location + n, "/")] == '\0';
        if (n > NAME_MAX || (n == 2 && memcmp(location, "..", 2) == 0)) {
            errno = n > NAME_MAX ? ENAMETOOLONG : EXDEV;
        } else {
            memcpy(name, location, n);
            name[n] = '\0';
            next = openat(at, n ? name : ".", OPEN_FLAGS | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
        }
        int saved = errno;
        close(at);
        errno = saved;
        at = next;
        if (last)
            break;
        location += n;
        location += strspn(location, "/");
    }
    return at;
}

static int open_below(int folder, const char *location) {
    struct open_how how = {.flags = OPEN_FLAGS,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, folder, location, &how, sizeof how);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        fd = open_by_components(folder, location);
    return tc_above_standard((int)fd);
}

/* Huggingface's cache of a model is a folder R with the files in R/blobs, each under its hash, and links to them below
 * R/snapshots/REVISION. Given the real paths of a model's folder and of a file that it names: if that path is such a
 * link and R/blobs has the file, its name there, and the length of "R/blobs". NULL: it is somewhere else. */
static const char *find_blob(const char *folder, const char *file, size_t *out_length) {
    static const char blobs[] = "/blobs", snapshots[] = "/snapshots/";
    const char *slash = strrchr(file, '/');
    size_t n = *out_length = slash ? (size_t)(slash - file) : 0;
    if (n < sizeof blobs || memcmp(slash - strlen(blobs), blobs, strlen(blobs)) != 0)
        return NULL;
    n -= strlen(blobs);
    return strncmp(folder, file, n) == 0 && strncmp(folder + n, snapshots, strlen(snapshots)) == 0 ? slash + 1 : NULL;
}

/* A link of the model's folder into the cache that the folder is a part of. -1 with errno ELOOP: it is another one. */
static int open_blob(const char *folder, const char *location, tc_arena *arena) {
    size_t length;
    int fd = -1;
    char *from = realpath(folder, NULL);
    char *to = realpath(tc_arena_printf(arena, "%s/%s", folder, location), NULL);
    const char *blob = from && to ? find_blob(from, to, &length) : NULL;
    if (blob) {
        int blobs = tc_open(tc_arena_strndup(arena, to, length), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        fd = blobs < 0 ? -1 : open_below(blobs, blob);
        close(blobs);
    }
    free(from);
    free(to);
    if (fd < 0)
        errno = ELOOP;
    return fd;
}

/* --- mapping ---------------------------------------------------------------------------------- */

typedef struct request {
    tc_ctx *ctx;
    tc_model *model;
    const tc_tensor *tensor;
    const char *location; /* quoted */
} request;

static tc_status fail(const request *r, tc_status status, const char *what) {
    return tc_error(r->ctx, status, NULL, "external data of \"%s\": file '%s' %s",
                    tc_quote(r->ctx, r->tensor->name ? r->tensor->name : ""), r->location, what);
}

/* The folder that locations are relative to. */
static const char *folder_of(const request *r) {
    const char *path = r->model->path, *slash = path ? strrchr(path, '/') : NULL;
    return !slash ? "." : slash == path ? "/" : tc_arena_strndup(r->ctx->arena, path, (size_t)(slash - path));
}

static tc_status fail_open(const request *r) {
    if (errno == ELOOP) {
        fail(r, TC_BAD_INPUT, "is a symbolic link or reached through one; links are not followed");
        tc_hint(r->ctx, "only links from snapshots to blobs of one cache are followed; copy model and weights to a "
                        "folder, by cp -L");
        return TC_BAD_INPUT;
    }
    if (errno == EXDEV)
        return fail(r, TC_BAD_INPUT, "leaves the model's folder");
    tc_status status = errno == ENOMEM ? TC_LIMIT : TC_IO;
    bool missing = errno == ENOENT;
    fail(r, status, tc_arena_printf(r->ctx->arena, "can't be opened: %s", strerror(errno)));
    if (missing)
        tc_hint(r->ctx, "weights belong beside the model, in the folder '%s'", tc_quote(r->ctx, folder_of(r)));
    return status;
}

static tc_status map_file(const request *r, int fd, tc_file *out_file) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_open(r);
    if (!S_ISREG(st.st_mode))
        return fail(r, TC_BAD_INPUT, "is no regular file");
    if (st.st_nlink != 1) {
        fail(r, TC_BAD_INPUT, "has several hard links: it may be a file from elsewhere");
        tc_hint(r->ctx, "copy model and weights to a folder, by cp");
        return TC_BAD_INPUT;
    }
    TC_TRY(tc_written_check(r->ctx, &st, r->location));
    *out_file = (tc_file){.size = (size_t)st.st_size};
    if (!st.st_size)
        return TC_OK;
    void *map = mmap(NULL, out_file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return fail_open(r);
    out_file->data = out_file->map = map;
    return TC_OK;
}

static tc_status open_mapping(const request *r, tc_file **out_file) {
    const char *location = r->tensor->external->location;
    if (r->model->maps && (*out_file = tc_map_get(r->model->maps, location)) != NULL)
        return TC_OK;
    int at = open(folder_of(r), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return fail_open(r);
    int fd = open_below(at, location);
    if (fd < 0 && errno == ELOOP)
        fd = open_blob(folder_of(r), location, r->ctx->arena);
    int saved = errno;
    close(at);
    errno = saved;
    if (fd < 0)
        return fail_open(r);
    tc_file file;
    tc_held held;
    tc_hold(&held, tc_close_fd, &fd);
    tc_status status = map_file(r, fd, &file);
    tc_let_go(&held);
    close(fd);
    TC_TRY(status);
    tc_model_keep(r->model, location, &file);
    *out_file = tc_map_get(r->model->maps, location);
    return TC_OK;
}

/* Data that is not aligned for its type is copied once. */
static const void *aligned(const request *r, const char *data) {
    size_t align = tc_dtype_bits(r->tensor->dtype) >= 64 ? 8 : tc_dtype_bits(r->tensor->dtype) / 8;
    if (align < 2 || (uintptr_t)data % align == 0)
        return data;
    const char *key = tc_arena_printf(r->ctx->arena, "/copy %p", (const void *)r->tensor);
    tc_file *known = tc_map_get(r->model->maps, key);
    if (known)
        return known->data;
    key = tc_arena_strdup(r->model->arena, key);
    void *copy = mmap(NULL, r->tensor->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        tc_out_of_memory(r->tensor->bytes);
    memcpy(copy, data, r->tensor->bytes);
    tc_model_keep(r->model, key, &(tc_file){.data = copy, .size = r->tensor->bytes, .map = copy});
    return copy;
}

tc_status tc_tensor_map(tc_ctx *ctx, tc_model *model, const tc_tensor *tensor, const void **out_data) {
    const tc_external *e = tensor->external;
    *out_data = tensor->data;
    if (tensor->data)
        return TC_OK;
    if (!e)
        return tc_error(ctx, TC_UNSUPPORTED, NULL,
                        "tensor \"%s\" has no usable data: it holds strings, or is sparse and large",
                        tc_quote(ctx, tensor->name ? tensor->name : ""));
    if (!tensor->bytes) {
        *out_data = "";
        return TC_OK;
    }
    request r = {ctx, model->source ? model->source : model, tensor, tc_quote(ctx, e->location)};
    tc_file *file = NULL;
    TC_TRY(open_mapping(&r, &file));
    if (e->offset > file->size || tensor->bytes > file->size - e->offset)
        return fail(&r, TC_BAD_INPUT,
                    tc_arena_printf(ctx->arena, "has %zu bytes, but bytes %" PRIu64 " to %" PRIu64 " are wanted",
                                    file->size, e->offset, e->offset + tensor->bytes));
    *out_data = aligned(&r, (const char *)file->data + e->offset);
    return TC_OK;
}

const void *tc_tensor_peek(tc_model *model, const tc_tensor *tensor) {
    const void *data = NULL;
    tc_ctx quiet;
    tc_ctx_init(&quiet, "tempoc");
    if (tc_tensor_map(&quiet, model, tensor, &data) != TC_OK)
        data = NULL;
    tc_ctx_fini(&quiet);
    return data;
}
