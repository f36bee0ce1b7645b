/* train_counts.c: a graph that counts the loss's labels, and its sums over a group of batches. */
#include "train_counts.h"
#include <string.h>

static bool is_named(const char *output, const char *name) { return output && strcmp(output, name) == 0; }

static bool is_count(const train_counts *c, const char *name) {
    for (size_t i = 0; i < c->n; i++)
        if (is_named(c->terms[i].count, name) || is_named(c->terms[i].unguarded, name))
            return true;
    return false;
}

/* The terms of the loss; of the graph's outputs only their counts are kept. */
static void keep_counts(tc_ctx *ctx, const tc_summary *summary, const char *loss, tc_graph *graph, train_counts *c) {
    c->terms = TC_NEW_ARRAY(ctx->arena, tc_counted, summary->n_counted + 1);
    for (size_t i = 0; i < summary->n_counted; i++) {
        const tc_counted *term = &summary->counted[i];
        if (strcmp(term->score, loss) == 0)
            c->terms[c->n++] = *term;
    }
    c->totals = TC_NEW_ARRAY(ctx->arena, double, c->n + 1);
    c->shares = TC_NEW_ARRAY(ctx->arena, double, c->n + 1);
    for (uint32_t i = graph->n_outputs; i-- > 0;)
        if (!is_count(c, graph->outputs[i]->name))
            tc_graph_remove_output(graph, i);
    tc_remove_dead(graph);
}

tc_status train_counts_open(tc_ctx *ctx, const train_source *from, int64_t batch, const train_graph *trained,
                            train_counts *c) {
    tc_model *model;
    tc_summary summary = {0};
    if (c->graph.session)
        return TC_OK;
    TC_TRY(train_compile_forward(ctx, from, batch, trained, &summary, &model));
    keep_counts(ctx, &summary, trained->loss, model->graph, c);
    return train_session_open(ctx, from->o, NULL, model, &c->graph);
}

void train_counts_close(train_counts *c) { train_graph_close(&c->graph); }

tc_status train_read_counts(tc_ctx *ctx, tempo_session *session, const tc_counted *term, int64_t samples,
                            double *out_count, double *out_total) {
    *out_count = (double)samples;
    if (term->count && samples > 0)
        TC_TRY(train_read_number(ctx, session, term->count, out_count));
    *out_total = *out_count;
    if (term->unguarded && samples > 0)
        TC_TRY(train_read_number(ctx, session, term->unguarded, out_total));
    return TC_OK;
}

bool train_adds_up(const tc_counted *term, double total) { return term->adds_up || (term->unguarded && !(total > 0)); }

/* The count of each term in a batch: out[n]; joins c->totals. */
static tc_status count_batch(tc_ctx *ctx, train_counts *c, const train_batch *batch, double *out) {
    bool runs = false;
    for (size_t i = 0; i < c->n; i++)
        runs = runs || (c->terms[i].count && batch->samples > 0);
    if (runs) {
        TC_TRY(train_bind_batch(ctx, c->graph.session, batch));
        tempo_status status = tempo_run(c->graph.session);
        if (status != TEMPO_OK)
            return train_failed(ctx, c->graph.session, status);
    }
    for (size_t i = 0; i < c->n; i++) {
        double total;
        TC_TRY(train_read_counts(ctx, c->graph.session, &c->terms[i], batch->samples, &out[i], &total));
        c->totals[i] += total;
    }
    return TC_OK;
}

tc_status train_counts_total(tc_ctx *ctx, train_counts *c, train_ranks *ranks, train_data *data, int64_t epoch,
                             int64_t first, int64_t n) {
    memset(c->totals, 0, c->n * sizeof *c->totals);
    c->counts = tc_arena_grow(ctx->arena, c->counts, sizeof *c->counts, &c->cap, (size_t)n * c->n);
    for (int64_t i = 0; i < n; i++) {
        double *counts = c->counts + (size_t)i * c->n;
        train_batch batch;
        TC_TRY(train_data_batch(ctx, data, epoch, first + i, &batch));
        TC_TRY(count_batch(ctx, c, &batch, counts));
    }
    return train_ranks_sum(ctx, ranks, c->totals, c->n);
}

void train_counts_share(train_counts *c, int64_t index, const train_batch *batch) {
    const double *counts = c->counts + (size_t)index * c->n;
    for (size_t i = 0; i < c->n; i++) {
        bool all = train_adds_up(&c->terms[i], c->totals[i]);
        c->shares[i] = all ? batch->samples > 0 : c->totals[i] > 0 ? counts[i] / c->totals[i] : 0;
    }
}

bool train_counts_nothing(const train_counts *c) {
    bool nothing = false;
    for (size_t i = 0; i < c->n; i++)
        nothing = nothing || (!(c->totals[i] > 0) && !train_adds_up(&c->terms[i], c->totals[i]));
    return nothing;
}
