/* onnx_guard.c: bytes of a protobuf file -> messages of protobuf-c, safely.
 * protobuf-c's own unpack recurses without limit, merges repeated submessages in quadratic time, lets 1 MB grow to 100
 * and checks no string. This walk is driven by the same descriptors, but in a loop with a stack of its own. Each
 * message is read twice: a scan of its own fields checks them, counts the repeated ones and charges the budget; a
 * second walk fills them in and descends into submessages. Skipping a submessage in the scan costs O(1), so all is
 * linear. */
#include "onnx_msg.h"
#include "compiler/base/base.h"
#include <inttypes.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { MAX_FIELDS = 64, POOL = 32 << 10, POOL_OBJECT = 2 << 10 };

/* One message in the middle of being filled in. */
typedef struct frame {
    const ProtobufCMessageDescriptor *type;
    ProtobufCMessage *message;
    const uint8_t *at, *end;
    const ProtobufCFieldDescriptor *field; /* of the enclosing message; NULL for the root */
    size_t index;                          /* in a repeated field */
} frame;

typedef struct unpacker {
    tc_ctx *ctx;
    tc_arena *arena;
    const uint8_t *base;
    size_t size, budget, used;
    char *pool, *pool_end;
    size_t depth;
    frame stack[TC_MAX_DEPTH + 1];
} unpacker;

/* One field as it stands on the wire. */
typedef struct token {
    const ProtobufCFieldDescriptor *field; /* NULL: unknown */
    uint32_t number;
    unsigned wire;
    const uint8_t *start, *value, *data, *end; /* tag; what follows it; payload without length prefix; its end */
    uint64_t varint;
} token;

/* --- errors ----------------------------------------------------------------------------------- */

/* graph.node[12].attribute[0].t */
static const char *path_of(unpacker *u, const ProtobufCFieldDescriptor *field) {
    char *text = tc_arena_alloc(u->ctx->arena, (TC_MAX_DEPTH + 2) * 48, 1), *p = text;
    for (size_t i = 1; i < u->depth; i++) {
        const frame *f = &u->stack[i];
        p += sprintf(p, "%s%.24s", i > 1 ? "." : "", f->field->name);
        if (f->field->label == PROTOBUF_C_LABEL_REPEATED)
            p += sprintf(p, "[%zu]", f->index);
    }
    if (field)
        p += sprintf(p, "%s%.24s", p > text ? "." : "", field->name);
    else if (p == text)
        strcpy(p, u->depth && u->stack[0].type != &onnx__model_proto__descriptor ? "tensor" : "model");
    if (strlen(text) > 200) /* the innermost part says more */
        return tc_arena_printf(u->ctx->arena, "...%s", text + strlen(text) - 160);
    return text;
}

#define FAIL(u, status, field, where, ...)                                                                             \
    fail((u), (status), (field), (where), tc_arena_printf((u)->ctx->arena, __VA_ARGS__))

static tc_status fail(unpacker *u, tc_status status, const ProtobufCFieldDescriptor *field, const uint8_t *where,
                      const char *message) {
    return tc_error(u->ctx, status, NULL, "%s at byte %zu: %s", path_of(u, field), (size_t)(where - u->base), message);
}

/* --- memory ----------------------------------------------------------------------------------- */

static tc_status charge(unpacker *u, const uint8_t *where, size_t bytes) {
    if (bytes <= u->budget - u->used) {
        u->used += bytes;
        return TC_OK;
    }
    FAIL(u, TC_LIMIT, NULL, where, "the file would grow beyond %zu bytes in memory, 64 KiB + 16 times its size",
         u->budget);
    tc_hint(u->ctx, "no real model has so many empty messages");
    return TC_LIMIT;
}

/* Tight packing: strings of a few bytes are the bulk of a model, and the arena would round each to 16. */
static void *take(unpacker *u, size_t bytes) {
    if (bytes > POOL_OBJECT)
        return tc_arena_alloc(u->arena, 1, bytes);
    size_t align = bytes >= 8 ? 8 : bytes >= 4 ? 4 : 1;
    size_t pad = (size_t)(-(uintptr_t)u->pool & (align - 1));
    if (!u->pool || (size_t)(u->pool_end - u->pool) < bytes + pad) {
        size_t size = u->size < POOL / 4 ? POOL_OBJECT + u->size * 2 : POOL;
        u->pool = tc_arena_alloc(u->arena, 1, size);
        u->pool_end = u->pool + size;
        pad = 0;
    }
    void *taken = u->pool + pad;
    u->pool += pad + bytes;
    return taken;
}

