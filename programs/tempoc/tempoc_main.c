/* tempoc_main.c: the compiler as a program: tempo_compile's command (runtime/compile/command.h), whose text goes to
 * standard output, and what is listed or proved without a model. The exit code is the status (diag.h). */
#include "compiler/base/base.h"
#include "passes/pipeline/pipeline.h"
#include "passes/rules/rules.h"
#include "runtime/compile/command.h"
#include "compiler/cli/cli.h"
#include "tempoc_rules.h"
#include <string.h>
#include <unistd.h>

static void list_passes(void) {
    printf("passes:\n");
    for (size_t i = 0; i < tc_pass_count(); i++)
        printf("  %-14s %s\n", tc_pass_at(i)->name, tc_pass_at(i)->summary);
    printf("\nrecipes:\n");
    for (size_t i = 0; i < tc_recipe_count(); i++) {
        const tc_recipe *recipe = tc_recipe_at(i);
        printf("  %-14s %s\n  %-14s --passes=%s\n", recipe->name, recipe->summary, "", recipe->passes);
    }
}

static tc_status take_model(tc_ctx *ctx, tc_command *c, const tc_arguments *arguments) {
    if (arguments->count == 1) {
        c->input = arguments->items[0];
        return TC_OK;
    }
    if (arguments->count == 0) {
        tc_error(ctx, TC_USAGE, NULL, "no model given");
        tc_hint(ctx, "for example: tempoc model.onnx -o train.onnx; see tempoc --help");
    } else {
        tc_error(ctx, TC_USAGE, NULL, "one model at a time: unexpected %s", tc_quote(ctx, arguments->items[1]));
        tc_hint(ctx, "the result goes where -o says");
    }
    return TC_USAGE;
}

static tc_status check_outputs(tc_ctx *ctx, const tc_command *c) {
    tc_written written[TC_COMMAND_WRITES];
    tc_command_written(c, written);
    TC_TRY(tc_written_begin(ctx, written, TC_COMMAND_WRITES));
    if (c->output == NULL || strcmp(c->output, "-") != 0 || tc_command_emits_text(c) || !isatty(STDOUT_FILENO))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "a binary model is not written to a terminal");
    tc_hint(ctx, "add --emit=text, or send it to a file");
    return TC_USAGE;
}

/* --- a watcher at a terminal ------------------------------------------------------------------ */

/* At most ten times a second. */
static void show_progress(void *user, const char *line) {
    double *shown = user;
    if (!line) {
        fputs("\r\033[K", stderr);
        *shown = 0;
    } else if (tc_seconds() >= *shown + 0.1) {
        *shown = tc_seconds();
        fprintf(stderr, "\r%.110s\033[K", line);
    }
}

static void show_search(void *user, bool begins) {
    tc_program_catch_interrupt(begins);
    if (!begins && isatty(STDERR_FILENO))
        show_progress(user, NULL);
}

/* --- main ------------------------------------------------------------------------------------- */

static tc_status compile(tc_ctx *ctx, const tc_command *c) {
    double shown = 0;
    const tc_watcher watcher = {.searches = show_search,
                                .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
                                .stop = tc_program_interrupted(),
                                .user = &shown};
    /* The report stays out of a model that goes to standard output. */
    const tc_command_results to = {
        .text = c->output && strcmp(c->output, "-") == 0 ? stderr : stdout, .dumps = stderr, .watcher = &watcher};
    tc_file file;
    tc_held held;
    ctx->file = c->input;
    TC_TRY(tc_file_open(ctx, c->input, &file));
    tc_file_hold(&file, &held);
    tc_status status = tc_command_run(ctx, c, &file, &to);
    tc_let_go(&held);
    tc_file_close(&file);
    return status;
}

static tc_status run(tc_ctx *ctx, int argc, char **argv) {
    tc_command c = {0};
    tc_arguments arguments;
    TC_TRY(tc_options_parse(ctx, &tc_command_table, argc, argv, stdout, &c, &arguments));
    if (arguments.done)
        return TC_OK;
    if (c.list_passes) {
        list_passes();
        return TC_OK;
    }
    if (c.list_rules)
        return tc_rules_list(ctx, stdout);
    if (c.check_rules)
        return tempoc_check_rules(ctx, &c.options, (uint64_t)c.verify_seed, arguments.items, arguments.count, stdout);
    TC_TRY(take_model(ctx, &c, &arguments));
    TC_TRY(tc_command_check(ctx, &c));
    TC_TRY(check_outputs(ctx, &c));
    return compile(ctx, &c);
}

int main(int argc, char **argv) { return tc_program("tempoc", run, argc, argv); }
