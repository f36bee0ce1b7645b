/* test_reproducer.c: a graph that is not valid after a pass, and an assertion that fails inside one, leave a file with
 * the graph before that pass and the command that shows the bug. No pass of ours has such a bug to offer: here the
 * graph is broken by hand. */
#define OWN_MAIN
#include "passes/pipeline/pipeline.h"
#include "test/unit/cases.h"
#include "compiler/text/text.h"
#include "passes/pipeline/reproducer.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char text[] =
    "<ir_version: 10, opset_import: [\"\": 21]> g (float[n] x) => (float[n] y) { a = Exp(x) dead = Neg(x) y = "
    "Tanh(a) }";

static tc_status parse(void *user, tc_model **out_model) {
    return tc_parse_text(user, text, strlen(text), "graph", out_model);
}

/* Verification finds the broken name of a live value after the first pass that follows. */
static void break_graph(tc_model *model) { model->graph->first->outputs[0]->name = ""; }

static const char *selection[] = {"train=it's*", "freeze=50%"};
static const char *dims[] = {"n=3"};

static tc_status run(tc_ctx *ctx, const char *passes, bool broken) {
    tc_options options = {
        .passes = passes, .verify_each = true, .selection = selection, .n_selection = 2, .dims = dims, .n_dims = 1};
    tc_summary summary = {0};
    tc_pass_env env = {.ctx = ctx, .options = &options, .summary = &summary, .reread = parse, .reread_user = ctx};
    tc_model *model;
    assert_int_equal(parse(ctx, &model), TC_OK);
    if (broken)
        break_graph(model);
    tc_status status = tc_pipeline_run(&env, model);
    tc_model_destroy(model);
    return status;
}

static void read_reproducer(char *out, size_t size) {
    FILE *file = fopen(TC_REPRODUCER, "r");
    assert_non_null(file);
    out[fread(out, 1, size - 1, file)] = '\0';
    fclose(file);
    unlink(TC_REPRODUCER);
}

static void assert_holds(const char *whole, const char *part) {
    if (!strstr(whole, part))
        fail_msg("'%s' is not in: %s", part, whole);
}

TEST(invalid_graph) {
    char file[4096];
    tc_ctx ctx;
    tc_model *model;
    tc_ctx_init(&ctx, "test");
    assert_int_equal(run(&ctx, "shapes, dce", true), TC_BUG);
    assert_holds(ctx.diags[ctx.n_diags - 1].message, "reproducer.onnxt");
    read_reproducer(file, sizeof file);
    assert_holds(file, "# The graph before the pass 'shapes', which met a bug");
    assert_holds(
        file,
        "# RUN: tempoc %s --verify-each --passes='shapes, dce' --dim='n=3' --train='it'\\''s*' --freeze='50%%'\n");
    assert_int_equal(tc_parse_text(&ctx, file, strlen(file), "file", &model), TC_OK);
    assert_int_equal(model->graph->n_nodes, 3);
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
}

TEST(later_pass) { /* the passes that went well are done before */
    char file[4096];
    tc_ctx ctx;
    tc_model *model;
    tc_ctx_init(&ctx, "test");
    tc_options options = {.dims = dims, .n_dims = 1};
    tc_summary summary = {0};
    tc_pass_env env = {.ctx = &ctx, .options = &options, .summary = &summary, .reread = parse, .reread_user = &ctx};
    tc_reproducer_write(&env, "shapes,dce", "autodiff,bodies");
    read_reproducer(file, sizeof file);
    assert_holds(file, "before the pass 'autodiff'");
    assert_holds(file, "--passes='autodiff,bodies'");
    assert_int_equal(tc_parse_text(&ctx, file, strlen(file), "file", &model), TC_OK);
    assert_int_equal(model->graph->n_nodes, 2);
    assert_string_equal(tc_type_text(ctx.arena, model->graph->inputs[0]->type), "float[3]");
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
}

TEST(no_bug) { /* nothing is written, and a later assertion finds no handler */
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    assert_int_equal(run(&ctx, "shapes,dce", false), TC_OK);
    assert_int_equal(access(TC_REPRODUCER, F_OK), -1);
    tc_ctx_fini(&ctx);
}

TEST(own_reproducer) { /* what is read is not written over */
    char file[16];
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    FILE *out = fopen(TC_REPRODUCER, "w");
    assert_non_null(out);
    fputs("mine", out);
    fclose(out);
    ctx.file = TC_REPRODUCER;
    assert_int_equal(run(&ctx, "shapes,dce", true), TC_BUG);
    read_reproducer(file, sizeof file);
    assert_string_equal(file, "mine");
    tc_ctx_fini(&ctx);
}

static const char twice[] =
    "<ir_version: 10, opset_import: [\"\": 21]> g (float[n] x) => (float[n] y) { a = Exp(x) b = Exp(x) y = "
    "Add(a, b) }";

static tc_status parse_twice(void *user, tc_model **out_model) {
    return tc_parse_text(user, twice, strlen(twice), "graph", out_model);
}

/* Two equal nodes with one result: whoever merges them replaces a value by itself. */
static void share_result(tc_model *model) {
    tc_node *first = model->graph->first;
    first->next->outputs[0] = first->outputs[0];
}

TEST(assertion) {
    char file[4096];
    tc_ctx ctx;
    tc_model *model;
    tc_ctx_init(&ctx, "test");
    tc_options options = {.passes = "shapes,canonicalize,autodiff"};
    tc_summary summary = {0};
    tc_pass_env env = {
        .ctx = &ctx, .options = &options, .summary = &summary, .reread = parse_twice, .reread_user = &ctx};
    assert_int_equal(parse_twice(&ctx, &model), TC_OK);
    share_result(model);
    assert_int_equal(tc_pipeline_run(&env, model), TC_BUG);
    assert_int_equal(ctx.n_diags, 2);
    assert_holds(ctx.diags[0].message, "bug: ");
    assert_holds(ctx.diags[0].message, "assertion failed: ");
    assert_string_equal(ctx.diags[0].pass, "canonicalize");
    assert_holds(ctx.diags[1].message, "reproducer.onnxt");
    read_reproducer(file, sizeof file);
    assert_holds(file, "# The graph before the pass 'canonicalize', which met a bug");
    assert_holds(file, "--passes='canonicalize,autodiff'");
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
}

int main(void) {
    char folder[] = "/tmp/test_reproducer.XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 1;
    int failed = run_all_tests(NULL, NULL);
    rmdir(folder);
    return failed;
}
