/* test_rules.c: the rule engine on small graphs in ONNX text: what matches, what must not, what the right side becomes,
 * what is said of mistakes, and that matching stays linear. Graphs are compared as the list of their ops. */
#include "test/unit/cases.h"
#include "compiler/shape/shape.h"
#include "compiler/text/text.h"
#include "passes/rules/rule_ir.h"
#include <stdlib.h>
#include <string.h>

typedef struct world {
    tc_ctx ctx;
    tc_model *model;
    tc_rule_set *set;
    tc_options options;
    tc_summary summary;
    tc_pass_env env;
} world;

/* A graph from its signature and nodes. */
static void world_init(world *w, const char *graph) {
    memset(w, 0, sizeof *w);
    tc_ctx_init(&w->ctx, "test");
    char *text = NULL;
    size_t size = strlen(graph) + 100;
    text = malloc(size);
    assert_non_null(text);
    snprintf(text, size, "<ir_version: 10, opset_import: [\"\": 21, \"ai.tempo\": 1]> g %s", graph);
    tc_status status = tc_parse_text(&w->ctx, text, strlen(text), "graph", &w->model);
    if (status == TC_OK)
        status = tc_infer_graph(&w->ctx, w->model->graph);
    if (status != TC_OK)
        tc_diags_print(&w->ctx, stderr);
    assert_int_equal(status, TC_OK);
    free(text);
    w->set = tc_rules_create();
    w->env = (tc_pass_env){&w->ctx, &w->options, &w->summary};
}

static void world_fini(world *w) {
    tc_rules_destroy(w->set);
    tc_model_destroy(w->model);
    tc_ctx_fini(&w->ctx);
}

static void parse(world *w, const char *rules) {
    tc_status status = tc_rules_parse(&w->ctx, rules, "test.rules", w->set);
    if (status != TC_OK)
        tc_diags_print(&w->ctx, stderr);
    assert_int_equal(status, TC_OK);
}

static uint32_t apply(world *w) {
    uint32_t rewrites = 0;
    tc_status status = tc_rules_apply(&w->env, w->model->graph, w->set, &rewrites);
    if (status != TC_OK)
        tc_diags_print(&w->ctx, stderr);
    assert_int_equal(status, TC_OK);
    return rewrites;
}

static const char *ops(world *w) {
    const char *text = "";
    TC_FOR_NODES(node, w->model->graph)
        text = tc_arena_printf(w->ctx.arena, "%s%s%s", text, *text ? " " : "", node->op_type);
    return text;
}

/* Rules, a graph, what it becomes. */
typedef struct rewrite_case {
    const char *what, *rules, *graph, *want;
} rewrite_case;

#define GELU                                                                                                           \
    "rule gelu match (x) => (y) { y = Mul(Mul(x, Add(Erf(Mul(x, 0.70710678)), 1.0)), 0.5) } "                          \
    "replace { y = Gelu <approximate = \"none\"> (x) }"
#define GELU_GRAPH(k, tail)                                                                                            \
    "(float[4] x) => (float[4] y) <float k = {" k "}, float one = {1.0}, float half = {0.5}> {"                        \
    "a = Mul(k, x) e = Erf(a) b = Add(one, e) c = Mul(b, x) y = Mul(half, c) " tail "}"
#define BOTH /* forward and backward in one rule */                                                                    \
    "rule square match (x, dy) => (y, dx) { y = Mul(x, x) dx = Mul(Mul(x, 2), dy) } "                                  \
    "replace { y = Abs(x) dx = Sub(dy, y) }"
#define DROP                                                                                                           \
    "rule drop match (x, scale?, mask?) => (y) { s = Mul?(x, scale) t = Add?(s, mask) p = Softmax(t) y = Neg(p) } "    \
    "replace { y = Clip(x, scale, mask) }"

#define PRODUCT "rule r match (x) => (y) { y = Mul*(Sin(x), x, 0.5) } replace { y = Neg(x) }"

#define PARTS /* as if Neg(Sin(Mul(x, k))), scalar(k) and rank(x, 1) were written in the rule */                       \
    "part operands() { x, k } part scaled(f, z) { f(Mul(z, k)) } where scalar(k) part list(v) { rank(v, 1) } "         \
    "part negated(z) { a = scaled(Sin, z); y = Neg(a) } part last() { axis = -1 } "                                    \
    "rule r match (operands()) => (y) { negated(x) } where list(x) replace { y = Softmax <last()> (x) }"

