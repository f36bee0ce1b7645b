/* test_roles.c: the role of each output: by marks, by metadata and, in graphs of others, by loss and seed. */
#include "test/unit/cases.h"
#include "compiler/memory/memory.h"
#include "compiler/onnx/onnx.h"
#include "compiler/shape/shape.h"
#include "compiler/text/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct graph {
    tc_ctx ctx;
    tc_arena *arena;
    tc_model *model;
} graph;

static void make(graph *g, const char *metadata, const char *body) {
    tc_ctx_init(&g->ctx, "test");
    g->arena = tc_arena_create();
    const char *text = tc_arena_printf(
        g->arena,
        "<ir_version: 10, opset_import: [\"\": 21, \"ai.tempo\": 1, \"com.microsoft\": 1], metadata_props: [%s]> g %s",
        metadata, body);
    if (tc_parse_text(&g->ctx, text, strlen(text), "case", &g->model) != TC_OK ||
        tc_infer_graph(&g->ctx, g->model->graph) != TC_OK) {
        tc_diags_print(&g->ctx, stderr);
        fail_msg("not a graph: %s", text);
    }
}

static void done(graph *g) {
    tc_model_destroy(g->model);
    tc_arena_destroy(g->arena);
    tc_ctx_fini(&g->ctx);
}

/* "out forward, loss loss, dw gradient of w, ..." */
static const char *tell(graph *g) {
    static const char *const names[] = {"none", "forward", "loss", "backward", "gradient"};
    const char *text = "";
    tc_roles roles;
    tc_roles_find(g->arena, g->model->graph, &roles);
    for (uint32_t i = 0; i < g->model->graph->n_outputs; i++) {
        const tc_value *parameter = roles.parameters[i];
        text = tc_arena_printf(g->arena, "%s%s%s %s%s%s", text, i ? ", " : "", g->model->graph->outputs[i]->name,
                               names[roles.outputs[i]], parameter ? " of " : "", parameter ? parameter->name : "");
        if (roles.outputs[i] == TC_ROLE_LOSS)
            assert_ptr_equal(roles.loss, g->model->graph->outputs[i]);
    }
    return text;
}

static void expect(const char *metadata, const char *body, const char *expected) {
    graph g;
    make(&g, metadata, body);
    assert_string_equal(tell(&g), expected);
    tc_roles_settle(g.model->graph);
    assert_string_equal(tell(&g), expected); /* by marks now */
    done(&g);
}

#define NET                                                                                                            \
    "<float[3,2] w = {1,2,3,4,5,6}, float[2] b = {1,2}, float one = {1}, float[1] ones = {1}, float half = {0.5},"     \
    "float[2,2] zeros = {0,0,0,0}> { h = MatMul (x, w) y = Add (h, b) t = Tanh (y) loss = ReduceSum <keepdims = 0> (t) "
#define BACK                                                                                                           \
    "s = Shape (t) g = Expand (seed, s) tt = Mul (t, t) gt = Mul (g, tt) gh = Sub (g, gt)"                             \
    "db = ReduceSum <keepdims = 0> (gh, zero) xt = Transpose (x) dw = MatMul (xt, gh) "

/* A backward pass in standard ops that starts from ones, from an input, or from neither. */
TEST(seeds) {
    const char *seed[] = {"seed = Identity (one)", "seed = ConstantOfShape <value = float[1] {1}> (ls)",
                          "seed = Constant <value_float = 1.0> ()"};
    for (size_t i = 0; i < TC_COUNT(seed); i++) {
        char body[1000];
        snprintf(
            body, sizeof body,
            "(float[4,3] x) => (float loss, float[2] db, float[3,2] dw, float[4,2] gh, float[4,2] t, float[4,2] p)" NET
            "zero = Constant <value_ints = [0]> () ls = Shape (loss) %s " BACK "p = Exp (y) }",
            seed[i]);
        expect("", body, "loss loss, db gradient of b, dw gradient of w, gh backward, t forward, p forward");
    }
    expect("",
           "(float[4,3] x, float seed) => (float loss, float[2] db, float[3,2] dw)" NET
           "zero = Constant <value_ints = [0]> () " BACK "}",
           "loss loss, db gradient of b, dw gradient of w");
    /* Of a result that is no loss. */
    expect("",
           "(float[4,3] x, float[4,2] dt) => (float[4,2] t, float[2] db, float[3,2] dw, float[4,3] dx)"
           "<float[3,2] w = {1,2,3,4,5,6}, float[2] b = {1,2}, int64[1] zero = {0}> {"
           "h = MatMul (x, w) y = Add (h, b) t = Tanh (y) tt = Mul (t, t) gt = Mul (dt, tt) gh = Sub (dt, gt)"
           "db = ReduceSum <keepdims = 0> (gh, zero) xt = Transpose (x) dw = MatMul (xt, gh)"
           "wt = Transpose (w) dx = MatMul (gh, wt) }",
           "t loss, db gradient of b, dw gradient of w, dx gradient of x");
}

