/* train_log.c: updates and evaluations -> lines. A terminal gets one line that is overwritten, a file or a pipe a line
 * now and then; the record of --log has every update, as JSON. Numbers there have the digits of a float: equal text
 * means equal bits. */
#include "compiler/base/base.h"
#include "train_log.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_LINES = 50, SHOWN_A_SECOND = 10, SOME_TEXT = 64 };

static void close_log(void *user) {
    train_log *log = user;
    if (log->json)
        fclose(log->json);
    train_events_close(&log->events);
    log->json = NULL;
}

tc_status train_log_open(tc_ctx *ctx, const train_options *o, int64_t updates, int64_t epochs, int64_t done,
                         train_log *out) {
    int64_t usual = (updates + USUAL_LINES - 1) / USUAL_LINES;
    *out = (train_log){.quiet = o->quiet,
                       .terminal = isatty(STDOUT_FILENO) != 0,
                       .print_every = o->print_every > 0 ? o->print_every
                                      : usual > 0        ? usual
                                                         : 1,
                       .updates = updates,
                       .epochs = epochs,
                       .first = done,
                       .json_path = o->log};
    tc_hold(&out->held, close_log, out);
    if (o->log && !(out->json = tc_out_in_place(ctx, o->log, done > 0)))
        return TC_IO;
    return o->tensorboard ? train_events_open(ctx, o->tensorboard, &out->events) : TC_OK;
}

/* --- JSON ----------------------------------------------------------------------------------------- */

static void put_name(FILE *out, const char *name) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 32)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

/* JSON has no NaN and no infinity. */
static void put_number(FILE *out, const char *name, double value) {
    fputs(", ", out);
    put_name(out, name);
    if (isfinite(value))
        fprintf(out, ": %.9g", value);
    else
        fputs(": null", out);
}

/* The peak memory of this program. getrusage would also count the process that started it, as it was before. */
static double peak_mebibytes(void) {
    char line[256];
    long long kibibytes = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %lld", &kibibytes) == 1)
            break;
    if (status)
        fclose(status);
    return (double)kibibytes / 1024;
}

static void write_step(FILE *out, const train_record *r) {
    fprintf(out, "{\"step\": %" PRId64 ", \"epoch\": %" PRId64, r->step, r->epoch);
    put_number(out, "loss", r->loss);
    put_number(out, "rate", r->rate);
    if (r->grad_norm >= 0 || !isfinite(r->grad_norm))
        put_number(out, "grad_norm", r->grad_norm);
    if (r->loss_scale >= 0)
        put_number(out, "loss_scale", r->loss_scale);
    if (r->skipped)
        fputs(", \"skipped\": true", out);
    fprintf(out, ", \"samples\": %" PRId64 ", \"tokens\": %" PRId64, r->samples, r->tokens);
    fprintf(out, ", \"seconds\": %.6f, \"peak_mib\": %.1f}\n", r->seconds, peak_mebibytes());
    fflush(out);
}

/* --- lines ---------------------------------------------------------------------------------------- */

void train_log_settle(train_log *log) {
    if (log->open_line)
        fputc('\n', stdout);
    log->open_line = false;
    fflush(stdout);
}

static void write_time(char text[SOME_TEXT], double seconds) {
    int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, SOME_TEXT, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(text, SOME_TEXT, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

static void write_line(const train_log *log, const train_record *r) {
    char left[SOME_TEXT];
    double done = log->pace > 0 ? log->pace : 1;
    write_time(left, (double)(log->updates - r->step) * log->pace);
    printf("step %" PRId64 "/%" PRId64 "  epoch %" PRId64 "/%" PRId64 "  loss %.4f  rate %.3g", r->step, log->updates,
           r->epoch, log->epochs, r->loss, r->rate);
    if (r->grad_norm >= 0)
        printf("  norm %.3g", r->grad_norm);
    if (r->skipped)
        printf("  left out: gradients overflowed, scale %g", r->loss_scale);
    printf("  %.4g %s/s  left %s  peak %.0f MiB", (double)(r->tokens > 0 ? r->tokens : r->samples) / done,
           r->tokens > 0 ? "tokens" : "samples", left, peak_mebibytes());
}

static void show(train_log *log, const train_record *r) {
    bool last = r->step == log->updates, first = r->step == log->first + 1;
    double now = tc_seconds();
    if (log->quiet || (log->terminal ? !last && now < log->shown + 1.0 / SHOWN_A_SECOND
                                     : !last && !first && r->step % log->print_every != 0))
        return;
    log->shown = now;
    if (log->terminal)
        fputs("\r", stdout);
    write_line(log, r);
    fputs(log->terminal ? "\033[K" : "\n", stdout);
    log->open_line = log->terminal;
    fflush(stdout);
}

void train_log_step(train_log *log, const train_record *r) {
    log->pace = log->pace > 0 ? 0.9 * log->pace + 0.1 * r->seconds : r->seconds;
    if (r->step == log->first + 2) /* the first one makes plans */
        log->pace = r->seconds;
    if (log->json)
        write_step(log->json, r);
    train_events_scalar(&log->events, "train/loss", r->step, r->loss);
    train_events_scalar(&log->events, "train/rate", r->step, r->rate);
    if (r->grad_norm >= 0)
        train_events_scalar(&log->events, "train/grad_norm", r->step, r->grad_norm);
    show(log, r);
}

void train_log_eval(train_log *log, int64_t step, int64_t epoch, const train_score *scores, size_t n, int64_t samples,
                    double seconds) {
    if (log->json) {
        fprintf(log->json, "{\"eval\": true, \"step\": %" PRId64 ", \"epoch\": %" PRId64, step, epoch);
        for (size_t i = 0; i < n; i++)
            put_number(log->json, scores[i].name, scores[i].mean);
        fprintf(log->json, ", \"samples\": %" PRId64 ", \"seconds\": %.6f}\n", samples, seconds);
        fflush(log->json);
    }
    train_log_settle(log);
    if (!log->quiet)
        printf("eval step %" PRId64, step);
    for (size_t i = 0; i < n; i++) {
        char tag[SOME_TEXT + 256];
        snprintf(tag, sizeof tag, "eval/%.256s", scores[i].name);
        train_events_scalar(&log->events, tag, step, scores[i].mean);
        if (!log->quiet)
            printf("  %.64s %.9g", scores[i].name, scores[i].mean);
    }
    if (!log->quiet)
        printf("  (%" PRId64 " samples, %.1f s)\n", samples, seconds);
    fflush(stdout);
}

void train_log_say(train_log *log, const char *format, ...) {
    va_list args;
    if (log->quiet)
        return;
    train_log_settle(log);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fputc('\n', stdout);
    fflush(stdout);
}

tc_status train_log_close(tc_ctx *ctx, train_log *log) {
    train_log_settle(log);
    tc_let_go(&log->held);
    const char *path = log->events.path;
    tc_status events =
        train_events_close(&log->events)
            ? TC_OK
            : tc_error(ctx, TC_IO, NULL, "--tensorboard: %s could not be written whole: is the disk full?",
                       tc_quote(ctx, path));
    bool whole = !log->json || !ferror(log->json);
    whole = (!log->json || fclose(log->json) == 0) && whole;
    log->json = NULL;
    if (!whole)
        return tc_error(ctx, TC_IO, NULL, "--log: %s could not be written whole: is the disk full?",
                        tc_quote(ctx, log->json_path));
    return events;
}
