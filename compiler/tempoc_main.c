/* tempoc_main.c: the compiler's command line. Reads a model, runs the pipeline, writes the result, reports what was done.
 * The exit code is the status (diag.h); everything that can be known to be wrong before the work starts is said before it starts. */
#include "onnx_io.h"
#include "options.h"
#include "passes/pass.h"
#include "text.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct cli {
    tc_options options;
    const char *input, *output, *emit;
    bool quiet, verbose, list_passes;
} cli;

#define OPTION(kind, field, count, name, letter, argument, otherwise, group, help)                                        \
    {TC_OPT_##kind, name, letter, argument, otherwise, group, help, offsetof(cli, field), offsetof(cli, count)},
static const tc_option option_rows[] = {
#include "tempoc_options.def"
};
#undef OPTION

static const char details[] =
    "Reads an ONNX model, works out its backward pass and writes one graph with loss and gradients.\n"
    "Each trained initializer W gets the output W_grad.\n"
    "\n"
    "examples:\n"
    "  tempoc model.onnx -o train.onnx                     compile, report what was done\n"
    "  tempoc model.onnx                                   only check and report\n"
    "  tempoc model.onnx -o train.onnx --freeze='embed*'   leave some weights alone\n"
    "  tempoc model.onnx -o train.onnx --dim batch=32      fix a symbolic dimension\n"
    "  tempoc model.onnx -o model.onnxt --passes=          convert to text, change nothing\n"
    "  tempoc model.onnx -o - --emit=text | less           look at the compiled graph\n"
    "  tempoc model.onnx --print-ir-after=shapes 2>ir.txt  look at it on the way\n";

static const char footer[] =
    "Exit codes: 0 good, 1 mismatch, 2 bad input, 3 unsupported, 4 limit or memory, 5 input/output,\n"
    "6 numeric stop, 64 usage, 70 bug in tempoc. IN.onnx may be ONNX text, and \"-\" is standard input.\n";

static const tc_option_table table = {
    .tool = "tempoc",
    .summary = "compiles ONNX models for training",
    .usage = "IN.onnx [-o OUT.onnx] [options]",
    .details = details,
    .footer = footer,
    .options = option_rows,
    .n_options = TC_COUNT(option_rows),
};

/* --- before the work --------------------------------------------------------------------------------------------- */

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

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool emits_text(const cli *c) {
    return c->emit ? strcmp(c->emit, "text") == 0 : c->output && ends_with(c->output, ".onnxt");
}

static tc_status check_arguments(tc_ctx *ctx, cli *c, const tc_arguments *arguments) {
    if (arguments->count == 0) {
        tc_error(ctx, TC_USAGE, NULL, "no model given");
        tc_hint(ctx, "for example: tempoc model.onnx -o train.onnx; tempoc --help tells more");
        return TC_USAGE;
    }
    if (arguments->count > 1) {
        tc_error(ctx, TC_USAGE, NULL, "one model at a time: unexpected %s", tc_quote(ctx, arguments->items[1]));
        tc_hint(ctx, "the result goes where -o says");
        return TC_USAGE;
    }
    c->input = arguments->items[0];
    if (c->emit && strcmp(c->emit, "onnx") != 0 && strcmp(c->emit, "text") != 0)
        return tc_error(ctx, TC_USAGE, NULL, "--emit=%s: expected onnx or text", tc_quote(ctx, c->emit));
    return tc_pipeline_check(ctx, &c->options);
}

static const char *folder_of(tc_ctx *ctx, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return ".";
    return slash == path ? "/" : tc_arena_strndup(ctx->arena, path, (size_t)(slash - path));
}

/* The result could be written, as far as can be told without writing. */
static tc_status check_output(tc_ctx *ctx, const cli *c) {
    if (c->output == NULL)
        return TC_OK;
    if (strcmp(c->output, "-") == 0) {
        if (emits_text(c) || !isatty(STDOUT_FILENO))
            return TC_OK;
        tc_error(ctx, TC_USAGE, NULL, "a binary model is not written to a terminal");
        tc_hint(ctx, "add --emit=text, or send it to a file");
        return TC_USAGE;
    }
    if (*c->output == '\0')
        return tc_error(ctx, TC_USAGE, NULL, "the output file's name is empty");
    struct stat in, out;
    if (stat(c->output, &out) == 0) {
        if (S_ISDIR(out.st_mode))
            return tc_error(ctx, TC_IO, NULL, "%s is a folder; expected a file to write", tc_quote(ctx, c->output));
        if (stat(c->input, &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino) {
            tc_error(ctx, TC_USAGE, NULL, "output and input are the same file");
            tc_hint(ctx, "choose another name behind -o");
            return TC_USAGE;
        }
    }
    const char *folder = folder_of(ctx, c->output);
    if (access(folder, W_OK | X_OK) != 0)
        return tc_error(ctx, TC_IO, NULL, "cannot write to the folder %s: %s", tc_quote(ctx, folder), strerror(errno));
    return TC_OK;
}

/* --- the work ---------------------------------------------------------------------------------------------------- */

static tc_status write_text(tc_ctx *ctx, const tc_model *model, const char *path) {
    if (strcmp(path, "-") == 0) {
        TC_TRY(tc_print_model(ctx, model, stdout));
        if (fflush(stdout) != 0 || ferror(stdout))
            return tc_error(ctx, TC_IO, NULL, "cannot write to standard output: %s", strerror(errno));
        return TC_OK;
    }
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, path, &file));
    tc_status status = tc_print_model(ctx, model, tc_out_stream(file));
    if (status == TC_OK)
        return tc_out_commit(ctx, file);
    tc_out_abandon(file);
    return status;
}

