/* command_run.c: one command -> the compiled model, written, and its report. Each compilation is one request to
 * compile_once.c and one measurement of its result: that of the command, that of recipe `none` beside it, and the
 * trials of --fit and of recipe `auto`. */
#include "compiler/base/base.h"
#include "adapter_file.h"
#include "passes/budget/budget.h"
#include "command.h"
#include "compiler/text/marks.h"
#include "compiler/onnx/onnx.h"
#include "compiler/text/text.h"
#include "passes/budget/node_cost.h"
#include "choose_rewrites.h"
#include "verify_compiled.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

typedef struct run {
    tc_ctx *ctx;
    tc_command c;
    tc_source source;
    const tc_command_results *to;
    FILE *tables; /* NULL under -q */
} run;

/* A compilation whose graph is gone. In the context's arena. */
typedef struct measured {
    tc_summary summary;
    tc_account *account;
    tc_report rules; /* its rows of rules */
} measured;

static tc_compile_request request_for(const run *r, const tc_options *options, uint64_t initial) {
    return (tc_compile_request){.source = &r->source, .options = options, .threads = r->c.threads, .initial = initial};
}

/* --- the account ------------------------------------------------------------------------------ */

/* The costs of nodes, where --machine or --cost asks; *out_costs is NULL else. */
static tc_status open_costs(const run *r, const tc_options *options, const tc_model *model,
                            const tc_costs **out_costs) {
    tc_pass_env env = {.ctx = r->ctx, .options = options};
    *out_costs = NULL;
    return options->machine || options->cost ? tc_costs_open(&env, model, out_costs) : TC_OK;
}

static void account_cost(tc_ctx *ctx, const tc_graph *graph, const tc_costs *costs, tc_account *account) {
    if (!account->exact) {
        tc_note(ctx, NULL, "the memory of a run is not known: --dim gives symbolic dimensions values");
        return;
    }
    account->cost_source = tc_costs_source(costs);
    account->cost = tc_graph_cost(costs, graph);
}

/* `footprint`, `costs` NULL: not known. */
static void account_for(const run *r, const tc_options *options, const tc_compiled *of, const tc_footprint *footprint,
                        const tc_costs *costs, measured *out) {
    tc_account *account = tc_account_make(r->ctx->arena, of->model->graph, options->loss);
    *out = (measured){.summary = of->summary, .account = account};
    if (footprint) {
        account->has_footprint = true;
        account->footprint = *footprint;
        account->need = tc_measure_need(&r->c.fit, of->model, &of->summary, footprint);
    }
    tc_report_rules(r->ctx->arena, of->model->graph, &of->summary, &out->rules);
    if (costs)
        account_cost(r->ctx, of->model->graph, costs, account);
}

static void note_threads(const run *r, tc_model *model) {
    if (r->c.threads > 0)
        tc_model_set_metadata(model, TC_THREADS_KEY, tc_arena_printf(r->ctx->arena, "%" PRId64, r->c.threads));
}

/* --- compilations that are measured alone ----------------------------------------------------- */

static tc_status measure_once(const run *r, const tc_options *options, uint64_t initial, measured *out) {
    tc_options quiet = *options;
    quiet.explain = quiet.print_before = quiet.print_after = NULL;
    tc_compile_request request = request_for(r, &quiet, initial);
    request.watcher = r->to->watcher;
    tc_compiled compiled;
    tc_footprint footprint;
    const tc_costs *costs;
    bool known;
    TC_TRY(tc_compile(r->ctx, &request, &compiled));
    note_threads(r, compiled.model);
    tc_status status = open_costs(r, &quiet, compiled.model, &costs);
    if (status == TC_OK)
        status = tc_target_check(r->ctx, NULL, compiled.model, &footprint, &known);
    if (status == TC_OK)
        account_for(r, &quiet, &compiled, known ? &footprint : NULL, costs, out);
    tc_model_destroy(compiled.model);
    return status;
}

/* Recipe `none` of the same file; NULL where it cannot be compiled. What it has to say, the other graph says. */
static const tc_account *measure_none(const run *r, const tc_options *options) {
    measured none;
    tc_options yardstick = *options;
    tc_make_yardstick(&yardstick);
    yardstick.precision = NULL;
    yardstick.verify_each = false;
    size_t n_diags = r->ctx->n_diags;
    tc_status status = measure_once(r, &yardstick, 0, &none);
    r->ctx->n_diags = n_diags;
    return status == TC_OK ? none.account : NULL;
}

