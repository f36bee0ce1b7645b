/* text.c: the report that tempoc prints: five lines; one more each for an optimizer and for the memory, needs and
 * costs of a run, if they are known; a table for a curve; with -v the names for the numbers. */
#include "passes/torch/metadata/metadata.h"
#include "passes/weights/weights.h"
#include "report.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FEW 5 /* rules shown without -v */

static void print_nodes(FILE *out, const tc_summary *s) {
    fprintf(out, "nodes      %u -> %u", s->nodes_before, s->nodes_after);
    if (s->n_trained + s->n_frozen + s->n_unreached > 0)
        fprintf(out, ", %zu initializers trained, %zu frozen, %zu unreached", s->n_trained, s->n_frozen,
                s->n_unreached);
    fputc('\n', out);
}

static void print_update(FILE *out, const tc_update_summary *u) {
    fprintf(out, "update     %s of %zu weight%s", u->optimizer, u->n_updated, u->n_updated == 1 ? "" : "s");
    if (u->weight_decay > 0)
        fprintf(out, "; decay %g, %zu without decay: one axis, or norms", u->weight_decay, u->n_spared);
    fputc('\n', out);
}

/* Rules that freed bytes first, then rewrites, then gradients; within each those with most matches. */
static int rank(const tc_rule_row *row) {
    bool frees = row->bytes_freed.formula || row->bytes_freed.bytes;
    return frees ? 0 : strncmp(row->name, "gradient ", 9) != 0 ? 1 : 2;
}

