/* onnx_training.c: TrainingInfoProto, by which a file describes a step of training: the nodes of `algorithm` follow
 * those of the model's graph, and after a step update_binding gives initializers the value of outputs. Both graphs
 * become one, and marks say which outputs replace which inputs in the next run (marks.h: tempo.keep). */
#include "compiler/contents/contents.h"
#include "compiler/text/marks.h"
#include "onnx.h"
#include "onnx_msg.h"
#include "compiler/shape/shape.h"
#include "compiler/ir/verify.h"

#define BAD(ctx, ...) tc_error((ctx), TC_BAD_INPUT, NULL, "training_info: " __VA_ARGS__)
#define JOIN(field) join(arena, a->field, a->n_##field, b->field, b->n_##field, &graph->field, &graph->n_##field)

typedef struct training {
    tc_ctx *ctx;
    tc_model *model;
    const Onnx__TrainingInfoProto *info;
} training;

/* The model without its training_info: it is not written beside its result. */
static Onnx__ModelProto *without_training(tc_model *model) {
    Onnx__ModelProto *proto = TC_NEW(model->arena, Onnx__ModelProto);
    *proto = *(const Onnx__ModelProto *)model->origin;
    proto->n_training_info = 0;
    proto->training_info = NULL;
    model->origin = proto;
    return proto;
}

/* --- one graph of two ------------------------------------------------------------------------- */

/* Messages of a, then of b. */
static void join(tc_arena *arena, void *a, size_t n_a, void *b, size_t n_b, void *out_list, size_t *out_n) {
    void **list = TC_NEW_ARRAY(arena, void *, n_a + n_b + 1);
    if (n_a > 0)
        memcpy(list, a, n_a * sizeof *list);
    if (n_b > 0)
        memcpy(list + n_a, b, n_b * sizeof *list);
    memcpy(out_list, &list, sizeof list);
    *out_n = n_a + n_b;
}

/* An input of both is one input. */
static void drop_repeated(tc_arena *scratch, Onnx__GraphProto *graph, size_t n_first) {
    tc_map *first = tc_map_create(scratch);
    size_t kept = n_first;
    for (size_t i = 0; i < n_first; i++)
        tc_map_set(first, tc_onnx_text(graph->input[i]->name), graph->input[i]);
    for (size_t i = n_first; i < graph->n_input; i++)
        if (!tc_map_get(first, tc_onnx_text(graph->input[i]->name)))
            graph->input[kept++] = graph->input[i];
    graph->n_input = kept;
}

static Onnx__GraphProto *join_graphs(tc_arena *arena, const Onnx__GraphProto *a, const Onnx__GraphProto *b) {
    Onnx__GraphProto *graph = TC_NEW(arena, Onnx__GraphProto);
    *graph = *a;
    JOIN(node);
    JOIN(input);
    JOIN(output);
    JOIN(initializer);
    JOIN(sparse_initializer);
    JOIN(value_info);
    tc_arena *scratch = tc_arena_create();
    drop_repeated(scratch, graph, a->n_input);
    tc_arena_destroy(scratch);
    return graph;
}

/* Weights that replaced the file's own stay. */
static void keep_given(const tc_graph *before, tc_graph *graph) {
    for (uint32_t i = 0; i < before->n_initializers; i++) {
        const tc_value *old = before->initializers[i];
        tc_value *value = tc_map_get(graph->names, old->name);
        if (!value || old->init->origin)
            continue;
        value->type = old->type;
        if (value->init)
            value->init = old->init;
        else
            tc_graph_add_initializer(graph, value, old->init);
    }
}

/* --- bindings --------------------------------------------------------------------------------- */

/* The initializer that a binding names; no other binding of its kind names it. */
static tc_status find_bound(const training *t, const char *kind, const char *key, tc_map *seen, tc_value **out_value) {
    *out_value = tc_map_get(t->model->graph->names, key);
    if (!*out_value || !(*out_value)->init)
        return BAD(t->ctx, "%s: '%s' is no initializer", kind, tc_quote(t->ctx, key));
    if (tc_map_get(seen, key))
        return BAD(t->ctx, "%s: there are two for '%s'", kind, tc_quote(t->ctx, key));
    tc_map_set(seen, key, *out_value);
    return TC_OK;
}