static const rewrite_case rewrites[] = {
    {"parts", PARTS, "(float[4] x, float k) => (float[4] y) { a = Mul(x, k) b = Sin(a) y = Neg(b) }", "Softmax"},
    {"a guard of a part with text", PARTS,
     "(float[4] x, float[4] k) => (float[4] y) { a = Mul(x, k) b = Sin(a) y = Neg(b) }", "Mul Sin Neg"},
    {"a guard of a part without", PARTS,
     "(float[2,4] x, float k) => (float[2,4] y) { a = Mul(x, k) b = Sin(a) y = Neg(b) }", "Mul Sin Neg"},
    {"operands in any order, nested calls", GELU, GELU_GRAPH("0.70710677", ""), "Gelu"},
    {"a constant that differs", GELU, GELU_GRAPH("0.7072", ""), "Mul Erf Add Mul Mul"},
    {"a value inside that another node uses", GELU,
     "(float[4] x) => (float[4] y, float[4] z) <float k = {0.70710677}, float one = {1.0}, float half = {0.5}> {"
     "a = Mul(k, x) e = Erf(a) b = Add(one, e) c = Mul(b, x) y = Mul(half, c) z = Neg(c) }",
     "Mul Erf Add Mul Mul Neg"},
    {"a value inside that is an output", GELU,
     "(float[4] x) => (float[4] y, float[4] e) <float k = {0.70710677}, float one = {1.0}, float half = {0.5}> {"
     "a = Mul(k, x) e = Erf(a) b = Add(one, e) c = Mul(b, x) y = Mul(half, c) }",
     "Mul Erf Add Mul Mul"},
    {"a use of the shape alone", GELU,
     "(float[N] x) => (float[N] y, int64[1] z) <float k = {0.70710677}, float one = {1.0}, float half = {0.5}> {"
     "a = Mul(k, x) e = Erf(a) z = Shape(e) b = Add(one, e) c = Mul(b, x) y = Mul(half, c) }",
     "Shape Gelu"},
    {"the same name twice is the same value", "rule r match (x) => (y) { y = Mul(x, x) } replace { y = Abs(x) }",
     "(float[4] x, float[4] z) => (float[4] a, float[4] b) { a = Mul(x, x) b = Mul(x, z) }", "Abs Mul"},
    {"alternatives", "rule r match (x) => (y) { y = Sin|Cos(x) } replace { y = Abs(x) }",
     "(float[4] x) => (float[4] y) { a = Sin(x) b = Cos(a) y = Tan(b) }", "Abs Abs Tan"},
    {"attributes", "rule r match (x) => (y) { y = Softmax <axis = -1> (x) } replace { y = Abs(x) }",
     "(float[4,3] x) => (float[4,3] y) { a = Softmax <axis = 1> (x) b = Softmax <axis = 0> (a) y = Softmax (b) }",
     "Abs Softmax Abs"},
    {"constant lists", "rule r match (x) => (y) { y = ReduceSum(x, [0, 1]) } replace { y = ReduceMean(x, [0, 1]) }",
     "(float[4,3] x) => (float[1,1] y, float[4,1] z) <int64[2] a = {0, 1}, int64[1] b = {1}> { y = ReduceSum(x, a) z "
     "= ReduceSum(x, b) }",
     "ReduceMean ReduceSum"},
    {"an operand too many", "rule r match (x) => (y) { y = Clip(x) } replace { y = Abs(x) }",
     "(float[4] x, float m) => (float[4] y) { a = Clip(x) y = Clip(a, m) }", "Abs Clip"},
    {"an operand that must be absent", "rule r match (x, m) => (y) { y = Clip(x, , m) } replace { y = Min(x, m) }",
     "(float[4] x, float m) => (float[4] y) { a = Clip(x, m, m) y = Clip(a, \"\", m) }", "Clip Min"},
    {"anything", "rule r match (x) => (y) { y = Clip(x, _, _) } replace { y = Abs(x) }",
     "(float[4] x, float m) => (float[4] y) { a = Clip(x, m) y = Clip(a, \"\", m) }", "Abs Abs"},
    {"optional nodes: none", DROP, "(float[4] x) => (float[4] y) { p = Softmax(x) y = Neg(p) }", "Clip"},
    {"optional nodes: the first", DROP,
     "(float[4] x, float k) => (float[4] y) { s = Mul(x, k) p = Softmax(s) y = Neg(p) }", "Clip"},
    {"optional nodes: the second", DROP,
     "(float[4] x, float k) => (float[4] y) { s = Add(x, k) p = Softmax(s) y = Neg(p) }", "Clip"},
    {"optional nodes: both", DROP,
     "(float[4] x, float k) => (float[4] y) { s = Mul(x, k) t = Add(k, s) p = Softmax(t) y = Neg(p) }", "Clip"},
    {"two results, one node above the other's end", BOTH,
     "(float[4] x, float[4] dy) => (float[4] z, float[4] dx) <float two = {2.0}> {"
     "y = Mul(x, x) z = Neg(y) t = Mul(two, x) dx = Mul(dy, t) }",
     "Abs Neg Sub"},
    {"two results: no second", BOTH,
     "(float[4] x, float[4] dy) => (float[4] dx) <float two = {2.0}> { t = Mul(two, x) dx = Mul(dy, t) }", "Mul Mul"},
    {"a user before an operand of the replacement",
     "rule r match (x, z) => (y, w) { y = Neg(x) w = Mul(x, z) } replace { y = Sub(x, z) w = Add(x, z) }",
     "(float[4] x, float[4] a) => (float[4] v, float[4] w) { y = Neg(x) v = Sin(y) z = Cos(a) w = Mul(x, z) }",
     "Neg Sin Cos Mul"},
    {"an operand that comes later",
     "rule r match (x, z) => (y, w) { y = Neg(x) w = Mul(x, z) } replace { y = Sub(x, z) w = Add(x, z) }",
     "(float[4] x, float[4] a) => (float[4] v, float[4] w) { y = Neg(x) z = Cos(a) v = Sin(y) w = Mul(x, z) }",
     "Cos Sub Sin Add"},
    {"a result that stays", "rule r match (x) => (y, s) { s = Sigmoid(x) y = Mul(x, s) } replace { y = Div(x, s) }",
     "(float[4] x) => (float[4] y, float[4] z) { s = Sigmoid(x) y = Mul(s, x) z = Neg(s) }", "Sigmoid Div Neg"},
    {"an alias", "rule r match (x) => (y) { y = Neg(Neg(x)) } replace { y = x }",
     "(float[4] x) => (float[4] y) { a = Neg(x) b = Neg(a) c = Neg(b) d = Neg(c) y = Abs(d) }", "Abs"},
    {"an alias of what makes an output", "rule r match (x) => (y) { y = Neg(Neg(x)) } replace { y = x }",
     "(float[4] x) => (float[4] y) { s = Sin(x) a = Neg(s) y = Neg(a) }", "Sin"},
    {"an alias of an input for an output stays", "rule r match (x) => (y) { y = Neg(Neg(x)) } replace { y = x }",
     "(float[4] x) => (float[4] y) { a = Neg(x) y = Neg(a) }", "Neg Neg"},
    {"a replacement of another shape", "rule r match (x, z) => (y) { y = Mul(x, z) } replace { y = Abs(x) }",
     "(float[1] x, float[4] z) => (float[4] y) { y = Mul(x, z) }", "Mul"},
    {"a replacement of another type", "rule r match (x) => (y) { y = Cast(x) } replace { y = Abs(x) }",
     "(float[4] x) => (double[4] y) { y = Cast <to = 11> (x) }", "Cast"},
    {"benefit",
     "rule a match (x) => (y) { y = Neg(x) } replace { y = Sin(x) } rule b benefit=9 match (x) => (y) { y = Neg(x) } "
     "replace { y = Cos(x) }",
     "(float[4] x) => (float[4] y) { y = Neg(x) }", "Cos"},
    {"the larger pattern first",
     "rule a match (x) => (y) { y = Neg(x) } replace { y = Sin(x) } rule b match (x) => (y) { y = Neg(Abs(x)) } "
     "replace { y = Cos(x) }",
     "(float[4] x) => (float[4] y) { a = Abs(x) y = Neg(a) }", "Cos"},
    {"guards",
     "rule r match (x, c) => (y) { y = Div(x, c) } where pow2(c), !rank(x, 2) replace { y = Mul(x, recip(c)) }",
     "(float[4] x, float[4,4] z) => (float[4] y, float[4,4] w) <float c = {8.0}, float d = {3.0}> { a = Div(x, c) y "
     "= Div(a, d) w = Div(z, c) }",
     "Mul Div Div"},
    {"a weight is no constant",
     "rule r match (x, c) => (y) { y = Div(x, c) } where pow2(c) replace { y = Mul(x, recip(c)) }",
     "(float[2] x) => (float[2] y) <float[2] c = {2.0, 2.0}> { y = Div(x, c) }", "Div"},
    {"choices", "rule r match (x) => (y) { y = Abs((Sin(Neg(x)) or Cos(x) or x)) } replace { y = Neg(x) }",
     "(float[4] x) => (float[4] y) { a = Neg(x) b = Sin(a) c = Abs(b) d = Cos(c) e = Abs(d) f = Tan(e) g = Abs(f) y "
     "= Tan(g) }",
     "Neg Neg Tan Neg Tan"},
    {"a choice that leaves a name unbound",
     "rule r match (x, m?) => (y) { y = Abs((Max(x, m) or Neg(x))) } replace { y = Clip(x, m) }",
     "(float[4] x, float k) => (float[4] y) { a = Max(x, k) b = Abs(a) c = Neg(b) y = Abs(c) }", "Clip Clip"},
    {"a choice inside that another node uses",
     "rule r match (x) => (y) { y = Abs((Sin(x) or Cos(x))) } replace { y = Neg(x) }",
     "(float[4] x) => (float[4] y, float[4] z) { a = Cos(x) y = Abs(a) z = Tan(a) }", "Cos Abs Tan"},
    {"a product in any order", PRODUCT,
     "(float[4] x) => (float[4] y) <float h = {0.5}> { a = Sin(x) b = Mul(a, h) y = Mul(b, x) }", "Neg"},
    {"a product, the pair on the right", PRODUCT,
     "(float[4] x) => (float[4] y) <float h = {0.5}> { a = Sin(x) b = Mul(x, h) y = Mul(a, b) }", "Neg"},
    {"a product, the pair on the left", PRODUCT,
     "(float[4] x) => (float[4] y) <float h = {0.5}> { a = Sin(x) b = Mul(x, a) y = Mul(h, b) }", "Neg"},
    {"a product of other factors", PRODUCT,
     "(float[4] x) => (float[4] y) <float h = {0.25}> { a = Sin(x) b = Mul(x, a) y = Mul(h, b) }", "Sin Mul Mul"},
    {"a product of fewer factors", PRODUCT, "(float[4] x) => (float[4] y) { a = Sin(x) y = Mul(a, x) }", "Sin Mul"},
    {"a product inside that another node uses", PRODUCT,
     "(float[4] x) => (float[4] y, float[4] z) <float h = {0.5}> { a = Sin(x) b = Mul(x, a) y = Mul(h, b) z = Neg(b) }",
     "Sin Mul Mul Neg"},
    {"the fourth power, as a square of squares and from the left",
     "rule r match (x) => (y) { y = Mul*(x, x, x, x) } replace { y = Abs(x) }",
     "(float[4] x, float[4] z) => (float[4] y, float[4] v) { a = Mul(x, x) y = Mul(a, a) b = Mul(z, z) c = Mul(b, z) "
     "v = Mul(z, c) }",
     "Abs Abs"},
    {"nested graphs", "rule r match (x) => (y) { y = Neg(x) } replace { y = Abs(x) }",
     "(float[4] x, bool c) => (float[4] y) { y = If (c) <then_branch = t () => (float[4] a) { a = Neg(x) }, "
     "else_branch = e () => (float[4] b) { b = Sin(x) }> }",
     "If"},
};

