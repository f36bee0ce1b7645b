/* parse.c: rule text to rule_ir.h, by recursive descent over the grammar of docs/rules.md:
 *
 *     file     ::= (rule | gradient)*
 *     rule     ::= 'rule' ID STRING? ('inexact' | 'benefit' '=' INT)* 'match' params '=>' names block where? 'replace' block
 *     gradient ::= 'gradient' OP '(' params ';' names ';' names ')' '=>' '(' names ')' where? block
 *     block    ::= '{' (names '=' (call | operand))* '}'
 *     call     ::= OP ('|' OP)* ('?' | '*')? ('<' attr, ... '>')? '(' operand, ... ')'
 *     operand  ::= call | ID | '_' | NUMBER | '[' (INT | 'dim' '(' ID ',' INT ')'), ... ']' | '(' operand ('or' operand)+ ')'
 *     where    ::= 'where' '!'? ID '(' arg, ... ')', ...
 *
 * Every mistake is told with file:line:column and ends the parse: a rule file is small and read by its author. */
#include "rule_ir.h"
#include <stdarg.h>
#include <math.h>
#include <string.h>

/* A token as the rule language sees it: names hold their dots (ai.tempo.GeluGrad, y.axis). */
typedef enum token_kind { T_END, T_NAME, T_NUMBER, T_STRING, T_PUNCT } token_kind;

typedef struct token_t {
    token_kind kind;
    const char *text; /* names, strings, marks, numbers as written; in the set's arena */
    double number;
    int64_t integer;
    bool integral;
    rule_loc loc;
} token_t;

typedef struct parser {
    tc_lexer lx;    /* one token ahead of tok */
    const char *tok_end; /* in the text */
    tc_rule_set *set;
    tc_arena *arena;
    token_t tok;
    tc_rule *rule;
    size_t cap_names, cap_match, cap_build;
    bool building; /* in a block of the right side */
    int depth;     /* of nested calls */
} parser;

tc_status rule_error(tc_lexer *lx, rule_loc loc, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return tc_lexer_error_at(lx, loc, TC_BAD_INPUT, "%s", text);
}

#define FAIL(p, ...) rule_error(&(p)->lx, (p)->tok.loc, __VA_ARGS__)
#define FAIL_AT(p, loc, ...) rule_error(&(p)->lx, loc, __VA_ARGS__)

/* --- tokens ------------------------------------------------------------------------------------------------------- */

static bool touches(const parser *p, const char *end) {
    return p->lx.token.start == end && p->lx.token.kind != TC_TOKEN_END;
}

/* Joins IDENT ('.' IDENT)* where nothing stands between. */
static tc_status next_name(parser *p) {
    const char *start = p->lx.token.start;
    p->tok.kind = T_NAME;
    for (;;) {
        p->tok_end = p->lx.token.start + p->lx.token.size;
        TC_TRY(tc_lexer_next(&p->lx));
        tc_token after = tc_lexer_peek(&p->lx);
        if (!tc_lexer_is(&p->lx, '.') || !touches(p, p->tok_end) || after.kind != TC_TOKEN_IDENT)
            break;
        TC_TRY(tc_lexer_next(&p->lx));
    }
    p->tok.text = tc_arena_strndup(p->arena, start, (size_t)(p->tok_end - start));
    return TC_OK;
}

static tc_status next(parser *p) {
    tc_token token = p->lx.token;
    p->tok = (token_t){.loc = token};
    p->tok_end = token.start + token.size;
    p->tok.text = tc_arena_strndup(p->arena, token.start, token.size);
    switch (token.kind) {
    case TC_TOKEN_END:
        return p->lx.failed ? TC_BAD_INPUT : TC_OK;
    case TC_TOKEN_IDENT:
        return next_name(p);
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
    case TC_TOKEN_FLOAT:
        p->tok.kind = T_NUMBER;
        return tc_lexer_double(&p->lx, "a number", &p->tok.number);
    default:
        p->tok.kind = T_PUNCT;
        return tc_lexer_next(&p->lx);
    }
}

static const char *token_text(const parser *p) {
    return p->tok.kind == T_END ? "the end of the file" : tc_quote(p->lx.ctx, p->tok.text);
}
static bool is_punct(const parser *p, const char *text) { return p->tok.kind == T_PUNCT && !strcmp(p->tok.text, text); }
static bool is_word(const parser *p, const char *text) { return p->tok.kind == T_NAME && !strcmp(p->tok.text, text); }

