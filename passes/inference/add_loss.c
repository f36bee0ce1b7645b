/* add_loss.c: the pass `loss`: --add-loss gives a file without a loss one. The nodes are those that PyTorch's exporter
 * writes for the same loss, so that the same rules meet them. Labels become an input of the graph. Sizes that a label
 * shares with the output have the output's symbols. */
#include "add_loss.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include <string.h>

/* --- the input -------------------------------------------------------------------------------- */

static tc_status refuse_input(const tc_adding *a, const tc_value *taken, const tc_type *type) {
    tc_ctx *ctx = a->env->ctx;
    tc_error(ctx, TC_USAGE, NULL, "--add-loss: %s needs the input '%s' %s, but the file has %s %s of that name",
             a->of.word, tc_quote(ctx, taken->name), tc_type_text(ctx->arena, type),
             taken->is_input ? "an input"
             : taken->init   ? "an initializer"
                             : "a result",
             tc_type_text(ctx->arena, taken->type));
    if (a->of.kind == TC_LOSS_FILE)
        tc_hint(ctx, "rename the input in %s", tc_quote(ctx, a->of.word));
    else
        tc_hint(ctx, "%s,input=NAME gives the loss an input of another name", a->of.word);
    return TC_USAGE;
}

/* Whether no batch contradicts that both are one input. */
static bool agrees(const tc_type *has, const tc_type *needs) {
    bool same = has && has->kind == TC_TENSOR && has->dtype == needs->dtype && has->rank == needs->rank;
    for (int i = 0; same && i < needs->rank; i++)
        same = !tc_dim_is_const(has->dims[i]) || !tc_dim_is_const(needs->dims[i]) ||
               has->dims[i].value == needs->dims[i].value;
    return same;
}

/* An input that the file has already, for decoder inputs made from labels say, serves the loss, too. */
tc_status tc_adding_input(tc_adding *a, const char *name, const tc_type *type, tc_value **out_value) {
    tc_value *taken = tc_map_get(a->graph->names, name);
    *out_value = taken;
    if (taken && taken->is_input && !taken->init && agrees(taken->type, type)) {
        tc_note(a->env->ctx, NULL, "--add-loss: the file's input '%s' is that of the loss, too",
                tc_quote(a->env->ctx, name));
        return TC_OK;
    }
    if (taken && (!taken->producer || taken->n_graph_outputs))
        return refuse_input(a, taken, type);
    if (taken)
        tc_value_rename(taken, tc_graph_unique_name(a->graph, name));
    *out_value = tc_value_create_exact(a->graph, tc_arena_strdup(a->graph->model->arena, name), type);
    tc_graph_add_input(a->graph, *out_value);
    return TC_OK;
}

/* The type of labels: the scores' without the axis of classes. */
static const tc_type *label_type(const tc_adding *a, const tc_value *scores, int axis) {
    tc_dim dims[TC_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < tc_value_rank(scores); i++)
        if (i != axis)
            dims[rank++] = scores->type->dims[i];
    return tc_type_tensor(a->graph->model, TC_INT64, rank, dims);
}

/* To a number, over all axes. */
static tc_value *reduced(tc_build *g, const char *op, tc_value *value) {
    tc_node *node = TC_BEGIN(g, op, value);
    tc_attr_set_int(node, "keepdims", 0);
    return tc_build_finish(g, node);
}

/* --- cross-entropy ---------------------------------------------------------------------------- */

static tc_value *mean_loss(tc_adding *a, tc_value *scores, tc_value *labels) {
    tc_node *node = TC_BEGIN(&a->g, "SoftmaxCrossEntropyLoss", scores, labels);
    tc_attr_set_int(node, "ignore_index", a->of.ignore);
    tc_attr_set_string(node, "reduction", "mean");
    return tc_build_finish(&a->g, node);
}

static tc_value *over_classes(tc_build *g, const char *op, tc_value *scores) {
    tc_node *node = TC_BEGIN(g, op, scores);
    tc_attr_set_int(node, "axis", 1);
    return tc_build_finish(g, node);
}

