/* written_files.c: refuses an output that would replace a file that is read, another output, or a file that no program
 * of ours wrote for that option. Existing files are compared by device and inode, whatever paths, links and folders
 * lead to them; others by their folder's real path and their name. Every opened input is checked here (file.c,
 * tensor_map.c): no list of inputs can miss one. */
#include "file.h"
#include "written_files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 10, HEAD = 4096, TAIL = 64 };

typedef struct output {
    tc_written file;
    bool exists; /* as a plain file */
    dev_t device;
    ino_t inode;
} output;

typedef struct written_set {
    output outputs[MOST];
    size_t n;
} written_set;

static written_set of_program;             /* by tc_written_begin */
static _Thread_local written_set *of_call; /* by tc_written_enter; NULL: that of the program counts */

static written_set *current(void) { return of_call ? of_call : &of_program; }

/* --- one file, two names ---------------------------------------------------------------------- */

static const char *folder_of(tc_ctx *ctx, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return ".";
    return slash == path ? "/" : tc_arena_strndup(ctx->arena, path, (size_t)(slash - path));
}

/* Of a file that does not exist yet. NULL: its folder does not exist either. */
static char *normal_path(tc_ctx *ctx, const char *path) {
    const char *slash = strrchr(path, '/');
    char *real = realpath(folder_of(ctx, path), NULL);
    char *normal = real ? tc_arena_printf(ctx->arena, "%s/%s", real, slash ? slash + 1 : path) : NULL;
    free(real);
    return normal;
}

static bool is_file(const output *o, const struct stat *st) {
    return o->exists && o->device == st->st_dev && o->inode == st->st_ino;
}

/* Devices and pipes can be shared. */
static bool are_same(tc_ctx *ctx, const output *x, const output *y) {
    if (x->exists || y->exists)
        return y->exists && is_file(x, &(struct stat){.st_dev = y->device, .st_ino = y->inode});
    const char *a = normal_path(ctx, x->file.path), *b = normal_path(ctx, y->file.path);
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
    const written_set *set = current();
    for (size_t i = 0; i < set->n; i++)
        if (is_file(&set->outputs[i], read))
            return refuse(ctx, &set->outputs[i].file, "a file that is read: ", path);
    return TC_OK;
}

tc_status tc_written_check_beside(tc_ctx *ctx, const char *location) {
    struct stat st;
    if (current()->n == 0)
        return TC_OK;
    const char *path = tc_arena_printf(ctx->arena, "%s/%s", folder_of(ctx, ctx->file ? ctx->file : ""), location);
    return stat(path, &st) == 0 ? tc_written_check(ctx, &st, location) : TC_OK;
}

/* --- which program wrote a file --------------------------------------------------------------- */

/* Words near the beginning or the end of a file; one of them shows its kind. */
static const struct {
    const char *what, *words[2];
} kinds[] = {
    [TC_WRITTEN_MODEL] = {"an ONNX model", {"ir_version:", NULL}},
    [TC_WRITTEN_REPORT] = {"a report by tempoc", {"{\n\t\"input\":\t\"", "<title>Memory of "}},
    [TC_WRITTEN_BUG] = {"a graph that tempoc left", {"# The graph before the pass ", NULL}},
    [TC_WRITTEN_ARRAYS] = {"an archive by tempo-run --outputs", {TC_WRITTEN_ARRAYS_BY, NULL}},
    [TC_WRITTEN_PROFILE] = {"a profile by tempo-run", {"\"traceEvents\":", "node,op,operands,result,runs,"}},
    [TC_WRITTEN_WEIGHTS] = {"a file of weights by tempo-train", {TC_WRITTEN_WEIGHTS_BY, TC_WRITTEN_ADAPTER_BY}},
    [TC_WRITTEN_ADAPTER] = {"an adapter of ONNX Runtime's", {"TORT", NULL}},
    [TC_WRITTEN_SETTINGS] = {"a configuration of PEFT's", {"\"peft_type\"", NULL}},
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

/* As far as can be seen without writing. */
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

static void add(written_set *set, tc_written file, int found, const struct stat *st) {
    TC_ASSERT(set->n < MOST);
    set->outputs[set->n++] = (output){file, found == 0 && S_ISREG(st->st_mode), st->st_dev, st->st_ino};
}

static tc_status add_all(tc_ctx *ctx, written_set *set, const tc_written *written, size_t n) {
    struct stat st = {0};
    for (size_t i = 0; i < n; i++) {
        if (!written[i].path || strcmp(written[i].path, "-") == 0)
            continue;
        TC_TRY(check_writable(ctx, written[i].path));
        add(set, written[i], stat(written[i].path, &st), &st);
        for (size_t k = 0; k + 1 < set->n; k++)
            if (are_same(ctx, &set->outputs[set->n - 1], &set->outputs[k]))
                return refuse(ctx, &written[i], "the file of ", set->outputs[k].file.option);
        TC_TRY(tc_written_check_kind(ctx, &written[i]));
    }
    return TC_OK;
}

tc_status tc_written_begin(tc_ctx *ctx, const tc_written *written, size_t n) {
    struct stat st = {0};
    TC_TRY(add_all(ctx, &of_program, written, n));
    add(&of_program, (tc_written){.option = "standard output"}, fstat(STDOUT_FILENO, &st), &st);
    add(&of_program, (tc_written){.option = "standard error"}, fstat(STDERR_FILENO, &st), &st);
    return TC_OK;
}

tc_status tc_written_enter(tc_ctx *ctx, const tc_written *written, size_t n) {
    of_call = TC_NEW(ctx->arena, written_set);
    return add_all(ctx, of_call, written, n);
}

void tc_written_leave(void) { of_call = NULL; }
