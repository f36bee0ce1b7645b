/* test_onnx_write.c: models made or changed in memory, written and read again: what passes did must arrive, and what
 * they did not touch must stay. Unchanged models are compared with the onnx package's view in test/io/round_trip.py. */
#include "test/unit/cases.h"
#include "compiler/onnx/onnx.h"
#include "compiler/ir/verify.h"
#include <stdlib.h>
#include <string.h>
// clang-format off
// clang-format on

typedef struct written {
    tc_ctx ctx;
    tc_model *model;
    char *bytes;
    size_t size;
} written;

/* The model after a trip through its bytes. */
static written trip(const tc_model *model) {
    written w = {0};
    tc_ctx_init(&w.ctx, "test");
    FILE *stream = open_memstream(&w.bytes, &w.size);
    assert_int_equal(tc_write_onnx_stream(&w.ctx, model, stream), TC_OK);
    fclose(stream);
    assert_int_equal(tc_read_onnx(&w.ctx, w.bytes, w.size, NULL, &w.model), TC_OK);
    assert_int_equal(tc_verify(&w.ctx, w.model), TC_OK);
    return w;
}

static void drop(written *w) {
    tc_model_destroy(w->model);
    tc_ctx_fini(&w->ctx);
    free(w->bytes);
}

static const tc_type *floats(tc_model *model) {
    tc_dim dims[] = {tc_dim_symbol(model->dims, "n"), tc_dim_const(4), tc_dim_unknown()};
    return tc_type_tensor(model, TC_FLOAT, 3, dims);
}

/* Y = Clip(Add(X, W), , Max) */
static tc_model *make_model(void) {
    tc_model *model = tc_model_create();
    tc_graph *g = model->graph;
    tc_model_set_opset(model, "", 21);
    tc_value *x = tc_value_create(g, "X", floats(model)),
             *w = tc_constant(g, "W", tc_tensor_scalar(model, TC_FLOAT, 2.5));
    tc_value *max = tc_constant(g, "Max", tc_tensor_scalar(model, TC_FLOAT16, 1));
    tc_graph_add_input(g, x);
    tc_node *add = tc_node_create(g, "", "Add", 2, 1), *clip = tc_node_create(g, "", "Clip", 3, 1);
    tc_node_set_input(add, 0, x);
    tc_node_set_input(add, 1, w);
    tc_node_append(add);
    tc_node_set_input(clip, 0, tc_node_add_output(add, 0, "sum", floats(model)));
    tc_node_set_input(clip, 2, max);
    tc_attr_set_ints(clip, "odd", (const int64_t[]){3, -1}, 2);
    tc_attr_set_string(clip, "text", "words");
    tc_attr_set_float(clip, "number", 0.5f);
    tc_attr_set_tensor(clip, "constant", tc_tensor_ints(model, (const int64_t[]){7, 8, 9}, 3));
    tc_node_append(clip);
    tc_graph_add_output(g, tc_node_add_output(clip, 0, "Y", floats(model)));
    return model;
}

TEST(new_model_arrives) {
    tc_model *model = make_model();
    written w = trip(model);
    const tc_graph *g = w.model->graph;
    assert_int_equal(g->n_nodes, 2);
    assert_int_equal(g->n_inputs, 1);
    assert_int_equal(g->n_initializers, 2);
    assert_string_equal(tc_type_text(w.ctx.arena, g->inputs[0]->type), "float[n,4,?]");
    assert_string_equal(tc_type_text(w.ctx.arena, g->outputs[0]->type), "float[n,4,?]");
    assert_true(tc_tensor_get(g->initializers[0]->init, 0) == 2.5);
    assert_int_equal(g->initializers[1]->init->dtype, TC_FLOAT16);
    const tc_node *clip = g->last;
    assert_int_equal(clip->n_inputs, 3);
    assert_null(tc_input(clip, 1));
    assert_string_equal(tc_input(clip, 2)->name, "Max");
    size_t n = 0;
    assert_int_equal(tc_attr_ints(clip, "odd", &n)[1], -1);
    assert_int_equal(n, 2);
    assert_string_equal(tc_attr_string(clip, "text", ""), "words");
    assert_true(tc_attr_float(clip, "number", 0) == 0.5f);
    assert_int_equal(tc_tensor_get_int(tc_attr_find(clip, "constant")->t, 2), 9);
    drop(&w);
    tc_model_destroy(model);
}

/* Typed results of a new model have value_info; those of graph outputs and unknown types have none. */
TEST(types_are_listed) {
    tc_model *model = make_model();
    written w = trip(model);
    assert_int_equal(w.model->graph->n_listed, 1);
    assert_string_equal(w.model->graph->listed[0]->name, "sum");
    drop(&w);
    tc_model_destroy(model);
}