TEST(rewrites) {
    for (size_t i = 0; i < TC_COUNT(rewrites); i++) {
        const rewrite_case *c = &rewrites[i];
        world w;
        world_init(&w, c->graph);
        parse(&w, c->rules);
        apply(&w);
        if (strcmp(ops(&w), c->want) != 0)
            print_error("%s: %s\n", c->what, ops(&w));
        assert_string_equal(ops(&w), c->want);
        assert_int_equal(w.ctx.n_diags, 0);
        world_fini(&w);
    }
}

TEST(names) {
    world w;
    world_init(&w, "(float[4] x) => (float[4] y) { [\"root\"] y = Neg(x) }");
    parse(&w, "rule r match (x) => (y) { y = Neg(x) } replace { a = Mul(x, 2.5) y = Abs(a) }");
    assert_int_equal(apply(&w), 1);
    tc_node *first = w.model->graph->first, *last = w.model->graph->last;
    assert_string_equal(ops(&w), "Mul Abs");
    assert_string_equal(first->name, "root/Mul");
    assert_string_equal(last->name, "root");
    assert_string_equal(last->outputs[0]->name, "y");
    assert_ptr_equal(last->outputs[0], w.model->graph->outputs[0]);
    assert_int_equal(tc_value_dtype(first->outputs[0]), TC_FLOAT);
    assert_true(tc_tensor_get(tc_value_constant(tc_input(first, 1)), 0) == 2.5);
    world_fini(&w);
}

