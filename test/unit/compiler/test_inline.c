/* test_inline.c: copies of nodes and graphs, and calls replaced by bodies. Function bodies are built by hand here;
 * test_text.c and test/text read them as text. */
#include "test/unit/cases.h"
#include "compiler/ir/ir.h"
#include <string.h>

static tc_node *add(tc_graph *graph, const char *op, tc_value *a, tc_value *b, const char *out) {
    tc_node *node = tc_node_create(graph, "", op, b ? 2 : 1, 1);
    tc_node_set_input(node, 0, a);
    if (b)
        tc_node_set_input(node, 1, b);
    tc_node_add_output(node, 0, out, NULL);
    tc_node_append(node);
    return node;
}

static void add_ref(tc_node *node, const char *name, tc_attr_kind kind, const char *ref) {
    tc_attr_set_int(node, name, 0);
    tc_attr *attr = tc_attr_find(node, name);
    attr->kind = kind;
    attr->ref = ref;
}

static tc_function *function(tc_model *model, const char *name, uint32_t n_inputs) {
    static const char *const inputs[] = {"a", "b", "c"};
    tc_function *f = TC_NEW(model->arena, tc_function);
    *f = (tc_function){.domain = "my", .name = name, .overload = ""};
    f->body = tc_graph_create(model, NULL, name);
    for (uint32_t i = 0; i < n_inputs; i++)
        tc_graph_add_input(f->body, tc_value_create(f->body, inputs[i], NULL));
    tc_model_add_function(model, f);
    return f;
}

/* my.F (a, b): t = Neg <axis = @axis, alpha = @alpha> (a); u = Add (t, b); outputs t, u, a; alpha is 0.5 where not
 * given */
static tc_function *function_f(tc_model *model) {
    tc_function *f = function(model, "F", 2);
    tc_node *neg = add(f->body, "Neg", f->body->inputs[0], NULL, "t");
    neg->ordinal = 0;
    add_ref(neg, "axis", TC_ATTR_INT, "axis");
    add_ref(neg, "alpha", TC_ATTR_FLOAT, "alpha");
    tc_node *sum = add(f->body, "Add", neg->outputs[0], f->body->inputs[1], "u");
    sum->ordinal = 1;
    tc_graph_add_output(f->body, neg->outputs[0]);
    tc_graph_add_output(f->body, sum->outputs[0]);
    tc_graph_add_output(f->body, f->body->inputs[0]);
    f->defaults = TC_NEW(model->arena, tc_attr);
    f->defaults[0] = (tc_attr){.name = "alpha", .kind = TC_ATTR_FLOAT, .count = 1, .f = 0.5F};
    f->n_defaults = 1;
    return f;
}

typedef struct fixture {
    tc_ctx ctx;
    tc_model *model;
    tc_graph *graph;
    tc_value *x;
} fixture;

static void begin(fixture *f) {
    tc_ctx_init(&f->ctx, "test");
    f->model = tc_model_create();
    f->graph = f->model->graph;
    f->x = tc_value_create(f->graph, "x", NULL);
    tc_graph_add_input(f->graph, f->x);
}

static void end(fixture *f) {
    tc_model_destroy(f->model);
    tc_ctx_fini(&f->ctx);
}

static tc_node *call(fixture *f, const char *op, const char *name, uint32_t n_inputs, uint32_t n_outputs) {
    tc_node *node = tc_node_create(f->graph, "my", op, n_inputs, n_outputs);
    node->name = name;
    node->ordinal = f->graph->n_nodes;
    tc_node_append(node);
    return node;
}

static tc_node *call_f(fixture *f, const char *name, tc_value *a, tc_value *b) {
    tc_node *node = call(f, "F", name, 2, 3);
    tc_node_set_input(node, 0, a);
    tc_node_set_input(node, 1, b);
    return node;
}

/* A call with one input and one output, which is the graph's. */
static tc_node *call_unary(fixture *f, const char *op) {
    tc_node *node = call(f, op, "n", 1, 1);
    tc_node_set_input(node, 0, f->x);
    tc_graph_add_output(f->graph, tc_node_add_output(node, 0, "y", NULL));
    return node;
}

