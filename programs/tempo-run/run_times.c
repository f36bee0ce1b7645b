/* run_times.c: the time of each launch over all runs, as a table (CSV, RFC 4180) that `tempoc --cost=FILE` reads:
 *     node,op,operands,result,runs,nanoseconds
 * one row for each launch in order; the time is the median of the runs, of two the lesser. */
#include "compiler/base/base.h"
#include "run.h"
#include <stdlib.h>
#include <string.h>

typedef struct launch_times {
    const char *node, *op, *operands, *result;
    double *seconds;
    size_t n, cap;
} launch_times;

struct run_times {
    tc_arena *arena;
    launch_times *rows;
    size_t n, cap, at; /* the launch of this run that comes next */
};

run_times *run_times_create(tc_arena *arena) {
    run_times *times = TC_NEW(arena, run_times);
    times->arena = arena;
    return times;
}

void run_times_next_run(run_times *times) { times->at = 0; }

void run_times_event(void *user, const tempo_event *event) {
    run_times *times = user;
    tc_arena *arena = times->arena;
    if (times->at == times->n) {
        times->rows = tc_arena_grow(arena, times->rows, sizeof *times->rows, &times->cap, times->n + 1);
        times->rows[times->n++] = (launch_times){.node = tc_arena_strdup(arena, event->node),
                                                 .op = tc_arena_strdup(arena, event->op),
                                                 .operands = tc_arena_strdup(arena, event->operands),
                                                 .result = tc_arena_strdup(arena, event->type)};
    }
    launch_times *row = &times->rows[times->at++];
    row->seconds = tc_arena_grow(arena, row->seconds, sizeof *row->seconds, &row->cap, row->n + 1);
    row->seconds[row->n++] = event->seconds;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void write_field(FILE *out, const char *text, char end) {
    bool plain = !strpbrk(text, ",\"\r\n");
    if (!plain)
        fputc('"', out);
    for (const char *c = text; *c; c++) {
        if (*c == '"')
            fputc('"', out);
        fputc(*c, out);
    }
    if (!plain)
        fputc('"', out);
    fputc(end, out);
}

static void write_row(FILE *out, launch_times *row) {
    qsort(row->seconds, row->n, sizeof *row->seconds, by_value);
    write_field(out, row->node, ',');
    write_field(out, row->op, ',');
    write_field(out, row->operands, ',');
    write_field(out, row->result, ',');
    fprintf(out, "%zu,%.0f\n", row->n, 1e9 * row->seconds[(row->n - 1) / 2]);
}

tc_status run_times_write(tc_ctx *ctx, run_times *times, const char *path) {
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, path, &file));
    FILE *out = tc_out_stream(file);
    fputs("node,op,operands,result,runs,nanoseconds\n", out);
    for (size_t i = 0; i < times->n; i++)
        write_row(out, &times->rows[i]);
    return tc_out_commit(ctx, file);
}
