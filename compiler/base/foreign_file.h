/* foreign_file.h: what a file is that was taken for one of ours, by its first bytes: for hints. */
#ifndef TC_FOREIGN_FILE_H
#define TC_FOREIGN_FILE_H
#include "diag.h"

/* Attaches to the newest diagnostic what was expected ("an ONNX model") and what the bytes are instead; where that is
 * not known, nothing. */
void tc_hint_foreign(tc_ctx *ctx, const char *expected, const void *data, size_t size);
/* The same where an archive of arrays was expected, which may have been cut off. */
void tc_hint_no_archive(tc_ctx *ctx, const void *data, size_t size);
#endif
