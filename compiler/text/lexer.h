/* lexer.h: ONNX text (onnx docs/Syntax.md) into tokens, with the place of each. The parser of models and the parser of
 * rewrite rules both use it. Rules use marks that ONNX text does not (`?` `|` `@` `;` ...), so every printable
 * character that starts nothing else is a token of its own. White space and comments (`#` to the end of the line) are
 * skipped.
 *
 *     tc_lexer lx;
 *     TC_TRY(tc_lexer_init(&lx, ctx, arena, text, size, "activation.rules"));
 *     TC_TRY(tc_lexer_expect(&lx, '('));
 *     TC_TRY(tc_lexer_name(&lx, "a value's name", &name));
 *
 * `lx.token` is the token not yet consumed. A lexer is a plain value: to look ahead, copy it and copy it back. */
#ifndef TC_LEXER_H
#define TC_LEXER_H
#include "compiler/ir/ir.h"

typedef enum tc_token_kind {
    TC_TOKEN_END,
    TC_TOKEN_IDENT,  /* [A-Za-z_][A-Za-z0-9_]* */
    TC_TOKEN_INT,    /* -?[0-9]+ */
    TC_TOKEN_FLOAT,  /* with a point or an exponent, or -inf, -infinity, -nan; without the sign those three are IDENT */
    TC_TOKEN_STRING, /* "...", a backslash takes the next character as it is; may hold any byte, line breaks included */
    TC_TOKEN_ARROW,  /* => */
    TC_TOKEN_MARK,   /* any other character: `mark` */
} tc_token_kind;

typedef struct tc_token {
    tc_token_kind kind;
    char mark;         /* of TC_TOKEN_MARK; 0 for the others */
    bool escaped;      /* a string with backslashes */
    const char *start; /* in the text; strings with their quotes */
    size_t size;
    uint32_t line; /* from 1 */
    const char *line_start;
} tc_token;

typedef struct tc_lexer {
    tc_ctx *ctx;
    tc_arena *arena;  /* of the names and strings handed out */
    const char *name; /* of the text, for messages */
    const char *text, *pos, *end;
    uint32_t line;
    const char *line_start;
    tc_token token;
    bool failed; /* the text ends inside a string or holds a byte that starts nothing: `token` is END and the error is
                   reported */
} tc_lexer;

/* `text` need not end in NUL and must outlive the lexer; no result points into it. */
tc_status tc_lexer_init(tc_lexer *lx, tc_ctx *ctx, tc_arena *arena, const char *text, size_t size, const char *name);
tc_status tc_lexer_next(tc_lexer *lx); /* consumes lx->token */

/* Questions about lx->token. */
bool tc_lexer_is(const tc_lexer *lx, char mark);
bool tc_lexer_is_word(const tc_lexer *lx, const char *word);
/* A number: INT, FLOAT, or the identifiers inf, infinity, nan in any case. */
bool tc_lexer_is_number(const tc_lexer *lx);
/* The kind of the token after this one, and its mark; END where the text goes wrong there. */
tc_token tc_lexer_peek(const tc_lexer *lx);

/* Consumes the token if it is the mark (the word). */
bool tc_lexer_accept(tc_lexer *lx, char mark);
bool tc_lexer_accept_word(tc_lexer *lx, const char *word);
/* ... and it is an error if it is not. */
tc_status tc_lexer_expect(tc_lexer *lx, char mark);
tc_status tc_lexer_expect_arrow(tc_lexer *lx);

/* Consume and convert one token. `what` names the expected token, for the message: "an attribute's name". */
tc_status tc_lexer_ident(tc_lexer *lx, const char *what, const char **out_ident);
tc_status tc_lexer_name(tc_lexer *lx, const char *what, const char **out_name); /* IDENT or STRING; UTF-8 without NUL */
tc_status tc_lexer_string(tc_lexer *lx, const char *what, tc_bytes *out_string); /* any bytes, NUL added after them */
tc_status tc_lexer_int(tc_lexer *lx, const char *what, int64_t *out_value);
tc_status tc_lexer_uint(tc_lexer *lx, const char *what, uint64_t *out_value);
tc_status tc_lexer_float(tc_lexer *lx, const char *what,
                         float *out_value); /* INT and FLOAT; correctly rounded; -0 stays -0 */
tc_status tc_lexer_double(tc_lexer *lx, const char *what, double *out_value);

/* TC_BAD_INPUT at a token (at lx->token by tc_lexer_error): NAME:LINE:COLUMN: error: ..., the line, and a caret below
 * it. */
tc_status tc_lexer_error(tc_lexer *lx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
tc_status tc_lexer_error_at(tc_lexer *lx, tc_token token, tc_status status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
uint32_t tc_token_column(tc_token token); /* from 1, in bytes */
/* The current token, for messages: `'('`, `"name"`, `end of text`. */
const char *tc_token_text(tc_lexer *lx, tc_token token);
#endif
