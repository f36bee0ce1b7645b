/* train_arrays.c: opening sources. Members of an .npz file that are stored uncompressed, as numpy.savez does, are used
 * in place in the mapped file; compressed, big-endian or Fortran-ordered ones are read by runtime/files/npz.c. The
 * arrays of a .safetensors file are always used in place. */
#include "train_arrays.h"
#include "runtime/files/files.h"
#include "train_zip.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

typedef struct opener {
    tc_ctx *ctx;
    train_files *source;
    const tc_map *wanted;
    const char **strange; /* [n_strange] names that no input has, each once */
    size_t n_strange, cap_strange;
    tc_map *known; /* number of such names */
    const char *copied_name, *copied_path;
    size_t n_copied;
    uint64_t copied_bytes;
} opener;

static bool is_wanted(opener *o, const char *name) {
    if (tc_map_get(o->wanted, name))
        return true;
    if (!tc_map_get(o->known, name)) {
        o->strange = tc_arena_grow(o->source->arena, o->strange, sizeof *o->strange, &o->cap_strange, o->n_strange + 1);
        o->strange[o->n_strange++] = name;
        tc_map_set(o->known, name, o);
    }
    return false;
}

/* --- .npz ------------------------------------------------------------------------------------- */

/* The array in place in the file. False: it has to be copied. */
static tc_status place_member(opener *o, const train_file *file, const train_zip_member *member, train_array *array,
                              bool *out_in_place) {
    const unsigned char *data;
    rt_npy npy;
    *out_in_place = false;
    if (!member->stored)
        return TC_OK;
    TC_TRY(train_zip_data(o->ctx, file->file.data, file->file.size, member, &data));
    TC_TRY(rt_npy_parse(o->ctx, array->name, data, (size_t)member->bytes, &npy));
    if (npy.swapped || (npy.fortran_order && npy.rank > 1))
        return TC_OK;
    int64_t *dims = TC_NEW_ARRAY(o->source->arena, int64_t, (size_t)npy.rank + 1);
    memcpy(dims, npy.dims, (size_t)npy.rank * sizeof *dims);
    *array = (train_array){array->name, npy.dtype, npy.rank, dims, data + npy.header, npy.bytes};
    *out_in_place = true;
    return TC_OK;
}

static bool is_copied(const void *user, const char *name) { return tc_map_get(user, name) != NULL; }

static void free_copied(void *npz) { rt_npz_free(npz); }

/* Reads the arrays that could not be used in place. */
static tc_status copy_members(opener *o, train_file *file, const tc_map *copied) {
    if (tc_map_count(copied) == 0)
        return TC_OK;
    TC_TRY(rt_npz_read(o->ctx, file->path, is_copied, copied, &file->copied));
    tc_hold(&file->held, free_copied, &file->copied);
    for (size_t i = 0; i < file->copied.n; i++) {
        const rt_array *from = &file->copied.arrays[i];
        train_array *to = tc_map_get(copied, from->name);
        if (from->skipped || !to)
            continue;
        const tempo_tensor *t = &from->tensor;
        *to = (train_array){from->name, t->dtype, t->rank, t->dims, t->data, t->bytes};
        o->copied_bytes += t->bytes;
        o->copied_name = from->name;
        o->copied_path = file->path;
        o->n_copied++;
    }
    return TC_OK;
}

static tc_status open_npz(opener *o, train_file *file) {
    train_zip_member *members;
    size_t n;
    tc_arena *arena = o->source->arena;
    TC_TRY(train_zip_list(o->ctx, arena, file->file.data, file->file.size, &members, &n));
    tc_map *copied = tc_map_create(arena), *names = tc_map_create(arena);
    file->arrays = TC_NEW_ARRAY(arena, train_array, n + 1);
    file->names = TC_NEW_ARRAY(arena, const char *, n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(members[i].name);
        const char *name = members[i].name;
        if (tc_ends_with(name, ".npy"))
            name = tc_arena_strndup(arena, name, length - 4);
        file->names[file->n_names++] = name;
        if (!is_wanted(o, name))
            continue;
        train_array *array = &file->arrays[file->n++];
        bool in_place;
        array->name = name;
        if (tc_map_get(names, name))
            return tc_error(o->ctx, TC_BAD_INPUT, NULL, "array '%s': the archive has two of this name",
                            tc_quote(o->ctx, name));
        tc_map_set(names, name, array);
        TC_TRY(place_member(o, file, &members[i], array, &in_place));
        if (!in_place)
            tc_map_set(copied, name, array);
    }
    return copy_members(o, file, copied);
}

/* --- .safetensors ----------------------------------------------------------------------------- */

static void close_header(void *header) { rt_safetensors_close(header); }

