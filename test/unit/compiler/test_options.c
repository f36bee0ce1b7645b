/* Command lines from tables: values, defaults, switches, lists, mistakes and the suggestions for them. */
#include "test/unit/cases.h"
#include "compiler/cli/cli.h"
#include "compiler/base/base.h"
#include <string.h>

typedef struct sample {
    const char *output, *mode;
    const char **globs;
    size_t n_globs;
    int64_t threads, seed;
    double tolerance, wait;
    uint64_t room;
    bool verbose, color, no_cache;
} sample;

#define ROW(...) TC_OPTION(sample, USUAL, __VA_ARGS__, "Group", "help")

static const tc_option rows[] = {
    ROW(STRING, output, output, "output", 'o', "FILE", NULL),
    ROW(STRING, mode, mode, "mode", 0, "MODE", "plain"),
    ROW(LIST, globs, n_globs, "glob", 0, "GLOB", NULL),
    ROW(COUNT, threads, threads, "threads", 'j', "N", "2"),
    ROW(INT, seed, seed, "seed", 0, "N", NULL),
    ROW(NUMBER, tolerance, tolerance, "tolerance", 0, "X", NULL),
    ROW(BYTES, room, room, "room", 0, "AMOUNT", NULL),
    ROW(SECONDS, wait, wait, "wait", 0, "SECONDS", NULL),
    ROW(SWITCH, no_cache, no_cache, "no-cache", 0, NULL, NULL),
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

TEST(values) {
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

TEST(defaults) {
    PARSE(o, "--mode=");
    assert_int_equal(o.status, TC_OK);
    assert_string_equal(o.options.mode, "");
    assert_int_equal(o.options.threads, 2);
    assert_true(o.options.color);
    assert_null(o.options.output);
    tc_ctx_fini(&o.ctx);
}

/* Amounts as GNU coreutils counts them, as `numfmt --from=iec-i`, `--from=iec` and `--from=si` do. */
TEST(amounts) {
    const char *left =
        "4096:4096 16GiB:17179869184 16_GiB:17179869184 16G:17179869184 16gib:17179869184 16GB:16000000000 "
        "1.5GiB:1610612736 512M:536870912 2.5kB:2500 1e9:1000000000 4611686018427387904:4611686018427387904 "
        "4611686018427387905:0 0:0 -1G:0 1,5G:0 16Gb/s:0 50%:0 0x10:0 5000000T:0 GiB:0"; /* 0: none */
    char word[64] = "--room=";
    unsigned long long bytes;
    for (int n; sscanf(left, "%50[^:]:%llu %n", word + 7, &bytes, &n) == 2; left += n) {
        char *blank = strchr(word, '_');
        if (blank)
            *blank = ' ';
        PARSE(o, word);
        assert_int_equal(o.status, bytes ? TC_OK : TC_USAGE);
        assert_true(!bytes || o.options.room == bytes);
        tc_ctx_fini(&o.ctx);
    }
    assert_int_equal(*left, 0);
}

TEST(spellings) {
    PARSE(o, "--threads=1e4", "--seed=-1,000", "--wait=1.5m", "--verbose=yes", "--color=0", "--cache=off", "--verbose",
          "off", "0");
    assert_int_equal(o.status, TC_OK);
    assert_int_equal(o.options.threads, 10000);
    assert_int_equal(o.options.seed, -1000);
    assert_true(o.options.wait == 90);
    assert_false(o.options.verbose || o.options.color);
    assert_true(o.options.no_cache);
    assert_int_equal(o.arguments.count, 1);
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

TEST(mistakes) {
    expect_mistake("--theads=2", "unknown option --theads",
                   "did you mean --threads? sample --help=all lists all options");
    expect_mistake("--zzzzzzz", "unknown option --zzzzzzz", "sample --help=all lists all options");
    expect_mistake("--no-mode", "unknown option --no-mode", "did you mean --mode? sample --help=all lists all options");
    expect_mistake("-x", "unknown option -x", "sample --help=all lists all options");
    expect_mistake("--output", "--output needs a value: FILE", NULL);
    expect_mistake("-o", "-o needs a value: FILE", NULL);
    expect_mistake("--verbose=maybe", "--verbose=maybe: expected on or off", NULL);
    expect_mistake("--wait=-1", "--wait=-1: expected a time: seconds, or 90s, 2m, 1.5h or 500ms", NULL);
    expect_mistake("--mode-of-work=2", "unknown option --mode-of-work",
                   "did you mean --mode? sample --help=all lists all options");
    expect_mistake("--thr=2", "unknown option --thr", "did you mean --threads? sample --help=all lists all options");
    expect_mistake("--no-color=maybe", "--color=maybe: expected on or off", NULL);
    expect_mistake("--room=1,5G", "--room=1,5G: expected " TC_BYTES_USAGE, NULL);
    expect_mistake("--threads=-1", "--threads=-1: expected a number that is not negative", NULL);
    expect_mistake("--threads=two", "--threads=two: expected a whole number, such as 1000 or 1e3", NULL);
    expect_mistake("--threads=1,00", "--threads=1,00: expected a whole number, such as 1000 or 1e3", NULL);
    expect_mistake("--threads=1.5", "--threads=1.5: expected a whole number, such as 1000 or 1e3", NULL);
    expect_mistake("--seed=99999999999999999999",
                   "--seed=99999999999999999999: expected a whole number, such as 1000 or 1e3", NULL);
    expect_mistake("--tolerance=nan", "--tolerance=nan: expected a number, such as 0.1 or 1e-4", NULL);
}

TEST(all_mistakes_are_told) {
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

TEST(nearest) {
    assert_string_equal(nearest_to("canonicalise"), "canonicalize");
    assert_string_equal(nearest_to("autodif"), "autodiff");
    assert_string_equal(nearest_to("ugprade"), "upgrade"); /* one swap, not two replacements */
    assert_string_equal(nearest_to("canon"), "canonicalize");
    assert_null(nearest_to("memory"));
    assert_null(nearest_to("a-word-that-is-far-longer-than-any-name-of-an-option-or-a-pass"));
}