/* --- the wire --------------------------------------------------------------------------------- */

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out_value) {
    const uint8_t *p = *at;
    uint64_t value = 0;
    for (unsigned shift = 0; p < end && shift < 70; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1)
            return false; /* more than 64 bits */
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte & 0x80)
            continue;
        *at = p;
        *out_value = value;
        return true;
    }
    return false;
}

static unsigned wire_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return WIRE_32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    default: return WIRE_VARINT; /* the schema has no zigzag types */
    }
}

static size_t size_in_memory(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 4;
    }
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *type, uint32_t number) {
    for (unsigned i = 0; i < type->n_fields; i++)
        if (type->fields[i].id == number)
            return &type->fields[i];
    return NULL;
}

static bool is_packed(const token *t) {
    return t->wire == WIRE_BYTES && t->field->label == PROTOBUF_C_LABEL_REPEATED &&
           wire_of(t->field->type) != WIRE_BYTES;
}

/* The field at *at, which moves past it. */
static tc_status next_token(unpacker *u, const frame *f, const uint8_t **at, token *t) {
    uint64_t tag = 0;
    *t = (token){.start = *at};
    if (!read_varint(at, f->end, &tag))
        return FAIL(u, TC_BAD_INPUT, NULL, t->start, "field number does not end, or has more than 64 bits");
    if (tag >> 3 == 0 || tag > UINT32_MAX)
        return FAIL(u, TC_BAD_INPUT, NULL, t->start, "field number %" PRIu64 " is not in 1 to 536870911", tag >> 3);
    t->number = (uint32_t)(tag >> 3);
    t->wire = tag & 7;
    t->field = field_of(f->type, t->number);
    t->value = t->data = *at;
    size_t left = (size_t)(f->end - *at);
    uint64_t length = t->wire == WIRE_64 ? 8 : 4;
    switch (t->wire) {
    case WIRE_VARINT:
        if (!read_varint(at, f->end, &t->varint))
            return FAIL(u, TC_BAD_INPUT, t->field, t->start, "number does not end, or has more than 64 bits");
        t->end = *at;
        break;
    case WIRE_BYTES:
        if (!read_varint(at, f->end, &length))
            return FAIL(u, TC_BAD_INPUT, t->field, t->start, "length does not end, or has more than 64 bits");
        t->data = *at;
        left = (size_t)(f->end - *at);
        /* fall through */
    case WIRE_64:
    case WIRE_32:
        if (length > left) {
            tc_status status = FAIL(u, TC_BAD_INPUT, t->field, t->start,
                                    "%" PRIu64 " bytes announced, but only %zu left", length, left);
            tc_hint(u->ctx, "the file was cut off, or is damaged");
            return status;
        }
        *at = t->end = t->data + length;
        break;
    default:
        return FAIL(u, TC_BAD_INPUT, t->field, t->start, "wire type %u of field %" PRIu32 " is none that ONNX uses",
                    t->wire, t->number);
    }
    if (t->field && t->wire != wire_of(t->field->type) && !is_packed(t))
        return FAIL(u, TC_BAD_INPUT, t->field, t->start, "wire type %u, expected %u", t->wire, wire_of(t->field->type));
    return TC_OK;
}

/* Elements of a packed field. */
static tc_status count_packed(unpacker *u, const token *t, size_t *out_count) {
    size_t length = (size_t)(t->end - t->data), unit = size_in_memory(t->field->type), count = 0;
    if (wire_of(t->field->type) != WIRE_VARINT) {
        *out_count = length / unit;
        return length % unit == 0
                   ? TC_OK
                   : FAIL(u, TC_BAD_INPUT, t->field, t->start, "%zu bytes are no whole number of elements", length);
    }
    for (const uint8_t *p = t->data; p < t->end; p++)
        count += *p < 0x80;
    *out_count = count;
    if (length && t->end[-1] >= 0x80)
        return FAIL(u, TC_BAD_INPUT, t->field, t->start, "the last number does not end");
    return TC_OK;
}

/* --- strings ---------------------------------------------------------------------------------- */

