/* pipeline.c: runs the passes in order and reports on them. passes.def and recipes.def (passes/pass) are the tables;
 * --passes= spells a pipeline out. Around each pass are dumps, the clock and the verifier: a graph that is wrong
 * after a pass is reported as a bug of that pass and leaves a reproducer. */
#include "compiler/onnx/onnx.h"
#include "compiler/ir/ops.h"
#include "compiler/cli/cli.h"
#include "compiler/text/text.h"
#include "compiler/ir/verify.h"
#include "pipeline.h"
#include "compiler/base/base.h"
#include "reproducer.h"
#include "passes/rules/rules.h"
#include "passes/autodiff/autodiff.h"
#include "passes/weights/weights.h"
#include <string.h>

#define tc_check_none NULL
static const tc_pass passes[] = {
#define PASS(name, check, summary) {#name, summary, tc_pass_##name, tc_check_##check},
#include "passes/pass/passes.def"
#undef PASS
};

size_t tc_pass_count(void) { return TC_COUNT(passes); }

const tc_pass *tc_pass_at(size_t index) {
    TC_ASSERT(index < TC_COUNT(passes));
    return &passes[index];
}

const tc_pass *tc_pass_find(const char *name) {
    for (size_t i = 0; i < TC_COUNT(passes); i++)
        if (strcmp(passes[i].name, name) == 0)
            return &passes[i];
    return NULL;
}

/* --- names on the command line ---------------------------------------------------------------- */

static tc_status unknown_pass(tc_ctx *ctx, const char *option, const char *name) {
    tc_status status = tc_error(ctx, TC_USAGE, NULL, "--%s: there is no pass '%s'", option, tc_quote(ctx, name));
    tc_nearest nearest;
    tc_nearest_begin(&nearest, name);
    const char *list = "";
    for (size_t i = 0; i < TC_COUNT(passes); i++) {
        tc_nearest_offer(&nearest, passes[i].name);
        list = tc_arena_printf(ctx->arena, "%s%s%s", list, i ? ", " : "", passes[i].name);
    }
    if (nearest.best)
        tc_hint(ctx, "did you mean %s? The passes are: %s", nearest.best, list);
    else
        tc_hint(ctx, "the passes are: %s", list);
    return status;
}

/* The next name of a comma-separated list, without spaces around it; NULL at the end. */
static const char *next_name(tc_arena *arena, const char **list) {
    const char *start = *list + strspn(*list, ", ");
    if (*start == '\0')
        return NULL;
    size_t length = strcspn(start, ", ");
    *list = start + length;
    return tc_arena_strndup(arena, start, length);
}

static tc_status check_recipe(tc_ctx *ctx, const char *name) {
    if (tc_recipe_find(name))
        return TC_OK;
    tc_status status = tc_error(ctx, TC_USAGE, NULL, "there is no recipe '%s'", tc_quote(ctx, name));
    const char *list = "";
    for (size_t i = 0; i < tc_recipe_count(); i++)
        list = tc_arena_printf(ctx->arena, "%s%s%s", list, i ? ", " : "", tc_recipe_at(i)->name);
    tc_hint(ctx, "the recipes are: %s", list);
    return status;
}

static tc_status check_dump(tc_ctx *ctx, const char *option, const char *name) {
    return name == NULL || strcmp(name, "all") == 0 || tc_pass_find(name) ? TC_OK : unknown_pass(ctx, option, name);
}

/* Recomputed values are equal to the first ones: merging would undo the plan. */
static tc_status check_order(tc_ctx *ctx, const tc_options *options) {
    const char *list = tc_pass_list(options);
    bool planned = false;
    for (const char *name = next_name(ctx->arena, &list); name; name = next_name(ctx->arena, &list)) {
        if (planned && strcmp(name, "canonicalize") == 0)
            return tc_error(ctx, TC_USAGE, NULL,
                            "--passes: canonicalize after budget would merge recomputed nodes with the originals");
        planned = planned || strcmp(name, "budget") == 0;
    }
    return tc_pipeline_need(ctx, options, options->memory_budget ? "--memory-budget" : "--pareto", "budget",
                            "take a recipe with a backward pass; in --passes, put it last, or before bodies");
}

tc_status tc_pipeline_check(tc_ctx *ctx, const tc_options *options) {
    TC_TRY(check_recipe(ctx, options->recipe));
    const char *list = options->passes ? options->passes : "";
    for (const char *name = next_name(ctx->arena, &list); name; name = next_name(ctx->arena, &list))
        if (tc_pass_find(name) == NULL)
            return unknown_pass(ctx, "passes", name);
    for (size_t i = 0; i < TC_COUNT(passes); i++)
        if (passes[i].check)
            TC_TRY(passes[i].check(ctx, options));
    if (options->memory_budget || options->pareto)
        TC_TRY(check_order(ctx, options));
    TC_TRY(check_dump(ctx, "print-ir-before", options->print_before));
    TC_TRY(check_dump(ctx, "print-ir-after", options->print_after));
    return TC_OK;
}

/* --- running ---------------------------------------------------------------------------------- */

static bool names(const char *option, const tc_pass *pass) {
    return option && (strcmp(option, "all") == 0 || strcmp(option, pass->name) == 0);
}

/* Dumps are ONNX text after a comment line, so that each is valid input again. */
static tc_status dump(const tc_pass_env *env, const tc_model *model, const char *when, const tc_pass *pass) {
    fprintf(env->dumps, "# IR %s %s\n", when, pass->name);
    return tc_print_model(env->ctx, model, env->dumps);
}