static tc_status expect(parser *p, token_kind kind, const char *text) {
    if (p->tok.kind != kind || strcmp(p->tok.text, text) != 0)
        return FAIL(p, "expected '%s' before '%s'", text, token_text(p));
    return next(p);
}
static tc_status expect_punct(parser *p, const char *text) { return expect(p, T_PUNCT, text); }

/* Takes the punctuation if it is next. */
static tc_status take(parser *p, const char *text, bool *out_taken) {
    *out_taken = is_punct(p, text);
    return *out_taken ? next(p) : TC_OK;
}

static tc_status expect_name(parser *p, const char *what, const char **out_text) {
    if (p->tok.kind != T_NAME)
        return FAIL(p, "expected %s before '%s'", what, token_text(p));
    *out_text = p->tok.text;
    return next(p);
}

/* --- names and nodes of the rule ---------------------------------------------------------------------------------- */

static uint16_t find_name(const tc_rule *rule, const char *text) {
    for (uint16_t i = 0; i < rule->n_names; i++)
        if (!strcmp(rule->names[i].text, text))
            return i;
    return RULE_NONE;
}

static tc_status add_name(parser *p, const char *text, rule_loc loc, uint16_t *out_index) {
    tc_rule *rule = p->rule;
    *out_index = find_name(rule, text);
    if (*out_index != RULE_NONE)
        return TC_OK;
    if (rule->n_names == RULE_MAX_NAMES)
        return FAIL_AT(p, loc, "more than %d names in one rule", RULE_MAX_NAMES);
    if (strchr(text, '.'))
        return FAIL_AT(p, loc, "'%s' is no name of a value: names have no dots", tc_quote(p->lx.ctx, text));
    rule->names = tc_arena_grow(p->arena, rule->names, sizeof *rule->names, &p->cap_names, rule->n_names + 1u);
    rule->names[rule->n_names] = (rule_name){
        .text = text, .node = RULE_NONE, .build = RULE_NONE, .input = -1, .loc = loc};
    *out_index = rule->n_names++;
    return TC_OK;
}

static tc_status add_node(parser *p, const rule_node *node, uint16_t *out_index) {
    tc_rule *rule = p->rule;
    rule_node **nodes = p->building ? &rule->build : &rule->match;
    uint16_t *n = p->building ? &rule->n_build : &rule->n_match;
    if (*n == RULE_MAX_NODES)
        return FAIL_AT(p, node->loc, "more than %d nodes on one side of a rule", RULE_MAX_NODES);
    *nodes = tc_arena_grow(p->arena, *nodes, sizeof **nodes, p->building ? &p->cap_build : &p->cap_match, *n + 1u);
    (*nodes)[*n] = *node;
    *out_index = (*n)++;
    return TC_OK;
}

static tc_status define(parser *p, uint16_t name, uint16_t node, uint16_t output, rule_loc loc) {
    rule_name *n = &p->rule->names[name];
    bool twice = p->building ? n->build != RULE_NONE : n->node != RULE_NONE;
    if (twice || (n->param && !(p->building && n->is_out)))
        return FAIL_AT(p, loc, "'%s' is defined twice", n->text);
    *(p->building ? &n->build : &n->node) = node;
    *(p->building ? &n->build_output : &n->output) = output;
    return TC_OK;
}

/* --- expressions --------------------------------------------------------------------------------------------------- */

static void split_op(parser *p, const char *text, rule_op *out_op) {
    const char *dot = strrchr(text, '.');
    out_op->domain = dot ? tc_arena_strndup(p->arena, text, (size_t)(dot - text)) : "";
    out_op->name = dot ? dot + 1 : text;
    if (!strcmp(out_op->domain, "ai.onnx"))
        out_op->domain = "";
    out_op->op = tc_op_find(out_op->domain, out_op->name);
}

static const struct { const char *name; rule_calc calc; unsigned operands; bool gradient; } calcs[] = {
    {"recip", CALC_RECIP, 1, false}, {"neg", CALC_NEG, 1, false}, {"add", CALC_ADD, 2, false}, {"mul", CALC_MUL, 2, false},
    {"ReduceLike", CALC_REDUCE_LIKE, 2, true},
};

static tc_status check_calc(parser *p, rule_node *node) {
    for (size_t i = 0; i < TC_COUNT(calcs); i++) {
        if (!p->building || node->n_ops != 1 || *node->ops[0].domain || strcmp(calcs[i].name, node->ops[0].name) != 0)
            continue;
        if (node->n_operands != calcs[i].operands || node->n_attrs || node->optional)
            return FAIL_AT(p, node->loc, "%s takes %u operands and nothing else", calcs[i].name, calcs[i].operands);
        if (calcs[i].gradient && !p->rule->gradient)
            return FAIL_AT(p, node->loc, "%s belongs to gradient rules", calcs[i].name);
        node->calc = calcs[i].calc;
    }
    return TC_OK;
}

