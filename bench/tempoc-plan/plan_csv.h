/* plan_csv.h: buffers in the format of MiniMalloc and similar tools: one row each of id, lower, upper and size, the
 * life half open; perhaps an alignment, and an offset where there is a packing. The first line names the columns. */
#ifndef TC_PLAN_CSV_H
#define TC_PLAN_CSV_H
#include "compiler/base/base.h"
#include "compiler/pack/pack.h"

typedef struct plan_row {
    const char *text, *id; /* the line as it is, and its id: borrowed from the file, not terminated */
    size_t text_n, id_n, line;
    uint64_t lower, upper, size, alignment, offset;
} plan_row;

typedef struct plan_table {
    const char *header;
    size_t header_n, n;
    plan_row *rows;
    int offset_column; /* -1: there is none */
} plan_table;

/* Reads rows, in the context's arena. TC_BAD_INPUT, naming the line: a column that is missing or unknown, a field that
 * is no number or has more than 63 bits, a life that does not end after its begin, a repeated id. TC_LIMIT: more than
 * 2^30 rows. */
tc_status plan_csv_read(tc_ctx *ctx, const char *name, const tc_file *file, plan_table *out_table);
/* Adds an error at a line of the file. */
tc_status plan_csv_error(tc_ctx *ctx, const char *name, size_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The id of a row, for a message. In the context's arena. */
const char *plan_csv_id(tc_ctx *ctx, const plan_row *row);
/* The rows as they were, each with its offset. */
void plan_csv_write(FILE *out, const plan_table *table);
/* One buffer a row; operations are the times at which something begins. In the context's arena. */
void plan_csv_problem(tc_ctx *ctx, const plan_table *table, tc_plan_problem *out_problem);
#endif
