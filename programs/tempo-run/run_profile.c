/* run_profile.c: a Chrome trace: one complete event ("ph": "X") per launch, times in microseconds. */
#include "compiler/base/base.h"
#include "passes/report/json_writer.h"
#include "run.h"

typedef struct record {
    const char *node, *op, *operands, *type;
    double start, seconds;
} record;

struct run_trace {
    tc_arena *arena;
    record *records;
    size_t n, cap;
    double base, end; /* seconds: where this run's events begin, and where the last one ended */
};

run_trace *run_trace_create(tc_arena *arena) {
    run_trace *trace = TC_NEW(arena, run_trace);
    trace->arena = arena;
    return trace;
}

void run_trace_event(void *user, const tempo_event *event) {
    run_trace *t = user;
    t->records = tc_arena_grow(t->arena, t->records, sizeof *t->records, &t->cap, t->n + 1);
    t->records[t->n++] = (record){tc_arena_strdup(t->arena, event->node),
                                  tc_arena_strdup(t->arena, event->op),
                                  tc_arena_strdup(t->arena, event->operands),
                                  tc_arena_strdup(t->arena, event->type),
                                  t->base + event->start,
                                  event->seconds};
    t->end = t->base + event->start + event->seconds;
}

void run_trace_next_run(run_trace *trace) { trace->base = trace->end; }

static void put_record(tc_json *json, const record *r) {
    tc_json_object(json, NULL);
    tc_json_string(json, "name", r->node);
    tc_json_string(json, "cat", r->op);
    tc_json_string(json, "ph", "X");
    tc_json_number(json, "ts", 1e6 * r->start);
    tc_json_number(json, "dur", 1e6 * r->seconds);
    tc_json_number(json, "pid", 1);
    tc_json_number(json, "tid", 1);
    tc_json_object(json, "args");
    tc_json_string(json, "op", r->op);
    tc_json_string(json, "operands", r->operands);
    tc_json_string(json, "result", r->type);
    tc_json_end(json);
    tc_json_end(json);
}

tc_status run_trace_write(tc_ctx *ctx, run_trace *trace, const char *path) {
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, path, &file));
    tc_json json = {.out = tc_out_stream(file)};
    tc_json_object(&json, NULL);
    tc_json_array(&json, "traceEvents");
    for (size_t i = 0; i < trace->n; i++)
        put_record(&json, &trace->records[i]);
    tc_json_end(&json);
    tc_json_string(&json, "displayTimeUnit", "ms");
    tc_json_end(&json);
    return tc_out_commit(ctx, file);
}
