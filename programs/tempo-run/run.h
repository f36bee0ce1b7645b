/* run.h: the parts of tempo-run: one file for a run, one for ranks, one for test cases, one for the printed report. */
#ifndef RT_RUN_H
#define RT_RUN_H
#include "runtime/files/files.h"
#include "runtime/session/session.h"

typedef struct run_options {
    const char *model;
    const char *inputs, *outputs, *test_data, *checkpoint, *device, *seed, *dropout_rng, *profile, *rank, *group;
    const char **average, **keep;
    size_t n_average, n_keep;
    double patience;
    int rank_at, n_ranks; /* the value of `rank` */
    int64_t threads, repeat;
    bool memory, check_memory, list_kernels, list_devices, tf32, no_cudnn, products;
    tempo_options session;
    rt_hooks hooks; /* the passes that the runtime borrows, and the device */
} run_options;

/* A failure of the session: its message is printed as it is, and nothing is added. */
tc_status run_failed(const tempo_session *session, tempo_status status);

/* The options of ranks, checked. run_ranks.c */
tc_status run_check_ranks(tc_ctx *ctx, run_options *options);
/* Names the outputs that the session keeps and averages, and joins the other ranks, if there are any. run_ranks.c */
tc_status run_join(tc_ctx *ctx, const run_options *options, tempo_session *session);

/* Binds weights to the inputs of their names. TC_BAD_INPUT names one that the model lacks. run_weights.c */
tc_status run_bind_weights(tc_ctx *ctx, tempo_session *session, const rt_weights *weights);

/* Every case in the folder. TC_MISMATCH when one fails. run_cases.c */
tc_status run_cases(tc_ctx *ctx, const run_options *options);

/* run_report.c */
void run_print_outputs(FILE *out, const rt_array *outputs, size_t n);
void run_print_memory(FILE *out, const tempo_memory *memory);
void run_print_times(FILE *out, double *seconds, size_t n); /* sorts them */
void run_list_kernels(FILE *out, rt_device_kind kind);
void run_list_devices(FILE *out); /* a line each */
void run_print_products(FILE *out, const tempo_session *session);
/* An element as a number. */
double run_number(const tempo_tensor *tensor, uint64_t index);

/* A Chrome trace under construction. run_profile.c */
typedef struct run_trace run_trace;
run_trace *run_trace_create(tc_arena *arena);
void run_trace_event(void *trace, const tempo_event *event); /* a tempo_event_fn */
void run_trace_next_run(run_trace *trace);                   /* events of the next run follow those of this one */
tc_status run_trace_write(tc_ctx *ctx, run_trace *trace, const char *path); /* and frees it */

/* The time of each launch over all runs, as a table, in the arena. run_times.c */
typedef struct run_times run_times;
run_times *run_times_create(tc_arena *arena);
void run_times_event(void *times, const tempo_event *event); /* a tempo_event_fn */
void run_times_next_run(run_times *times);                   /* the next event is the first launch again */
tc_status run_times_write(tc_ctx *ctx, run_times *times, const char *path);
#endif
