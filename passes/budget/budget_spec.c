/* budget_spec.c: from the text of --memory-budget to numbers. No floating point, so that a budget is the same
 * everywhere. */
#include "compiler/base/base.h"
#include "budget.h"
#include "budget_names.h"
#include <string.h>

enum { MOST_POINTS = 33, MOST_PERCENT = 1000000 }; /* of --pareto, of --memory-budget */

static const char usage[] = "give " TC_BYTES_USAGE ", 50% of the memory under recipe none, or min";

static bool parse(const char *text, tc_budget_spec *out) {
    const char *at = text;
    tc_decimal share;
    if (strcmp(text, "min") == 0) {
        out->kind = TC_BUDGET_MIN;
        return true;
    }
    if (tc_read_decimal(&at, &share) && strcmp(at + strspn(at, " "), "%") == 0 && share.whole < MOST_PERCENT) {
        out->kind = TC_BUDGET_PERCENT;
        out->millionths = share.whole * 10000 + share.millionths / 100;
        return out->millionths > 0;
    }
    return tc_parse_bytes(text, &out->bytes);
}

tc_status tc_budget_parse(tc_ctx *ctx, const char *text, tc_budget_spec *out_spec) {
    *out_spec = (tc_budget_spec){.kind = TC_BUDGET_BYTES};
    if (parse(text, out_spec))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "--memory-budget=%s: expected an amount of memory", tc_quote(ctx, text));
    tc_hint(ctx, "%s", usage);
    return TC_USAGE;
}

static tc_status check_names(tc_ctx *ctx, const char *option, const char *const *expressions, size_t n) {
    tc_names names;
    for (size_t i = 0; i < n; i++) {
        TC_TRY(tc_names_open(ctx, option, expressions[i], &names));
        tc_names_close(&names);
    }
    return TC_OK;
}

void tc_drop_budget(tc_options *options) {
    options->memory_budget = NULL;
    options->n_save = options->n_recompute = 0;
    options->remat_time = 0;
    options->pareto = 0;
    options->best_effort = false;
}

bool tc_budget_asks_initial(tc_ctx *ctx, const tc_options *options) {
    tc_budget_spec spec = {.kind = TC_BUDGET_BYTES};
    bool is_share = options->memory_budget && tc_budget_parse(ctx, options->memory_budget, &spec) == TC_OK &&
                    spec.kind == TC_BUDGET_PERCENT;
    return is_share || options->pareto > 0;
}

tc_status tc_check_budget(tc_ctx *ctx, const tc_options *options) {
    tc_budget_spec spec;
    if (options->memory_budget)
        TC_TRY(tc_budget_parse(ctx, options->memory_budget, &spec));
    TC_TRY(check_names(ctx, "save", options->save, options->n_save));
    TC_TRY(check_names(ctx, "recompute", options->recompute, options->n_recompute));
    if (!(options->remat_time >= 0 && options->remat_time <= 100000))
        return tc_error(ctx, TC_USAGE, NULL, "--remat-time: expected 0 to 100000 seconds");
    if (options->pareto != 0 && (options->pareto < 2 || options->pareto > MOST_POINTS))
        return tc_error(ctx, TC_USAGE, NULL, "--pareto: expected 2 to %d points", MOST_POINTS);
    bool alone = options->n_save || options->n_recompute || options->remat_time > 0 || options->best_effort;
    if (alone && !options->memory_budget && !options->pareto) {
        tc_error(ctx, TC_USAGE, NULL,
                 "--save, --recompute, --remat-time and --best-effort need --memory-budget or --pareto");
        tc_hint(ctx, "%s", usage);
        return TC_USAGE;
    }
    return TC_OK;
}
