/* written_files.c: from the files that a command line names to a refusal, where an output would replace a file that is
 * read, another output, or what no program of ours wrote for that option. Files that exist are told apart by device and
 * inode, whatever paths, links and folders lead to them; others by their folder's real path and their name. Every file
 * that is read comes by (file.c, tensor_map.c), so that no list of inputs can miss one. */
#include "file.h"
#include "written_files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 8, HEAD = 4096, TAIL = 64 };

/* Set by tc_written_begin alone: a program calls it once, libtempo never. */
static struct {
    tc_written file;
    bool exists; /* as a plain file */
    dev_t device;
    ino_t inode;
} outputs[MOST];
static size_t n_outputs;

/* --- one file, two names ---------------------------------------------------------------------- */

static const char *folder_of(tc_ctx *ctx, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return ".";
    return slash == path ? "/" : tc_arena_strndup(ctx->arena, path, (size_t)(slash - path));
}

/* Of a file that is not there yet. NULL: its folder is not there either. */
static char *normal_path(tc_ctx *ctx, const char *path) {
    const char *slash = strrchr(path, '/');
    char *real = realpath(folder_of(ctx, path), NULL);
    char *normal = real ? tc_arena_printf(ctx->arena, "%s/%s", real, slash ? slash + 1 : path) : NULL;
    free(real);
    return normal;
}

static bool is_output(size_t i, const struct stat *st) {
    return outputs[i].exists && outputs[i].device == st->st_dev && outputs[i].inode == st->st_ino;
}

/* Devices and pipes can be shared. */
static bool are_same(tc_ctx *ctx, size_t i, size_t k) {
    if (outputs[i].exists || outputs[k].exists)
        return outputs[k].exists &&
               is_output(i, &(struct stat){.st_dev = outputs[k].device, .st_ino = outputs[k].inode});
    const char *a = normal_path(ctx, outputs[i].file.path), *b = normal_path(ctx, outputs[k].file.path);
    return a && b && strcmp(a, b) == 0 && access(a, F_OK) != 0;
}

static tc_status refuse(tc_ctx *ctx, const tc_written *file, const char *reason, const char *other) {
    if (!file->path) {
        tc_error(ctx, TC_USAGE, NULL, "%s goes to %s%s", file->option, reason, tc_quote(ctx, other));
        tc_hint(ctx, "send it to another file");
        return TC_USAGE;
    }
    tc_error(ctx, TC_USAGE, NULL, "%s %s would write over %s%s", file->option, tc_quote(ctx, file->path), reason,
             tc_quote(ctx, other));
    tc_hint(ctx, "choose another name for %s", file->option);
    return TC_USAGE;
}

tc_status tc_written_check(tc_ctx *ctx, const struct stat *read, const char *path) {
    for (size_t i = 0; i < n_outputs; i++)
        if (is_output(i, read))
            return refuse(ctx, &outputs[i].file, "a file that is read: ", path);
    return TC_OK;
}

tc_status tc_written_check_beside(tc_ctx *ctx, const char *location) {
    struct stat st;
    if (n_outputs == 0)
        return TC_OK;
    const char *path = tc_arena_printf(ctx->arena, "%s/%s", folder_of(ctx, ctx->file ? ctx->file : ""), location);
    return stat(path, &st) == 0 ? tc_written_check(ctx, &st, location) : TC_OK;
}

/* --- whose file it is ------------------------------------------------------------------------- */

/* The words that one of which a file has near its beginning or at its end. */
static const struct {
    const char *what, *words[2];
} kinds[] = {
    [TC_WRITTEN_MODEL] = {"an ONNX model", {"ir_version:", NULL}},
    [TC_WRITTEN_REPORT] = {"a report by tempoc", {"{\n\t\"input\":\t\"", "<title>Memory of "}},
    [TC_WRITTEN_BUG] = {"a graph that tempoc left", {"# The graph before the pass ", NULL}},
    [TC_WRITTEN_ARRAYS] = {"an archive by tempo-run --outputs", {TC_WRITTEN_ARRAYS_BY, NULL}},
    [TC_WRITTEN_PROFILE] = {"a profile by tempo-run", {"\"traceEvents\":", "node,op,operands,result,runs,"}},
    [TC_WRITTEN_WEIGHTS] = {"a file by tempo-train --save-weights", {TC_WRITTEN_WEIGHTS_BY, NULL}},
    [TC_WRITTEN_LOG] = {"a log by tempo-train", {"{\"step\": ", "{\"eval\": true, \"step\": "}},
    [TC_WRITTEN_PLACES] = {"an answer by tempoc-plan, with a column offset", {",offset", NULL}},
};

typedef struct piece {
    char bytes[HEAD + TAIL];
    size_t n;
} piece;

