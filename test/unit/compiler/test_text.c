/* test_text.c: parsing and printing by their functions: what the command line and test/text do not reach. */
#include "test/unit/cases.h"
#include "compiler/text/text.h"
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "<ir_version: 10, opset_import: [\"\" : 21]>\n"

typedef struct fixture {
    tc_ctx ctx;
    tc_model *model;
} fixture;

static tc_status parse(fixture *f, const char *text) {
    tc_ctx_init(&f->ctx, "test");
    f->model = NULL;
    return tc_parse_text(&f->ctx, text, strlen(text), "t.onnxt", &f->model);
}

static void end(fixture *f) {
    tc_model_destroy(f->model);
    tc_ctx_fini(&f->ctx);
}

/* What `print` prints; free it. */
#define PRINTED(print)                                                                                                 \
    __extension__({                                                                                                    \
        char *printed_ = NULL;                                                                                         \
        size_t size_ = 0;                                                                                              \
        FILE *out = open_memstream(&printed_, &size_);                                                                 \
        print;                                                                                                         \
        fclose(out);                                                                                                   \
        printed_;                                                                                                      \
    })

static void assert_prints(char *printed, const char *expected) {
    assert_string_equal(printed, expected);
    free(printed);
}

TEST(numbers) {
    static const struct {
        double value;
        const char *as_float, *as_double;
    } rows[] = {
        {0, "0", "0"},
        {-0.0, "-0", "-0"},
        {1, "1", "1"},
        {0.1, "0.1", "0.1"},
        {100000, "1e+05", "1e+05"},
        {123456, "123456", "123456"},
        {1e-4, "1e-04", "1e-04"},
        {0.00125, "0.00125", "0.00125"},
        {16777216, "16777216", "16777216"},
        {1234567936, "1234567936", "1234567936"},
        {1e22, "1e+22", "1e+22"},
        {HUGE_VAL, "inf", "inf"},
        {-HUGE_VAL, "-inf", "-inf"},
        {3.14159265358979, "3.1415927", "3.14159265358979"},
        {2.5e-310, "0", "2.5e-310"},
    };
    char text[TC_NUMBER_TEXT];
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        size_t n = tc_float_text((float)rows[i].value, text);
        assert_int_equal(n, strlen(text));
        assert_string_equal(text, rows[i].as_float);
        assert_true(strtof(text, NULL) == (float)rows[i].value);
        n = tc_double_text(rows[i].value, text);
        assert_int_equal(n, strlen(text));
        assert_string_equal(text, rows[i].as_double);
        assert_true(strtod(text, NULL) == rows[i].value);
    }
}

TEST(nodes_graphs_and_types_print_alone) {
    fixture f;
    assert_int_equal(
        parse(&f, HEADER "g (float[N,?,\"2*N\"] x) => (float[] y) { [\"a b\"] t = Neg(x) y = Softmax<axis=-1>(t) }"),
        TC_OK);
    assert_prints(PRINTED(tc_print_node(f.model->graph->first, out)), "[\"a b\"] t = Neg (x)\n");
    assert_prints(PRINTED(tc_print_type(f.model->graph->inputs[0]->type, out)), "float[N,?,\"2*N\"]");
    assert_prints(PRINTED(tc_print_graph(f.model->graph, out)), "g (float[N,?,\"2*N\"] x) => (float[] y) {\n"
                                                                "   [\"a b\"] t = Neg (x)\n"
                                                                "   y = Softmax <axis: int = -1> (t)\n"
                                                                "}\n");
    end(&f);
}

TEST(elided_tensors_are_not_read_back) {
    fixture f;
    assert_int_equal(
        parse(&f, HEADER
              "g (float[2] x) => (float[2] y) <float[2] w = {1,2}, float s = {3}> { a = Mul(x, w) y = Mul(a, s) }"),
        TC_OK);
    char *text = PRINTED(assert_int_equal(tc_print_model_elided(&f.ctx, f.model, 1, out), TC_OK));
    assert_non_null(strstr(text, "<float[2] w = ..., float s =  {3}>"));
    tc_model *again = NULL;
    assert_int_equal(tc_parse_text(&f.ctx, text, strlen(text), "t", &again), TC_BAD_INPUT);
    assert_null(again);
    free(text);
    end(&f);
}

