/* dropout.c: every Dropout that may drop becomes ai.tempo.Dropout, whose mask is a function of the graph input
 * tempo.seed and of the attribute `node`: no other state, so that whoever draws it again draws the same, under any
 * recipe, on any device, in any runtime.
 *
 * `node` is the ordinal among the Dropouts of the file, calls of functions counted one by one; it is taken before any
 * other pass removes one (tc_record_dropouts), and clones keep it as they keep every attribute. Where training_mode is
 * told only when the graph runs, the ratio is Where(training_mode, ratio, 0): with 0 all is kept and divided by 1,
 * which changes no bit. Dropouts whose training_mode is absent or false stay what they are, as do those of nested
 * graphs: a loop's body has to draw anew in every turn. */
#include "../compiler/ops.h"
#include "../compiler/shape.h"
#include "pass.h"

/* A map holds no NULL, and numbers start at 0. */
static void *as_pointer(uint32_t number) { return (void *)((uintptr_t)number + 1); }

/* The number of a Dropout, the next one if it has none yet. Nodes are known by their ordinals, which outlive them. */
static uint32_t number_of(tc_map *numbers, const tc_node *node) {
    const void *key = node->ordinal == UINT32_MAX ? (const void *)node : as_pointer(node->ordinal),
               *known = tc_map_get_ptr(numbers, key);
    if (known)
        return (uint32_t)((uintptr_t)known - 1);
    uint32_t number = (uint32_t)tc_map_count(numbers);
    tc_map_set_ptr(numbers, key, as_pointer(number));
    return number;
}

void tc_record_dropouts(tc_pass_env *env, const tc_model *model) {
    tc_map *numbers = tc_map_create(env->ctx->arena);
    TC_FOR_NODES(node, model->graph)
        if (tc_node_is(node, "", "Dropout"))
            number_of(numbers, node);
    env->summary->dropouts = numbers;
}

void tc_hint_dropout(tc_ctx *ctx) {
    tc_hint(ctx, "in PyTorch export module.train(), with training=TrainingMode.TRAINING where dynamo=False; "
                 "attn_implementation=\"eager\" keeps the dropout of attention");
}

typedef enum mode { STAYS, DROPS, MAY_DROP } mode;

/* A graph input tells it when the graph runs, also one with a default. */
static mode mode_of(tc_model *model, const tc_node *node) {
    tc_value *training = tc_input(node, 2);
    if (!tc_node_is(node, "", "Dropout") || !training)
        return STAYS;
    bool is_bound = training->is_input && training->graph == model->graph;
    const tc_contents *known = is_bound ? NULL : tc_value_contents(model, training);
    if (known && known->dtype == TC_BOOL && known->count == 1 && tc_dim_is_const(known->items[0].i))
        return known->items[0].i.value != 0 ? DROPS : STAYS;
    return tc_value_dtype(training) == TC_BOOL ? MAY_DROP : STAYS;
}

/* The graph input that holds {seed, step}; where nothing is bound to it, both are 0. */
static tc_status seed_input(tc_pass_env *env, tc_graph *graph, tc_value **out_seed) {
    tc_model *model = graph->model;
    tc_value *seed = tc_map_get(graph->names, TC_SEED_INPUT);
    *out_seed = seed;
    if (!seed) {
        seed = *out_seed =
            tc_value_create_exact(graph, TC_SEED_INPUT, tc_type_tensor_static(model, TC_INT64, 1, (int64_t[]){2}));
        tc_graph_add_input(graph, seed);
        tc_graph_add_initializer(graph, seed, tc_tensor_ints(model, (int64_t[]){0, 0}, 2));
        return TC_OK;
    }
    const tc_type *type = seed->type;
    if (seed->is_input && type && type->kind == TC_TENSOR && type->dtype == TC_INT64 && type->rank == 1 && type->dims &&
        (!tc_dim_is_const(type->dims[0]) || type->dims[0].value == 2))
        return TC_OK;
    tc_error(env->ctx, TC_BAD_INPUT, NULL,
             "%s is %s%s: Dropout takes its seed and step from a graph input of that name, int64[2]", TC_SEED_INPUT,
             tc_type_text(env->ctx->arena, type), seed->is_input ? "" : " and no graph input");
    tc_hint(env->ctx, "rename it");
    return TC_BAD_INPUT;
}

static tc_value *ratio_of(tc_graph *graph, const tc_node *node) {
    if (tc_input(node, 1))
        return tc_input(node, 1);
    return tc_constant(graph, "ratio",
                       tc_tensor_scalar(graph->model, TC_FLOAT, 0.5)); /* what ONNX says of an absent one */
}

/* Where(training_mode, ratio, 0), before the Dropout. */
static tc_status ratio_in_training(tc_ctx *ctx, tc_node *node, tc_value **inout_ratio) {
    tc_graph *graph = node->graph;
    tc_node *where = tc_node_create(graph, "", "Where", 3, 1);
    tc_node_insert_before(where, node);
    tc_node_set_input(where, 0, tc_input(node, 2));
    tc_node_set_input(where, 1, *inout_ratio);
    tc_node_set_input(where, 2,
                      tc_constant(graph, "ratio", tc_tensor_scalar(graph->model, tc_value_dtype(*inout_ratio), 0)));
    *inout_ratio = tc_node_add_output(where, 0, "ratio", NULL);
    return tc_infer_node(ctx, where);
}

static tc_status convert(tc_pass_env *env, tc_node *node, mode how, uint32_t number) {
    tc_value *seed, *ratio = ratio_of(node->graph, node);
    TC_TRY(seed_input(env, node->graph, &seed));
    if (how == MAY_DROP)
        TC_TRY(ratio_in_training(env->ctx, node, &ratio));
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "Dropout");
    tc_node_set_input(node, 1, ratio);
    tc_node_set_input(node, 2, seed);
    tc_attr_remove(node, "seed"); /* one seed for all: they differ by `node` */
    tc_attr_set_int(node, "node", number);
    return tc_infer_node(env->ctx, node);
}

tc_status tc_pass_dropout(tc_pass_env *env, tc_model *model) {
    if (!env->summary->dropouts)
        tc_record_dropouts(env, model);
    TC_TRY(tc_infer_graph(env->ctx, model->graph));
    TC_FOR_NODES(node, model->graph) {
        mode how = mode_of(model, node);
        if (how != STAYS)
            TC_TRY(convert(env, node, how, number_of(env->summary->dropouts, node)));
    }
    return TC_OK;
}
