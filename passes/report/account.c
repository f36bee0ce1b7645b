/* account.c: from a compiled graph to the numbers and strings of reports. */
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "report.h"
#include <stdlib.h>
#include <string.h>

enum { LONG = 64 }; /* characters: a longer formula is shown as a number */

/* Dims of inputs have names, which --dim can set; all other dims are those of nodes. */
typedef struct given {
    tc_arena *arena;
    const tc_graph *graph;
    tc_map *names;
    const char *instead; /* for formulas of other names */
    bool others;         /* found in a formula */
    const char *sizes;   /* "batch = 64, seq = 64": of the names found in it */
} given;

static bool note_name(void *user, const char *name, int64_t *value) {
    given *g = user;
    *value = 0;
    if (tc_map_get(g->names, name))
        return false;
    const char *kept = tc_arena_strdup(g->arena, name);
    g->instead = tc_arena_printf(g->arena, "%s --dim=%s=N", g->instead, kept);
    tc_map_set(g->names, kept, (void *)(uintptr_t)kept);
    return false;
}

static given given_of(tc_arena *arena, const tc_graph *graph) {
    given g = {arena, graph, tc_map_create(arena), "unknown without", false, NULL};
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_type *type = graph->inputs[i]->type;
        for (int d = 0; type && type->kind == TC_TENSOR && d < type->rank; d++)
            tc_dim_substitute(graph->model->dims, type->dims[d], note_name, &g);
    }
    if (tc_map_count(g.names) == 0)
        g.instead = "unknown before a run";
    return g;
}

static bool look_for_others(void *user, const char *name, int64_t *value) {
    given *g = user;
    const char *size = tc_arena_printf(g->arena, "%s = %d", name, TC_SAMPLE_DIM);
    g->others |= !tc_map_get(g->names, name);
    if (!g->sizes || !strstr(g->sizes, size))
        g->sizes = g->sizes ? tc_arena_printf(g->arena, "%s, %s", g->sizes, size) : size;
    *value = TC_SAMPLE_DIM;
    return true;
}

/* "1024*batch + 12" as "1.00 KiB*batch + 12 B"; NULL if it would be long, or if a part of it is no product. */
static const char *short_formula(tc_arena *arena, const char *formula) {
    const char *text = "";
    if (strlen(formula) >= LONG || strpbrk(formula, "(-"))
        return NULL;
    for (const char *at = formula; *at; at += strspn(at, "+ ")) {
        char *rest;
        long long number = strtoll(at, &rest, 10);
        const char *bytes = rest > at ? tc_amount_text(arena, tc_amount_of((uint64_t)number)) : "1 B*";
        int length = (int)strcspn(rest, " +");
        text = tc_arena_printf(arena, "%s%s%s%.*s", text, *text ? " + " : "", bytes, length, rest);
        at = rest + length;
    }
    return strlen(text) < LONG ? text : NULL;
}

static tc_amount amount(given *g, tc_dim bytes) {
    if (tc_dim_is_const(bytes))
        return (tc_amount){.bytes = bytes.value};
    if (tc_dim_is_unknown(bytes))
        return (tc_amount){.formula = "?", .text = "unknown", .unknown = true};
    g->others = false;
    g->sizes = NULL;
    tc_dim at = tc_dim_substitute(g->graph->model->dims, bytes, look_for_others, g);
    tc_amount a = {.formula = tc_dim_text(g->arena, bytes), .unknown = g->others || !tc_dim_is_const(at)};
    a.text = a.unknown ? g->instead : short_formula(g->arena, a.formula);
    a.bytes = a.unknown ? 0 : at.value;
    if (!a.text)
        a.text =
            tc_arena_printf(g->arena, "%s at %s", tc_amount_text(g->arena, (tc_amount){.bytes = a.bytes}), g->sizes);
    return a;
}

/* The op's name in the table of ops: without the suffix of a variant of an ai.tempo op. */
static const char *op_name(tc_arena *arena, const tc_node *node) {
    const char *name = node->op ? node->op->name : node->op_type;
    return node->domain[0] ? tc_arena_printf(arena, "%s.%s", node->domain, name) : tc_arena_strdup(arena, name);
}

static const char *why_saved(tc_arena *arena, const tc_saved *saved) {
    const char *first = tc_arena_printf(arena, "read in the backward pass by %s \"%s\"", op_name(arena, saved->user),
                                        tc_node_label(saved->user));
    return saved->n_users > 1 ? tc_arena_printf(arena, "%s and %u more", first, saved->n_users - 1) : first;
}

static tc_saved_row saved_row(given *g, const tc_ledger *ledger, const tc_saved *saved) {
    tc_arena *arena = g->arena;
    const tc_value *value = saved->value;
    tc_saved_row row = {.name = tc_arena_strdup(arena, value->name),
                        .dtype = tc_dtype_name(tc_value_dtype(value)),
                        .rank = tc_value_rank(value)};
    row.producer = tc_arena_strdup(arena, tc_node_label(value->producer));
    row.op = op_name(arena, value->producer);
    row.layer = tc_arena_strdup(arena, ledger->layers[saved->layer].name);
    row.why = why_saved(arena, saved);
    row.bytes = amount(g, saved->bytes);
    if (row.rank > 0)
        row.shape = TC_NEW_ARRAY(arena, const char *, (size_t)row.rank);
    for (int i = 0; i < row.rank; i++)
        row.shape[i] = tc_dim_text(arena, value->type->dims[i]);
    return row;
}