static tc_status open_safetensors(opener *o, train_file *file) {
    tc_arena *arena = o->source->arena;
    rt_safetensors header;
    TC_TRY(rt_safetensors_read(o->ctx, file->file.data, file->file.size, &header));
    file->header = header;
    tc_hold(&file->held, close_header, &file->header);
    file->arrays = TC_NEW_ARRAY(arena, train_array, file->header.n + 1);
    file->names = TC_NEW_ARRAY(arena, const char *, file->header.n + 1);
    for (size_t i = 0; i < file->header.n; i++) {
        const rt_array *from = &file->header.arrays[i];
        const tempo_tensor *t = &from->tensor;
        const char *name = tc_arena_strdup(arena, from->name);
        file->names[file->n_names++] = name;
        if (is_wanted(o, name))
            file->arrays[file->n++] = (train_array){name, t->dtype, t->rank, t->dims, t->data, t->bytes};
    }
    return TC_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static const struct {
    const char *suffix;
    tc_status (*open)(opener *o, train_file *file);
} formats[] = {
    {".npz", open_npz},
    {".safetensors", open_safetensors},
};

/* Opens it by the extension of its name. */
static tc_status open_as(opener *o, train_file *file) {
    for (size_t i = 0; i < TC_COUNT(formats); i++)
        if (tc_ends_with(file->path, formats[i].suffix)) {
            TC_TRY(tc_file_open(o->ctx, file->path, &file->file));
            return formats[i].open(o, file);
        }
    TC_TRY(tc_file_open(o->ctx, file->path, &file->file));
    tc_error(o->ctx, TC_BAD_INPUT, NULL, "this is no file of samples");
    tc_hint(o->ctx, "expected a .npz file, as numpy.savez writes it, a .safetensors file, or a folder of such files");
    return TC_BAD_INPUT;
}

static tc_status open_file(opener *o, train_file *file) {
    const char *before = o->ctx->file;
    o->ctx->file = tc_arena_strdup(o->ctx->arena, file->path); /* errors outlive the source */
    TC_TRY(open_as(o, file));
    o->ctx->file = before;
    return TC_OK;
}

static bool is_sample_file(const char *name) {
    bool found = false;
    for (size_t i = 0; i < TC_COUNT(formats); i++)
        found = found || tc_ends_with(name, formats[i].suffix);
    return found && name[0] != '.';
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const train_file *)a)->path, ((const train_file *)b)->path);
}

static void close_folder(void *folder) { closedir(folder); }

static tc_status list_folder(opener *o, const char *path) {
    train_files *s = o->source;
    size_t cap = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return tc_error(o->ctx, TC_IO, NULL, "can't open '%s': %s", tc_quote(o->ctx, path), strerror(errno));
    tc_held held;
    tc_hold(&held, close_folder, folder);
    for (struct dirent *e = readdir(folder); e; e = readdir(folder)) {
        if (!is_sample_file(e->d_name))
            continue;
        s->files = tc_arena_grow(s->arena, s->files, sizeof *s->files, &cap, s->n + 1);
        s->files[s->n++] = (train_file){.path = tc_arena_printf(s->arena, "%s/%s", path, e->d_name)};
    }
    tc_let_go(&held);
    closedir(folder);
    if (s->n == 0)
        return tc_error(o->ctx, TC_BAD_INPUT, NULL, "folder '%s' has no .npz and no .safetensors file",
                        tc_quote(o->ctx, path));
    qsort(s->files, s->n, sizeof *s->files, by_path);
    return TC_OK;
}

static void tell(const opener *o, const char *path) {
    if (o->n_strange > 0)
        tc_note(o->ctx, NULL, "'%s': the model has no input for %s: ignored", tc_quote(o->ctx, path),
                tc_quote_list(o->ctx, o->strange, o->n_strange));
    if (o->n_copied > 0) {
        tc_note(o->ctx, NULL, "%zu array%s read into memory, %.1f MiB, among them '%s' of '%s'", o->n_copied,
                o->n_copied == 1 ? " was" : "s were", (double)o->copied_bytes / (1 << 20),
                tc_quote(o->ctx, o->copied_name), tc_quote(o->ctx, o->copied_path));
        tc_hint(o->ctx, "only uncompressed arrays in C order stay in the file: numpy.savez writes them");
    }
}

static tc_status open_all(opener *o, const char *path) {
    struct stat st;
    train_files *s = o->source;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        TC_TRY(list_folder(o, path));
    } else {
        s->files = TC_NEW(s->arena, train_file);
        s->files[s->n++].path = tc_arena_strdup(s->arena, path);
    }
    for (size_t i = 0; i < s->n; i++)
        TC_TRY(open_file(o, &s->files[i]));
    tell(o, path);
    return TC_OK;
}

static void close_source(void *source) { train_files_close(source); }

tc_status train_files_open(tc_ctx *ctx, tc_arena *arena, const char *path, const tc_map *wanted,
                           train_files *out_source) {
    *out_source = (train_files){.arena = arena};
    tc_hold(&out_source->held, close_source, out_source);
    opener o = {.ctx = ctx, .source = out_source, .wanted = wanted, .known = tc_map_create(arena)};
    tc_status status = open_all(&o, path);
    if (status != TC_OK)
        train_files_close(out_source);
    return status;
}

void train_files_close(train_files *source) {
    tc_let_go(&source->held);
    for (size_t i = 0; i < source->n; i++) {
        tc_let_go(&source->files[i].held);
        if (source->files[i].copied.arena)
            rt_npz_free(&source->files[i].copied);
        if (source->files[i].header.arena)
            rt_safetensors_close(&source->files[i].header);
        tc_file_close(&source->files[i].file);
    }
    *source = (train_files){0};
}

const train_array *train_file_array(const train_file *file, const char *name) {
    for (size_t i = 0; i < file->n; i++)
        if (strcmp(file->arrays[i].name, name) == 0)
            return &file->arrays[i];
    return NULL;
}

bool train_files_are_large(const train_files *source) {
    uint64_t mapped = 0, usable;
    const char *from;
    for (size_t i = 0; i < source->n; i++)
        mapped += source->files[i].file.map ? source->files[i].file.size : 0;
    if (mapped == 0 || mapped < rt_available_memory("", &usable, &from) / 2)
        return false;
    for (size_t i = 0; i < source->n; i++)
        if (source->files[i].file.map)
            posix_madvise(source->files[i].file.map, source->files[i].file.size, POSIX_MADV_RANDOM);
    return true;
}
