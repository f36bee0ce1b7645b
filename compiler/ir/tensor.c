/* tensor.c: element types, tensor types and constant tensors. */
#include "ir.h"
#include <math.h>
#include <string.h>

/* --- element types ---------------------------------------------------------------------------- */

static const struct {
    const char *name;
    unsigned bits;
} dtypes[TC_DTYPE_COUNT] = {
    [TC_UNDEFINED] = {"undefined", 0},
    [TC_FLOAT] = {"float", 32},
    [TC_UINT8] = {"uint8", 8},
    [TC_INT8] = {"int8", 8},
    [TC_UINT16] = {"uint16", 16},
    [TC_INT16] = {"int16", 16},
    [TC_INT32] = {"int32", 32},
    [TC_INT64] = {"int64", 64},
    [TC_STRING] = {"string", 0},
    [TC_BOOL] = {"bool", 8},
    [TC_FLOAT16] = {"float16", 16},
    [TC_DOUBLE] = {"double", 64},
    [TC_UINT32] = {"uint32", 32},
    [TC_UINT64] = {"uint64", 64},
    [TC_COMPLEX64] = {"complex64", 64},
    [TC_COMPLEX128] = {"complex128", 128},
    [TC_BFLOAT16] = {"bfloat16", 16},
    [TC_FLOAT8E4M3FN] = {"float8e4m3fn", 8},
    [TC_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8},
    [TC_FLOAT8E5M2] = {"float8e5m2", 8},
    [TC_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8},
    [TC_UINT4] = {"uint4", 4},
    [TC_INT4] = {"int4", 4},
    [TC_FLOAT4E2M1] = {"float4e2m1", 4},
    [TC_FLOAT8E8M0] = {"float8e8m0", 8},
    [TC_UINT2] = {"uint2", 2},
    [TC_INT2] = {"int2", 2},
};

const char *tc_dtype_name(tc_dtype dtype) {
    return (unsigned)dtype < TC_DTYPE_COUNT ? dtypes[dtype].name : "undefined";
}

