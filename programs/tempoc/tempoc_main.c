/* tempoc_main.c: the compiler's command line. Reads a model, runs the pipeline, writes the result, reports what was
 * done. The exit code is the status (diag.h); everything that can be known to be wrong before the work starts is said
 * before it starts. */
#include "passes/pipeline/pipeline.h"
#include "passes/rules/rules.h"
#include "compiler/base/clock.h"
#include "compiler/onnx/onnx.h"
#include "compiler/base/file.h"
#include "compiler/base/written_files.h"
#include "compiler/cli/options.h"
#include "compiler/cli/program.h"
#include "passes/budget/node_cost.h"
#include "passes/pass/pass.h"
#include "passes/report/report.h"
#include "tempoc_auto.h"
#include "tempoc_fit.h"
#include "tempoc_rules.h"
#include "tempoc_target.h"
#include "tempoc_verify.h"
#include "compiler/text/text.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef struct cli {
    tc_options options;
    const char *input, *output, *emit, *report, *target_name, *names, *checkpoint;
    const rt_weights *weights; /* NULL: without --checkpoint */
    const tempoc_target *target;
    tempoc_fitting fit;
    int64_t verify_seed, threads;
    bool quiet, verbose, verify, list_passes, list_rules, check_rules;
} cli;

#define OPTION(...) TC_OPTION(cli, __VA_ARGS__),
static const tc_option option_rows[] = {
#include "tempoc_options.def"
};
#undef OPTION

static const char details[] =
    "The default, recipe tiled, suits most models. If a run still does not fit, say how much memory there is:\n"
    "--memory-budget=12GiB.\n"
    "\n"
    "tempoc reads an ONNX model with a loss, works out its backward pass, and writes one graph with the model's\n"
    "outputs and a gradient W_grad for each trained initializer W. tempo-run runs it; tempo-train trains with it.\n"
    "\n"
    "examples:\n"
    "  tempoc model.onnx                                   check the model, and report what training it takes\n"
    "  tempoc model.onnx -o train.onnx --dim batch=32      compile it for batches of 32\n"
    "  tempoc model.onnx -o train.onnx --freeze='*embed*'  do not train the embeddings\n"
    "  tempoc model.onnx -o train.onnx --fit=16GiB         compile it for the largest batch that fits\n"
    "  tempoc model.onnx --dim batch=32 --report=mem.html  see which tensors are saved, and why\n"
    "  tempoc model.onnx --dim batch=4 --verify            compare gradients with those of the plain graph\n"
    "  tempoc model.onnx -o - --emit=text | less           read the compiled graph\n";

static const char footer[] =
    "Exit codes: 0 good, 1 mismatch, 2 bad input, 3 unsupported, 4 limit or memory, 5 input/output,\n"
    "6 NaN or infinity, 64 usage, 70 bug in tempoc. IN.onnx may be ONNX text, and \"-\" is standard input.\n";

static const tc_option_table table = {
    .tool = "tempoc",
    .summary = "compiles ONNX models for training",
    .usage = "IN.onnx [-o OUT.onnx] [options]",
    .details = details,
    .footer = footer,
    .options = option_rows,
    .n_options = TC_COUNT(option_rows),
};

/* --- before the work -------------------------------------------------------------------------- */

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

static bool emits_text(const cli *c) {
    return c->emit ? strcmp(c->emit, "text") == 0 : c->output && tc_ends_with(c->output, ".onnxt");
}

