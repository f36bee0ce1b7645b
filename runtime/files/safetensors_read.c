/* safetensors_read.c: a file of the safetensors format -> tensors in its bytes. The header is JSON of fixed depth,
 *   {"__metadata__": {KEY: VALUE, ...}, NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 * and is read as just that, without recursion. Elements must cover the rest of the file, without holes. */
#include "compiler/base/base.h"
#include "json_read.h"
#include "safetensors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    rt_array array;
    uint64_t begin, end; /* among the bytes of all elements */
} entry;

typedef struct reader {
    tc_ctx *ctx;
    tc_arena *scratch;
    rt_safetensors *out;
    rt_json json; /* from the file's beginning, so that `at` is a byte of the file */
    uint64_t all; /* bytes of elements that there are */
    tc_map *names;
    entry *entries;
    size_t n, cap;
    tc_pair *pairs;
    size_t n_pairs, cap_pairs;
    bool has_metadata;
} reader;

static const struct {
    const char *name;
    tempo_dtype dtype;
} dtypes[] = {{"BOOL", TEMPO_BOOL}, {"U8", TEMPO_UINT8},    {"I8", TEMPO_INT8},       {"U16", TEMPO_UINT16},
              {"I16", TEMPO_INT16}, {"F16", TEMPO_FLOAT16}, {"BF16", TEMPO_BFLOAT16}, {"U32", TEMPO_UINT32},
              {"I32", TEMPO_INT32}, {"F32", TEMPO_FLOAT},   {"U64", TEMPO_UINT64},    {"I64", TEMPO_INT64},
              {"F64", TEMPO_DOUBLE}};

