/* safetensors_write.c: tensors -> a file of the safetensors format. */
#include "compiler/base/base.h"
#include "safetensors.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* --- the header ------------------------------------------------------------------------------- */

typedef struct text {
    tc_arena *arena;
    char *at;
    size_t n, cap;
} text;

static void add(text *t, const char *what) {
    size_t n = strlen(what);
    t->at = tc_arena_grow(t->arena, t->at, 1, &t->cap, t->n + n);
    memcpy(t->at + t->n, what, n);
    t->n += n;
}

/* A string of JSON; false: it is not UTF-8. */
static bool add_string(text *t, const char *string) {
    size_t left = strlen(string), length;
    add(t, "\"");
    for (; left > 0; string += length, left -= length) {
        char one[8];
        length = tc_utf8_length(string, left);
        if (length == 0)
            return false;
        if ((unsigned char)*string < 0x20)
            snprintf(one, sizeof one, "\\u%04x", (unsigned char)*string);
        else
            snprintf(one, sizeof one, "%s%.*s", strchr("\"\\", *string) ? "\\" : "", (int)length, string);
        add(t, one);
    }
    add(t, "\"");
    return true;
}

static void add_place(text *t, const tempo_tensor *tensor, uint64_t begin) {
    char number[80];
    snprintf(number, sizeof number, ":{\"dtype\":\"%s\",\"shape\":[", rt_safetensors_dtype(tensor->dtype));
    add(t, number);
    for (int i = 0; i < tensor->rank; i++) {
        snprintf(number, sizeof number, "%s%" PRId64, i ? "," : "", tensor->dims[i]);
        add(t, number);
    }
    snprintf(number, sizeof number, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + tensor->bytes);
    add(t, number);
}

static tc_status add_array(tc_ctx *ctx, text *t, tc_map *names, const rt_array *array, uint64_t begin) {
    if (strcmp(array->name, "__metadata__") == 0 || tc_map_get(names, array->name))
        return tc_error(ctx, TC_BAD_INPUT, NULL, "tensor '%s': %s", tc_quote(ctx, array->name),
                        tc_map_get(names, array->name) ? "two have this name" : "no tensor may have this name");
    tc_map_set(names, array->name, names);
    if (!add_string(t, array->name))
        return tc_error(ctx, TC_BAD_INPUT, NULL, "tensor '%s': its name is not UTF-8", tc_quote(ctx, array->name));
    if (!rt_safetensors_dtype(array->tensor.dtype))
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "tensor '%s': the format has no type %s", tc_quote(ctx, array->name),
                        tempo_dtype_text(array->tensor.dtype));
    add_place(t, &array->tensor, begin);
    return TC_OK;
}

static tc_status add_metadata(tc_ctx *ctx, text *t, const tc_pair *pairs, size_t n) {
    tc_map *keys = tc_map_create(t->arena);
    add(t, "\"__metadata__\":{");
    for (size_t i = 0; i < n; i++) {
        add(t, i ? "," : "");
        bool twice = tc_map_get(keys, pairs[i].key), utf8 = add_string(t, pairs[i].key);
        add(t, ":");
        if (!utf8 || !add_string(t, pairs[i].value) || twice)
            return tc_error(ctx, TC_BAD_INPUT, NULL, "metadata '%s': %s", tc_quote(ctx, pairs[i].key),
                            twice ? "there are two" : "it is not UTF-8");
        tc_map_set(keys, pairs[i].key, t->arena);
    }
    add(t, "}");
    return TC_OK;
}

/* Sizes of elements from the biggest to the smallest: elements then lie at multiples of their size. */
static void choose_order(rt_safetensors_layout *out, const rt_array *arrays, size_t n) {
    out->arrays = TC_NEW_ARRAY(out->arena, const rt_array *, n + 1);
    for (size_t size = 8; out->n < n; size /= 2) /* 0 in the end: an array without type is refused later */
        for (size_t i = 0; i < n; i++)
            if (tempo_dtype_size(arrays[i].tensor.dtype) == size)
                out->arrays[out->n++] = &arrays[i];
}

