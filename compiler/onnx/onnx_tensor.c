/* onnx_tensor.c: TensorProto and SparseTensorProto -> tc_tensor, checked. ONNX lets data stand in raw_data, in one of
 * five typed fields or outside the file; the IR knows packed little-endian bytes. The result has dims whose product
 * fits, exactly as many bytes as they need, and a location inside the model's folder. */
#include "compiler/base/base.h"
#include "onnx_msg.h"
#include <inttypes.h>
#include <stdlib.h>

#define MAX_BYTES ((uint64_t)1 << 56) /* of one tensor: no file holds more, and bit counts don't wrap below */

typedef struct tensor_reader {
    tc_ctx *ctx;
    tc_model *model;
    const char *what;
    const Onnx__TensorProto *proto;
    tc_tensor *tensor;
} tensor_reader;

#define BAD(r, ...) fail((r), TC_BAD_INPUT, tc_arena_printf((r)->ctx->arena, __VA_ARGS__))

static tc_status fail(const tensor_reader *r, tc_status status, const char *message) {
    return tc_error(r->ctx, status, NULL, "%s: %s", r->what, message);
}

/* --- shape and type --------------------------------------------------------------------------- */

static const char *dims_text(tc_ctx *ctx, size_t rank, const int64_t *dims) {
    const char *text = "[";
    for (size_t i = 0; i < rank && i < 8; i++)
        text = tc_arena_printf(ctx->arena, "%s%s%" PRId64, text, i ? "," : "", dims[i]);
    return tc_arena_printf(ctx->arena, "%s%s]", text, rank > 8 ? ",..." : "");
}

static tc_status check_dims(const tensor_reader *r, size_t rank, const int64_t *dims, tc_dtype dtype,
                            uint64_t *out_count) {
    if (rank > TC_MAX_RANK) {
        const char *message = tc_arena_printf(r->ctx->arena, "%zu dims, at most %d are supported", rank, TC_MAX_RANK);
        return fail(r, TC_LIMIT, message);
    }
    for (size_t i = 0; i < rank; i++)
        if (dims[i] < 0)
            return BAD(r, "dims %s hold a negative size", dims_text(r->ctx, rank, dims));
    if (!tc_shape_count((int)rank, dims, out_count) || *out_count > MAX_BYTES ||
        tc_tensor_bytes(dtype, *out_count) > MAX_BYTES)
        return BAD(r, "dims %s are larger than any tensor can be", dims_text(r->ctx, rank, dims));
    return TC_OK;
}

static tc_status check_dtype(const tensor_reader *r, int32_t dtype) {
    if (dtype > 0 && dtype < TC_DTYPE_COUNT)
        return TC_OK;
    if (dtype == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT6E2M3 || dtype == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT6E3M2)
        return fail(r, TC_UNSUPPORTED, "6-bit floats are not supported");
    return BAD(r, "element type %" PRId32 " is none of ONNX's 1 to %d", dtype, TC_DTYPE_COUNT - 1);
}

/* --- data in the file ------------------------------------------------------------------------- */

/* The typed fields, in one row each: which element types they carry, as bits. */
#define BIT(name) (1u << TC_##name)
typedef struct typed_field {
    const char *name;
    uint32_t types;
    size_t n;
    const void *data;
    size_t width; /* bytes of an element in `data`; 0: strings */
} typed_field;
enum { FLOAT_DATA, INT32_DATA, INT64_DATA, DOUBLE_DATA, UINT64_DATA, STRING_DATA, RAW_DATA, N_FIELDS };

static void list_fields(const Onnx__TensorProto *p, typed_field fields[N_FIELDS]) {
    uint32_t in_int32 = BIT(INT32) | BIT(INT16) | BIT(INT8) | BIT(UINT16) | BIT(UINT8) | BIT(BOOL) | BIT(FLOAT16) |
                        BIT(BFLOAT16) | BIT(FLOAT8E4M3FN) | BIT(FLOAT8E4M3FNUZ) | BIT(FLOAT8E5M2) |
                        BIT(FLOAT8E5M2FNUZ) | BIT(FLOAT8E8M0) | BIT(UINT4) | BIT(INT4) | BIT(FLOAT4E2M1) | BIT(UINT2) |
                        BIT(INT2);
    fields[FLOAT_DATA] = (typed_field){"float_data", BIT(FLOAT) | BIT(COMPLEX64), p->n_float_data, p->float_data, 4};
    fields[INT32_DATA] = (typed_field){"int32_data", in_int32, p->n_int32_data, p->int32_data, 4};
    fields[INT64_DATA] = (typed_field){"int64_data", BIT(INT64), p->n_int64_data, p->int64_data, 8};
    fields[DOUBLE_DATA] =
        (typed_field){"double_data", BIT(DOUBLE) | BIT(COMPLEX128), p->n_double_data, p->double_data, 8};
    fields[UINT64_DATA] = (typed_field){"uint64_data", BIT(UINT64) | BIT(UINT32), p->n_uint64_data, p->uint64_data, 8};
    fields[STRING_DATA] = (typed_field){"string_data", BIT(STRING), p->n_string_data, p->string_data, 0};
    fields[RAW_DATA] =
        (typed_field){"raw_data", ~BIT(STRING), p->has_raw_data ? p->raw_data.len : 0, p->raw_data.data, 1};
}

