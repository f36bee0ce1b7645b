/* test_ledger.c: what graphs save for their backward pass, told by hand for small ones, and the lives of their values.
 * Graphs are written as ONNX text; every float is 4 bytes. */
#include "test/unit/cases.h"
#include "compiler/memory/memory.h"
#include "compiler/shape/shape.h"
#include "compiler/text/text.h"
#include <stdio.h>
#include <string.h>

typedef struct graph {
    tc_ctx ctx;
    tc_arena *arena;
    tc_model *model;
    tc_ledger ledger;
    tc_liveness live;
} graph;

/* These graphs are no backward passes that one could tell: what is called so is marked so. */
static void mark_gradients(tc_graph *marked) {
    for (uint32_t i = 0; i < marked->n_outputs; i++)
        if (strstr(marked->outputs[i]->name, "_grad"))
            marked->outputs[i]->role = TC_ROLE_GRADIENT;
}

static void read_graph(graph *g, const char *text, const char *loss) {
    char *whole = NULL;
    tc_ctx_init(&g->ctx, "test");
    g->arena = tc_arena_create();
    whole = tc_arena_printf(g->arena, "<ir_version: 10, opset_import: [\"\": 21, \"ai.tempo\": 1]> g %s", text);
    if (tc_parse_text(&g->ctx, whole, strlen(whole), "case", &g->model) != TC_OK ||
        tc_infer_graph(&g->ctx, g->model->graph) != TC_OK) {
        tc_diags_print(&g->ctx, stderr);
        fail_msg("not a graph: %s", text);
    }
    mark_gradients(g->model->graph);
    tc_ledger_make(g->arena, g->model->graph, loss ? tc_graph_find(g->model->graph, loss) : NULL, &g->ledger);
    tc_liveness_make(g->arena, g->model->graph, &g->live);
}

static void free_graph(graph *g) {
    tc_model_destroy(g->model);
    tc_arena_destroy(g->arena);
    tc_ctx_fini(&g->ctx);
}

/* "h 32 by dw; mask 8 by dh": name, bytes and first reader of each saved value. */
static void expect_saved(const char *text, const char *loss, const char *expected) {
    graph g;
    read_graph(&g, text, loss);
    const char *got = "";
    for (size_t i = 0; i < g.ledger.n_saved; i++) {
        const tc_saved *s = &g.ledger.saved[i];
        got = tc_arena_printf(g.arena, "%s%s%s %s by %s", got, i ? "; " : "", s->value->name,
                              tc_dim_text(g.arena, s->bytes), s->user->outputs[0]->name);
    }
    assert_string_equal(got, expected);
    free_graph(&g);
}

TEST(saved) {
    expect_saved(
        "(float[2,4] x) => (float loss, float[4,4] w_grad) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {"
        "h = MatMul (x, w) y = Tanh (h) loss = ReduceSum <keepdims = 0> (y)"
        "yy = Mul (y, y) xt = Transpose (x) w_grad = MatMul (xt, yy) }",
        NULL, "y 32 by yy");
    /* One root, however many views, forward or backward, and readers; the reader is the first one that is no view. */
    expect_saved("(float[2,4] x) => (float loss, float[8] x_grad) <int64[1] flat = {-1}> {"
                 "y = Tanh (x) v = Reshape (y, flat) loss = ReduceSum <keepdims = 0> (v)"
                 "u = Reshape (y, flat) a = Neg (v) b = Abs (u) x_grad = Add (a, b) }",
                 NULL, "y 32 by a");
    /* Only the shape is read. */
    expect_saved("(float[2,4] x) => (float loss, int64[2] x_grad) {"
                 "y = Tanh (x) loss = ReduceSum <keepdims = 0> (y) x_grad = Shape (y) }",
                 NULL, "");
    /* No backward pass. */
    expect_saved("(float[2,4] x) => (float loss) { y = Tanh (x) loss = ReduceSum <keepdims = 0> (y) }", NULL, "");
}

