/* train_schedule.c: the number of an update -> its learning rate. */
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [TRAIN_LINEAR] = "linear", [TRAIN_COSINE] = "cosine", [TRAIN_CONSTANT] = "constant"};

tc_status train_schedule_find(tc_ctx *ctx, const char *name, train_schedule_kind *out_kind) {
    for (size_t i = 0; i < TC_COUNT(names); i++) {
        *out_kind = (train_schedule_kind)i;
        if (strcmp(names[i], name) == 0)
            return TC_OK;
    }
    return tc_error(ctx, TC_USAGE, NULL, "--schedule=%s: expected linear, cosine or constant", tc_quote(ctx, name));
}

tc_status train_parse_warmup(tc_ctx *ctx, const char *text, int64_t updates, int64_t *out_warmup) {
    char *end;
    double number = strtod(text, &end);
    bool share = strcmp(end, "%") == 0;
    bool good = end != text && (share || *end == '\0') && number >= 0 && number <= (share ? 100 : 1e15) &&
                (share || number == floor(number));
    if (!good) {
        tc_error(ctx, TC_USAGE, NULL, "--warmup=%s: expected a number of updates, or a share of them",
                 tc_quote(ctx, text));
        tc_hint(ctx, "for example: --warmup=100, or --warmup=6%%");
        return TC_USAGE;
    }
    *out_warmup = (int64_t)(share ? ceil(number / 100 * (double)updates) : number);
    return TC_OK;
}

double train_rate(const train_schedule *s, int64_t update) {
    const double pi = 3.14159265358979323846;
    if (update <= s->warmup)
        return s->rate * (double)update / (double)(s->warmup + 1);
    double span = (double)(s->updates - s->warmup), t = span > 0 ? (double)(update - 1 - s->warmup) / span : 0;
    switch (s->kind) {
    case TRAIN_LINEAR: return s->rate * (1 - t);
    case TRAIN_COSINE: return s->rate * (1 + cos(pi * t)) / 2;
    case TRAIN_CONSTANT: break;
    }
    return s->rate;
}
