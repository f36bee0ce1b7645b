/* test_lexer.c: bytes into tokens, numbers and strings converted, mistakes told with their place. */
#include "test/unit/cases.h"
#include "compiler/text/lexer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    tc_ctx ctx;
    tc_lexer lx;
} fixture;

static void begin(fixture *f, const char *text) {
    tc_ctx_init(&f->ctx, "test");
    assert_int_equal(tc_lexer_init(&f->lx, &f->ctx, f->ctx.arena, text, strlen(text), "t.onnxt"), TC_OK);
}

/* The diagnostics as they would be printed. */
static char *printed(fixture *f) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    tc_diags_print(&f->ctx, out);
    fclose(out);
    return text;
}

TEST(tokens) {
    static const struct {
        tc_token_kind kind;
        const char *text;
    } rows[] = {
        {TC_TOKEN_IDENT, "y"},      {TC_TOKEN_MARK, "="},    {TC_TOKEN_IDENT, "com"}, {TC_TOKEN_MARK, "."},
        {TC_TOKEN_IDENT, "Op_1"},   {TC_TOKEN_MARK, "?"},    {TC_TOKEN_MARK, "|"},    {TC_TOKEN_IDENT, "_"},
        {TC_TOKEN_MARK, "@"},       {TC_TOKEN_ARROW, "=>"},  {TC_TOKEN_INT, "-12"},   {TC_TOKEN_FLOAT, "-1.5e-3"},
        {TC_TOKEN_FLOAT, "1."},     {TC_TOKEN_FLOAT, "2e5"}, {TC_TOKEN_INT, "2"},     {TC_TOKEN_IDENT, "e"},
        {TC_TOKEN_FLOAT, "-inf"},   {TC_TOKEN_IDENT, "NaN"}, {TC_TOKEN_MARK, "-"},    {TC_TOKEN_IDENT, "info"},
        {TC_TOKEN_STRING, "\"#\""}, {TC_TOKEN_MARK, ";"},    {TC_TOKEN_END, ""},
    };
    fixture f;
    begin(&f, "y=com.Op_1?|_@=> -12 -1.5e-3 1. 2e5 2 e # \"comment\n -inf NaN -info \"#\" ; # end");
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        assert_int_equal(f.lx.token.kind, rows[i].kind);
        assert_int_equal(f.lx.token.size, strlen(rows[i].text));
        assert_memory_equal(f.lx.token.start, rows[i].text, f.lx.token.size);
        assert_int_equal(tc_lexer_next(&f.lx), TC_OK);
    }
    tc_ctx_fini(&f.ctx);
}

TEST(places) {
    fixture f;
    begin(&f, "a\n \"two\nlines\" b");
    assert_int_equal(tc_lexer_next(&f.lx), TC_OK);
    assert_int_equal(f.lx.token.line, 2);
    assert_int_equal(tc_token_column(f.lx.token), 2);
    assert_int_equal(tc_lexer_next(&f.lx), TC_OK);
    assert_int_equal(f.lx.token.line, 3);
    assert_int_equal(tc_token_column(f.lx.token), 8);
    tc_ctx_fini(&f.ctx);
}

TEST(strings_take_any_byte) {
    static const char text[] = "\"a\\\"b\\\\c\\n\n\0\xFF\" x";
    fixture f;
    tc_ctx_init(&f.ctx, "test");
    assert_int_equal(tc_lexer_init(&f.lx, &f.ctx, f.ctx.arena, text, sizeof text - 1, "t"), TC_OK);
    tc_bytes s;
    assert_int_equal(tc_lexer_string(&f.lx, "a string", &s), TC_OK);
    assert_int_equal(s.size, 9);
    assert_memory_equal(s.data, "a\"b\\cn\n\0\xFF", 9);
    assert_true(tc_lexer_is_word(&f.lx, "x"));
    tc_ctx_fini(&f.ctx);
}

