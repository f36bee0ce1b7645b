/* run_profile.c: a Chrome trace: one complete event ("ph": "X") per launch, times in microseconds. Of the
 * runtime only this file sees cJSON. */
#include "compiler/base/file.h"
#include "passes/report/json_memory.h"
#include "run.h"

struct run_trace {
    cJSON *root, *events;
    double base, end; /* seconds: where this run's events begin, and where the last one ended */
};

run_trace *run_trace_create(tc_arena *arena) {
    run_trace *trace = TC_NEW(arena, run_trace);
    tc_json_use(arena);
    trace->root = cJSON_CreateObject();
    trace->events = cJSON_AddArrayToObject(trace->root, "traceEvents");
    cJSON_AddStringToObject(trace->root, "displayTimeUnit", "ms");
    return trace;
}

void run_trace_event(void *user, const tempo_event *event) {
    run_trace *trace = user;
    cJSON *e = cJSON_CreateObject();
    cJSON_AddStringToObject(e, "name", event->node);
    cJSON_AddStringToObject(e, "cat", event->op);
    cJSON_AddStringToObject(e, "ph", "X");
    cJSON_AddNumberToObject(e, "ts", 1e6 * (trace->base + event->start));
    cJSON_AddNumberToObject(e, "dur", 1e6 * event->seconds);
    cJSON_AddNumberToObject(e, "pid", 1);
    cJSON_AddNumberToObject(e, "tid", 1);
    cJSON *args = cJSON_AddObjectToObject(e, "args");
    cJSON_AddStringToObject(args, "op", event->op);
    cJSON_AddStringToObject(args, "operands", event->operands);
    cJSON_AddStringToObject(args, "result", event->type);
    cJSON_AddItemToArray(trace->events, e);
    trace->end = trace->base + event->start + event->seconds;
}

void run_trace_next_run(run_trace *trace) { trace->base = trace->end; }

tc_status run_trace_write(tc_ctx *ctx, run_trace *trace, const char *path) {
    tc_out_file *file;
    char *text = cJSON_PrintUnformatted(trace->root);
    tc_status status =
        text ? tc_out_open(ctx, path, &file) : tc_error(ctx, TC_LIMIT, NULL, "not enough memory for the trace");
    if (status == TC_OK) {
        fputs(text, tc_out_stream(file));
        status = tc_out_commit(ctx, file);
    }
    return status;
}
