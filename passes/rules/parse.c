/* parse.c: rule text to rule_ir.h, by recursive descent over the grammar of docs/how-it-works/rules.md:
 *
 *     file     ::= (rule | gradient | part)*
 *     rule     ::= 'rule' ID STRING? flag* 'match' params '=>' names block where? 'replace' block
 *     flag     ::= 'inexact' | 'rounds' ('=' ID)? | 'mends' | 'benefit' '=' INT
 *     gradient ::= 'gradient' OP '(' params ';' names ';' names ')' '=>' '(' names ')' where? block
 *     block    ::= '{' (names '=' (call | operand))* '}'
 *     call     ::= OP ('|' OP)* ('?' | '*')? ('<' attr, ... '>')? '(' operand, ... ')'
 *     operand  ::= call | ID | '_' | NUMBER | '[' (INT | 'dim' '(' ID ',' INT ')'), ... ']'
 *                | '(' operand ('or' operand)+ ')'
 *     where    ::= 'where' '!'? ID '(' arg, ... ')', ...
 *     part     ::= 'part' ID '(' ID, ... ')' '{' text '}' where?
 *
 * Tokens are found by parse_token.c, which puts in the text of parts (parts.c); attributes (between < and >) and lists
 * of numbers are read by parse_attr.c. Every mistake is reported with file:line:column and ends the parse: a rule file
 * is small and read by its author. */
#include "parse.h"
#include <math.h>
#include <string.h>

/* --- names and nodes of the rule -------------------------------------------------------------- */

uint16_t rule_find_name(const tc_rule *rule, const char *text) {
    for (uint16_t i = 0; i < rule->n_names; i++)
        if (!strcmp(rule->names[i].text, text))
            return i;
    return RULE_NONE;
}

