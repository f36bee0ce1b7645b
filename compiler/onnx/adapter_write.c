/* adapter_write.c: tensors -> an .onnx_adapter file: a flatbuffer of the schema in checkpoint.c. All tables have four
 * fields of four bytes, and so share one vtable. References lead forward by 32 bits; bytes of vectors begin at a
 * multiple of 8. */
#include "checkpoint.h"
#include <errno.h>
#include <string.h>

enum { VTABLE = 8, ROOT = 20, TABLE = 20, FIELDS = 4 };

typedef struct writer {
    FILE *out;
    uint64_t at; /* the next byte */
} writer;

static void put(writer *w, const void *bytes, size_t n) {
    fwrite(bytes, 1, n, w->out);
    w->at += n;
}

static void put_number(writer *w, size_t width, uint64_t number) { put(w, &number, width); }

/* Up to a place that is `after` a multiple of 8. */
static uint64_t aligned(uint64_t at, unsigned after) { return at + (after - at) % 8; }

static void pad(writer *w, uint64_t until) {
    while (w->at < until)
        put_number(w, 1, 0);
}

/* Where the parts of a parameter begin. */
typedef struct place {
    uint64_t table, name, dims, data, end;
} place;

/* The counts of vectors are 4 before a multiple of 8. */
static place place_at(uint64_t at, const tc_tensor *t) {
    place p = {.table = aligned(at, 4)};
    p.name = p.table + TABLE;
    p.dims = aligned(p.name + 4 + strlen(t->name) + 1, 4);
    p.data = aligned(p.dims + 4 + 8 * (uint64_t)t->rank, 4);
    p.end = p.data + 4 + t->bytes;
    return p;
}

/* Four fields after the distance to the vtable. */
static void put_table(writer *w, const uint32_t fields[FIELDS]) {
    put_number(w, 4, w->at - VTABLE);
    put(w, fields, FIELDS * sizeof *fields);
}

static void put_parameter(writer *w, const tc_tensor *t) {
    const place p = place_at(w->at, t);
    pad(w, p.table);
    const uint32_t fields[FIELDS] = {(uint32_t)(p.name - p.table - 4), (uint32_t)(p.dims - p.table - 8),
                                     (uint32_t)t->dtype, (uint32_t)(p.data - p.table - 16)};
    put_table(w, fields);
    put_number(w, 4, strlen(t->name));
    put(w, t->name, strlen(t->name) + 1);
    pad(w, p.dims);
    put_number(w, 4, (uint64_t)t->rank);
    put(w, t->dims, (size_t)t->rank * sizeof *t->dims);
    pad(w, p.data);
    put_number(w, 4, t->bytes);
    put(w, t->data, t->bytes);
}

static void put_all(writer *w, const tc_tensor *tensors, size_t n) {
    static const uint16_t vtable[2 + FIELDS] = {4 + 2 * FIELDS, TABLE, 4, 8, 12, 16};
    static const uint32_t root[FIELDS] = {1, 1, 1, 4}; /* versions, then the vector that follows at once */
    put_number(w, 4, ROOT);
    put(w, TC_ADAPTER_MARK, 4);
    put(w, vtable, sizeof vtable);
    put_table(w, root);
    put_number(w, 4, n);
    uint64_t end = w->at + 4 * n;
    for (size_t i = 0; i < n; i++) {
        const place p = place_at(end, &tensors[i]);
        put_number(w, 4, p.table - w->at);
        end = p.end;
    }
    for (size_t i = 0; i < n; i++)
        put_parameter(w, &tensors[i]);
}

/* References have 32 bits, and other readers take them for signed. */
static bool is_too_large(const tc_tensor *tensors, size_t n) {
    uint64_t end = ROOT + TABLE + 4 + 4 * n;
    for (size_t i = 0; i < n && end <= INT32_MAX; i++)
        end = place_at(end, &tensors[i]).end;
    return end > INT32_MAX;
}

tc_status tc_adapter_write(tc_ctx *ctx, const char *path, const tc_tensor *tensors, size_t n) {
    tc_out_file *file;
    if (is_too_large(tensors, n))
        return tc_error(ctx, TC_LIMIT, NULL, "'%s' would take 2 GiB or more, which the format does not hold",
                        tc_quote(ctx, path));
    TC_TRY(tc_out_open(ctx, path, &file));
    writer w = {.out = tc_out_stream(file)};
    put_all(&w, tensors, n);
    return tc_out_commit(ctx, file);
}