/* Outputs replace initializers, which become inputs with a default for that. */
static tc_status bind_updates(const training *t) {
    tc_map *seen = tc_map_create(t->ctx->arena), *used = tc_map_create(t->ctx->arena);
    tc_pair *pairs = TC_NEW_ARRAY(t->ctx->arena, tc_pair, t->info->n_update_binding + 1);
    for (size_t i = 0; i < t->info->n_update_binding; i++) {
        const char *key = tc_onnx_text(t->info->update_binding[i]->key),
                   *name = tc_onnx_text(t->info->update_binding[i]->value);
        tc_value *value, *made = tc_map_get(t->model->graph->names, name);
        TC_TRY(find_bound(t, "update_binding", key, seen, &value));
        if (!made || !made->n_graph_outputs)
            return BAD(t->ctx, "update_binding: '%s', the new value of '%s', is no output", tc_quote(t->ctx, name),
                       tc_quote(t->ctx, key));
        if (tc_map_get(used, name))
            return tc_error(t->ctx, TC_UNSUPPORTED, NULL,
                            "training_info: update_binding: '%s' is the new value of two initializers",
                            tc_quote(t->ctx, name));
        tc_map_set(used, name, value);
        if (!value->is_input)
            tc_graph_add_input(t->model->graph, value);
        pairs[i] = (tc_pair){tc_arena_printf(t->ctx->arena, TC_KEEP_KEY "%s", name), key};
    }
    tc_model_add_metadata(t->model, pairs, t->info->n_update_binding);
    return TC_OK;
}

static tc_status refuse_initial(const training *t, const char *key, const tc_value *value) {
    tc_error(t->ctx, TC_UNSUPPORTED, value->producer,
             "training_info: the initial value of '%s' is computed by ops that are not evaluated here",
             tc_quote(t->ctx, key));
    tc_hint(t->ctx, "run the initialization graph, store its result in the initializer, and remove the binding");
    return TC_UNSUPPORTED;
}

static tc_status set_initial(const training *t, const tc_graph *graph, const char *key, const char *name,
                             tc_map *seen) {
    tc_value *value, *made = tc_map_get(graph->names, name);
    TC_TRY(find_bound(t, "initialization_binding", key, seen, &value));
    if (!made)
        return BAD(t->ctx, "initialization_binding: '%s' is not in the initialization graph", tc_quote(t->ctx, name));
    const tc_tensor *tensor = tc_value_constant(made);
    const tc_contents *contents = tensor ? NULL : tc_value_contents(t->model, made);
    if (contents)
        tensor = tc_contents_to_tensor(t->model, contents);
    if (!tensor)
        return refuse_initial(t, key, made);
    const tc_type *type = tc_type_tensor_static(t->model, tensor->dtype, tensor->rank, tensor->dims);
    if (!tc_type_equal(type, tc_type_tensor_static(t->model, value->init->dtype, value->init->rank, value->init->dims)))
        return BAD(t->ctx, "the initial value of '%s' is %s, but the initializer is %s", tc_quote(t->ctx, key),
                   tc_type_text(t->ctx->arena, type), tc_type_text(t->ctx->arena, value->type));
    value->init = tensor;
    return TC_OK;
}

/* Constants, and values that shape inference can evaluate. */
static tc_status bind_initial(const training *t) {
    tc_map *seen = tc_map_create(t->ctx->arena);
    tc_graph *graph;
    if (t->info->n_initialization_binding == 0)
        return TC_OK;
    if (!t->info->initialization)
        return BAD(t->ctx, "initialization_binding: there is no initialization graph");
    TC_TRY(tc_onnx_graph_of(t->ctx, t->model, t->info->initialization, &graph));
    TC_TRY(tc_infer_graph(t->ctx, graph));
    for (size_t i = 0; i < t->info->n_initialization_binding; i++)
        TC_TRY(set_initial(t, graph, tc_onnx_text(t->info->initialization_binding[i]->key),
                           tc_onnx_text(t->info->initialization_binding[i]->value), seen));
    return TC_OK;
}

/* --- the model -------------------------------------------------------------------------------- */

bool tc_has_training(const tc_model *model) {
    return tc_onnx_is(model->origin, &onnx__model_proto__descriptor) &&
           ((const Onnx__ModelProto *)model->origin)->n_training_info > 0;
}

void tc_drop_training(tc_model *model) {
    if (tc_has_training(model))
        without_training(model);
}

tc_status tc_merge_training(tc_ctx *ctx, tc_model *model) {
    if (!tc_has_training(model))
        return TC_OK;
    const Onnx__ModelProto *read = model->origin;
    training t = {ctx, model, read->training_info[0]};
    if (read->n_training_info > 1)
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "the file describes %zu kinds of training step; one can be compiled",
                        read->n_training_info);
    Onnx__ModelProto *proto = without_training(model);
    if (!t.info->algorithm)
        return TC_OK;
    const tc_graph *before = model->graph;
    proto->graph = join_graphs(model->arena, read->graph, t.info->algorithm);
    TC_TRY(tc_onnx_graph_of(ctx, model, proto->graph, &model->graph));
    tc_marks_read(model);
    TC_TRY(tc_check_calls(ctx, model));
    model->is_step = true;
    TC_TRY(bind_initial(&t));
    keep_given(before, model->graph);
    TC_TRY(bind_updates(&t));
    tc_note(ctx, NULL, "the file describes a step of training (training_info): that is compiled");
    return TC_OK;
}