static tc_status parse_int(parser *p, int64_t *out_number) {
    if (p->tok.kind != T_NUMBER || !p->tok.integral)
        return FAIL(p, "expected an integer before '%s'", token_text(p));
    *out_number = p->tok.integer;
    return next(p);
}

/* `dim(NAME, AXIS)` */
static tc_status parse_size(parser *p, rule_size *out_size) {
    TC_TRY(next(p));
    TC_TRY(expect_punct(p, "("));
    out_size->name = p->tok.kind == T_NAME ? find_name(p->rule, p->tok.text) : RULE_NONE;
    if (out_size->name == RULE_NONE)
        return FAIL(p, "'%s' names no value of the match", token_text(p));
    TC_TRY(next(p));
    TC_TRY(expect_punct(p, ","));
    TC_TRY(parse_int(p, &out_size->axis));
    return expect_punct(p, ")");
}

/* `out_sizes` may be NULL: numbers only then, as in a match or an attribute. */
static tc_status parse_ints(parser *p, const int64_t **out_ints, const rule_size **out_sizes, uint32_t *out_n) {
    int64_t *ints = NULL;
    rule_size *sizes = NULL;
    size_t cap = 0, cap_sizes = 0;
    bool any = false;
    *out_n = 0;
    TC_TRY(expect_punct(p, "["));
    for (bool more = !is_punct(p, "]"); more;) {
        ints = tc_arena_grow(p->arena, ints, sizeof *ints, &cap, *out_n + 1u);
        sizes = tc_arena_grow(p->arena, sizes, sizeof *sizes, &cap_sizes, *out_n + 1u);
        sizes[*out_n] = (rule_size){.name = RULE_NONE};
        ints[*out_n] = 0;
        bool is_size = out_sizes && p->building && is_word(p, "dim");
        any |= is_size;
        TC_TRY(is_size ? parse_size(p, &sizes[*out_n]) : parse_int(p, &ints[*out_n]));
        (*out_n)++;
        TC_TRY(take(p, ",", &more));
    }
    if (any && *out_n > TC_MAX_RANK)
        return FAIL(p, "more than %d dims", TC_MAX_RANK);
    *out_ints = ints;
    if (any)
        *out_sizes = sizes;
    return expect_punct(p, "]");
}

/* `@`, `@name`, `@.attr`, `@name.attr`; `attr` is the attribute's own name unless given. */
static tc_status parse_reference(parser *p, const char *name, rule_attr *attr) {
    attr->kind = !strcmp(name, "attrs") ? ATTR_ALL : ATTR_REF;
    attr->from = RULE_NONE;
    attr->from_attr = name;
    TC_TRY(next(p));
    if (p->tok.kind == T_NAME) {
        const char *dot = strchr(p->tok.text, '.');
        const char *from = dot ? tc_arena_strndup(p->arena, p->tok.text, (size_t)(dot - p->tok.text)) : p->tok.text;
        attr->from = find_name(p->rule, from);
        if (attr->from == RULE_NONE)
            return FAIL(p, "'%s' names no value of the match", from);
        if (dot)
            attr->from_attr = dot + 1;
        return next(p);
    }
    bool dot = false;
    TC_TRY(take(p, ".", &dot));
    return dot ? expect_name(p, "an attribute's name", &attr->from_attr) : TC_OK;
}

static tc_status parse_literal_attr(parser *p, tc_attr *attr) {
    attr->count = 1;
    if (is_punct(p, "[")) {
        uint32_t n = 0;
        attr->kind = TC_ATTR_INTS;
        TC_TRY(parse_ints(p, &attr->ints, NULL, &n));
        attr->count = n;
        return TC_OK;
    }
    if (p->tok.kind == T_STRING) {
        attr->kind = TC_ATTR_STRING;
        attr->s = (tc_bytes){p->tok.text, strlen(p->tok.text)};
    } else if (p->tok.kind == T_NUMBER && p->tok.integral) {
        attr->kind = TC_ATTR_INT;
        attr->i = p->tok.integer;
    } else if (p->tok.kind == T_NUMBER) {
        attr->kind = TC_ATTR_FLOAT;
        attr->f = (float)p->tok.number;
    } else if (p->tok.kind == T_NAME && tc_dtype_from_name(p->tok.text) != TC_UNDEFINED) {
        attr->kind = TC_ATTR_INT; /* Cast <to = float> */
        attr->i = tc_dtype_from_name(p->tok.text);
    } else {
        return FAIL(p, "expected a number, string, list, element type or '@' before '%s'", token_text(p));
    }
    return next(p);
}

