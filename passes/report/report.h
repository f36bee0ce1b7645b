/* report.h: tempoc's report: a few lines of text, JSON or an HTML page. All show the same tc_report, which holds plain
 * numbers and strings, so that its graphs may be destroyed. */
#ifndef TC_REPORT_H
#define TC_REPORT_H
#include "passes/pass/pass.h"
#include <stdio.h>

/* A number of bytes. */
typedef struct tc_amount {
    int64_t bytes;       /* if formula is not NULL: with TC_SAMPLE_DIM for each open dim */
    const char *formula; /* if dims are unbound: "4096*batch + 12"; "?" if a size is not known at all */
    const char *text;    /* the text shown for the formula: "4.00 KiB*batch + 12 B", or a sentence without it if the
                            formula is long or contains sizes computed by nodes, whose names mean nothing to the user */
    bool unknown;        /* and that sentence mentions no bytes */
} tc_amount;

static inline tc_amount tc_amount_of(uint64_t bytes) { return (tc_amount){.bytes = (int64_t)bytes}; }

typedef struct tc_saved_row {
    const char *name, *dtype, *producer, *op, *layer;
    const char **shape; /* [rank] "12" or "batch" */
    int rank;           /* TC_RANK_UNKNOWN, or the number of dims */
    const char *why;    /* its reader in the backward pass */
    tc_amount bytes;
} tc_saved_row;

typedef struct tc_layer_row {
    const char *name;
    uint32_t nodes;
    tc_amount bytes;
} tc_layer_row;

/* The memory of a training step by its parts, in bytes: those of tempo-run, and an optimizer's beside it, or in the
 * graph. */
typedef struct tc_need {
    int64_t batch;    /* that --fit tried */
    bool known, fits; /* not known: over a limit; the others are 0 */
    uint64_t arena, gradients, parameters, optimizer, inputs, program, total; /* gradients are in the arena */
} tc_need;

/* The memory of one graph: its ledger (ledger.h) and its liveness (liveness.h). */
typedef struct tc_account {
    bool trains; /* it has a backward pass, and so a ledger */
    tc_amount saved, peak;
    bool has_footprint; /* the next is known */
    tc_footprint footprint;
    const char *cost_source; /* the source of the next (budget/node_cost.h); NULL: it is not known */
    uint64_t cost;           /* of a run: nanoseconds, or nodes if the source is "unit" */
    tc_need need;            /* not known: shapes are open */
    const char *unsized;     /* the text shown then: "unknown without --dim=batch=N" */
    const char *peak_node;
    tc_saved_row *rows;
    size_t n_rows;
    tc_layer_row *layers;
    size_t n_layers;
    uint64_t *live; /* [n_nodes] bytes live while each node runs; unbound dims count as TC_SAMPLE_DIM */
    uint32_t n_nodes;
    uint32_t backward; /* nodes up to the last one of the forward pass */
    bool exact;        /* no dim is unbound */
} tc_account;

typedef struct tc_rule_row {
    const char *name;
    uint64_t matched;
    tc_amount bytes_freed;
} tc_rule_row;

/* The result of --fit. */
typedef struct tc_fit {
    const char *dim, *optimizer;
    uint64_t memory;
    int64_t batch;       /* the largest that fits */
    const tc_need *rows; /* [n_rows] by batch */
    size_t n_rows;
} tc_fit;

typedef struct tc_report {
    const char *input, *output; /* output may be NULL */
    const char *recipe;         /* or the list of --passes= */
    const char **dims;          /* --dim, as given */
    size_t n_dims;
    const tc_fit *fit;     /* NULL: without --fit */
    const char *optimizer; /* the optimizer whose state tc_need counts */
    const tc_summary *summary;
    tc_rule_row *rules; /* those that matched, in the order of the summary */
    size_t n_rules;
    const tc_account *before; /* under recipe `none`; NULL: not known. May be `after` itself */
    const tc_account *after;
    double seconds;
} tc_report;

/* The account of a typed graph; everything in `arena`. `loss`: name of the loss, or NULL if it is the only
 * candidate. */
tc_account *tc_account_make(tc_arena *arena, const tc_graph *graph, const char *loss);
/* Rows of the rules that matched; `graph`: the model's graph, for its dims. */
void tc_report_rules(tc_arena *arena, const tc_graph *graph, const tc_summary *summary, tc_report *report);

/* The lines; `verbose` adds names and all rules. text.c */
void tc_report_text(FILE *out, tc_ctx *ctx, const tc_report *report, bool verbose);
/* As JSON to a stream, whose errors stay with it. json.c */
void tc_report_json_to(tc_ctx *ctx, const tc_report *report, FILE *out);
/* To a file that appears whole or not at all. json.c, html.c */
tc_status tc_report_json(tc_ctx *ctx, const tc_report *report, const char *path);
tc_status tc_report_html(tc_ctx *ctx, const tc_report *report, const char *path);

/* --- for all three formats -------------------------------------------------------------------- */
/* "12.5 MiB", "640 B", "4.00 KiB*batch", "9.31 MiB at batch = 64, seq = 64", "unknown", "unknown without
 * --dim=batch=N"; in the arena. */
const char *tc_amount_text(tc_arena *arena, tc_amount amount);
/* Both are numbers, and how much less the second is, in percent (negative: more). */
bool tc_amount_saving(tc_amount before, tc_amount after, double *out_percent);
/* How much higher a cost is than that of the original graph, in percent. pareto_figure.c */
double tc_pareto_extra(const tc_pareto *curve, uint64_t cost);
/* The layers of both accounts, joined by name, in the order of `after`; `before` NULL: those of `after` alone. */
typedef struct tc_layer_pair {
    const char *name;
    uint32_t nodes;
    tc_amount before, after; /* zero where an account lacks the layer */
} tc_layer_pair;
tc_layer_pair *tc_report_layers(tc_arena *arena, const tc_report *report, size_t *out_count);
#endif
