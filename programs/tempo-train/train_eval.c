/* train_eval.c: runs the forward graph over all samples of --eval-data and computes each scalar output for all samples
 * at once. The weights are those of the training session, in place: nothing is copied on the CPU. */
#include "train_counts.h"
#include <math.h>
#include <string.h>

/* A score that is a mean of samples is its only term. */
static void add_score(tc_ctx *ctx, const tc_summary *summary, const char *name, train_eval *e) {
    const size_t first = e->n_terms;
    e->scores[e->n++] = name = tc_arena_strdup(ctx->arena, name);
    for (size_t i = 0; i < summary->n_counted; i++)
        if (strcmp(summary->counted[i].score, name) == 0)
            e->terms[e->n_terms++] = summary->counted[i];
    if (e->n_terms == first)
        e->terms[e->n_terms++] = (tc_counted){.score = name, .part = name};
}

static tc_status list_scores(tc_ctx *ctx, const tc_summary *summary, train_eval *e) {
    const tc_graph *graph = e->graph.session->model->graph;
    const size_t most = (size_t)graph->n_outputs + 1;
    e->scores = TC_NEW_ARRAY(ctx->arena, const char *, most);
    e->terms = TC_NEW_ARRAY(ctx->arena, tc_counted, most);
    e->means = TC_NEW_ARRAY(ctx->arena, double, most);
    e->values = TC_NEW_ARRAY(ctx->arena, double, 3 * most);
    e->counts = e->values + most;
    e->sums = e->counts + most;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const tc_value *output = graph->outputs[i];
        if (tc_value_rank(output) == 0 && tc_dtype_is_float(tc_value_dtype(output)) &&
            strncmp(output->name, "tempo.", 6) != 0)
            add_score(ctx, summary, output->name, e);
    }
    if (summary->uncounted)
        tc_warn(ctx, NULL, "--eval-data: %s; its mean weights batches by their samples, and depends on --batch",
                summary->uncounted);
    if (e->n > 0)
        return TC_OK;
    return tc_error(ctx, TC_BAD_INPUT, NULL, "--eval-data: the forward graph has no scalar output to take the mean of");
}

tc_status train_eval_open(tc_ctx *ctx, const train_source *from, int64_t batch, const train_graph *trained,
                          train_eval *e) {
    tc_model *model;
    tc_summary summary;
    size_t n_inputs;
    *e = (train_eval){0};
    TC_TRY(train_compile_forward(ctx, from, batch, trained, &summary, &model));
    e->graph.batch = trained->batch;
    TC_TRY(train_session_open(ctx, from->o, NULL, model, &e->graph));
    TC_TRY(list_scores(ctx, &summary, e));
    train_metrics_open(ctx, &summary, e->graph.session->model->graph, &e->metrics);
    e->copies = TC_NEW_ARRAY(ctx->arena, void *, trained->n_states + 1);
    const train_input *inputs = train_graph_inputs(ctx, &e->graph, trained, &n_inputs);
    train_data_options data = train_data_for(from->o, from->o->eval_path, batch);
    data.drop_last = false; /* a fixed batch leaves out samples: reported elsewhere */
    data.shuffle = false;
    data.bucket = 0;
    return train_data_open(ctx, &data, inputs, n_inputs, &e->data);
}

void train_eval_close(train_eval *e) {
    train_data_close(e->data);
    train_graph_close(&e->graph);
    e->data = NULL;
}

/* The host's address of a state's elements: those of the session, or a copy from the device. */
static tc_status look_at_state(tc_ctx *ctx, train_eval *e, const train_graph *trained, size_t at,
                               tempo_tensor *out_tensor) {
    tempo_status status = tempo_get_state(trained->session, trained->states[at].input, out_tensor);
    if (status != TEMPO_OK)
        return train_failed(ctx, trained->session, status);
    if (trained->session->shared.device->host_memory)
        return TC_OK;
    if (!e->copies[at])
        e->copies[at] = tc_arena_alloc(ctx->arena, out_tensor->bytes + 1, 1);
    memcpy(e->copies[at], out_tensor->data, out_tensor->bytes);
    out_tensor->data = e->copies[at];
    return TC_OK;
}

