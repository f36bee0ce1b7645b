/* lexer.c: ONNX text into tokens. One pass over the bytes; a token is read when the one before it is consumed, and its
 * value is converted only when asked for. Numbers are converted under the "C" locale that tc_lexer_init's caller has
 * (tempoc never sets another), through a copy, because the text need not end in NUL. */
#include "lexer.h"
#include "compiler/base/base.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { EXCERPT_LIMIT = 100 }; /* bytes of a line that an error shows */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_word(char c) { return is_alpha(c) || is_digit(c) || c == '_'; }

/* --- finding tokens --------------------------------------------------------------------------- */

static void new_line(tc_lexer *lx, const char *at) {
    lx->line++;
    lx->line_start = at;
}

static void skip_space(tc_lexer *lx) {
    for (; lx->pos < lx->end; lx->pos++) {
        if (*lx->pos == '#') {
            const char *eol = memchr(lx->pos, '\n', (size_t)(lx->end - lx->pos));
            lx->pos = eol ? eol : lx->end;
            if (!eol)
                return;
        }
        if (!is_space(*lx->pos))
            return;
        if (*lx->pos == '\n')
            new_line(lx, lx->pos + 1);
    }
}

static const char *skip_while(const tc_lexer *lx, const char *p, bool (*is)(char)) {
    while (p < lx->end && is(*p))
        p++;
    return p;
}

/* "inf", "infinity" or "nan" in any case. */
static bool is_special(const char *start, size_t size) {
    static const char *const words[] = {"inf", "nan", "infinity"};
    for (size_t i = 0; i < TC_COUNT(words); i++)
        if (strlen(words[i]) == size && strncasecmp(words[i], start, size) == 0)
            return true;
    return false;
}

static const char *lex_number(const tc_lexer *lx, const char *p, tc_token_kind *kind) {
    *kind = TC_TOKEN_INT;
    p = skip_while(lx, p, is_digit);
    if (p < lx->end && *p == '.') {
        *kind = TC_TOKEN_FLOAT;
        p = skip_while(lx, p + 1, is_digit);
    }
    if (p < lx->end && (*p == 'e' || *p == 'E')) {
        const char *digits = p + 1;
        if (digits < lx->end && (*digits == '+' || *digits == '-'))
            digits++;
        if (digits < lx->end && is_digit(*digits)) {
            *kind = TC_TOKEN_FLOAT;
            p = skip_while(lx, digits, is_digit);
        }
    }
    return p;
}

/* The end of the string that starts at `p`, or NULL; counts its lines. */
static const char *lex_string(tc_lexer *lx, const char *p, bool *escaped) {
    for (p++; p < lx->end; p++) {
        if (*p == '"')
            return p + 1;
        if (*p == '\\') {
            *escaped = true;
            if (++p == lx->end)
                return NULL;
        }
        if (*p == '\n')
            new_line(lx, p + 1);
    }
    return NULL;
}

/* The kind of the token at `start` and its end; NULL: the text is wrong there. */
static const char *lex(tc_lexer *lx, const char *start, tc_token *token) {
    const char *p = start, *next = p + 1;
    if (is_alpha(*p) || *p == '_') {
        token->kind = TC_TOKEN_IDENT;
        return skip_while(lx, p, is_word);
    }
    if (is_digit(*p) || (*p == '-' && next < lx->end && is_digit(*next)))
        return lex_number(lx, is_digit(*p) ? p : next, &token->kind);
    if (*p == '"') {
        token->kind = TC_TOKEN_STRING;
        return lex_string(lx, p, &token->escaped);
    }
    if (*p == '=' && next < lx->end && *next == '>') {
        token->kind = TC_TOKEN_ARROW;
        return next + 1;
    }
    if (*p == '-') {
        const char *word_end = skip_while(lx, next, is_word);
        if (is_special(next, (size_t)(word_end - next))) {
            token->kind = TC_TOKEN_FLOAT;
            return word_end;
        }
    }
    token->kind = TC_TOKEN_MARK;
    token->mark = *p;
    return *p > 0x20 && *p < 0x7F ? next : NULL;
}

static bool advance(tc_lexer *lx) {
    skip_space(lx);
    tc_token token = {.start = lx->pos, .line = lx->line, .line_start = lx->line_start};
    const char *stop = lx->pos;
    if (lx->pos < lx->end)
        stop = lex(lx, lx->pos, &token);
    lx->token = token;
    if (stop) {
        lx->token.size = (size_t)(stop - token.start);
        lx->pos = stop;
        return true;
    }
    lx->pos = lx->end;
    return false;
}