TEST(call_becomes_body) {
    fixture f;
    begin(&f);
    tc_function *fn = function_f(f.model);
    tc_node *node = call_f(&f, "here", f.x, f.x);
    tc_attr_set_int(node, "axis", 3);
    tc_value *t = tc_node_add_output(node, 0, "first", NULL);
    tc_value *u = tc_node_add_output(node, 1, "second", NULL);
    tc_value *a = tc_node_add_output(node, 2, "third", NULL);
    tc_node *use = add(f.graph, "Mul", t, a, "y");
    tc_graph_add_output(f.graph, u);
    tc_graph_add_output(f.graph, use->outputs[0]);
    assert_int_equal(tc_inline_call(&f.ctx, node, fn), TC_OK);
    tc_node *neg = f.graph->first, *sum = neg->next;
    assert_int_equal(f.graph->n_nodes, 3);
    assert_string_equal(neg->op_type, "Neg");
    assert_int_equal(tc_attr_int(neg, "axis", 0), 3);
    assert_true(tc_attr_float(neg, "alpha", 0) == 0.5F);
    assert_null(tc_attr_find(neg, "axis")->ref);
    assert_ptr_equal(neg->outputs[0], t); /* values and names stay */
    assert_ptr_equal(sum->outputs[0], u);
    assert_ptr_equal(tc_graph_find(f.graph, "second"), u);
    assert_ptr_equal(tc_input(sum, 1), f.x);
    assert_ptr_equal(tc_input(use, 1), f.x); /* an input handed through */
    assert_true(neg->ordinal != sum->ordinal && neg->ordinal > 1 && sum->ordinal > 1);
    assert_int_equal(fn->body->n_nodes, 2); /* and the function is as it was */
    assert_string_equal(tc_attr_find(fn->body->first, "axis")->ref, "axis");
    end(&f);
}

TEST(absent_operands_stay_absent) {
    fixture f;
    begin(&f);
    tc_function *fn = function_f(f.model);
    tc_node *node = call_f(&f, "", f.x, NULL);
    tc_graph_add_output(f.graph, tc_node_add_output(node, 1, "y", NULL));
    assert_int_equal(tc_inline_call(&f.ctx, node, fn), TC_OK);
    tc_node *neg = f.graph->first, *sum = neg->next;
    assert_null(tc_attr_find(neg, "axis")); /* neither given nor with a default */
    assert_int_equal(sum->n_inputs, 2);
    assert_null(tc_input(sum, 1));
    end(&f);
}

TEST(an_output_handed_through_keeps_its_name) {
    fixture f;
    begin(&f);
    tc_function *fn = function_f(f.model);
    tc_node *node = call_f(&f, "", f.x, f.x);
    tc_value *a = tc_node_add_output(node, 2, "y", NULL);
    tc_graph_add_output(f.graph, a);
    assert_int_equal(tc_inline_call(&f.ctx, node, fn), TC_OK);
    assert_ptr_equal(f.graph->outputs[0], a);
    assert_string_equal(a->producer->op_type, "Identity");
    assert_ptr_equal(tc_input(a->producer, 0), f.x);
    end(&f);
}

TEST(wrong_calls_are_refused_unchanged) {
    fixture f;
    begin(&f);
    tc_function *fn = function_f(f.model);
    tc_node *node = call_f(&f, "n", NULL, f.x);
    tc_graph_add_output(f.graph, tc_node_add_output(node, 2, "y", NULL));
    assert_int_equal(tc_inline_call(&f.ctx, node, fn), TC_BAD_INPUT); /* y is an input that is left out */
    tc_node_set_input(node, 2, f.x);
    assert_int_equal(tc_inline_call(&f.ctx, node, fn), TC_BAD_INPUT); /* three inputs for two */
    tc_node_resize_inputs(node, 2);
    tc_node_set_input(node, 0, f.x);
    tc_opset opsets[] = {{"", 18}};
    fn->opsets = opsets;
    fn->n_opsets = 1;
    tc_model_set_opset(f.model, "", 21);
    assert_int_equal(tc_inline_call(&f.ctx, node, fn), TC_UNSUPPORTED);
    assert_int_equal(f.graph->n_nodes, 1);
    assert_ptr_equal(f.graph->first, node);
    opsets[0].version = 21;
    assert_int_equal(tc_inline_call(&f.ctx, node, fn), TC_OK);
    end(&f);
}