/* `trailing(axes)`, or names joined by `*` and `/`: numbers that the match has found. */
static tc_status parse_computed(parser *p, rule_attr *attr) {
    size_t cap = 0;
    bool times = true, divided = false;
    attr->from = find_name(p->rule, p->tok.text);
    if (is_word(p, "trailing") && attr->from == RULE_NONE) {
        attr->kind = ATTR_TRAILING;
        TC_TRY(next(p));
        TC_TRY(expect_punct(p, "("));
        attr->from = p->tok.kind == T_NAME ? find_name(p->rule, p->tok.text) : RULE_NONE;
        if (attr->from == RULE_NONE)
            return FAIL(p, "'%s' names no value of the match", token_text(p));
        TC_TRY(next(p));
        return expect_punct(p, ")");
    }
    attr->kind = ATTR_PRODUCT;
    while (times || divided) {
        rule_factor factor = {p->tok.kind == T_NAME ? find_name(p->rule, p->tok.text) : RULE_NONE, divided};
        if (factor.name == RULE_NONE)
            return FAIL(p, "'%s' names no value of the match", token_text(p));
        attr->factors = tc_arena_grow(p->arena, attr->factors, sizeof factor, &cap, attr->n_factors + 1u);
        attr->factors[attr->n_factors++] = factor;
        TC_TRY(next(p));
        TC_TRY(take(p, "*", &times));
        divided = false;
        if (!times)
            TC_TRY(take(p, "/", &divided));
    }
    return TC_OK;
}

static bool starts_computed(const parser *p) {
    return p->building && p->tok.kind == T_NAME && (is_word(p, "trailing") || find_name(p->rule, p->tok.text) != RULE_NONE);
}

/* An attribute must be one that every alternative has; `1` serves as a float too. */
static tc_status check_attr(parser *p, const rule_node *node, rule_attr *attr) {
    for (uint16_t i = 0; i < node->n_ops && attr->kind != ATTR_ALL; i++) {
        tc_attr_kind kind;
        bool required;
        if (!node->ops[i].op)
            continue;
        if (!tc_op_attr(node->ops[i].op, attr->literal.name, &kind, &required))
            return FAIL_AT(p, attr->loc, "%s has no attribute '%s'", node->ops[i].name, attr->literal.name);
        if (attr->kind == ATTR_LITERAL && kind == TC_ATTR_FLOAT && attr->literal.kind == TC_ATTR_INT) {
            attr->literal.kind = kind;
            attr->literal.f = (float)attr->literal.i;
        }
        bool number = kind == TC_ATTR_INT || (kind == TC_ATTR_FLOAT && attr->kind == ATTR_PRODUCT);
        if ((attr->kind == ATTR_PRODUCT || attr->kind == ATTR_TRAILING) && number)
            attr->literal.kind = kind;
        else if (attr->kind == ATTR_PRODUCT || attr->kind == ATTR_TRAILING || (attr->kind == ATTR_LITERAL && attr->literal.kind != kind))
            return FAIL_AT(p, attr->loc, "attribute '%s' of %s is of another kind", attr->literal.name,
                              node->ops[i].name);
    }
    return TC_OK;
}

static tc_status parse_attrs(parser *p, rule_node *node) {
    size_t cap = 0;
    bool more;
    TC_TRY(take(p, "<", &more));
    if (!more)
        return TC_OK;
    while (more) {
        rule_attr attr = {.loc = p->tok.loc};
        const char *name = NULL;
        TC_TRY(expect_name(p, "an attribute's name", &name));
        attr.literal.name = name;
        TC_TRY(expect_punct(p, "="));
        if (is_punct(p, "@") && !p->building)
            return FAIL(p, "'@' belongs to the right side; a match says values");
        TC_TRY(is_punct(p, "@")      ? parse_reference(p, name, &attr)
               : starts_computed(p) ? parse_computed(p, &attr)
                                    : parse_literal_attr(p, &attr.literal));
        TC_TRY(check_attr(p, node, &attr));
        node->attrs = tc_arena_grow(p->arena, node->attrs, sizeof attr, &cap, node->n_attrs + 1u);
        node->attrs[node->n_attrs++] = attr;
        TC_TRY(take(p, ",", &more));
    }
    return expect_punct(p, ">");
}

static tc_status parse_operand(parser *p, rule_operand *out_operand);

