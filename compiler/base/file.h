/* file.h: whole files in, and files that appear whole or not at all. */
#ifndef TC_FILE_H
#define TC_FILE_H
#include "diag.h"
#include "recover.h"
#include <stdint.h>

/* The whole file, mapped or read. */
typedef struct tc_file {
    const void *data;
    size_t size;
    void *map;
} tc_file;
/* tc_file_close ends it. */
tc_status tc_file_open(tc_ctx *ctx, const char *path, tc_file *out_file);
void tc_file_close(tc_file *file);
/* Until tc_let_go(held), a failure (recover.h) closes the file. */
void tc_file_hold(tc_file *file, tc_held *held);
void tc_close_fd(void *fd); /* an int: for tc_hold */

/* An output file that appears whole or not at all; the open recovery point holds it. */
typedef struct tc_out_file tc_out_file;
tc_status tc_out_open(tc_ctx *ctx, const char *path, tc_out_file **out_file);
FILE *tc_out_stream(tc_out_file *file);
const char *tc_out_temp_path(tc_out_file *file);         /* for libraries that open files themselves */
tc_status tc_out_commit(tc_ctx *ctx, tc_out_file *file); /* flush, sync, rename; frees */
void tc_out_abandon(tc_out_file *file);                  /* removes the temporary file; frees; NULL is fine */
void tc_remove_temporary_files(void);                    /* of all open outputs: for handlers of signals */

/* The log of a run: written as it grows, truncated first unless `append`, locked against other runs. NULL: the
 * diagnostic is there. */
FILE *tc_out_in_place(tc_ctx *ctx, const char *path, bool append);

/* open(2), but never waiting for a pipe, terminal or device (O_NONBLOCK). The result is none of the three standard
 * files, should these be closed: text printed there would become data. */
int tc_open(const char *path, int flags);
int tc_above_standard(int fd);
uint32_t tc_random_name(void); /* for names that no other process uses */

bool tc_ends_with(const char *name, const char *end); /* ".onnxt", say */
#endif
