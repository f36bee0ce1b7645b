/* train_eval.c: the forward graph over all samples of --eval-data -> the mean of each scalar output. The weights are
 * those of the training session, where they lie: nothing is copied on the CPU. */
#include "train.h"
#include <string.h>

static tc_status list_scores(tc_ctx *ctx, train_eval *e) {
    const tc_graph *graph = e->graph.session->model->graph;
    e->scores = TC_NEW_ARRAY(ctx->arena, const char *, (size_t)graph->n_outputs + 1);
    e->sums = TC_NEW_ARRAY(ctx->arena, double, (size_t)graph->n_outputs + 1);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (tc_value_rank(graph->outputs[i]) == 0 && tc_dtype_is_float(tc_value_dtype(graph->outputs[i])))
            e->scores[e->n++] = tc_arena_strdup(ctx->arena, graph->outputs[i]->name);
    if (e->n > 0)
        return TC_OK;
    return tc_error(ctx, TC_BAD_INPUT, NULL, "--eval-data: the forward graph has no scalar output to take the mean of");
}

tc_status train_eval_open(tc_ctx *ctx, const train_source *from, int64_t batch, const train_graph *trained,
                          train_eval *e) {
    tc_model *model;
    size_t n_inputs;
    *e = (train_eval){0};
    TC_TRY(train_compile_forward(ctx, from, batch, trained, &model));
    e->graph.batch = trained->batch;
    TC_TRY(train_session_open(ctx, from->o, NULL, model, &e->graph));
    TC_TRY(list_scores(ctx, e));
    e->copies = TC_NEW_ARRAY(ctx->arena, void *, trained->n_states + 1);
    const train_input *inputs = train_graph_inputs(ctx, &e->graph, trained, &n_inputs);
    train_data_options data = train_data_for(from->o, from->o->eval_path, batch);
    data.drop_last = false; /* a fixed batch tells by itself what it leaves out */
    data.shuffle = false;
    data.bucket = 0;
    return train_data_open(ctx, &data, inputs, n_inputs, &e->data);
}

void train_eval_close(train_eval *e) {
    train_data_close(e->data);
    train_graph_close(&e->graph);
    e->data = NULL;
}

/* Where the host has a state's elements: those of the session, or a copy of what is on a device. */
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

static tc_status add_scores(tc_ctx *ctx, train_eval *e, int64_t samples) {
    for (size_t i = 0; i < e->n; i++) {
        double value;
        TC_TRY(train_read_number(ctx, e->graph.session, e->scores[i], &value));
        e->sums[i] += value * (double)samples;
    }
    return TC_OK;
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
    memset(e->sums, 0, e->n * sizeof *e->sums);
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
    }
    TC_TRY(train_ranks_sum(ctx, ranks, e->sums, e->n));
    for (size_t i = 0; i < e->n; i++)
        e->sums[i] /= *out_samples > 0 ? (double)*out_samples : 1;
    return TC_OK;
}
