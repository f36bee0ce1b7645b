/* plan_main.c: the packer of compiler/pack as a program: reads buffers with lives, writes their places in one arena. */
#include "compiler/base/base.h"
#include "compiler/cli/cli.h"
#include "plan_csv.h"
#include <stddef.h>
#include <string.h>

typedef struct plan_options {
    const char *input, *output;
    double time;
    bool minimize, check, quiet;
    uint64_t capacity; /* 0: as many bytes as it takes */
} plan_options;

#define OPTION(...) TC_OPTION(plan_options, __VA_ARGS__),
static const tc_option rows[] = {
#include "plan_options.def"
};
#undef OPTION

static const char details[] =
    "tempoc-plan gives each buffer an offset in one arena, so that buffers live at the same time do not overlap and\n"
    "the arena is small. A line of IN.csv is a buffer: its id, the times when its life begins and has ended, and its\n"
    "bytes. The first line names the columns:\n"
    "\n"
    "  id,lower,upper,size\n"
    "  a,0,3,4096\n"
    "  b,2,5,1024\n"
    "\n"
    "A column `alignment` (powers of two) may follow; sizes are rounded up to it. The result has the same rows and\n"
    "one more column, `offset`. No arena is smaller than the bound, the most bytes live at one time.\n"
    "\n"
    "examples:\n"
    "  tempoc-plan in.csv                                find the smallest arena\n"
    "  tempoc-plan in.csv -o out.csv                     also write the offset of each buffer\n"
    "  tempoc-plan in.csv --capacity=1MiB -o out.csv     any packing into so many bytes\n"
    "  tempoc-plan out.csv --check                       check the offsets\n"
    "  make_lives | tempoc-plan - -o - --time=60         read and write pipes, search for a minute\n";

static const char footer[] =
    "Exit codes: 0 good, 1 offsets are wrong, 2 bad input, 4 no packing into the capacity was found, or no memory,\n"
    "5 input/output, 64 usage, 70 bug in tempoc-plan.\n";

static const tc_option_table table = {
    .tool = "tempoc-plan",
    .summary = "places buffers with known lives in one arena",
    .usage = "IN.csv [--capacity=BYTES] [-o OUT.csv] [options]",
    .details = details,
    .footer = footer,
    .options = rows,
    .n_options = TC_COUNT(rows),
};

#define WORK_OF_A_SECOND 100e6

/* --- arguments -------------------------------------------------------------------------------- */

static tc_status check_arguments(tc_ctx *ctx, plan_options *o, const tc_arguments *arguments) {
    if (arguments->count != 1) {
        tc_error(ctx, TC_USAGE, NULL, arguments->count == 0 ? "no file given" : "one file at a time");
        tc_hint(ctx, "for example: tempoc-plan in.csv -o out.csv; see tempoc-plan --help");
        return TC_USAGE;
    }
    if (o->time < 0 || o->time > 1e6)
        return tc_error(ctx, TC_USAGE, NULL, "--time: expected 0 to 1000000 seconds");
    if (o->check && (o->output || o->minimize))
        return tc_error(ctx, TC_USAGE, NULL, "--check packs nothing: it cannot be combined with %s",
                        o->output ? "--output" : "--minimize");
    o->input = arguments->items[0];
    return tc_written_begin(ctx, &(tc_written){"--output", o->output, TC_WRITTEN_PLACES}, 1);
}

/* --- the work --------------------------------------------------------------------------------- */

static void report(const plan_options *o, uint32_t n, uint64_t arena, uint64_t bound) {
    FILE *out = o->output && strcmp(o->output, "-") == 0 ? stderr : stdout;
    if (o->quiet)
        return;
    fprintf(out, "buffers    %u\n", n);
    fprintf(out, "arena      %llu bytes\n", (unsigned long long)arena);
    fprintf(out, "bound      %llu bytes live at one time\n", (unsigned long long)bound);
    fprintf(out, "ratio      %.5f\n", bound > 0 ? (double)arena / (double)bound : 1.0);
}

static tc_status check(tc_ctx *ctx, const plan_options *o, const plan_table *t, const tc_plan_problem *p,
                       uint64_t bound) {
    uint64_t arena = 0;
    uint32_t pair[2];
    if (t->offset_column < 0)
        return plan_csv_error(ctx, o->input, 1, "there is no column 'offset' to check");
    for (size_t i = 0; i < t->n; i++)
        if (t->rows[i].size > 0 && t->rows[i].offset + t->rows[i].size > arena)
            arena = t->rows[i].offset + t->rows[i].size;
    const char *wrong = tc_plan_check(p, o->capacity && o->capacity < arena ? o->capacity : arena, pair);
    if (!wrong) {
        report(o, p->n_buffers, arena, bound);
        return TC_OK;
    }
    const plan_row *a = &t->rows[pair[0]], *b = &t->rows[pair[1]];
    if (a == b)
        return tc_error(ctx, TC_MISMATCH, NULL, "buffer '%s' of line %zu: %s", plan_csv_id(ctx, a), a->line, wrong);
    return tc_error(ctx, TC_MISMATCH, NULL, "buffers '%s' of line %zu and '%s' of line %zu: %s", plan_csv_id(ctx, a),
                    a->line, plan_csv_id(ctx, b), b->line, wrong);
}

