/* precision.c: turns a graph of floats into one of mixed precision, as autocast does at run time. Products take
 * 16-bit operands and give 16-bit results; moves, sums and activations of these stay in 16 bits (precision.def). All
 * other ops compute in float: softmax, losses, sums, any op without a row. Weights stay floats: a Cast precedes the
 * first reader of each, and autodiff turns it into the Cast that returns its gradient in float.
 * A 16-bit value has two variants: the narrow one, which its node makes, and after it a Cast to the original value,
 * which keeps name, type and readers. A node that takes 16 bits reads narrow variants; Casts without readers are
 * removed in the end. So outputs of the graph, nested graphs, and ops without a row see the same values as before.
 * Numbers that 16 bits cannot represent, such as those of masks (-3.4e38), become the least that they can: as
 * infinities, a row of them would be NaN. docs/decisions/016-precision.md has the decisions and their reasons. */
#include "precision.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "passes/weights/choose_loss.h"
#include <math.h>
#include <string.h>

enum { CHAIN = 8 }; /* so many views of a weight are repeated in 16 bits */

/* --- options ---------------------------------------------------------------------------------- */

static const struct {
    const char *name, *in_torch;
    tc_dtype dtype;
    double most;
} types[] = {{"fp32", "float32", TC_FLOAT, INFINITY},
             {"bf16", "bfloat16", TC_BFLOAT16, 0x1.fep127},
             {"fp16", "float16", TC_FLOAT16, 65504}};

/* The number of the option's type; TC_COUNT(types): no type has that name. */
static size_t type_of(const tc_options *options) {
    size_t i = 0;
    while (options->precision && i < TC_COUNT(types) && strcmp(options->precision, types[i].name) != 0 &&
           strcmp(options->precision, types[i].in_torch) != 0)
        i++;
    return i;
}

tc_dtype tc_precision(const tc_options *options) {
    size_t i = type_of(options);
    TC_ASSERT(i < TC_COUNT(types));
    return types[i].dtype;
}

bool tc_scales_loss(const tc_options *options) { return options->loss_scale || tc_precision(options) == TC_FLOAT16; }

tc_status tc_check_precision(tc_ctx *ctx, const tc_options *options) {
    if (type_of(options) == TC_COUNT(types))
        return tc_error(ctx, TC_USAGE, NULL, "--precision=%s: expected fp32, bf16 or fp16",
                        tc_quote(ctx, options->precision));
    if (tc_precision(options) == TC_FLOAT)
        return TC_OK;
    return tc_pipeline_need(ctx, options, "--precision", "precision",
                            "every recipe has it; in --passes, put it after raise and before autodiff");
}

/* --- types of operands ------------------------------------------------------------------------ */

typedef enum op_kind { PRODUCT, NORM, SUM, FOLLOW } op_kind;
#define ALL UINT32_MAX
#define FIRST 1u

typedef struct op_row {
    op_kind kind;
    const char *domain, *op;
    uint32_t operands;
} op_row;

static const op_row rows[] = {
#define OP(kind, domain, op, operands) {kind, domain, #op, operands},
#include "precision.def"
#undef OP
};

static bool is_of(const op_row *row, uint32_t operand) {
    return operand < 32 ? row->operands >> operand & 1 : row->operands == ALL;
}

typedef struct narrowing {
    tc_pass_env *env;
    tc_graph *graph;
    tc_dtype to;
    const char *suffix;
    double most;     /* of the type */
    tc_map *narrow;  /* value of float -> its 16-bit variant */
    tc_value **made; /* values that nodes make in 16 bits: results of Casts */
    size_t n_made, cap_made;
    tc_map *is_made;
    bool *learns;      /* by value id: it changes when weights are trained */
    uint32_t n_learns; /* values of the original graph */
} narrowing;

static const op_row *row_of(const tc_node *node) {
    for (size_t i = 0; node->op && i < TC_COUNT(rows); i++)
        if (tc_node_is(node, rows[i].domain, rows[i].op))
            return &rows[i];
    return NULL;
}

