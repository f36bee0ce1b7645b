/* parts.c: named parts of rules, `part NAME(PARAMETERS) { TEXT } where GUARDS`: text that rules of a file share.
 * `NAME(ARGUMENTS)` stands for the text, with the arguments in place of the parameters: rule_next hands out its tokens,
 * so the parser and all that follows see a rule that was written out. The rule gets the guards, too. */
#include "parse.h"
#include <string.h>

#define MAX_TEXTS 1000 /* that one rule puts in: parts that use parts twice grow fast */

/* The text up to a mark of `ends` that no bracket encloses, which comes into hand. */
static tc_status cut(tc_lexer *lx, const char *ends, tc_lexer *out_text) {
    *out_text = *lx;
    unsigned depth = 0;
    while (depth || !lx->token.mark || !strchr(ends, lx->token.mark)) {
        if (lx->token.kind == TC_TOKEN_END)
            return tc_lexer_error(lx, "expected '%s' before the end of the text", strchr(ends, '\0') - 1);
        depth += lx->token.mark && strchr("([{<", lx->token.mark);
        depth -= depth && lx->token.mark && strchr(")]}>", lx->token.mark);
        TC_TRY(tc_lexer_next(lx));
    }
    out_text->end = lx->token.start;
    if (out_text->token.start == out_text->end)
        out_text->token.kind = TC_TOKEN_END;
    return TC_OK;
}

/* By the lexer's tokens: a part that the text uses is put in where this one is. */
tc_status rule_parse_part(parser *p) {
    tc_lexer *lx = &p->lx, text;
    rule_part *part = TC_NEW(p->arena, rule_part);
    size_t cap = 0;
    part->loc = lx->token;
    TC_TRY(tc_lexer_ident(lx, "the part's name", &part->name));
    if (tc_map_get(p->parts, part->name) || guard_find(part->name))
        return FAIL_AT(p, part->loc, "there is a part or a guard '%s' already", part->name);
    tc_map_set(p->parts, part->name, part);
    TC_TRY(tc_lexer_expect(lx, '('));
    for (bool more = !tc_lexer_is(lx, ')'); more; more = tc_lexer_accept(lx, ',')) {
        part->params = tc_arena_grow(p->arena, part->params, sizeof *part->params, &cap, part->n_params + 1u);
        TC_TRY(tc_lexer_ident(lx, "a parameter", &part->params[part->n_params++]));
    }
    TC_TRY(tc_lexer_expect(lx, ')'));
    TC_TRY(tc_lexer_expect(lx, '{'));
    TC_TRY(cut(lx, "}", &part->text));
    TC_TRY(tc_lexer_next(lx));
    part->guarded = tc_lexer_accept_word(lx, "where");
    part->guards = *lx;
    for (bool more = part->guarded; more; more = tc_lexer_accept(lx, ',')) {
        TC_TRY(cut(lx, "(", &text));
        TC_TRY(tc_lexer_next(lx));
        TC_TRY(cut(lx, ")", &text));
        part->guards.end = lx->pos;
        TC_TRY(tc_lexer_next(lx));
    }
    return rule_next(p);
}

tc_status rule_check_parts(parser *p) {
    const void *name;
    void *part;
    for (size_t cursor = 0; tc_map_next(p->parts, &cursor, &name, &part);)
        if (!((rule_part *)part)->used)
            return FAIL_AT(p, ((rule_part *)part)->loc, "part '%s' is not used", ((rule_part *)part)->name);
    return TC_OK;
}

static tc_status enter(parser *p, const tc_lexer *text, const rule_use *use) {
    rule_frame *frame = TC_NEW(p->arena, rule_frame);
    *frame = (rule_frame){.back = p->lx, .use = p->use, .outer = p->frame};
    if (++p->n_texts > MAX_TEXTS)
        return FAIL(p, "parts stand for more than %d texts in this rule", MAX_TEXTS);
    p->frame = frame;
    p->lx = *text;
    p->use = use;
    return TC_OK;
}

static tc_status take_guards(parser *p, const rule_use *use) {
    parser inner = *p; /* ends where their text does */
    TC_TRY(enter(&inner, &use->part->guards, use));
    inner.frame = NULL;
    p->use = use; /* for the hint */
    TC_TRY(rule_next(&inner));
    TC_TRY(rule_parse_guards(&inner));
    if (inner.tok.kind != T_END)
        return FAIL(&inner, "expected ',' before '%s'", rule_token_text(&inner));
    p->cap_guards = inner.cap_guards;
    p->n_texts = inner.n_texts;
    p->use = use->in;
    return TC_OK;
}

static tc_status use_part(parser *p, rule_part *part) {
    tc_lexer *lx = &p->lx, text;
    rule_use *use = TC_NEW(p->arena, rule_use);
    size_t n = 0;
    *use = (rule_use){part, TC_NEW_ARRAY(p->arena, tc_lexer, part->n_params + 1), p->use, p->tok.loc.line};
    part->used = true;
    for (const rule_use *outer = p->use; outer; outer = outer->in)
        if (outer->part == part)
            return FAIL(p, "part '%s' uses itself", part->name);
    TC_TRY(tc_lexer_expect(lx, '('));
    for (bool more = part->n_params || !tc_lexer_is(lx, ')'); more; n++) {
        TC_TRY(cut(lx, ",)", &text));
        more = tc_lexer_accept(lx, ',');
        use->args[n < part->n_params ? n : part->n_params] = text;
    }
    if (n != part->n_params)
        return FAIL(p, "part '%s' takes %zu arguments, not %zu", part->name, part->n_params, n);
    TC_TRY(tc_lexer_expect(lx, ')'));
    if (part->guarded && p->building)
        return FAIL(p, "part '%s' has guards, which belong to the match", part->name);
    if (part->guarded)
        TC_TRY(take_guards(p, use));
    return enter(p, &part->text, use);
}

tc_status rule_expand(parser *p, bool *out_entered) {
    *out_entered = true;
    for (size_t i = 0; p->use && i < p->use->part->n_params; i++)
        if (!strcmp(p->use->part->params[i], p->tok.text))
            return enter(p, &p->use->args[i], p->use->in);
    rule_part *part = p->rule && tc_lexer_is(&p->lx, '(') ? tc_map_get(p->parts, p->tok.text) : NULL;
    *out_entered = part != NULL;
    return part ? use_part(p, part) : TC_OK;
}