/* Items of a typed field that hold a tensor of this size; small types are packed into bytes first. */
static uint64_t items_needed(const tc_tensor *t) {
    unsigned bits = tc_dtype_bits(t->dtype);
    if (t->dtype == TC_COMPLEX64 || t->dtype == TC_COMPLEX128)
        return t->count * 2;
    return bits && bits < 8 ? t->bytes : t->count;
}

/* int32_data and uint64_data carry narrower types: each item must fit, signed or unsigned. */
static tc_status narrow(const tensor_reader *r, const typed_field *field, unsigned char *out, size_t size) {
    int64_t low = -((int64_t)1 << (size * 8 - 1)), high = ((int64_t)1 << (size * 8)) - 1;
    for (size_t i = 0; i < field->n; i++) {
        int64_t item;
        if (field->width == 8)
            memcpy(&item, (const char *)field->data + i * 8, 8);
        else
            item = ((const int32_t *)field->data)[i];
        if (item < low || item > high)
            return BAD(r, "%s[%zu] is %" PRId64 ", which %s can't hold", field->name, i, item,
                       tc_dtype_name(r->tensor->dtype));
        memcpy(out + i * size, &item, size);
    }
    return TC_OK;
}

static tc_status read_typed(const tensor_reader *r, const typed_field *field) {
    tc_tensor *t = r->tensor;
    if (field->n != items_needed(t))
        return BAD(r, "%zu items in %s, but %s%s needs %" PRIu64, field->n, field->name, tc_dtype_name(t->dtype),
                   dims_text(r->ctx, (size_t)t->rank, t->dims), items_needed(t));
    size_t size = field->n ? t->bytes / field->n : field->width;
    if (size == field->width) {
        t->data = field->data;
        return TC_OK;
    }
    void *bytes = tc_arena_alloc(r->model->arena, t->bytes, 1);
    t->data = bytes;
    return narrow(r, field, bytes, size);
}

static tc_status read_raw(const tensor_reader *r) {
    tc_tensor *t = r->tensor;
    const ProtobufCBinaryData *raw = &r->proto->raw_data;
    if (raw->len != t->bytes)
        return BAD(r, "%zu bytes of raw_data, but %s%s needs %zu", raw->len, tc_dtype_name(t->dtype),
                   dims_text(r->ctx, (size_t)t->rank, t->dims), t->bytes);
    /* Data that is aligned for its type stays in the file's bytes. */
    unsigned align = tc_dtype_bits(t->dtype) >= 64 ? 8 : tc_dtype_bits(t->dtype) / 8;
    if (align < 2 || (uintptr_t)raw->data % align == 0) {
        t->data = raw->data;
        return TC_OK;
    }
    void *bytes = tc_arena_alloc(r->model->arena, t->bytes, 1);
    memcpy(bytes, raw->data, t->bytes);
    t->data = bytes;
    return TC_OK;
}

static void read_strings(const tensor_reader *r) {
    tc_bytes *strings = TC_NEW_ARRAY(r->model->arena, tc_bytes, r->proto->n_string_data);
    for (size_t i = 0; i < r->proto->n_string_data; i++)
        strings[i] = (tc_bytes){(const char *)r->proto->string_data[i].data, r->proto->string_data[i].len};
    r->tensor->strings = strings;
}

static tc_status check_bools(const tensor_reader *r) {
    const unsigned char *items = r->tensor->data;
    for (uint64_t i = 0; items && i < r->tensor->count; i++)
        if (items[i] > 1)
            return BAD(r, "bool element %" PRIu64 " is %u, expected 0 or 1", i, items[i]);
    return TC_OK;
}

