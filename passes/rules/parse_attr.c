/* parse_attr.c: attributes of a call in a rule, `<axis = -1, epsilon = @, scale = a * b>`, and lists of numbers. In
 * a match they are values; the right side may also copy attributes of matched nodes and compute numbers from matched
 * constants. */
#include "parse.h"
#include <string.h>

static tc_status parse_int(parser *p, int64_t *out_number) {
    if (p->tok.kind != T_NUMBER || !p->tok.integral)
        return FAIL(p, "expected an integer before '%s'", rule_token_text(p));
    *out_number = p->tok.integer;
    return rule_next(p);
}

static tc_status parse_known(parser *p, uint16_t *out_name) {
    *out_name = p->tok.kind == T_NAME ? rule_find_name(p->rule, p->tok.text) : RULE_NONE;
    return *out_name == RULE_NONE ? FAIL(p, "'%s' names no value of the match", rule_token_text(p)) : rule_next(p);
}

/* `dim(NAME, AXIS)` */
static tc_status parse_size(parser *p, rule_size *out_size) {
    TC_TRY(rule_next(p));
    TC_TRY(rule_expect_punct(p, "("));
    TC_TRY(parse_known(p, &out_size->name));
    TC_TRY(rule_expect_punct(p, ","));
    TC_TRY(parse_int(p, &out_size->axis));
    return rule_expect_punct(p, ")");
}

tc_status rule_parse_ints(parser *p, const int64_t **out_ints, const rule_size **out_sizes, uint32_t *out_n) {
    int64_t *ints = NULL;
    rule_size *sizes = NULL;
    size_t cap = 0, cap_sizes = 0;
    bool any = false;
    *out_n = 0;
    TC_TRY(rule_expect_punct(p, "["));
    for (bool more = !rule_is_punct(p, "]"); more;) {
        ints = tc_arena_grow(p->arena, ints, sizeof *ints, &cap, *out_n + 1u);
        sizes = tc_arena_grow(p->arena, sizes, sizeof *sizes, &cap_sizes, *out_n + 1u);
        sizes[*out_n] = (rule_size){.name = RULE_NONE};
        ints[*out_n] = 0;
        bool is_size = out_sizes && p->building && rule_is_word(p, "dim");
        any |= is_size;
        TC_TRY(is_size ? parse_size(p, &sizes[*out_n]) : parse_int(p, &ints[*out_n]));
        (*out_n)++;
        TC_TRY(rule_take(p, ",", &more));
    }
    if (any && *out_n > TC_MAX_RANK)
        return FAIL(p, "more than %d dims", TC_MAX_RANK);
    *out_ints = ints;
    if (any)
        *out_sizes = sizes;
    return rule_expect_punct(p, "]");
}

/* `@`, `@name`, `@.attr`, `@name.attr`; `attr` is the attribute's own name unless given. */
static tc_status parse_reference(parser *p, const char *name, rule_attr *attr) {
    attr->kind = !strcmp(name, "attrs") ? ATTR_ALL : ATTR_REF;
    attr->from = RULE_NONE;
    attr->from_attr = name;
    TC_TRY(rule_next(p));
    if (p->tok.kind == T_NAME) {
        const char *dot = strchr(p->tok.text, '.');
        const char *from = dot ? tc_arena_strndup(p->arena, p->tok.text, (size_t)(dot - p->tok.text)) : p->tok.text;
        attr->from = rule_find_name(p->rule, from);
        if (attr->from == RULE_NONE)
            return FAIL(p, "'%s' names no value of the match", from);
        if (dot)
            attr->from_attr = dot + 1;
        return rule_next(p);
    }
    bool dot = false;
    TC_TRY(rule_take(p, ".", &dot));
    return dot ? rule_expect_name(p, "an attribute's name", &attr->from_attr) : TC_OK;
}

static tc_status parse_literal_attr(parser *p, tc_attr *attr) {
    attr->count = 1;
    if (rule_is_punct(p, "[")) {
        uint32_t n = 0;
        attr->kind = TC_ATTR_INTS;
        TC_TRY(rule_parse_ints(p, &attr->ints, NULL, &n));
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
        return FAIL(p, "expected a number, string, list, element type or '@' before '%s'", rule_token_text(p));
    }
    return rule_next(p);
}

