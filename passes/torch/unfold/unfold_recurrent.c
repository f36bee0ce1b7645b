/* unfold_recurrent.c: the weights of recurrent layers. PyTorch has a parameter for each layer, direction and kind,
 * with gates in its own order. ONNX's op takes all directions of a layer as one operand, with gates in another
 * order. With optimize=True the exporter computes those operands. The node's call lists the parameters, so each
 * becomes an initializer again, and nodes reorder the gates and combine the directions:
 *
 *   weight_ih_l0, weight_ih_l0_reverse -> Split, Split -> Concat -> Reshape: W
 * PyTorch's RNN and its cells are linear layers in the file. In their first step, the product with a state of zeros
 * is folded into the bias, once for each item. */
#include "passes/weights/weights.h"
#include "passes/torch/metadata/metadata.h"
#include "unfold.h"
#include <string.h>

enum { W = 1, B = 3, MOST_GATES = 4, MOST_PARTS = 2 * 2 * MOST_GATES };  /* operands; of two directions, two biases */
enum { PARAMETERS = 2, HAS_BIASES = 3, LAYERS = 4, TWO_DIRECTIONS = 7 }; /* arguments of the call */

typedef struct cell_row {
    const char *op, *operation;
    int gates;
    int from[MOST_GATES]; /* the number of PyTorch's gate for gate i of ONNX */
} cell_row;

static const cell_row cells[] = {
    {"GRU", "aten.gru", 3, {1, 0, 2}},      /* r z n -> z r h */
    {"LSTM", "aten.lstm", 4, {0, 3, 1, 2}}, /* i f g o -> i o f c */
};

/* One layer of a call: its parameters, in the call's order. */
typedef struct layer {
    const cell_row *cell;
    tc_node *node;
    const char **targets; /* [directions * kinds] */
    size_t directions, kinds;
} layer;

/* The names in one argument, without %. */
static const char **names_in(tc_arena *arena, const char *argument, size_t *out_n) {
    return tc_torch_call_names(arena, &(tc_torch_call){.args = &argument, .n_args = 1}, out_n);
}

static size_t number_of(const char *text) {
    size_t n = 0;
    for (; text && *text >= '0' && *text <= '9' && n < 1000; text++)
        n = 10 * n + (size_t)(*text - '0');
    return n;
}

static bool is_true(const char *text) { return text && strcmp(text, "True") == 0; }

/* The number of nodes of the call so far: a call of several layers makes a node for each, in their order. */
static size_t layer_number(tc_map *met, const char *result) {
    size_t n = (size_t)(uintptr_t)tc_map_get(met, result);
    tc_map_set(met, result, (void *)(uintptr_t)(n + 1));
    return n;
}

/* False: the node is no recurrent layer whose call shows its parameters. */
static bool read_layer(tc_unfold *u, const tc_torch_signature *signature, tc_map *met, tc_node *node, layer *out) {
    tc_torch_call call;
    size_t n;
    *out = (layer){.node = node};
    for (size_t i = 0; i < TC_COUNT(cells); i++)
        if (tc_node_is(node, "", cells[i].op))
            out->cell = &cells[i];
    if (!out->cell || !tc_torch_call_read(u->scratch, node, &call) || !tc_torch_call_is(&call, out->cell->operation) ||
        call.n_args <= TWO_DIRECTIONS)
        return false;
    const char **names = names_in(u->scratch, call.args[PARAMETERS], &n);
    size_t layers = number_of(call.args[LAYERS]), number = layer_number(met, call.result);
    out->directions = is_true(call.args[TWO_DIRECTIONS]) ? 2 : 1;
    out->kinds = is_true(call.args[HAS_BIASES]) ? 4 : 2;
    size_t each = out->directions * out->kinds;
    if (n > 0 && n == layers * (each + out->directions)) /* one more for each direction */
        u->projected = node;
    if (number >= layers || n != layers * each)
        return false;
    out->targets = TC_NEW_ARRAY(u->scratch, const char *, each);
    for (size_t i = 0; i < each; i++) {
        const tc_torch_input *input = tc_map_get(signature->by_token, names[number * each + i]);
        if (!input || input->kind != TC_TORCH_PARAMETER)
            return false;
        out->targets[i] = input->target;
    }
    return true;
}

/* --- a parameter from its operand ------------------------------------------------------------- */

/* A block of the operand's rows with gates in PyTorch's order: [gates hidden, columns], or [gates hidden]. */
static tc_tensor *reordered(const tc_unfold *u, const cell_row *cell, const tc_tensor *operand, const char *block,
                            uint64_t count) {
    const int64_t columns = operand->rank == 3 ? operand->dims[2] : 1,
                  dims[] = {columns > 0 ? (int64_t)count / columns : 0, columns};
    tc_tensor *tensor = tc_tensor_create(u->graph->model, operand->dtype, operand->rank - 1, dims, NULL);
    size_t gate = tensor->bytes / (size_t)cell->gates;
    for (int i = 0; i < cell->gates; i++)
        memcpy((char *)(uintptr_t)tensor->data + (size_t)cell->from[i] * gate, block + (size_t)i * gate, gate);
    return tensor;
}

