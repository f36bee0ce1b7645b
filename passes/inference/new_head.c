/* new_head.c: the pass `head`: --head=N[:OUTPUT] gives the last classifier N classes: a new weight and bias, under the
 * names of the old ones, that begin as those of PyTorch's nn.Linear: uniform, up to 1 / sqrt(inputs). The types of the
 * logits follow, and sizes in Reshapes. */
#include "new_head.h"
#include "classifier.h"
#include "compiler/memory/memory.h"
#include "compiler/shape/shape.h"
#include "passes/weights/weights.h"
#include <math.h>
#include <string.h>

typedef struct head {
    tc_pass_env *env;
    tc_graph *graph;
    int64_t classes;
    const char *name; /* of the output; NULL: the only one that can be meant */
    tc_classifier of;
} head;

static bool read_option(tc_ctx *ctx, const char *text, head *out) {
    const char *colon = strchr(text, ':');
    const char *number = colon ? tc_arena_strndup(ctx->arena, text, (size_t)(colon - text)) : text;
    out->name = colon ? colon + 1 : NULL;
    return tc_parse_whole(number, &out->classes) && out->classes > 0 && (!colon || colon[1]);
}

tc_status tc_check_head(tc_ctx *ctx, const tc_options *options) {
    head h;
    if (!options->head)
        return TC_OK;
    TC_TRY(tc_pipeline_need(ctx, options, "--head", "head", NULL));
    if (read_option(ctx, options->head, &h))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "--head: '%s' is no number of classes", tc_quote(ctx, options->head));
    tc_hint(ctx, "--head=10 or, where several outputs could be meant, --head=10:OUTPUT");
    return TC_USAGE;
}

/* --- which output -------------------------------------------------------------------------------------- */

static tc_status refuse(const head *h, tc_status status, const char *text, const char *hint) {
    tc_error(h->env->ctx, status, NULL, "--head: %s", text);
    tc_hint(h->env->ctx, "%s", hint);
    return status;
}

static tc_status check_weight(const head *h) {
    tc_ctx *ctx = h->env->ctx;
    const tc_value *table = tc_classifier_table(&h->of);
    const char *weight = tc_quote(ctx, h->of.weight->name), *output = tc_quote(ctx, h->of.output->name);
    if (table)
        return refuse(h, TC_UNSUPPORTED,
                      tc_arena_printf(ctx->arena,
                                      "'%s' is scores of the rows of the embedding '%s', as a language "
                                      "model's, not of classes",
                                      output, tc_quote(ctx, table->name)),
                      "train the model as it is, or export it with a head for classification");
    if (h->of.weight_use->next || h->of.weight->uses != h->of.weight_use)
        return refuse(h, TC_UNSUPPORTED,
                      tc_arena_printf(ctx->arena, "'%s', the weight of '%s', has another use", weight, output),
                      "export with optimize=False, which stores each weight once");
    return TC_OK;
}

static bool is_float_output(const tc_value *value) {
    tc_dtype dtype = tc_value_dtype(value);
    return dtype == TC_UNDEFINED || tc_dtype_is_float(dtype);
}

static tc_status choose(head *h) {
    tc_ctx *ctx = h->env->ctx;
    const char **found = TC_NEW_ARRAY(ctx->arena, const char *, h->graph->n_outputs + (size_t)1), *stop = NULL;
    tc_classifier one;
    size_t n = 0;
    bool named = false;
    for (uint32_t i = 0; i < h->graph->n_outputs; i++) {
        tc_value *output = h->graph->outputs[i];
        if ((h->name && strcmp(h->name, output->name) != 0) || !is_float_output(output))
            continue;
        named = true;
        if (!tc_find_classifier(output, &one, &stop))
            continue;
        h->of = one;
        found[n++] = tc_quote(ctx, output->name);
    }
    if (n == 1)
        return check_weight(h);
    if (n > 1)
        return refuse(h, TC_USAGE,
                      tc_arena_printf(ctx->arena, "%zu outputs could be meant: %s", n, tc_quote_list(ctx, found, n)),
                      "name one: --head=N:OUTPUT");
    if (h->name && !named)
        return refuse(
            h, TC_USAGE,
            tc_arena_printf(ctx->arena, "the graph has no output of floats named '%s'", tc_quote(ctx, h->name)),
            "--head=N finds the output where one alone can be meant");
    return refuse(h, TC_UNSUPPORTED,
                  tc_arena_printf(ctx->arena, "no output is logits: %s%s makes %s, no product with a weight",
                                  stop ? "the op " : "nothing", stop ? stop : "", h->name ? "it" : "the last one"),
                  "cut the model after its last product, before Softmax; or export it so");
}