TEST(one_function) {
    fixture f;
    tc_ctx_init(&f.ctx, "test");
    f.model = tc_model_create();
    tc_function *fn = NULL;
    assert_int_equal(
        tc_parse_function(&f.ctx, f.model,
                          "<domain: \"ai.tempo\", opset_import: [\"\" : 21]> F <n, a: float = 2>(x, w) => (y) "
                          "{ t = Softmax <axis: int = @n> (x) y = LeakyRelu <alpha: float = @a> (t) }",
                          "F.onnxt", &fn),
        TC_OK);
    assert_int_equal(f.model->n_functions, 0);
    assert_string_equal(fn->domain, "ai.tempo");
    assert_string_equal(fn->name, "F");
    assert_int_equal(fn->n_attrs, 1);
    assert_int_equal(fn->n_defaults, 1);
    assert_true(fn->defaults[0].f == 2);
    assert_int_equal(fn->body->n_inputs, 2);
    assert_ptr_equal(fn->body->outputs[0], fn->body->last->outputs[0]);
    assert_string_equal(tc_attr_find(fn->body->first, "axis")->ref, "n");
    assert_int_equal(tc_parse_function(&f.ctx, f.model,
                                       "<domain: \"d\", opset_import: [\"\" : 21]> F (x) => (y) { y = Neg (x) } g",
                                       "F.onnxt", &fn),
                     TC_BAD_INPUT);
    end(&f);
}

#define MARKED                                                                                                         \
    "<ir_version: 10, opset_import: [\"\" : 21, \"ai.tempo\" : 1]>\n"                                                  \
    "g (float x) => (float y) { y = ai.tempo.Swish (x) }\n"                                                            \
    "<domain: \"ai.tempo\", opset_import: [\"\" : 21]> Swish <a: float = 0.1>(x) => (y) "                              \
    "{ t = LeakyRelu <alpha: float = @a> (x) y = Add (t, x) }"

static void print_model(fixture *f, char *text, size_t size) {
    FILE *out = fmemopen(text, size, "w");
    assert_non_null(out);
    assert_int_equal(tc_print_model(&f->ctx, f->model, out), TC_OK);
    assert_int_equal(fclose(out), 0);
}

static tc_function *read_back(fixture *f, const char *text) {
    end(f);
    assert_int_equal(parse(f, text), TC_OK);
    return f->model->functions[0];
}

TEST(what_tempoc_wrote_is_known_until_it_changes) {
    static const struct {
        const char *what, *with;
        bool is_body;
    } rows[] = {
        {"LeakyRelu", "LeakyRelu", true}, {"LeakyRelu", "ThresholdedRelu", false}, {"0.1", "0.2", false},
        {"(t, x)", "(x, t)", false},      {"tempo.body", "tempo.bodies", false},
    };
    fixture f;
    char text[1000], changed[1000];
    assert_int_equal(parse(&f, MARKED), TC_OK);
    assert_false(f.model->functions[0]->is_body);
    f.model->functions[0]->is_body = true;
    print_model(&f, text, sizeof text);
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        assert_non_null(strstr(text, rows[i].what));
        size_t before = (size_t)(strstr(text, rows[i].what) - text), behind = before + strlen(rows[i].what);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)before, text, rows[i].with, text + behind);
        assert_int_equal(read_back(&f, changed)->is_body, rows[i].is_body);
    }
    print_model(&f, text, sizeof text);
    assert_null(strstr(text, "tempo.body"));
    end(&f);
}

