/* checkpoint.c: a flatbuffer -> tensors, of one of two schemas. onnxruntime/core/flatbuffers/schema, versions 1 and 2:
 *   Checkpoint  { version:int; module_state:ModuleState; optimizer_groups:[OptimizerGroup]; property_bag }
 *   ModuleState { requires_grad_params:[Tensor]; frozen_params:[Tensor]; is_nominal_state:bool; has_external_data:bool
 * } Tensor      { name:string; doc_string:string; dims:[long]; data_type:int; raw_data:[ubyte]; string_data:[string];
 *                 external_data_offset:long = -1 }
 * onnxruntime/lora/adapter_format, version 1:
 *   Adapter     { format_version:int; adapter_version:int; model_version:int; parameters:[Parameter] }
 *   Parameter   { name:string; dims:[long]; data_type:int; raw_data:[ubyte] }
 * A table begins with the distance to its vtable, which has the place of each field in it; references lead forward by a
 * distance of 32 bits. Nothing is read before it is known to lie in the file. The schema has no table within itself, so
 * that no cycle is followed. Tensors may share their bytes, but each name must be another one: names end in a NUL and
 * hold none, and so none lies across another, which bounds how many there are. */
#include "checkpoint.h"
#include "compiler/base/base.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_NAME = 65536, NEWEST = 2, NEWEST_ADAPTER = 1 };

/* The numbers of a tensor's fields, after its name, 0. */
typedef struct schema {
    uint32_t dims, dtype, data, elsewhere;
} schema;
static const schema of_checkpoint = {2, 3, 4, 6}, of_adapter = {1, 2, 3, UINT32_MAX};

typedef struct reader {
    tc_ctx *ctx;
    const uint8_t *base;
    size_t size;
    const schema *schema;
    const char *list; /* the part that is read; NULL: the file's own table */
    uint32_t index;
    tc_map *names;
    tc_tensor *tensors;
    size_t n, cap;
} reader;

typedef struct table {
    size_t at, vtable;
    uint32_t size, n_fields;
} table;

/* --- errors ----------------------------------------------------------------------------------- */

static const char *where(const reader *r, const char *field) {
    if (!r->list)
        return field;
    return tc_arena_printf(r->ctx->arena, "%s[%u].%s", r->list, r->index, field);
}

static tc_status bad(const reader *r, const char *field, size_t at, const char *what) {
    return tc_error(r->ctx, TC_BAD_INPUT, NULL, "%s at byte %zu: %s", where(r, field), at, what);
}

/* --- flatbuffers ------------------------------------------------------------------------------ */

static bool inside(const reader *r, size_t at, size_t n) { return at <= r->size && n <= r->size - at; }

/* Numbers are little-endian, at any address. */
static uint32_t get(const reader *r, size_t at, size_t n) {
    uint32_t value = 0;
    memcpy(&value, r->base + at, n);
    return value;
}

static tc_status open_table(const reader *r, const char *field, size_t at, table *out) {
    if (!inside(r, at, 4))
        return bad(r, field, at, "the table is not in the file");
    int64_t vtable = (int64_t)at - (int32_t)get(r, at, 4);
    if (vtable < 0 || !inside(r, (size_t)vtable, 4))
        return bad(r, field, at, "the table's vtable is not in the file");
    uint32_t bytes = get(r, (size_t)vtable, 2), size = get(r, (size_t)vtable + 2, 2);
    if (bytes < 4 || bytes % 2 || !inside(r, (size_t)vtable, bytes) || size < 4 || !inside(r, at, size))
        return bad(r, field, at, "the table or its vtable does not end in the file");
    *out = (table){at, (size_t)vtable, size, (bytes - 4) / 2};
    return TC_OK;
}

/* The byte at which field `i`, `width` bytes long, begins; 0: it is absent. */
static tc_status find_field(const reader *r, const table *t, uint32_t i, const char *field, size_t width,
                            size_t *out_at) {
    uint32_t offset = i < t->n_fields ? get(r, t->vtable + 4 + 2 * i, 2) : 0;
    *out_at = offset ? t->at + offset : 0;
    if (offset && (offset < 4 || width > t->size || offset > t->size - width))
        return bad(r, field, t->at, "the field is not in its table");
    return TC_OK;
}

static tc_status read_number(const reader *r, const table *t, uint32_t i, const char *field, size_t width,
                             int64_t otherwise, int64_t *out_number) {
    size_t at;
    TC_TRY(find_field(r, t, i, field, width, &at));
    *out_number = otherwise;
    if (at)
        *out_number = 0;
    if (at)
        memcpy(out_number, r->base + at, width);
    return TC_OK;
}