static tc_status add_name(parser *p, const char *text, rule_loc loc, uint16_t *out_index) {
    tc_rule *rule = p->rule;
    *out_index = rule_find_name(rule, text);
    if (*out_index != RULE_NONE)
        return TC_OK;
    if (rule->n_names == RULE_MAX_NAMES)
        return FAIL_AT(p, loc, "more than %d names in one rule", RULE_MAX_NAMES);
    if (strchr(text, '.'))
        return FAIL_AT(p, loc, "'%s' is not a name of a value: names have no dots", tc_quote(p->lx.ctx, text));
    rule->names = tc_arena_grow(p->arena, rule->names, sizeof *rule->names, &p->cap_names, rule->n_names + 1u);
    rule->names[rule->n_names] =
        (rule_name){.text = text, .node = RULE_NONE, .build = RULE_NONE, .input = -1, .loc = loc};
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

/* --- expressions ------------------------------------------------------------------------------ */

static void split_op(parser *p, const char *text, rule_op *out_op) {
    const char *dot = strrchr(text, '.');
    out_op->domain = dot ? tc_arena_strndup(p->arena, text, (size_t)(dot - text)) : "";
    out_op->name = dot ? dot + 1 : text;
    if (!strcmp(out_op->domain, "ai.onnx"))
        out_op->domain = "";
    out_op->op = tc_op_find(out_op->domain, out_op->name);
}

static const struct {
    const char *name;
    rule_calc calc;
    unsigned operands;
    bool gradient;
} calcs[] = {
    {"recip", CALC_RECIP, 1, false},
    {"neg", CALC_NEG, 1, false},
    {"add", CALC_ADD, 2, false},
    {"mul", CALC_MUL, 2, false},
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

static tc_status parse_operand(parser *p, rule_operand *out_operand);

static tc_status parse_operands(parser *p, rule_node *node) {
    size_t cap = 0;
    TC_TRY(rule_expect_punct(p, "("));
    for (bool more = !rule_is_punct(p, ")"); more;) {
        rule_operand operand;
        TC_TRY(parse_operand(p, &operand));
        if (node->n_operands == RULE_MAX_OPERANDS)
            return FAIL(p, "more than %d operands", RULE_MAX_OPERANDS);
        node->operands = tc_arena_grow(p->arena, node->operands, sizeof operand, &cap, node->n_operands + 1u);
        node->operands[node->n_operands++] = operand;
        TC_TRY(rule_take(p, ",", &more));
    }
    return rule_expect_punct(p, ")");
}

/* A product of n factors needs n - 2 more pattern nodes: the calls inside the outermost. */
static tc_status check_product(parser *p, rule_node *node) {
    rule_node inner = {
        .loc = node->loc, .label = node->label, .root = RULE_NONE, .ops = node->ops, .n_ops = node->n_ops};
    if (!node->product)
        return TC_OK;
    if (!node->commutative || node->n_ops > 1 || node->n_attrs || node->n_operands < 3 || node->n_operands > 6)
        return FAIL_AT(p, node->loc, "'*' follows one commutative op without attributes, with 3 to 6 operands");
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
        TC_TRY(rule_take(p, "|", &more));
        if (!more)
            break;
        TC_TRY(rule_expect_name(p, "an op", &name));
    }
    node->ops = ops;
    TC_TRY(rule_take(p, "?", &node->optional));
    if (!node->optional)
        TC_TRY(rule_take(p, "*", &node->product));
    if (p->building && (node->optional || node->product || node->n_ops > 1))
        return FAIL_AT(p, loc, "optional nodes, '*' and alternatives belong to the match");
    for (uint16_t i = 0; i < node->n_ops; i++)
        node->commutative |= ops[i].op && (ops[i].op->traits & TC_COMMUTATIVE);
    TC_TRY(rule_parse_attrs(p, node));
    TC_TRY(parse_operands(p, node));
    TC_TRY(check_calc(p, node));
    TC_TRY(check_product(p, node));
    for (uint16_t i = 0; i < node->n_ops && node->calc == CALC_NODE; i++) {
        const tc_op *op = ops[i].op;
        if (op && node->n_operands > op->max_inputs && !node->product)
            return FAIL_AT(p, loc, "%s has at most %u operands", op->name, op->max_inputs);
        if (op && p->building && node->n_operands < op->min_inputs)
            return FAIL_AT(p, loc, "%s has at least %u operands", op->name, op->min_inputs);
        bool is_ours = !*ops[i].domain || !strcmp(ops[i].domain, TC_TEMPO_DOMAIN);
        bool is_part = *ops[i].name >= 'a' && !*ops[i].domain;
        if (!op && is_ours && (p->building || is_part))
            return FAIL_AT(p, loc, "unknown %s '%s'", is_part ? "part" : "op", ops[i].name);
    }
    p->depth--;
    return TC_OK;
}

static bool starts_call(const parser *p) {
    return rule_is_punct(p, "(") || rule_is_punct(p, "<") || rule_is_punct(p, "|") || rule_is_punct(p, "?") ||
           rule_is_punct(p, "*");
}

/* A name, to the right of '=' or inside a call. */
static tc_status use_name(parser *p, const char *name, rule_loc loc, rule_operand *operand) {
    operand->kind = OPERAND_NAME;
    operand->index = rule_find_name(p->rule, name);
    const rule_name *n = operand->index == RULE_NONE ? NULL : &p->rule->names[operand->index];
    if (!n || !(n->param || n->node != RULE_NONE || (p->building && n->build != RULE_NONE)))
        return FAIL_AT(p, loc, "'%s' is neither a parameter nor defined above", tc_quote(p->lx.ctx, name));
    p->rule->names[operand->index].matched |= !p->building;
    return TC_OK;
}

static tc_status parse_choices(parser *p, rule_operand *operand) {
    size_t cap = 0;
    operand->kind = OPERAND_CHOICE;
    if (p->building)
        return FAIL(p, "choices belong to the match");
    if (++p->depth > 64)
        return FAIL(p, "choices are nested more than 64 deep");
    TC_TRY(rule_expect_punct(p, "("));
    for (bool more = true; more;) {
        rule_operand choice;
        TC_TRY(parse_operand(p, &choice));
        if (choice.kind == OPERAND_ABSENT)
            return FAIL(p, "expected an operand before '%s'", rule_token_text(p));
        operand->choices = tc_arena_grow(p->arena, operand->choices, sizeof choice, &cap, operand->n_choices + 1u);
        operand->choices[operand->n_choices++] = choice;
        more = rule_is_word(p, "or");
        if (more)
            TC_TRY(rule_next(p));
    }
    p->depth--;
    return rule_expect_punct(p, ")");
}

static tc_status parse_operand(parser *p, rule_operand *operand) {
    *operand = (rule_operand){.loc = p->tok.loc};
    if (rule_is_punct(p, "("))
        return parse_choices(p, operand);
    if (rule_is_punct(p, ",") || rule_is_punct(p, ")")) {
        operand->kind = OPERAND_ABSENT;
        return TC_OK;
    }
    if (rule_is_punct(p, "[")) {
        operand->kind = OPERAND_INTS;
        return rule_parse_ints(p, &operand->ints, &operand->sizes, &operand->n_ints);
    }
    if (p->tok.kind == T_NUMBER || rule_is_word(p, "inf") || rule_is_word(p, "nan")) {
        operand->kind = OPERAND_NUMBER;
        operand->number = p->tok.kind == T_NUMBER ? p->tok.number : (double)(rule_is_word(p, "inf") ? INFINITY : NAN);
        operand->integral = p->tok.kind == T_NUMBER && p->tok.integral;
        return rule_next(p);
    }
    rule_loc loc = p->tok.loc;
    const char *name = NULL;
    TC_TRY(rule_expect_name(p, "an operand", &name));
    if (starts_call(p)) {
        rule_node node;
        TC_TRY(parse_call(p, name, loc, &node));
        operand->kind = OPERAND_NODE;
        return add_node(p, &node, &operand->index);
    }
    if (!strcmp(name, "_")) {
        operand->kind = OPERAND_ANY;
        return p->building ? FAIL_AT(p, loc, "'_' is not a value") : TC_OK;
    }
    return use_name(p, name, loc, operand);
}

/* --- statements ------------------------------------------------------------------------------- */

/* As far as commas go on, and then the mark. */
static tc_status parse_names(parser *p, bool params, uint16_t **out_names, uint16_t *out_n, const char *end) {
    size_t cap = 0;
    bool more = p->tok.kind == T_NAME;
    while (more) {
        const char *text = NULL;
        rule_loc loc = p->tok.loc;
        uint16_t index = RULE_NONE;
        TC_TRY(rule_expect_name(p, "a name", &text));
        if (strcmp(text, "_") != 0)
            TC_TRY(add_name(p, text, loc, &index));
        bool optional = false;
        if (params) {
            TC_TRY(rule_take(p, "?", &optional));
            if (index != RULE_NONE && p->rule->names[index].param)
                return FAIL_AT(p, loc, "'%s' is a parameter twice", text);
        }
        if (params && index != RULE_NONE) {
            p->rule->names[index].param = true;
            p->rule->names[index].optional = optional;
        }
        *out_names = tc_arena_grow(p->arena, *out_names, sizeof **out_names, &cap, *out_n + 1u);
        (*out_names)[(*out_n)++] = index;
        TC_TRY(rule_take(p, ",", &more));
    }
    return rule_expect_punct(p, end);
}

static tc_status parse_statement(parser *p) {
    uint16_t *outputs = NULL, n_outputs = 0, index;
    rule_loc loc = p->tok.loc;
    rule_node node;
    if (p->tok.kind != T_NAME)
        return FAIL(p, "expected a statement or '}' before '%s'", rule_token_text(p));
    TC_TRY(parse_names(p, false, &outputs, &n_outputs, "="));
    rule_operand value;
    uint16_t before = p->building ? p->rule->n_build : p->rule->n_match;
    TC_TRY(parse_operand(p, &value));
    if (value.kind == OPERAND_NODE) { /* it was just added, as the last one */
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
    return rule_take(p, ";", &semicolon);
}

static tc_status parse_block(parser *p, bool building) {
    p->building = building;
    p->depth = 0;
    TC_TRY(rule_expect_punct(p, "{"));
    while (!rule_is_punct(p, "}"))
        TC_TRY(parse_statement(p));
    return rule_next(p);
}

static tc_status parse_guard_args(parser *p, rule_guard *guard) {
    size_t cap = 0;
    guard->text = tc_arena_printf(p->arena, "%s%s(", guard->negated ? "!" : "", guard->row->name);
    TC_TRY(rule_expect_punct(p, "("));
    for (bool more = !rule_is_punct(p, ")"); more;) {
        guard_arg arg = {.name = RULE_NONE, .number = p->tok.number, .string = p->tok.text};
        if (p->tok.kind != T_NAME && p->tok.kind != T_NUMBER && p->tok.kind != T_STRING)
            return FAIL(p, "expected a name, number or string before '%s'", rule_token_text(p));
        arg.kind = p->tok.kind == T_NAME ? GUARD_NAME : p->tok.kind == T_NUMBER ? GUARD_NUMBER : GUARD_STRING;
        guard->args = tc_arena_grow(p->arena, guard->args, sizeof arg, &cap, guard->n_args + 1u);
        const char *quote = arg.kind == GUARD_STRING ? "\"" : "";
        guard->text =
            tc_arena_printf(p->arena, "%s%s%s%s%s", guard->text, guard->n_args ? ", " : "", quote, arg.string, quote);
        guard->args[guard->n_args++] = arg;
        TC_TRY(rule_next(p));
        TC_TRY(rule_take(p, ",", &more));
    }
    guard->text = tc_arena_printf(p->arena, "%s)", guard->text);
    return rule_expect_punct(p, ")");
}

/* Of dims, or of an axis: whole, and no more than a tensor has. */
static tc_status check_dims(parser *p, const rule_guard *guard, char want, unsigned index) {
    double number = guard->args[index].number, least = want == 'x' ? -TC_MAX_RANK : 0;
    if (number >= least && number <= TC_MAX_RANK && number == floor(number))
        return TC_OK;
    return FAIL_AT(p, guard->loc,
                   "argument %u of '%s' is %g: expected a whole number from %g to %d, the most dims of "
                   "a tensor",
                   index + 1u, guard->row->name, number, least, TC_MAX_RANK);
}

static tc_status check_guard(parser *p, rule_guard *guard) {
    const char *want = guard->row->args;
    for (uint16_t i = 0; i < guard->n_args; i++) {
        guard_arg *arg = &guard->args[i];
        if (arg->kind == GUARD_NAME)
            arg->name = rule_find_name(p->rule, arg->string);
        if (!*want)
            return FAIL_AT(p, guard->loc, "too many arguments for guard '%s'", guard->row->name);
        if (*want == 'v' && arg->name == RULE_NONE)
            return FAIL_AT(p, guard->loc, "argument %u of '%s' is not a name of the match", i + 1u, guard->row->name);
        bool dims = *want == 'd' || *want == 'x';
        if ((dims || *want == 'n') && arg->kind != GUARD_NUMBER)
            return FAIL_AT(p, guard->loc, "argument %u of '%s' is not a number", i + 1u, guard->row->name);
        if (dims)
            TC_TRY(check_dims(p, guard, *want, i));
        if (*want == 's' && arg->kind == GUARD_NUMBER)
            return FAIL_AT(p, guard->loc, "argument %u of '%s' is not a word", i + 1u, guard->row->name);
        if (want[1] != '*')
            want++;
    }
    if (*want && want[1] != '*')
        return FAIL_AT(p, guard->loc, "too few arguments for guard '%s'", guard->row->name);
    return TC_OK;
}

tc_status rule_parse_guards(parser *p) {
    for (bool more = true; more;) {
        rule_guard guard = {.loc = p->tok.loc};
        const char *name = NULL;
        TC_TRY(rule_take(p, "!", &guard.negated));
        TC_TRY(rule_expect_name(p, "a guard", &name));
        guard.row = guard_find(name);
        if (!guard.row)
            return FAIL_AT(p, guard.loc, "unknown guard or part '%s'", tc_quote(p->lx.ctx, name));
        TC_TRY(parse_guard_args(p, &guard));
        tc_rule *rule = p->rule;
        rule->guards = tc_arena_grow(p->arena, rule->guards, sizeof guard, &p->cap_guards, rule->n_guards + 1u);
        rule->guards[rule->n_guards++] = guard;
        TC_TRY(rule_take(p, ",", &more));
    }
    return TC_OK;
}

/* Names are known after the match, where parts that it uses have brought their guards. */
static tc_status parse_where(parser *p) {
    if (rule_is_word(p, "where")) {
        TC_TRY(rule_next(p));
        TC_TRY(rule_parse_guards(p));
    }
    for (uint16_t i = 0; i < p->rule->n_guards; i++)
        TC_TRY(check_guard(p, &p->rule->guards[i]));
    return TC_OK;
}

/* --- rules ------------------------------------------------------------------------------------ */

/* `out_of`: the parameter that scales roundings, whose name is not known yet. */
static tc_status parse_flags(parser *p, const char **out_of) {
    tc_rule *rule = p->rule;
    for (;;) {
        bool *flag = rule_is_word(p, "inexact")  ? &rule->inexact
                     : rule_is_word(p, "rounds") ? &rule->rounds
                     : rule_is_word(p, "mends")  ? &rule->mends
                                                 : NULL;
        bool given = rule_is_word(p, "benefit");
        if (!flag && !given)
            return TC_OK;
        TC_TRY(rule_next(p));
        if (flag) {
            *flag = true;
            if (flag == &rule->rounds)
                TC_TRY(rule_take(p, "=", &given));
            if (given)
                TC_TRY(rule_expect_name(p, "a parameter", out_of));
            continue;
        }
        TC_TRY(rule_expect_punct(p, "="));
        if (p->tok.kind != T_NUMBER || !p->tok.integral || p->tok.integer < 0 || p->tok.integer > 10000)
            return FAIL(p, "benefit is an integer from 0 to 10000");
        rule->benefit = (int)p->tok.integer;
        TC_TRY(rule_next(p));
    }
}

static tc_status parse_rule(parser *p) {
    tc_rule *rule = p->rule;
    TC_TRY(rule_expect_name(p, "the rule's name", &rule->name));
    if (tc_map_get(p->set->by_name, rule->name))
        return FAIL_AT(p, rule->loc, "there is a rule '%s' already", rule->name);
    if (p->tok.kind == T_STRING) {
        rule->doc = p->tok.text;
        TC_TRY(rule_next(p));
    }
    const char *rounds_of = NULL;
    rule->benefit = -1;
    TC_TRY(parse_flags(p, &rounds_of));
    TC_TRY(rule_expect(p, T_NAME, "match"));
    TC_TRY(rule_expect_punct(p, "("));
    TC_TRY(parse_names(p, true, &rule->params, &rule->n_params, ")"));
    rule->rounds_of = rounds_of ? rule_find_name(rule, rounds_of) : RULE_NONE;
    if (rounds_of && rule->rounds_of == RULE_NONE)
        return FAIL_AT(p, rule->loc, "rule '%s' rounds by '%s', which is not a parameter", rule->name, rounds_of);
    TC_TRY(rule_expect_punct(p, "=>"));
    TC_TRY(rule_expect_punct(p, "("));
    TC_TRY(parse_names(p, false, &rule->outs, &rule->n_outs, ")"));
    for (uint16_t i = 0; i < rule->n_outs; i++)
        if (rule->outs[i] != RULE_NONE)
            rule->names[rule->outs[i]].is_out = true;
    TC_TRY(parse_block(p, false));
    TC_TRY(parse_where(p));
    TC_TRY(rule_expect(p, T_NAME, "replace"));
    return parse_block(p, true);
}

static tc_status parse_gradient(parser *p) {
    tc_rule *rule = p->rule;
    const char *op = NULL;
    rule->gradient = true;
    TC_TRY(rule_expect_name(p, "an op", &op));
    split_op(p, op, &rule->op);
    if (!rule->op.op && !*rule->op.domain)
        return FAIL_AT(p, rule->loc, "unknown op '%s'", tc_quote(p->lx.ctx, op));
    rule->name = tc_arena_printf(p->arena, "gradient %s", op);
    TC_TRY(rule_expect_punct(p, "("));
    TC_TRY(parse_names(p, true, &rule->params, &rule->n_params, ";"));
    TC_TRY(parse_names(p, true, &rule->outs, &rule->n_outs, ";"));
    TC_TRY(parse_names(p, true, &rule->douts, &rule->n_douts, ")"));
    for (uint16_t i = 0; i < rule->n_params && i < INT8_MAX; i++)
        if (rule->params[i] != RULE_NONE)
            rule->names[rule->params[i]].input = (int8_t)i;
    TC_TRY(rule_expect_punct(p, "=>"));
    TC_TRY(rule_expect_punct(p, "("));
    TC_TRY(parse_names(p, false, &rule->results, &rule->n_results, ")"));
    TC_TRY(parse_where(p));
    return parse_block(p, true);
}

static tc_status parse_clause(parser *p) {
    bool is_gradient = rule_is_word(p, "gradient");
    if (rule_is_word(p, "part"))
        return rule_parse_part(p);
    if (rule_is_word(p, "function")) {
        TC_TRY(rule_next(p));
        return rule_parse_function(p);
    }
    if (!is_gradient && !rule_is_word(p, "rule"))
        return FAIL(p, "expected 'rule', 'gradient', 'part' or 'function' before '%s'", rule_token_text(p));
    p->rule = TC_NEW(p->arena, tc_rule);
    p->cap_names = p->cap_match = p->cap_build = p->cap_guards = p->n_texts = 0;
    p->building = false;
    *p->rule = (tc_rule){.file = p->lx.name, .loc = p->tok.loc};
    TC_TRY(rule_next(p));
    TC_TRY(is_gradient ? parse_gradient(p) : parse_rule(p));
    return rule_compile(&p->lx, p->set, p->rule);
}

tc_status tc_rules_parse(tc_ctx *ctx, const char *text, const char *file, tc_rule_set *set) {
    parser p = {.set = set, .arena = set->arena, .parts = tc_map_create(set->arena)};
    TC_TRY(tc_lexer_init(&p.lx, ctx, set->arena, text, strlen(text), tc_arena_strdup(set->arena, file)));
    tc_status status = rule_next(&p);
    while (status == TC_OK && p.tok.kind != T_END)
        status = parse_clause(&p);
    if (p.use) /* a mistake in its text */
        tc_hint(ctx, "part '%s' is used in line %u", p.use->part->name, p.use->line);
    return status == TC_OK ? rule_check_parts(&p) : status;
}
