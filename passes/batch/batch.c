/* batch.c: the pass `batch`: --dim batch=N for a file that was exported with a number as its batch. The first dimension
 * of all inputs becomes a symbol and types are inferred again. Nodes that hold the number of the file are changed to
 * follow the inputs, or refused by name. Four checks ensure that the result is the exported graph at another size:
 * every size is a number or a multiple of the batch; only sums, products and losses remove the batch; at the number of
 * the file every value has its old type; at a size that occurs nowhere else, no two shapes contradict each other. */
#include "batch.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define NOWHERE 1000003 /* a prime that is no size of any model */
#define NOWHERE_TEXT "1000003"

bool tc_batch_fixed(const tc_graph *graph, int64_t *out_batch, const tc_value **out_first, const tc_value **out_other) {
    *out_first = *out_other = NULL;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_value *input = graph->inputs[i];
        if (input->init || strcmp(input->name, TC_SEED_INPUT) == 0 || tc_value_rank(input) == 0)
            continue;
        if (tc_value_rank(input) < 0 || !tc_dim_is_const(input->type->dims[0]))
            return *out_first = *out_other = NULL, false;
        int64_t dim = input->type->dims[0].value;
        if (!*out_first) {
            *out_first = input;
            *out_batch = dim;
        } else if (dim != *out_batch && !*out_other) {
            *out_other = input;
        }
    }
    return *out_first && !*out_other && *out_batch > 0;
}

/* --- dims that depend on the batch -------------------------------------------------------------- */

typedef struct binding {
    const char *name;
    int64_t value;
} binding;

static bool look_up(void *user, const char *name, int64_t *out_value) { /* a tc_dim_lookup */
    const binding *b = user;
    *out_value = b->value;
    return strcmp(name, b->name) == 0;
}

tc_dim tc_batch_at(const tc_batch *b, tc_dim dim, int64_t batch) {
    binding bound = {b->name, batch};
    return tc_dim_is_const(dim) ? dim : tc_dim_substitute(b->model->dims, dim, look_up, &bound);
}

bool tc_batch_in(const tc_batch *b, tc_dim dim) {
    return !tc_dim_is_const(dim) && !tc_dim_equal(tc_batch_at(b, dim, 1), tc_batch_at(b, dim, 2));
}

int tc_batch_axis(const tc_batch *b, const tc_value *value) {
    for (int i = 0; i < tc_value_rank(value); i++)
        if (tc_batch_in(b, value->type->dims[i]))
            return i;
    return -1;
}

/* A number, or a multiple of the batch. */
static bool is_multiple(const tc_batch *b, tc_dim dim) {
    tc_dim one = tc_batch_at(b, dim, 1);
    static const int64_t sizes[] = {2, 1000};
    if (!tc_batch_in(b, dim))
        return true;
    for (size_t i = 0; i < TC_COUNT(sizes); i++)
        if (!tc_dim_equal(tc_batch_at(b, dim, sizes[i]), tc_dim_mul(b->model->dims, one, tc_dim_const(sizes[i]))))
            return false;
    return true;
}

/* --- refusing ----------------------------------------------------------------------------------- */

tc_status tc_batch_refuse(tc_batch *b, const tc_node *node, const char *fmt, ...) {
    char why[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    tc_error(b->env->ctx, TC_UNSUPPORTED, node, "--dim batch: the file's batch of %lld is fixed here: %s",
             (long long)b->was, why);
    tc_hint(b->env->ctx, "export the model with dynamic_shapes (torch.onnx.export), so that its batch has a name");
    return TC_UNSUPPORTED;
}

/* A message calls the size that occurs nowhere else N. */
static const char *call_it_n(tc_arena *arena, const char *text) {
    char *copy = tc_arena_strdup(arena, text);
    for (char *at = copy; (at = strstr(at, NOWHERE_TEXT)) != NULL;) {
        *at++ = 'N';
        memmove(at, at + strlen(NOWHERE_TEXT) - 1, strlen(at + strlen(NOWHERE_TEXT) - 1) + 1);
    }
    return copy;
}

tc_status tc_batch_infer(tc_batch *b, tc_node *node) {
    tc_ctx *ctx = b->env->ctx;
    size_t n_diags = ctx->n_diags;
    if (tc_infer_node(ctx, node) == TC_OK)
        return TC_OK;
    const char *why = ctx->n_diags > n_diags ? ctx->diags[n_diags].message : "its operands do not fit together";
    ctx->n_diags = n_diags;
    return tc_batch_refuse(b, node, "%s", call_it_n(ctx->arena, why));
}

/* --- nodes that would change the graph's meaning ------------------------------------------------ */

/* Ops that move elements: if such an op removes the batch, it takes the samples of one batch. */
static bool moves(const tc_node *node) {
    static const char *const ops[] = {"Compress", "Expand",  "Gather",  "GatherElements", "GatherND",
                                      "Pad",      "Reshape", "Slice",   "Split",          "SplitToSequence",
                                      "Squeeze",  "Tile",    "Flatten", "Transpose"};
    for (size_t i = 0; i < TC_COUNT(ops); i++)
        if (tc_node_is(node, "", ops[i]))
            return true;
    return false;
}

static bool has_batch(const tc_batch *b, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && tc_batch_axis(b, node->outputs[i]) >= 0)
            return true;
    return false;
}