/* The byte that field `i` refers to; 0: it is absent. */
static tc_status follow(const reader *r, const table *t, uint32_t i, const char *field, size_t *out_at) {
    size_t at;
    TC_TRY(find_field(r, t, i, field, 4, &at));
    *out_at = at ? at + get(r, at, 4) : 0;
    if (at && (*out_at == at || !inside(r, *out_at, 4)))
        return bad(r, field, at, "it leads out of the file");
    return TC_OK;
}

/* The elements of the vector, or bytes of the string, that field `i` refers to, followed by `more` bytes; none where it
 * is absent. */
static tc_status read_vector(const reader *r, const table *t, uint32_t i, const char *field, size_t element,
                             size_t more, size_t *out_at, uint32_t *out_n) {
    *out_n = 0;
    TC_TRY(follow(r, t, i, field, out_at));
    if (!*out_at)
        return TC_OK;
    size_t n = get(r, *out_at, 4), left = r->size - *out_at - 4;
    if (left < more || n > (left - more) / element)
        return bad(r, field, *out_at,
                   tc_arena_printf(r->ctx->arena, "%zu elements of %zu bytes are announced, but only %zu bytes left", n,
                                   element, left));
    *out_at += 4;
    *out_n = (uint32_t)n;
    return TC_OK;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static tc_status read_name(const reader *r, const table *t, const char **out_name) {
    size_t at;
    uint32_t n;
    TC_TRY(read_vector(r, t, 0, "name", 1, 1, &at, &n));
    if (n == 0)
        return bad(r, "name", t->at, "the tensor has no name");
    if (n > MAX_NAME)
        return tc_error(r->ctx, TC_LIMIT, NULL, "%s at byte %zu: a name of %u bytes, the limit is %d", where(r, "name"),
                        at, n, MAX_NAME);
    const char *name = (const char *)r->base + at;
    if (name[n] != '\0' || memchr(name, '\0', n))
        return bad(r, "name", at, "it does not end in NUL, or holds one");
    for (size_t i = 0, length; i < n; i += length)
        if ((length = tc_utf8_length(name + i, n - i)) == 0)
            return bad(r, "name", at + i, "it is not UTF-8");
    if (tc_map_get(r->names, name))
        return bad(r, "name", at, tc_arena_printf(r->ctx->arena, "two tensors are named %s", tc_quote(r->ctx, name)));
    tc_map_set(r->names, name, r->names);
    *out_name = name;
    return TC_OK;
}

static tc_status read_dims(const reader *r, const table *t, tc_tensor *tensor) {
    size_t at;
    uint32_t n;
    TC_TRY(read_vector(r, t, r->schema->dims, "dims", 8, 0, &at, &n));
    if (n > TC_MAX_RANK)
        return tc_error(r->ctx, TC_LIMIT, NULL, "%s: %s has rank %u, the limit is %d", where(r, "dims"),
                        tc_quote(r->ctx, tensor->name), n, TC_MAX_RANK);
    int64_t *dims = TC_NEW_ARRAY(r->ctx->arena, int64_t, (size_t)n + 1);
    if (n > 0)
        memcpy(dims, r->base + at, n * sizeof *dims);
    tensor->rank = (int)n;
    tensor->dims = dims;
    if (!tc_shape_count(tensor->rank, dims, &tensor->count))
        return bad(r, "dims", t->at, "a dim is negative, or their product is too large");
    return TC_OK;
}

static tc_status read_elements(const reader *r, const table *t, tc_tensor *tensor) {
    const char *name = tc_quote(r->ctx, tensor->name);
    int64_t dtype, offset;
    size_t at;
    uint32_t n;
    TC_TRY(read_number(r, t, r->schema->dtype, "data_type", 4, 0, &dtype));
    TC_TRY(read_number(r, t, r->schema->elsewhere, "external_data_offset", 8, -1, &offset));
    tensor->dtype = dtype < TC_DTYPE_COUNT ? (tc_dtype)dtype : TC_UNDEFINED;
    if (offset >= 0)
        return tc_error(r->ctx, TC_UNSUPPORTED, NULL, "%s: the elements of %s are in another file",
                        where(r, "external_data_offset"), name);
    if (tc_dtype_bits(tensor->dtype) < 8)
        return tc_error(r->ctx, TC_UNSUPPORTED, NULL,
                        "%s: %s is of element type %" PRId64 ", which weights cannot have", where(r, "data_type"), name,
                        dtype);
    TC_TRY(read_vector(r, t, r->schema->data, "raw_data", 1, 0, &at, &n));
    tensor->bytes = tc_tensor_bytes(tensor->dtype, tensor->count);
    tensor->data = r->base + at;
    if (n == tensor->bytes)
        return TC_OK;
    return bad(r, "raw_data", at ? at : t->at,
               tc_arena_printf(r->ctx->arena, "%s has %u bytes, but %zu are expected of its dims and its type %s", name,
                               n, tensor->bytes, tc_dtype_name(tensor->dtype)));
}

static tc_status read_tensor(reader *r, size_t at) {
    table t;
    tc_tensor tensor = {0};
    TC_TRY(open_table(r, "table", at, &t));
    TC_TRY(read_name(r, &t, &tensor.name));
    TC_TRY(read_dims(r, &t, &tensor));
    TC_TRY(read_elements(r, &t, &tensor));
    r->tensors = tc_arena_grow(r->ctx->arena, r->tensors, sizeof *r->tensors, &r->cap, r->n + 1);
    r->tensors[r->n++] = tensor;
    return TC_OK;
}

static tc_status read_list(reader *r, const table *state, uint32_t field, const char *name) {
    size_t at;
    uint32_t n;
    TC_TRY(read_vector(r, state, field, name, 4, 0, &at, &n));
    r->list = name;
    for (r->index = 0; r->index < n; r->index++) {
        size_t entry = at + 4 * (size_t)r->index;
        TC_TRY(read_tensor(r, entry + get(r, entry, 4)));
    }
    r->list = NULL;
    return TC_OK;
}

/* --- the file --------------------------------------------------------------------------------- */

static bool is_marked(const void *bytes, size_t size, const char *mark) {
    return size >= 8 && memcmp((const char *)bytes + 4, mark, 4) == 0;
}

bool tc_is_checkpoint(const void *bytes, size_t size) { return is_marked(bytes, size, "ODTC"); }

bool tc_is_adapter(const void *bytes, size_t size) { return is_marked(bytes, size, TC_ADAPTER_MARK); }

static tc_status elsewhere(tc_ctx *ctx, const char *what) {
    tc_error(ctx, TC_UNSUPPORTED, NULL, "%s", what);
    tc_hint(ctx, "save it with onnxruntime.training.artifacts without nominal_checkpoint and without external data, "
                 "or save the weights by numpy.savez");
    return TC_UNSUPPORTED;
}

static tc_status read_file(reader *r) {
    table root, state;
    size_t at;
    int64_t version, nominal, external;
    TC_TRY(open_table(r, "checkpoint", get(r, 0, 4), &root));
    TC_TRY(read_number(r, &root, 0, "version", 4, 0, &version));
    if (version < 1 || version > NEWEST)
        return tc_error(r->ctx, TC_UNSUPPORTED, NULL, "a checkpoint of version %" PRId64 ", known are 1 to %d", version,
                        NEWEST);
    TC_TRY(follow(r, &root, 1, "module_state", &at));
    if (!at)
        return bad(r, "checkpoint", root.at, "it has no module_state, where weights are");
    TC_TRY(open_table(r, "module_state", at, &state));
    TC_TRY(read_number(r, &state, 2, "is_nominal_state", 1, 0, &nominal));
    TC_TRY(read_number(r, &state, 3, "has_external_data", 1, 0, &external));
    if (nominal)
        return elsewhere(r->ctx, "a nominal checkpoint has the names of weights, and no elements");
    if (external)
        return elsewhere(r->ctx, "the checkpoint's elements are in another file");
    TC_TRY(read_list(r, &state, 0, "requires_grad_params"));
    return read_list(r, &state, 1, "frozen_params");
}

static tc_status read_adapter(reader *r) {
    table root;
    int64_t version;
    TC_TRY(open_table(r, "adapter", get(r, 0, 4), &root));
    TC_TRY(read_number(r, &root, 0, "format_version", 4, 0, &version));
    if (version != NEWEST_ADAPTER)
        return tc_error(r->ctx, TC_UNSUPPORTED, NULL, "an adapter of format version %" PRId64 ", known is %d", version,
                        NEWEST_ADAPTER);
    return read_list(r, &root, 3, "parameters");
}

tc_status tc_checkpoint_read(tc_ctx *ctx, const void *bytes, size_t size, tc_tensor **out_tensors, size_t *out_n) {
    const bool is_adapter = tc_is_adapter(bytes, size);
    if (!is_adapter && !tc_is_checkpoint(bytes, size))
        return tc_error(ctx, TC_BAD_INPUT, NULL, "it is no checkpoint: \"ODTC\" is not at byte 4");
    tc_arena *scratch = tc_arena_create();
    reader r = {.ctx = ctx,
                .base = bytes,
                .size = size,
                .schema = is_adapter ? &of_adapter : &of_checkpoint,
                .names = tc_map_create(scratch)};
    tc_status status = is_adapter ? read_adapter(&r) : read_file(&r);
    tc_arena_destroy(scratch);
    *out_tensors = r.tensors;
    *out_n = status == TC_OK ? r.n : 0;
    return status;
}