TEST(changes_arrive) {
    tc_model *model = make_model();
    written first = trip(model);
    tc_graph *g = first.model->graph;
    tc_value_rename(g->inputs[0], "renamed");
    g->inputs[0]->type = tc_type_tensor_static(first.model, TC_DOUBLE, 1, (const int64_t[]){5});
    tc_value_rename(g->initializers[0], "weight");
    tc_node_set_op(g->last, "", "Clip2");
    tc_attr_set_string(g->last, "text", "other");
    tc_attr_remove(g->last, "odd");
    tc_node *relu = tc_node_create(g, "ai.tempo", "New", 1, 1);
    tc_model_set_opset(first.model, "ai.tempo", 1);
    tc_node_set_input(relu, 0, g->outputs[0]);
    tc_node_append(relu);
    tc_graph_add_output(g, tc_node_add_output(relu, 0, "Z", NULL));
    written second = trip(first.model);
    const tc_graph *h = second.model->graph;
    assert_string_equal(h->inputs[0]->name, "renamed");
    assert_string_equal(tc_type_text(second.ctx.arena, h->inputs[0]->type), "double[5]");
    assert_string_equal(h->initializers[0]->name, "weight");
    const tc_node *clip = h->last->prev;
    assert_string_equal(clip->op_type, "Clip2");
    assert_string_equal(tc_attr_string(clip, "text", ""), "other");
    assert_null(tc_attr_find(clip, "odd"));
    assert_non_null(tc_attr_find(clip, "number"));
    assert_string_equal(h->last->domain, "ai.tempo");
    assert_int_equal(tc_model_opset(second.model, "ai.tempo"), 1);
    assert_int_equal(h->n_outputs, 2);
    assert_null(h->outputs[1]->type);
    drop(&second);
    drop(&first);
    tc_model_destroy(model);
}

/* An erased node takes its result's value_info along. */
TEST(erased_nodes_go) {
    tc_model *model = make_model();
    written first = trip(model);
    tc_graph *g = first.model->graph;
    tc_node *add = g->first;
    tc_node_set_input(g->last, 0, g->inputs[0]);
    tc_node_erase(add);
    written second = trip(first.model);
    assert_int_equal(second.model->graph->n_nodes, 1);
    assert_int_equal(second.model->graph->n_listed, 0);
    drop(&second);
    drop(&first);
    tc_model_destroy(model);
}

TEST(functions_and_strings_arrive) {
    tc_model *model = make_model();
    tc_function *f = TC_NEW(model->arena, tc_function);
    f->domain = "local";
    f->name = "f";
    f->overload = "";
    f->body = tc_graph_create(model, NULL, "f");
    tc_opset opset = {"", 21};
    f->opsets = &opset;
    f->n_opsets = 1;
    tc_value *a = tc_value_create(f->body, "a", NULL);
    tc_graph_add_input(f->body, a);
    tc_node *relu = tc_node_create(f->body, "", "Relu", 1, 1);
    tc_node_set_input(relu, 0, a);
    tc_node_append(relu);
    tc_graph_add_output(f->body, tc_node_add_output(relu, 0, "b", NULL));
    tc_model_add_function(model, f);
    tc_tensor *strings = TC_NEW(model->arena, tc_tensor);
    static const int64_t two = 2;
    static const tc_bytes words[] = {{"a", 1}, {"", 0}};
    *strings = (tc_tensor){.dtype = TC_STRING, .rank = 1, .dims = &two, .count = 2, .strings = words};
    tc_constant(model->graph, "words", strings);
    written w = trip(model);
    const tc_function *g = tc_model_function(w.model, "local", "f", "");
    assert_non_null(g);
    assert_int_equal(g->body->n_nodes, 1);
    assert_string_equal(g->body->outputs[0]->name, "b");
    const tc_tensor *read = w.model->graph->initializers[2]->init;
    assert_int_equal(read->count, 2);
    assert_int_equal(read->strings[0].size, 1);
    assert_int_equal(read->strings[1].size, 0);
    drop(&w);
    tc_model_destroy(model);
}

/* --- the verifier ----------------------------------------------------------------------------- */

static void expect_violation(const tc_model *model, const char *words) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    assert_int_equal(tc_verify(&ctx, model), TC_BAD_INPUT);
    assert_true(ctx.n_diags > 0);
    assert_non_null(strstr(ctx.diags[0].message, words));
    tc_ctx_fini(&ctx);
}

TEST(verifier_sees_breaks) {
    tc_model *model = make_model();
    tc_graph *g = model->graph;
    tc_value *sum = g->first->outputs[0], *x = g->inputs[0];
    tc_node_move_before(g->last, g->first);
    expect_violation(model, "not defined before");
    tc_node_move_before(g->last, g->first);
    tc_use *uses = sum->uses;
    sum->uses = NULL;
    expect_violation(model, "use list");
    sum->uses = uses;
    sum->producer = NULL;
    expect_violation(model, "producer");
    sum->producer = g->first;
    g->n_nodes = 7;
    expect_violation(model, "counts 7");
    g->n_nodes = 2;
    g->outputs[0]->n_graph_outputs = 3;
    expect_violation(model, "counts 3");
    g->outputs[0]->n_graph_outputs = 1;
    x->name = "elsewhere";
    expect_violation(model, "does not lead");
    x->name = "X";
    g->first->domain = "com.evil";
    g->first->op = NULL;
    expect_violation(model, "com.evil");
    tc_model_destroy(model);
}