static bool adds_up(const tc_node *node) {
    const char *reduction = tc_attr_string(node, "reduction", "mean");
    return tc_node_is(node, "", "ReduceSum") || tc_node_is(node, "", "ReduceSumSquare") ||
           tc_node_is(node, "", "ReduceL1") ||
           ((tc_node_is(node, "", "SoftmaxCrossEntropyLoss") || tc_node_is(node, "", "NegativeLogLikelihoodLoss")) &&
            strcmp(reduction, "sum") == 0);
}

/* A multiple of the batch: the divisor of a mean over the batch of the file. */
static bool counts(const tc_batch *b, double number) {
    double whole = nearbyint(number);
    return whole >= 1 && whole < 1e15 && fabs(number - whole) < 1e-4 * whole && fmod(whole, (double)b->was) == 0;
}

/* A mean may have been written as a sum over the batch, divided by the number of samples. */
static tc_status check_mean(tc_batch *b, const tc_node *node) {
    TC_FOR_USES(use, node->outputs[0]) {
        bool divides = use->user && tc_node_is(use->user, "", "Div") && use->index == 0;
        bool scales = use->user && tc_node_is(use->user, "", "Mul");
        tc_value *other = divides || scales ? tc_input(use->user, 1 - use->index) : NULL;
        const tc_tensor *constant = other ? tc_value_constant(other) : NULL;
        if (!constant || constant->count != 1 || !constant->data || !tc_dtype_is_number(constant->dtype))
            continue;
        double number = tc_tensor_get(constant, 0);
        if (counts(b, divides ? number : 1 / number))
            return tc_batch_refuse(b, use->user, "it divides a sum over the batch by the constant %g", number);
    }
    return TC_OK;
}

/* An op that takes elements along one axis: the other axes are those of the indices. */
static tc_status check_gather(tc_batch *b, const tc_node *node) {
    const tc_value *data = tc_input(node, 0), *indices = tc_input(node, 1);
    int axis = tc_batch_axis(b, indices), rank = tc_value_rank(data);
    int64_t along = tc_attr_int(node, "axis", 0);
    if (axis >= 0 && axis < rank && axis != (along < 0 ? along + rank : along) &&
        !tc_batch_in(b, data->type->dims[axis]))
        return tc_batch_refuse(b, node, "'%s' has %s rows", tc_quote(b->env->ctx, data->name),
                               tc_dim_text(b->env->ctx->arena, data->type->dims[axis]));
    return TC_OK;
}

static tc_status check(tc_batch *b, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        for (int k = 0; k < tc_value_rank(tc_output(node, i)); k++)
            if (!is_multiple(b, node->outputs[i]->type->dims[k]))
                return tc_batch_refuse(b, node, "its result '%s' would be %s",
                                       tc_quote(b->env->ctx, node->outputs[i]->name),
                                       tc_type_text(b->env->ctx->arena, node->outputs[i]->type));
    if (tc_node_is(node, "", "GatherElements"))
        TC_TRY(check_gather(b, node));
    const tc_value *x = tc_input(node, 0);
    if (!x || tc_batch_axis(b, x) < 0 || has_batch(b, node))
        return TC_OK;
    if (moves(node))
        return tc_batch_refuse(b, node, "it selects samples of '%s' by their indices", tc_quote(b->env->ctx, x->name));
    return adds_up(node) && tc_output(node, 0) ? check_mean(b, node) : TC_OK;
}

/* --- node by node ------------------------------------------------------------------------------- */

/* If the batch is part of an axis, results that have the operand's axis have it in the same way. */
static void pass_inner(tc_batch *b, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *x = tc_input(node, i);
        const void *inner = x ? tc_map_get(b->inner, x->name) : NULL;
        int axis = inner ? tc_batch_axis(b, x) : -1;
        for (uint32_t k = 0; axis >= 0 && k < node->n_outputs; k++) {
            const tc_value *y = node->outputs[k];
            int same = y ? tc_batch_axis(b, y) : -1;
            if (same >= 0 && tc_dim_equal(x->type->dims[axis], y->type->dims[same]))
                tc_map_set(b->inner, y->name, (void *)(uintptr_t)inner);
        }
    }
}