TEST(attributes_pass_on) {
    world w;
    world_init(&w, "(float[4,3] x) => (float[4,3] y) { a = Softmax <axis = 0> (x) y = Neg(a) }");
    parse(&w, "rule r match (x) => (y, s) { s = Softmax(x) y = Neg(s) } replace { s = LogSoftmax <attrs = @s> (x) y = "
              "Hardmax <axis = @s.axis> (s) }");
    assert_int_equal(apply(&w), 1);
    assert_string_equal(ops(&w), "LogSoftmax Hardmax");
    assert_int_equal(tc_attr_int(w.model->graph->first, "axis", 9), 0);
    assert_int_equal(tc_attr_int(w.model->graph->last, "axis", 9), 0);
    world_fini(&w);
}

TEST(calculated_constants) {
    world w;
    world_init(&w, "(float[4] x) => (float[4] y) <float a = {3.0}, float b = {0.5}> { t = Mul(x, a) y = Mul(t, b) }");
    parse(&w, "rule r match (x, a, b) => (y) { y = Mul(Mul(x, a), b) } where constant(a), constant(b) "
              "replace { y = Sub(x, add(mul(a, b), neg(recip(b)))) }");
    assert_int_equal(apply(&w), 1);
    const tc_tensor *c = tc_value_constant(tc_input(w.model->graph->first, 1));
    assert_true(tc_tensor_get(c, 0) == 1.5 - 2.0);
    world_fini(&w);
}

/* Attributes are computed from what the match has found; names that are unbound count as 1, none at all leaves the
 * attribute out. */