static tc_status parse_operands(parser *p, rule_node *node) {
    size_t cap = 0;
    TC_TRY(expect_punct(p, "("));
    for (bool more = !is_punct(p, ")"); more;) {
        rule_operand operand;
        TC_TRY(parse_operand(p, &operand));
        if (node->n_operands == RULE_MAX_OPERANDS)
            return FAIL(p, "more than %d operands", RULE_MAX_OPERANDS);
        node->operands = tc_arena_grow(p->arena, node->operands, sizeof operand, &cap, node->n_operands + 1u);
        node->operands[node->n_operands++] = operand;
        TC_TRY(take(p, ",", &more));
    }
    return expect_punct(p, ")");
}

/* A product of n factors needs n - 2 more pattern nodes: the calls inside the outermost. */
static tc_status check_product(parser *p, rule_node *node) {
    rule_node inner = {.loc = node->loc, .label = node->label, .root = RULE_NONE, .ops = node->ops, .n_ops = node->n_ops};
    if (!node->product)
        return TC_OK;
    if (!node->commutative || node->n_ops > 1 || node->n_attrs || node->n_operands < 3 || node->n_operands > 6)
        return FAIL_AT(p, node->loc, "'*' stands behind one commutative op without attributes, of 3 to 6 operands");
    for (uint16_t i = 2; i < node->n_operands; i++) {
        uint16_t index;
        TC_TRY(add_node(p, &inner, &index));
        node->spare = i == 2 ? index : node->spare;
    }
    return TC_OK;
}

/* A call whose first op name was read already. */
static tc_status parse_call(parser *p, const char *name, rule_loc loc, rule_node *node) {
    size_t cap = 0;
    rule_op *ops = NULL;
    bool more = true;
    *node = (rule_node){.loc = loc, .label = name, .root = RULE_NONE, .calc = CALC_NODE};
    if (++p->depth > 64)
        return FAIL(p, "calls are nested more than 64 deep");
    for (;;) {
        ops = tc_arena_grow(p->arena, ops, sizeof *ops, &cap, node->n_ops + 1u);
        split_op(p, name, &ops[node->n_ops++]);
        TC_TRY(take(p, "|", &more));
        if (!more)
            break;
        TC_TRY(expect_name(p, "an op", &name));
    }
    node->ops = ops;
    TC_TRY(take(p, "?", &node->optional));
    if (!node->optional)
        TC_TRY(take(p, "*", &node->product));
    if (p->building && (node->optional || node->product || node->n_ops > 1))
        return FAIL_AT(p, loc, "optional nodes, '*' and alternatives belong to the match");
    for (uint16_t i = 0; i < node->n_ops; i++)
        node->commutative |= ops[i].op && (ops[i].op->traits & TC_COMMUTATIVE);
    TC_TRY(parse_attrs(p, node));
    TC_TRY(parse_operands(p, node));
    TC_TRY(check_calc(p, node));
    TC_TRY(check_product(p, node));
    for (uint16_t i = 0; i < node->n_ops && node->calc == CALC_NODE; i++) {
        const tc_op *op = ops[i].op;
        if (op && node->n_operands > op->max_inputs && !node->product)
            return FAIL_AT(p, loc, "%s has at most %u operands", op->name, op->max_inputs);
        if (op && p->building && node->n_operands < op->min_inputs)
            return FAIL_AT(p, loc, "%s has at least %u operands", op->name, op->min_inputs);
        if (!op && p->building && !*ops[i].domain)
            return FAIL_AT(p, loc, "unknown op '%s'", ops[i].name);
    }
    p->depth--;
    return TC_OK;
}

static bool starts_call(const parser *p) {
    return is_punct(p, "(") || is_punct(p, "<") || is_punct(p, "|") || is_punct(p, "?") || is_punct(p, "*");
}

/* A name, as written on the right of '=' or inside a call. */
static tc_status use_name(parser *p, const char *name, rule_loc loc, rule_operand *operand) {
    operand->kind = OPERAND_NAME;
    operand->index = find_name(p->rule, name);
    const rule_name *n = operand->index == RULE_NONE ? NULL : &p->rule->names[operand->index];
    if (!n || !(n->param || n->node != RULE_NONE || (p->building && n->build != RULE_NONE)))
        return FAIL_AT(p, loc, "'%s' is neither a parameter nor defined above", tc_quote(p->lx.ctx, name));
    return TC_OK;
}