/* (1 - e) loss + e (mean over labels that count of the mean loss of all classes), as restore_smoothing.c has it. */
static tc_value *smoothed_loss(tc_adding *a, tc_value *scores, tc_value *labels) {
    tc_build *g = &a->g;
    tc_value *plain = mean_loss(a, scores, labels), *zero = tc_build_like(g, scores, 0);
    tc_value *ignored = TC_OP(g, "Equal", labels, tc_build_like(g, labels, (double)a->of.ignore));
    tc_value *logs = over_classes(g, "LogSoftmax", scores);
    tc_value *uniform = TC_OP(g, "Neg", tc_build_reduce(g, "ReduceMean", logs, (int64_t[]){1}, 1, false));
    tc_value *sum = reduced(g, "ReduceSum", TC_OP(g, "Where", ignored, zero, uniform));
    tc_value *each = TC_OP(g, "Where", ignored, zero, tc_build_like(g, scores, 1));
    tc_value *mean = TC_OP(g, "Div", sum, reduced(g, "ReduceSum", each));
    return TC_OP(g, "Add", TC_OP(g, "Mul", plain, tc_build_like(g, scores, 1 - a->of.smoothing)),
                 TC_OP(g, "Mul", mean, tc_build_like(g, scores, a->of.smoothing)));
}

/* The label of the next position; the last has none. As transformers does: scores are not copied. */
static tc_value *shifted(tc_adding *a, tc_value *labels) {
    tc_build *g = &a->g;
    tc_value *padded = TC_OP(g, "Pad", labels, tc_build_ints(g, (int64_t[]){0, 0, 0, 1}, 4),
                             tc_build_like(g, labels, (double)a->of.ignore));
    return TC_OP(g, "Slice", padded, tc_build_int(g, 1), tc_build_int(g, INT64_MAX), tc_build_int(g, 1));
}

/* [batch, ..., classes] as [rows, classes]. */
static tc_value *rows_of(tc_build *g, tc_value *scores) {
    int rank = tc_value_rank(scores);
    tc_value *sizes[] = {tc_build_int(g, -1), tc_build_dims(g, scores, rank - 1, rank)};
    return tc_build_reshape(g, scores, tc_build_concat(g, 2, sizes, 0));
}

static tc_value *with_classes_last(tc_build *g, tc_value *scores, int axis) {
    int64_t perm[TC_MAX_RANK];
    int rank = tc_value_rank(scores), n = 0;
    for (int i = 0; i < rank; i++)
        if (i != axis)
            perm[n++] = i;
    perm[n] = axis;
    return axis == rank - 1 ? scores : tc_build_transpose(g, scores, perm, rank);
}

static tc_status find_axis(const tc_adding *a, const tc_value *scores, int *out_axis) {
    int rank = tc_value_rank(scores);
    int64_t axis = a->of.axis == TC_AXIS_USUAL ? (rank == 3 ? 2 : 1) : a->of.axis < 0 ? a->of.axis + rank : a->of.axis;
    *out_axis = (int)axis;
    if (axis >= 0 && axis < rank && (!a->of.shift || axis == 2))
        return TC_OK;
    return tc_error(a->env->ctx, TC_USAGE, NULL, "--add-loss: axis=%lld: the output '%s' is %s%s",
                    (long long)a->of.axis, tc_quote(a->env->ctx, scores->name),
                    tc_type_text(a->env->ctx->arena, scores->type),
                    a->of.shift ? ", and with shift its classes come last" : "");
}

static tc_status cross_entropy(tc_adding *a, tc_value *scores, tc_value **out_loss) {
    tc_build *g = &a->g;
    tc_value *labels;
    int axis;
    TC_TRY(find_axis(a, scores, &axis));
    TC_TRY(tc_adding_input(a, a->of.input, label_type(a, scores, axis), &labels));
    scores = tc_build_wide(g, scores);
    if (a->of.shift)
        labels = shifted(a, labels);
    if (axis != 1) {
        scores = rows_of(g, with_classes_last(g, scores, axis));
        labels = tc_build_reshape(g, labels, tc_build_int(g, -1));
    }
    *out_loss = a->of.smoothing > 0 ? smoothed_loss(a, scores, labels) : mean_loss(a, scores, labels);
    return TC_OK;
}

/* --- losses with a target of the output's type ------------------------------------------------ */

static tc_value *square(tc_build *g, tc_value *x, tc_value *target) {
    tc_value *by = TC_OP(g, "Sub", x, target);
    return TC_OP(g, "Mul", by, by);
}

static tc_value *distance(tc_build *g, tc_value *x, tc_value *target) {
    return TC_OP(g, "Abs", TC_OP(g, "Sub", x, target));
}

