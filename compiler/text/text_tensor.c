/* text_tensor.c: types and constant tensors of ONNX text. `float` is a scalar, `float[]` a tensor of unknown rank,
 * `float[2,N,?]` has dims. The numbers in a tensor's braces are those of TensorProto's typed fields: 16-bit and 8-bit
 * floats as bit patterns, complex numbers as pairs, 4-bit and 2-bit types packed into bytes. */
#include "compiler/base/base.h"
#include "text_parse.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- types ------------------------------------------------------------------------------------ */

static const char *word(const tc_text_parser *p) {
    return tc_arena_strndup(p->scratch, p->lx.token.start, p->lx.token.size);
}

bool tc_text_is_type(const tc_text_parser *p) {
    if (p->lx.token.kind != TC_TOKEN_IDENT || !tc_text_is_type_word(word(p)))
        return false;
    tc_token next = tc_lexer_peek(&p->lx);
    return next.kind == TC_TOKEN_IDENT || next.kind == TC_TOKEN_STRING || next.mark == '[' || next.mark == '(';
}

static tc_status parse_dim(tc_text_parser *p, tc_dim *out_dim) {
    tc_lexer *lx = &p->lx;
    *out_dim = tc_dim_unknown();
    if (tc_lexer_accept(lx, '?'))
        return TC_OK;
    if (lx->token.kind == TC_TOKEN_INT) {
        tc_token token = lx->token;
        int64_t value;
        TC_TRY(tc_lexer_int(lx, "a dimension", &value));
        if (value < -1)
            return tc_lexer_error_at(lx, token, TC_BAD_INPUT, "a dimension cannot be negative");
        if (value >= 0) /* old exporters write -1 for a dynamic one */
            *out_dim = tc_dim_const(value);
        return TC_OK;
    }
    const char *name;
    TC_TRY(tc_lexer_name(lx, "a dimension (a number, a name or '?')", &name));
    if (*name)
        *out_dim = tc_dim_symbol(p->model->dims, name);
    return TC_OK;
}

/* After the element type: nothing, `[]` or `[dims]`. */
static tc_status parse_dims(tc_text_parser *p, tc_type *type) {
    tc_dim dims[TC_MAX_RANK];
    if (!tc_lexer_accept(&p->lx, '['))
        return TC_OK; /* rank 0 */
    type->rank = TC_RANK_UNKNOWN;
    if (tc_lexer_accept(&p->lx, ']'))
        return TC_OK;
    int rank = 0;
    do {
        if (rank == TC_MAX_RANK)
            return tc_lexer_error_at(&p->lx, p->lx.token, TC_LIMIT, "more than %d dimensions", TC_MAX_RANK);
        TC_TRY(parse_dim(p, &dims[rank++]));
    } while (tc_lexer_accept(&p->lx, ','));
    type->rank = rank;
    tc_dim *copy = TC_NEW_ARRAY(p->model->arena, tc_dim, (size_t)rank);
    memcpy(copy, dims, (size_t)rank * sizeof *copy);
    type->dims = copy;
    return tc_lexer_expect(&p->lx, ']');
}

static tc_status parse_dtype(tc_text_parser *p, tc_dtype *out_dtype) {
    if (p->lx.token.kind == TC_TOKEN_IDENT) {
        const char *name = word(p);
        *out_dtype = tc_dtype_from_name(name);
        if (*out_dtype != TC_UNDEFINED || strcmp(name, "undefined") == 0)
            return tc_lexer_next(&p->lx);
    }
    return tc_lexer_error(&p->lx, "an element type was expected, found %s", tc_token_text(&p->lx, p->lx.token));
}

/* a.b.c, or quoted. */
static tc_status parse_qualified(tc_text_parser *p, const char *what, const char **out_name) {
    TC_TRY(tc_lexer_name(&p->lx, what, out_name));
    while (tc_lexer_accept(&p->lx, '.')) {
        const char *part;
        TC_TRY(tc_lexer_name(&p->lx, what, &part));
        *out_name = tc_arena_printf(p->model->arena, "%s.%s", *out_name, part);
    }
    return TC_OK;
}

static tc_status parse_opaque(tc_text_parser *p, tc_type *type) {
    if (tc_lexer_is(&p->lx, ')'))
        return TC_OK;
    TC_TRY(parse_qualified(p, "the name of an opaque type", &type->name));
    if (!tc_lexer_accept(&p->lx, ','))
        return TC_OK;
    type->domain = type->name;
    return tc_lexer_name(&p->lx, "the name of an opaque type", &type->name);
}