/* my.G (a): If whose branch uses a, and t of the body, and the attribute @alpha */
static tc_function *function_g(tc_model *model) {
    tc_function *g = function(model, "G", 1);
    tc_node *t = add(g->body, "Neg", g->body->inputs[0], NULL, "t");
    tc_node *branch = add(g->body, "If", g->body->inputs[0], NULL, "r");
    tc_graph *then = tc_graph_create(model, g->body, "then");
    tc_value *k = tc_constant(then, "k", tc_tensor_scalar_int(model, 1));
    tc_node *inner = add(then, "Add", t->outputs[0], k, "z");
    add_ref(inner, "alpha", TC_ATTR_FLOAT, "alpha");
    tc_graph_add_output(then, inner->outputs[0]);
    tc_attr_set_graph(branch, "then_branch", then);
    tc_graph_add_output(g->body, branch->outputs[0]);
    return g;
}

TEST(nested_graphs_are_rewired) {
    fixture f;
    begin(&f);
    tc_function *fn = function_g(f.model);
    for (int i = 0; i < 2; i++) {
        tc_node *node = call_unary(&f, "G");
        tc_attr_set_float(node, "alpha", 2);
        assert_int_equal(tc_inline_call(&f.ctx, node, fn), TC_OK);
        tc_node *branch = f.graph->last;
        tc_graph *then = branch->attrs[0].g;
        assert_ptr_equal(then->parent, f.graph);
        assert_ptr_equal(tc_input(then->first, 0), branch->prev->outputs[0]);
        assert_ptr_equal(tc_input(then->first, 1)->graph, then);
        assert_non_null(tc_input(then->first, 1)->init);
        assert_true(tc_attr_float(then->first, "alpha", 0) == 2);
        assert_ptr_equal(then->outputs[0], then->first->outputs[0]);
        assert_int_equal(tc_value_use_count(branch->prev->outputs[0]), 1);
    }
    end(&f);
}

/* my.H0 calls my.H1 twice, which calls my.H2 twice, ... */
TEST(all_calls) {
    static const char *const names[] = {"H0", "H1", "H2", "H3"};
    fixture f;
    begin(&f);
    for (int i = 0; i < 4; i++) {
        tc_function *h = function(f.model, names[i], 1);
        tc_value *v = h->body->inputs[0];
        for (int k = 0; k < 2; k++) {
            tc_node *node = tc_node_create(h->body, i < 3 ? "my" : "", i < 3 ? names[i + 1] : "Neg", 1, 1);
            tc_node_set_input(node, 0, v);
            v = tc_node_add_output(node, 0, "v", NULL);
            tc_node_append(node);
        }
        tc_graph_add_output(h->body, v);
    }
    call_unary(&f, "H0");
    uint32_t calls = 0;
    assert_int_equal(tc_inline_all(&f.ctx, f.graph, NULL, NULL, &calls), TC_OK);
    assert_int_equal(calls, 1 + 2 + 4 + 8);
    assert_int_equal(f.graph->n_nodes, 16);
    const tc_value *v = f.x;
    for (const tc_node *n = f.graph->first; n; n = n->next) {
        assert_string_equal(n->op_type, "Neg");
        assert_ptr_equal(tc_input(n, 0), v);
        v = n->outputs[0];
    }
    assert_ptr_equal(v, f.graph->outputs[0]);
    assert_string_equal(v->name, "y");
    end(&f);
}

static bool wants(void *user, const tc_node *node, const tc_function *function) {
    (void)node;
    return strcmp(function->name, user) == 0;
}

TEST(cycles_and_choice) {
    fixture f;
    begin(&f);
    tc_function *a = function(f.model, "A", 1), *b = function(f.model, "B", 1);
    tc_function *pair[] = {a, b};
    for (int i = 0; i < 2; i++) {
        tc_graph *body = pair[i]->body;
        tc_node *node = tc_node_create(body, "my", pair[1 - i]->name, 1, 1);
        tc_node_set_input(node, 0, body->inputs[0]);
        tc_node_append(node);
        tc_graph_add_output(body, tc_node_add_output(node, 0, "v", NULL));
    }
    call_unary(&f, "A");
    char only[] = "A";
    uint32_t calls = 0;
    assert_int_equal(tc_inline_all(&f.ctx, f.graph, wants, only, &calls), TC_OK);
    assert_int_equal(calls, 1);
    assert_string_equal(f.graph->first->op_type, "B");
    assert_int_equal(tc_inline_all(&f.ctx, f.graph, NULL, NULL, NULL), TC_LIMIT);
    end(&f);
}