static tc_status parse_choices(parser *p, rule_operand *operand) {
    size_t cap = 0;
    operand->kind = OPERAND_CHOICE;
    if (p->building)
        return FAIL(p, "choices belong to the match");
    if (++p->depth > 64)
        return FAIL(p, "choices are nested more than 64 deep");
    TC_TRY(expect_punct(p, "("));
    for (bool more = true; more;) {
        rule_operand choice;
        TC_TRY(parse_operand(p, &choice));
        if (choice.kind == OPERAND_ABSENT)
            return FAIL(p, "expected an operand before '%s'", token_text(p));
        operand->choices = tc_arena_grow(p->arena, operand->choices, sizeof choice, &cap, operand->n_choices + 1u);
        operand->choices[operand->n_choices++] = choice;
        more = is_word(p, "or");
        if (more)
            TC_TRY(next(p));
    }
    p->depth--;
    return expect_punct(p, ")");
}

static tc_status parse_operand(parser *p, rule_operand *operand) {
    *operand = (rule_operand){.loc = p->tok.loc};
    if (is_punct(p, "("))
        return parse_choices(p, operand);
    if (is_punct(p, ",") || is_punct(p, ")")) {
        operand->kind = OPERAND_ABSENT;
        return TC_OK;
    }
    if (is_punct(p, "[")) {
        operand->kind = OPERAND_INTS;
        return parse_ints(p, &operand->ints, &operand->sizes, &operand->n_ints);
    }
    if (p->tok.kind == T_NUMBER || is_word(p, "inf")) {
        operand->kind = OPERAND_NUMBER;
        operand->number = p->tok.kind == T_NUMBER ? p->tok.number : (double)INFINITY;
        operand->integral = p->tok.kind == T_NUMBER && p->tok.integral;
        return next(p);
    }
    rule_loc loc = p->tok.loc;
    const char *name = NULL;
    TC_TRY(expect_name(p, "an operand", &name));
    if (starts_call(p)) {
        rule_node node;
        TC_TRY(parse_call(p, name, loc, &node));
        operand->kind = OPERAND_NODE;
        return add_node(p, &node, &operand->index);
    }
    if (!strcmp(name, "_")) {
        operand->kind = OPERAND_ANY;
        return p->building ? FAIL_AT(p, loc, "'_' is no value") : TC_OK;
    }
    return use_name(p, name, loc, operand);
}

/* --- statements ----------------------------------------------------------------------------------------------------- */

static tc_status parse_names(parser *p, bool params, uint16_t **out_names, uint16_t *out_n) {
    size_t cap = 0;
    bool more = p->tok.kind == T_NAME;
    while (more) {
        const char *text = NULL;
        rule_loc loc = p->tok.loc;
        uint16_t index = RULE_NONE;
        TC_TRY(expect_name(p, "a name", &text));
        if (strcmp(text, "_") != 0)
            TC_TRY(add_name(p, text, loc, &index));
        bool optional = false;
        if (params) {
            TC_TRY(take(p, "?", &optional));
            if (index != RULE_NONE && p->rule->names[index].param)
                return FAIL_AT(p, loc, "'%s' is a parameter twice", text);
        }
        if (params && index != RULE_NONE) {
            p->rule->names[index].param = true;
            p->rule->names[index].optional = optional;
        }
        *out_names = tc_arena_grow(p->arena, *out_names, sizeof **out_names, &cap, *out_n + 1u);
        (*out_names)[(*out_n)++] = index;
        TC_TRY(take(p, ",", &more));
    }
    return TC_OK;
}

static tc_status parse_statement(parser *p) {
    uint16_t *outputs = NULL, n_outputs = 0, index;
    rule_loc loc = p->tok.loc;
    rule_node node;
    TC_TRY(parse_names(p, false, &outputs, &n_outputs));
    if (n_outputs == 0)
        return FAIL(p, "expected a statement or '}' before '%s'", token_text(p));
    TC_TRY(expect_punct(p, "="));
    rule_operand value;
    uint16_t before = p->building ? p->rule->n_build : p->rule->n_match;
    TC_TRY(parse_operand(p, &value));
    if (value.kind == OPERAND_NODE) { /* it was just added, last */
        index = value.index;
        TC_ASSERT(index >= before);
    } else {
        if (!p->building || n_outputs != 1 || value.kind == OPERAND_ABSENT)
            return FAIL_AT(p, loc, "expected a call after '='");
        node = (rule_node){.calc = CALC_ALIAS, .loc = loc, .root = RULE_NONE, .n_operands = 1};
        node.operands = TC_NEW(p->arena, rule_operand);
        node.operands[0] = value;
        TC_TRY(add_node(p, &node, &index));
    }
    rule_node *stored = p->building ? &p->rule->build[index] : &p->rule->match[index];
    stored->outputs = outputs;
    stored->n_outputs = n_outputs;
    for (uint16_t i = 0; i < n_outputs; i++) {
        if (outputs[i] == RULE_NONE)
            continue;
        if (i == 0 || !stored->label)
            stored->label = p->rule->names[outputs[i]].text;
        TC_TRY(define(p, outputs[i], index, i, loc));
    }
    if (stored->calc != CALC_NODE && n_outputs != 1)
        return FAIL_AT(p, loc, "this has one result");
    if (stored->calc == CALC_NODE && stored->ops[0].op && n_outputs > stored->ops[0].op->max_outputs)
        return FAIL_AT(p, loc, "%s has at most %u results", stored->ops[0].name, stored->ops[0].op->max_outputs);
    bool semicolon;
    return take(p, ";", &semicolon);
}