/* The parameter as an initializer; NULL: one of that name exists with other numbers. */
static tc_value *parameter_for(const tc_unfold *u, const char *target, tc_tensor *tensor) {
    tc_value *there = tc_unfold_parameter_of(u, target);
    if (!there)
        return tc_unfold_make_parameter(u, target, tensor);
    const void *data = tc_tensor_peek(u->graph->model, there->init);
    bool same = data && there->init->dtype == tensor->dtype && there->init->bytes == tensor->bytes &&
                memcmp(data, tensor->data, tensor->bytes) == 0;
    return same ? there : NULL;
}

/* Puts a node with these operands before `where`. */
static tc_node *put_node(const tc_unfold *u, tc_node *where, const char *op, tc_value *const *operands, size_t n,
                         uint32_t n_results) {
    tc_node *node = tc_node_create(u->graph, "", op, (uint32_t)n, n_results);
    for (size_t i = 0; i < n; i++)
        tc_node_set_input(node, (uint32_t)i, operands[i]);
    tc_node_insert_before(node, where);
    return node;
}

static tc_value *result_of(const tc_unfold *u, tc_node *node, uint32_t i, const char *name, const tc_type *type) {
    tc_value *value = tc_node_add_output(node, i, tc_arena_printf(u->scratch, "%s_%s", name, node->op_type), type);
    node->name = node->outputs[0]->name;
    return value;
}

/* The gates of a parameter, in ONNX's order. */
static void split(const tc_unfold *u, const cell_row *cell, tc_node *where, tc_value *parameter, tc_value **out_gates) {
    tc_node *node = put_node(u, where, "Split", &parameter, 1, (uint32_t)cell->gates);
    int64_t dims[TC_MAX_RANK];
    memcpy(dims, parameter->init->dims, (size_t)parameter->init->rank * sizeof *dims);
    dims[0] /= cell->gates;
    const tc_type *type = tc_type_tensor_static(u->graph->model, parameter->init->dtype, parameter->init->rank, dims);
    tc_value *gates[MOST_GATES];
    tc_attr_set_int(node, "axis", 0);
    tc_attr_set_int(node, "num_outputs", cell->gates);
    for (int i = 0; i < cell->gates; i++)
        gates[i] = result_of(u, node, (uint32_t)i, parameter->name, type);
    for (int i = 0; i < cell->gates; i++)
        out_gates[i] = gates[cell->from[i]];
}

/* Gates one below the other, in the operand's shape. */
static tc_value *join(const tc_unfold *u, tc_node *where, const tc_value *operand, tc_value **gates, size_t n) {
    const tc_tensor *tensor = operand->init;
    int64_t dims[] = {tensor->dims[0] * tensor->dims[1], tensor->rank == 3 ? tensor->dims[2] : 1};
    tc_node *all = put_node(u, where, "Concat", gates, n, 1);
    tc_attr_set_int(all, "axis", 0);
    tc_value *rows = result_of(u, all, 0, operand->name,
                               tc_type_tensor_static(u->graph->model, tensor->dtype, tensor->rank - 1, dims));
    tc_value *shape = tc_constant(u->graph, "shape", tc_tensor_ints(u->graph->model, tensor->dims, tensor->rank));
    tc_node *reshape = put_node(u, where, "Reshape", (tc_value *[]){rows, shape}, 2, 1);
    return result_of(u, reshape, 0, operand->name, operand->type);
}

/* --- an operand ------------------------------------------------------------------------------- */

/* Initializers that the exporter computed; a parameter that is read directly needs nothing. */
static bool is_folded(const tc_unfold *u, const tc_torch_signature *signature, const tc_value *value, int rank) {
    return value && value->init && value->learned == TC_LEARNED_YES && !value->is_input && !value->n_graph_outputs &&
           value->init->rank == rank && tc_torch_kind_of(signature, value) == TC_TORCH_UNKNOWN &&
           !tc_is_asked_as_stored(u->env, value->name) && tc_tensor_peek(u->graph->model, value->init);
}

/* The operand's initializer is removed if it has no other reader. */
static void put_operand(tc_unfold *u, const layer *l, uint32_t index, tc_value *now) {
    tc_value *before = tc_input(l->node, index);
    tc_node_set_input(l->node, index, now);
    if (before->uses)
        return;
    tc_record_initializer(u->env, before->name, NULL);
    tc_graph_remove_initializer(u->graph, before);
}