static tc_status check_arguments(tc_ctx *ctx, cli *c, const tc_arguments *arguments) {
    if (arguments->count == 0) {
        tc_error(ctx, TC_USAGE, NULL, "no model given");
        tc_hint(ctx, "for example: tempoc model.onnx -o train.onnx; see tempoc --help");
        return TC_USAGE;
    }
    if (arguments->count > 1) {
        tc_error(ctx, TC_USAGE, NULL, "one model at a time: unexpected %s", tc_quote(ctx, arguments->items[1]));
        tc_hint(ctx, "the result goes where -o says");
        return TC_USAGE;
    }
    c->input = arguments->items[0];
    if (c->threads > 4096)
        return tc_error(ctx, TC_USAGE, NULL,
                        "--threads: expected a number from 0 to 4096; 0: as the file says, or else 16");
    if (c->emit && strcmp(c->emit, "onnx") != 0 && strcmp(c->emit, "text") != 0)
        return tc_error(ctx, TC_USAGE, NULL, "--emit=%s: expected onnx or text", tc_quote(ctx, c->emit));
    c->options.torch_names = strcmp(c->names, "pytorch") == 0;
    if (!c->options.torch_names && strcmp(c->names, "file") != 0)
        return tc_error(ctx, TC_USAGE, NULL, "--names=%s: expected file or pytorch", tc_quote(ctx, c->names));
    if (c->report && !tc_ends_with(c->report, ".json") && !tc_ends_with(c->report, ".html"))
        return tc_error(ctx, TC_USAGE, NULL, "--report=%s: expected a file name that ends in .json or .html",
                        tc_quote(ctx, c->report));
    c->fit.threads = c->threads;
    TC_TRY(tempoc_fit_check(ctx, &c->fit, c->options.dims, c->options.n_dims));
    if (c->fit.memory && (c->options.passes || c->options.pareto))
        return tc_error(ctx, TC_USAGE, NULL, "--fit cannot be combined with --passes or --pareto");
    if (c->options.update.optimizer && (c->fit.memory || c->verify)) {
        tc_error(ctx, TC_USAGE, NULL, "--update cannot be combined with --%s", c->verify ? "verify" : "fit");
        tc_hint(ctx, "%s",
                c->verify
                    ? "leave --update out to verify the gradients"
                    : "--fit counts the state of --optimizer; compile again with --update and the batch found (--dim)");
        return TC_USAGE;
    }
    bool is_auto = !c->options.passes && c->options.recipe && strcmp(c->options.recipe, "auto") == 0;
    if (is_auto && (c->fit.memory || c->options.memory_budget || c->options.pareto)) {
        tc_error(ctx, TC_USAGE, NULL, "--recipe=auto cannot be combined with --fit, --memory-budget or --pareto");
        tc_hint(ctx, "a memory budget chooses rewrites itself, node by node, under any recipe but none");
        return TC_USAGE;
    }
    if (c->options.machine)
        TC_TRY(tc_machine_check(ctx, c->options.machine));
    const char *otherwise = c->options.passes ? "onnx" : "cpu";
    TC_TRY(tempoc_target_find(ctx, c->target_name ? c->target_name : otherwise, &c->target));
    return tc_pipeline_check(ctx, &c->options);
}

static tc_status check_outputs(tc_ctx *ctx, const cli *c) {
    const tc_written written[] = {{"-o", c->output, TC_WRITTEN_MODEL}, {"--report", c->report, TC_WRITTEN_REPORT}};
    TC_TRY(tc_written_begin(ctx, written, TC_COUNT(written)));
    if (c->output == NULL || strcmp(c->output, "-") != 0 || emits_text(c) || !isatty(STDOUT_FILENO))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "a binary model is not written to a terminal");
    tc_hint(ctx, "add --emit=text, or send it to a file");
    return TC_USAGE;
}

/* --- the work --------------------------------------------------------------------------------- */

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

/* One run of the pipeline on the file. What is to be told of it later is in the context's arena: the model goes. */
typedef struct compilation {
    tc_options options;
    tc_summary summary;
    tc_report *report;   /* takes the rules; NULL: nobody asks */
    tc_account *account; /* out, unless nobody asks */
    tc_account *before;  /* out: recipe `none`, where the budget is a share of it */
    tc_status written;   /* out: whether the model was; the report is all the same */
} compilation;

static tc_status write_model(tc_ctx *ctx, const cli *c, const tc_model *model) {
    return emits_text(c) ? write_text(ctx, model, c->output) : tc_write_onnx(ctx, model, c->output);
}

typedef struct source {
    tc_ctx *ctx;
    const cli *cli;
    const tc_file *file;
    const char *path;
    tc_account **before; /* what compile_before found, should somebody have asked */
} source;

static tc_status read_again(void *user, tc_model **out_model) {
    const source *s = user;
    return tempoc_read(s->ctx, &(tempoc_source){s->file, s->path, s->cli->weights, NULL}, out_model);
}

/* What nodes cost, where --machine or --cost asks; *out_costs is NULL else. */
static tc_status open_costs(tc_pass_env *env, const tc_model *model, const tc_costs **out_costs) {
    *out_costs = NULL;
    return env->options->machine || env->options->cost ? tc_costs_open(env, model, out_costs) : TC_OK;
}

static void account_for(tc_ctx *ctx, const tc_model *model, const tc_costs *costs, tc_account *account) {
    if (!costs)
        return;
    if (!account->exact) {
        tc_note(ctx, NULL, "the memory of a run is not known: --dim gives symbolic dimensions values");
        return;
    }
    account->cost_source = tc_costs_source(costs);
    account->cost = tc_graph_cost(costs, model->graph);
}