TEST(calculated_attributes) {
    static const struct {
        const char *graph;
        bool given;
        float alpha;
        int64_t axis;
    } cases[] = {
        {"(float[4,3] x) => (float[4,3] y) <float a = {3.0}, float b = {0.5}, int64[1] l = {1}> "
         "{ s = Mul(x, a) t = Div(s, b) r = ReduceSum(t, l) u = Sub(t, r) y = Elu(u) }",
         true, 6, -1},
        {"(float[4,3] x) => (float[4,3] y) <float b = {0.5}, int64[2] l = {-1, 0}> "
         "{ t = Div(x, b) r = ReduceSum(t, l) u = Sub(t, r) y = Elu(u) }",
         true, 2, -2},
        {"(float[4,3] x) => (float[4,3] y) <int64[1] l = {-1}> { r = ReduceSum(x, l) u = Sub(x, r) y = Elu(u) }", false,
         0, -1},
    };
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        world w;
        world_init(&w, cases[i].graph);
        parse(
            &w,
            "rule r match (x, a?, b?, axes) => (y) { t = Div?(Mul?(x, a), b) y = Elu(Sub(t, ReduceSum(t, axes))) } "
            "where trailing(axes, x) replace { y = LeakyRelu <alpha = a / b> (Softmax <axis = trailing(axes)> (x)) }");
        assert_int_equal(apply(&w), 1);
        const tc_node *last = w.model->graph->last;
        assert_string_equal(ops(&w), "Softmax LeakyRelu");
        assert_int_equal(tc_attr_find(last, "alpha") != NULL, cases[i].given);
        assert_true(!cases[i].given || tc_attr_float(last, "alpha", 0) == cases[i].alpha);
        assert_int_equal(tc_attr_int(w.model->graph->first, "axis", 9), cases[i].axis);
        world_fini(&w);
    }
}

/* Each guard about axes and element types, with operands that it holds for and one that it does not. */
TEST(axes) {
    static const struct {
        const char *guard, *list;
        bool holds;
    } cases[] = {
        {"trailing(l, x)", "[1] l = {-1}", true},       {"trailing(l, x)", "[2] l = {-2, -1}", true},
        {"trailing(l, x)", "[2] l = {2, 1}", true},     {"trailing(l, x)", "[2] l = {2, -2}", true},
        {"trailing(l, x)", "[1] l = {-2}", false},      {"trailing(l, x)", "[2] l = {-3, -1}", false},
        {"trailing(l, x)", "[3] l = {0, 1, 2}", true},  {"trailing(l, x)", "[2] l = {0, 2}", false},
        {"spans(g, x, l)", "[1] l = {-1}", true},       {"spans(g, x, l)", "[2] l = {-1, -2}", false},
        {"spans(g, x, l)", "[1] l = {1}", false},       {"bits_at_most(x, 32)", "[1] l = {-1}", true},
        {"bits_at_most(x, 16)", "[1] l = {-1}", false}, {"same_count(l, l)", "[1] l = {-1}", true},
        {"below(c, 0)", "[1] l = {-1}", true},          {"below(c, -5)", "[1] l = {-1}", false},
    };
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        world w;
        char text[400];
        snprintf(text, sizeof text,
                 "(float[2,3,4] x, float[4] g) => (float[2,3,4] y) <int64%s, float c = {-2.0}> "
                 "{ r = ReduceSum(x, l) s = Sub(x, r) t = Add(s, g) y = Mul(t, c) }",
                 cases[i].list);
        world_init(&w, text);
        snprintf(text, sizeof text,
                 "rule r match (x, l, g, c) => (y) { y = Mul(Add(Sub(x, ReduceSum(x, l)), g), c) } where %s "
                 "replace { y = Abs(x) }",
                 cases[i].guard);
        parse(&w, text);
        uint32_t n = apply(&w);
        if (n != cases[i].holds)
            print_error("%s with %s\n", cases[i].guard, cases[i].list);
        assert_int_equal(n, cases[i].holds);
        world_fini(&w);
    }
}

/* From the end, the larger of two nested patterns is met first. */
TEST(from_end) {
    for (int from_end = 0; from_end < 2; from_end++) {
        world w;
        world_init(&w, "(float[4] x) => (float[4] y) { a = Sin(x) y = Abs(a) }");
        parse(&w, "rule part match (x) => (y) { y = Sin(x) } replace { y = Cos(x) } "
                  "rule whole match (x) => (y) { y = Abs(Sin(x)) } replace { y = Tan(x) }");
        if (from_end)
            tc_rules_from_end(w.set);
        assert_int_equal(apply(&w), 1);
        assert_string_equal(ops(&w), from_end ? "Tan" : "Cos Abs");
        world_fini(&w);
    }
}

#define NEGATED(x) "rule r match (x) => (y) { y = Neg(" x ") } replace { y = x }"