tc_status tc_lexer_next(tc_lexer *lx) {
    if (advance(lx))
        return TC_OK;
    tc_token token = lx->token;
    lx->token = (tc_token){.start = lx->end, .line = token.line, .line_start = token.line_start};
    if (token.kind == TC_TOKEN_STRING)
        tc_lexer_error_at(lx, token, TC_BAD_INPUT, "this string has no end: a closing quote was expected");
    else
        tc_lexer_error_at(lx, token, TC_BAD_INPUT,
                          "byte 0x%02X starts nothing here: names outside of ASCII stand in quotes",
                          (unsigned)(unsigned char)*token.start);
    lx->failed = true;
    return TC_BAD_INPUT;
}

tc_status tc_lexer_init(tc_lexer *lx, tc_ctx *ctx, tc_arena *arena, const char *text, size_t size, const char *name) {
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    if (size >= 3 && memcmp(text, byte_order_mark, 3) == 0) {
        text += 3;
        size -= 3;
    }
    *lx = (tc_lexer){.ctx = ctx,
                     .arena = arena,
                     .name = name,
                     .text = text,
                     .pos = text,
                     .end = text + size,
                     .line = 1,
                     .line_start = text};
    return tc_lexer_next(lx);
}

/* --- questions -------------------------------------------------------------------------------- */

bool tc_lexer_is(const tc_lexer *lx, char mark) { return lx->token.kind == TC_TOKEN_MARK && lx->token.mark == mark; }

bool tc_lexer_is_word(const tc_lexer *lx, const char *word) {
    return lx->token.kind == TC_TOKEN_IDENT && lx->token.size == strlen(word) &&
           memcmp(lx->token.start, word, lx->token.size) == 0;
}

bool tc_lexer_is_number(const tc_lexer *lx) {
    const tc_token *t = &lx->token;
    return t->kind == TC_TOKEN_INT || t->kind == TC_TOKEN_FLOAT ||
           (t->kind == TC_TOKEN_IDENT && is_special(t->start, t->size));
}

tc_token tc_lexer_peek(const tc_lexer *lx) {
    tc_lexer ahead = *lx;
    return advance(&ahead) ? ahead.token : (tc_token){0};
}

/* --- consuming -------------------------------------------------------------------------------- */

/* A wrong token after the accepted one has been reported already: the next question finds END and fails without a
 * second message. */
bool tc_lexer_accept(tc_lexer *lx, char mark) {
    if (!tc_lexer_is(lx, mark))
        return false;
    (void)tc_lexer_next(lx);
    return true;
}

bool tc_lexer_accept_word(tc_lexer *lx, const char *word) {
    if (!tc_lexer_is_word(lx, word))
        return false;
    (void)tc_lexer_next(lx);
    return true;
}

tc_status tc_lexer_expect(tc_lexer *lx, char mark) {
    if (!tc_lexer_is(lx, mark))
        return tc_lexer_error(lx, "'%c' was expected, found %s", mark, tc_token_text(lx, lx->token));
    return tc_lexer_next(lx);
}

tc_status tc_lexer_expect_arrow(tc_lexer *lx) {
    if (lx->token.kind != TC_TOKEN_ARROW)
        return tc_lexer_error(lx, "'=>' was expected, found %s", tc_token_text(lx, lx->token));
    return tc_lexer_next(lx);
}

static tc_status expected(tc_lexer *lx, const char *what) {
    return tc_lexer_error(lx, "%s was expected, found %s", what, tc_token_text(lx, lx->token));
}

tc_status tc_lexer_ident(tc_lexer *lx, const char *what, const char **out_ident) {
    if (lx->token.kind != TC_TOKEN_IDENT)
        return expected(lx, what);
    *out_ident = tc_arena_strndup(lx->arena, lx->token.start, lx->token.size);
    return tc_lexer_next(lx);
}

static tc_bytes unquote(tc_lexer *lx, tc_token token) {
    const char *from = token.start + 1, *stop = token.start + token.size - 1;
    char *out = tc_arena_strndup(lx->arena, from, (size_t)(stop - from));
    if (!token.escaped)
        return (tc_bytes){out, (size_t)(stop - from)};
    char *to = out;
    for (; from < stop; from++)
        *to++ = *from == '\\' ? *++from : *from;
    *to = '\0';
    return (tc_bytes){out, (size_t)(to - out)};
}

tc_status tc_lexer_string(tc_lexer *lx, const char *what, tc_bytes *out_string) {
    if (lx->token.kind != TC_TOKEN_STRING)
        return expected(lx, what);
    *out_string = unquote(lx, lx->token);
    return tc_lexer_next(lx);
}

tc_status tc_lexer_name(tc_lexer *lx, const char *what, const char **out_name) {
    if (lx->token.kind != TC_TOKEN_STRING)
        return tc_lexer_ident(lx, what, out_name);
    tc_bytes name = unquote(lx, lx->token);
    for (size_t i = 0, n; i < name.size; i += n) {
        n = tc_utf8_length(name.data + i, name.size - i);
        if (n == 0 || name.data[i] == 0)
            return tc_lexer_error(lx, "byte %zu of this name is NUL or no UTF-8", i + 1);
    }
    *out_name = name.data;
    return tc_lexer_next(lx);
}