static tc_status adapt(tc_batch *b, tc_node *node) {
    if (tc_has_nested(node))
        return tc_batch_refuse(b, node, "it holds nested graphs, which --dim batch does not change");
    if (!node->op || !node->op->has_shape)
        return tc_batch_refuse(b, node, "the shapes of its results are not known");
    if (b->sources)
        TC_TRY(tc_batch_sources(b, node));
    TC_TRY(tc_batch_infer(b, node));
    if (tc_node_is(node, "", "Reshape"))
        TC_TRY(tc_batch_reshape(b, node));
    else if (tc_node_is(node, "", "Expand"))
        TC_TRY(tc_batch_expand(b, node));
    else
        pass_inner(b, node);
    return check(b, node);
}

static void set_inputs(tc_batch *b, tc_dim batch) {
    tc_graph *graph = b->model->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        tc_value *input = graph->inputs[i];
        if (input->init || strcmp(input->name, TC_SEED_INPUT) == 0 || tc_value_rank(input) < 1)
            continue;
        tc_dim dims[TC_MAX_RANK];
        memcpy(dims, input->type->dims, (size_t)input->type->rank * sizeof *dims);
        dims[0] = batch;
        input->type = tc_type_tensor(b->model, input->type->dtype, input->type->rank, dims);
    }
    tc_forget_shapes(graph);
}

static tc_status infer_at(tc_batch *b, tc_dim batch) {
    set_inputs(b, batch);
    TC_FOR_NODES(node, b->model->graph)
        TC_TRY(tc_batch_infer(b, node));
    return TC_OK;
}

static tc_status compare_types(tc_batch *b) {
    TC_FOR_NODES(node, b->model->graph)
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            const tc_value *value = node->outputs[i];
            const tc_type *old = value ? tc_map_get(b->types, value->name) : NULL;
            if (old && !tc_type_equal(old, value->type))
                return tc_batch_refuse(
                    b, node, "its result '%s' would be %s instead of %s", tc_quote(b->env->ctx, value->name),
                    tc_type_text(b->env->ctx->arena, value->type), tc_type_text(b->env->ctx->arena, old));
        }
    return TC_OK;
}

static tc_status free_batch(tc_batch *b) {
    set_inputs(b, b->symbol);
    TC_FOR_NODES_SAFE(node, b->model->graph)
        TC_TRY(adapt(b, node));
    TC_TRY(infer_at(b, tc_dim_const(NOWHERE)));
    TC_TRY(infer_at(b, tc_dim_const(b->was)));
    return compare_types(b);
}

/* --- the pass ----------------------------------------------------------------------------------- */

static void note_types(tc_batch *b) {
    TC_FOR_NODES(node, b->model->graph)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i] && tc_type_is_static(node->outputs[i]->type))
                tc_map_set(b->types, node->outputs[i]->name, (void *)(uintptr_t)node->outputs[i]->type);
}

static void report(const tc_batch *b, int64_t batch) {
    tc_ctx *ctx = b->env->ctx;
    const char *more = b->n_ambiguous == 0
                           ? ""
                           : tc_arena_printf(ctx->arena,
                                             "; in %u of them the size 1 taken for the batch could also mean "
                                             "another dimension",
                                             b->n_ambiguous);
    tc_note(ctx, NULL,
            "--dim batch=%lld: the file has the number %lld as its batch; nodes changed to follow the "
            "inputs: %u%s",
            (long long)batch, (long long)b->was, b->n_changed, more);
}

tc_status tc_pass_batch(tc_pass_env *env, tc_model *model) {
    tc_batch b = {.env = env, .model = model, .types = tc_map_create(env->ctx->arena)};
    const tc_value *first, *other;
    int64_t batch = env->batch;
    env->batch = 0;
    if (batch == 0 || !tc_batch_fixed(model->graph, &b.was, &first, &other) || b.was == batch)
        return TC_OK;
    b.inner = tc_map_create(env->ctx->arena);
    b.symbol = tc_dim_fresh(model->dims, "batch");
    b.name = tc_dim_text(env->ctx->arena, b.symbol);
    note_types(&b);
    size_t n_diags = env->ctx->n_diags;
    tc_status status = free_batch(&b);
    if (status == TC_UNSUPPORTED) { /* perhaps a node makes the batch without reading an input */
        env->ctx->n_diags = n_diags;
        b.sources = true;
        status = free_batch(&b);
    }
    TC_TRY(status);
    TC_TRY(infer_at(&b, tc_dim_const(batch)));
    env->summary->file_batch = b.was;
    report(&b, batch);
    return TC_OK;
}
