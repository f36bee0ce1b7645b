/* test_ir.c: graphs are built and changed as ir.h says: use lists, order, names, replacement. */
#include "test/unit/cases.h"
#include "compiler/ir/ir.h"
#include <math.h>
#include <string.h>

/* a = X(in); b = Y(a, a); output b */
static tc_model *two_nodes(tc_node **x, tc_node **y) {
    tc_model *model = tc_model_create();
    tc_graph *g = model->graph;
    tc_value *in = tc_value_create(g, "in", NULL);
    tc_graph_add_input(g, in);
    *x = tc_node_create(g, "", "X", 1, 1);
    tc_node_append(*x);
    tc_node_set_input(*x, 0, in);
    tc_value *a = tc_node_add_output(*x, 0, "a", NULL);
    *y = tc_node_create(g, "", "Y", 2, 1);
    tc_node_append(*y);
    tc_node_set_input(*y, 0, a);
    tc_node_set_input(*y, 1, a);
    tc_graph_add_output(g, tc_node_add_output(*y, 0, "b", NULL));
    return model;
}

TEST(uses_are_exact) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    tc_value *a = x->outputs[0];
    assert_int_equal(tc_value_use_count(a), 2);
    tc_node_set_input(y, 1, model->graph->inputs[0]);
    assert_int_equal(tc_value_use_count(a), 1);
    tc_node_resize_inputs(y, 5);
    assert_int_equal(tc_value_use_count(a), 1);
    assert_ptr_equal(a->uses, &y->inputs[0]);
    tc_node_resize_inputs(y, 0);
    assert_false(tc_value_is_used(a));
    tc_model_destroy(model);
}

TEST(replace_moves_uses_and_outputs) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    tc_value *in = model->graph->inputs[0], *b = y->outputs[0];
    tc_value_replace(x->outputs[0], in);
    assert_int_equal(tc_value_use_count(in), 3);
    tc_value_replace(b, in);
    assert_ptr_equal(model->graph->outputs[0], in);
    tc_node_erase(y);
    tc_node_erase(x);
    assert_null(model->graph->first);
    assert_null(tc_graph_find(model->graph, "a"));
    assert_int_equal(tc_value_use_count(in), 1);
    tc_model_destroy(model);
}

TEST(order_survives_many_insertions) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    for (int i = 0; i < 1000; i++) {
        tc_node *node = tc_node_create(model->graph, "", "Z", 0, 0);
        tc_node_insert_after(node, x);
        assert_true(tc_node_before(x, node));
        assert_true(tc_node_before(node, y));
    }
    for (tc_node *n = model->graph->first; n->next; n = n->next)
        assert_true(n->order < n->next->order);
    assert_int_equal(model->graph->n_nodes, 1002);
    tc_model_destroy(model);
}

/* Nodes in front of one node, behind one node and at both ends, in turn: the worst for numbers between numbers. */
TEST(order_is_right_and_cheap_anywhere) {
    enum { N = 60000 };
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    tc_graph *g = model->graph;
    for (int i = 0; i < N; i++) {
        tc_node *node = tc_node_create(g, "", "Z", 0, 0);
        switch (i % 4) {
        case 0: tc_node_insert_before(node, y); break;
        case 1: tc_node_insert_after(node, x); break;
        case 2: tc_node_insert_before(node, g->first); break;
        default: tc_node_append(node); break;
        }
    }
    for (int i = 0; i < N; i++) {
        tc_node *node = tc_node_create(g, "", "Z", 0, 0);
        tc_node_insert_before(node, y);
    }
    uint32_t n = 1;
    for (tc_node *node = g->first; node->next; node = node->next, n++) {
        assert_true(tc_node_before(node, node->next));
        assert_ptr_equal(node->next->prev, node);
    }
    assert_int_equal(n, g->n_nodes);
    tc_model_destroy(model);
}