static bool is_made(const narrowing *n, const tc_value *value) { return tc_map_get_ptr(n->is_made, value) != NULL; }
static bool learns(const narrowing *n, const tc_value *value) {
    return value->id < n->n_learns && n->learns[value->id];
}

/* A number that is no weight. */
static const tc_tensor *number_of(const tc_value *value) {
    const tc_tensor *tensor = value->learned == TC_LEARNED_YES ? NULL : tc_value_constant(value);
    return tensor && tensor->count == 1 && tensor->data ? tensor : NULL;
}

/* The type can represent the elements; infinities stay. */
static bool fits(const narrowing *n, const tc_tensor *tensor) {
    tc_tensor read = *tensor;
    read.data = tc_tensor_peek(n->graph->model, tensor);
    for (uint64_t i = 0; read.data && read.dtype == TC_FLOAT && i < read.count; i++) {
        double element = fabs(tc_tensor_get(&read, i));
        if (element > n->most && !isinf(element))
            return false;
    }
    return true;
}

static bool is_moved(const tc_node *node) {
    return tc_node_has(node, TC_VIEW) || tc_node_is(node, "", "Transpose") || tc_node_is(node, "", "Expand") ||
           tc_node_is(node, "", "Slice");
}

/* The initializer that holds the value's elements; NULL: it is computed. */
static const tc_value *weight_of(const tc_value *value) {
    while (value->producer && is_moved(value->producer))
        value = tc_input(value->producer, 0);
    return value->init ? value : NULL;
}

/* Whether a float operand may become a 16-bit one beside others. */
static bool joins(const narrowing *n, const op_row *row, const tc_node *node, const tc_value *value) {
    const tc_value *weight = weight_of(value);
    if (is_made(n, value))
        return true;
    if (weight && (learns(n, value) || number_of(weight)))
        return number_of(weight) || fits(n, weight->init);
    if (row->kind != SUM || !learns(n, value))
        return false;
    return tc_node_is(node, "", "Concat") || tc_same_shape(value, tc_output(node, 0));
}

static bool takes_narrow(const narrowing *n, const op_row *row, const tc_node *node) {
    bool any_float = false, any_made = false, all_join = true;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        if (!value || !is_of(row, i) || tc_value_dtype(value) == n->to)
            continue;
        if (tc_value_dtype(value) != TC_FLOAT || value->graph != n->graph)
            return false;
        any_float = true;
        any_made = any_made || is_made(n, value);
        all_join = all_join && joins(n, row, node, value);
    }
    switch (row->kind) {
    case PRODUCT: return any_float;
    case NORM: return tc_input(node, 0) && is_made(n, tc_input(node, 0));
    default: return any_made && all_join;
    }
}

/* --- narrow variants -------------------------------------------------------------------------- */

static tc_node *insert(const narrowing *n, const char *op, tc_node *before, tc_value *const *operands,
                       uint32_t n_operands) {
    tc_node *node = tc_node_create(n->graph, "", op, n_operands, 1);
    for (uint32_t i = 0; i < n_operands; i++)
        tc_node_set_input(node, i, operands[i]);
    tc_node_insert_before(node, before);
    return node;
}

static const char *narrow_name(const narrowing *n, const tc_value *value) {
    return tc_arena_printf(n->graph->model->arena, "%s_%s", value->name, n->suffix);
}

static tc_status finish(const narrowing *n, tc_node *node, const char *name, tc_value **out_value) {
    *out_value = tc_node_add_output(node, 0, name, NULL);
    return tc_infer_node(n->env->ctx, node);
}

static tc_status cast(const narrowing *n, tc_value *value, tc_node *before, const char *name, tc_value **out_value) {
    tc_node *node = insert(n, "Cast", before, &value, 1);
    tc_attr_set_int(node, "to", n->to);
    return finish(n, node, name, out_value);
}

/* The number, or the nearest one of the type. */
static tc_value *narrow_number(const narrowing *n, const tc_value *value, const tc_tensor *number) {
    double is = tc_tensor_get(number, 0), most = isinf(is) ? INFINITY : n->most;
    double element = fmax(-most, fmin(most, is));
    tc_tensor *tensor = tc_tensor_create(n->graph->model, n->to, number->rank, number->dims, NULL);
    tc_element_set(n->to, (void *)(uintptr_t)tensor->data, 0, isnan(is) ? is : element);
    return tc_constant(n->graph, narrow_name(n, value), tensor);
}