static tc_status check_string(unpacker *u, const frame *f, const token *t) {
    size_t n = (size_t)(t->end - t->data);
    const uint8_t *nul = n ? memchr(t->data, 0, n) : NULL;
    if (nul)
        return FAIL(u, TC_BAD_INPUT, t->field, nul, "NUL in a string");
    for (size_t i = 0, step; i < n; i += step) {
        step = tc_utf8_length((const char *)t->data + i, n - i);
        if (!step)
            return FAIL(u, TC_BAD_INPUT, t->field, t->data + i, "not UTF-8: byte 0x%02X", t->data[i]);
    }
    bool is_text = strcmp(t->field->name, "doc_string") == 0 || f->type == &onnx__string_string_entry_proto__descriptor;
    if (n > TC_MAX_NAME && !is_text)
        return FAIL(u, TC_LIMIT, t->field, t->start, "name of %zu bytes, at most %d are read", n, TC_MAX_NAME);
    return TC_OK;
}

/* --- first walk over a message: check, count, allocate ---------------------------------------- */

typedef struct scan {
    size_t counts[MAX_FIELDS], n_unknown;
    uint64_t seen; /* singular fields, by position in the descriptor */
} scan;

static bool is_oneof(const ProtobufCFieldDescriptor *field) {
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* A second value for a submessage would have to be merged. Scalars may come again: the last one counts. */
static tc_status check_twice(unpacker *u, const frame *f, const token *t, const scan *s) {
    const ProtobufCFieldDescriptor *fields = f->type->fields;
    for (unsigned i = 0; i < f->type->n_fields; i++) {
        if (!(s->seen >> i & 1))
            continue;
        bool same = &fields[i] == t->field;
        bool rival =
            is_oneof(t->field) && is_oneof(&fields[i]) && fields[i].quantifier_offset == t->field->quantifier_offset;
        bool message = t->field->type == PROTOBUF_C_TYPE_MESSAGE || fields[i].type == PROTOBUF_C_TYPE_MESSAGE;
        if (message && (same || rival))
            return FAIL(u, TC_BAD_INPUT, t->field, t->start, "given twice in one message");
    }
    return TC_OK;
}

static tc_status scan_token(unpacker *u, const frame *f, const token *t, scan *s) {
    if (!t->field) {
        s->n_unknown++;
        return TC_OK;
    }
    size_t position = (size_t)(t->field - f->type->fields), count = 1;
    if (t->field->type == PROTOBUF_C_TYPE_STRING)
        TC_TRY(check_string(u, f, t));
    if (t->field->label == PROTOBUF_C_LABEL_REPEATED) {
        if (is_packed(t))
            TC_TRY(count_packed(u, t, &count));
        s->counts[position] += count;
        return TC_OK;
    }
    if (s->seen)
        TC_TRY(check_twice(u, f, t, s));
    s->seen |= (uint64_t)1 << position;
    return TC_OK;
}

static tc_status allocate_arrays(unpacker *u, frame *f, const scan *s) {
    for (unsigned i = 0; i < f->type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &f->type->fields[i];
        if (!s->counts[i])
            continue;
        size_t bytes = s->counts[i] * size_in_memory(field->type);
        TC_TRY(charge(u, f->at, bytes));
        *(void **)((char *)f->message + field->offset) = take(u, bytes);
    }
    if (s->n_unknown) {
        size_t bytes = s->n_unknown * sizeof(ProtobufCMessageUnknownField);
        TC_TRY(charge(u, f->at, bytes));
        f->message->unknown_fields = take(u, bytes);
    }
    return TC_OK;
}

/* Pushes a message: it is scanned, allocated and ready to be filled in. */
static tc_status enter(unpacker *u, const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field,
                       size_t index, const uint8_t *start, const uint8_t *end, ProtobufCMessage **out_message) {
    if (u->depth > TC_MAX_DEPTH)
        return FAIL(u, TC_LIMIT, field, start, "more than %d nested messages", TC_MAX_DEPTH);
    TC_ASSERT(type->n_fields <= MAX_FIELDS);
    frame *f = &u->stack[u->depth++];
    *f = (frame){.type = type, .at = start, .end = end, .field = field, .index = index};
    TC_TRY(charge(u, start, type->sizeof_message));
    f->message = take(u, type->sizeof_message);
    type->message_init(f->message);
    *out_message = f->message;
    scan s = {0};
    token t;
    for (const uint8_t *at = start; at < end;) {
        TC_TRY(next_token(u, f, &at, &t));
        TC_TRY(scan_token(u, f, &t, &s));
    }
    return allocate_arrays(u, f, &s);
}

/* --- second walk: fill in --------------------------------------------------------------------- */

static void store_scalar(ProtobufCType type, void *to, const uint8_t *fixed, uint64_t varint) {
    size_t size = size_in_memory(type);
    if (wire_of(type) != WIRE_VARINT) {
        memcpy(to, fixed, size); /* both are little-endian */
    } else if (size == 8) {
        memcpy(to, &varint, 8);
    } else {
        uint32_t low = type == PROTOBUF_C_TYPE_BOOL ? varint != 0 : (uint32_t)varint;
        memcpy(to, &low, 4);
    }
}

static size_t fill_packed(const token *t, char *to) {
    size_t size = size_in_memory(t->field->type), count = 0;
    for (const uint8_t *p = t->data; p < t->end; count++) {
        uint64_t varint = 0;
        const uint8_t *element = p;
        if (wire_of(t->field->type) == WIRE_VARINT) {
            if (!read_varint(&p, t->end, &varint))
                return SIZE_MAX;
        } else {
            p += size;
        }
        store_scalar(t->field->type, to + count * size, element, varint);
    }
    return count;
}

static tc_status fill_one(unpacker *u, const token *t, void *to, size_t index) {
    size_t n = (size_t)(t->end - t->data);
    switch (t->field->type) {
    case PROTOBUF_C_TYPE_MESSAGE: return enter(u, t->field->descriptor, t->field, index, t->data, t->end, to);
    case PROTOBUF_C_TYPE_STRING: {
        TC_TRY(charge(u, t->start, n + 1));
        char *copy = take(u, n + 1);
        memcpy(copy, t->data, n);
        copy[n] = '\0';
        memcpy(to, &copy, sizeof copy);
        return TC_OK;
    }
    case PROTOBUF_C_TYPE_BYTES: {
        /* The messages are only read, and packed again. */
        ProtobufCBinaryData data = {n, (uint8_t *)(uintptr_t)t->data};
        memcpy(to, &data, sizeof data);
        return TC_OK;
    }
    default: store_scalar(t->field->type, to, t->data, t->varint); return TC_OK;
    }
}

static void keep_unknown(frame *f, const token *t) {
    f->message->unknown_fields[f->message->n_unknown_fields++] = (ProtobufCMessageUnknownField){
        .tag = t->number,
        .wire_type = (ProtobufCWireType)t->wire,
        .len = (size_t)(t->end - t->value),
        .data = (uint8_t *)(uintptr_t)t->value,
    };
}

static tc_status fill(unpacker *u, frame *f) {
    token t;
    TC_TRY(next_token(u, f, &f->at, &t));
    if (!t.field) {
        keep_unknown(f, &t);
        return TC_OK;
    }
    char *message = (char *)f->message, *member = message + t.field->offset,
         *quantifier = message + t.field->quantifier_offset;
    if (t.field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t *n = (size_t *)(void *)quantifier, at = *n;
        char *items = *(char **)(void *)member;
        if (!is_packed(&t)) {
            ++*n;
            return fill_one(u, &t, items + at * size_in_memory(t.field->type), at);
        }
        size_t added = t.data < t.end ? fill_packed(&t, items + at * size_in_memory(t.field->type)) : 0;
        if (added == SIZE_MAX)
            return FAIL(u, TC_BAD_INPUT, t.field, t.start, "a number has more than 64 bits");
        *n += added;
        return TC_OK;
    }
    if (is_oneof(t.field))
        *(uint32_t *)(void *)quantifier = t.field->id;
    else if (t.field->quantifier_offset)
        *(protobuf_c_boolean *)(void *)quantifier = 1;
    return fill_one(u, &t, member, 0);
}

tc_status tc_onnx_unpack(tc_ctx *ctx, tc_arena *arena, const ProtobufCMessageDescriptor *type, const void *bytes,
                         size_t size, ProtobufCMessage **out_message) {
    if (size > TC_MAX_FILE)
        return tc_error(ctx, TC_LIMIT, NULL,
                        "%zu bytes, but protobuf files end at 2 GiB: weights of such models are kept outside", size);
    unpacker u = {.ctx = ctx, .arena = arena, .base = bytes, .size = size, .budget = (64u << 10) + 16 * size};
    const uint8_t *start = bytes;
    TC_TRY(enter(&u, type, NULL, 0, start, start + size, out_message));
    while (u.depth) {
        frame *f = &u.stack[u.depth - 1];
        if (f->at == f->end)
            u.depth--;
        else
            TC_TRY(fill(&u, f));
    }
    return TC_OK;
}