TEST(moved_nodes_keep_the_list) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    tc_node *z = tc_node_create(model->graph, "", "Z", 0, 0);
    tc_node_append(z);
    tc_node_move_before(z, z);
    tc_node_move_before(z, x);
    assert_ptr_equal(model->graph->first, z);
    assert_ptr_equal(model->graph->last, y);
    assert_true(tc_node_before(z, x) && tc_node_before(x, y));
    assert_int_equal(model->graph->n_nodes, 3);
    TC_FOR_NODES_SAFE(node, model->graph)
        if (node == z)
            tc_node_erase(node);
    assert_ptr_equal(model->graph->first, x);
    assert_null(x->prev);
    tc_model_destroy(model);
}

TEST(inputs_grow_and_shrink) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    tc_value *in = model->graph->inputs[0];
    tc_node *sum = tc_node_create(model->graph, "", "Sum", 0, 1);
    tc_node_append(sum);
    size_t before = tc_arena_bytes(model->arena);
    for (uint32_t i = 0; i < 20000; i++)
        tc_node_set_input(sum, i, i % 2 ? NULL : in);
    assert_true(tc_arena_bytes(model->arena) - before < 8 << 20);
    assert_int_equal(tc_value_use_count(in), 10001);
    tc_node_resize_inputs(sum, 5);
    assert_int_equal(tc_value_use_count(in), 4);
    tc_node_resize_inputs(sum, 8);
    assert_null(tc_input(sum, 6));
    assert_int_equal(sum->n_inputs, 8);
    uint32_t seen = 0;
    TC_FOR_USES(use, in) {
        assert_ptr_equal(use->user->inputs[use->index].value, in);
        assert_ptr_equal(&use->user->inputs[use->index], use);
        seen |= use->user == sum ? 1U << use->index : 0;
    }
    assert_int_equal(seen, 1 | 4 | 16);
    tc_model_destroy(model);
}

TEST(outputs_and_initializers) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    tc_graph *g = model->graph;
    tc_value *a = x->outputs[0], *b = y->outputs[0];
    tc_graph_add_output(g, b);
    tc_graph_set_output(g, 0, a);
    assert_int_equal(a->n_graph_outputs, 1);
    assert_int_equal(b->n_graph_outputs, 1);
    tc_value_replace(b, a);
    assert_int_equal(a->n_graph_outputs, 2);
    assert_int_equal(tc_value_use_count(a), 4);
    assert_false(tc_value_is_used(b));
    size_t before = tc_arena_bytes(model->arena);
    for (int i = 0; i < 5000; i++) { /* also around a full array nothing is lost */
        tc_value *w = tc_constant(g, "w", tc_tensor_scalar_int(model, i));
        tc_value *v = tc_constant(g, "w", tc_tensor_scalar_int(model, i));
        assert_string_equal(w->name, "w");
        tc_graph_remove_initializer(g, w);
        tc_graph_remove_initializer(g, v);
        assert_null(tc_graph_find(g, "w"));
    }
    assert_int_equal(g->n_initializers, 0);
    assert_true(tc_arena_bytes(model->arena) - before < 16 << 20);
    tc_value *taken = tc_node_take_output(x, 0);
    assert_ptr_equal(taken, a);
    assert_null(a->producer);
    tc_node_set_output(y, 1, a);
    assert_ptr_equal(a->producer, y);
    assert_int_equal(a->out_index, 1);
    tc_value_rename(a, "a");
    tc_value_rename(a, "c");
    assert_null(tc_graph_find(g, "a"));
    assert_ptr_equal(tc_graph_find(g, "c"), a);
    tc_model_destroy(model);
}

TEST(many_functions) {
    tc_model *model = tc_model_create();
    for (int i = 0; i < 3000; i++) {
        tc_function *f = TC_NEW(model->arena, tc_function);
        *f = (tc_function){
            .domain = i % 2 ? "" : "ai.onnx", .name = tc_arena_printf(model->arena, "f%d", i), .overload = ""};
        tc_model_add_function(model, f);
    }
    assert_true(tc_arena_bytes(model->arena) < 4 << 20);
    assert_ptr_equal(tc_model_function(model, "", "f2", ""), model->functions[2]);
    assert_ptr_equal(tc_model_function(model, "ai.onnx", "f2999", ""), model->functions[2999]);
    assert_null(tc_model_function(model, "", "f2", "o"));
    tc_model_destroy(model);
}