static tc_status foresee(void *user, tc_model *model, const tc_node_memories *nodes, tc_footprint *out_footprint,
                         bool *out_planned) {
    const source *s = user;
    return tempoc_foresee(s->ctx, model, s->cli->threads, nodes, out_footprint, out_planned);
}

static tc_account *compile_before(tc_ctx *ctx, const cli *c, const tc_file *file);

static tc_status initial_arena(void *user, uint64_t *out_arena) {
    const source *s = user;
    if (!*s->before)
        *s->before = compile_before(s->ctx, s->cli, s->file);
    if (!*s->before || !(*s->before)->has_footprint)
        return tc_error(s->ctx, TC_UNSUPPORTED, NULL,
                        "the budget is a share of the memory of recipe none, which is not known");
    *out_arena = (*s->before)->footprint.arena;
    return TC_OK;
}

static void watch(void *user, bool begins) {
    (void)user;
    tc_program_catch_interrupt(begins);
    if (!begins && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* At most ten times a second. */
static void show_progress(void *user, const char *line) {
    static double shown;
    (void)user;
    if (tc_seconds() < shown + 0.1)
        return;
    shown = tc_seconds();
    fprintf(stderr, "\r%.110s\033[K", line);
}

static tc_status compile(tc_ctx *ctx, const cli *c, const tc_file *file, bool write, compilation *work) {
    source from = {ctx, c, file, c->input, &work->before};
    const tc_runtime runtime = {.foresee = foresee,
                                .initial = initial_arena,
                                .user = &from,
                                .watch = watch,
                                .stop = tc_program_interrupted(),
                                .progress = isatty(STDERR_FILENO) ? show_progress : NULL};
    tc_pass_env env = {.ctx = ctx, .options = &work->options, .summary = &work->summary, .runtime = &runtime};
    env.reread_user = &from;
    env.reread = write ? read_again : NULL; /* one reproducer is enough */
    tc_model *model = NULL;
    tc_status status = tempoc_read(ctx, &(tempoc_source){file, c->input, c->weights, NULL}, &model);
    if (status == TC_OK)
        status = tc_pipeline_run(&env, model);
    if (status == TC_OK && write)
        tempoc_tell_missing(ctx, c->weights, model);
    if (status == TC_OK && c->threads > 0)
        tc_model_set_metadata(model, TC_THREADS_KEY, tc_arena_printf(ctx->arena, "%lld", (long long)c->threads));
    const tc_costs *costs = NULL;
    if (status == TC_OK)
        status = open_costs(&env, model, &costs);
    tc_footprint footprint;
    bool has_footprint = false;
    if (status == TC_OK && ((write && c->target->device) || work->report))
        status = tempoc_target_check(ctx, write ? c->target : NULL, model, &footprint, &has_footprint);
    if (status == TC_OK && write && c->output)
        work->written = write_model(ctx, c, model);
    if (status == TC_OK && work->report) {
        work->account = tc_account_make(ctx->arena, model->graph, work->options.loss);
        work->account->has_footprint = has_footprint;
        work->account->footprint = footprint;
        if (has_footprint)
            work->account->need = tempoc_measure(&c->fit, model, &work->summary, &footprint);
        tc_report_rules(ctx->arena, model->graph, &work->summary, work->report);
        account_for(ctx, model, costs, work->account);
    }
    tc_model_destroy(model);
    return status;
}

/* What the yardstick, recipe `none`, makes of the same file; NULL where it cannot be told. What it has to say was said
 * already. */
static tc_account *compile_before(tc_ctx *ctx, const cli *c, const tc_file *file) {
    compilation work = {.options = c->options, .report = &(tc_report){0}};
    tempoc_make_yardstick(&work.options);
    work.options.precision = NULL;
    work.options.explain = work.options.print_before = work.options.print_after = NULL;
    work.options.verify_each = false;
    size_t n_diags = ctx->n_diags;
    tc_status status = compile(ctx, c, file, false, &work);
    ctx->n_diags = n_diags;
    return status == TC_OK ? work.account : NULL;
}

/* --- --fit --- */

static void add_dim(tc_ctx *ctx, cli *c, int64_t batch) {
    const char **dims = TC_NEW_ARRAY(ctx->arena, const char *, c->options.n_dims + 1);
    if (c->options.n_dims > 0)
        memcpy(dims, c->options.dims, c->options.n_dims * sizeof *dims);
    dims[c->options.n_dims++] = tc_arena_printf(ctx->arena, "%s=%" PRId64, c->fit.dim, batch);
    c->options.dims = dims;
}

/* A tempoc_trial. */
static tc_status try_batch(void *user, int64_t batch, tc_need *out_need) {
    const source *s = user;
    cli c = *s->cli;
    add_dim(s->ctx, &c, batch);
    c.options.explain = c.options.print_before = c.options.print_after = NULL;
    compilation work = {.options = c.options, .report = &(tc_report){0}};
    TC_TRY(compile(s->ctx, &c, s->file, false, &work));
    if (!work.account->has_footprint) {
        tc_error(s->ctx, TC_UNSUPPORTED, NULL, "--fit: the memory of a run is not known");
        tc_hint(s->ctx, "--dim gives symbolic dimensions values, --fit-dim names the one that --fit varies");
        return TC_UNSUPPORTED;
    }
    *out_need = work.account->need;
    return TC_OK;
}

static tc_status fit(tc_ctx *ctx, cli *c, const tc_file *file, FILE *out, const tc_fit **out_fit) {
    source from = {ctx, c, file, c->input, NULL};
    TC_TRY(tempoc_fit(ctx, &c->fit, try_batch, &from, c->quiet ? NULL : out, out_fit));
    add_dim(ctx, c, (*out_fit)->batch);
    return TC_OK;
}

/* --- --recipe=auto --- */

static bool is_auto(const tc_options *options) {
    return !options->passes && strcmp(tc_recipe_find(options->recipe)->name, "auto") == 0;
}

static void disable(tc_ctx *ctx, tc_options *options, const char *const *more, size_t n_more) {
    const char **names = TC_NEW_ARRAY(ctx->arena, const char *, options->n_disabled + n_more + 1);
    size_t n = 0;
    for (size_t i = 0; i < options->n_disabled; i++)
        names[n++] = options->disabled[i];
    for (size_t i = 0; i < n_more; i++)
        names[n++] = more[i];
    options->disabled = names;
    options->n_disabled = n;
}

/* A tempoc_attempt. */
static tc_status try_rewrites(void *user, const char *const *disabled, size_t n, tempoc_outcome *out) {
    const source *s = user;
    size_t n_diags = s->ctx->n_diags;
    compilation *work = TC_NEW(s->ctx->arena, compilation);
    *work = (compilation){.options = s->cli->options, .report = TC_NEW(s->ctx->arena, tc_report)};
    work->options.explain = work->options.print_before = work->options.print_after = NULL;
    work->options.cost = work->options.cost ? work->options.cost : "roofline";
    if (disabled)
        disable(s->ctx, &work->options, disabled, n);
    else
        work->options.recipe = "none";
    TC_TRY(compile(s->ctx, s->cli, s->file, false, work));
    if (!work->account->has_footprint || !work->account->exact) {
        tc_error(s->ctx, TC_UNSUPPORTED, NULL, "--recipe=auto: the memory of a run is not known");
        tc_hint(s->ctx, "--dim gives symbolic dimensions values; other recipes do without");
        return TC_UNSUPPORTED;
    }
    s->ctx->n_diags = n_diags; /* said again when rewrites are chosen */
    *out = (tempoc_outcome){work->account->footprint.arena, work->account->cost, &work->summary};
    return TC_OK;
}

static tc_status choose_rewrites(tc_ctx *ctx, cli *c, const tc_file *file, FILE *out) {
    source from = {ctx, c, file, c->input, NULL};
    const char **left_out;
    size_t n;
    TC_TRY(tempoc_auto(ctx, try_rewrites, &from, c->quiet ? NULL : out, &left_out, &n));
    disable(ctx, &c->options, left_out, n);
    return TC_OK;
}

static bool is_yardstick(const cli *c) {
    return c->options.passes == NULL && c->options.memory_budget == NULL && c->options.precision == NULL &&
           strcmp(tc_recipe_find(c->options.recipe)->name, "none") == 0;
}

/* Passes that were spelled out, and recipes without a backward pass, are measured against nothing. */
static bool has_yardstick(const cli *c) {
    return c->options.passes == NULL && strstr(tc_recipe_find(c->options.recipe)->passes, "autodiff") != NULL;
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

static tc_status write_report(tc_ctx *ctx, const cli *c, const tc_report *report) {
    if (c->report == NULL)
        return TC_OK;
    return tc_ends_with(c->report, ".json") ? tc_report_json(ctx, report, c->report)
                                            : tc_report_html(ctx, report, c->report);
}

static const tc_account *before(tc_ctx *ctx, const cli *c, const tc_file *file, const compilation *done) {
    return done->before ? done->before : compile_before(ctx, c, file);
}

/* The plan that was written all the same. */
static tc_status judge_plan(tc_ctx *ctx, const tc_plan_summary *plan, const tc_pareto *pareto) {
    if (pareto && pareto->stopped)
        tc_warn(ctx, NULL, "the search for the curve was interrupted: it is the best one so far");
    if (pareto && pareto->timed_out)
        tc_warn(ctx, NULL,
                "the search for the curve took too long and was cut short: another machine may find another");
    if (plan && plan->stopped)
        tc_warn(ctx, NULL, "the search for a plan was interrupted: this is the best one so far");
    if (plan && plan->timed_out)
        tc_warn(ctx, NULL, "the search for a plan took too long and was cut short: another machine may find another");
    if (!plan || plan->met)
        return TC_OK;
    return tc_error(ctx, TC_LIMIT, NULL, "the memory budget of %" PRIu64 " bytes was missed: a run allocates %" PRIu64,
                    plan->budget, plan->arena);
}

/* The plan is made again, which is the same; nobody watches. */
static tc_status verify(tc_ctx *ctx, const cli *c, const tc_file *file, const tc_summary *summary, FILE *out) {
    if (summary->file_batch > 0) {
        tc_error(ctx, TC_UNSUPPORTED, NULL, "--verify runs the file as read, whose batch is the number %" PRId64,
                 summary->file_batch);
        tc_hint(ctx, "leave --dim batch out: what is verified at one size holds for others");
        return TC_UNSUPPORTED;
    }
    tc_account *before = NULL;
    source from = {ctx, c, file, c->input, &before};
    const tc_runtime runtime = {.foresee = foresee, .initial = initial_arena, .user = &from};
    const tempoc_source files = {file, c->input, c->weights, &runtime};
    return tempoc_verify(ctx, &files, &c->options, (uint64_t)c->verify_seed, c->quiet ? NULL : out);
}

static tc_status work(tc_ctx *ctx, cli *c, const tc_file *file) {
    double start = tc_seconds();
    /* The report stays out of a model that goes to standard output. */
    FILE *out = c->output && strcmp(c->output, "-") == 0 ? stderr : stdout;
    const tc_fit *fitted = NULL;
    if (c->fit.memory)
        TC_TRY(fit(ctx, c, file, out, &fitted));
    if (is_auto(&c->options))
        TC_TRY(choose_rewrites(ctx, c, file, out));
    bool asked = !c->quiet || c->report;
    tc_report report = {
        .input = c->input, .output = c->output, .dims = c->options.dims, .n_dims = c->options.n_dims, .fit = fitted};
    compilation main_work = {.options = c->options, .report = asked ? &report : NULL};
    tc_status status = compile(ctx, c, file, true, &main_work);
    if (status == TC_OK && asked) {
        report.recipe = c->options.passes ? c->options.passes : tc_recipe_find(c->options.recipe)->name;
        report.summary = &main_work.summary;
        report.after = main_work.account;
        report.optimizer = c->options.update.optimizer ? c->options.update.optimizer : c->fit.optimizer;
        report.before = is_yardstick(c) ? report.after : has_yardstick(c) ? before(ctx, c, file, &main_work) : NULL;
        report.seconds = tc_seconds() - start;
        status = write_report(ctx, c, &report);
        if (!c->quiet)
            tc_report_text(out, ctx, &report, c->verbose);
    }
    print_details(out, c, &main_work.summary);
    status = main_work.written == TC_OK ? status : main_work.written;
    if (status == TC_OK)
        status = judge_plan(ctx, main_work.summary.plan, main_work.summary.pareto);
    if (status == TC_OK && c->verify)
        status = verify(ctx, c, file, &main_work.summary, out);
    return status;
}

static tc_status work_with_weights(tc_ctx *ctx, cli *c, const tc_file *file) {
    rt_weights weights;
    if (!c->checkpoint)
        return work(ctx, c, file);
    TC_TRY(rt_weights_open(ctx, c->checkpoint, &weights));
    c->weights = &weights;
    tc_status status = work(ctx, c, file);
    c->weights = NULL;
    rt_weights_close(&weights);
    return status;
}

static tc_status run(tc_ctx *ctx, int argc, char **argv) {
    cli c = {0};
    tc_arguments arguments;
    TC_TRY(tc_options_parse(ctx, &table, argc, argv, stdout, &c, &arguments));
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
    TC_TRY(check_arguments(ctx, &c, &arguments));
    TC_TRY(check_outputs(ctx, &c));
    ctx->file = c.input;
    tc_file file;
    tc_held held;
    TC_TRY(tc_file_open(ctx, c.input, &file));
    tc_file_hold(&file, &held);
    tc_status status = work_with_weights(ctx, &c, &file);
    tc_let_go(&held);
    tc_file_close(&file);
    return status;
}

int main(int argc, char **argv) { return tc_program("tempoc", run, argc, argv); }
