/* list.c: the names and titles of all rules, as text: `tempoc --list-rules`. */
#include "rules.h"
#include "passes/embedded/embedded.h"
#include "rule_ir.h"
#include <string.h>

/* Gradient rules of one op share a name and follow each other: they become one entry, in lines of up to 100 columns. */
static void list_gradients(const tc_rule *rule, FILE *out) {
    size_t column = 0;
    const char *last = "";
    for (; rule; rule = rule->next) {
        if (!rule->gradient)
            continue;
        const char *op = rule->name + strlen("gradient ");
        size_t size = strlen(op);
        if (!strcmp(op, last))
            continue;
        if (column && column + size + 2 > 100)
            column = 0;
        column += (size_t)fprintf(out, "%s%s", column ? ", " : *last ? ",\n  " : "  ", op);
        last = op;
    }
    if (column)
        fputc('\n', out);
}

tc_status tc_rules_list(tc_ctx *ctx, FILE *out) {
    tc_status status = TC_OK;
    for (const tc_embedded *file = tc_embedded_rules; file->name && status == TC_OK; file++) {
        tc_rule_set *set = tc_rules_create();
        status = tc_rules_parse(ctx, file->text, file->name, set);
        fprintf(out, "%s%s:\n", file == tc_embedded_rules ? "" : "\n", file->name);
        for (const tc_rule *rule = set->first; status == TC_OK && rule; rule = rule->next)
            if (!rule->gradient)
                fprintf(out, "  %-26s %s%s\n", rule->name, rule->doc ? rule->doc : "",
                        rule->inexact ? " (inexact)" : "");
        if (status == TC_OK)
            list_gradients(set->first, out);
        tc_rules_destroy(set);
    }
    return status;
}