/* Terms added to scores: a number outside the type's range becomes its least one, infinities stay. */
static tc_status narrow_bias(const narrowing *n, tc_value *value, tc_node *before, tc_value **out_value) {
    tc_model *model = n->graph->model;
    tc_value *closed = tc_constant(n->graph, "closed", tc_tensor_scalar(model, TC_FLOAT, -INFINITY));
    tc_value *least = tc_constant(n->graph, "least", tc_tensor_scalar(model, TC_FLOAT, -n->most));
    tc_value *is_closed, *bound;
    TC_TRY(finish(n, insert(n, "Equal", before, (tc_value *[]){value, closed}, 2), "is_closed", &is_closed));
    TC_TRY(finish(n, insert(n, "Max", before, (tc_value *[]){value, least}, 2), "bound", &bound));
    TC_TRY(finish(n, insert(n, "Where", before, (tc_value *[]){is_closed, value, bound}, 3), "bound", &bound));
    return cast(n, bound, before, narrow_name(n, value), out_value);
}

static tc_status narrow_variant(narrowing *n, tc_value *value, tc_node *before, int depth, tc_value **out_value);

/* The same view or transposition, applied to the narrow variant. A transposed weight is cast first, so that the
 * product reads it transposed. */
static tc_status narrow_view(narrowing *n, tc_value *value, tc_node *before, int depth, tc_value **out_value) {
    tc_value *source;
    TC_TRY(narrow_variant(n, tc_input(value->producer, 0), before, depth + 1, &source));
    tc_node *view = tc_node_clone(n->graph, value->producer, tc_map_create(n->env->ctx->arena));
    tc_node_set_input(view, 0, source);
    tc_node_move_before(view, before);
    *out_value = view->outputs[0];
    tc_value_rename(*out_value, tc_graph_unique_name(n->graph, narrow_name(n, value)));
    (*out_value)->type = NULL;
    return tc_infer_node(n->env->ctx, view);
}

/* In the order of nodes: an existing variant was made for an earlier node. */
static tc_status narrow_variant(narrowing *n, tc_value *value, tc_node *before, int depth, tc_value **out_value) {
    *out_value = tc_map_get_ptr(n->narrow, value);
    if (*out_value)
        return TC_OK;
    const tc_tensor *number = number_of(value);
    if (number)
        *out_value = narrow_number(n, value, number);
    else if (value->producer && is_moved(value->producer) && depth < CHAIN && weight_of(value))
        TC_TRY(narrow_view(n, value, before, depth, out_value));
    else
        TC_TRY(cast(n, value, before, narrow_name(n, value), out_value));
    tc_map_set_ptr(n->narrow, value, *out_value);
    return TC_OK;
}

static tc_status narrow_operand(narrowing *n, tc_node *node, uint32_t index) {
    tc_value *value = tc_input(node, index), *variant = tc_map_get_ptr(n->narrow, value);
    bool is_bias = index == 3 && tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttention");
    if (!variant && is_bias && !number_of(value)) {
        TC_TRY(narrow_bias(n, value, node, &variant));
        tc_map_set_ptr(n->narrow, value, variant);
    } else
        TC_TRY(narrow_variant(n, value, node, 0, &variant));
    tc_node_set_input(node, index, variant);
    return TC_OK;
}

/* --- results ---------------------------------------------------------------------------------- */

/* The node makes the narrow variant; a Cast after it makes the original value. */
static void widen_result(narrowing *n, tc_node *node, uint32_t index, const tc_type *was) {
    tc_value *value = node->outputs[index];
    const tc_type *type = value->type;
    value->type = was;
    tc_node_take_output(node, index);
    tc_value *narrow = tc_node_add_output(node, index, narrow_name(n, value), type);
    tc_node *cast = tc_node_create(n->graph, "", "Cast", 1, 1);
    tc_node_set_input(cast, 0, narrow);
    tc_attr_set_int(cast, "to", TC_FLOAT);
    tc_node_insert_after(cast, node);
    tc_node_set_output(cast, 0, value);
    tc_map_set_ptr(n->narrow, value, narrow);
    tc_map_set_ptr(n->is_made, value, narrow);
    n->made = tc_arena_grow(n->env->ctx->arena, n->made, sizeof *n->made, &n->cap_made, n->n_made + 1);
    n->made[n->n_made++] = value;
}