static void copy_ledger(given *g, const tc_ledger *ledger, tc_account *account) {
    tc_arena *arena = g->arena;
    account->trains = ledger->loss != NULL;
    account->saved = amount(g, ledger->bytes);
    account->rows = TC_NEW_ARRAY(arena, tc_saved_row, ledger->n_saved + 1);
    for (; account->n_rows < ledger->n_saved; account->n_rows++)
        account->rows[account->n_rows] = saved_row(g, ledger, &ledger->saved[account->n_rows]);
    account->layers = TC_NEW_ARRAY(arena, tc_layer_row, ledger->n_layers + 1);
    for (; account->n_layers < ledger->n_layers; account->n_layers++) {
        const tc_layer *layer = &ledger->layers[account->n_layers];
        account->layers[account->n_layers] =
            (tc_layer_row){tc_arena_strdup(arena, layer->name), layer->nodes, amount(g, layer->bytes)};
    }
}

static void copy_liveness(given *g, const tc_liveness *liveness, const bool *forward, tc_account *account) {
    tc_arena *arena = g->arena;
    account->peak = amount(g, liveness->peak_bytes);
    account->exact = liveness->exact;
    account->n_nodes = liveness->n_nodes;
    account->peak_node =
        liveness->n_nodes ? tc_arena_strdup(arena, tc_node_label(liveness->nodes[liveness->peak])) : "";
    account->live = TC_NEW_ARRAY(arena, uint64_t, (size_t)liveness->n_nodes + 1);
    memcpy(account->live, liveness->live, liveness->n_nodes * sizeof *account->live);
    for (uint32_t i = 0; i < liveness->n_nodes; i++)
        if (!forward || forward[liveness->nodes[i]->id])
            account->backward = i + 1;
}

tc_account *tc_account_make(tc_arena *arena, const tc_graph *graph, const char *loss) {
    tc_account *account = TC_NEW(arena, tc_account);
    tc_arena *scratch = tc_arena_create();
    tc_ledger ledger;
    tc_liveness liveness;
    uint32_t size;
    const tc_value *found = tc_find_loss(graph);
    tc_ledger_make(scratch, graph, found && loss ? tc_graph_output(graph, loss) : found, &ledger);
    tc_liveness_make(scratch, graph, &liveness);
    given g = given_of(arena, graph);
    account->unsized = g.instead;
    copy_ledger(&g, &ledger, account);
    copy_liveness(&g, &liveness, ledger.loss ? tc_forward_nodes(scratch, graph, ledger.loss, &size) : NULL, account);
    tc_arena_destroy(scratch);
    return account;
}

void tc_report_rules(tc_arena *arena, const tc_graph *graph, const tc_summary *summary, tc_report *report) {
    given g = given_of(arena, graph);
    report->rules = TC_NEW_ARRAY(arena, tc_rule_row, summary->n_rules + 1);
    for (size_t i = 0; i < summary->n_rules; i++) {
        const tc_rule_stat *stat = &summary->rules[i];
        if (stat->matched)
            report->rules[report->n_rules++] = (tc_rule_row){stat->name, stat->matched, amount(&g, stat->bytes_freed)};
    }
}

/* --- for all formats -------------------------------------------------------------------------- */

const char *tc_amount_text(tc_arena *arena, tc_amount a) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (a.formula)
        return a.text;
    double number = (double)a.bytes;
    size_t unit = 0;
    for (; number >= 1024 && unit + 1 < TC_COUNT(units); unit++)
        number /= 1024;
    return unit == 0 ? tc_arena_printf(arena, "%lld B", (long long)a.bytes)
                     : tc_arena_printf(arena, "%.2f %s", number, units[unit]);
}

bool tc_amount_saving(tc_amount before, tc_amount after, double *out_percent) {
    if (before.unknown || after.unknown || !before.formula != !after.formula || before.bytes <= 0)
        return false;
    *out_percent = 100 * (1 - (double)after.bytes / (double)before.bytes);
    return true;
}

tc_layer_pair *tc_report_layers(tc_arena *arena, const tc_report *report, size_t *out_count) {
    const tc_account *before = report->before, *after = report->after;
    size_t most = after->n_layers + (before ? before->n_layers : 0), n = 0;
    tc_layer_pair *pairs = TC_NEW_ARRAY(arena, tc_layer_pair, most + 1);
    tc_map *at = tc_map_create(arena);
    for (; n < after->n_layers; n++) {
        pairs[n] = (tc_layer_pair){
            .name = after->layers[n].name, .nodes = after->layers[n].nodes, .after = after->layers[n].bytes};
        tc_map_set(at, pairs[n].name, &pairs[n]);
    }
    for (size_t i = 0; before && i < before->n_layers; i++) {
        tc_layer_pair *pair = tc_map_get(at, before->layers[i].name);
        if (!pair) {
            pair = &pairs[n++];
            pair->name = before->layers[i].name;
        }
        pair->before = before->layers[i].bytes;
    }
    *out_count = n;
    return pairs;
}
