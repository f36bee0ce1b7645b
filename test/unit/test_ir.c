/* test_ir.c: graphs are built and changed as ir.h says: use lists, order, names, replacement. */
#include "compiler/ir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
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

static void test_uses_are_exact(void **state) {
    (void)state;
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

static void test_replace_moves_uses_and_outputs(void **state) {
    (void)state;
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

static void test_order_survives_many_insertions(void **state) {
    (void)state;
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

static void test_names_are_unique_through_nesting(void **state) {
    (void)state;
    tc_model *model = tc_model_create();
    tc_graph *inner = tc_graph_create(model, model->graph, "inner");
    tc_value_create(model->graph, "v", NULL);
    assert_string_equal(tc_value_create(inner, "v", NULL)->name, "v_1");
    for (int i = 0; i < 100; i++)
        tc_value_create(model->graph, "v", NULL);
    assert_non_null(tc_graph_find(inner, "v"));
    tc_model_destroy(model);
}

static void test_attributes(void **state) {
    (void)state;
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

static void test_shape_products_are_checked(void **state) {
    (void)state;
    uint64_t n;
    assert_true(tc_shape_count(0, NULL, &n));
    assert_int_equal(n, 1);
    assert_false(tc_shape_count(2, (int64_t[]){INT64_C(1) << 32, INT64_C(1) << 32}, &n));
    assert_false(tc_shape_count(2, (int64_t[]){-4, 4}, &n));
    assert_false(tc_shape_count(3, (int64_t[]){0, INT64_C(1) << 40, INT64_C(1) << 40}, &n));
}

/* Expected bits from IEEE 754 and from the definition of bfloat16. */
static void test_scalars_round(void **state) {
    (void)state;
    static const struct {
        tc_dtype dtype;
        double value;
        uint16_t bits;
    } cases[] = {
        {TC_FLOAT16, 1.0, 0x3C00},      {TC_FLOAT16, -2.0, 0xC000},      {TC_FLOAT16, 65504.0, 0x7BFF},
        {TC_FLOAT16, 65520.0, 0x7C00},  {TC_FLOAT16, 5.960464477539063e-08, 0x0001}, {TC_FLOAT16, 6.103515625e-05, 0x0400},
        {TC_FLOAT16, 2049.0, 0x6800},   {TC_BFLOAT16, 1.0, 0x3F80},      {TC_BFLOAT16, 3.140625, 0x4049},
    };
    tc_model *model = tc_model_create();
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        tc_tensor *t = tc_tensor_scalar(model, cases[i].dtype, cases[i].value);
        assert_int_equal(*(const uint16_t *)t->data, cases[i].bits);
    }
    assert_true(tc_tensor_get(tc_tensor_scalar(model, TC_FLOAT16, 0.333251953125), 0) == 0.333251953125);
    tc_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uses_are_exact),
        cmocka_unit_test(test_replace_moves_uses_and_outputs),
        cmocka_unit_test(test_order_survives_many_insertions),
        cmocka_unit_test(test_names_are_unique_through_nesting),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_shape_products_are_checked),
        cmocka_unit_test(test_scalars_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