static void unfold_operand(tc_unfold *u, const layer *l, uint32_t index, size_t first_kind, size_t n_kinds) {
    tc_value *operand = tc_input(l->node, index), *parameters[4], *gates[MOST_PARTS];
    const tc_tensor *tensor = operand->init;
    const char *data = tc_tensor_peek(u->graph->model, tensor);
    const size_t n = l->directions * n_kinds, g = (size_t)l->cell->gates;
    if ((uint64_t)tensor->dims[0] != l->directions || tensor->count % (n * g) != 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const char *target = l->targets[i / n_kinds * l->kinds + first_kind + i % n_kinds];
        tc_tensor *own = reordered(u, l->cell, tensor, data + i * (tensor->bytes / n), tensor->count / n);
        parameters[i] = parameter_for(u, target, own);
        if (!parameters[i])
            return; /* find_standins refuses it */
        tc_unfold_tell(u, &u->undone,
                       tc_arena_printf(u->scratch, "%s (in %s in the file)", tc_quote(u->env->ctx, target),
                                       tc_quote(u->env->ctx, operand->name)));
    }
    tc_node *where = u->graph->first;
    for (size_t i = 0; i < n; i++)
        split(u, l->cell, where, parameters[i], gates + i * g);
    put_operand(u, l, index, join(u, where, operand, gates, n * g));
}

void tc_unfold_recurrent(tc_unfold *u, const tc_torch_signature *signature) {
    tc_map *met = tc_map_create(u->scratch); /* a call's result -> number of its nodes */
    TC_FOR_NODES_SAFE(node, u->graph) {
        layer l;
        if (!read_layer(u, signature, met, node, &l))
            continue;
        for (uint32_t i = W; i < B; i++)
            if (is_folded(u, signature, tc_input(node, i), 3))
                unfold_operand(u, &l, i, i - W, 1);
        if (l.kinds == 4 && is_folded(u, signature, tc_input(node, B), 2))
            unfold_operand(u, &l, B, 2, 2);
    }
}

/* --- the first step of PyTorch's RNN ---------------------------------------------------------- */

/* Whether each row of the initializer has the parameter's numbers. */
static bool has_rows(const tc_unfold *u, const tc_standin *s, const tc_value *parameter) {
    const tc_tensor *tensor = s->value->init, *bias = parameter->init;
    const char *data = tc_tensor_peek(u->graph->model, bias), *rows = s->data;
    bool fits = data && rows && bias->rank == 1 && tensor->rank > 0 && bias->dtype == tensor->dtype &&
                bias->count == (uint64_t)tensor->dims[tensor->rank - 1];
    for (size_t at = 0; fits && at < tensor->bytes; at += bias->bytes)
        fits = memcmp(rows + at, data, bias->bytes) == 0;
    return fits;
}

static bool is_zero(const tc_standin *s) {
    const char *data = s->data;
    size_t bytes = s->value->init->bytes;
    return data && bytes > 0 && data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0;
}

/* Whether it was folded from a linear layer and zeros. */
static bool may_be_of_zeros(const tc_unfold *u, const tc_standin *s) {
    static const char *const makers[] = {"zeros", "new_zeros", "zeros_like"};
    size_t n;
    const char **from = tc_torch_folded_from(u->scratch, s->value, &n);
    for (size_t i = 0; i < n * TC_COUNT(makers); i++)
        if (tc_torch_same_stem(from[i / TC_COUNT(makers)], makers[i % TC_COUNT(makers)]))
            return tc_torch_same_stem(s->value->name, "linear");
    return false;
}

bool tc_unfold_bias_alone(tc_unfold *u, const tc_standin *s) {
    const tc_tensor *tensor = s->value->init;
    tc_value *bias = NULL;
    if (s->fold.n_parameters > 2 || !may_be_of_zeros(u, s))
        return false;
    for (size_t i = 0; i < s->fold.n_parameters && s->fold.n_parameters == 2 && !bias; i++) {
        bias = tc_unfold_parameter_of(u, s->fold.parameters[i]->target);
        bias = bias && has_rows(u, s, bias) ? bias : NULL;
    }
    if (!bias && s->fold.n_parameters == 1 && is_zero(s))
        return s->value->learned = TC_LEARNED_NO, true; /* no bias, and no gradient of the weight */
    if (!bias)
        return false;
    tc_value *shape = tc_constant(u->graph, "shape", tc_tensor_ints(u->graph->model, tensor->dims, tensor->rank));
    tc_unfold_tell(u, &u->undone,
                   tc_arena_printf(u->scratch, "%s (%s in the file)", tc_quote(u->env->ctx, bias->name),
                                   tc_quote(u->env->ctx, s->value->name)));
    tc_unfold_put_in_place(u, s, tc_unfold_add_node(u, "Expand", bias, shape, s->value->type));
    return true;
}