tc_dtype tc_dtype_from_name(const char *name) {
    for (int i = 1; i < TC_DTYPE_COUNT; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return (tc_dtype)i;
    return TC_UNDEFINED;
}

unsigned tc_dtype_bits(tc_dtype dtype) { return (unsigned)dtype < TC_DTYPE_COUNT ? dtypes[dtype].bits : 0; }

bool tc_dtype_is_half(tc_dtype dtype) { return dtype == TC_FLOAT16 || dtype == TC_BFLOAT16; }

bool tc_dtype_is_float(tc_dtype dtype) { return dtype == TC_FLOAT || dtype == TC_DOUBLE || tc_dtype_is_half(dtype); }

/* --- types ------------------------------------------------------------------------------------ */

const tc_type *tc_type_tensor(tc_model *model, tc_dtype dtype, int rank, const tc_dim *dims) {
    tc_type *type = TC_NEW(model->arena, tc_type);
    type->kind = TC_TENSOR;
    type->dtype = dtype;
    type->rank = rank;
    if (rank > 0) {
        tc_dim *copy = TC_NEW_ARRAY(model->arena, tc_dim, (size_t)rank);
        for (int i = 0; i < rank; i++)
            copy[i] = dims ? dims[i] : tc_dim_unknown();
        type->dims = copy;
    }
    return type;
}

const tc_type *tc_type_tensor_static(tc_model *model, tc_dtype dtype, int rank, const int64_t *dims) {
    tc_dim copy[TC_MAX_RANK];
    TC_ASSERT(rank <= TC_MAX_RANK);
    for (int i = 0; i < rank; i++)
        copy[i] = tc_dim_const(dims[i]);
    return tc_type_tensor(model, dtype, rank, copy);
}

bool tc_type_equal(const tc_type *a, const tc_type *b) {
    if (a == b)
        return true;
    if (!a || !b || a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (!tc_dim_equal(a->dims[i], b->dims[i]))
            return false;
    return a->elem == b->elem || tc_type_equal(a->elem, b->elem);
}

bool tc_type_is_static(const tc_type *type) {
    if (!type || type->kind != TC_TENSOR || type->rank == TC_RANK_UNKNOWN)
        return false;
    for (int i = 0; i < type->rank; i++)
        if (!tc_dim_is_const(type->dims[i]))
            return false;
    return true;
}

uint64_t tc_type_elements(const tc_type *type) {
    uint64_t n = 1;
    for (int i = 0; i < type->rank; i++)
        n *= tc_dim_is_const(type->dims[i]) ? (uint64_t)type->dims[i].value : 1;
    return n;
}

const char *tc_type_text(tc_arena *arena, const tc_type *type) {
    static const char *const kinds[] = {"tensor", "sparse_tensor", "seq", "optional", "map", "opaque"};
    if (!type)
        return "?";
    if (type->kind != TC_TENSOR)
        return tc_arena_printf(arena, "%s(%s)", kinds[type->kind], type->elem ? tc_type_text(arena, type->elem) : "");
    const char *name = tc_dtype_name(type->dtype);
    if (type->rank == TC_RANK_UNKNOWN)
        return tc_arena_printf(arena, "%s[...]", name);
    const char *text = tc_arena_printf(arena, "%s[", name);
    for (int i = 0; i < type->rank; i++)
        text = tc_arena_printf(arena, "%s%s%s", text, i ? "," : "", tc_dim_text(arena, type->dims[i]));
    return tc_arena_printf(arena, "%s]", text);
}

tc_dtype tc_value_dtype(const tc_value *value) {
    return value && value->type && value->type->kind == TC_TENSOR ? value->type->dtype : TC_UNDEFINED;
}

int tc_value_rank(const tc_value *value) {
    return value && value->type && value->type->kind == TC_TENSOR ? value->type->rank : TC_RANK_UNKNOWN;
}

/* --- tensors ---------------------------------------------------------------------------------- */

bool tc_shape_count(int rank, const int64_t *dims, uint64_t *count) {
    uint64_t n = 1;
    bool zero = false;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return false;
        if (dims[i] == 0) {
            zero = true;
            continue;
        }
        if (__builtin_mul_overflow(n, (uint64_t)dims[i], &n))
            return false;
    }
    if (n > UINT64_MAX / 16)
        return false;
    *count = zero ? 0 : n;
    return true;
}

size_t tc_tensor_bytes(tc_dtype dtype, uint64_t count) { return (size_t)((count * tc_dtype_bits(dtype) + 7) / 8); }

tc_tensor *tc_tensor_create(tc_model *model, tc_dtype dtype, int rank, const int64_t *dims, const void *data) {
    tc_tensor *tensor = TC_NEW(model->arena, tc_tensor);
    tensor->dtype = dtype;
    tensor->rank = rank;
    int64_t *copy = TC_NEW_ARRAY(model->arena, int64_t, (size_t)rank);
    if (rank)
        memcpy(copy, dims, (size_t)rank * sizeof *copy);
    tensor->dims = copy;
    TC_ASSERT(tc_shape_count(rank, dims, &tensor->count));
    tensor->bytes = tc_tensor_bytes(dtype, tensor->count);
    void *bytes = tc_arena_alloc(model->arena, tensor->bytes, 1);
    if (data && tensor->bytes)
        memcpy(bytes, data, tensor->bytes);
    tensor->data = bytes;
    return tensor;
}

tc_tensor *tc_tensor_ints(tc_model *model, const int64_t *values, int64_t count) {
    return tc_tensor_create(model, TC_INT64, 1, &count, values);
}

tc_tensor *tc_tensor_scalar_int(tc_model *model, int64_t value) {
    return tc_tensor_create(model, TC_INT64, 0, NULL, &value);
}

static float bf16_to_float(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The bits of the nearest 16-bit number, ties to even, with `width` mantissa bits and this exponent bias. */
static uint16_t half_from_double(double value, int width, int bias) {
    unsigned sign = signbit(value) ? 0x8000 : 0, infinity = (2u * (unsigned)bias + 1) << width;
    double a = fabs(value);
    int exponent = 0;
    if (isnan(value))
        return (uint16_t)(infinity | 1u << (width - 1));
    if (a >= ldexp(2 - ldexp(1, -width - 1), bias))
        return (uint16_t)(sign | infinity);
    if (a < ldexp(1, 1 - bias)) /* subnormal or 0: units of the smallest */
        return (uint16_t)(sign | (unsigned)nearbyint(ldexp(a, bias - 1 + width)));
    frexp(a, &exponent);
    unsigned mantissa = (unsigned)nearbyint(ldexp(a, width + 1 - exponent)); /* may carry into the exponent */
    return (uint16_t)(sign | (((unsigned)(exponent - 2 + bias) << width) + mantissa));
}

static uint16_t f16_from_double(double value) { return half_from_double(value, 10, 15); }
static uint16_t bf16_from_double(double value) { return half_from_double(value, 7, 127); }

static double f16_to_double(uint16_t half) {
    int exponent = (half >> 10) & 31, mantissa = half & 1023;
    double a = exponent == 0    ? ldexp(mantissa, -24)
               : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : ldexp(1024 + mantissa, exponent - 25);
    return half & 0x8000 ? -a : a;
}

/* One row per C type that holds elements: used to convert an element from or to a number. */
/* clang-format off */
#define TC_PLAIN_TYPES(X)                                                                                      \
    X(TC_FLOAT, float) X(TC_DOUBLE, double) X(TC_UINT8, uint8_t) X(TC_INT8, int8_t) X(TC_UINT16, uint16_t)      \
    X(TC_INT16, int16_t) X(TC_INT32, int32_t) X(TC_INT64, int64_t) X(TC_UINT32, uint32_t) X(TC_UINT64, uint64_t) \
    X(TC_BOOL, uint8_t)
/* clang-format on */

bool tc_dtype_is_number(tc_dtype dtype) {
    switch ((int)dtype) {
#define CASE(tag, type) case tag:
        TC_PLAIN_TYPES(CASE)
#undef CASE
    case TC_FLOAT16:
    case TC_BFLOAT16: return true;
    default: return false;
    }
}

void tc_element_set(tc_dtype dtype, void *data, uint64_t index, double value) {
    switch ((int)dtype) {
#define STORE(tag, type)                                                                                               \
    case tag: {                                                                                                        \
        type x = (type)value;                                                                                          \
        memcpy((unsigned char *)data + index * sizeof x, &x, sizeof x);                                                \
        break;                                                                                                         \
    }
        TC_PLAIN_TYPES(STORE)
#undef STORE
    case TC_FLOAT16: {
        uint16_t x = f16_from_double(value);
        memcpy((unsigned char *)data + index * sizeof x, &x, sizeof x);
        break;
    }
    case TC_BFLOAT16: {
        uint16_t x = bf16_from_double(value);
        memcpy((unsigned char *)data + index * sizeof x, &x, sizeof x);
        break;
    }
    default: TC_ASSERT(!"a numeric element type");
    }
}

double tc_round_float(tc_dtype dtype, double value) {
    return dtype == TC_FLOAT      ? (double)(float)value
           : dtype == TC_FLOAT16  ? f16_to_double(f16_from_double(value))
           : dtype == TC_BFLOAT16 ? (double)bf16_to_float(bf16_from_double(value))
                                  : value;
}

tc_tensor *tc_tensor_scalar(tc_model *model, tc_dtype dtype, double value) {
    unsigned char bytes[8] = {0};
    tc_element_set(dtype, bytes, 0, value);
    return tc_tensor_create(model, dtype, 0, NULL, bytes);
}

tc_tensor *tc_tensor_transposed(tc_model *model, const tc_tensor *tensor, const void *data) {
    int64_t dims[] = {tensor->dims[1], tensor->dims[0]};
    tc_tensor *result = tc_tensor_create(model, tensor->dtype, 2, dims, NULL);
    const char *from = data;
    size_t bytes = tc_dtype_bits(tensor->dtype) / 8, rows = (size_t)dims[1], columns = (size_t)dims[0];
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            memcpy((char *)(uintptr_t)result->data + (k * rows + i) * bytes, from + (i * columns + k) * bytes, bytes);
    return result;
}

double tc_tensor_get(const tc_tensor *tensor, uint64_t index) {
    const unsigned char *data = tensor->data;
    TC_ASSERT(data && index < tensor->count);
    switch ((int)tensor->dtype) {
#define LOAD(tag, type)                                                                                                \
    case tag: {                                                                                                        \
        type x;                                                                                                        \
        memcpy(&x, data + index * sizeof x, sizeof x);                                                                 \
        return (double)x;                                                                                              \
    }
        TC_PLAIN_TYPES(LOAD)
#undef LOAD
    case TC_FLOAT16: {
        uint16_t x;
        memcpy(&x, data + index * 2, 2);
        return f16_to_double(x);
    }
    case TC_BFLOAT16: {
        uint16_t x;
        memcpy(&x, data + index * 2, 2);
        return (double)bf16_to_float(x);
    }
    default: TC_ASSERT(!"a numeric element type"); return 0;
    }
}

int64_t tc_tensor_get_int(const tc_tensor *tensor, uint64_t index) {
    const unsigned char *data = tensor->data;
    if (tensor->dtype == TC_INT64 || tensor->dtype == TC_UINT64) {
        TC_ASSERT(data && index < tensor->count);
        int64_t x;
        memcpy(&x, data + index * sizeof x, sizeof x);
        return x;
    }
    double x = tc_tensor_get(tensor, index);
    return x >= 9.2e18 ? INT64_MAX : x <= -9.2e18 ? INT64_MIN : isnan(x) ? 0 : (int64_t)x;
}

/* --- constants -------------------------------------------------------------------------------- */

tc_value *tc_constant(tc_graph *graph, const char *name, const tc_tensor *tensor) {
    tc_value *value =
        tc_value_create(graph, name, tc_type_tensor_static(graph->model, tensor->dtype, tensor->rank, tensor->dims));
    tc_graph_add_initializer(graph, value, tensor);
    return value;
}

/* The value of a Constant node in any of its attribute forms, as a tensor. */
static const tc_tensor *constant_node(const tc_node *node) {
    tc_model *model = node->graph->model;
    if (!tc_node_is(node, "", "Constant") || node->n_attrs != 1 || node->attrs[0].ref)
        return NULL;
    const tc_attr *attr = &node->attrs[0];
    int64_t count = (int64_t)attr->count;
    switch (attr->kind) {
    case TC_ATTR_TENSOR: return attr->t;
    case TC_ATTR_FLOAT: return tc_tensor_create(model, TC_FLOAT, 0, NULL, &attr->f);
    case TC_ATTR_INT: return tc_tensor_scalar_int(model, attr->i);
    case TC_ATTR_FLOATS: return tc_tensor_create(model, TC_FLOAT, 1, &count, attr->floats);
    case TC_ATTR_INTS: return tc_tensor_ints(model, attr->ints, count);
    default: return NULL;
    }
}

const tc_tensor *tc_value_constant(const tc_value *value) {
    if (value->init)
        return value->is_input || value->learned == TC_LEARNED_YES ? NULL : value->init;
    return value->producer ? constant_node(value->producer) : NULL;
}
