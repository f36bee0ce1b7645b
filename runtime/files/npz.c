/* npz.c: .npz archives by libzip, which knows deflate and zip64. */
#include "npz.h"
#include "compiler/base/base.h"
#include "available.h"
#include "npy.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct reader {
    tc_ctx *ctx;
    zip_t *zip;
    rt_npz *npz;
    rt_npz_wants wants;
    const void *user;
    const char *key;
    uint64_t unchecked; /* bytes taken since free memory was asked for */
} reader;

/* Asking reads files of the system: too slow for each of thousands of small arrays. */
#define CHECK_EVERY (UINT64_C(1) << 20)

static tc_status bad(const reader *r, const char *what) {
    return tc_error(r->ctx, TC_BAD_INPUT, NULL, "array '%s': %s", tc_quote(r->ctx, r->key), what);
}

static void *aligned(size_t bytes) {
    void *memory = bytes > SIZE_MAX - 128 ? NULL : aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (!memory)
        tc_out_of_memory(bytes);
    return memory;
}

/* Sizes are claims until they are read: a deflated byte gives 1,032 at most, so a member that claims more is refused
 * before memory is taken for it. */
static tc_status check_sizes(const reader *r, const zip_stat_t *stat) {
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((stat->valid & needed) != needed)
        return bad(r, "its size is not given");
    if (stat->comp_method != ZIP_CM_STORE && stat->comp_method != ZIP_CM_DEFLATE)
        return bad(r, "it is neither stored nor deflated");
    if (stat->comp_method == ZIP_CM_STORE ? stat->size != stat->comp_size : stat->size / 1032 > stat->comp_size + 64)
        return bad(r, "its size cannot be what the archive says");
    return TC_OK;
}

static tc_status read_member(const reader *r, zip_uint64_t index, const zip_stat_t *stat, unsigned char *bytes) {
    zip_file_t *file = zip_fopen_index(r->zip, index, 0);
    if (!file)
        return bad(r, zip_strerror(r->zip));
    zip_uint64_t done = 0;
    zip_int64_t got = 1;
    while (done < stat->size && (got = zip_fread(file, bytes + done, stat->size - done)) > 0)
        done += (zip_uint64_t)got;
    unsigned char extra;
    bool whole = done == stat->size && zip_fread(file, &extra, 1) == 0; /* reading to the end checks the CRC */
    zip_fclose(file);
    return whole ? TC_OK : bad(r, got < 0 || done == stat->size ? "its bytes are damaged" : "it is cut off");
}

/* The member's bytes serve as the array's memory where the elements can stay where they are. */
static tc_status take_array(const reader *r, size_t size, rt_array *array) {
    rt_npy npy;
    unsigned char *bytes = array->memory;
    TC_TRY(rt_npy_parse(r->ctx, r->key, bytes, size, &npy));
    void *data = bytes + npy.header;
    if (npy.swapped || npy.fortran_order || npy.header % 64 != 0) {
        data = aligned(npy.bytes);
        rt_npy_elements(&npy, bytes, data);
        free(bytes);
        array->memory = data;
    }
    int64_t *dims = TC_NEW_ARRAY(r->npz->arena, int64_t, (size_t)npy.rank + 1);
    memcpy(dims, npy.dims, (size_t)npy.rank * sizeof *dims);
    array->tensor = (tempo_tensor){npy.dtype, npy.rank, dims, data, npy.bytes};
    return TC_OK;
}

static tc_status read_array(reader *r, zip_uint64_t index, rt_array *array) {
    zip_stat_t stat;
    if (zip_stat_index(r->zip, index, ZIP_FL_ENC_RAW, &stat) != 0 || (stat.valid & ZIP_STAT_NAME) == 0)
        return tc_error(r->ctx, TC_BAD_INPUT, NULL, "member %llu of the archive cannot be read",
                        (unsigned long long)index);
    size_t length = strlen(stat.name);
    bool npy = length > 4 && strcmp(stat.name + length - 4, ".npy") == 0;
    r->key = tc_arena_strndup(r->npz->arena, stat.name, npy ? length - 4 : length);
    array->name = r->key;
    array->skipped = !r->wants(r->user, r->key);
    if (array->skipped)
        return TC_OK;
    if (!npy) {
        tc_status status = bad(r, "the archive's member is no .npy file");
        if (tc_ends_with(r->key, "data.pkl"))
            tc_hint(r->ctx,
                    "this is a file of torch.save: safetensors.torch.save_file writes weights that are read here");
        return status;
    }
    TC_TRY(check_sizes(r, &stat));
    r->unchecked += stat.size < CHECK_EVERY ? stat.size : CHECK_EVERY;
    if (r->unchecked >= CHECK_EVERY) {
        const char *what = tc_arena_printf(r->ctx->arena, "array '%s'", tc_quote(r->ctx, r->key));
        TC_TRY(rt_check_memory(r->ctx, what, stat.size));
        r->unchecked = 0;
    }
    array->memory = aligned((size_t)stat.size);
    TC_TRY(read_member(r, index, &stat, array->memory));
    return take_array(r, (size_t)stat.size, array);
}