static tc_status bind_weights(tc_ctx *ctx, train_eval *e, const train_graph *trained) {
    for (size_t i = 0; i < trained->n_states; i++) {
        const char *name = trained->states[i].input;
        tempo_tensor tensor;
        if (!trained->states[i].is_weight || !rt_find_input(e->graph.session, name))
            continue;
        TC_TRY(look_at_state(ctx, e, trained, i, &tensor));
        tempo_status status = tempo_bind(e->graph.session, name, &tensor);
        if (status != TEMPO_OK)
            return train_failed(ctx, e->graph.session, status);
    }
    return TC_OK;
}

tc_status train_bind_batch(tc_ctx *ctx, tempo_session *session, const train_batch *batch) {
    for (size_t i = 0; i < batch->n; i++) {
        tempo_status status = tempo_bind(session, batch->arrays[i].name, &batch->arrays[i].tensor);
        if (status != TEMPO_OK)
            return train_failed(ctx, session, status);
    }
    return TC_OK;
}

/* A mean of no elements, which is NaN, is left out. */
static tc_status add_scores(tc_ctx *ctx, train_eval *e, int64_t samples) {
    for (size_t i = 0; i < e->n_terms; i++) {
        const tc_counted *term = &e->terms[i];
        double value, count, total;
        TC_TRY(train_read_number(ctx, e->graph.session, term->part, &value));
        TC_TRY(train_read_counts(ctx, e->graph.session, term, samples, &count, &total));
        e->values[i] += count != 0 ? value * count : 0;
        e->counts[i] += total;
        e->sums[i] += value;
    }
    return TC_OK;
}

static void take_means(train_eval *e) {
    for (size_t i = 0, k = 0; i < e->n; i++)
        for (e->means[i] = 0; k < e->n_terms && strcmp(e->terms[k].score, e->scores[i]) == 0; k++) {
            bool all = train_adds_up(&e->terms[k], e->counts[k]);
            e->means[i] += all ? e->sums[k] : e->counts[k] > 0 ? e->values[k] / e->counts[k] : NAN;
        }
}

/* A rank whose part of the batch is empty has nothing to run. */
tc_status train_eval_prepare(tc_ctx *ctx, train_eval *e, const train_graph *trained) {
    train_batch batch;
    if (!e->data || train_data_batches(e->data) == 0)
        return TC_OK;
    TC_TRY(bind_weights(ctx, e, trained));
    TC_TRY(train_data_batch(ctx, e->data, 0, 0, &batch));
    TC_TRY(train_bind_batch(ctx, e->graph.session, &batch));
    tempo_status status = tempo_prepare(e->graph.session);
    return status == TEMPO_OK ? TC_OK : train_failed(ctx, e->graph.session, status);
}

tc_status train_eval_run(tc_ctx *ctx, train_ranks *ranks, train_eval *e, const train_graph *trained,
                         int64_t *out_samples) {
    int64_t batches = train_data_batches(e->data);
    *out_samples = 0;
    for (size_t i = 0; i < e->n_terms; i++)
        e->values[i] = e->counts[i] = e->sums[i] = 0;
    train_metrics_begin(&e->metrics);
    TC_TRY(bind_weights(ctx, e, trained));
    for (int64_t i = 0; i < batches; i++) {
        train_batch batch;
        TC_TRY(train_data_batch(ctx, e->data, 0, i, &batch));
        *out_samples += batch.all_samples;
        if (batch.samples == 0)
            continue;
        TC_TRY(train_bind_batch(ctx, e->graph.session, &batch));
        tempo_status status = tempo_run(e->graph.session);
        if (status != TEMPO_OK)
            return train_failed(ctx, e->graph.session, status);
        TC_TRY(add_scores(ctx, e, batch.samples));
        TC_TRY(train_metrics_add(ctx, e->graph.session, &e->metrics));
    }
    TC_TRY(train_ranks_sum(ctx, ranks, e->values, e->n_terms));
    TC_TRY(train_ranks_sum(ctx, ranks, e->counts, e->n_terms));
    TC_TRY(train_ranks_sum(ctx, ranks, e->sums, e->n_terms));
    take_means(e);
    return train_metrics_end(ctx, ranks, &e->metrics);
}