TEST(numbers_are_exact) {
    fixture f;
    begin(&f, "-9223372036854775808 18446744073709551615 16777217 -0 -nan 1e-46 0.1");
    int64_t i;
    uint64_t u;
    float x;
    double d;
    assert_int_equal(tc_lexer_int(&f.lx, "n", &i), TC_OK);
    assert_true(i == INT64_MIN);
    assert_int_equal(tc_lexer_uint(&f.lx, "n", &u), TC_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(tc_lexer_float(&f.lx, "n", &x), TC_OK);
    assert_true(x == 16777216.0f);
    assert_int_equal(tc_lexer_float(&f.lx, "n", &x), TC_OK);
    assert_true(x == 0 && signbit(x));
    assert_int_equal(tc_lexer_double(&f.lx, "n", &d), TC_OK);
    assert_true(isnan(d) && signbit(d));
    assert_int_equal(tc_lexer_float(&f.lx, "n", &x), TC_OK);
    assert_true(x == 0);
    assert_int_equal(tc_lexer_double(&f.lx, "n", &d), TC_OK);
    assert_true(d == 0.1);
    tc_ctx_fini(&f.ctx);
}

/* Each text goes wrong; the message names the place and shows it. */
TEST(mistakes_show_their_place) {
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"x = (", "t.onnxt:1:5: error: an identifier was expected, found '('\n    x = (\n        ^\n"},
        {"x =", "t.onnxt:1:4: error: an identifier was expected, found the end of the text\n    x =\n       ^\n"},
        {"x\n\t= 12", "t.onnxt:2:4: error: an identifier was expected, found '12'\n     = 12\n       ^\n"},
        {"x = \"ab\ncd",
         "t.onnxt:1:5: error: this string has no end: a closing quote was expected\n    x = \"ab\n        ^\n"},
        {"x = \xC3\xA9", "t.onnxt:1:5: error: byte 0xC3 starts nothing here: names outside of ASCII stand in quotes\n"
                         "    x = \xC3\xA9\n        ^\n"},
    };
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        fixture f;
        const char *ident;
        begin(&f, rows[i].text);
        tc_status status = tc_lexer_next(&f.lx);
        if (status == TC_OK)
            status = tc_lexer_expect(&f.lx, '=');
        if (status == TC_OK)
            status = tc_lexer_ident(&f.lx, "an identifier", &ident);
        assert_int_equal(status, TC_BAD_INPUT);
        char *text = printed(&f);
        assert_string_equal(text, rows[i].message);
        free(text);
        tc_ctx_fini(&f.ctx);
    }
}

TEST(names_are_text) {
    static const char *const bad[] = {"\"\xFF\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"",
                                      "\"\xE2\x82\""};
    const char *name;
    for (size_t i = 0; i < TC_COUNT(bad); i++) {
        fixture f;
        begin(&f, bad[i]);
        assert_int_equal(tc_lexer_name(&f.lx, "a name", &name), TC_BAD_INPUT);
        tc_ctx_fini(&f.ctx);
    }
    fixture f;
    begin(&f, "\"/bert/\xE2\x82\xAC \xF0\x9F\x98\x80\"");
    assert_int_equal(tc_lexer_name(&f.lx, "a name", &name), TC_OK);
    assert_string_equal(name, "/bert/\xE2\x82\xAC \xF0\x9F\x98\x80");
    tc_ctx_fini(&f.ctx);
}

TEST(looking_ahead_consumes_nothing) {
    fixture f;
    begin(&f, "a : \"unfinished");
    assert_int_equal(tc_lexer_peek(&f.lx).mark, ':');
    assert_true(tc_lexer_accept_word(&f.lx, "a"));
    assert_int_equal(tc_lexer_peek(&f.lx).kind, TC_TOKEN_END);
    assert_int_equal(f.ctx.n_diags, 0);
    assert_true(tc_lexer_accept(&f.lx, ':'));
    assert_int_equal(f.ctx.n_diags, 1);
    assert_int_equal(tc_lexer_expect(&f.lx, ':'), TC_BAD_INPUT);
    assert_int_equal(f.ctx.n_diags, 1);
    tc_ctx_fini(&f.ctx);
}