static tc_status read_all(reader *r) {
    zip_int64_t n = zip_get_num_entries(r->zip, 0);
    tc_map *names = tc_map_create(r->npz->arena);
    r->npz->arrays = TC_NEW_ARRAY(r->npz->arena, rt_array, (size_t)n + 1);
    for (zip_int64_t i = 0; i < n; i++) {
        rt_array *array = &r->npz->arrays[r->npz->n++];
        TC_TRY(read_array(r, (zip_uint64_t)i, array));
        if (tc_map_get(names, array->name))
            return bad(r, "the archive has two of this name");
        tc_map_set(names, array->name, array);
    }
    return TC_OK;
}

static tc_status open_zip(tc_ctx *ctx, const char *path, const tc_file *file, zip_t **out_zip) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(file->data, file->size, 0, &error);
    *out_zip = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    tc_status status = *out_zip ? TC_OK : zip_error_code_zip(&error) == ZIP_ER_MEMORY ? TC_LIMIT : TC_BAD_INPUT;
    if (!*out_zip) {
        const char *why =
            zip_error_code_zip(&error) == ZIP_ER_NOENT ? "its directory is damaged" : zip_error_strerror(&error);
        tc_error(ctx, status, NULL, "cannot read '%s' as .npz: %s", tc_quote(ctx, path), why);
        if (status == TC_BAD_INPUT)
            tc_hint_no_archive(ctx, file->data, file->size);
        zip_source_free(source);
    }
    zip_error_fini(&error);
    return status;
}

static void discard(void *zip) { zip_discard(zip); }

static void free_arrays(void *npz) { rt_npz_free(npz); }

static tc_status read_zip(tc_ctx *ctx, const char *path, const tc_file *file, rt_npz_wants wants, const void *user,
                          rt_npz *out_npz) {
    zip_t *zip = NULL;
    TC_TRY(open_zip(ctx, path, file, &zip));
    tc_held held_zip, held_npz;
    *out_npz = (rt_npz){0};
    tc_hold(&held_zip, discard, zip);
    out_npz->arena = tc_arena_create();
    tc_hold(&held_npz, free_arrays, out_npz);
    reader r = {ctx, zip, out_npz, wants, user, ""};
    tc_status status = read_all(&r);
    tc_let_go(&held_npz);
    tc_let_go(&held_zip);
    zip_discard(zip);
    if (status != TC_OK)
        rt_npz_free(out_npz);
    return status;
}

tc_status rt_npz_read(tc_ctx *ctx, const char *path, rt_npz_wants wants, const void *user, rt_npz *out_npz) {
    tc_file file;
    tc_held held;
    *out_npz = (rt_npz){0};
    TC_TRY(tc_file_open(ctx, path, &file));
    tc_file_hold(&file, &held);
    tc_status status = read_zip(ctx, path, &file, wants, user, out_npz);
    tc_let_go(&held);
    tc_file_close(&file);
    return status;
}

void rt_npz_free(rt_npz *npz) {
    for (size_t i = 0; i < npz->n; i++)
        free(npz->arrays[i].memory);
    tc_arena_destroy(npz->arena);
    *npz = (rt_npz){0};
}

/* --- writing ---------------------------------------------------------------------------------- */

#define MADE 315532800 /* 1980-01-01, the first day of zip's calendar: the same tensors give the same bytes */

enum { LONGEST = 65000 }; /* bytes of a member's name, of 65535 that a zip archive holds */