static tc_status parse_block(parser *p, bool building) {
    p->building = building;
    p->depth = 0;
    TC_TRY(expect_punct(p, "{"));
    while (!is_punct(p, "}"))
        TC_TRY(parse_statement(p));
    return next(p);
}

static tc_status parse_guard_args(parser *p, rule_guard *guard) {
    size_t cap = 0;
    TC_TRY(expect_punct(p, "("));
    for (bool more = !is_punct(p, ")"); more;) {
        guard_arg arg = {.name = RULE_NONE, .number = p->tok.number, .string = p->tok.text};
        if (p->tok.kind == T_NAME) {
            arg.kind = GUARD_NAME;
            arg.name = find_name(p->rule, p->tok.text);
        } else if (p->tok.kind == T_NUMBER || p->tok.kind == T_STRING) {
            arg.kind = p->tok.kind == T_NUMBER ? GUARD_NUMBER : GUARD_STRING;
        } else {
            return FAIL(p, "expected a name, number or string before '%s'", token_text(p));
        }
        guard->args = tc_arena_grow(p->arena, guard->args, sizeof arg, &cap, guard->n_args + 1u);
        guard->args[guard->n_args++] = arg;
        TC_TRY(next(p));
        TC_TRY(take(p, ",", &more));
    }
    return TC_OK; /* the caller takes ')', to know where the text ends */
}

static tc_status check_guard(parser *p, const rule_guard *guard) {
    const char *want = guard->row->args;
    for (uint16_t i = 0; i < guard->n_args; i++) {
        const guard_arg *arg = &guard->args[i];
        if (!*want)
            return FAIL_AT(p, guard->loc, "too many arguments for guard '%s'", guard->row->name);
        if (*want == 'v' && arg->name == RULE_NONE)
            return FAIL_AT(p, guard->loc, "argument %u of '%s' is no name of the match", i + 1u, guard->row->name);
        if (*want == 'n' && arg->kind != GUARD_NUMBER)
            return FAIL_AT(p, guard->loc, "argument %u of '%s' is no number", i + 1u, guard->row->name);
        if (*want == 's' && arg->kind == GUARD_NUMBER)
            return FAIL_AT(p, guard->loc, "argument %u of '%s' is no word", i + 1u, guard->row->name);
        if (want[1] != '*')
            want++;
    }
    if (*want && want[1] != '*')
        return FAIL_AT(p, guard->loc, "too few arguments for guard '%s'", guard->row->name);
    return TC_OK;
}

static tc_status parse_where(parser *p) {
    size_t cap = 0;
    bool more = is_word(p, "where");
    if (more)
        TC_TRY(next(p));
    while (more) {
        rule_guard guard = {.loc = p->tok.loc};
        const char *name = NULL, *from = p->tok.loc.start;
        TC_TRY(take(p, "!", &guard.negated));
        TC_TRY(expect_name(p, "a guard", &name));
        guard.row = guard_find(name);
        if (!guard.row)
            return FAIL_AT(p, guard.loc, "unknown guard '%s'", tc_quote(p->lx.ctx, name));
        TC_TRY(parse_guard_args(p, &guard));
        guard.text = tc_arena_strndup(p->arena, from, (size_t)(p->tok_end - from));
        TC_TRY(expect_punct(p, ")"));
        TC_TRY(check_guard(p, &guard));
        tc_rule *rule = p->rule;
        rule->guards = tc_arena_grow(p->arena, rule->guards, sizeof guard, &cap, rule->n_guards + 1u);
        rule->guards[rule->n_guards++] = guard;
        TC_TRY(take(p, ",", &more));
    }
    return TC_OK;
}

/* --- rules ------------------------------------------------------------------------------------------------------------ */

