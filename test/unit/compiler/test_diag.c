/* test_diag.c: names in messages: whole characters, at most 120 bytes, and nothing that a terminal obeys. */
#include "test/unit/cases.h"
#include "compiler/base/base.h"
#include <stdlib.h>
#include <string.h>
// clang-format off
// clang-format on

TEST(quote) {
    static const char *const cases[][2] = {
        {"", ""},
        {"/m/layer.0/MatMul_1", "/m/layer.0/MatMul_1"},
        {"Gr\xC3\xB6\xC3\x9F"
         "e \xE2\x82\xAC \xF0\x9F\x98\x80",
         "Gr\xC3\xB6\xC3\x9F"
         "e \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"a\nb\x1B[2J\x7F", "a\\x0A"
                            "b\\x1B[2J\\x7F"},
        {"\xC2\x9B"
         "2J",
         "\\xC2\\x9B"
         "2J"},                     /* CSI in one character of C1 */
        {"\x94\xFF", "\\x94\\xFF"}, /* no UTF-8 */
        {"cut \xE2\x82", "cut \\xE2\\x82"},
        {"\xC0\xAF \xED\xA0\x80", "\\xC0\\xAF \\xED\\xA0\\x80"}, /* overlong; a surrogate */
    };
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    for (size_t i = 0; i < TC_COUNT(cases); i++)
        assert_string_equal(tc_quote(&ctx, cases[i][0]), cases[i][1]);
    tc_ctx_fini(&ctx);
}

TEST(quote_cuts_between_characters) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    char text[400];
    for (size_t lead = 116; lead <= 121; lead++) {
        memset(text, 'a', lead);
        strcpy(text + lead, "\xE2\x82\xAC");
        const char *got = tc_quote(&ctx, text);
        size_t kept = lead <= 117 ? lead + 3 : lead <= 120 ? lead : 120;
        assert_memory_equal(got, text, kept);
        assert_string_equal(got + kept, lead <= 117 ? "" : "...");
    }
    memset(text, 1, 120);
    text[120] = 0;
    assert_int_equal(strlen(tc_quote(&ctx, text)), 480);
    tc_ctx_fini(&ctx);
}

TEST(print) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    tc_error(&ctx, TC_BAD_INPUT, NULL, "value \xC2\x9B\x94\x1B is \xC3\xB6");
    tc_hint(&ctx, "no \a");
    tc_diags_print(&ctx, out);
    fclose(out);
    assert_string_equal(text, "test: error: value \\xC2\\x9B\\x94\\x1B is \xC3\xB6; hint: no \\x07\n");
    free(text);
    tc_ctx_fini(&ctx);
}
