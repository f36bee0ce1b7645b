/* train_graph.c: the file -> a session of its training graph. Recipe, optimizer, and batch (where the file has one
 * number or a budget needs one) are decided here alone. */
#include "passes/budget/budget.h"
#include "passes/pipeline/pipeline.h"
#include "compiler/onnx/onnx.h"
#include "train.h"
#include "compiler/ir/ops.h"
#include "runtime/compile/compile.h"
#include "programs/tempo-train/data/train_convert.h"
#include "programs/tempo-train/data/train_padding.h"
#include <string.h>

/* --- the batch ------------------------------------------------------------------------------------ */

static bool is_data(const tc_value *input) { return !input->init && strncmp(input->name, "tempo.", 6) != 0; }

/* The dimension that counts samples: the first of the first input. NULL: no input has one. */
static const tc_dim *batch_dim(const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (is_data(graph->inputs[i]) && tc_value_rank(graph->inputs[i]) > 0)
            return &graph->inputs[i]->type->dims[0];
    return NULL;
}

static bool has_dim(const tc_options *options, const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < options->n_dims; i++)
        if (strncmp(options->dims[i], name, n) == 0 && options->dims[i][n] == '=')
            return true;
    return false;
}

/* A number in the file is replaced by the requested one; a symbol stays one, unless a plan has to know it. */
static void set_batch(tc_ctx *ctx, const tc_graph *graph, int64_t batch, tc_options *options) {
    const tc_dim *dim = batch_dim(graph);
    if (batch == 0 || !dim || tc_dim_is_unknown(*dim) || has_dim(options, "batch"))
        return;
    const char *symbol = tc_dim_is_const(*dim) ? NULL : tc_dim_text(ctx->arena, *dim);
    if (!symbol && dim->value != batch)
        tc_add_dim(ctx, options, "batch", batch);
    if (symbol && options->memory_budget && !has_dim(options, symbol))
        tc_add_dim(ctx, options, symbol, batch);
}

/* --- compiling ------------------------------------------------------------------------------------ */

/* The arena that a share of memory is a share of: recipe none's. 0: not asked for, or unknown. */
static uint64_t initial_arena(tc_ctx *ctx, const tc_source *source, const tc_options *options) {
    tc_options yardstick = *options;
    tc_compiled compiled;
    tc_footprint footprint = {0};
    bool planned = false;
    size_t n_diags = ctx->n_diags;
    if (!tc_budget_asks_initial(ctx, options))
        return 0;
    tc_make_yardstick(&yardstick);
    const tc_compile_request request = {.source = source, .options = &yardstick};
    if (tc_compile(ctx, &request, &compiled) == TC_OK)
        (void)tc_estimate(ctx, compiled.model, 0, NULL, &footprint, &planned);
    tc_model_destroy(compiled.model);
    ctx->n_diags = n_diags;
    return planned ? footprint.arena : 0;
}

tc_status train_compile(tc_ctx *ctx, const train_source *from, int64_t batch, const char *budget, tc_summary *summary,
                        tc_model **out_model) {
    const tc_source source = {.file = from->file, .path = from->o->model};
    tc_options options = from->o->options;
    tc_compile_request request = {.source = &source, .options = &options};
    tc_compiled compiled;
    options.memory_budget = budget ? budget : options.memory_budget;
    TC_TRY(tc_source_read(ctx, &source, &request.model));
    set_batch(ctx, request.model->graph, batch, &options);
    request.initial = initial_arena(ctx, &source, &options);
    tc_status status = tc_compile(ctx, &request, &compiled);
    *summary = compiled.summary;
    *out_model = compiled.model;
    return status;
}

tc_status train_compile_forward(tc_ctx *ctx, const train_source *from, int64_t batch, const train_graph *trained,
                                tc_summary *out_summary, tc_model **out_model) {
    tc_options options = from->o->options;
    *out_summary = (tc_summary){0};
    tc_pass_env env = {.ctx = ctx, .options = &options, .summary = out_summary};
    const char **weights = TC_NEW_ARRAY(ctx->arena, const char *, trained->n_states + 1);
    size_t n = 0, n_diags = ctx->n_diags;
    for (size_t i = 0; i < trained->n_states; i++)
        if (trained->states[i].is_weight)
            weights[n++] = trained->states[i].input;
    TC_TRY(tc_read_opened(ctx, from->file, from->o->model, out_model));
    set_batch(ctx, (*out_model)->graph, batch, &options);
    tc_status status = tc_evaluation_model(&env, *out_model, weights, n);
    if (status == TC_OK)
        ctx->n_diags = n_diags; /* reported when the training graph was compiled */
    else
        tc_model_destroy(*out_model);
    return status;
}