/* The arena that a budget in percent is of; 0: not known, or not asked for. *out_none: the account, where it was made.
 */
static uint64_t initial_for(const run *r, const tc_options *options, const tc_account **out_none) {
    *out_none = tc_budget_asks_initial(r->ctx, options) ? measure_none(r, options) : NULL;
    return *out_none && (*out_none)->has_footprint ? (*out_none)->footprint.arena : 0;
}

static tc_status measure(const run *r, const tc_options *options, measured *out) {
    const tc_account *none;
    uint64_t initial = initial_for(r, options, &none);
    return measure_once(r, options, initial, out);
}

/* --- --fit ------------------------------------------------------------------------------------ */

/* A tc_fit_trial. */
static tc_status try_batch(void *user, int64_t batch, tc_need *out_need) {
    const run *r = user;
    tc_options options = r->c.options;
    measured at;
    tc_add_dim(r->ctx, &options, r->c.fit.dim, batch);
    TC_TRY(measure(r, &options, &at));
    if (!at.account->has_footprint) {
        tc_error(r->ctx, TC_UNSUPPORTED, NULL, "--fit: the memory of a run is not known");
        tc_hint(r->ctx, "--dim gives symbolic dimensions values, --fit-dim names the one that --fit varies");
        return TC_UNSUPPORTED;
    }
    *out_need = at.account->need;
    return TC_OK;
}

static tc_status fit(run *r, const tc_fit **out_fit) {
    TC_TRY(tc_fit_batch(r->ctx, &r->c.fit, r->to->watcher, try_batch, r, r->tables, out_fit));
    tc_add_dim(r->ctx, &r->c.options, r->c.fit.dim, (*out_fit)->batch);
    return TC_OK;
}

/* --- --recipe=auto ---------------------------------------------------------------------------- */

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

/* A tc_rewrite_trial. */
static tc_status try_rewrites(void *user, const char *const *disabled, size_t n, tc_rewrite_outcome *out) {
    const run *r = user;
    size_t n_diags = r->ctx->n_diags;
    tc_options options = r->c.options;
    measured *with = TC_NEW(r->ctx->arena, measured);
    options.cost = options.cost ? options.cost : "roofline";
    if (disabled)
        disable(r->ctx, &options, disabled, n);
    else
        options.recipe = "none";
    TC_TRY(measure(r, &options, with));
    if (!with->account->has_footprint || !with->account->exact) {
        tc_error(r->ctx, TC_UNSUPPORTED, NULL, "--recipe=auto: the memory of a run is not known");
        tc_hint(r->ctx, "--dim gives symbolic dimensions values; other recipes do without");
        return TC_UNSUPPORTED;
    }
    r->ctx->n_diags = n_diags; /* said again when rewrites are chosen */
    *out = (tc_rewrite_outcome){with->account->footprint.arena, with->account->cost, &with->summary};
    return TC_OK;
}

static tc_status choose_rewrites(run *r) {
    const char **left_out;
    size_t n;
    TC_TRY(tc_choose_rewrites(r->ctx, r->to->watcher, try_rewrites, r, r->tables, &left_out, &n));
    disable(r->ctx, &r->c.options, left_out, n);
    return TC_OK;
}

/* --- the graph that is written ---------------------------------------------------------------- */

static tc_status write_text(tc_ctx *ctx, const tc_model *model, const char *path) {
    tc_out_file *file;
    TC_TRY(tc_out_open(ctx, path, &file));
    tc_status status = tc_print_model(ctx, model, tc_out_stream(file));
    if (status == TC_OK)
        return tc_out_commit(ctx, file);
    tc_out_abandon(file);
    return status;
}

static tc_status write_stream(tc_ctx *ctx, const tc_command *c, const tc_model *model, FILE *out) {
    return tc_command_emits_text(c) ? tc_print_model(ctx, model, out) : tc_write_onnx_stream(ctx, model, out);
}