static tc_status read_inside(const tensor_reader *r) {
    typed_field fields[N_FIELDS];
    list_fields(r->proto, fields);
    const typed_field *used = NULL;
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (!fields[i].n)
            continue;
        if (used)
            return BAD(r, "data in both %s and %s", used->name, fields[i].name);
        used = &fields[i];
    }
    tc_tensor *t = r->tensor;
    if (used && !(used->types >> t->dtype & 1))
        return BAD(r, "data in %s, which is not for element type %s", used->name, tc_dtype_name(t->dtype));
    if (!used && t->count)
        return BAD(r, "no data, but %s%s has %" PRIu64 " elements", tc_dtype_name(t->dtype),
                   dims_text(r->ctx, (size_t)t->rank, t->dims), t->count);
    if (!used) {
        t->data = t->dtype == TC_STRING ? NULL : "";
        return TC_OK;
    }
    if (used == &fields[RAW_DATA])
        TC_TRY(read_raw(r));
    else if (t->dtype != TC_STRING)
        TC_TRY(read_typed(r, used));
    else if (used->n != t->count)
        return BAD(r, "%zu strings, but its dims need %" PRIu64, used->n, t->count);
    else
        read_strings(r);
    return t->dtype == TC_BOOL ? check_bools(r) : TC_OK;
}

/* --- data outside ----------------------------------------------------------------------------- */

/* Decimal digits and nothing else. */
static bool parse_size(const char *text, uint64_t *out_value) {
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *out_value = value;
    return true;
}

/* A relative path that never leaves its folder by its words alone; links are looked at when it is opened. */
static const char *location_fault(const char *location) {
    if (!*location)
        return "is empty";
    if (*location == '/' || *location == '\\' || (location[1] == ':' && location[2] == '\\'))
        return "is absolute, expected a path below the model's folder";
    size_t words = 0;
    for (const char *p = location; *p;) {
        size_t n = strcspn(p, "/\\");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return "leaves the model's folder";
        words += n > 1 || (n == 1 && p[0] != '.');
        p += n + (p[n] != '\0');
    }
    return words ? NULL : "names a folder, expected a file";
}

static tc_status read_outside(const tensor_reader *r) {
    const Onnx__TensorProto *p = r->proto;
    static const char *const keys[] = {"location", "offset", "length", "checksum", "basepath"};
    const char *values[TC_COUNT(keys)] = {0};
    typed_field fields[N_FIELDS];
    list_fields(p, fields);
    for (size_t i = 0; i < N_FIELDS; i++)
        if (fields[i].n)
            return BAD(r, "said to be external, but has %s too", fields[i].name);
    for (size_t i = 0; i < p->n_external_data; i++) {
        const char *key = tc_onnx_text(p->external_data[i]->key);
        for (size_t k = 0; k < TC_COUNT(keys); k++) {
            if (strcmp(key, keys[k]) != 0)
                continue;
            if (values[k])
                return BAD(r, "external_data has two entries '%s'", key);
            values[k] = tc_onnx_text(p->external_data[i]->value);
        }
    }
    tc_external *e = TC_NEW(r->model->arena, tc_external);
    r->tensor->external = e;
    if (!values[0])
        return BAD(r, "external data has no location");
    e->location = values[0];
    if (location_fault(e->location))
        return BAD(r, "external data location '%s' %s", tc_quote(r->ctx, e->location), location_fault(e->location));
    TC_TRY(tc_written_check_beside(r->ctx, e->location));
    if (values[1] && !parse_size(values[1], &e->offset))
        return BAD(r, "external data offset '%s' is not a number of bytes", tc_quote(r->ctx, values[1]));
    if (values[2] && !parse_size(values[2], &e->length))
        return BAD(r, "external data length '%s' is not a number of bytes", tc_quote(r->ctx, values[2]));
    e->has_offset = values[1] != NULL;
    e->has_length = values[2] != NULL;
    if (r->tensor->dtype == TC_STRING)
        return BAD(r, "strings can't be external");
    if (e->has_length && e->length != r->tensor->bytes)
        return BAD(r, "external data length %" PRIu64 ", but %s%s needs %zu bytes", e->length,
                   tc_dtype_name(r->tensor->dtype), dims_text(r->ctx, (size_t)r->tensor->rank, r->tensor->dims),
                   r->tensor->bytes);
    if (e->offset > UINT64_MAX - r->tensor->bytes)
        return BAD(r, "external data offset %" PRIu64 " is past the end of any file", e->offset);
    return TC_OK;
}

