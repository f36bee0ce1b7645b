/* choose_rewrites.c: from all rewrites to those that a run is smaller for. A rewrite is of one kind in all layers:
 * layers are alike, and so one decision holds for each kind. Of two that do the same for the peak, time decides:
 * the dearer one is left out first, and then the other one is needed. */
#include "choose_rewrites.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST 128 /* rewrites that are weighed; there are fewer rules that keep less */

typedef struct rewrite {
    const char *name;
    uint64_t matched;
    bool left_out;
    int64_t bytes, time; /* what the arena and the time are more, or less, without it beside the others */
} rewrite;

typedef struct choice {
    tc_ctx *ctx;
    const tc_watcher *watcher;
    tc_rewrite_trial attempt;
    void *user;
    rewrite rewrites[MOST]; /* [n] */
    size_t n;
    const char *disabled[MOST];
    const tc_summary *none;
    tc_rewrite_outcome now;
} choice;

static uint64_t matched(const tc_summary *summary, const char *name) {
    for (size_t i = 0; i < summary->n_rules; i++)
        if (strcmp(summary->rules[i].name, name) == 0)
            return summary->rules[i].matched;
    return 0;
}

static rewrite *find(choice *c, const char *name) {
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->rewrites[i].name, name) == 0)
            return &c->rewrites[i];
    return NULL;
}

/* What matches now, and does not without the passes that keep less: also what others were in the way of. */
static void list_rewrites(choice *c) {
    for (size_t i = 0; i < c->now.summary->n_rules && c->n < MOST; i++) {
        const tc_rule_stat *row = &c->now.summary->rules[i];
        if (row->matched > 0 && matched(c->none, row->name) == 0 && !find(c, row->name))
            c->rewrites[c->n++] = (rewrite){.name = row->name};
    }
    for (size_t i = 0; i < c->n; i++)
        if (!c->rewrites[i].left_out)
            c->rewrites[i].matched = matched(c->now.summary, c->rewrites[i].name);
}

static size_t list_disabled(choice *c, const rewrite *but) {
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->rewrites[i].left_out || &c->rewrites[i] == but)
            c->disabled[n++] = c->rewrites[i].name;
    return n;
}

/* Without it, beside all that are left out already. */
static tc_status weigh(choice *c, rewrite *r, tc_rewrite_outcome *out) {
    tc_show_progress(c->watcher, tc_arena_printf(c->ctx->arena, "auto: without %s", r->name));
    *out = c->now;
    tc_status status = r->matched > 0 ? c->attempt(c->user, c->disabled, list_disabled(c, r), out) : TC_OK;
    tc_show_progress(c->watcher, NULL);
    r->bytes = (int64_t)(out->arena - c->now.arena);
    r->time = (int64_t)(out->cost - c->now.cost);
    return status;
}

/* Those that most time is saved without come first; then as the recipe applies them. */
static int dearest_first(const void *a, const void *b) {
    const rewrite *const *x = a, *const *y = b;
    if ((*x)->time != (*y)->time)
        return (*x)->time < (*y)->time ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

/* Weighs all, then leaves out what it can, one after the other. */
static tc_status look_at_all(choice *c, bool *out_changed) {
    rewrite *order[MOST];
    tc_rewrite_outcome without;
    size_t n = 0;
    list_rewrites(c);
    for (size_t i = 0; i < c->n; i++)
        if (!c->rewrites[i].left_out)
            order[n++] = &c->rewrites[i];
    for (size_t i = 0; i < n; i++)
        TC_TRY(weigh(c, order[i], &without));
    qsort(order, n, sizeof *order, dearest_first);
    *out_changed = false;
    for (size_t i = 0; i < n; i++) {
        rewrite *r = order[i];
        r->matched = matched(c->now.summary, r->name);
        TC_TRY(weigh(c, r, &without));
        r->left_out = r->matched > 0 && (r->bytes < 0 || (r->bytes == 0 && r->time <= 0));
        if (r->left_out)
            c->now = without;
        *out_changed = *out_changed || r->left_out;
    }
    return TC_OK;
}

static tc_status choose(choice *c) {
    tc_rewrite_outcome none;
    TC_TRY(c->attempt(c->user, NULL, 0, &none));
    c->none = none.summary;
    TC_TRY(c->attempt(c->user, c->disabled, 0, &c->now));
    for (bool changed = true; changed;) /* each round but the last leaves one out at least */
        TC_TRY(look_at_all(c, &changed));
    return TC_OK;
}

static const char *verdict(const rewrite *r) {
    if (!r->left_out && r->matched == 0)
        return "not applied: it finds no place beside the others";
    if (!r->left_out)
        return r->bytes > 0 ? "applied" : "applied: it takes less time";
    if (r->bytes < 0)
        return "left out: the arena is smaller without it";
    return r->time < 0 ? "left out: the arena is no smaller with it, and it takes time"
                       : "left out: the arena is no smaller with it";
}

static void print(const choice *c, FILE *out) {
    fprintf(out, "auto       %-34s %8s %16s %10s\n", "rewrite", "places", "bytes without it", "time");
    for (size_t i = 0; i < c->n; i++) {
        const rewrite *r = &c->rewrites[i];
        double percent = c->now.cost > 0 ? 100 * (double)r->time / (double)c->now.cost : 0;
        fprintf(out, "           %-34s %8" PRIu64 " %+16" PRId64 " %+9.2f%%  %s\n", r->name, r->matched, r->bytes,
                percent, verdict(r));
    }
}

tc_status tc_choose_rewrites(tc_ctx *ctx, const tc_watcher *watcher, tc_rewrite_trial attempt, void *user, FILE *out,
                             const char ***out_disabled, size_t *out_n) {
    choice *c = TC_NEW(ctx->arena, choice);
    *c = (choice){.ctx = ctx, .watcher = watcher, .attempt = attempt, .user = user};
    TC_TRY(choose(c));
    *out_n = list_disabled(c, NULL);
    *out_disabled = c->disabled;
    if (out)
        print(c, out);
    return TC_OK;
}
