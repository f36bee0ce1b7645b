/* reproducer.c: writes a file that shows a bug of a pass: the graph before that pass as text, after a RUN line with
 * the remaining passes and their options. The file runs as it is, and becomes a test of the fix. No state is kept
 * for it: the model is read again, and the passes that succeeded run on it again. */
#include "passes/budget/budget.h"
#include "pipeline.h"
#include "compiler/base/base.h"
#include "compiler/text/text.h"
#include "reproducer.h"
#include <string.h>
#include <sys/stat.h>

/* In single quotes, for the shell; "%%" is run.sh's percent sign. A line break would end the comment. */
static void put_option(FILE *out, const char *name, const char *value) {
    fprintf(out, " --%s='", name);
    for (const char *p = value; *p; p++)
        if (*p == '\'')
            fputs("'\\''", out);
        else if (*p == '%')
            fputs("%%", out);
        else
            fputc(*p == '\n' || *p == '\r' ? '?' : *p, out);
    fputc('\'', out);
}

static void put_list(FILE *out, const char *name, const char *const *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        put_option(out, name, values[i]);
}

static void put_selection(FILE *out, const tc_options *options) {
    for (size_t i = 0; i < options->n_selection; i++) {
        char name[sizeof "freeze"]; /* "train=GLOB" or "freeze=GLOB" */
        snprintf(name, sizeof name, "%.*s", (int)strcspn(options->selection[i], "="), options->selection[i]);
        put_option(out, name, options->selection[i] + strlen(name) + 1);
    }
}

static void put_command(FILE *out, const tc_options *options, const char *passes) {
    const struct {
        bool on;
        const char *name;
    } switches[] = {{options->train_padding, "train-padding"},
                    {options->retie, "retie"},
                    {options->untie, "untie"},
                    {options->accumulate, "accumulate"},
                    {options->inexact, "inexact"}};
    fputs("# RUN: tempoc %s --verify-each", out);
    put_option(out, "passes", passes);
    if (options->loss)
        put_option(out, "loss", options->loss);
    if (options->add_loss)
        put_option(out, "add-loss", options->add_loss);
    if (options->memory_budget)
        put_option(out, "memory-budget", options->memory_budget);
    if (options->pareto)
        fprintf(out, " --pareto=%d", (int)options->pareto);
    put_list(out, "save", options->save, options->n_save);
    put_list(out, "recompute", options->recompute, options->n_recompute);
    put_list(out, "dim", options->dims, options->n_dims);
    put_list(out, "rules", options->rules_files, options->n_rules_files);
    put_list(out, "disable", options->disabled, options->n_disabled);
    if (options->train_list)
        put_option(out, "train-list", options->train_list);
    put_selection(out, options);
    for (size_t i = 0; i < TC_COUNT(switches); i++)
        if (switches[i].on)
            fprintf(out, " --%s", switches[i].name);
    fputc('\n', out);
}

/* The model as it was before the pass: read again, then changed by the passes that succeeded. */
static tc_status replay(tc_pass_env *env, const char *passes, tc_model **out_model) {
    tc_options options = *env->options;
    tc_summary summary = {0};
    tc_pass_env rerun = {.ctx = env->ctx, .options = &options, .summary = &summary};
    options.passes = passes;
    options.print_before = options.print_after = options.explain = NULL;
    options.verify_each = false;
    tc_drop_budget(&options); /* a budget affects few passes, and changes no graph before itself */
    TC_TRY(env->reread(env->reread_user, out_model));
    return tc_pipeline_run(&rerun, *out_model);
}

static tc_status write_file(tc_ctx *ctx, const tc_options *options, const tc_model *model, const char *left) {
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, TC_REPRODUCER, &file));
    FILE *out = tc_out_stream(file);
    fprintf(out, "# The graph before the pass '%.*s', which met a bug of tempoc.\n", (int)strcspn(left, ", "), left);
    put_command(out, options, left);
    tc_status status = tc_print_model(ctx, model, out);
    if (status == TC_OK)
        return tc_out_commit(ctx, file);
    tc_out_abandon(file);
    return status;
}

/* The reproducer's own run writes no other one. */
static bool is_read(const tc_ctx *ctx) {
    struct stat read, written;
    return ctx->file && stat(ctx->file, &read) == 0 && stat(TC_REPRODUCER, &written) == 0 &&
           read.st_dev == written.st_dev && read.st_ino == written.st_ino;
}

void tc_reproducer_write(tc_pass_env *env, const char *done, const char *left) {
    tc_ctx *ctx = env->ctx;
    tc_model *model = NULL;
    size_t n_diags = ctx->n_diags;
    ctx->pass = NULL;
    if (is_read(ctx))
        return;
    tc_status status = tc_written_check_kind(ctx, &(tc_written){"the bug's graph in", TC_REPRODUCER, TC_WRITTEN_BUG});
    if (status == TC_OK)
        status = replay(env, done, &model);
    if (status == TC_OK) {
        ctx->n_diags = n_diags; /* the first run reported the passes' messages */
        status = write_file(ctx, env->options, model, left);
    }
    tc_model_destroy(model);
    if (status == TC_OK)
        tc_note(ctx, NULL, "%s has the graph before this pass and the command that shows the bug", TC_REPRODUCER);
    else
        tc_note(ctx, NULL, "%s could not be written", TC_REPRODUCER);
}