/* -t log s(x) - (1 - t) log(1 - s(x)) = (1 - t) x + log(1 + exp(-x)), which overflows nowhere. */
static tc_value *binary(tc_build *g, tc_value *x, tc_value *target) {
    tc_value *rest = TC_OP(g, "Sub", tc_build_like(g, x, 1), target);
    return TC_OP(g, "Add", TC_OP(g, "Mul", rest, x), TC_OP(g, "Softplus", TC_OP(g, "Neg", x)));
}

static tc_value *(*const element_losses[])(tc_build *g, tc_value *x, tc_value *target) = {
    [TC_LOSS_MSE] = square, [TC_LOSS_L1] = distance, [TC_LOSS_BCE] = binary};

static tc_status mean_of_elements(tc_adding *a, tc_value *x, tc_value **out_loss) {
    tc_value *target;
    TC_TRY(tc_adding_input(a, a->of.input, x->type, &target));
    tc_value *each = element_losses[a->of.kind](&a->g, tc_build_wide(&a->g, x), tc_build_wide(&a->g, target));
    *out_loss = reduced(&a->g, "ReduceMean", each);
    return TC_OK;
}

/* --- the pass --------------------------------------------------------------------------------- */

static tc_status refuse_second(const tc_adding *a) {
    tc_ctx *ctx = a->env->ctx;
    const tc_value *loss = tc_find_loss(a->graph);
    for (uint32_t i = 0; !loss && !a->of.output && i < a->graph->n_outputs; i++)
        loss = tc_is_scalar_float(a->graph->outputs[i]) ? a->graph->outputs[i] : NULL;
    if (!loss)
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "--add-loss: the file has a loss already, or its output '%s' %s looks like one",
             tc_quote(ctx, loss->name), tc_type_text(ctx->arena, loss->type));
    tc_hint(ctx, "without --add-loss it is trained; if it is none, name the output: --add-loss=%s:OUTPUT", a->of.word);
    return TC_USAGE;
}

static tc_status of_file(tc_adding *a, tc_value *of, tc_value **out_loss) {
    (void)of; /* its inputs say which */
    return tc_loss_of_file(a, out_loss);
}

static tc_status (*const makers[])(tc_adding *a, tc_value *of, tc_value **out_loss) = {
    [TC_LOSS_CLASSES] = cross_entropy, [TC_LOSS_TOKENS] = cross_entropy, [TC_LOSS_MSE] = mean_of_elements,
    [TC_LOSS_L1] = mean_of_elements,   [TC_LOSS_BCE] = mean_of_elements, [TC_LOSS_FILE] = of_file};

static tc_status add(tc_adding *a) {
    tc_value *of = NULL, *loss = NULL;
    TC_TRY(refuse_second(a));
    if (a->of.kind != TC_LOSS_FILE)
        TC_TRY(tc_added_loss_output(a->env->ctx, a->graph, &a->of, &of));
    TC_TRY(makers[a->of.kind](a, of, &loss));
    TC_TRY(a->g.status);
    tc_value_rename(loss, tc_graph_unique_name(a->graph, "loss"));
    loss->role = TC_ROLE_LOSS;
    tc_graph_add_output(a->graph, loss);
    return TC_OK;
}

tc_status tc_pass_loss(tc_pass_env *env, tc_model *model) {
    tc_adding a = {.env = env, .graph = model->graph};
    if (!env->options->add_loss)
        return TC_OK;
    TC_TRY(tc_added_loss_parse(env->ctx, env->options->add_loss, &a.of));
    TC_TRY(tc_infer_graph(env->ctx, model->graph));
    tc_build_pool pool = {env->ctx->arena, tc_map_create(env->ctx->arena)};
    a.g = (tc_build){.ctx = env->ctx, .model = model, .graph = model->graph, .pool = &pool, .label = "loss"};
    TC_TRY(add(&a));
    tc_remove_dead(model->graph);
    return tc_infer_graph(env->ctx, model->graph);
}

tc_status tc_check_add_loss(tc_ctx *ctx, const tc_options *options) {
    tc_added_loss added;
    if (!options->add_loss)
        return TC_OK;
    TC_TRY(tc_added_loss_parse(ctx, options->add_loss, &added));
    if (options->loss)
        return tc_error(ctx, TC_USAGE, NULL, "--loss names a loss of the file, --add-loss makes one: give one of them");
    if (options->passes || tc_pipeline_has(options, "loss")) /* passes by name may read a loss that is there already */
        return TC_OK;
    return tc_error(ctx, TC_USAGE, NULL, "--add-loss needs the pass 'loss', which recipe %s does not have",
                    options->recipe);
}
