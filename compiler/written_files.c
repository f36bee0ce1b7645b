/* written_files.c: from the files that a command line and a model name to a refusal, where one would be written that is
 * read, or written twice. Files that exist are told apart by device and inode, whatever paths lead to them; others by
 * their folder's real path and their name. */
#include "onnx_io.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a file that is not there yet. NULL: its folder is not there either. */
static char *normal_path(tc_ctx *ctx, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *folder = !slash          ? "."
                         : slash == path ? "/"
                                         : tc_arena_strndup(ctx->arena, path, (size_t)(slash - path));
    char *real = realpath(folder, NULL);
    char *normal = real ? tc_arena_printf(ctx->arena, "%s/%s", real, name) : NULL;
    free(real);
    return normal;
}

/* Devices and pipes can be shared. */
static bool same_file(tc_ctx *ctx, const char *a, const char *b) {
    struct stat at_a, at_b;
    if (strcmp(a, "-") == 0 || strcmp(b, "-") == 0)
        return false;
    bool a_is = stat(a, &at_a) == 0, b_is = stat(b, &at_b) == 0;
    if (a_is || b_is)
        return a_is && b_is && S_ISREG(at_a.st_mode) && at_a.st_dev == at_b.st_dev && at_a.st_ino == at_b.st_ino;
    const char *normal_a = normal_path(ctx, a), *normal_b = normal_path(ctx, b);
    return normal_a && normal_b && strcmp(normal_a, normal_b) == 0;
}

static tc_status refuse(tc_ctx *ctx, const tc_written *file, const char *reason, const char *other) {
    tc_error(ctx, TC_USAGE, NULL, "%s %s would write over %s%s", file->option, tc_quote(ctx, file->path), reason,
             tc_quote(ctx, other));
    tc_hint(ctx, "choose another name behind %s", file->option);
    return TC_USAGE;
}

tc_status tc_check_written(tc_ctx *ctx, const tc_written *written, size_t n_written, const char *const *read,
                           size_t n_read) {
    for (size_t i = 0; i < n_written; i++) {
        for (size_t k = 0; written[i].path && k < n_read; k++)
            if (read[k] && same_file(ctx, written[i].path, read[k]))
                return refuse(ctx, &written[i], "a file that is read: ", read[k]);
        for (size_t k = 0; written[i].path && k < i; k++)
            if (written[k].path && same_file(ctx, written[i].path, written[k].path))
                return refuse(ctx, &written[i], "the file of ", written[k].option);
    }
    return TC_OK;
}

/* --- whether a file can be written ------------------------------------------------------------- */

static const char *folder_of(tc_ctx *ctx, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return ".";
    return slash == path ? "/" : tc_arena_strndup(ctx->arena, path, (size_t)(slash - path));
}

tc_status tc_check_writable(tc_ctx *ctx, const char *path) {
    struct stat st;
    if (*path == '\0')
        return tc_error(ctx, TC_USAGE, NULL, "the output file's name is empty");
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return tc_error(ctx, TC_IO, NULL, "%s is a folder; expected a file to write", tc_quote(ctx, path));
    const char *folder = folder_of(ctx, path);
    if (access(folder, W_OK | X_OK) != 0)
        return tc_error(ctx, TC_IO, NULL, "cannot write to the folder %s: %s", tc_quote(ctx, folder), strerror(errno));
    return TC_OK;
}

/* --- what a model reads ----------------------------------------------------------------------- */

typedef struct weights {
    tc_ctx *ctx;
    const char *folder; /* with its slash; "" for the one that the program is in */
    tc_map *seen;
    const char **paths;
    size_t n, capacity;
} weights;

static void add_tensor(weights *w, const tc_tensor *tensor) {
    if (!tensor || !tensor->external || tc_map_get(w->seen, tensor->external->location))
        return;
    tc_map_set(w->seen, tensor->external->location, w);
    w->paths = tc_arena_grow(w->ctx->arena, w->paths, sizeof *w->paths, &w->capacity, w->n + 1);
    w->paths[w->n++] = tc_arena_printf(w->ctx->arena, "%s%s", w->folder, tensor->external->location);
}

static void add_graph(weights *w, const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_initializers; i++)
        add_tensor(w, graph->initializers[i]->init);
    TC_FOR_NODES(node, graph) {
        for (uint32_t i = 0; i < node->n_attrs; i++) {
            const tc_attr *attr = &node->attrs[i];
            if (attr->kind == TC_ATTR_TENSOR)
                add_tensor(w, attr->t);
            for (size_t k = 0; attr->kind == TC_ATTR_TENSORS && k < attr->count; k++)
                add_tensor(w, attr->tensors[k]);
        }
        TC_FOR_NESTED(nested, node)
            add_graph(w, nested);
    }
}

tc_status tc_check_weights(tc_ctx *ctx, const tc_written *written, size_t n_written, const tc_model *model) {
    const char *slash = model->path ? strrchr(model->path, '/') : NULL;
    bool any = false;
    for (size_t i = 0; i < n_written; i++)
        any = any || written[i].path;
    if (!any)
        return TC_OK;
    weights w = {.ctx = ctx, .folder = "", .seen = tc_map_create(ctx->arena)};
    if (slash)
        w.folder = tc_arena_strndup(ctx->arena, model->path, (size_t)(slash - model->path) + 1);
    add_graph(&w, model->graph);
    for (size_t i = 0; i < model->n_functions; i++)
        add_graph(&w, model->functions[i]->body);
    return tc_check_written(ctx, written, n_written, w.paths, w.n);
}