static tc_status parse_inside(tc_text_parser *p, tc_type *type) {
    switch (type->kind) {
    case TC_SPARSE_TENSOR: TC_TRY(parse_dtype(p, &type->dtype)); return parse_dims(p, type);
    case TC_MAP:
        TC_TRY(parse_dtype(p, &type->dtype));
        type->rank = TC_RANK_UNKNOWN;
        TC_TRY(tc_lexer_expect(&p->lx, ','));
        return tc_text_type(p, &type->elem);
    case TC_OPAQUE: return parse_opaque(p, type);
    default:
        if (tc_lexer_is(&p->lx, ')')) /* an element type that is not given */
            return TC_OK;
        return tc_text_type(p, &type->elem);
    }
}

tc_status tc_text_type(tc_text_parser *p, const tc_type **out_type) {
    static const struct {
        const char *word;
        tc_type_kind kind;
    } rows[] = {{"seq", TC_SEQUENCE},
                {"map", TC_MAP},
                {"optional", TC_OPTIONAL},
                {"sparse_tensor", TC_SPARSE_TENSOR},
                {"opaque", TC_OPAQUE}};
    tc_type *type = TC_NEW(p->model->arena, tc_type);
    *out_type = type;
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        if (!tc_lexer_accept_word(&p->lx, rows[i].word))
            continue;
        type->kind = rows[i].kind;
        TC_TRY(tc_text_descend(p));
        TC_TRY(tc_lexer_expect(&p->lx, '('));
        TC_TRY(parse_inside(p, type));
        p->depth--;
        return tc_lexer_expect(&p->lx, ')');
    }
    type->kind = TC_TENSOR;
    TC_TRY(parse_dtype(p, &type->dtype));
    return parse_dims(p, type);
}

/* --- numbers in braces ------------------------------------------------------------------------ */

/* Items that the braces hold: halves of complex numbers, bytes of packed types. */
static uint64_t items_needed(const tc_tensor *t) {
    return t->dtype == TC_STRING ? t->count : t->bytes / tc_text_item_bytes(t->dtype);
}

/* 8, 16 and 32 bits: both the signed and the unsigned value of a pattern are taken, as onnx does, but int32 has its own
 * range. */
static tc_status parse_narrow(tc_text_parser *p, tc_dtype dtype, size_t size, void *out) {
    tc_token token = p->lx.token;
    int64_t value, low = -((int64_t)1 << (size * 8 - 1)), high = ((int64_t)1 << (size * 8)) - 1;
    TC_TRY(tc_lexer_int(&p->lx, "a whole number", &value));
    if (dtype == TC_INT32)
        high = INT32_MAX;
    if (dtype == TC_BOOL || dtype == TC_UINT32)
        low = 0;
    if (dtype == TC_BOOL)
        high = 1;
    if (value < low || value > high)
        return tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "%" PRId64 " is no %s", value, tc_dtype_name(dtype));
    uint32_t bits = (uint32_t)(uint64_t)value;
    uint16_t half = (uint16_t)bits;
    uint8_t byte = (uint8_t)bits;
    memcpy(out, size == 4 ? (void *)&bits : size == 2 ? (void *)&half : (void *)&byte, size);
    return TC_OK;
}

static tc_status parse_item(tc_text_parser *p, tc_dtype dtype, size_t size, void *out) {
    union {
        float f;
        double d;
        int64_t i;
        uint64_t u;
    } x;
    switch ((int)dtype) {
    case TC_FLOAT:
    case TC_COMPLEX64: TC_TRY(tc_lexer_float(&p->lx, "a number", &x.f)); break;
    case TC_DOUBLE:
    case TC_COMPLEX128: TC_TRY(tc_lexer_double(&p->lx, "a number", &x.d)); break;
    case TC_INT64: TC_TRY(tc_lexer_int(&p->lx, "a whole number", &x.i)); break;
    case TC_UINT64: TC_TRY(tc_lexer_uint(&p->lx, "a whole number", &x.u)); break;
    default: return parse_narrow(p, dtype, size, out);
    }
    memcpy(out, &x, size);
    return TC_OK;
}

/* After the opening brace. Room is made for as many as the dims need, but only if the rest of the text can hold that
 * many items. */
static tc_status parse_items(tc_text_parser *p, tc_tensor *t, tc_token where) {
    uint64_t needed = items_needed(t), n = 0, room = (uint64_t)(p->lx.end - p->lx.token.start) / 2 + 1;
    size_t size = t->dtype == TC_STRING ? sizeof(tc_bytes) : tc_text_item_bytes(t->dtype);
    if (needed > room)
        return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT, "%" PRIu64 " values are needed, more than the text holds",
                                 needed);
    char *items = tc_arena_alloc(p->model->arena, (size_t)needed, size);
    if (t->dtype == TC_STRING)
        t->strings = (const tc_bytes *)items;
    else
        t->data = items;
    if (!tc_lexer_is(&p->lx, '}')) {
        do {
            if (n == needed)
                return tc_lexer_error(&p->lx, "more values than the %" PRIu64 " that the dimensions need", needed);
            if (t->dtype == TC_STRING)
                TC_TRY(tc_lexer_string(&p->lx, "a string", (tc_bytes *)(items + n * size)));
            else
                TC_TRY(parse_item(p, t->dtype, size, items + n * size));
            n++;
        } while (tc_lexer_accept(&p->lx, ','));
    }
    if (n < needed && tc_lexer_is(&p->lx, '}'))
        return tc_lexer_error(&p->lx, "%" PRIu64 " values, but the dimensions need %" PRIu64, n, needed);
    return tc_lexer_expect(&p->lx, '}');
}