static tc_status compile(tc_ctx *ctx, const cli *c, tc_summary *summary, tc_model **out_model) {
    tc_pass_env env = {.ctx = ctx, .options = &c->options, .summary = summary};
    TC_TRY(tc_read_file(ctx, c->input, out_model));
    TC_TRY(tc_pipeline_run(&env, *out_model));
    if (c->output == NULL)
        return TC_OK;
    return emits_text(c) ? write_text(ctx, *out_model, c->output) : tc_write_onnx(ctx, *out_model, c->output);
}

/* --- the report -------------------------------------------------------------------------------------------------- */

#define FEW 4 /* so many names stand in the report without --verbose */

static void print_names(FILE *out, const char *label, const char **names, size_t count, bool all) {
    fprintf(out, "%-11s%zu", label, count);
    for (size_t i = 0; i < count && (all || count <= FEW); i++)
        fprintf(out, "%s%s", i ? ", " : ": ", names[i]);
    fputc('\n', out);
}

static void print_rules(FILE *out, const tc_summary *summary) {
    const char *separator = "rules      ";
    for (size_t i = 0; i < summary->n_rules; i++)
        if (summary->rules[i].matched) {
            fprintf(out, "%s%s %llu", separator, summary->rules[i].name, (unsigned long long)summary->rules[i].matched);
            separator = ", ";
        }
    if (*separator == ',')
        fputc('\n', out);
}

static void print_report(FILE *out, tc_ctx *ctx, const cli *c, const tc_summary *summary, double seconds) {
    fprintf(out, "%s", tc_quote(ctx, c->input));
    if (c->output)
        fprintf(out, " -> %s", tc_quote(ctx, c->output));
    fprintf(out, "\nnodes      %u -> %u\n", summary->nodes_before, summary->nodes_after);
    print_rules(out, summary);
    if (summary->n_trained + summary->n_frozen + summary->n_unreached > 0) {
        print_names(out, "trained", summary->trained, summary->n_trained, c->verbose);
        print_names(out, "frozen", summary->frozen, summary->n_frozen, c->verbose);
        print_names(out, "unreached", summary->unreached, summary->n_unreached, c->verbose);
    }
    fprintf(out, "time       %.3f s\n", seconds);
}

static void print_details(FILE *out, const cli *c, const tc_summary *summary) {
    if (c->options.stats) {
        fprintf(out, "%-40s %10s %10s\n", "rule", "matched", "tried");
        for (size_t i = 0; i < summary->n_rules; i++)
            fprintf(out, "%-40s %10llu %10llu\n", summary->rules[i].name, (unsigned long long)summary->rules[i].matched,
                    (unsigned long long)summary->rules[i].tried);
    }
    for (size_t i = 0; c->options.time && i < summary->n_times; i++)
        fprintf(out, "%-14s %9.3f ms\n", summary->times[i].name, 1e3 * summary->times[i].seconds);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tc_status run(tc_ctx *ctx, cli *c, int argc, char **argv) {
    tc_arguments arguments;
    TC_TRY(tc_options_parse(ctx, &table, argc, argv, c, &arguments));
    if (arguments.done)
        return TC_OK;
    if (c->list_passes) {
        list_passes();
        return TC_OK;
    }
    TC_TRY(check_arguments(ctx, c, &arguments));
    TC_TRY(check_output(ctx, c));
    ctx->file = c->input;
    double start = now();
    tc_summary summary = {0};
    tc_model *model = NULL;
    tc_status status = compile(ctx, c, &summary, &model);
    /* The report stays out of a model that goes to standard output. */
    FILE *out = c->output && strcmp(c->output, "-") == 0 ? stderr : stdout;
    if (status == TC_OK && !c->quiet)
        print_report(out, ctx, c, &summary, now() - start);
    print_details(out, c, &summary);
    tc_model_destroy(model);
    return status;
}

int main(int argc, char **argv) {
    tc_ctx ctx;
    cli c = {0};
    tc_ctx_init(&ctx, "tempoc");
    tc_status status = run(&ctx, &c, argc, argv);
    tc_diags_print(&ctx, stderr);
    if (status == TC_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "tempoc: error: cannot write to standard output: %s\n", strerror(errno));
        status = TC_IO;
    }
    tc_ctx_fini(&ctx);
    return (int)status;
}