/* Nothing here is a gradient, whatever it is called. */
TEST(no_gradients) {
    expect("", "(float[4,3] x) => (float loss, float[4,3] x_grad)" NET "x_grad = Neg (x) }",
           "loss forward, x_grad forward");
    expect("", "(float[4,3] x) => (float loss, float[2] b_grad)" NET "b_grad = Mul (b, half) }",
           "loss forward, b_grad forward");
    /* 1 - b is not linear in 1, nor is a sum with an input in it. */
    expect("", "(float[4,3] x) => (float loss, float[2] b_grad)" NET "b_grad = Sub (one, b) }",
           "loss forward, b_grad forward");
    expect("",
           "(float[4,3] x, float[4,2] skip) => (float[4,2] t, float[4,2] out)"
           "<float[3,2] w = {1,2,3,4,5,6}> { h = MatMul (x, w) t = Tanh (h) out = Add (t, skip) }",
           "t forward, out forward");
    /* Where it is linear, it has no parameter's type. */
    expect("", "(float[4,3] x) => (float loss, float[4,2] t_grad)" NET "t_grad = Mul (t, one) }",
           "loss forward, t_grad forward");
}

/* Results of gradient ops, and what the last layer makes beside them. */
TEST(gradient_ops) {
    const char *body = "(float[4,3] x, float[4,2] r) => (float loss, float[4,2] dh, float[3,2] dw, float[4,2] hs) %s {"
                       "h = MatMul (x, w) t = Gelu (h) u = Mul (t, r) loss = ReduceSum <keepdims = 0> (u)"
                       "dh = ai.tempo.GeluGrad (r, h) xt = Transpose (x) dw = MatMul (xt, dh) hs = Sin (h) }";
    char text[600];
    snprintf(text, sizeof text, body, "<float[3,2] w = {1,2,3,4,5,6}>");
    expect("", text, "loss loss, dh gradient of r, dw gradient of w, hs gradient of r"); /* by their types: no marks */
    expect("\"tempo.loss\": \"loss\", \"tempo.gradient.dw\": \"w\", \"tempo.backward.dh\": \"\"", text,
           "loss loss, dh backward, dw gradient of w, hs forward");
    expect("\"tempo.gradient.dw\": \"gone\", \"tempo.loss\": \"nobody\"", text,
           "loss loss, dh gradient of r, dw gradient, hs forward");
}

/* dL/dw of x w is x: here w's gradient is a value that the loss depends on. */
TEST(gradient_the_loss_needs) {
    expect("\"tempo.loss\": \"loss\", \"tempo.gradient.dw\": \"w\"",
           "(float[2] x) => (float loss, float[2] dw, float[2] q) <float[2] w = {1,2}> {"
           "dw = Exp (x) p = Mul (dw, w) q = Neg (p) loss = ReduceSum <keepdims = 0> (p) }",
           "loss loss, dw gradient of w, q forward");
}

static const char *written(graph *g, tc_model *model) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(tc_print_model(&g->ctx, model, out), TC_OK);
    fclose(out);
    const char *copy = tc_arena_strdup(g->arena, text);
    free(text);
    return copy;
}

/* Marks go through a file and back; other pairs stay where they are, and those of ours that no longer hold go. */
TEST(metadata) {
    graph g;
    make(&g,
         "\"tempo.gradient.loss\": \"w\", \"a\": \"1\", \"tempo.gradient.dw\": \"w\", \"tempo.gradient.gone\": \"w\","
         "\"b\": \"2\"",
         "(float[2] x, float seed) => (float loss, float[2] dw) <float[2] w = {1,2}> {"
         "p = Mul (x, w) loss = ReduceSum <keepdims = 0> (p) dw = Mul (x, seed) }");
    tc_graph_find(g.model->graph, "loss")->role = TC_ROLE_LOSS;
    tc_graph_find(g.model->graph, "seed")->role = TC_ROLE_BACKWARD;
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    assert_int_equal(tc_write_onnx_stream(&g.ctx, g.model, out), TC_OK);
    fclose(out);
    tc_model *back = NULL;
    assert_int_equal(tc_read_onnx(&g.ctx, bytes, size, NULL, &back), TC_OK);
    const tc_value *dw = tc_graph_find(back->graph, "dw");
    assert_int_equal(dw->role, TC_ROLE_GRADIENT);
    assert_ptr_equal(dw->gradient_of, tc_graph_find(back->graph, "w"));
    assert_int_equal(tc_graph_find(back->graph, "loss")->role, TC_ROLE_LOSS);
    assert_int_equal(tc_graph_find(back->graph, "seed")->role, TC_ROLE_BACKWARD);
    const char *pairs = "metadata_props: [\"a\": \"1\", \"tempo.gradient.dw\": \"w\", \"b\": \"2\", "
                        "\"tempo.backward.seed\": \"\", \"tempo.loss\": \"loss\"]";
    assert_non_null(strstr(written(&g, g.model), pairs));
    assert_non_null(strstr(written(&g, back), pairs));
    tc_model_destroy(back);
    free(bytes);
    done(&g);
}

/* Copies keep roles; what takes an output's place takes its role. */
TEST(handing_on) {
    graph g;
    make(&g, "\"tempo.loss\": \"loss\", \"tempo.gradient.dw\": \"w\"",
         "(float[2] x) => (float loss, float[2] dw) <float[2] w = {1,2}> {"
         "p = Mul (x, w) loss = ReduceSum <keepdims = 0> (p) q = Neg (x) dw = Identity (q) }");
    tc_value *dw = tc_graph_find(g.model->graph, "dw"), *q = tc_graph_find(g.model->graph, "q");
    tc_value_replace(dw, q);
    assert_int_equal(q->role, TC_ROLE_GRADIENT);
    assert_string_equal(q->gradient_of->name, "w");
    assert_string_equal(tell(&g), "loss loss, q gradient of w");
    done(&g);
}