/* Mistakes are told with their place. */
TEST(mistakes) {
    static const struct {
        const char *rules, *where, *message;
    } cases[] = {
        {"rule", "test.rules:1:5", "expected the rule's name"},
        {"rule r match (x) => (y) { y = Neg(x) replace { y = x }", "test.rules:1:46", "expected '=' before '{'"},
        {"\nrule r match (x) => (y) { y = Nag(x) }\nreplace { y = Nug(x) }", "test.rules:3:15", "unknown op 'Nug'"},
        {"rule r match (x) => (y) { y = Neg(z) } replace { y = x }", "test.rules:1:35",
         "'z' is neither a parameter nor defined"},
        {"rule r match (x, z) => (y) { y = Neg(x) } replace { y = x }", "test.rules:1:18", "parameter 'z' is not used"},
        {"rule r match (x) => (z) { y = Neg(x) } replace { z = x }", "test.rules:1:1",
         "result 1 of rule 'r' is not defined"},
        {"rule r match (x) => (y) { a = Abs(x) y = Neg(a) } replace { y = Sin(a) }", "test.rules:1:69",
         "'a' is inside the match"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { z = Neg(y) y = x }", "test.rules:1:58",
         "'y' is used before"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { z = Neg(x) y = x }", "test.rules:1:54",
         "no result depends on 'z'"},
        {"rule r match (x) => (y) { y = Neg(x) } where foo(x) replace { y = x }", "test.rules:1:46",
         "unknown guard or part 'foo'"},
        {"rule r match (x) => (y) { y = Neg(x) } where rank(x) replace { y = x }", "test.rules:1:46",
         "too few arguments"},
        {"rule r match (x) => (y) { y = Softmax <axle = 1> (x) } replace { y = x }", "test.rules:1:40",
         "no attribute 'axle'"},
        {"rule r match (x) => (y) { y = Softmax <axis = 1.5> (x) } replace { y = x }", "test.rules:1:40",
         "of another kind"},
        {"rule r match (x) => (y) { y = Neg(x, x) } replace { y = x }", "test.rules:1:31", "at most 1 operands"},
        {"rule r match (x) => (y) { y = Neg?(x) } replace { y = x }", "test.rules:1:31", "cannot be optional"},
        {"rule r match (x, z) => (y, w) { w = Neg(z) y = Neg(x) } replace { y = x w = z }", "test.rules:1:37",
         "not connected"},
        {"rule r match (x) => (y) { y = Neg(x) y = Abs(x) } replace { y = x }", "test.rules:1:38", "defined twice"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { y = ReduceLike(x, x) }", "test.rules:1:54",
         "belongs to gradient rules"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { y = x } rule r match (x) => (y) { y = Neg(x) } replace { "
         "y = x }",
         "test.rules:1:58", "there is a rule 'r' already"},
        {"gradient Nug (x; y; dy) => (dx) { dx = dy }", "test.rules:1:1", "unknown op 'Nug'"},
        {"gradient Neg (x; y; dy) => (dx) { da = dy }", "test.rules:1:29", "'dx' is not defined"},
        {"rule r match (x) => (y) { y = Neg((Abs(x) or )) } replace { y = x }", "test.rules:1:46",
         "expected an operand"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { y = Neg((x or x)) }", "test.rules:1:58",
         "choices belong to the match"},
        {"rule r match (x) => (y) { y = Mul*(x, x) } replace { y = x }", "test.rules:1:31", "3 to 6 operands"},
        {"rule r match (x) => (y) { y = Sub*(x, x, x) } replace { y = x }", "test.rules:1:31", "one commutative op"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { y = Mul*(x, x, x) }", "test.rules:1:54",
         "belong to the match"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { y = Elu <alpha = x * z> (x) }", "test.rules:1:71",
         "'z' names no value"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { y = Gelu <approximate = x> (x) }", "test.rules:1:60",
         "of another kind"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { y = Softmax <axis = trailing(z)> (x) }", "test.rules:1:79",
         "'z' names no value"},
        {"rule r match (x) => (y) { y = Neg(x) } replace { y = Softmax <axis = trailing(x, x)> (x) }",
         "test.rules:1:82", "trailing has no operand 1"},
        {"bogus", "test.rules:1:1", "expected 'rule', 'gradient', 'part' or 'function'"},
        {"function ai.tempo.Blur (X) => (Y) { Y = Neg (X) }", "test.rules:1:10",
         "'ai.tempo.Blur' is not an op of ai.tempo"},
        {"function my.ops.Swish (X) => (Y) { Y = Neg (X) }", "test.rules:1:10",
         "'my.ops.Swish' is not an op of ai.tempo"},
        {"function ai.tempo.Swish (X) => (Y) { Y = Neg (X)", "test.rules:1:49",
         "the function 'ai.tempo.Swish' has no end"},
        {"rule r match (x) => (y) { foo() y = Neg(x) } replace { y = x }", "test.rules:1:30",
         "expected '=' before '(': there is no part of this name"},
        {"rule r match (x) => (y) { y = Neg(foo(x)) } replace { y = x }", "test.rules:1:35", "unknown part 'foo'"},
        {"rule r match (x) => (y) { y = Elu <foo()> (x) } replace { y = x }", "test.rules:1:39",
         "there is no part of this name"},
        {"part f(a) { Abs(a) }\n" NEGATED("f(x, x)"), "test.rules:2:35", "part 'f' takes 1 arguments, not 2"},
        {"part f(a) { g(a) }\npart g(a) { f(a) }\n" NEGATED("f(x)"), "test.rules:2:13", "part 'f' uses itself"},
        {"part f(a) { Abs(a) }\npart f(b) { b }\n" NEGATED("f(x)"), "test.rules:2:6", "a guard 'f' already"},
        {"part f() { Abs(x) }\npart g() { f() }\n" NEGATED("f()"), "test.rules:2:6", "part 'g' is not used"},
        {"part f(a) { Abs(b) }\n" NEGATED("f(x)"), "test.rules:1:17", "'b' is neither a parameter nor defined"},
        {"part f() { x } where !float(x)\nrule r match (x) => (y) { y = Neg(x) } replace { y = f() }",
         "test.rules:2:54", "has guards, which belong to the match"},
        {"part f() { x } where !float(x)\nf()", "test.rules:2:1", "'part' or 'function' before 'f'"},
        {"part f(a) { Abs(a)\n" NEGATED("f(x"), "test.rules:2:59", "expected '}' before the end"},
        {"part f(a) { a, a, a, a }\nrule r match (x) => (y) { y = Neg(x) } where f(f(f(f(f(float(x)))))) replace { }",
         "test.rules:1:16", "more than 1000 texts"},
        {"rule r match (x) => (y) { y = Neg(\x01) } replace { y = x }", "test.rules:1:35", "byte 0x01"},
    };
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        world w;
        world_init(&w, "(float[4] x) => (float[4] y) { y = Neg(x) }");
        assert_int_equal(tc_rules_parse(&w.ctx, cases[i].rules, "test.rules", w.set), TC_BAD_INPUT);
        const tc_diag *d = &w.ctx.diags[0];
        if (!d->where || strcmp(d->where, cases[i].where) != 0 || !strstr(d->message, cases[i].message))
            print_error("%s\n%s: %s\n", cases[i].rules, d->where, d->message);
        assert_string_equal(d->where, cases[i].where);
        assert_non_null(strstr(d->message, cases[i].message));
        world_fini(&w);
    }
}

