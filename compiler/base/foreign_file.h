/* foreign_file.h: recognizes, by its first bytes, a file of another kind that was given as one of ours: for hints. */
#ifndef TC_FOREIGN_FILE_H
#define TC_FOREIGN_FILE_H
#include "diag.h"

/* Attaches a hint to the newest diagnostic: the expected kind ("an ONNX model") and the kind that the bytes show. No
 * hint where that is not known. */
void tc_hint_foreign(tc_ctx *ctx, const char *expected, const void *data, size_t size);
/* The same for an expected archive of arrays, which may have been cut off. */
void tc_hint_no_archive(tc_ctx *ctx, const void *data, size_t size);
#endif
