/* plan_csv.c: reads and writes CSV files of buffers, and makes packing problems of them. */
#include "plan_csv.h"
#include <stdlib.h>
#include <string.h>

typedef enum column { ID, LOWER, UPPER, SIZE, ALIGNMENT, OFFSET, N_COLUMNS } column;
static const char *const names[N_COLUMNS] = {"id", "lower", "upper", "size", "alignment", "offset"};

enum { MOST_ROWS = 1 << 30 };

typedef struct field {
    const char *text;
    size_t n;
} field;

typedef struct reader {
    tc_ctx *ctx;
    const char *name;
    size_t line;
    int at[N_COLUMNS]; /* of a column; -1: the file has none */
    int n_columns;
} reader;

tc_status plan_csv_error(tc_ctx *ctx, const char *name, size_t line, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *where = tc_arena_printf(ctx->arena, "%s:%zu", tc_quote(ctx, name), line);
    tc_status status = tc_error_at(ctx, TC_BAD_INPUT, where, NULL, fmt, args);
    va_end(args);
    return status;
}

const char *plan_csv_id(tc_ctx *ctx, const plan_row *row) {
    return tc_quote(ctx, tc_arena_strndup(ctx->arena, row->id, row->id_n));
}

/* --- lines and fields ------------------------------------------------------------------------- */

/* The next line, without its end. False: there is none. */
static bool next_line(const char **text, const char *end, field *out_line) {
    if (*text == end)
        return false;
    const char *stop = memchr(*text, '\n', (size_t)(end - *text));
    const char *next = stop ? stop + 1 : end;
    stop = stop ? stop : end;
    *out_line = (field){*text, (size_t)(stop - *text)};
    if (out_line->n > 0 && out_line->text[out_line->n - 1] == '\r')
        out_line->n--;
    *text = next;
    return true;
}

static field trimmed(field f) {
    while (f.n > 0 && (*f.text == ' ' || *f.text == '\t')) {
        f.text++;
        f.n--;
    }
    while (f.n > 0 && (f.text[f.n - 1] == ' ' || f.text[f.n - 1] == '\t'))
        f.n--;
    return f;
}

/* The next field of a line; the rest of the line begins after the comma, or is NULL. */
static field next_field(field *line) {
    const char *comma = memchr(line->text, ',', line->n);
    field f = {line->text, comma ? (size_t)(comma - line->text) : line->n};
    *line = comma ? (field){comma + 1, line->n - f.n - 1} : (field){NULL, 0};
    return trimmed(f);
}

static const char *quote(tc_ctx *ctx, field f) { return tc_quote(ctx, tc_arena_strndup(ctx->arena, f.text, f.n)); }

static tc_status read_header(reader *r, field line) {
    for (int i = 0; i < N_COLUMNS; i++)
        r->at[i] = -1;
    while (line.text) {
        field f = next_field(&line);
        int which = 0;
        while (which < N_COLUMNS && (strlen(names[which]) != f.n || memcmp(names[which], f.text, f.n) != 0))
            which++;
        if (which == N_COLUMNS || r->at[which] >= 0) {
            tc_status status = plan_csv_error(r->ctx, r->name, r->line, "%s column '%s'",
                                              which < N_COLUMNS ? "a second" : "unknown", quote(r->ctx, f));
            tc_hint(r->ctx, "the first line names the columns: id,lower,upper,size and perhaps alignment and offset");
            return status;
        }
        r->at[which] = r->n_columns++;
    }
    for (int i = 0; i <= SIZE; i++)
        if (r->at[i] < 0)
            return plan_csv_error(r->ctx, r->name, r->line, "there is no column '%s'", names[i]);
    return TC_OK;
}

static tc_status read_number(const reader *r, field f, column which, uint64_t *out_number) {
    uint64_t number = 0;
    bool fits = true;
    for (size_t i = 0; i < f.n; i++) {
        if (f.text[i] < '0' || f.text[i] > '9')
            return plan_csv_error(r->ctx, r->name, r->line, "'%s' is no %s: expected a number of 0 or more",
                                  quote(r->ctx, f), names[which]);
        fits = fits && number <= (INT64_MAX - 9) / 10;
        number = fits ? 10 * number + (uint64_t)(f.text[i] - '0') : 0;
    }
    *out_number = number;
    if (f.n == 0)
        return plan_csv_error(r->ctx, r->name, r->line, "there is no %s", names[which]);
    return fits ? TC_OK
                : plan_csv_error(r->ctx, r->name, r->line, "the %s '%s' has more than 63 bits", names[which],
                                 quote(r->ctx, f));
}

static tc_status check_row(const reader *r, const plan_row *row) {
    if (row->lower >= row->upper)
        return plan_csv_error(r->ctx, r->name, r->line, "buffer '%s' lives from %llu to %llu: expected lower < upper",
                              plan_csv_id(r->ctx, row), (unsigned long long)row->lower, (unsigned long long)row->upper);
    if (row->alignment == 0 || (row->alignment & (row->alignment - 1)) != 0 || row->alignment > UINT32_MAX)
        return plan_csv_error(r->ctx, r->name, r->line,
                              "buffer '%s' has alignment %llu: expected a power of two below 2^32",
                              plan_csv_id(r->ctx, row), (unsigned long long)row->alignment);
    return TC_OK;
}