static tc_status write_model(const run *r, const tc_model *model) {
    const char *path = r->c.output;
    if (r->to->model)
        TC_TRY(write_stream(r->ctx, &r->c, model, r->to->model));
    if (!path)
        return TC_OK;
    return tc_command_emits_text(&r->c) ? write_text(r->ctx, model, path) : tc_write_onnx(r->ctx, model, path);
}

/* Compiles, writes and accounts for the graph. *out_written: whether it was written; the account is made all the same.
 */
static tc_status compile(const run *r, uint64_t initial, bool asked, measured *out, tc_status *out_written) {
    tc_compile_request request = request_for(r, &r->c.options, initial);
    request.leaves_file = true;
    request.dumps = r->to->dumps;
    request.watcher = r->to->watcher;
    tc_compiled compiled;
    tc_footprint footprint;
    const tc_costs *costs;
    bool known = false;
    TC_TRY(tc_compile(r->ctx, &request, &compiled));
    tc_report_missing(r->ctx, r->source.weights, compiled.model);
    note_threads(r, compiled.model);
    out->summary = compiled.summary;
    tc_status status = open_costs(r, &r->c.options, compiled.model, &costs);
    if (status == TC_OK && (r->c.target->device || asked))
        status = tc_target_check(r->ctx, r->c.target, compiled.model, &footprint, &known);
    if (status == TC_OK)
        *out_written = write_model(r, compiled.model);
    if (status == TC_OK && asked)
        account_for(r, &r->c.options, &compiled, known ? &footprint : NULL, costs, out);
    tc_model_destroy(compiled.model);
    return status;
}

/* --- the report ------------------------------------------------------------------------------- */

static bool is_yardstick(const tc_options *o) {
    return !o->passes && !o->memory_budget && !o->precision && strcmp(tc_recipe_find(o->recipe)->name, "none") == 0;
}

/* Passes that were spelled out, and recipes without a backward pass, are compared with nothing. */
static bool has_yardstick(const tc_options *o) {
    return !o->passes && strstr(tc_recipe_find(o->recipe)->passes, "autodiff") != NULL;
}

static void print_details(FILE *out, const tc_options *options, const tc_summary *summary) {
    if (options->stats) {
        fprintf(out, "%-40s %10s %10s\n", "rule", "matched", "tried");
        for (size_t i = 0; i < summary->n_rules; i++)
            fprintf(out, "%-40s %10llu %10llu\n", summary->rules[i].name, (unsigned long long)summary->rules[i].matched,
                    (unsigned long long)summary->rules[i].tried);
    }
    for (size_t i = 0; options->time && i < summary->n_times; i++)
        fprintf(out, "%-14s %9.3f ms\n", summary->times[i].name, 1e3 * summary->times[i].seconds);
}

static tc_status write_report(const run *r, const tc_report *report) {
    if (r->to->json)
        tc_report_json_to(r->ctx, report, r->to->json);
    if (!r->c.report)
        return TC_OK;
    return tc_ends_with(r->c.report, ".json") ? tc_report_json(r->ctx, report, r->c.report)
                                              : tc_report_html(r->ctx, report, r->c.report);
}