TEST(there_anyway) {
    /* A parameter, its transpose and views of both are there anyway; so is an input, but not its transpose, nor what is
     * computed of a parameter. */
    expect_saved(
        "(float[2,2] x) => (float loss, float[2,2] w_grad) <float[2,2] w = {1,2,3,4}, int64[2] shape = {2, 2}> {"
        "wt = Transpose (w) wr = Reshape (wt, shape) xt = Transpose (x) w2 = Mul (w, w) c = Constant "
        "<value_float = 2.0> ()"
        "a = MatMul (x, wr) b = MatMul (a, xt) d = MatMul (b, w2) e = Mul (d, c) loss = ReduceSum <keepdims = 0> (e)"
        "f = MatMul (wr, xt) h = MatMul (f, x) i = MatMul (h, w2) j = Mul (i, c) w_grad = MatMul (j, wt) }",
        NULL, "xt 16 by f; w2 16 by i");
    /* A transpose that moves only dims of size 1 copies nothing: the root is saved. */
    expect_saved(
        "(float[1,4] x) => (float loss, float[4,1] x_grad) {"
        "y = Tanh (x) t = Transpose (y) c = Cast <to = 1> (t) loss = ReduceSum <keepdims = 0> (c) x_grad = Neg (c) }",
        NULL, "y 16 by x_grad");
    expect_saved("(float[2,4] x) => (float loss, float[4,2] x_grad) {"
                 "y = Tanh (x) t = Transpose (y) loss = ReduceSum <keepdims = 0> (t) x_grad = Neg (t) }",
                 NULL, "t 32 by x_grad");
    /* Neither does an Expand that only puts dims of 1 in front; one that repeats does. */
    expect_saved(
        "(float[2,4] x) => (float loss, float[1,1,1] x_grad) <int64[3] one = {1, 2, 4}, int64[3] two = {2, 2, 4}> {"
        "y = Tanh (x) e = Expand (y, one) f = Expand (y, two) g = Mul (e, f) loss = ReduceSum <keepdims = 0> (g)"
        "h = Mul (e, f) x_grad = ReduceSum (h) }",
        NULL, "y 32 by h; f 64 by h");
    expect_saved("(float x) => (float loss, float[1,1] x_grad) <int64[2] one = {1, 1}> {" /* of no dims */
                 "y = Tanh (x) e = Expand (y, one) loss = ReduceSum <keepdims = 0> (e) x_grad = Neg (e) }",
                 NULL, "y 4 by x_grad");
}

TEST(passes) {
    /* What is made again in the backward pass is not saved; what it is made from is. */
    expect_saved("(float[2,4] x) => (float loss, float[2,4] x_grad) {"
                 "h = Tanh (x) y = Exp (h) loss = ReduceSum <keepdims = 0> (y)"
                 "again = Exp (h) x_grad = Neg (again) }",
                 NULL, "h 32 by again");
    /* Another output of the forward pass is no reader; a saved graph output counts. */
    expect_saved("(float[2,4] x) => (float loss, float[2,4] p, float[2,4] y, float[2,4] x_grad) {"
                 "h = Tanh (x) p = Softmax (h) y = Exp (h) loss = ReduceSum <keepdims = 0> (y) x_grad = Neg (y) }",
                 NULL, "y 32 by x_grad");
    /* Of several scalar outputs the first is the loss, unless it is named. */
    expect_saved(
        "(float[2,4] x) => (float other, float loss, float[2,4] x_grad) {"
        "h = Tanh (x) other = ReduceMax <keepdims = 0> (h) loss = ReduceSum <keepdims = 0> (h) x_grad = Neg (h) }",
        "loss", "h 32 by x_grad");
    /* A nested graph reads for the node that holds it. */
    expect_saved("(float[4] x, bool c) => (float loss, float[4] x_grad) {"
                 "h = Tanh (x) loss = ReduceSum <keepdims = 0> (h)"
                 "x_grad = If (c) <then_branch = t () => (float[4] a) { i = Identity (h) a = Neg (i) },"
                 " else_branch = e () => (float[4] b) { b = Abs (x) }> }",
                 NULL, "h 16 by x_grad");
    /* Results beyond the first, and each element type, count as they are. */
    expect_saved("(float[2,4] x, float r, bool t) => (float loss, float[2,4] x_grad) {"
                 "y, mask = Dropout (x, r, t) loss = ReduceSum <keepdims = 0> (y) x_grad = Where (mask, x, x) }",
                 NULL, "mask 8 by x_grad");
    expect_saved("(float[batch,4] x) => (float loss, float[batch,4] x_grad) {"
                 "y = Tanh (x) loss = ReduceSum <keepdims = 0> (y) x_grad = Neg (y) }",
                 NULL, "y 16*batch by x_grad");
}

TEST(users) {
    graph g;
    read_graph(&g,
               "(float[2] x) => (float loss, float[2] x_grad) { y = Tanh (x) loss = ReduceSum <keepdims = 0> (y)"
               "a = Mul (y, y) b = Neg (y) x_grad = Add (a, b) }",
               NULL);
    assert_int_equal(g.ledger.n_saved, 1);
    assert_int_equal(g.ledger.saved[0].n_users, 2); /* Mul reads it twice */
    free_graph(&g);
}

/* "name nodes bytes; ..." */
static void expect_layers(const char *text, const char *expected) {
    graph g;
    read_graph(&g, text, NULL);
    const char *got = "";
    for (size_t i = 0; i < g.ledger.n_layers; i++) {
        const tc_layer *l = &g.ledger.layers[i];
        got = tc_arena_printf(g.arena, "%s%s%s %u %s", got, i ? "; " : "", l->name, l->nodes,
                              tc_dim_text(g.arena, l->bytes));
    }
    assert_string_equal(got, expected);
    free_graph(&g);
}