TEST(loops_end) {
    static const char *const rules[] = {
        "rule r match (x, y) => (z) { z = Add(x, y) } replace { z = Add(y, x) }",
        "rule r match (x) => (y) { y = Relu(x) } replace { y = Relu(Relu(x)) }",
    };
    for (size_t i = 0; i < TC_COUNT(rules); i++) {
        world w;
        world_init(&w, "(float[4] x) => (float[4] y) { a = Add(x, x) y = Relu(a) }");
        parse(&w, rules[i]);
        assert_true(apply(&w) < 2000);
        assert_int_equal(w.ctx.n_diags, 1);
        assert_non_null(strstr(w.ctx.diags[0].message, "did not end"));
        world_fini(&w);
    }
}

/* Chains of n nodes as text. */
static char *chain(unsigned n, const char *step) {
    size_t size = 200 + (size_t)n * 60;
    char *text = malloc(size);
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, size, "(float[4] v0, float[4] z) => (float[4] v%u) {", n);
    for (unsigned i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, size - at, step, i + 1, i, i);
    snprintf(text + at, size - at, "}");
    return text;
}

static uint64_t steps_for(unsigned n, const char *step, const char *rules) {
    char *text = chain(n, step);
    world w;
    world_init(&w, text);
    parse(&w, rules);
    apply(&w);
    uint64_t steps = w.set->steps;
    world_fini(&w);
    free(text);
    return steps;
}

/* Twice the graph, twice the steps: on the chains that are worst for backtracking and for looking among users. */
TEST(linear) {
    static const char *const deep =
        "rule r match (x, k) => (y) { y = Add(Add(Add(Add(Add(Add(Add(Add(x, x), x), x), x), x), x), x), k) } where "
        "rank(k, 7) replace { y = x }";
    static const char *const users =
        "rule r match (x, a) => (y, w) { w = Neg(Add(x, a)) y = Mul(Add(x, a), a) } where rank(a, 7) replace { w = x "
        "y = x }";
    static const struct {
        const char *step, *rules;
    } cases[] = {
        {"v%u = Add(v%u, v%u) ", deep},
        {"v%u = Add(v%u, z) ", users},
        {"v%u = Neg(v%u) ", "rule r match (x) => (y) { y = Neg(Neg(x)) } replace { y = x }"},
        {"v%u = Mul(z, v%u) ", users},
    };
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        uint64_t once = steps_for(500, cases[i].step, cases[i].rules),
                 twice = steps_for(1000, cases[i].step, cases[i].rules);
        assert_true(twice <= once * 2 + once / 10 + RULE_FUEL);
    }
}