/* --- data outside ----------------------------------------------------------------------------- */

static tc_status parse_bytes(tc_text_parser *p, tc_token token, const char *text, uint64_t *out_value) {
    uint64_t value = 0;
    bool good = *text != '\0';
    for (; *text && good; text++)
        good = *text >= '0' && *text <= '9' && !__builtin_mul_overflow(value, (uint64_t)10, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(*text - '0'), &value);
    *out_value = value;
    return good ? TC_OK : tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "a number of bytes was expected");
}

static tc_status parse_external(tc_text_parser *p, tc_tensor *t, tc_token where) {
    tc_external *e = TC_NEW(p->model->arena, tc_external);
    t->external = e;
    do {
        tc_bytes key;
        const char *value;
        TC_TRY(tc_lexer_string(&p->lx, "a key such as \"location\"", &key));
        TC_TRY(tc_lexer_expect(&p->lx, ':'));
        tc_token token = p->lx.token;
        if (token.kind != TC_TOKEN_STRING)
            return tc_lexer_error(&p->lx, "a string was expected, found %s", tc_token_text(&p->lx, token));
        TC_TRY(tc_lexer_name(&p->lx, "a value", &value));
        if (strcmp(key.data, "location") == 0) {
            e->location = value;
            TC_TRY(tc_written_check_beside(p->ctx, value));
        } else if (strcmp(key.data, "offset") == 0) {
            TC_TRY(parse_bytes(p, token, value, &e->offset));
            e->has_offset = true;
        } else if (strcmp(key.data, "length") == 0) {
            TC_TRY(parse_bytes(p, token, value, &e->length));
            e->has_length = true;
        }
    } while (tc_lexer_accept(&p->lx, ','));
    if (!e->location || !*e->location)
        return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT, "external data has no location");
    if (t->dtype == TC_STRING)
        return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT, "strings cannot be external");
    if (e->has_length && e->length != t->bytes)
        return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT,
                                 "external data has %" PRIu64 " bytes, its tensor needs %zu", e->length, t->bytes);
    if (e->offset > UINT64_MAX - t->bytes)
        return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT, "external data is past the end of any file");
    return tc_lexer_expect(&p->lx, ']');
}

/* --- tensors ---------------------------------------------------------------------------------- */

static tc_status set_shape(tc_text_parser *p, const tc_type *type, tc_token where, tc_tensor *t) {
    if (!tc_type_is_static(type) || type->dtype == TC_UNDEFINED)
        return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT,
                                 "a tensor's type needs numbers for dimensions: float[2,3], or float "
                                 "for a scalar");
    int64_t *dims = TC_NEW_ARRAY(p->model->arena, int64_t, (size_t)type->rank);
    for (int i = 0; i < type->rank; i++)
        dims[i] = type->dims[i].value;
    t->dtype = type->dtype;
    t->rank = type->rank;
    t->dims = dims;
    if (!tc_shape_count(t->rank, dims, &t->count))
        return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT, "the product of these dimensions is too large");
    t->bytes = tc_tensor_bytes(t->dtype, t->count);
    return TC_OK;
}

tc_status tc_text_tensor(tc_text_parser *p, const tc_type *type, tc_token where, const char *name,
                         const tc_tensor **out_tensor) {
    tc_tensor *t = TC_NEW(p->model->arena, tc_tensor);
    *out_tensor = t;
    t->name = name;
    TC_TRY(set_shape(p, type, where, t));
    if (tc_lexer_accept(&p->lx, '{'))
        return parse_items(p, t, where);
    if (tc_lexer_accept(&p->lx, '['))
        return parse_external(p, t, where);
    if (tc_lexer_is(&p->lx, '.'))
        return tc_lexer_error(&p->lx, "this text was printed without the tensor's data");
    if (t->count == 0 && t->dtype == TC_STRING && tc_lexer_accept(&p->lx, '}'))
        return TC_OK; /* onnx.printer prints a tensor of no strings this way */
    return tc_lexer_error(&p->lx, "the tensor's data was expected, '{' or '[', found %s",
                          tc_token_text(&p->lx, p->lx.token));
}
