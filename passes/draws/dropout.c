/* dropout.c: replaces every Dropout that may drop by ai.tempo.Dropout. Its mask is a function of the graph input
 * tempo.seed and of the attribute `node`, and of no other state. So a second draw gives the same mask, under any
 * recipe, on any device, in any runtime. Random numbers follow the same way: RandomUniform, RandomNormal and their
 * Likes become ops of ai.tempo, which take their shape from an operand of shapes, so that no tensor is kept for its
 * shape alone. Bernoulli(p) becomes RandomUniform below p.
 * `node` is the ordinal among the Dropouts of the file, with calls of functions counted one by one. It is set before
 * any pass removes a Dropout (tc_record_dropouts), and clones keep it like every attribute. If training_mode is
 * known only when the graph runs, the ratio is Where(training_mode, ratio, 0): ratio 0 keeps all elements and
 * divides by 1, which changes no bit. The attribute `seed` stays for runtimes that draw as ONNX Runtime does;
 * without it all Dropouts share one seed and differ by `node`. A Dropout without training_mode, or with a false one,
 * stays as it is. So does a Dropout of a nested graph, because a loop's body has to draw anew in every iteration. */
#include "draws.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "passes/pass/pass.h"
#include <string.h>

#define FIRST_RANDOM (INT64_C(1) << 31)

/* Maps hold no NULL, so numbers are stored plus 1. */
static void *as_pointer(uint32_t number) { return (void *)((uintptr_t)number + 1); }

/* The number of a Dropout; the next free one if it has none yet. Nodes are known by their ordinals. */
static uint32_t number_of(tc_map *numbers, const tc_node *node) {
    const void *key = node->ordinal == UINT32_MAX ? (const void *)node : as_pointer(node->ordinal),
               *known = tc_map_get_ptr(numbers, key);
    if (known)
        return (uint32_t)((uintptr_t)known - 1);
    uint32_t number = (uint32_t)tc_map_count(numbers);
    tc_map_set_ptr(numbers, key, as_pointer(number));
    return number;
}

static const char *const random_ops[] = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform",
                                         "RandomUniformLike"};

static bool is_random(const tc_node *node) {
    for (size_t i = 0; i < TC_COUNT(random_ops); i++)
        if (tc_node_is(node, "", random_ops[i]))
            return true;
    return false;
}

void tc_record_dropouts(tc_pass_env *env, const tc_model *model) {
    tc_summary *summary = env->summary;
    summary->dropouts = tc_map_create(env->ctx->arena);
    summary->randoms = tc_map_create(env->ctx->arena);
    TC_FOR_NODES(node, model->graph)
        if (tc_node_is(node, "", "Dropout"))
            number_of(summary->dropouts, node);
        else if (is_random(node))
            number_of(summary->randoms, node);
}

bool tc_drops_nothing(const tc_node *node) {
    const tc_value *training = tc_input(node, 2);
    const tc_tensor *mode = training ? tc_value_constant(training) : NULL;
    return tc_node_is(node, "", "Dropout") &&
           (!training || (mode && mode->data && mode->count == 1 && tc_tensor_get(mode, 0) == 0));
}

void tc_hint_dropout(tc_ctx *ctx) {
    tc_hint(ctx, "in PyTorch export module.train(), with training=TrainingMode.TRAINING where dynamo=False; "
                 "attn_implementation=\"eager\" keeps the dropout of attention");
}

typedef enum mode { STAYS, DROPS, MAY_DROP } mode;

/* Whether training_mode comes from a graph input when the graph runs, with or without a default. */
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

/* The graph input that holds {seed, step}; both are 0 by default. */
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
             "%s is %s%s: Dropout and random ops take seed and step from a graph input of that name, int64[2]",
             TC_SEED_INPUT, tc_type_text(env->ctx->arena, type), seed->is_input ? "" : " and no graph input");
    tc_hint(env->ctx, "rename it");
    return TC_BAD_INPUT;
}

static tc_value *ratio_of(tc_graph *graph, const tc_node *node) {
    if (tc_input(node, 1))
        return tc_input(node, 1);
    return tc_constant(graph, "ratio", tc_tensor_scalar(graph->model, TC_FLOAT, 0.5)); /* ONNX's default */
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

/* A ratio of 1, which PyTorch allows: nothing is drawn, results and gradients are 0. */
static bool drops_all(const tc_value *ratio) {
    const tc_tensor *known = tc_value_constant(ratio);
    return known && known->count == 1 && tc_tensor_get(known, 0) == 1;
}

static tc_status drop_all(tc_ctx *ctx, tc_node *node) {
    tc_value *x = tc_input(node, 0), *training = tc_input(node, 2), *mask = tc_output(node, 1);
    if (mask && tc_value_is_used(mask)) {
        tc_error(ctx, TC_UNSUPPORTED, node, "its ratio is 1, and its mask '%s' is read", tc_quote(ctx, mask->name));
        tc_hint(ctx, "write zeros in its place");
        return TC_UNSUPPORTED;
    }
    tc_node *zeros = tc_node_create(node->graph, "", "Sub", 2, 1);
    tc_node_insert_before(zeros, node);
    tc_node_set_input(zeros, 0, x);
    tc_node_set_input(zeros, 1, x);
    tc_node_resize_outputs(node, 1);
    tc_attr_remove(node, "seed");
    tc_node_set_op(node, "", "Where");
    tc_node_set_input(node, 0, training);
    tc_node_set_input(node, 1, tc_node_add_output(zeros, 0, "dropped", NULL));
    tc_node_set_input(node, 2, x);
    TC_TRY(tc_infer_node(ctx, zeros));
    return tc_infer_node(ctx, node);
}

static tc_status convert(tc_pass_env *env, tc_node *node, mode how, uint32_t number) {
    tc_value *seed, *ratio = ratio_of(node->graph, node);
    if (drops_all(ratio))
        return drop_all(env->ctx, node);
    TC_TRY(seed_input(env, node->graph, &seed));
    if (how == MAY_DROP)
        TC_TRY(ratio_in_training(env->ctx, node, &ratio));
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "Dropout");
    tc_node_set_input(node, 1, ratio);
    tc_node_set_input(node, 2, seed);
    tc_attr_set_int(node, "node", number);
    return tc_infer_node(env->ctx, node);
}