static int foremost_first(const void *a, const void *b) {
    const tc_rule_row *x = a, *y = b;
    if (rank(x) != rank(y))
        return rank(x) - rank(y);
    if (x->matched != y->matched)
        return x->matched < y->matched ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void print_rules(FILE *out, tc_ctx *ctx, const tc_report *r, bool all) {
    tc_rule_row *rows = TC_NEW_ARRAY(ctx->arena, tc_rule_row, r->n_rules + 1);
    memcpy(rows, r->rules, r->n_rules * sizeof *rows);
    qsort(rows, r->n_rules, sizeof *rows, foremost_first);
    size_t shown = all || r->n_rules <= FEW ? r->n_rules : FEW - 1;
    fprintf(out, "rules      %s", r->n_rules ? "" : "none applied");
    for (size_t i = 0; i < shown; i++)
        fprintf(out, "%s%s %llu", i ? ", " : "", rows[i].name, (unsigned long long)rows[i].matched);
    if (shown < r->n_rules)
        fprintf(out, " and %zu more", r->n_rules - shown);
    fputc('\n', out);
}

static void print_change(FILE *out, tc_ctx *ctx, const char *label, const tc_amount *before, tc_amount after,
                         const char *what) {
    double percent;
    const char *was = before ? tc_amount_text(ctx->arena, *before) : NULL, *is = tc_amount_text(ctx->arena, after);
    fprintf(out, "%-11s", label);
    if (was && !(after.unknown && strcmp(was, is) == 0))
        fprintf(out, "%s -> ", was);
    fputs(is, out);
    if (before && tc_amount_saving(*before, after, &percent))
        fprintf(out, " (%.1f%% %s)", percent < 0 ? -percent : percent, percent < 0 ? "more" : "less");
    fprintf(out, " %s\n", what);
}

/* In bytes, because it is a guarantee. */
static void print_arena(FILE *out, tc_ctx *ctx, const tc_account *before, const tc_account *after) {
    bool compared = before && before->has_footprint;
    if (!after->has_footprint)
        return;
    tc_amount was = tc_amount_of(compared ? before->footprint.arena : 0);
    const char *what = tc_arena_printf(ctx->arena, "allocated by a run: %" PRIu64 " bytes", after->footprint.arena);
    if (after->footprint.missing)
        what = tc_arena_printf(ctx->arena, "%s; there is no kernel for %s yet", what, after->footprint.missing);
    print_change(out, ctx, "arena", compared ? &was : NULL, tc_amount_of(after->footprint.arena), what);
}

static const char *bytes_text(tc_ctx *ctx, uint64_t bytes) { return tc_amount_text(ctx->arena, tc_amount_of(bytes)); }

static void print_need(FILE *out, tc_ctx *ctx, const tc_report *r) {
    const tc_need *n = &r->after->need;
    if (!r->after->trains)
        return;
    fprintf(out, "need       %s", n->known ? bytes_text(ctx, n->total) : r->after->unsized);
    if (n->known && r->fit)
        fprintf(out, " of %s", bytes_text(ctx, r->fit->memory));
    fputs(" for a training step", out);
    if (n->known)
        fprintf(out, ": weights %s, state of %s %s, arena %s\n           with gradients of %s, inputs %s, program %s",
                bytes_text(ctx, n->parameters), r->optimizer, bytes_text(ctx, n->optimizer), bytes_text(ctx, n->arena),
                bytes_text(ctx, n->gradients), bytes_text(ctx, n->inputs), bytes_text(ctx, n->program));
    fputc('\n', out);
}

static const char *cost_text(tc_arena *arena, const tc_account *account) {
    if (strcmp(account->cost_source, "unit") == 0)
        return tc_arena_printf(arena, "%" PRIu64 " nodes", account->cost);
    return tc_arena_printf(arena, "%.3f ms", 1e-6 * (double)account->cost);
}

static void print_cost(FILE *out, tc_ctx *ctx, const tc_account *before, const tc_account *after) {
    if (!after->cost_source)
        return;
    fprintf(out, "%-11s", "cost");
    if (before && before->cost_source)
        fprintf(out, "%s -> ", cost_text(ctx->arena, before));
    fputs(cost_text(ctx->arena, after), out);
    if (before && before->cost_source && before->cost > 0) {
        double percent = 100 * ((double)after->cost - (double)before->cost) / (double)before->cost;
        fprintf(out, " (%.1f%% %s)", percent < 0 ? -percent : percent, percent < 0 ? "less" : "more");
    }
    fprintf(out, " for a run, by %s\n", after->cost_source);
}

static void print_plan(FILE *out, const tc_plan_summary *p) {
    double more =
        p->cost_before ? 100.0 * ((double)p->cost_after - (double)p->cost_before) / (double)p->cost_before : 0;
    if (!p->changed) {
        fprintf(out, "budget     %" PRIu64 " bytes: %s without recomputation\n", p->budget, p->met ? "met" : "missed");
        return;
    }
    fprintf(out,
            "budget     %" PRIu64 " bytes: %s; %u node%s recomputed, %+.1f%% time by %s; floor %" PRIu64 " bytes\n",
            p->budget, p->met ? "met" : "missed", p->clones, p->clones == 1 ? "" : "s", more, p->costs, p->floor);
}

static void print_pareto(FILE *out, tc_ctx *ctx, const tc_pareto *c) {
    fprintf(out, "pareto            budget        arena      time   recomputed, by %s\n", c->costs);
    for (uint32_t i = 0; i < c->n_points; i++) {
        const tc_plan_point *p = &c->points[i];
        double share = c->initial ? 100 * (double)p->budget / (double)c->initial : 100;
        fprintf(out, "  %6.1f%% %14s %12s %+8.1f%% %6u%s\n", share, tc_amount_text(ctx->arena, tc_amount_of(p->budget)),
                tc_amount_text(ctx->arena, tc_amount_of(p->arena)), tc_pareto_extra(c, p->cost), p->clones,
                p->met ? "" : " missed");
    }
}

static void print_names(FILE *out, tc_ctx *ctx, const tc_summary *s, const char *label, const char **names,
                        size_t count) {
    fprintf(out, "%s %zu", label, count);
    if (names == s->trained && s->train_list && strcmp(tc_train_list_origin(s->train_list), TC_TRAIN_KEY) == 0)
        fprintf(out, " as %s lists", TC_TRAIN_KEY);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? ", " : ": ", tc_torch_full_name(ctx->arena, s, names[i]));
    fputc('\n', out);
}

void tc_report_text(FILE *out, tc_ctx *ctx, const tc_report *r, bool verbose) {
    const tc_summary *s = r->summary;
    const tc_account *before = r->before == r->after ? NULL : r->before;
    print_nodes(out, s);
    if (s->update)
        print_update(out, s->update);
    print_rules(out, ctx, r, verbose);
    if (r->after->trains)
        print_change(out, ctx, "saved", before ? &before->saved : NULL, r->after->saved, "for the backward pass");
    else
        fprintf(out, "%-11snothing: there is no backward pass\n", "saved");
    print_change(out, ctx, "peak", before ? &before->peak : NULL, r->after->peak, "live at one time");
    print_arena(out, ctx, before, r->after);
    print_need(out, ctx, r);
    print_cost(out, ctx, before, r->after);
    if (s->plan)
        print_plan(out, s->plan);
    if (s->pareto)
        print_pareto(out, ctx, s->pareto);
    fprintf(out, "time       %.3f s\n", r->seconds);
    if (!verbose)
        return;
    print_names(out, ctx, s, "trained", s->trained, s->n_trained);
    print_names(out, ctx, s, "frozen", s->frozen, s->n_frozen);
    print_names(out, ctx, s, "unreached", s->unreached, s->n_unreached);
    if (s->update)
        print_names(out, ctx, s, "spared", s->update->spared, s->update->n_spared);
}