/* --- weight and bias ----------------------------------------------------------------------------------- */

static void take(const head *h, tc_value *value, int rank, const int64_t *dims) {
    tc_model *model = h->graph->model;
    double bound = 1 / sqrt((double)h->of.inputs);
    value->init = tc_uniform_weight(model, value->init ? value->init->dtype : h->of.weight->init->dtype, rank, dims,
                                    bound, h->env->options->init_seed, value->name);
    value->type = tc_type_tensor_static(model, value->init->dtype, rank, dims);
    tc_record_made(h->env, value);
}

static void renew(const head *h, tc_value *value, int axis) {
    int64_t dims[TC_MAX_RANK];
    const tc_tensor *old = value->init;
    for (int i = 0; i < old->rank; i++)
        dims[i] = i == axis ? h->classes : old->dims[i];
    take(h, value, old->rank, dims);
}

static tc_value *new_bias(const head *h, const char *name) {
    tc_model *model = h->graph->model;
    tc_value *value = tc_constant(h->graph, tc_graph_unique_name(h->graph, name),
                                  tc_tensor_create(model, h->of.weight->init->dtype, 1, &h->classes, NULL));
    take(h, value, 1, &h->classes);
    return value;
}

static void renew_bias(const head *h) {
    const tc_classifier *c = &h->of;
    tc_value *operand = c->bias_node ? tc_input(c->bias_node, c->bias_index) : NULL;
    if (operand && operand->init && !operand->uses->next)
        renew(h, operand, operand->init->rank - 1);
    else if (operand) /* stored once for several parameters, perhaps with an Identity for each */
        tc_node_set_input(c->bias_node, c->bias_index, new_bias(h, operand->name));
}

/* --- sizes and types ----------------------------------------------------------------------------------- */

static int class_axis(const head *h, const tc_value *value) { return h->of.axis_1 ? 1 : tc_value_rank(value) - 1; }

/* A type without the number of classes: what is inferred takes its place. */
static void forget(const head *h, tc_value *value) {
    const tc_type *type = value ? value->type : NULL;
    for (int i = 0; type && type->kind == TC_TENSOR && i < type->rank; i++)
        if (tc_dim_is_const(type->dims[i]) && type->dims[i].value == h->of.classes) {
            value->type = tc_type_tensor(h->graph->model, type->dtype, TC_RANK_UNKNOWN, NULL);
            break;
        }
}

static void set_classes(const head *h, tc_value *value) {
    const tc_type *type = value->type;
    int axis = class_axis(h, value);
    tc_dim dims[TC_MAX_RANK];
    if (!type || type->kind != TC_TENSOR || axis < 0 || axis >= type->rank ||
        (tc_dim_is_const(type->dims[axis]) && type->dims[axis].value != h->of.classes))
        return;
    memcpy(dims, type->dims, sizeof *dims * (size_t)type->rank);
    dims[axis] = tc_dim_const(h->classes);
    value->type = tc_type_tensor(h->graph->model, type->dtype, type->rank, dims);
}