static tc_status narrow_results(narrowing *n, tc_node *node) {
    const tc_type **were = TC_NEW_ARRAY(n->env->ctx->arena, const tc_type *, node->n_outputs);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i]) {
            were[i] = node->outputs[i]->type;
            node->outputs[i]->type = NULL;
        }
    TC_TRY(tc_infer_node(n->env->ctx, node));
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && tc_value_dtype(node->outputs[i]) == n->to)
            widen_result(n, node, i, were[i]);
    return TC_OK;
}

static tc_status visit(narrowing *n, tc_node *node) {
    const op_row *row = row_of(node);
    tc_value *shown = tc_node_has(node, TC_SHAPE_ONLY) ? tc_input(node, 0) : NULL;
    if (shown && is_made(n, shown))
        tc_node_set_input(node, 0, tc_map_get_ptr(n->narrow, shown));
    if (!row || !takes_narrow(n, row, node))
        return TC_OK;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_input(node, i) && is_of(row, i) && tc_value_dtype(tc_input(node, i)) == TC_FLOAT)
            TC_TRY(narrow_operand(n, node, i));
    return narrow_results(n, node);
}

/* --- the pass --------------------------------------------------------------------------------- */

static void find_learned(narrowing *n) {
    tc_graph *graph = n->graph;
    n->n_learns = graph->model->next_id;
    n->learns = TC_NEW_ARRAY(n->env->ctx->arena, bool, n->n_learns);
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        const tc_value *value = graph->initializers[i];
        n->learns[value->id] = value->init->dtype == TC_FLOAT && value->learned != TC_LEARNED_NO && !number_of(value);
    }
    TC_FOR_NODES(node, graph) {
        bool any = false;
        for (uint32_t i = 0; i < node->n_inputs && !tc_node_has(node, TC_NO_GRADIENT); i++)
            any = any || (tc_input(node, i) && learns(n, tc_input(node, i)));
        for (uint32_t i = 0; any && i < node->n_outputs; i++)
            if (node->outputs[i])
                n->learns[node->outputs[i]->id] = true;
    }
}

/* Removes Casts to float without readers; the narrow variant takes the name. */
static void drop_casts(const narrowing *n) {
    for (size_t i = n->n_made; i-- > 0;) {
        tc_value *value = n->made[i], *narrow = tc_map_get_ptr(n->narrow, value);
        const char *name = value->name;
        if (tc_value_is_used(value))
            continue;
        tc_node_erase(value->producer);
        tc_value_rename(narrow, name);
    }
}

tc_status tc_pass_precision(tc_pass_env *env, tc_model *model) {
    size_t type = type_of(env->options);
    tc_arena *arena = env->ctx->arena;
    if (tc_precision(env->options) == TC_FLOAT)
        return TC_OK;
    TC_TRY(tc_infer_graph(env->ctx, model->graph));
    if (model->is_step || tc_has_backward(model->graph, tc_names_loss(env->options))) {
        tc_error(env->ctx, TC_USAGE, NULL, "--precision: the graph holds a backward pass already");
        tc_hint(env->ctx, "compile the model without its backward pass");
        return TC_USAGE;
    }
    narrowing n = {.env = env,
                   .graph = model->graph,
                   .to = types[type].dtype,
                   .suffix = types[type].name,
                   .most = types[type].most,
                   .narrow = tc_map_create(arena),
                   .is_made = tc_map_create(arena)};
    find_learned(&n);
    TC_FOR_NODES_SAFE(node, model->graph)
        TC_TRY(visit(&n, node));
    drop_casts(&n);
    tc_remove_dead(model->graph);
    return tc_infer_graph(env->ctx, model->graph);
}