static tc_status verify_after(tc_ctx *ctx, const tc_model *model, const tc_pass *pass) {
    if (tc_verify(ctx, model) == TC_OK)
        return TC_OK;
    tc_error(ctx, TC_BUG, NULL, "the graph is not valid after the pass '%s'", pass->name);
    tc_hint(ctx, "this is a bug in tempoc; --passes= selects passes, --print-ir-after=%s shows the graph", pass->name);
    return TC_BUG;
}

static bool uses_tempo(const tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        if (strcmp(node->domain, TC_TEMPO_DOMAIN) == 0)
            return true;
        TC_FOR_NESTED(nested, node)
            if (uses_tempo(nested))
                return true;
    }
    return false;
}

/* Imports the domain of ai.tempo if its ops are in use, so that no pass needs to. */
static void import_tempo(tc_model *model) {
    if (uses_tempo(model->graph) && tc_model_opset(model, TC_TEMPO_DOMAIN) == 0)
        tc_model_set_opset(model, TC_TEMPO_DOMAIN, TC_TEMPO_DOMAIN_VERSION);
    for (size_t i = 0; i < model->n_functions; i++)
        if (uses_tempo(model->functions[i]->body))
            tc_function_import(model, model->functions[i], TC_TEMPO_DOMAIN, TC_TEMPO_DOMAIN_VERSION);
}

static void add_time(tc_pass_env *env, const tc_pass *pass, double seconds) {
    tc_summary *summary = env->summary;
    tc_pass_time *times = TC_NEW_ARRAY(env->ctx->arena, tc_pass_time, summary->n_times + 1);
    if (summary->n_times)
        memcpy(times, summary->times, summary->n_times * sizeof *times);
    times[summary->n_times++] = (tc_pass_time){pass->name, seconds};
    summary->times = times;
}

typedef struct pass_job {
    tc_pass_env *env;
    tc_model *model;
    const tc_pass *pass;
} pass_job;

static tc_status run_pass(void *user) {
    const pass_job *job = user;
    tc_pass_env *env = job->env;
    tc_model *model = job->model;
    const tc_pass *pass = job->pass;
    tc_ctx *ctx = env->ctx;
    if (names(env->options->print_before, pass))
        TC_TRY(dump(env, model, "before", pass));
    ctx->pass = pass->name;
    double start = tc_seconds();
    tc_status status = pass->run(env, model);
    add_time(env, pass, tc_seconds() - start);
    import_tempo(model);
    if (status == TC_OK && env->options->verify_each)
        status = verify_after(ctx, model, pass);
    ctx->pass = NULL;
    /* Writes the graph even if the verifier refused it or a pass gave up on it, though it may be half changed. */
    if (names(env->options->print_after, pass))
        TC_TRY(dump(env, model, "after", pass));
    return status;
}

/* The state of a pipeline for a reproducer: "a,b" succeeded, "c,d" were left when c began. */
typedef struct progress {
    const char *done, *left;
} progress;

/* A failed assertion is reported as one of this pass. */
static tc_status attempt_pass(tc_pass_env *env, tc_model *model, const char *name) {
    const tc_failure *failure;
    pass_job job = {env, model, tc_pass_find(name)};
    if (env->watcher && env->watcher->gives_up && *env->watcher->stop)
        return tc_error(env->ctx, TC_LIMIT, NULL, "stopped, as the caller asked");
    tc_status status = tc_attempt(run_pass, &job, &failure);
    if (failure && status == TC_BUG)
        tc_error(env->ctx, TC_BUG, NULL, "%s", failure->text);
    env->ctx->pass = NULL;
    if (failure && status != TC_BUG)
        tc_recovery_pass_on();
    return status;
}

static tc_status run_passes(tc_pass_env *env, tc_model *model, const char *list) {
    progress p = {"", list + strspn(list, ", ")};
    tc_status status = TC_OK;
    for (const char *name = next_name(env->ctx->arena, &list); name; name = next_name(env->ctx->arena, &list)) {
        status = attempt_pass(env, model, name);
        if (status != TC_OK)
            break;
        p.done = tc_arena_printf(env->ctx->arena, "%s%s%s", p.done, *p.done ? "," : "", name);
        p.left = list + strspn(list, ", ");
    }
    if (status == TC_BUG && env->reread && *p.left)
        tc_reproducer_write(env, p.done, p.left);
    return status;
}

/* autodiff differentiates the training step of the file; without that step it would differentiate another graph. */
static tc_status take_training(tc_pass_env *env, tc_model *model) {
    const char *list = tc_pass_list(env->options);
    if (list[strspn(list, ", ")] == '\0' || !tc_has_training(model))
        return TC_OK;
    if (tc_pipeline_has(env->options, "autodiff"))
        return tc_merge_training(env->ctx, model);
    tc_note(env->ctx, NULL, "the training step in the file (training_info) is ignored");
    tc_hint(env->ctx, "use a recipe with the pass autodiff to compile it");
    tc_drop_training(model);
    return TC_OK;
}

tc_status tc_pipeline_run(tc_pass_env *env, tc_model *model) {
    TC_TRY(tc_pipeline_check(env->ctx, env->options));
    TC_TRY(take_training(env, model));
    const char *list = tc_pass_list(env->options);
    env->summary->nodes_before = model->graph->n_nodes;
    TC_TRY(tc_train_list_read(env, model));
    tc_record_initializers(env, model);
    if (list[strspn(list, ", ")] != '\0')
        tc_part_own_functions(env->ctx, model);
    TC_TRY(tc_stop_named(env, model->graph));
    TC_TRY(run_passes(env, model, list));
    tc_rules_check_names(env);
    if (env->summary->n_times > 0) /* passes ran */
        tc_unique_node_names(model);
    env->summary->nodes_after = model->graph->n_nodes;
    return TC_OK;
}
