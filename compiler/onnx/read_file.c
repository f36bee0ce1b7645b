/* read_file.c: a file -> a model, whether it holds protobuf or ONNX text. */
#include "compiler/base/base.h"
#include "onnx.h"
#include "compiler/text/text.h"
#include <ctype.h>
#include <string.h>

enum { PEEK = 512 };

/* Text begins with '<', '#' or a word; a protobuf file may begin with the code of a letter too, but goes on with
 * control characters. */
static bool looks_like_text(const unsigned char *p, size_t size) {
    size_t i = 0;
    while (i < size && i < PEEK && isspace(p[i]))
        i++;
    if (i == size || i == PEEK || (p[i] != '<' && p[i] != '#' && p[i] != '_' && !isalpha(p[i])))
        return false;
    for (; i < size && i < PEEK; i++)
        if (p[i] == 0x7F || (p[i] < 0x20 && !isspace(p[i])))
            return false;
    return true;
}

static tc_status read_either(tc_ctx *ctx, const tc_file *file, const char *path, tc_model **out_model) {
    bool text = tc_ends_with(path, ".onnxt") || (file->size && looks_like_text(file->data, file->size));
    const char *model_path = strcmp(path, "-") == 0 ? NULL : path;
    if (!text)
        return tc_read_onnx(ctx, file->data, file->size, model_path, out_model);
    TC_TRY(tc_parse_text(ctx, file->data, file->size, path, out_model));
    if (model_path)
        (*out_model)->path = tc_arena_strdup((*out_model)->arena, path);
    return TC_OK;
}

tc_status tc_read_opened(tc_ctx *ctx, const tc_file *file, const char *path, tc_model **out_model) {
    size_t n_diags = ctx->n_diags;
    *out_model = NULL;
    tc_status status = read_either(ctx, file, path, out_model);
    if (status == TC_BAD_INPUT && ctx->n_diags > n_diags)
        tc_hint_foreign(ctx, "an ONNX model", file->data, file->size);
    return status;
}

tc_status tc_read_file(tc_ctx *ctx, const char *path, tc_model **out_model) {
    tc_file file;
    *out_model = NULL;
    ctx->file = path;
    TC_TRY(tc_file_open(ctx, path, &file));
    tc_held held;
    tc_file_hold(&file, &held);
    tc_status status = tc_read_opened(ctx, &file, path, out_model);
    tc_let_go(&held);
    if (status == TC_OK)
        tc_model_keep_file(*out_model, &file);
    else
        tc_file_close(&file);
    return status;
}
