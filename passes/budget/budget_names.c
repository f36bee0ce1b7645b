/* budget_names.c: the expressions of --save and --recompute, matched against names of nodes and of their results. */
#include "budget_names.h"
#include "compiler/cli/cli.h"

static void release(void *regex) { regfree(regex); }

tc_status tc_names_open(tc_ctx *ctx, const char *option, const char *expression, tc_names *out_names) {
    char why[160];
    int code = *expression ? regcomp(&out_names->regex, expression, REG_EXTENDED | REG_NOSUB) : REG_BADPAT;
    if (code == 0) {
        tc_hold(&out_names->held, release, &out_names->regex);
        return TC_OK;
    }
    regerror(code, NULL, why, sizeof why);
    tc_error(ctx, TC_USAGE, NULL, "--%s=%s: not an extended regular expression: %s", option, tc_quote(ctx, expression),
             why);
    tc_hint(ctx, "it is one of POSIX: 'layer\\.3/' or '^(attn|mlp)'");
    return TC_USAGE;
}

void tc_names_close(tc_names *names) {
    tc_let_go(&names->held);
    regfree(&names->regex);
}

static bool matches(const tc_names *names, const char *text) {
    return *text && regexec(&names->regex, text, 0, NULL, 0) == 0;
}

bool tc_names_match_node(const tc_names *names, const tc_node *node) {
    if (matches(names, node->name))
        return true;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && matches(names, node->outputs[i]->name))
            return true;
    return false;
}

tc_status tc_names_unknown(tc_ctx *ctx, const tc_graph *graph, const char *option, const char *expression) {
    tc_nearest nearest;
    tc_nearest_begin(&nearest, expression);
    TC_FOR_NODES(node, graph) {
        tc_nearest_offer(&nearest, node->name);
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                tc_nearest_offer(&nearest, node->outputs[i]->name);
    }
    tc_error(ctx, TC_USAGE, NULL, "--%s=%s: no node and no result of a node has such a name", option,
             tc_quote(ctx, expression));
    if (nearest.best && *nearest.best)
        tc_hint(ctx, "did you mean %s?", tc_quote(ctx, nearest.best));
    else
        tc_hint(ctx, "--print-ir-before=budget shows the names");
    return TC_USAGE;
}