/* The number of classes in a Reshape's shape: a constant, or the last part of a Concat. */
static void set_sizes(const head *h, tc_node *reshape) {
    tc_node *reader = reshape;
    uint32_t index = 1;
    const tc_value *shape = tc_input(reshape, 1);
    if (shape && shape->producer && tc_node_is(shape->producer, "", "Concat") && shape->producer->n_inputs > 1) {
        reader = shape->producer;
        index = reader->n_inputs - 1;
        shape = tc_input(reader, index);
    }
    const tc_tensor *known = shape ? tc_value_constant(shape) : NULL;
    int64_t sizes[TC_MAX_RANK];
    if (!known || known->dtype != TC_INT64 || !known->data || known->count == 0 || known->count > TC_MAX_RANK)
        return;
    memcpy(sizes, known->data, sizeof *sizes * known->count);
    size_t at = h->of.axis_1 && known->count > 1 ? 1 : known->count - 1;
    if (sizes[at] != h->of.classes)
        return;
    sizes[at] = h->classes;
    const tc_tensor *tensor = tc_tensor_ints(h->graph->model, sizes, (int64_t)known->count);
    tc_node_set_input(reader, index, tc_constant(h->graph, "sizes", tensor));
}

/* `seen`: the path, and later results that depend on it. */
static bool depends(const tc_node *node, tc_map *seen) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_input(node, i) && tc_map_get_ptr(seen, tc_input(node, i)))
            return true;
    return false;
}

static void change_types(const head *h) {
    tc_map *seen = tc_map_create(h->env->ctx->arena);
    tc_node *product = h->of.path[h->of.n - 1];
    for (size_t i = 0; i < h->of.n; i++) {
        set_classes(h, h->of.path[i]->outputs[0]);
        if (tc_node_is(h->of.path[i], "", "Reshape"))
            set_sizes(h, h->of.path[i]);
        tc_map_set_ptr(seen, h->of.path[i]->outputs[0], product);
    }
    for (tc_node *node = product->next; node; node = node->next)
        for (uint32_t i = 0; depends(node, seen) && i < node->n_outputs; i++)
            if (tc_output(node, i) && !tc_map_get_ptr(seen, tc_output(node, i))) {
                forget(h, tc_output(node, i));
                tc_map_set_ptr(seen, tc_output(node, i), product);
            }
    if (h->of.weight_use->user != product)
        forget(h, h->of.weight_use->user->outputs[0]);
}

static tc_status replace(head *h) {
    TC_TRY(choose(h));
    renew_bias(h);
    renew(h, h->of.weight, h->of.class_axis);
    change_types(h);
    return TC_OK;
}

tc_status tc_replace_head(tc_pass_env *env, tc_model *model) {
    head h = {.env = env, .graph = model->graph};
    return env->options->head && read_option(env->ctx, env->options->head, &h) ? replace(&h) : TC_OK;
}

tc_status tc_pass_head(tc_pass_env *env, tc_model *model) {
    head h = {.env = env, .graph = model->graph};
    if (!env->options->head || !read_option(env->ctx, env->options->head, &h))
        return TC_OK;
    TC_TRY(replace(&h));
    TC_TRY(tc_infer_graph(env->ctx, model->graph));
    const tc_type *type = h.of.output->type;
    int axis = class_axis(&h, h.of.output);
    if (axis < 0 || axis >= type->rank || !tc_dim_is_const(type->dims[axis]) || type->dims[axis].value != h.classes)
        return refuse(&h, TC_UNSUPPORTED,
                      tc_arena_printf(env->ctx->arena, "'%s' would be %s, not scores of %lld classes",
                                      tc_quote(env->ctx, h.of.output->name), tc_type_text(env->ctx->arena, type),
                                      (long long)h.classes),
                      "export the model so that its last product makes the output");
    tc_note(env->ctx, NULL, "--head: '%s' is new, and random: %lld classes in '%s' for %lld",
            tc_quote(env->ctx, h.of.weight->name), (long long)h.classes, tc_quote(env->ctx, h.of.output->name),
            (long long)h.of.classes);
    return TC_OK;
}