/* x = X(in) with a nested graph that uses `in` and gives it out too. */
static tc_graph *nest(tc_node *x) {
    tc_model *model = x->graph->model;
    tc_graph *inner = tc_graph_create(model, NULL, "inner");
    tc_node *node = tc_node_create(inner, "", "Z", 1, 1);
    tc_node_append(node);
    tc_node_set_input(node, 0, x->graph->inputs[0]);
    tc_graph_add_output(inner, tc_node_add_output(node, 0, "v", NULL));
    tc_graph_add_output(inner, x->graph->inputs[0]);
    tc_attr_set_graph(x, "body", inner);
    return inner;
}

TEST(nested_graphs_are_walked_in_order) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    assert_false(tc_has_nested(x));
    tc_attr_set_int(x, "axis", 1);
    tc_graph *one = nest(x), *many[2] = {nest(y), tc_graph_create(model, model->graph, "other")};
    tc_attr attrs[] = {{.name = "one", .kind = TC_ATTR_GRAPH, .count = 1, .g = one},
                       {.name = "none", .kind = TC_ATTR_GRAPHS, .count = 0},
                       {.name = "given", .kind = TC_ATTR_GRAPH, .count = 1, .ref = "body"},
                       {.name = "many", .kind = TC_ATTR_GRAPHS, .count = 2, .graphs = many}};
    tc_node node = {.attrs = attrs, .n_attrs = TC_COUNT(attrs)};
    const tc_graph *expected[] = {one, many[0], many[1]};
    size_t n = 0;
    TC_FOR_NESTED(nested, &node)
        assert_ptr_equal(nested, expected[n++]);
    assert_int_equal(n, 3);
    TC_FOR_NESTED(nested, &node) {
        if (nested == many[0])
            break;
        n++;
    }
    assert_int_equal(n, 4);
    assert_true(tc_has_nested(x));
    tc_model_destroy(model);
}

TEST(nested_graphs_let_go) {
    for (int how = 0; how < 4; how++) {
        tc_node *x, *y;
        tc_model *model = two_nodes(&x, &y);
        tc_value *in = model->graph->inputs[0];
        tc_graph *inner = nest(x);
        assert_ptr_equal(inner->parent, model->graph);
        assert_int_equal(tc_value_use_count(in), 3); /* x, the nested node, the nested output */
        tc_attr_set_graph(x, "body", inner);
        assert_int_equal(tc_value_use_count(in), 3);
        if (how == 0)
            tc_attr_remove(x, "body");
        if (how == 1)
            tc_attr_set_int(x, "body", 1);
        if (how == 2)
            nest(x);
        if (how == 3) {
            tc_value_replace(x->outputs[0], in);
            tc_node_erase(x);
        }
        assert_int_equal(tc_value_use_count(in), how == 2 ? 3 : how == 3 ? 2 : 1);
        tc_model_destroy(model);
    }
}

TEST(replacing_reaches_nested_graphs) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    tc_value *in = model->graph->inputs[0];
    tc_graph *inner = nest(x);
    tc_value *other = tc_value_create(model->graph, "other", NULL);
    tc_graph_add_input(model->graph, other);
    tc_value_replace(in, other);
    assert_false(tc_value_is_used(in));
    assert_ptr_equal(tc_input(inner->first, 0), other);
    assert_ptr_equal(inner->outputs[1], other);
    assert_int_equal(tc_value_use_count(other), 3);
    tc_attr_copy(y, tc_attr_find(x, "body"));
    tc_attr_copy(y, tc_attr_find(y, "body"));
    assert_int_equal(tc_value_use_count(other), 5);
    assert_ptr_not_equal(y->attrs[0].g, inner);
    assert_int_equal(y->attrs[0].g->n_nodes, 1);
    tc_model_destroy(model);
}

/* A name that a nested graph has would be shadowed there: no value around it may take it. */
TEST(names_of_nested_graphs_are_taken) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    nest(x);
    assert_string_equal(tc_value_create(model->graph, "v", NULL)->name, "v_1");
    tc_graph *inner = tc_graph_create(model, model->graph, "two");
    tc_value *w = tc_value_create(inner, "w", NULL);
    tc_value_rename(w, "z");
    assert_string_equal(tc_graph_unique_name(model->graph, "z"), "z_1");
    tc_model_destroy(model);
}

