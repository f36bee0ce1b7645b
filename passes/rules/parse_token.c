/* parse_token.c: the bytes of a rule file as tokens of the rule language, which are those of ONNX text
 * (compiler/text/lexer.h) with names joined over their dots; and the errors for unexpected tokens. */
#include "parse.h"
#include <stdarg.h>
#include <string.h>

tc_status rule_error(tc_lexer *lx, rule_loc loc, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    tc_lexer whole = *lx; /* a part's ends early */
    whole.end = lx->text + strlen(lx->text);
    return tc_lexer_error_at(&whole, loc, TC_BAD_INPUT, "%s", text);
}

/* Joins IDENT ('.' IDENT)* if there is no space between them. */
static tc_status next_name(parser *p) {
    const char *start = p->lx.token.start, *end;
    p->tok.kind = T_NAME;
    for (;;) {
        end = p->lx.token.start + p->lx.token.size;
        TC_TRY(tc_lexer_next(&p->lx));
        if (!tc_lexer_is(&p->lx, '.') || p->lx.token.start != end || tc_lexer_peek(&p->lx).kind != TC_TOKEN_IDENT)
            break;
        TC_TRY(tc_lexer_next(&p->lx));
    }
    p->tok.text = tc_arena_strndup(p->arena, start, (size_t)(end - start));
    return TC_OK;
}

static tc_status next_token(parser *p) {
    tc_token token = p->lx.token;
    p->tok = (rule_token){.loc = token};
    p->tok.text = tc_arena_strndup(p->arena, token.start, token.size);
    switch (token.kind) {
    case TC_TOKEN_END: return p->lx.failed ? TC_BAD_INPUT : TC_OK;
    case TC_TOKEN_IDENT: return next_name(p);
    case TC_TOKEN_STRING: {
        tc_bytes bytes;
        p->tok.kind = T_STRING;
        TC_TRY(tc_lexer_string(&p->lx, "a string", &bytes));
        p->tok.text = bytes.data;
        return TC_OK;
    }
    case TC_TOKEN_INT:
        p->tok.kind = T_NUMBER;
        p->tok.integral = true;
        TC_TRY(tc_lexer_int(&p->lx, "an integer", &p->tok.integer));
        p->tok.number = (double)p->tok.integer;
        return TC_OK;
    case TC_TOKEN_FLOAT: p->tok.kind = T_NUMBER; return tc_lexer_double(&p->lx, "a number", &p->tok.number);
    default: p->tok.kind = T_PUNCT; return tc_lexer_next(&p->lx);
    }
}

tc_status rule_next(parser *p) {
    bool entered = true;
    while (entered) {
        for (; p->lx.token.kind == TC_TOKEN_END && p->frame; p->frame = p->frame->outer) {
            p->lx = p->frame->back;
            p->use = p->frame->use;
        }
        TC_TRY(next_token(p));
        entered = false;
        if (p->tok.kind == T_NAME)
            TC_TRY(rule_expand(p, &entered));
    }
    return TC_OK;
}

const char *rule_token_text(const parser *p) {
    return p->tok.kind == T_END ? "the end of the file" : tc_quote(p->lx.ctx, p->tok.text);
}
bool rule_is_punct(const parser *p, const char *text) { return p->tok.kind == T_PUNCT && !strcmp(p->tok.text, text); }
bool rule_is_word(const parser *p, const char *text) { return p->tok.kind == T_NAME && !strcmp(p->tok.text, text); }

tc_status rule_expect(parser *p, token_kind kind, const char *text) {
    if (p->tok.kind != kind || strcmp(p->tok.text, text) != 0)
        return FAIL(p, "expected '%s' before '%s'%s", text, rule_token_text(p),
                    rule_is_punct(p, "(") ? ": there is no part of this name" : "");
    return rule_next(p);
}
tc_status rule_expect_punct(parser *p, const char *text) { return rule_expect(p, T_PUNCT, text); }

/* Takes the punctuation if it is next. */
tc_status rule_take(parser *p, const char *text, bool *out_taken) {
    *out_taken = rule_is_punct(p, text);
    return *out_taken ? rule_next(p) : TC_OK;
}

tc_status rule_expect_name(parser *p, const char *what, const char **out_text) {
    if (p->tok.kind != T_NAME)
        return FAIL(p, "expected %s before '%s'", what, rule_token_text(p));
    *out_text = p->tok.text;
    return rule_next(p);
}