static tc_status report(const run *r, const measured *after, const tc_account *none, const tc_fit *fitted,
                        double start) {
    const tc_options *o = &r->c.options;
    tc_report all = after->rules;
    all.input = r->c.input;
    all.output = r->c.output;
    all.dims = o->dims;
    all.n_dims = o->n_dims;
    all.fit = fitted;
    all.recipe = o->passes ? o->passes : tc_recipe_find(o->recipe)->name;
    all.summary = &after->summary;
    all.after = after->account;
    all.optimizer = o->update.optimizer ? o->update.optimizer : r->c.fit.optimizer;
    all.before = is_yardstick(o) ? after->account : !has_yardstick(o) ? NULL : none ? none : measure_none(r, o);
    all.seconds = tc_seconds() - start;
    tc_status status = write_report(r, &all);
    if (r->tables)
        tc_report_text(r->tables, r->ctx, &all, r->c.verbose);
    return status;
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

/* Computes the plan once more; it is the same. */
static tc_status verify(const run *r, const tc_summary *summary, uint64_t initial) {
    if (summary->file_batch > 0) {
        tc_error(r->ctx, TC_UNSUPPORTED, NULL, "--verify runs the file as read, whose batch is the number %" PRId64,
                 summary->file_batch);
        tc_hint(r->ctx, "leave --dim batch out: what is verified at one size holds for others");
        return TC_UNSUPPORTED;
    }
    const tc_compile_request like = request_for(r, &r->c.options, initial);
    return tc_verify_compiled(r->ctx, &like, (uint64_t)r->c.verify_seed, r->tables);
}

/* --- --merge ---------------------------------------------------------------------------------- */

static const tc_tensor *initializer(const tc_model *model, const char *name) {
    const tc_value *value = name ? tc_map_get(model->graph->names, name) : NULL;
    return value ? value->init : NULL;
}

/* The model as read, with the adapters of the other one, in which they stand beside their weights. */
static tc_status write_merged(const run *r, const tc_compiled *beside) {
    tc_model *model;
    TC_TRY(tc_source_read(r->ctx, &r->source, &model));
    tc_status status = tc_check_merge(r->ctx, model, beside->summary.adapted, beside->summary.n_adapted);
    const tc_adapter *adapter = r->c.options.adapter;
    tc_value *value;
    for (size_t i = 0; status == TC_OK && i < adapter->n_saved; i++)
        status = tc_put_saved(r->ctx, &beside->summary, adapter, &adapter->saved[i], model->graph, &value);
    for (size_t i = 0; status == TC_OK && i < beside->summary.n_adapted; i++) {
        const tc_adapted *a = &beside->summary.adapted[i];
        const tc_lora_tensors tensors = {initializer(beside->model, a->a), initializer(beside->model, a->b),
                                         initializer(beside->model, a->magnitude)};
        status = tc_merge_adapter(r->ctx, model, a, &tensors);
    }
    if (status == TC_OK)
        status = write_model(r, model);
    tc_model_destroy(model);
    return status;
}

/* Passes of the recipe `evaluate` up to `lora` place the adapters. */
static tc_status merge(run *r) {
    const char *passes = tc_recipe_find("evaluate")->passes, *last = strstr(passes, ",lora,");
    tc_compiled beside;
    TC_ASSERT(last);
    r->c.options.passes = tc_arena_strndup(r->ctx->arena, passes, (size_t)(last - passes) + strlen(",lora"));
    const tc_compile_request request = request_for(r, &r->c.options, 0);
    TC_TRY(tc_compile(r->ctx, &request, &beside));
    tc_status status = write_merged(r, &beside);
    tc_model_destroy(beside.model);
    return status;
}

/* --- the whole -------------------------------------------------------------------------------- */

static tc_status work(run *r) {
    double start = tc_seconds();
    const tc_fit *fitted = NULL;
    if (r->c.fit.memory)
        TC_TRY(fit(r, &fitted));
    if (is_auto(&r->c.options))
        TC_TRY(choose_rewrites(r));
    bool asked = r->tables || r->c.report || r->to->json;
    const tc_account *none;
    uint64_t initial = initial_for(r, &r->c.options, &none);
    measured after = {0};
    tc_status written = TC_OK, status = compile(r, initial, asked, &after, &written);
    if (status == TC_OK && asked)
        status = report(r, &after, none, fitted, start);
    print_details(r->to->text, &r->c.options, &after.summary);
    status = written == TC_OK ? status : written;
    if (status == TC_OK)
        status = judge_plan(r->ctx, after.summary.plan, after.summary.pareto);
    return status == TC_OK && r->c.verify ? verify(r, &after.summary, initial) : status;
}

tc_status tc_command_run(tc_ctx *ctx, const tc_command *command, const tc_file *file, const tc_command_results *to) {
    rt_weights weights = {0};
    tc_adapter_file adapter;
    run r = {.ctx = ctx,
             .c = *command,
             .source = {.file = file, .path = command->input},
             .to = to,
             .tables = command->quiet ? NULL : to->text};
    tc_status status = tc_adapter_open(ctx, &r.c.options, &adapter);
    if (status == TC_OK && command->checkpoint) {
        status = rt_weights_open(ctx, command->checkpoint, &weights);
        r.source.weights = &weights;
    }
    if (status == TC_OK)
        status = command->merge ? merge(&r) : work(&r);
    if (weights.path)
        rt_weights_close(&weights);
    tc_adapter_close(&adapter);
    return status;
}