TEST(names_are_unique_through_nesting) {
    tc_model *model = tc_model_create();
    tc_graph *inner = tc_graph_create(model, model->graph, "inner");
    tc_value_create(model->graph, "v", NULL);
    assert_string_equal(tc_value_create(inner, "v", NULL)->name, "v_1");
    for (int i = 0; i < 100; i++)
        tc_value_create(model->graph, "v", NULL);
    assert_non_null(tc_graph_find(inner, "v"));
    tc_model_destroy(model);
}

TEST(attributes) {
    tc_node *x, *y;
    tc_model *model = two_nodes(&x, &y);
    tc_attr_set_int(x, "axis", -1);
    tc_attr_set_string(x, "mode", "tanh");
    tc_attr_set_int(x, "axis", 2);
    assert_int_equal(x->n_attrs, 2);
    assert_int_equal(tc_attr_int(x, "axis", 7), 2);
    assert_int_equal(tc_attr_int(x, "mode", 7), 7);
    assert_string_equal(tc_attr_string(x, "mode", ""), "tanh");
    tc_attr_remove(x, "axis");
    assert_int_equal(tc_attr_int(x, "axis", 7), 7);
    tc_model_destroy(model);
}

TEST(shape_products_are_checked) {
    uint64_t n;
    assert_true(tc_shape_count(0, NULL, &n));
    assert_int_equal(n, 1);
    assert_false(tc_shape_count(2, (int64_t[]){INT64_C(1) << 32, INT64_C(1) << 32}, &n));
    assert_false(tc_shape_count(2, (int64_t[]){-4, 4}, &n));
    assert_false(tc_shape_count(3, (int64_t[]){0, INT64_C(1) << 40, INT64_C(1) << 40}, &n));
}

/* Expected bits from IEEE 754 and from the definition of bfloat16. */
TEST(scalars_round) {
    static const struct {
        tc_dtype dtype;
        double value;
        uint16_t bits;
    } cases[] = {
        {TC_FLOAT16, 1.0, 0x3C00},
        {TC_FLOAT16, -2.0, 0xC000},
        {TC_FLOAT16, 65504.0, 0x7BFF},
        {TC_FLOAT16, 65520.0, 0x7C00},
        {TC_FLOAT16, 5.960464477539063e-08, 0x0001},
        {TC_FLOAT16, 6.103515625e-05, 0x0400},
        {TC_FLOAT16, 2049.0, 0x6800},
        {TC_BFLOAT16, 1.0, 0x3F80},
        {TC_BFLOAT16, 3.140625, 0x4049},
        {TC_FLOAT16, 0.0, 0x0000},
        {TC_FLOAT16, -0.0, 0x8000},
        {TC_BFLOAT16, -0.0, 0x8000},
        {TC_FLOAT16, 6.1e-5, 0x03FF},
        {TC_FLOAT16, 2.9e-08, 0x0000},
        {TC_BFLOAT16, 9.2e-41, 0x0001},
        {TC_BFLOAT16, 3.4e38, 0x7F80},
        {TC_BFLOAT16, -3.39e38, 0xFF7F},
        {TC_BFLOAT16, 1e300, 0x7F80},
        {TC_BFLOAT16, 1.00390625 + 0x1p-40, 0x3F81}, /* not by way of float, where it is a tie */
        {TC_BFLOAT16, (double)NAN, 0x7FC0},
        {TC_FLOAT16, (double)-INFINITY, 0xFC00},
    };
    tc_model *model = tc_model_create();
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        tc_tensor *t = tc_tensor_scalar(model, cases[i].dtype, cases[i].value);
        assert_int_equal(*(const uint16_t *)t->data, cases[i].bits);
    }
    assert_true(tc_tensor_get(tc_tensor_scalar(model, TC_FLOAT16, 0.333251953125), 0) == 0.333251953125);
    tc_model_destroy(model);
}