#define WEIGHT "= {1,2,3,4}"
#define TAIL                                                                                                           \
    "loss = ReduceSum <keepdims = 0> (z) x_grad = Neg (e) e1 = Neg (h1) e2 = Neg (h2) e3 = Neg (h3) "                  \
    "all_grad = Sum (e1, e2, e3) } "

TEST(layers) {
    /* Parameters tell by their names; Tanh is of the layer it reads from; what follows the last parameter is the loss.
     */
    expect_layers(
        "(float[2,2] x) => (float loss, float[2,2] x_grad, float[2,2] all_grad) <float[2,2] \"m.emb.w\" " WEIGHT
        ", float[2,2] \"m.layer.0.w\" " WEIGHT ", float[2,2] \"m.layer.1.out.w\" " WEIGHT
        ", float[2,2] \"m.cls.w\" " WEIGHT "> {"
        "t = Transpose (\"m.layer.1.out.w\") e = MatMul (x, \"m.emb.w\") a = MatMul (e, \"m.layer.0.w\") h1 = "
        "Tanh (a) b = MatMul (h1, t) h2 = Tanh (b)"
        "r = Add (h2, h1) h3 = MatMul (r, \"m.cls.w\") z = Exp (h3) " TAIL,
        "embeddings 1 16; m.layer.0 2 16; m.layer.1 3 16; head 1 16; loss 2 0");
    /* Names say nothing: scopes of nodes do. */
    expect_layers("(float[2,2] x) => (float loss, float[2,2] x_grad, float[2,2] all_grad) <float[2,2] w1 " WEIGHT
                  ", float[2,2] w2 " WEIGHT "> {"
                  "[\"/m/emb/Exp\"] e = Exp (x) [\"/m/enc/layer.0/dense/MatMul\"] a = MatMul (e, w1) "
                  "[\"/m/enc/layer.0/act/Tanh\"] h1 = Tanh (a)"
                  "[\"/m/enc/layer.1/dense/MatMul\"] b = MatMul (h1, w2) [\"/m/enc/layer.1/Tanh\"] h2 = Tanh (b) "
                  "[\"/m/Identity\"] h3 = Abs (h2) z = Exp (h3) " TAIL,
                  "embeddings 1 16; m.enc.layer.0 2 16; m.enc.layer.1 2 16; loss 3 16");
    /* Stages of blocks: the blocks are the layers; what a stage has around them is the stage's. */
    expect_layers(
        "(float[2,2] x) => (float loss, float[2,2] x_grad, float[2,2] all_grad) <float[2,2] \"s.0.down.w\" " WEIGHT
        ", float[2,2] \"s.0.blocks.3.w\" " WEIGHT ", float[2,2] \"s.0.blocks.x\" " WEIGHT "> {"
        "e = Exp (x) a = MatMul (e, \"s.0.down.w\") h1 = Tanh (a) b = MatMul (h1, \"s.0.blocks.3.w\") h2 = Tanh "
        "(b) h3 = MatMul (h2, \"s.0.blocks.x\") z = Exp (h3) " TAIL,
        "s.0 4 48; s.0.blocks.3 2 16; loss 2 0");
    /* Nothing tells. */
    expect_layers(
        "(float[2,2] x) => (float loss, float[2,2] x_grad, float[2,2] all_grad) <float[2,2] w1 " WEIGHT
        ", float[2,2] w2 " WEIGHT "> {"
        "e = Exp (x) a = MatMul (e, w1) h1 = Tanh (a) b = MatMul (h1, w2) h2 = Tanh (b) h3 = Abs (h2) z = Exp "
        "(h3) " TAIL,
        "model 4 32; loss 4 32");
    /* A draw that reads nothing of the model is of the layer it is for; what two layers share stands before them. */
    expect_layers(
        "(float[2,2] x, float[2,2] u) => (float loss, float[2,2] x_grad) <float[2,2] \"m.emb.w\" " WEIGHT
        ", float[2,2] \"m.layer.0.w\" " WEIGHT ", float[2,2] \"m.layer.1.w\" " WEIGHT ", float[2,2] \"m.cls.w\" " WEIGHT
        "> {"
        "both = Neg (u) draw = Exp (u) e = MatMul (x, \"m.emb.w\") a = MatMul (e, \"m.layer.0.w\") a1 = Mul (a, "
        "draw) a2 = Mul (a1, both)"
        "b = MatMul (a2, \"m.layer.1.w\") b1 = Mul (b, both) c = MatMul (b1, \"m.cls.w\") loss = ReduceSum "
        "<keepdims = 0> (c)"
        "x_grad = Mul (both, draw) }",
        "embeddings 2 16; m.layer.0 4 16; m.layer.1 2 0; head 1 0; loss 1 0");
}

