/* parse.h: shared parts of the rule parser. parse.c reads rules and statements, parse_attr.c attributes and lists of
 * numbers, parse_token.c tokens, parts.c named parts. Inside passes/rules/ only. */
#ifndef TC_RULES_PARSE_H
#define TC_RULES_PARSE_H
#include "rule_ir.h"

/* A token of the rule language: names include their dots (ai.tempo.GeluGrad, y.axis). */
typedef enum token_kind { T_END, T_NAME, T_NUMBER, T_STRING, T_PUNCT } token_kind;

typedef struct rule_token {
    token_kind kind;
    const char *text; /* names, strings, marks, numbers as written; in the set's arena */
    double number;
    int64_t integer;
    bool integral;
    rule_loc loc;
} rule_token;

typedef struct rule_part {
    const char *name, **params; /* [n_params] */
    size_t n_params;
    tc_lexer text, guards; /* at the first token of each; they end where it ends */
    bool guarded, used;
    rule_loc loc;
} rule_part;

typedef struct rule_use {
    const rule_part *part;
    tc_lexer *args;            /* [n_params] */
    const struct rule_use *in; /* in whose text it is written; NULL: in the rule's own */
    uint32_t line;
} rule_use;

/* Where reading goes on after a text that was put in, and the use whose arguments count there. */
typedef struct rule_frame {
    tc_lexer back;
    const rule_use *use;
    struct rule_frame *outer;
} rule_frame;

typedef struct parser {
    tc_lexer lx; /* one token ahead of tok */
    tc_rule_set *set;
    tc_arena *arena;
    rule_token tok;
    tc_rule *rule;
    size_t cap_names, cap_match, cap_build, cap_guards, n_texts;
    bool building;       /* in a block of the right side */
    int depth;           /* of nested calls */
    tc_map *parts;       /* name -> rule_part */
    rule_frame *frame;   /* NULL: in the text of the file */
    const rule_use *use; /* the use whose text is read */
} parser;

/* A mistake at the current token, or at another place. */
#define FAIL(p, ...) rule_error(&(p)->lx, (p)->tok.loc, __VA_ARGS__)
#define FAIL_AT(p, loc, ...) rule_error(&(p)->lx, loc, __VA_ARGS__)

/* --- tokens: parse_token.c -------------------------------------------------------------------- */
tc_status rule_next(parser *p);               /* advances to the next token */
const char *rule_token_text(const parser *p); /* the current token, for messages */
bool rule_is_punct(const parser *p, const char *text);
bool rule_is_word(const parser *p, const char *text);
tc_status rule_expect(parser *p, token_kind kind, const char *text);
tc_status rule_expect_punct(parser *p, const char *text);
tc_status rule_expect_name(parser *p, const char *what, const char **out_text);
tc_status rule_take(parser *p, const char *text, bool *out_taken); /* takes the mark if it is the current token */

uint16_t rule_find_name(const tc_rule *rule, const char *text); /* RULE_NONE: the rule has no such name. parse.c */

/* --- parts.c ---------------------------------------------------------------------------------- */
tc_status rule_parse_part(parser *p);  /* after the keyword */
tc_status rule_check_parts(parser *p); /* each is used */
/* The name in hand: of a parameter or a part, its text is read next. */
tc_status rule_expand(parser *p, bool *out_entered);
tc_status rule_parse_guards(parser *p); /* parse.c */

/* `function ai.tempo.Op ... {...}`, after the keyword: skips it. function.c */
tc_status rule_parse_function(parser *p);

/* --- parse_attr.c ----------------------------------------------------------------------------- */
/* `[1, 2]`, with dim(x, 0) on the right side. `out_sizes` may be NULL: then only numbers are allowed, as in a match
 * or an attribute. */
tc_status rule_parse_ints(parser *p, const int64_t **out_ints, const rule_size **out_sizes, uint32_t *out_n);
/* `<name = value, ...>`, or nothing. The node has its ops. */
tc_status rule_parse_attrs(parser *p, rule_node *node);
#endif