TEST(functions_are_inlined) {
    fixture f;
    assert_int_equal(
        parse(&f, "<ir_version: 10, opset_import: [\"\" : 21, \"my\" : 1]>\n"
                  "g (bool c, float x) => (float y) { [call] y = my.F <n = 1> (x, c) }\n"
                  "<domain: \"my\", opset_import: [\"\" : 21, \"my\" : 1]> F <n>(x, c, w) => (y) { t = my.G (x, w)\n"
                  "y = If (c) <then_branch = a () => (z) { z = Softmax <axis: int = @n> (t) },"
                  "            else_branch = b () => (z) { z = my.G (t) }> }\n"
                  "<domain: \"my\", opset_import: [\"\" : 21]> G <k: float = 0.25>(x, w) => (y) "
                  "{ y = LeakyRelu <alpha: float = @k> (x) }"),
        TC_OK);
    uint32_t calls = 0;
    assert_int_equal(tc_inline_all(&f.ctx, f.model->graph, NULL, NULL, &calls), TC_OK);
    assert_int_equal(calls, 3);
    assert_prints(PRINTED(tc_print_graph(f.model->graph, out)),
                  "g (bool c, float x) => (float y) {\n"
                  "   [call] \"call/t\" = LeakyRelu <alpha: float = 0.25> (x)\n"
                  "   [call] y = If (c) <then_branch: graph = a () => ( \"call/z\") {\n"
                  "      [call] \"call/z\" = Softmax <axis: int = 1> (\"call/t\")\n"
                  "   }, else_branch: graph = b () => ( \"call/z_1\") {\n"
                  "      [call] \"call/z_1\" = LeakyRelu <alpha: float = 0.25> (\"call/t\")\n"
                  "   }>\n"
                  "}\n");
    end(&f);
}

TEST(sparse_attributes_warn) {
    fixture f;
    assert_int_equal(parse(&f, HEADER "g (float x) => (float y) { y = Constant <value = float {1}> () }"), TC_OK);
    f.model->graph->first->attrs[0].kind = TC_ATTR_SPARSE_TENSOR;
    free(PRINTED(assert_int_equal(tc_print_model(&f.ctx, f.model, out), TC_OK)));
    assert_int_equal(f.ctx.n_diags, 1);
    assert_string_equal(f.ctx.diags[0].message, "attribute 'value' is a sparse tensor, which text cannot hold");
    end(&f);
}

/* The decimal point does not follow the program's locale; where no locale with a comma is installed this shows nothing.
 */
TEST(locale) {
    fixture f;
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        skip();
    assert_int_equal(parse(&f, HEADER "g (float x) => (float y) { y = Elu <alpha = 0.5> (x) }"), TC_OK);
    assert_prints(PRINTED(tc_print_node(f.model->graph->first, out)), "y = Elu <alpha: float = 0.5> (x)\n");
    setlocale(LC_ALL, "C");
    end(&f);
}

static char *repeat(const char *start, const char *middle, size_t n, const char *finish) {
    size_t size = strlen(start) + n * strlen(middle) + strlen(finish) + 1;
    char *text = malloc(size), *p = stpcpy(text, start);
    for (size_t i = 0; i < n; i++)
        p = stpcpy(p, middle);
    strcpy(p, finish);
    return text;
}

TEST(limits) {
    static const struct {
        const char *start, *middle, *finish;
        size_t n;
        tc_status status;
    } rows[] = {
        {HEADER "g (", "seq(", "float", 100000, TC_LIMIT},
        {HEADER "g (bool c) => (float y) {", " y = If (c) <then_branch = t () => (y) {", "", 100000, TC_LIMIT},
        {HEADER "g (float[1", ",1", "] x) => (float x) {}", 40, TC_LIMIT},
        {HEADER "g (float[1", ",1", "] x) => (float x) {}", 30, TC_OK},
        {HEADER "g (float x) => (float y) { y = A <a = ", "[", "", 100000, TC_BAD_INPUT},
        {HEADER "g (float x) => (float y) { y = A (x", ", x", ") }", 200000, TC_OK},
        {HEADER "g (float x) => (float y) { y = A <a = [1", ", 1", "]> (x) }", 200000, TC_OK},
        {HEADER "g (float x) => (float x) <float[200001] w = {1", ",1", "}> {}", 200000, TC_OK},
        {HEADER "g (float x) => (float x) {", "= A (x)", "}", 100000, TC_OK},
        {"<ir_version: 10, opset_import: [\"\" : 21", ", \"\" : 21", "]> g (float x) => (float x) {}", 3, TC_BAD_INPUT},
        {HEADER "g (float x) => (float y) { y = A <s = \"", "\\\"", "\"> (x) }", 100000, TC_OK},
    };
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        fixture f;
        char *text = repeat(rows[i].start, rows[i].middle, rows[i].n, rows[i].finish);
        assert_int_equal(parse(&f, text), rows[i].status);
        if (f.model)
            assert_true(tc_arena_bytes(f.model->arena) < (1 << 20) + 200 * strlen(text));
        end(&f);
        free(text);
    }
}