/* The token's bytes with a NUL after them. */
static const char *digits(tc_lexer *lx, char *buffer, size_t size) {
    const tc_token *t = &lx->token;
    if (t->size >= size)
        return tc_arena_strndup(lx->arena, t->start, t->size);
    memcpy(buffer, t->start, t->size);
    buffer[t->size] = '\0';
    return buffer;
}

tc_status tc_lexer_int(tc_lexer *lx, const char *what, int64_t *out_value) {
    char buffer[32];
    if (lx->token.kind != TC_TOKEN_INT)
        return expected(lx, what);
    errno = 0;
    *out_value = strtoll(digits(lx, buffer, sizeof buffer), NULL, 10);
    if (errno)
        return tc_lexer_error(lx, "this number does not fit in 64 bits with a sign");
    return tc_lexer_next(lx);
}

tc_status tc_lexer_uint(tc_lexer *lx, const char *what, uint64_t *out_value) {
    char buffer[32];
    if (lx->token.kind != TC_TOKEN_INT)
        return expected(lx, what);
    errno = 0;
    *out_value = strtoull(digits(lx, buffer, sizeof buffer), NULL, 10);
    if (errno || *lx->token.start == '-')
        return tc_lexer_error(lx, "this number does not fit in 64 bits without a sign");
    return tc_lexer_next(lx);
}

tc_status tc_lexer_float(tc_lexer *lx, const char *what, float *out_value) {
    char buffer[64];
    if (!tc_lexer_is_number(lx))
        return expected(lx, what);
    *out_value = strtof(digits(lx, buffer, sizeof buffer), NULL);
    if (isinf(*out_value) && is_digit(lx->token.start[lx->token.size - 1]))
        return tc_lexer_error(lx, "this number is too large for a float");
    return tc_lexer_next(lx);
}

tc_status tc_lexer_double(tc_lexer *lx, const char *what, double *out_value) {
    char buffer[64];
    if (!tc_lexer_is_number(lx))
        return expected(lx, what);
    *out_value = strtod(digits(lx, buffer, sizeof buffer), NULL);
    if (isinf(*out_value) && is_digit(lx->token.start[lx->token.size - 1]))
        return tc_lexer_error(lx, "this number is too large for a double");
    return tc_lexer_next(lx);
}

/* --- errors ----------------------------------------------------------------------------------- */

uint32_t tc_token_column(tc_token token) { return (uint32_t)(token.start - token.line_start) + 1; }

const char *tc_token_text(tc_lexer *lx, tc_token token) {
    if (token.kind == TC_TOKEN_END)
        return "the end of the text";
    const char *text = tc_quote(lx->ctx, tc_arena_strndup(lx->ctx->arena, token.start, token.size));
    return token.kind == TC_TOKEN_STRING ? text : tc_arena_printf(lx->ctx->arena, "'%s'", text);
}

/* The line of the token and a caret below its first character; of long lines the part around it. Tabs become blanks. */
static const char *excerpt(tc_lexer *lx, tc_token token) {
    const char *from = token.line_start;
    const char *eol = memchr(from, '\n', (size_t)(lx->end - from));
    if (!eol)
        eol = lx->end;
    if (eol < token.start)
        eol = token.start;
    if (token.start - from > EXCERPT_LIMIT / 2)
        from = token.start - EXCERPT_LIMIT / 2;
    while (from < token.start && ((unsigned char)*from & 0xC0) == 0x80)
        from++; /* never begin inside a UTF-8 sequence */
    if (eol - from > EXCERPT_LIMIT)
        eol = from + EXCERPT_LIMIT;
    char *line = tc_arena_strndup(lx->ctx->arena, from, (size_t)(eol - from));
    size_t indent = 0;
    for (char *p = line; p < line + (eol - from); p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = ' ';
        if (p - line < token.start - from && ((unsigned char)*p & 0xC0) != 0x80)
            indent++;
    }
    return tc_arena_printf(lx->ctx->arena, "    %s\n    %*s^\n", line, (int)indent, "");
}

/* After an invalid token everything else is wrong too, and the message has been given. */
static tc_status error_at(tc_lexer *lx, tc_token token, tc_status status, const char *fmt, va_list args) {
    if (lx->failed)
        return TC_BAD_INPUT;
    const char *where = tc_arena_printf(lx->ctx->arena, "%s:%" PRIu32 ":%" PRIu32, tc_quote(lx->ctx, lx->name),
                                        token.line, tc_token_column(token));
    return tc_error_at(lx->ctx, status, where, excerpt(lx, token), fmt, args);
}

tc_status tc_lexer_error(tc_lexer *lx, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    tc_status status = error_at(lx, lx->token, TC_BAD_INPUT, fmt, args);
    va_end(args);
    return status;
}

tc_status tc_lexer_error_at(tc_lexer *lx, tc_token token, tc_status status, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    status = error_at(lx, token, status, fmt, args);
    va_end(args);
    return status;
}