TEST(clones) {
    fixture f;
    begin(&f);
    tc_function *fn = function_g(f.model);
    tc_map *values = tc_map_create(f.model->arena);
    tc_map_set_ptr(values, fn->body->inputs[0], f.x);
    TC_FOR_NODES(node, fn->body)
        tc_node_clone(f.graph, node, values);
    tc_node *neg = f.graph->first, *branch = neg->next;
    tc_graph *then = branch->attrs[0].g;
    assert_ptr_equal(tc_input(neg, 0), f.x);
    assert_string_equal(neg->outputs[0]->name, "t");
    assert_ptr_equal(tc_map_get_ptr(values, fn->body->first->outputs[0]), neg->outputs[0]);
    assert_ptr_equal(tc_input(then->first, 0), neg->outputs[0]);
    assert_string_equal(tc_attr_find(then->first, "alpha")->ref, "alpha"); /* no call: references stay */
    tc_node *again = tc_node_clone(f.graph, branch, tc_map_create(f.model->arena));
    assert_ptr_equal(tc_input(again->attrs[0].g->first, 0), neg->outputs[0]);
    assert_int_equal(tc_value_use_count(neg->outputs[0]), 2);
    tc_node_erase(again);
    assert_int_equal(tc_value_use_count(neg->outputs[0]), 1);
    end(&f);
}

/* Changing the copy leaves the model as it was, and a symbol means the same in both, each in a pool of its own. */
TEST(models_clone) {
    fixture f;
    begin(&f);
    tc_dim n = tc_dim_symbol(f.model->dims, "n");
    tc_dim dims[] = {n, tc_dim_add(f.model->dims, n, tc_dim_const(1))};
    f.x->type = tc_type_tensor(f.model, TC_FLOAT, 2, dims);
    tc_value *w = tc_constant(f.graph, "w", tc_tensor_scalar(f.model, TC_FLOAT, 2));
    tc_graph *branch = tc_graph_create(f.model, f.graph, "branch");
    tc_node *inner = add(branch, "Mul", f.x, w, "inner");
    tc_graph_add_output(branch, inner->outputs[0]);
    tc_node *node = add(f.graph, "If", f.x, NULL, "y");
    tc_attr_set_graph(node, "then_branch", branch);
    node->ordinal = 5;
    tc_graph_add_output(f.graph, node->outputs[0]);

    tc_model *copy = tc_model_clone(f.model);
    tc_graph *graph = copy->graph;
    tc_value *x = graph->inputs[0];
    tc_dim symbol = tc_dim_symbol(copy->dims, "n");
    assert_true(tc_dim_equal(x->type->dims[0], symbol) && !tc_dim_equal(symbol, n));
    assert_true(tc_dim_equal(x->type->dims[1], tc_dim_add(copy->dims, symbol, tc_dim_const(1))));
    assert_int_equal(graph->first->ordinal, 5);
    assert_ptr_equal(graph->outputs[0], graph->first->outputs[0]);
    const tc_graph *body = tc_attr_find(graph->first, "then_branch")->g;
    assert_ptr_equal(body->parent, graph);
    assert_ptr_equal(tc_input(body->first, 0), x);
    assert_ptr_equal(tc_input(body->first, 1), tc_graph_find(graph, "w"));
    assert_ptr_equal(graph->initializers[0]->init, w->init); /* bytes are borrowed */
    const char *names[] = {"x", "w", "y"};
    for (size_t i = 0; i < TC_COUNT(names); i++)
        assert_true(tc_graph_find(graph, names[i]) && tc_graph_find(graph, names[i])->graph == graph);

    tc_value_replace(graph->outputs[0], x);
    tc_node_erase(graph->first);
    tc_model_destroy(copy);
    assert_int_equal(f.graph->n_nodes, 1);
    assert_int_equal(tc_value_use_count(f.x), 2);
    assert_string_equal(tc_type_text(f.ctx.arena, f.x->type), "float[n,n + 1]");
    end(&f);
}