/* Names of a zip archive hold no control characters but tab and the ends of lines. */
static bool is_held(char c) { return (unsigned char)c >= 0x20 || c == '\t' || c == '\n' || c == '\r'; }

/* The array's name, \xNN for bytes that the archive cannot hold, cut where it is too long (between two characters),
 * with a number where another array has this name already. */
static const char *member_name(tc_arena *arena, tc_map *taken, const char *name) {
    size_t most = 4 * strlen(name);
    char *text = tc_arena_alloc(arena, (most < LONGEST ? most : LONGEST) + 8, 1), *end = text;
    for (; *name && end - text < LONGEST; name++) {
        bool held = is_held(*name);
        if (held)
            *end = *name;
        else
            snprintf(end, 5, "\\x%02X", (unsigned char)*name);
        end += held ? 1 : 4;
    }
    while (end > text && ((unsigned char)*name & 0xC0) == 0x80) { /* the rest of a character was left out */
        end--;
        name--;
    }
    *end = '\0';
    const char *unique = text;
    for (unsigned i = 2; tc_map_get(taken, unique); i++)
        unique = tc_arena_printf(arena, "%s_%u", text, i);
    tc_map_set(taken, unique, taken);
    return unique;
}

static bool add_array(zip_t *zip, tc_arena *arena, tc_map *taken, const rt_array *array) {
    char *header = tc_arena_alloc(arena, 1, RT_NPY_HEADER);
    zip_buffer_fragment_t parts[] = {{(zip_uint8_t *)header, rt_npy_header(&array->tensor, header)},
                                     {array->tensor.data, array->tensor.bytes}};
    zip_source_t *source = zip_source_buffer_fragment(zip, parts, array->tensor.bytes > 0 ? 2 : 1, 0);
    const char *name = tc_arena_printf(arena, "%s.npy", member_name(arena, taken, array->name));
    zip_int64_t index = source ? zip_file_add(zip, name, source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0)
        zip_source_free(source);
    return index >= 0 && zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_mtime(zip, (zip_uint64_t)index, MADE, 0) == 0;
}

/* libzip replaces the target by a new file: only where that is a plain file, never a device. */
static tc_status check_target(tc_ctx *ctx, const char *temp, const char *path) {
    struct stat st;
    if (temp && stat(temp, &st) == 0 && S_ISREG(st.st_mode))
        return TC_OK;
    return tc_error(ctx, TC_IO, NULL, "cannot write .npz to '%s': it is not a plain file", tc_quote(ctx, path));
}

static bool sync_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

static tc_status write_zip(tc_ctx *ctx, const char *temp, const char *path, const rt_array *arrays, size_t n) {
    int code = 0;
    tc_arena *arena = tc_arena_create();
    tc_map *taken = tc_map_create(arena);
    zip_t *zip = zip_open(temp, ZIP_CREATE | ZIP_TRUNCATE, &code);
    bool ok = zip != NULL;
    tc_held held = {0};
    if (zip)
        tc_hold(&held, discard, zip);
    for (size_t i = 0; ok && i < n; i++)
        ok = add_array(zip, arena, taken, &arrays[i]);
    tc_let_go(&held);
    ok = ok && zip_set_archive_comment(zip, TC_WRITTEN_ARRAYS_BY, sizeof TC_WRITTEN_ARRAYS_BY - 1) == 0;
    if (!ok || zip_close(zip) != 0) {
        tc_error(ctx, TC_IO, NULL, "cannot write '%s': %s", tc_quote(ctx, path),
                 zip ? zip_strerror(zip) : "the file cannot be made");
        if (zip)
            zip_discard(zip);
        ok = false;
    }
    tc_arena_destroy(arena);
    if (ok && !sync_file(temp))
        return tc_error(ctx, TC_IO, NULL, "cannot write '%s' to the disk", tc_quote(ctx, path));
    return ok ? TC_OK : TC_IO;
}

tc_status rt_npz_write(tc_ctx *ctx, const char *path, const rt_array *arrays, size_t n) {
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, path, &file));
    tc_status status = check_target(ctx, tc_out_temp_path(file), path);
    if (status == TC_OK)
        status = write_zip(ctx, tc_out_temp_path(file), path, arrays, n);
    if (status != TC_OK) {
        tc_out_abandon(file);
        return status;
    }
    return tc_out_commit(ctx, file);
}