static tc_status parse_flags(parser *p) {
    for (;;) {
        if (is_word(p, "inexact")) {
            p->rule->inexact = true;
            TC_TRY(next(p));
        } else if (is_word(p, "benefit")) {
            TC_TRY(next(p));
            TC_TRY(expect_punct(p, "="));
            if (p->tok.kind != T_NUMBER || !p->tok.integral || p->tok.integer < 0 || p->tok.integer > 10000)
                return FAIL(p, "benefit is an integer from 0 to 10000");
            p->rule->benefit = (int)p->tok.integer;
            TC_TRY(next(p));
        } else {
            return TC_OK;
        }
    }
}

static tc_status parse_rule(parser *p) {
    tc_rule *rule = p->rule;
    TC_TRY(expect_name(p, "the rule's name", &rule->name));
    if (tc_map_get(p->set->by_name, rule->name))
        return FAIL_AT(p, rule->loc, "there is a rule '%s' already", rule->name);
    if (p->tok.kind == T_STRING) {
        rule->doc = p->tok.text;
        TC_TRY(next(p));
    }
    rule->benefit = -1;
    TC_TRY(parse_flags(p));
    TC_TRY(expect(p, T_NAME, "match"));
    TC_TRY(expect_punct(p, "("));
    TC_TRY(parse_names(p, true, &rule->params, &rule->n_params));
    TC_TRY(expect_punct(p, ")"));
    TC_TRY(expect_punct(p, "=>"));
    TC_TRY(expect_punct(p, "("));
    TC_TRY(parse_names(p, false, &rule->outs, &rule->n_outs));
    TC_TRY(expect_punct(p, ")"));
    for (uint16_t i = 0; i < rule->n_outs; i++)
        if (rule->outs[i] != RULE_NONE)
            rule->names[rule->outs[i]].is_out = true;
    TC_TRY(parse_block(p, false));
    TC_TRY(parse_where(p));
    TC_TRY(expect(p, T_NAME, "replace"));
    return parse_block(p, true);
}

static tc_status parse_gradient(parser *p) {
    tc_rule *rule = p->rule;
    const char *op = NULL;
    rule->gradient = true;
    TC_TRY(expect_name(p, "an op", &op));
    split_op(p, op, &rule->op);
    if (!rule->op.op && !*rule->op.domain)
        return FAIL_AT(p, rule->loc, "unknown op '%s'", tc_quote(p->lx.ctx, op));
    rule->name = tc_arena_printf(p->arena, "gradient %s", op);
    TC_TRY(expect_punct(p, "("));
    TC_TRY(parse_names(p, true, &rule->params, &rule->n_params));
    TC_TRY(expect_punct(p, ";"));
    TC_TRY(parse_names(p, true, &rule->outs, &rule->n_outs));
    TC_TRY(expect_punct(p, ";"));
    TC_TRY(parse_names(p, true, &rule->douts, &rule->n_douts));
    TC_TRY(expect_punct(p, ")"));
    for (uint16_t i = 0; i < rule->n_params && i < INT8_MAX; i++)
        if (rule->params[i] != RULE_NONE)
            rule->names[rule->params[i]].input = (int8_t)i;
    TC_TRY(expect_punct(p, "=>"));
    TC_TRY(expect_punct(p, "("));
    TC_TRY(parse_names(p, false, &rule->results, &rule->n_results));
    TC_TRY(expect_punct(p, ")"));
    TC_TRY(parse_where(p));
    return parse_block(p, true);
}

tc_status tc_rules_parse(tc_ctx *ctx, const char *text, const char *file, tc_rule_set *set) {
    parser p = {.set = set, .arena = set->arena};
    TC_TRY(tc_lexer_init(&p.lx, ctx, set->arena, text, strlen(text), tc_arena_strdup(set->arena, file)));
    TC_TRY(next(&p));
    while (p.tok.kind != T_END) {
        bool is_gradient = is_word(&p, "gradient");
        if (!is_gradient && !is_word(&p, "rule"))
            return FAIL(&p, "expected 'rule' or 'gradient' before '%s'", token_text(&p));
        p.rule = TC_NEW(set->arena, tc_rule);
        p.cap_names = p.cap_match = p.cap_build = 0;
        p.rule->file = p.lx.name;
        p.rule->loc = p.tok.loc;
        TC_TRY(next(&p));
        TC_TRY(is_gradient ? parse_gradient(&p) : parse_rule(&p));
        TC_TRY(rule_compile(&p.lx, set, p.rule));
    }
    return TC_OK;
}