/* --- sessions ------------------------------------------------------------------------------------- */

tc_status train_failed(tc_ctx *ctx, const tempo_session *session, tempo_status status) {
    if (session->hooks.collective)
        train_ranks_let_first(session->hooks.collective->user);
    tc_diags_print(ctx, stderr);
    fputs(tempo_message(session), stderr);
    return (tc_status)status;
}

tc_status train_read_number(tc_ctx *ctx, tempo_session *session, const char *output, double *out_number) {
    tempo_tensor tensor;
    tempo_status status = tempo_output(session, output, &tensor);
    if (status != TEMPO_OK)
        return train_failed(ctx, session, status);
    bool is_number = train_convert(tensor.dtype, tensor.data, TEMPO_DOUBLE, out_number, 1);
    TC_ASSERT(is_number && tensor.bytes == tempo_dtype_size(tensor.dtype));
    return TC_OK;
}

static void close_session(void *session) { tempo_close(session); }

tc_status train_session_open(tc_ctx *ctx, const train_options *o, const rt_collective *collective, tc_model *model,
                             train_graph *g) {
    rt_hooks hooks = o->hooks;
    hooks.collective = collective;
    tempo_status status = rt_open_model(model, o->model, &o->session, &hooks, &g->session);
    tc_hold(&g->held, close_session, g->session);
    return status == TEMPO_OK ? TC_OK : train_failed(ctx, g->session, status);
}

void train_graph_close(train_graph *g) {
    if (!g->session)
        return;
    tc_let_go(&g->held);
    tempo_close(g->session);
    g->session = NULL;
}

/* The sums within a group of batches. */
static bool is_sum(const char *name) { return tc_ends_with(name, ".sum") || strcmp(name, TC_SUMMED_INPUT) == 0; }

/* Whether an optimizer makes the next value of this input. */
static bool is_updated(const tc_value *input) {
    uint32_t first;
    for (const tc_use *use = input->uses; use; use = use->next)
        if (rt_gradient_operands(use->user, &first) > 0)
            return true;
    return false;
}

static void list_states(tc_ctx *ctx, train_graph *g) {
    const rt_shared *shared = &g->session->shared;
    g->n_states = shared->n_states;
    g->states = TC_NEW_ARRAY(ctx->arena, train_state, g->n_states + 1);
    for (size_t i = 0; i < g->n_states; i++) {
        const tc_value *input = g->session->inputs[shared->states[i].input].value;
        g->states[i] = (train_state){.input = tc_arena_strdup(ctx->arena, input->name),
                                     .is_weight = input->init != NULL,
                                     .is_statistic = input->init && !is_updated(input),
                                     .is_sum = !input->init && is_sum(input->name)};
    }
}

/* Ranks take the mean of all gradients. */
static tc_status average_all(tc_ctx *ctx, const train_options *o, const train_graph *g) {
    if (o->ranks->ranks == 1 || rt_average_updates(g->session) > 0)
        return TC_OK;
    tc_error(ctx, TC_UNSUPPORTED, NULL, "ranks average the gradients of optimizers, and the graph has no optimizer");
    tc_hint(ctx, "train in one process, without mpirun");
    return TC_UNSUPPORTED;
}

static uint64_t hash_text(uint64_t hash, const char *text) { return tc_hash_bytes(text, strlen(text) + 1, hash); }

static uint64_t hash_graph(tc_arena *arena, const tc_graph *graph) {
    uint64_t hash = 0;
    TC_FOR_NODES(node, graph) {
        hash = hash_text(hash, node->op_type);
        for (uint32_t i = 0; i < node->n_inputs; i++)
            hash = hash_text(hash, tc_input(node, i) ? tc_input(node, i)->name : "");
    }
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        hash = hash_text(hash, graph->inputs[i]->name);
        hash = hash_text(hash, tc_type_text(arena, graph->inputs[i]->type));
    }
    return hash;
}

