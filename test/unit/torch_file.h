/* torch_file.h: the smallest ONNX file with what PyTorch's exporter says in metadata, for tests: y = Relu (x), w beside
 * it. Protobuf by hand: every field is a length and bytes, or a small number. */
#ifndef TEST_TORCH_FILE_H
#define TEST_TORCH_FILE_H
#include "cases.h"
#include "compiler/base/base.h"
#include "compiler/onnx/onnx.h"
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    char *at;
    size_t n;
} bytes;

static void put(bytes *to, const void *from, size_t n) {
    to->at = realloc(to->at, to->n + n + 1);
    assert_non_null(to->at);
    memcpy(to->at + to->n, from, n);
    to->n += n;
}

static void put_varint(bytes *to, size_t n) {
    for (; n > 127; n >>= 7)
        put(to, &(char){(char)(n | 128)}, 1);
    put(to, &(char){(char)n}, 1);
}

static void put_number(bytes *to, size_t field, size_t n) {
    put_varint(to, field << 3);
    put_varint(to, n);
}

/* Takes the part. */
static void put_part(bytes *to, size_t field, bytes part) {
    put_varint(to, field << 3 | 2);
    put_varint(to, part.n);
    put(to, part.at ? part.at : "", part.n);
    free(part.at);
}

static void put_text(bytes *to, size_t field, const char *text) {
    bytes part = {0};
    put(&part, text, strlen(text));
    put_part(to, field, part);
}

static void put_pair(bytes *to, size_t field, const char *key, const char *value) {
    bytes pair = {0};
    if (!value)
        return;
    put_text(&pair, 1, key);
    put_text(&pair, 2, value);
    put_part(to, field, pair);
}

/* A float[2] of that name; with metadata, or NULL. */
static bytes info_of(const char *name, const char *key, const char *value) {
    bytes dim = {0}, shape = {0}, tensor = {0}, type = {0}, info = {0};
    put_number(&dim, 1, 2);
    put_part(&shape, 1, dim);
    put_number(&tensor, 1, 1);
    put_part(&tensor, 2, shape);
    put_part(&type, 1, tensor);
    put_text(&info, 1, name);
    put_part(&info, 2, type);
    put_pair(&info, 4, key, value);
    return info;
}

/* What the file says; each may be NULL. */
typedef struct told {
    const char *call;        /* of the node */
    const char *signature;   /* of the graph */
    const char *key, *value; /* of w */
} told;

typedef struct torch_file {
    tc_ctx ctx;
    tc_model *model;
    bytes file;
} torch_file;

static void torch_file_read(torch_file *f, told t) {
    *f = (torch_file){0};
    tc_ctx_init(&f->ctx, "test");
    bytes node = {0}, weight = {0}, graph = {0}, opset = {0};
    const float data[2] = {1, 2};
    bytes raw = {0};
    put_text(&node, 1, "x");
    put_text(&node, 2, "y");
    put_text(&node, 4, "Relu");
    put_pair(&node, 9, "pkg.torch.onnx.fx_node", t.call);
    put_number(&weight, 1, 2);
    put_number(&weight, 2, 1);
    put_text(&weight, 8, "m.w");
    put(&raw, data, sizeof data);
    put_part(&weight, 9, raw);
    put_part(&graph, 1, node);
    put_text(&graph, 2, "g");
    put_part(&graph, 5, weight);
    put_part(&graph, 11, info_of("x", NULL, NULL));
    put_part(&graph, 12, info_of("y", NULL, NULL));
    put_part(&graph, 13, info_of("m.w", t.key, t.value));
    put_pair(&graph, 16, "pkg.torch.export.ExportedProgram.graph_signature", t.signature);
    put_number(&opset, 2, 21);
    put_number(&f->file, 1, 10);
    put_part(&f->file, 8, opset);
    put_part(&f->file, 7, graph);
    assert_int_equal(tc_read_onnx(&f->ctx, f->file.at, f->file.n, NULL, &f->model), TC_OK);
}

static void torch_file_close(torch_file *f) {
    tc_model_destroy(f->model);
    tc_ctx_fini(&f->ctx);
    free(f->file.at);
}
#endif
