/* foreign_file.c: formats that are often given instead of a model or its data. */
#include "foreign_file.h"
#include <string.h>
#include <strings.h>

static const struct {
    size_t at;
    const char *bytes; /* of HTML in any case */
    size_t n;
    const char *what;
} formats[] = {
    {0, "PK", 2, "a zip archive, as torch.save and numpy.savez write it"},
    {1, "NUMPY", 5, "one array, as numpy.save writes it: numpy.savez gives arrays names"},
    {4, "\0\0\0\0{", 5, "a safetensors file: weights without a graph"},
    {4, "ORTM", 4, "a model in ONNX Runtime's own format"},
    {4, "TFL3", 4, "a model of TensorFlow Lite"},
    {1, "HDF\r\n", 5, "an HDF5 file"},
    {0, "GGUF", 4, "a model of llama.cpp"},
    {0, "\x80\x02", 2, "a pickle of Python's"},
    {0, "\x80\x04", 2, "a pickle of Python's"},
    {0, "\x1F\x8B", 2, "compressed by gzip"},
    {0, "version https://git-lfs", 23, "a pointer of Git LFS: git lfs pull fetches the file"},
    {0, "<!doctype html", 14, "a web page, saved instead of the file"},
    {0, "<html", 5, "a web page, saved instead of the file"},
};

static bool same(const char *a, const char *b, size_t n) {
    return memcmp(a, b, n) == 0 || (*b == '<' && strncasecmp(a, b, n) == 0);
}

static const char *format_of(const char *data, size_t size) {
    for (size_t i = 0; i < TC_COUNT(formats); i++)
        if (size >= formats[i].at + formats[i].n && same(data + formats[i].at, formats[i].bytes, formats[i].n))
            return formats[i].what;
    return NULL;
}

void tc_hint_foreign(tc_ctx *ctx, const char *expected, const void *data, size_t size) {
    const char *what = format_of(data, size);
    if (what)
        tc_hint(ctx, "expected %s, but this is %s", expected, what);
}

void tc_hint_no_archive(tc_ctx *ctx, const void *data, size_t size) {
    if (size > 2 && memcmp(data, "PK", 2) == 0)
        tc_hint(ctx, "it was cut off, or is still being written");
    else if (format_of(data, size))
        tc_hint_foreign(ctx, "an archive, as numpy.savez writes it", data, size);
    else
        tc_hint(ctx, "expected an archive, as numpy.savez writes it");
}
