/* train_log.h: the reports of a run: lines on standard output, records in a file, events for TensorBoard. */
#ifndef TRAIN_LOG_H
#define TRAIN_LOG_H
#include "train.h"

/* --- TensorBoard: train_events.c ---------------------------------------------------------------- */

/* A file of events: records, each framed by its length and checksums (TensorFlow's TFRecord), of messages `Event` of
 * tensorflow/core/util/event.proto; a scalar is a value of the field `summary`. */
typedef struct train_events {
    FILE *file;
    const char *path;
} train_events;

/* Makes the folder where it is missing, and a file with a name of its own in it. TC_IO. */
tc_status train_events_open(tc_ctx *ctx, const char *folder, train_events *out);
void train_events_scalar(train_events *e, const char *tag, int64_t step, double value);
bool train_events_close(train_events *e); /* false: not all was written; of one that is not open: true */

/* --- the log: train_log.c ----------------------------------------------------------------------- */

/* One update. */
typedef struct train_record {
    int64_t step, epoch; /* from 1 on */
    double loss, rate;
    double grad_norm, loss_scale; /* < 0: not known, none */
    bool skipped;                 /* gradients overflowed: weights stayed as they are */
    int64_t samples, tokens;      /* of the update; tokens 0: no tokens */
    double seconds;               /* that it took */
} train_record;

/* The mean of an output over the samples of an evaluation. */
typedef struct train_score {
    const char *name;
    double mean;
} train_score;

typedef struct train_log {
    FILE *json;
    const char *json_path;
    train_events events;
    bool quiet, terminal;
    bool open_line; /* the terminal's cursor stands in a line that will be overwritten */
    int64_t print_every;
    int64_t updates, epochs; /* in all */
    int64_t first;           /* the update after which this process begins */
    double shown;            /* when a line was written last; seconds */
    double pace;             /* seconds of an update, smoothed */
    tc_held held;
} train_log;

/* Opens the files that the options name. Records are appended to those that are there after `done` updates of another
 * process, if any. */
tc_status train_log_open(tc_ctx *ctx, const train_options *o, int64_t updates, int64_t epochs, int64_t done,
                         train_log *out);
void train_log_step(train_log *log, const train_record *r);
void train_log_eval(train_log *log, int64_t step, int64_t epoch, const train_score *scores, size_t n, int64_t samples,
                    double seconds);
/* A line of its own, as printf writes it, unless the log is quiet. */
void train_log_say(train_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends an open line, so that diagnostics may follow. */
void train_log_settle(train_log *log);
/* TC_IO where a file could not be written whole. Nothing to do for one that was never opened. */
tc_status train_log_close(tc_ctx *ctx, train_log *log);
#endif