const char *rt_safetensors_dtype(tempo_dtype dtype) {
    for (size_t i = 0; i < TC_COUNT(dtypes); i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

static bool find_dtype(const char *name, tempo_dtype *out_dtype) {
    for (size_t i = 0; i < TC_COUNT(dtypes); i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return *out_dtype = dtypes[i].dtype, true;
    return false;
}

static tc_status bad_tensor(const reader *r, const char *name, const char *what) {
    return tc_error(r->ctx, TC_BAD_INPUT, NULL, "tensor '%s': %s", tc_quote(r->ctx, name), what);
}

/* --- tensors ---------------------------------------------------------------------------------- */

static tc_status read_dtype(reader *r, entry *e) {
    const char *name;
    TC_TRY(rt_json_string(&r->json, r->scratch, &name));
    if (find_dtype(name, &e->array.tensor.dtype))
        return TC_OK;
    return tc_error(r->ctx, TC_UNSUPPORTED, NULL, "tensor '%s': element type '%s'", tc_quote(r->ctx, e->array.name),
                    tc_quote(r->ctx, name));
}

static tc_status read_shape(reader *r, entry *e) {
    int64_t dims[TC_MAX_RANK];
    int rank = 0;
    TC_TRY(rt_json_expect(&r->json, '['));
    for (bool more = !rt_json_accept(&r->json, ']'); more;) {
        uint64_t dim;
        if (rank == TC_MAX_RANK)
            return tc_error(r->ctx, TC_LIMIT, NULL, "tensor '%s': more than %d dims", tc_quote(r->ctx, e->array.name),
                            TC_MAX_RANK);
        TC_TRY(rt_json_whole(&r->json, INT64_MAX, &dim));
        dims[rank++] = (int64_t)dim;
        TC_TRY(rt_json_next(&r->json, ']', &more));
    }
    int64_t *copy = TC_NEW_ARRAY(r->out->arena, int64_t, (size_t)rank + 1);
    memcpy(copy, dims, (size_t)rank * sizeof *dims);
    e->array.tensor.rank = rank;
    e->array.tensor.dims = copy;
    return TC_OK;
}

static tc_status read_offsets(reader *r, entry *e) {
    TC_TRY(rt_json_expect(&r->json, '['));
    TC_TRY(rt_json_whole(&r->json, INT64_MAX, &e->begin));
    TC_TRY(rt_json_expect(&r->json, ','));
    TC_TRY(rt_json_whole(&r->json, INT64_MAX, &e->end));
    return rt_json_expect(&r->json, ']');
}

static const struct {
    const char *name;
    tc_status (*read)(reader *r, entry *e);
} fields[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
enum { ALL_FIELDS = (1 << TC_COUNT(fields)) - 1 };

static tc_status read_field(reader *r, entry *e, unsigned *seen) {
    const char *key;
    size_t i = 0, at = r->json.at;
    TC_TRY(rt_json_string(&r->json, r->scratch, &key));
    while (i < TC_COUNT(fields) && strcmp(fields[i].name, key) != 0)
        i++;
    if (i == TC_COUNT(fields) || *seen & 1u << i) {
        r->json.at = at;
        return rt_json_bad(&r->json, i == TC_COUNT(fields) ? "a tensor has just dtype, shape and data_offsets"
                                                           : "it is there twice");
    }
    *seen |= 1u << i;
    TC_TRY(rt_json_expect(&r->json, ':'));
    return fields[i].read(r, e);
}

static tc_status check_sizes(const reader *r, const entry *e) {
    const tempo_tensor *t = &e->array.tensor;
    uint64_t count, bytes = e->end - e->begin;
    if (e->end < e->begin || e->end > r->all)
        return bad_tensor(r, e->array.name, "its data_offsets run backwards, or out of the file");
    if (!tc_shape_count(t->rank, t->dims, &count) || count > bytes)
        count = bytes + 1; /* more than there are */
    if (tc_tensor_bytes((tc_dtype)t->dtype, count) == bytes)
        return TC_OK;
    return bad_tensor(r, e->array.name,
                      tc_arena_printf(r->scratch,
                                      "its data_offsets hold %" PRIu64 " bytes, which do not go with shape and type %s",
                                      bytes, rt_safetensors_dtype(t->dtype)));
}

static tc_status read_entry(reader *r, const char *name) {
    entry e = {.array.name = name};
    unsigned seen = 0;
    TC_TRY(rt_json_expect(&r->json, '{'));
    for (bool more = !rt_json_accept(&r->json, '}'); more;) {
        TC_TRY(read_field(r, &e, &seen));
        TC_TRY(rt_json_next(&r->json, '}', &more));
    }
    if (seen != ALL_FIELDS)
        return bad_tensor(r, name, "dtype, shape and data_offsets are needed");
    TC_TRY(check_sizes(r, &e));
    e.array.tensor.bytes = (size_t)(e.end - e.begin);
    r->entries = tc_arena_grow(r->scratch, r->entries, sizeof e, &r->cap, r->n + 1);
    r->entries[r->n++] = e;
    return TC_OK;
}

static tc_status read_metadata(reader *r) {
    tc_map *keys = tc_map_create(r->scratch);
    if (r->has_metadata)
        return rt_json_bad(&r->json, "__metadata__ is there twice");
    r->has_metadata = true;
    TC_TRY(rt_json_expect(&r->json, '{'));
    for (bool more = !rt_json_accept(&r->json, '}'); more;) {
        tc_pair pair;
        TC_TRY(rt_json_string(&r->json, r->out->arena, &pair.key));
        if (tc_map_get(keys, pair.key))
            return rt_json_bad(&r->json, "two entries of __metadata__ have one key");
        tc_map_set(keys, pair.key, r);
        TC_TRY(rt_json_expect(&r->json, ':'));
        TC_TRY(rt_json_string(&r->json, r->out->arena, &pair.value));
        r->pairs = tc_arena_grow(r->scratch, r->pairs, sizeof pair, &r->cap_pairs, r->n_pairs + 1);
        r->pairs[r->n_pairs++] = pair;
        TC_TRY(rt_json_next(&r->json, '}', &more));
    }
    return TC_OK;
}

static tc_status read_header(reader *r) {
    if (r->json.at == r->json.end || r->json.text[r->json.at] != '{')
        return rt_json_bad(&r->json, "expected '{'");
    r->json.at++;
    for (bool more = !rt_json_accept(&r->json, '}'); more;) {
        const char *name;
        TC_TRY(rt_json_string(&r->json, r->out->arena, &name));
        TC_TRY(rt_json_expect(&r->json, ':'));
        if (strcmp(name, "__metadata__") == 0) {
            TC_TRY(read_metadata(r));
        } else {
            if (tc_map_get(r->names, name))
                return bad_tensor(r, name, "two have this name");
            tc_map_set(r->names, name, r);
            TC_TRY(read_entry(r, name));
        }
        TC_TRY(rt_json_next(&r->json, '}', &more));
    }
    return rt_json_ends(&r->json) ? TC_OK : rt_json_bad(&r->json, "more text after the header's end");
}

/* --- elements --------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->array.name, y->array.name);
}

/* Kernels read elements at multiples of their size: others are copied. */
static void *place_elements(rt_safetensors *out, const unsigned char *bytes, const tempo_tensor *t) {
    if ((uintptr_t)bytes % tempo_dtype_size(t->dtype) == 0 || t->bytes == 0)
        return (void *)(uintptr_t)bytes;
    void *copy = tc_arena_alloc(out->arena, t->bytes, 1);
    memcpy(copy, bytes, t->bytes);
    return copy;
}

static tc_status place_all(reader *r) {
    rt_safetensors *out = r->out;
    uint64_t expected = 0, all = r->all;
    if (r->n > 0)
        qsort(r->entries, r->n, sizeof *r->entries, by_place);
    for (size_t i = 0; i < r->n; i++) {
        const entry *e = &r->entries[i];
        if (e->begin != expected)
            return bad_tensor(r, e->array.name,
                              tc_arena_printf(r->scratch,
                                              "its elements are bytes %" PRIu64 " to %" PRIu64
                                              " of the data, expected ones from %" PRIu64 " on, of %" PRIu64,
                                              e->begin, e->end, expected, all));
        expected = e->end;
    }
    if (expected != all)
        return tc_error(r->ctx, TC_BAD_INPUT, NULL,
                        "the file has %" PRIu64 " bytes of elements, but its tensors take %" PRIu64, all, expected);
    out->arrays = TC_NEW_ARRAY(out->arena, rt_array, r->n + 1);
    for (size_t i = 0; i < r->n; i++) {
        const entry *e = &r->entries[i];
        out->arrays[i] = e->array;
        out->arrays[i].tensor.data =
            place_elements(out, (const unsigned char *)r->json.text + out->header + e->begin, &e->array.tensor);
    }
    out->n = r->n;
    return TC_OK;
}

/* --- the file --------------------------------------------------------------------------------- */

static tc_status read_file(reader *r, size_t size) {
    uint64_t length = 0;
    if (size >= 8)
        memcpy(&length, r->json.text, 8);
    if (size < 8 || length > size - 8)
        return tc_error(r->ctx, TC_BAD_INPUT, NULL,
                        "it is no safetensors file: of %zu bytes, the header would take %" PRIu64, size, length);
    if (length > RT_SAFETENSORS_HEADER)
        return tc_error(r->ctx, TC_LIMIT, NULL, "a header of %" PRIu64 " bytes, the limit is %d", length,
                        RT_SAFETENSORS_HEADER);
    r->json.at = 8;
    r->json.end = r->out->header = (size_t)length + 8;
    r->all = size - r->json.end;
    TC_TRY(read_header(r));
    tc_pair *pairs = TC_NEW_ARRAY(r->out->arena, tc_pair, r->n_pairs + 1);
    for (size_t i = 0; i < r->n_pairs; i++)
        pairs[i] = r->pairs[i];
    r->out->metadata = pairs;
    r->out->n_metadata = r->n_pairs;
    return place_all(r);
}

tc_status rt_safetensors_read(tc_ctx *ctx, const void *bytes, size_t size, rt_safetensors *out) {
    *out = (rt_safetensors){.arena = tc_arena_create()};
    tc_arena *scratch = tc_arena_create();
    reader r = {.ctx = ctx,
                .scratch = scratch,
                .out = out,
                .json = {.ctx = ctx, .place = "the header", .text = bytes},
                .names = tc_map_create(scratch)};
    tc_status status = read_file(&r, size);
    tc_arena_destroy(scratch);
    if (status != TC_OK)
        rt_safetensors_close(out);
    return status;
}

tc_status rt_safetensors_open(tc_ctx *ctx, const char *path, rt_safetensors *out) {
    const char *before = ctx->file;
    tc_file file;
    tc_held held;
    *out = (rt_safetensors){0};
    ctx->file = path;
    TC_TRY(tc_file_open(ctx, path, &file));
    tc_file_hold(&file, &held);
    tc_status status = rt_safetensors_read(ctx, file.data, file.size, out);
    tc_let_go(&held);
    if (status != TC_OK) {
        tc_file_close(&file);
        return status;
    }
    out->file = file;
    tc_file_hold(&out->file, &out->held);
    ctx->file = before;
    return TC_OK;
}

void rt_safetensors_close(rt_safetensors *s) {
    tc_let_go(&s->held);
    tc_file_close(&s->file);
    tc_arena_destroy(s->arena);
    *s = (rt_safetensors){0};
}

const rt_array *rt_safetensors_find(const rt_safetensors *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->arrays[i].name, name) == 0)
            return &s->arrays[i];
    return NULL;
}