/* --- random numbers --------------------------------------------------------------------------- */

static tc_status insert(tc_ctx *ctx, tc_node *node, tc_node *before, const char *name, tc_value **out_value) {
    tc_node_insert_before(node, before);
    *out_value = tc_node_add_output(node, 0, name, NULL);
    return tc_infer_node(ctx, node);
}

/* int64[rank]: the shape of the operand of a ...Like op, or the attribute. */
static tc_status shape_of(tc_ctx *ctx, tc_node *node, tc_value **out_shape) {
    tc_graph *graph = node->graph;
    size_t count;
    const int64_t *sizes = tc_attr_ints(node, "shape", &count);
    if (node->n_inputs == 0) {
        *out_shape = tc_constant(graph, "shape", tc_tensor_ints(graph->model, sizes, (int64_t)count));
        return TC_OK;
    }
    tc_node *shape = tc_node_create(graph, "", "Shape", 1, 1);
    tc_node_set_input(shape, 0, tc_input(node, 0));
    return insert(ctx, shape, node, "shape", out_shape);
}

/* Makes `drawing`, which may be the node itself, draw the numbers of the ONNX node. */
static tc_status set_draw(tc_pass_env *env, tc_node *node, tc_node *drawing, const char *op, tc_dtype dtype) {
    tc_value *shape, *seed;
    TC_TRY(seed_input(env, node->graph, &seed));
    TC_TRY(shape_of(env->ctx, node, &shape));
    tc_attr_set_int(drawing, "node", FIRST_RANDOM + number_of(env->summary->randoms, node));
    tc_attr_set_int(drawing, "dtype", dtype);
    tc_node_set_op(drawing, TC_TEMPO_DOMAIN, op);
    tc_node_set_input(drawing, 0, shape);
    tc_node_set_input(drawing, 1, seed);
    return TC_OK;
}

/* The result is 1 with the probability of the operand's element. A 16-bit operand is compared as float, the type of
 * the drawn numbers: below 1 always, below 0 never. */
static tc_status sample(tc_pass_env *env, tc_node *node) {
    tc_value *chance = tc_input(node, 0), *drawn, *hit;
    tc_graph *graph = node->graph;
    tc_dtype dtype = tc_value_dtype(chance) == TC_DOUBLE ? TC_DOUBLE : TC_FLOAT;
    tc_node *drawing = tc_node_create(graph, TC_TEMPO_DOMAIN, "RandomUniform", 2, 1);
    TC_TRY(set_draw(env, node, drawing, "RandomUniform", dtype));
    TC_TRY(insert(env->ctx, drawing, node, "drawn", &drawn));
    if (tc_value_dtype(chance) != dtype) {
        tc_node *wide = tc_node_create(graph, "", "Cast", 1, 1);
        tc_attr_set_int(wide, "to", dtype);
        tc_node_set_input(wide, 0, chance);
        TC_TRY(insert(env->ctx, wide, node, "chance", &chance));
    }
    tc_node *less = tc_node_create(graph, "", "Less", 2, 1);
    tc_node_set_input(less, 0, drawn);
    tc_node_set_input(less, 1, chance);
    TC_TRY(insert(env->ctx, less, node, "hit", &hit));
    tc_attr_set_int(node, "to", tc_value_dtype(node->outputs[0]));
    tc_attr_remove(node, "dtype");
    tc_attr_remove(node, "seed");
    tc_node_set_op(node, "", "Cast");
    tc_node_set_input(node, 0, hit);
    return tc_infer_node(env->ctx, node);
}

static tc_status convert_random(tc_pass_env *env, tc_node *node) {
    tc_dtype dtype = tc_value_dtype(tc_output(node, 0));
    if (dtype == TC_UNDEFINED)
        return TC_OK;
    if (tc_node_is(node, "", "Bernoulli"))
        return sample(env, node);
    if (!tc_dtype_is_float(dtype))
        return TC_OK; /* ONNX has no such numbers: the runtime refuses the node by name */
    bool is_uniform = strncmp(node->op_type, "RandomUniform", strlen("RandomUniform")) == 0;
    TC_TRY(set_draw(env, node, node, is_uniform ? "RandomUniform" : "RandomNormal", dtype));
    tc_attr_remove(node, "shape");
    tc_attr_remove(node, "seed");
    return tc_infer_node(env->ctx, node);
}

tc_status tc_pass_dropout(tc_pass_env *env, tc_model *model) {
    if (!env->summary->dropouts)
        tc_record_dropouts(env, model);
    TC_TRY(tc_infer_graph(env->ctx, model->graph));
    TC_FOR_NODES_SAFE(node, model->graph) {
        mode how = mode_of(model, node);
        if (how != STAYS)
            TC_TRY(convert(env, node, how, number_of(env->summary->dropouts, node)));
        else if (is_random(node))
            TC_TRY(convert_random(env, node));
    }
    return TC_OK;
}