static tc_status failed(tc_ctx *ctx, tc_plan_status status) {
    if (status == TC_PLAN_TOO_BIG)
        return tc_error(ctx, TC_LIMIT, NULL, "these buffers together have 2^62 bytes or more");
    return status == TC_PLAN_MEMORY ? tc_error(ctx, TC_LIMIT, NULL, "not enough memory to place these buffers")
                                    : tc_error(ctx, TC_BUG, NULL, "the lives of these buffers make no sense");
}

static tc_status too_small(tc_ctx *ctx, const plan_options *o, const plan_table *t, const tc_plan_problem *p,
                           const tc_plan_live *live) {
    uint64_t time = 0;
    for (size_t i = 0; i < t->n; i++)
        if (p->buffers[i].first == live->peak)
            time = t->rows[i].lower;
    tc_error(ctx, TC_LIMIT, NULL, "no packing has %llu bytes: at time %llu %llu are live",
             (unsigned long long)o->capacity, (unsigned long long)time, (unsigned long long)live->peak_bytes);
    tc_hint(ctx, "a capacity can be %llu at least", (unsigned long long)live->peak_bytes);
    return TC_LIMIT;
}

static tc_status pack(tc_ctx *ctx, const plan_options *o, plan_table *t, tc_plan_problem *p) {
    tc_plan_packing packing;
    double work = o->time * WORK_OF_A_SECOND;
    p->enough = o->minimize ? 0 : o->capacity;
    tc_plan_status status = tc_plan_pack(p, work < 1 ? 1 : (uint64_t)work, &packing);
    if (status != TC_PLAN_OK)
        return failed(ctx, status);
    if (o->capacity && packing.bytes > o->capacity) {
        tc_error(ctx, TC_LIMIT, NULL, "no packing into %llu bytes was found: the best has %llu",
                 (unsigned long long)o->capacity, (unsigned long long)packing.bytes);
        tc_hint(ctx, "search longer, with --time=%g, or take a capacity above the bound, %llu",
                o->time > 0 ? 10 * o->time : 10, (unsigned long long)packing.live.peak_bytes);
        return TC_LIMIT;
    }
    for (size_t i = 0; i < t->n; i++)
        t->rows[i].offset = p->buffers[i].offset;
    report(o, p->n_buffers, packing.bytes, packing.live.peak_bytes);
    if (o->output) {
        tc_out_file *file;
        TC_TRY(tc_out_open(ctx, o->output, &file));
        plan_csv_write(tc_out_stream(file), t);
        TC_TRY(tc_out_commit(ctx, file));
    }
    return TC_OK;
}

static tc_status plan(tc_ctx *ctx, const plan_options *o, const tc_file *file) {
    plan_table t;
    tc_plan_problem p;
    tc_plan_live live;
    TC_TRY(plan_csv_read(ctx, o->input, file, &t));
    plan_csv_problem(ctx, &t, &p);
    tc_plan_status status = tc_plan_simulate(&p, &live);
    if (status != TC_PLAN_OK)
        return failed(ctx, status);
    if (o->check)
        return check(ctx, o, &t, &p, live.peak_bytes);
    return o->capacity && live.peak_bytes > o->capacity ? too_small(ctx, o, &t, &p, &live) : pack(ctx, o, &t, &p);
}

static tc_status run(tc_ctx *ctx, int argc, char **argv) {
    plan_options o = {0};
    tc_arguments arguments;
    tc_file file = {0};
    tc_held held;
    TC_TRY(tc_options_parse(ctx, &table, argc, argv, stdout, &o, &arguments));
    if (arguments.done)
        return TC_OK;
    TC_TRY(check_arguments(ctx, &o, &arguments));
    ctx->file = o.input;
    TC_TRY(tc_file_open(ctx, o.input, &file));
    tc_file_hold(&file, &held);
    tc_status status = plan(ctx, &o, &file);
    tc_let_go(&held);
    tc_file_close(&file);
    return status;
}

int main(int argc, char **argv) { return tc_program("tempoc-plan", run, argc, argv); }