TEST(explain) {
    world w;
    world_init(&w, GELU_GRAPH("0.7072", ""));
    w.options.explain = "gelu";
    parse(&w, GELU);
    assert_int_equal(apply(&w), 0);
    assert_true(w.ctx.n_diags >= 1);
    const tc_diag *last = &w.ctx.diags[w.ctx.n_diags - 1];
    assert_int_equal(last->severity, TC_NOTE);
    if (!strstr(last->message, "stopped at 'Mul' (test.rules:1): Mul \"a\": constant 0.70719999 differs"))
        print_error("%s\n", last->message);
    assert_non_null(
        strstr(last->message,
               "rule gelu at Mul \"y\" stopped at 'Mul' (test.rules:1): Mul \"a\": constant 0.70719999 differs"));
    assert_int_equal(w.summary.n_rules, 1);
    assert_int_equal(w.summary.rules[0].matched, 0);
    assert_int_equal(w.summary.rules[0].tried, 3);
    world_fini(&w);
}

/* --- gradient rules --------------------------------------------------------------------------- */

#define MUL_GRADIENT                                                                                                   \
    "gradient Mul (a, b; y; dy) => (da, db) { da = ReduceLike(Mul(dy, b), a) db = ReduceLike(Mul(dy, a), b) }"

static void gradient(world *w, const char *rules, const char *graph, const bool *needed, const char *want) {
    world_init(w, graph);
    parse(w, rules);
    tc_value *douts[2] = {tc_graph_find(w->model->graph, "dy"), NULL}, *dins[3] = {NULL};
    bool found = false;
    tc_node *node = w->model->graph->first;
    tc_status status = tc_gradient_rule_apply(&w->env, w->set, node, douts, needed, dins, &found);
    if (status != TC_OK)
        tc_diags_print(&w->ctx, stderr);
    assert_int_equal(status, TC_OK);
    assert_true(found);
    assert_string_equal(ops(w), want);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        assert_int_equal(dins[i] != NULL, needed[i]);
        if (dins[i])
            assert_true(tc_type_equal(dins[i]->type, tc_input(node, i)->type));
    }
}

TEST(gradients) {
    static const bool both[] = {true, true, true}, first[] = {true, false, false};
    static const struct {
        const char *graph;
        const bool *needed;
        const char *want;
    } cases[] = {
        {"(float[4] a, float[4] b, float[4] dy) => (float[4] y) { y = Mul(a, b) }", both, "Mul Mul Mul"},
        {"(float[4] a, float[4] b, float[4] dy) => (float[4] y) { y = Mul(a, b) }", first, "Mul Mul"},
        {"(float[3,4] a, float[4] b, float[3,4] dy) => (float[3,4] y) { y = Mul(a, b) }", both,
         "Mul Mul Mul ReduceSum"},
        {"(float[B,4] a, float[1,4] b, float[B,4] dy) => (float[B,4] y) { y = Mul(a, b) }", both,
         "Mul Mul Mul ReduceSum"},
        {"(float[B,4,5] a, float[4,1] b, float[B,4,5] dy) => (float[B,4,5] y) { y = Mul(a, b) }", both,
         "Mul Mul Mul ReduceSum Squeeze"},
        {"(float[B,4] a, float[B,1] b, float[B,4] dy) => (float[B,4] y) { y = Mul(a, b) }", both,
         "Mul Mul Mul ReduceSum"},
        {"(float[4] a, float[B] b, float[4] dy) => (float[4] y) { y = Mul(a, b) }", both,
         "Mul Mul Mul Shape Shape Equal Not NonZero Reshape ReduceSum Reshape"},
    };
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        world w;
        gradient(&w, MUL_GRADIENT, cases[i].graph, cases[i].needed, cases[i].want);
        world_fini(&w);
    }
}

TEST(gradient_attributes_and_guards) {
    static const bool needed[] = {true, true, true};
    world w;
    gradient(&w,
             "gradient Gelu (x; y; dy) => (dx) where attr(y, approximate, none) { dx = dy } "
             "gradient Gelu (x; y; dy) => (dx) { dx = ai.tempo.GeluGrad <attrs = @> (dy, x) }",
             "(float[4] x, float[4] dy) => (float[4] y) { y = Gelu <approximate = \"tanh\"> (x) }", needed,
             "Gelu GeluGrad");
    assert_string_equal(tc_attr_string(w.model->graph->last, "approximate", ""), "tanh");
    world_fini(&w);
}

/* A result that the rule reads and the node lacks is added. */
TEST(gradient_adds_results) {
    static const bool needed[] = {true, true, false};
    world w;
    gradient(
        &w,
        "gradient LayerNormalization (x, s, b?; y, m, r; dy) => (dx, ds, db) { dx, ds, db = "
        "ai.tempo.LayerNormalizationGrad <attrs = @> (dy, x, s, m, r) }",
        "(float[3,4] x, float[4] s, float[4] b, float[3,4] dy) => (float[3,4] y) { y = LayerNormalization(x, s, b) }",
        needed, "LayerNormalization LayerNormalizationGrad");
    const tc_node *forward = w.model->graph->first, *backward = w.model->graph->last;
    assert_int_equal(forward->n_outputs, 3);
    assert_ptr_equal(tc_input(backward, 3), forward->outputs[1]);
    assert_int_equal(backward->n_outputs, 3);
    assert_null(backward->outputs[2]);
    world_fini(&w);
}