static tc_status read_row(const reader *r, field line, plan_row *row) {
    field fields[N_COLUMNS] = {{0}};
    int n = 0;
    *row = (plan_row){.text = line.text, .text_n = line.n, .line = r->line, .alignment = 1};
    for (; line.text; n++) {
        field f = next_field(&line);
        if (n < r->n_columns)
            fields[n] = f;
    }
    if (n != r->n_columns)
        return plan_csv_error(r->ctx, r->name, r->line, "%d fields, where the first line names %d columns", n,
                              r->n_columns);
    row->id = fields[r->at[ID]].text;
    row->id_n = fields[r->at[ID]].n;
    uint64_t *numbers[N_COLUMNS] = {NULL, &row->lower, &row->upper, &row->size, &row->alignment, &row->offset};
    for (column i = LOWER; i < N_COLUMNS; i++)
        if (r->at[i] >= 0)
            TC_TRY(read_number(r, fields[r->at[i]], i, numbers[i]));
    return check_row(r, row);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b) {
    const plan_row *x = *(const plan_row *const *)a, *y = *(const plan_row *const *)b;
    int order = memcmp(x->id, y->id, x->id_n < y->id_n ? x->id_n : y->id_n);
    if (order == 0 && x->id_n != y->id_n)
        order = x->id_n < y->id_n ? -1 : 1;
    return order != 0 ? order : x->line < y->line ? -1 : x->line > y->line;
}

static tc_status check_ids(const reader *r, const plan_table *t) {
    const plan_row **sorted = TC_NEW_ARRAY(r->ctx->arena, const plan_row *, t->n + 1);
    for (size_t i = 0; i < t->n; i++)
        sorted[i] = &t->rows[i];
    qsort(sorted, t->n, sizeof *sorted, compare_ids);
    for (size_t i = 1; i < t->n; i++)
        if (sorted[i]->id_n == sorted[i - 1]->id_n && memcmp(sorted[i]->id, sorted[i - 1]->id, sorted[i]->id_n) == 0)
            return plan_csv_error(r->ctx, r->name, sorted[i]->line, "buffer '%s' was there in line %zu already",
                                  plan_csv_id(r->ctx, sorted[i]), sorted[i - 1]->line);
    return TC_OK;
}

tc_status plan_csv_read(tc_ctx *ctx, const char *name, const tc_file *file, plan_table *out) {
    reader r = {.ctx = ctx, .name = name, .line = 1};
    const char *text = file->data, *end = file->size > 0 ? text + file->size : text;
    field line = {0};
    size_t cap = 0;
    *out = (plan_table){0};
    if (!next_line(&text, end, &line) || trimmed(line).n == 0)
        return plan_csv_error(ctx, name, 1, "expected a first line with the names of columns: id,lower,upper,size");
    TC_TRY(read_header(&r, line));
    out->header = line.text;
    out->header_n = line.n;
    for (r.line = 2; next_line(&text, end, &line); r.line++) {
        if (trimmed(line).n == 0)
            continue;
        if (out->n == MOST_ROWS)
            return tc_error(ctx, TC_LIMIT, NULL, "more than 2^30 buffers");
        out->rows = tc_arena_grow(ctx->arena, out->rows, sizeof *out->rows, &cap, out->n + 1);
        TC_TRY(read_row(&r, line, &out->rows[out->n++]));
    }
    out->offset_column = r.at[OFFSET];
    return check_ids(&r, out);
}

static void write_row(FILE *out, const plan_table *t, const plan_row *row) {
    field line = {row->text, row->text_n};
    if (t->offset_column < 0) {
        fprintf(out, "%.*s,%llu\n", (int)row->text_n, row->text, (unsigned long long)row->offset);
        return;
    }
    for (int i = 0; line.text; i++) {
        field f = next_field(&line);
        if (i == t->offset_column)
            fprintf(out, "%s%llu", i > 0 ? "," : "", (unsigned long long)row->offset);
        else
            fprintf(out, "%s%.*s", i > 0 ? "," : "", (int)f.n, f.text);
    }
    fputc('\n', out);
}

void plan_csv_write(FILE *out, const plan_table *t) {
    fprintf(out, "%.*s%s\n", (int)t->header_n, t->header, t->offset_column < 0 ? ",offset" : "");
    for (size_t i = 0; i < t->n; i++)
        write_row(out, t, &t->rows[i]);
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* How many of the sorted numbers are below `limit`. */
static uint32_t count_below(const uint64_t *sorted, uint32_t n, uint64_t limit) {
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sorted[middle] < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void plan_csv_problem(tc_ctx *ctx, const plan_table *t, tc_plan_problem *out) {
    uint64_t *begins = TC_NEW_ARRAY(ctx->arena, uint64_t, t->n + 1);
    uint32_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        begins[i] = t->rows[i].lower;
    qsort(begins, t->n, sizeof *begins, compare_numbers);
    for (size_t i = 0; i < t->n; i++)
        if (n == 0 || begins[n - 1] != begins[i])
            begins[n++] = begins[i];
    *out = (tc_plan_problem){.ops = TC_NEW_ARRAY(ctx->arena, tc_plan_op, n + (size_t)1),
                             .n_ops = n,
                             .buffers = TC_NEW_ARRAY(ctx->arena, tc_plan_buffer, t->n + 1),
                             .n_buffers = (uint32_t)t->n,
                             .align = 1};
    memset(out->ops, 0, (n + (size_t)1) * sizeof *out->ops);
    for (size_t i = 0; i < t->n; i++)
        out->buffers[i] = (tc_plan_buffer){.bytes = t->rows[i].size,
                                           .align = t->rows[i].alignment,
                                           .first = count_below(begins, n, t->rows[i].lower),
                                           .last = count_below(begins, n, t->rows[i].upper) - 1,
                                           .root = TC_PLAN_NONE,
                                           .offset = t->rows[i].offset};
}