/* One more name of the match among the attribute's factors. */
static tc_status parse_factor(parser *p, bool divides, rule_attr *attr, size_t *cap) {
    rule_factor factor = {.divides = divides};
    TC_TRY(parse_known(p, &factor.name));
    attr->factors = tc_arena_grow(p->arena, attr->factors, sizeof factor, cap, attr->n_factors + 1u);
    attr->factors[attr->n_factors++] = factor;
    return TC_OK;
}

/* `trailing(axes)`, or another function. */
static tc_status parse_function_call(parser *p, rule_attr *attr) {
    size_t cap = 0;
    bool more;
    attr->kind = ATTR_CALL;
    attr->call = rule_function_find(p->tok.text);
    TC_TRY(rule_next(p));
    TC_TRY(rule_expect_punct(p, "("));
    for (more = true; more && attr->n_factors < attr->call->n_args;) {
        TC_TRY(parse_factor(p, false, attr, &cap));
        TC_TRY(rule_take(p, ",", &more));
    }
    return more ? FAIL(p, "%s has no operand %u", attr->call->name, (unsigned)attr->call->n_args)
                : rule_expect_punct(p, ")");
}

static bool names_function(const parser *p) {
    return rule_find_name(p->rule, p->tok.text) == RULE_NONE && rule_function_find(p->tok.text);
}

/* A function, or names joined by `*` and `/`: numbers from the match. */
static tc_status parse_computed(parser *p, rule_attr *attr) {
    size_t cap = 0;
    bool times = true, divided = false;
    if (names_function(p))
        return parse_function_call(p, attr);
    attr->kind = ATTR_PRODUCT;
    while (times || divided) {
        TC_TRY(parse_factor(p, divided, attr, &cap));
        TC_TRY(rule_take(p, "*", &times));
        divided = false;
        if (!times)
            TC_TRY(rule_take(p, "/", &divided));
    }
    return TC_OK;
}

static bool starts_computed(const parser *p) {
    return p->building && p->tok.kind == T_NAME &&
           (names_function(p) || rule_find_name(p->rule, p->tok.text) != RULE_NONE);
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
        bool number = kind == TC_ATTR_INT || kind == TC_ATTR_FLOAT;
        if ((attr->kind == ATTR_PRODUCT || attr->kind == ATTR_CALL) && number)
            attr->literal.kind = kind;
        else if (attr->kind == ATTR_PRODUCT || attr->kind == ATTR_CALL ||
                 (attr->kind == ATTR_LITERAL && attr->literal.kind != kind))
            return FAIL_AT(p, attr->loc, "attribute '%s' of %s is of another kind", attr->literal.name,
                           node->ops[i].name);
    }
    return TC_OK;
}

tc_status rule_parse_attrs(parser *p, rule_node *node) {
    size_t cap = 0;
    bool more;
    TC_TRY(rule_take(p, "<", &more));
    if (!more)
        return TC_OK;
    while (more) {
        rule_attr attr = {.loc = p->tok.loc};
        const char *name = NULL;
        TC_TRY(rule_expect_name(p, "an attribute's name", &name));
        attr.literal.name = name;
        TC_TRY(rule_expect_punct(p, "="));
        if (rule_is_punct(p, "@") && !p->building)
            return FAIL(p, "'@' belongs to the right side; a match says values");
        TC_TRY(rule_is_punct(p, "@") ? parse_reference(p, name, &attr)
               : starts_computed(p)  ? parse_computed(p, &attr)
                                     : parse_literal_attr(p, &attr.literal));
        TC_TRY(check_attr(p, node, &attr));
        node->attrs = tc_arena_grow(p->arena, node->attrs, sizeof attr, &cap, node->n_attrs + 1u);
        node->attrs[node->n_attrs++] = attr;
        TC_TRY(rule_take(p, ",", &more));
    }
    return rule_expect_punct(p, ">");
}