static tc_status make_header(tc_ctx *ctx, const tc_pair *metadata, size_t n_metadata, rt_safetensors_layout *out) {
    text t = {.arena = out->arena};
    tc_map *names = tc_map_create(out->arena);
    uint64_t begin = 0;
    add(&t, "12345678{"); /* the length, which is not known yet */
    if (n_metadata > 0)
        TC_TRY(add_metadata(ctx, &t, metadata, n_metadata));
    for (size_t i = 0; i < out->n; i++) {
        add(&t, i > 0 || n_metadata > 0 ? "," : "");
        TC_TRY(add_array(ctx, &t, names, out->arrays[i], begin));
        begin += out->arrays[i]->tensor.bytes;
    }
    add(&t, "}");
    while (t.n % 8 != 0)
        add(&t, " ");
    uint64_t length = t.n - 8;
    if (length > RT_SAFETENSORS_HEADER)
        return tc_error(ctx, TC_LIMIT, NULL, "a header of %" PRIu64 " bytes, the format's limit is %d", length,
                        RT_SAFETENSORS_HEADER);
    memcpy(t.at, &length, 8);
    out->header = t.at;
    out->header_bytes = t.n;
    out->bytes = t.n + begin;
    return TC_OK;
}

tc_status rt_safetensors_lay_out(tc_ctx *ctx, const rt_array *arrays, size_t n, const tc_pair *metadata,
                                 size_t n_metadata, rt_safetensors_layout *out) {
    *out = (rt_safetensors_layout){.arena = tc_arena_create()};
    choose_order(out, arrays, n);
    tc_status status = make_header(ctx, metadata, n_metadata, out);
    if (status != TC_OK)
        rt_safetensors_free_layout(out);
    return status;
}

void rt_safetensors_free_layout(rt_safetensors_layout *layout) {
    tc_arena_destroy(layout->arena);
    *layout = (rt_safetensors_layout){0};
}

/* --- the file --------------------------------------------------------------------------------- */

/* Straight to the file: its stream would copy all. False: errno has the reason. */
static bool put(int fd, const void *bytes, size_t n) {
    for (const char *at = bytes; n > 0;) {
        ssize_t written = write(fd, at, n);
        if (written < 0 && errno != EINTR)
            return false;
        at += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

/* Makes a full disk fail before a byte is written. Pipes have no room to take, and some file systems do not support
 * it. */
static bool take_room(int fd, uint64_t bytes) {
    int error = posix_fallocate(fd, 0, (off_t)bytes);
    errno = error;
    return error == 0 || error == EINVAL || error == EOPNOTSUPP || error == ESPIPE || error == ENODEV;
}

static bool put_all(int fd, const rt_safetensors_layout *layout) {
    if (!take_room(fd, layout->bytes) || !put(fd, layout->header, layout->header_bytes))
        return false;
    for (size_t i = 0; i < layout->n; i++)
        if (!put(fd, layout->arrays[i]->tensor.data, layout->arrays[i]->tensor.bytes))
            return false;
    return true;
}

tc_status rt_safetensors_write_layout(tc_ctx *ctx, const char *path, const rt_safetensors_layout *layout) {
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, path, &file));
    if (put_all(fileno(tc_out_stream(file)), layout))
        return tc_out_commit(ctx, file);
    tc_error(ctx, TC_IO, NULL, "can't write the %" PRIu64 " bytes of '%s': %s", layout->bytes, tc_quote(ctx, path),
             strerror(errno));
    tc_out_abandon(file);
    return TC_IO;
}

tc_status rt_safetensors_write(tc_ctx *ctx, const char *path, const rt_array *arrays, size_t n, const tc_pair *metadata,
                               size_t n_metadata) {
    rt_safetensors_layout layout;
    TC_TRY(rt_safetensors_lay_out(ctx, arrays, n, metadata, n_metadata, &layout));
    tc_status status = rt_safetensors_write_layout(ctx, path, &layout);
    rt_safetensors_free_layout(&layout);
    return status;
}