/* "name first-last bytes; ... | curve | peak" */
static void expect_lives(const char *text, const char *expected) {
    graph g;
    read_graph(&g, text, NULL);
    const char *got = "";
    for (size_t i = 0; i < g.live.n_lives; i++) {
        const tc_life *l = &g.live.lives[i];
        got = tc_arena_printf(g.arena, "%s%s%s %u-%u %s", got, i ? "; " : "", l->value->name, l->first, l->last,
                              tc_dim_text(g.arena, l->bytes));
    }
    for (uint32_t i = 0; i < g.live.n_nodes; i++)
        got = tc_arena_printf(g.arena, "%s%s%llu", got, i ? " " : " | ", (unsigned long long)g.live.live[i]);
    got = tc_arena_printf(g.arena, "%s | %u %s %s", got, g.live.peak, tc_dim_text(g.arena, g.live.peak_bytes),
                          g.live.exact ? "exact" : "sampled");
    assert_string_equal(got, expected);
    free_graph(&g);
}

TEST(lives) {
    /* Views lengthen their root's life and are none themselves; inputs, constants and initializers are not counted;
     * outputs stay. */
    expect_lives(
        "(float[4] x) => (float[4] o, float[4] p) <float[4] w " WEIGHT ", int64[1] n = {4}> {"
        "a = Add (x, w) v = Reshape (a, n) b = Neg (x) c = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> () o "
        "= Mul (b, c) p = Add (v, b) }",
        "a 0-5 16; b 2-5 16; o 4-6 16; p 5-6 16 | 16 16 32 32 48 64 | 5 64 exact");
    /* A result nobody reads lives at its node, one beyond the first not at all; reading the shape lengthens no life. */
    expect_lives("(float[4] x, float r, bool t) => (int64[1] s) {"
                 "d = Neg (x) e = Exp (x) y, mask = Dropout (e, r, t) f = Abs (x) s = Shape (e) }",
                 "d 0-0 16; e 1-2 16; y 2-2 16; f 3-3 16; s 4-5 8 | 16 16 32 16 8 | 2 32 exact");
    /* Nested graphs read at their node. */
    expect_lives(
        "(float[4] x, bool c) => (float[4] o) {"
        "a = Neg (x) b = Abs (x) o = If (c) <then_branch = t () => (float[4] i) { j = Identity (a) i = Exp (j) },"
        " else_branch = e () => (float[4] k) { k = Exp (x) }> }",
        "a 0-2 16; b 1-1 16; o 2-3 16 | 16 32 32 | 1 32 exact");
    /* Symbols: looked for at one size, told as a formula. */
    expect_lives("(float[n] x, float[2] y) => (float[n] o) { a = Neg (x) b = Abs (y) o = Exp (a) }",
                 "a 0-2 4*n; b 1-1 8; o 2-3 4*n | 256 264 512 | 2 8*n sampled");
    expect_lives("(float[4] x) => (float[4] o) { o = Identity (x) }", " | 0 | 0 0 exact");
}

TEST(long_chains) {
    enum { LENGTH = 100000 };
    tc_model *model = tc_model_create();
    tc_arena *arena = tc_arena_create();
    const tc_type *type = tc_type_tensor_static(model, TC_FLOAT, 1, (int64_t[]){4});
    tc_value *value = tc_value_create(model->graph, "x", type);
    tc_graph_add_input(model->graph, value);
    static const char *const ops[] = {"Identity", "Transpose"};
    for (int i = 0; i < LENGTH; i++) {
        tc_node *node = tc_node_create(model->graph, "", ops[i % 2], 1, 1);
        tc_node_set_input(node, 0, value);
        value = tc_node_add_output(node, 0, i == 0 ? "w" : NULL, type);
        tc_node_append(node);
    }
    tc_node *sum = tc_node_create(model->graph, "", "ReduceSum", 1, 1),
            *back = tc_node_create(model->graph, "", "Neg", 1, 1);
    tc_node_set_input(sum, 0, value);
    tc_node_set_input(back, 0, value);
    tc_graph_add_output(model->graph,
                        tc_node_add_output(sum, 0, "loss", tc_type_tensor_static(model, TC_FLOAT, 0, NULL)));
    tc_graph_add_output(model->graph, tc_node_add_output(back, 0, "x_grad", type));
    tc_node_append(sum);
    tc_node_append(back);
    tc_ledger ledger;
    tc_liveness live;
    mark_gradients(model->graph);
    tc_ledger_make(arena, model->graph, NULL, &ledger);
    tc_liveness_make(arena, model->graph, &live);
    assert_int_equal(ledger.n_saved, 0); /* all of it is the input */
    assert_int_equal(live.n_nodes, LENGTH + 2);
    tc_arena_destroy(arena);
    tc_model_destroy(model);
}