tc_status tc_onnx_tensor(tc_ctx *ctx, tc_model *model, const Onnx__TensorProto *proto, const char *what,
                         tc_tensor **out_tensor) {
    tensor_reader r = {ctx, model, what, proto, TC_NEW(model->arena, tc_tensor)};
    tc_tensor *t = *out_tensor = r.tensor;
    TC_TRY(check_dtype(&r, proto->has_data_type ? proto->data_type : 0));
    t->name = proto->name;
    t->dtype = (tc_dtype)proto->data_type;
    t->dims = proto->dims;
    t->origin = proto;
    TC_TRY(check_dims(&r, proto->n_dims, proto->dims, t->dtype, &t->count));
    t->rank = (int)proto->n_dims;
    t->bytes = tc_tensor_bytes(t->dtype, t->count);
    if (proto->segment)
        return fail(&r, TC_UNSUPPORTED, "tensors in segments are not supported");
    if (!proto->has_data_location || proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT)
        return read_inside(&r);
    if (proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return read_outside(&r);
    return BAD(&r, "data location %d, expected 0 (in the file) or 1 (external)", (int)proto->data_location);
}

/* --- sparse ----------------------------------------------------------------------------------- */

/* The place of entry `i` in the dense tensor: indices are linear, or one row of coordinates for each entry. */
static bool linear_index(const tc_tensor *dense, const tc_tensor *indices, uint64_t i, uint64_t *out_index) {
    const int64_t *items = indices->data;
    if (indices->rank == 1) {
        *out_index = (uint64_t)items[i];
        return items[i] >= 0 && *out_index < dense->count;
    }
    uint64_t at = 0;
    for (int d = 0; d < dense->rank; d++) {
        int64_t c = items[i * (uint64_t)dense->rank + (uint64_t)d];
        if (c < 0 || c >= dense->dims[d])
            return false;
        at = at * (uint64_t)dense->dims[d] + (uint64_t)c;
    }
    *out_index = at;
    return true;
}

static tc_status scatter(const tensor_reader *r, const tc_tensor *values, const tc_tensor *indices, char *out) {
    const tc_tensor *dense = r->tensor;
    size_t size = tc_dtype_bits(dense->dtype) / 8;
    uint64_t last = 0;
    for (uint64_t i = 0; i < values->count; i++) {
        uint64_t at = 0;
        if (!linear_index(dense, indices, i, &at))
            return BAD(r, "sparse index %" PRIu64 " is outside %s", i,
                       dims_text(r->ctx, (size_t)dense->rank, dense->dims));
        if (i && at <= last)
            return BAD(r, "sparse indices are not in ascending order at entry %" PRIu64, i);
        last = at;
        if (out)
            memcpy(out + at * size, (const char *)values->data + i * size, size);
    }
    return TC_OK;
}

tc_status tc_onnx_sparse_tensor(tc_ctx *ctx, tc_model *model, const Onnx__SparseTensorProto *proto, const char *what,
                                size_t budget, tc_tensor **out_tensor) {
    tensor_reader r = {ctx, model, what, proto->values, TC_NEW(model->arena, tc_tensor)};
    tc_tensor *t = *out_tensor = r.tensor, *values = NULL, *indices = NULL;
    if (!proto->values || !proto->indices)
        return BAD(&r, "sparse tensor without %s", proto->values ? "indices" : "values");
    TC_TRY(tc_onnx_tensor(ctx, model, proto->values, what, &values));
    TC_TRY(tc_onnx_tensor(ctx, model, proto->indices, what, &indices));
    *t = (tc_tensor){.name = values->name, .dtype = values->dtype, .dims = proto->dims, .origin = proto};
    TC_TRY(check_dims(&r, proto->n_dims, proto->dims, t->dtype, &t->count));
    t->rank = (int)proto->n_dims;
    t->bytes = tc_tensor_bytes(t->dtype, t->count);
    if (tc_dtype_bits(t->dtype) < 8 || !values->data || !indices->data)
        return fail(&r, TC_UNSUPPORTED, "sparse tensors are read with data in the model and elements of whole bytes");
    bool linear = indices->rank == 1, by_row = indices->rank == 2 && indices->dims[1] == t->rank;
    if (values->rank != 1 || indices->dtype != TC_INT64 || (!linear && !by_row) || indices->dims[0] != values->dims[0])
        return BAD(&r, "sparse tensor needs values [n] and int64 indices [n] or [n,%d]", t->rank);
    char *dense = t->bytes <= budget ? tc_arena_alloc(model->arena, t->bytes, 1) : NULL;
    t->data = dense;
    return scatter(&r, values, indices, dense);
}
