/* test_canonicalize.c: what FileCheck tests cannot hold: parts of large constants, and time linear in the size of the
 * graph. */
#include "test/unit/cases.h"
#include "compiler/shape/shape.h"
#include "compiler/text/text.h"
#include "passes/canonical/canonical.h"
#include <stdlib.h>
#include <string.h>

static tc_model *parse(tc_ctx *ctx, const char *text) {
    tc_model *model = NULL;
    tc_ctx_init(ctx, "test");
    tc_status status = tc_parse_text(ctx, text, strlen(text), "graph", &model);
    if (status != TC_OK)
        tc_diags_print(ctx, stderr);
    assert_int_equal(status, TC_OK);
    return model;
}

static void canonicalize(tc_ctx *ctx, tc_model *model) {
    tc_options options = {0};
    tc_summary summary = {0};
    tc_pass_env env = {ctx, &options, &summary};
    tc_status status = tc_pass_canonicalize(&env, model);
    if (status != TC_OK)
        tc_diags_print(ctx, stderr);
    assert_int_equal(status, TC_OK);
}

/* A mask buffer of 160 KB, of which 3 x 4 elements are used, backwards on one axis. */
TEST(part_of_a_large_constant) {
    enum { ROWS = 200, COLUMNS = 100 };
    tc_ctx ctx;
    tc_model *model = parse(
        &ctx,
        "<ir_version: 10, opset_import: [\"\": 21]> g (int64[200,100] big, int64[3,4] x) => (int64[3,4] y)"
        "<int64[2] starts = {-5, 10}, int64[2] ends = {1000, 0}, int64[2] axes = {-2, 1}, int64[2] steps = {2, -3}>"
        "{ part = Slice(big, starts, ends, axes, steps) y = Add(x, part) }");
    tc_graph *graph = model->graph;
    int64_t *numbers = malloc(sizeof *numbers * ROWS * COLUMNS);
    assert_non_null(numbers);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        numbers[i] = i;
    const tc_tensor *big = tc_tensor_create(model, TC_INT64, 2, (const int64_t[]){ROWS, COLUMNS}, numbers);
    free(numbers);
    tc_value_replace(graph->inputs[0], tc_constant(graph, "buffer", big));
    canonicalize(&ctx, model);
    assert_int_equal(graph->n_nodes, 1);
    const tc_tensor *part = tc_value_constant(tc_input(graph->first, 1));
    assert_non_null(part);
    for (int row = 0; row < 3; row++)
        for (int column = 0; column < 4; column++)
            assert_int_equal(tc_tensor_get_int(part, (uint64_t)(row * 4 + column)),
                             (195 + 2 * row) * COLUMNS + 10 - 3 * column);
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
}

/* Bytes taken from the system stand for time here: a clock would make a flaky test. */
static size_t bytes_for(unsigned n) {
    size_t size = 300 + (size_t)n * 120;
    char *text = malloc(size);
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, size,
                                 "<ir_version: 10, opset_import: [\"\": 21]> g (float[B,4] v0) => (float[B,4] v%u) "
                                 "<float one = {1.0}, float two = {2.0}, int64[2] t = {-1, 4}> {",
                                 n);
    for (unsigned i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, size - at,
                               "a%u = Mul(one, v%u) b%u = Pow(a%u, two) s%u = Shape(b%u) v%u = Reshape(b%u, s%u) ", i,
                               i, i, i, i, i, i + 1, i, i);
    snprintf(text + at, size - at, "}");
    tc_ctx ctx;
    tc_model *model = parse(&ctx, text);
    canonicalize(&ctx, model);
    assert_int_equal(model->graph->n_nodes, n); /* one Mul for each step */
    size_t bytes = tc_arena_bytes(model->arena);
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
    free(text);
    return bytes;
}

TEST(linear) {
    size_t once = bytes_for(2000), twice = bytes_for(4000);
    assert_true(twice < once * 5 / 2);
}