static bool has_input(const train_graph *g, const char *name) { return rt_find_input(g->session, name) != NULL; }

static bool has_output(const train_graph *g, const char *name) {
    uint32_t at;
    return rt_find_output(g->session, name, &at);
}

static tc_status find_loss(tc_ctx *ctx, const train_options *o, train_graph *g, const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_outputs && !g->loss; i++)
        if (graph->outputs[i]->role == TC_ROLE_LOSS)
            g->loss = tc_arena_strdup(ctx->arena, graph->outputs[i]->name);
    if (g->loss)
        return TC_OK;
    tc_error(ctx, TC_BAD_INPUT, NULL, "no output of the graph is marked as its loss");
    tc_hint(ctx, o->options.loss ? "compile the model once more with tempoc" : "--loss names it");
    return TC_BAD_INPUT;
}

static void look_at(tc_ctx *ctx, train_graph *g, const tc_graph *graph) {
    const tc_dim *dim = batch_dim(graph);
    g->batch = dim && tc_dim_is_const(*dim) ? dim->value : 0;
    g->hash = hash_graph(ctx->arena, graph);
}

tc_status train_graph_open(tc_ctx *ctx, const train_source *from, int64_t batch, train_graph *out) {
    tc_model *model;
    *out = (train_graph){0};
    TC_TRY(train_compile(ctx, from, batch, NULL, &out->summary, &model));
    look_at(ctx, out, model->graph);
    tc_status found = find_loss(ctx, from->o, out, model->graph);
    if (found != TC_OK) {
        tc_model_destroy(model);
        return found;
    }
    TC_TRY(train_session_open(ctx, from->o, train_ranks_collective(from->o->ranks), model, out));
    tempo_status kept = rt_keep_as_given(out->session);
    if (kept != TEMPO_OK)
        return train_failed(ctx, out->session, kept);
    list_states(ctx, out);
    TC_TRY(average_all(ctx, from->o, out));
    out->takes_update = has_input(out, TC_UPDATE_INPUT);
    out->takes_apply = has_input(out, TC_APPLY_INPUT);
    out->takes_share = has_input(out, TC_SHARE_INPUT);
    out->takes_scale = has_input(out, TC_LOSS_SCALE_INPUT);
    out->tells_norm = has_output(out, TC_GRAD_NORM_OUTPUT);
    out->reports_finite = has_output(out, TC_FINITE_OUTPUT);
    return TC_OK;
}

static bool is_state_of(const train_graph *trained, const char *name) {
    for (size_t i = 0; trained && i < trained->n_states; i++)
        if (strcmp(trained->states[i].input, name) == 0)
            return true;
    return false;
}

const train_input *train_graph_inputs(tc_ctx *ctx, const train_graph *g, const train_graph *trained, size_t *out_n) {
    const tempo_session *s = g->session;
    train_input *inputs = TC_NEW_ARRAY(ctx->arena, train_input, (size_t)s->model->graph->n_inputs + 1);
    *out_n = 0;
    for (uint32_t i = 0; i < s->model->graph->n_inputs; i++) {
        const rt_input *input = &s->inputs[i];
        const tc_type *type = input->declared;
        if (input->kept || is_state_of(trained, input->value->name) || strncmp(input->value->name, "tempo.", 6) == 0 ||
            !type || type->kind != TC_TENSOR || type->rank == TC_RANK_UNKNOWN)
            continue;
        int64_t *dims = TC_NEW_ARRAY(ctx->arena, int64_t, (size_t)type->rank + 1);
        for (int axis = 0; axis < type->rank; axis++)
            dims[axis] = tc_dim_is_const(type->dims[axis]) ? type->dims[axis].value : -1;
        inputs[(*out_n)++] = (train_input){.name = tc_arena_strdup(ctx->arena, input->value->name),
                                           .dtype = (tempo_dtype)type->dtype,
                                           .rank = type->rank,
                                           .dims = dims,
                                           .optional = input->value->init != NULL,
                                           .padding = train_padding_of(s->model->graph, input->value)};
    }
    return inputs;
}
