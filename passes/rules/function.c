/* function.c: `function ai.tempo.Op <attributes> (operands) => (results) { nodes }` in a rules file: the definition
 * of an op of ours as a function in ONNX text, beside the rules that make the op. The parser of rules only skips it;
 * bodies.c asks for the text when a graph uses the op. */
#include "passes/embedded/embedded.h"
#include "parse.h"
#include <string.h>

static const char keyword[] = "function", domain[] = TC_TEMPO_DOMAIN ".";

/* The op, or one of its variants by suffix: GeluGrad_tanh. */
static bool is_op(parser *p, const char *name) {
    size_t size = strcspn(name, "_");
    return tc_op_find(TC_TEMPO_DOMAIN, tc_arena_strndup(p->arena, name, size)) != NULL;
}

tc_status rule_parse_function(parser *p) {
    rule_loc loc = p->tok.loc;
    const char *name = NULL;
    int depth = 0;
    bool open = false;
    TC_TRY(rule_expect_name(p, "an op of " TC_TEMPO_DOMAIN, &name));
    if (strncmp(name, domain, strlen(domain)) != 0 || !is_op(p, name + strlen(domain)))
        return FAIL_AT(p, loc, "'%s' is not an op of " TC_TEMPO_DOMAIN, tc_quote(p->lx.ctx, name));
    while (!open || depth > 0) {
        if (p->tok.kind == T_END)
            return FAIL(p, "the function '%s' has no end", name);
        open |= rule_is_punct(p, "{");
        depth += rule_is_punct(p, "{") ? 1 : rule_is_punct(p, "}") ? -1 : 0;
        TC_TRY(rule_next(p));
    }
    if (p->set)
        p->set->n_functions++;
    return TC_OK;
}

/* `ai.tempo.NAME` after the keyword, which begins a line; or NULL. */
static const char *find_clause(const char *text, const char *name) {
    size_t size = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, keyword, strlen(keyword)) != 0)
            continue;
        const char *at = line + strlen(keyword);
        at += strspn(at, " ");
        if (strncmp(at, domain, strlen(domain)) == 0 && strncmp(at + strlen(domain), name, size) == 0 &&
            strchr(" <(", at[strlen(domain) + size]))
            return at;
    }
    return NULL;
}

tc_status tc_rules_function(tc_ctx *ctx, tc_arena *arena, const char *name, const char **out_text) {
    *out_text = NULL;
    for (const tc_embedded *file = tc_embedded_rules; file->name && !*out_text; file++) {
        const char *at = find_clause(file->text, name);
        if (!at)
            continue;
        parser p = {.arena = arena};
        TC_TRY(tc_lexer_init(&p.lx, ctx, arena, at, strlen(at), file->name));
        TC_TRY(rule_next(&p));
        TC_TRY(rule_parse_function(&p));
        at += strlen(domain);
        *out_text = tc_arena_strndup(arena, at, (size_t)(p.tok.loc.start - at));
    }
    return TC_OK;
}