/* The beginning of a file, and its end. False: it cannot be read. */
static bool read_piece(const char *path, piece *out) {
    struct stat st;
    int fd = tc_open(path, O_RDONLY);
    if (fd < 0)
        return false;
    ssize_t head = pread(fd, out->bytes, HEAD, 0), tail = -1;
    if (head >= 0 && fstat(fd, &st) == 0)
        tail = pread(fd, out->bytes + head, TAIL, st.st_size > head + TAIL ? st.st_size - TAIL : head);
    close(fd);
    out->n = tail < 0 ? 0 : (size_t)(head + tail);
    return tail >= 0;
}

static bool has(const piece *p, const char *word) {
    size_t length = strlen(word);
    for (size_t at = 0; at + length <= p->n; at++)
        if (memcmp(p->bytes + at, word, length) == 0)
            return true;
    return false;
}

/* ModelProto begins with its ir_version, which is small. */
static bool is_protobuf(const piece *p) { return p->n > 2 && p->bytes[0] == 8 && p->bytes[1] > 0 && p->bytes[1] < 32; }

static bool is_kind(const piece *p, tc_written_kind kind) {
    bool found = p->n == 0 || (kind == TC_WRITTEN_MODEL && is_protobuf(p));
    for (size_t i = 0; i < TC_COUNT(kinds[kind].words) && kinds[kind].words[i]; i++)
        found = found || has(p, kinds[kind].words[i]);
    return found;
}

static bool is_in_checkpoint(tc_ctx *ctx, const char *path) {
    piece p;
    const char *state = tc_arena_printf(ctx->arena, "%s/state", folder_of(ctx, path));
    return access(state, F_OK) == 0 && read_piece(state, &p) && has(&p, "tempo-train checkpoint ");
}

tc_status tc_written_check_kind(tc_ctx *ctx, const tc_written *written) {
    piece p;
    struct stat st;
    const char *path = written->path;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return TC_OK;
    if (is_in_checkpoint(ctx, path))
        return refuse(ctx, written, "a part of a checkpoint", "");
    if (!read_piece(path, &p))
        return tc_error(ctx, TC_IO, NULL, "can't look at '%s', which %s would replace: %s", tc_quote(ctx, path),
                        written->option, strerror(errno));
    if (is_kind(&p, written->kind))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "%s %s would write over a file that is not %s", written->option, tc_quote(ctx, path),
             kinds[written->kind].what);
    tc_hint(ctx, "give another name, or remove the file");
    return TC_USAGE;
}

/* --- before the work -------------------------------------------------------------------------- */

/* As far as can be told without writing. */
static tc_status check_writable(tc_ctx *ctx, const char *path) {
    struct stat st;
    if (*path == '\0')
        return tc_error(ctx, TC_USAGE, NULL, "the output file's name is empty");
    bool exists = stat(path, &st) == 0;
    if (!exists && lstat(path, &st) == 0)
        return tc_error(ctx, TC_IO, NULL, "%s is a link to a file that is not there", tc_quote(ctx, path));
    if (exists && S_ISDIR(st.st_mode))
        return tc_error(ctx, TC_IO, NULL, "%s is a folder; expected a file to write", tc_quote(ctx, path));
    const char *folder = folder_of(ctx, path);
    if ((!exists || S_ISREG(st.st_mode)) && access(folder, W_OK | X_OK) != 0)
        return tc_error(ctx, TC_IO, NULL, "cannot write to the folder %s: %s", tc_quote(ctx, folder), strerror(errno));
    return TC_OK;
}

static void add(tc_written file, int found, const struct stat *st) {
    TC_ASSERT(n_outputs < MOST);
    outputs[n_outputs].file = file;
    outputs[n_outputs].exists = found == 0 && S_ISREG(st->st_mode);
    outputs[n_outputs].device = st->st_dev;
    outputs[n_outputs++].inode = st->st_ino;
}

tc_status tc_written_begin(tc_ctx *ctx, const tc_written *written, size_t n) {
    struct stat st = {0};
    for (size_t i = 0; i < n; i++) {
        if (!written[i].path || strcmp(written[i].path, "-") == 0)
            continue;
        TC_TRY(check_writable(ctx, written[i].path));
        add(written[i], stat(written[i].path, &st), &st);
        for (size_t k = 0; k + 1 < n_outputs; k++)
            if (are_same(ctx, n_outputs - 1, k))
                return refuse(ctx, &written[i], "the file of ", outputs[k].file.option);
        TC_TRY(tc_written_check_kind(ctx, &written[i]));
    }
    add((tc_written){.option = "standard output"}, fstat(STDOUT_FILENO, &st), &st);
    add((tc_written){.option = "standard error"}, fstat(STDERR_FILENO, &st), &st);
    return TC_OK;
}
