/* Command lines from tables: values, defaults, switches, lists, mistakes and the suggestions for them. */
#include "compiler/options.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct sample {
    const char *output, *mode;
    const char **globs;
    size_t n_globs;
    int64_t threads, seed;
    double tolerance;
    bool verbose, color;
} sample;

#define ROW(...) TC_OPTION(sample, __VA_ARGS__, "Group", "help")

static const tc_option rows[] = {
    ROW(STRING, output, output, "output", 'o', "FILE", NULL),
    ROW(STRING, mode, mode, "mode", 0, "MODE", "plain"),
    ROW(LIST, globs, n_globs, "glob", 0, "GLOB", NULL),
    ROW(COUNT, threads, threads, "threads", 'j', "N", "2"),
    ROW(INT, seed, seed, "seed", 0, "N", NULL),
    ROW(NUMBER, tolerance, tolerance, "tolerance", 0, "X", NULL),
    ROW(SWITCH, verbose, verbose, "verbose", 'v', NULL, NULL),
    ROW(SWITCH, color, color, "color", 0, NULL, "on"),
};
static const tc_option_table table = {"sample", "tries options", "[options] FILES", NULL, NULL, rows, TC_COUNT(rows)};

typedef struct outcome {
    tc_ctx ctx;
    sample options;
    tc_arguments arguments;
    tc_status status;
} outcome;

#define PARSE(o, ...)                                                                                                  \
    char *words[] = {"sample", __VA_ARGS__};                                                                           \
    outcome o = {0};                                                                                                   \
    tc_ctx_init(&o.ctx, "sample");                                                                                     \
    o.status = tc_options_parse(&o.ctx, &table, (int)TC_COUNT(words), words, stdout, &o.options, &o.arguments)

static void test_values(void **state) {
    (void)state;
    PARSE(o, "a.onnx", "--mode=fast", "-o", "b", "--glob", "x*", "--glob=y", "-j8", "--seed=-3", "--tolerance", "1e-3",
          "--verbose", "--no-color", "-", "--", "--mode");
    assert_int_equal(o.status, TC_OK);
    assert_string_equal(o.options.mode, "fast");
    assert_string_equal(o.options.output, "b");
    assert_int_equal(o.options.n_globs, 2);
    assert_string_equal(o.options.globs[0], "x*");
    assert_string_equal(o.options.globs[1], "y");
    assert_int_equal(o.options.threads, 8);
    assert_int_equal(o.options.seed, -3);
    assert_true(o.options.tolerance == 1e-3);
    assert_true(o.options.verbose);
    assert_false(o.options.color);
    assert_int_equal(o.arguments.count, 3);
    assert_string_equal(o.arguments.items[1], "-");
    assert_string_equal(o.arguments.items[2], "--mode");
    tc_ctx_fini(&o.ctx);
}

static void test_defaults(void **state) {
    (void)state;
    PARSE(o, "--mode=");
    assert_int_equal(o.status, TC_OK);
    assert_string_equal(o.options.mode, "");
    assert_int_equal(o.options.threads, 2);
    assert_true(o.options.color);
    assert_null(o.options.output);
    tc_ctx_fini(&o.ctx);
}

static void expect_mistake(char *word, const char *message, const char *hint) {
    PARSE(o, word);
    assert_int_equal(o.status, TC_USAGE);
    assert_int_equal(o.ctx.n_diags, 1);
    assert_string_equal(o.ctx.diags[0].message, message);
    if (hint)
        assert_string_equal(o.ctx.diags[0].hint, hint);
    else
        assert_null(o.ctx.diags[0].hint);
    tc_ctx_fini(&o.ctx);
}

static void test_mistakes(void **state) {
    (void)state;
    expect_mistake("--theads=2", "unknown option --theads", "did you mean --threads? sample --help lists all options");
    expect_mistake("--zzzzzzz", "unknown option --zzzzzzz", "sample --help lists all options");
    expect_mistake("--no-mode", "unknown option --no-mode", "did you mean --mode? sample --help lists all options");
    expect_mistake("-x", "unknown option -x", "sample --help lists all options");
    expect_mistake("--output", "--output needs a value: FILE", NULL);
    expect_mistake("-o", "-o needs a value: FILE", NULL);
    expect_mistake("--verbose=1", "--verbose takes no value", "write --verbose or --no-verbose");
    expect_mistake("--threads=-1", "--threads=-1: expected a number that is not negative", NULL);
    expect_mistake("--threads=two", "--threads=two: expected a whole number", NULL);
    expect_mistake("--seed=99999999999999999999", "--seed=99999999999999999999: expected a whole number", NULL);
    expect_mistake("--tolerance=nan", "--tolerance=nan: expected a number", NULL);
}

static void test_all_mistakes_are_told(void **state) {
    (void)state;
    PARSE(o, "--output", "--threads=x", "--nonsense-option");
    assert_int_equal(o.status, TC_USAGE);
    assert_int_equal(o.ctx.n_diags, 3);
    assert_string_equal(o.ctx.diags[0].hint, "if --threads=x is the value, write --output=--threads=x");
    tc_ctx_fini(&o.ctx);
}

static const char *nearest_to(const char *word) {
    tc_nearest nearest;
    tc_nearest_begin(&nearest, word);
    static const char *const names[] = {"canonicalize", "autodiff", "upgrade", "dce"};
    for (size_t i = 0; i < TC_COUNT(names); i++)
        tc_nearest_offer(&nearest, names[i]);
    return nearest.best;
}

static void test_nearest(void **state) {
    (void)state;
    assert_string_equal(nearest_to("canonicalise"), "canonicalize");
    assert_string_equal(nearest_to("autodif"), "autodiff");
    assert_string_equal(nearest_to("ugprade"), "upgrade"); /* one swap, not two replacements */
    assert_null(nearest_to("memory"));
    assert_null(nearest_to("a-word-that-is-far-longer-than-any-name-of-an-option-or-a-pass"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),   cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_mistakes), cmocka_unit_test(test_all_mistakes_are_told),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
