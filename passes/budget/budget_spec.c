/* budget_spec.c: from what --memory-budget says to numbers. No floating point: a budget is the same everywhere. */
#include "budget.h"
#include "budget_names.h"
#include <string.h>

enum { MOST_POINTS = 33 }; /* of --pareto */

static const char usage[] = "give bytes, 12GiB, 1.5MiB, 50% of what recipe none takes, or min";

static const struct {
    const char *name;
    uint64_t bytes;
} sizes[] = {{"B", 1}, {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", UINT64_C(1) << 40}};

/* A decimal number in millionths; digits behind the sixth do not count. False: none, or one beyond 2^50. */
static bool read_number(const char **text, uint64_t *out_millionths) {
    const char *at = *text;
    uint64_t number = 0, unit = 1000000;
    for (; *at >= '0' && *at <= '9'; at++) {
        number = number * 10 + (uint64_t)(*at - '0');
        if (number >> 43)
            return false;
    }
    bool any = at > *text;
    number *= unit;
    if (any && *at == '.' && at[1] >= '0' && at[1] <= '9')
        for (at++; *at >= '0' && *at <= '9'; at++)
            number += (uint64_t)(*at - '0') * (unit /= 10);
    *text = at;
    *out_millionths = number;
    return any;
}

/* False: less than a byte, or more than 2^62. */
static bool set_bytes(uint64_t millionths, uint64_t unit, uint64_t *out_bytes) {
    uint64_t whole = millionths / 1000000, part = millionths % 1000000;
    if (whole > (UINT64_C(1) << 62) / unit)
        return false;
    *out_bytes = whole * unit + unit * part / 1000000; /* below 2^60 */
    return *out_bytes > 0;
}

static bool parse(const char *text, tc_budget_spec *out) {
    uint64_t number;
    if (strcmp(text, "min") == 0) {
        out->kind = TC_BUDGET_MIN;
        return true;
    }
    if (!read_number(&text, &number))
        return false;
    text += *text == ' ';
    if (strcmp(text, "%") == 0) {
        out->kind = TC_BUDGET_PERCENT;
        out->millionths = number / 100;
        return number > 0;
    }
    for (size_t i = 0; i < TC_COUNT(sizes); i++)
        if (strcmp(*text ? text : "B", sizes[i].name) == 0)
            return set_bytes(number, sizes[i].bytes, &out->bytes);
    return false;
}

tc_status tc_budget_parse(tc_ctx *ctx, const char *text, tc_budget_spec *out_spec) {
    *out_spec = (tc_budget_spec){.kind = TC_BUDGET_BYTES};
    if (parse(text, out_spec))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "--memory-budget=%s: expected an amount of memory", tc_quote(ctx, text));
    tc_hint(ctx, "%s", usage);
    return TC_USAGE;
}

tc_status tc_amount_parse(tc_ctx *ctx, const char *option, const char *text, uint64_t *out_bytes) {
    tc_budget_spec spec = {.kind = TC_BUDGET_BYTES};
    if (!parse(text, &spec) || spec.kind != TC_BUDGET_BYTES) {
        tc_error(ctx, TC_USAGE, NULL, "--%s=%s: expected an amount of memory", option, tc_quote(ctx, text));
        tc_hint(ctx, "give bytes, 12GiB or 1.5MiB");
        return TC_USAGE;
    }
    *out_bytes = spec.bytes;
    return TC_OK;
}

static tc_status check_names(tc_ctx *ctx, const char *option, const char *const *expressions, size_t n) {
    tc_names names;
    for (size_t i = 0; i < n; i++) {
        TC_TRY(tc_names_open(ctx, option, expressions[i], &names));
        tc_names_close(&names);
    }
    return TC_OK;
}

tc_status tc_budget_check_options(tc_ctx *ctx, const tc_options *options) {
    tc_budget_spec spec;
    if (options->memory_budget)
        TC_TRY(tc_budget_parse(ctx, options->memory_budget, &spec));
    TC_TRY(check_names(ctx, "save", options->save, options->n_save));
    TC_TRY(check_names(ctx, "recompute", options->recompute, options->n_recompute));
    if (!(options->remat_time >= 0 && options->remat_time <= 100000))
        return tc_error(ctx, TC_USAGE, NULL, "--remat-time goes from 0 to 100000 seconds");
    if (options->pareto != 0 && (options->pareto < 2 || options->pareto > MOST_POINTS))
        return tc_error(ctx, TC_USAGE, NULL, "--pareto goes from 2 to %d points", MOST_POINTS);
    bool alone = options->n_save || options->n_recompute || options->remat_time > 0 || options->best_effort;
    if (alone && !options->memory_budget && !options->pareto) {
        tc_error(ctx, TC_USAGE, NULL,
                 "--save, --recompute, --remat-time and --best-effort go with --memory-budget or --pareto");
        tc_hint(ctx, "%s", usage);
        return TC_USAGE;
    }
    return TC_OK;
}
