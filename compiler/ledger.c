/* ledger.c: from a graph with a backward pass to the list of what it saves. */
#include "ledger.h"
#include "ops.h"
#include <string.h>

/* --- roots ------------------------------------------------------------------------------------------------------------ */

static bool is_view(const tc_node *node) { return tc_node_has(node, TC_VIEW); }

const tc_value *tc_view_root(const tc_value *value) {
    while (value->producer && is_view(value->producer) && tc_input(value->producer, 0))
        value = tc_input(value->producer, 0);
    return value;
}

/* Through views and transposes, to where the elements come from. */
static const tc_value *source_of(const tc_value *value) {
    while (value->producer && (is_view(value->producer) || tc_node_is(value->producer, "", "Transpose")) && tc_input(value->producer, 0))
        value = tc_input(value->producer, 0);
    return value;
}

bool tc_is_free(const tc_value *root) {
    const tc_value *source = source_of(root);
    if (source->producer)
        return tc_node_is(source->producer, "", "Constant");
    return source->init || tc_view_root(root) == source; /* a transposed graph input is a copy that has to be kept */
}

/* --- the forward pass -------------------------------------------------------------------------------------------------- */

static void mark(const tc_value *value, bool *forward, const tc_node **stack, size_t *depth) {
    const tc_node *node = value ? value->producer : NULL;
    if (!node || forward[node->id])
        return;
    forward[node->id] = true;
    stack[(*depth)++] = node;
}

/* Nested graphs read values of the graphs around them: those uses are in the use lists, and their nodes count with their outermost node. */
static void mark_nested(const tc_graph *graph, bool *forward, const tc_node **stack, size_t *depth) {
    TC_FOR_NODES(node, graph) {
        for (uint32_t i = 0; i < node->n_inputs; i++)
            mark(tc_input(node, i), forward, stack, depth);
        for (uint32_t a = 0; a < node->n_attrs; a++)
            if (node->attrs[a].kind == TC_ATTR_GRAPH && !node->attrs[a].ref)
                mark_nested(node->attrs[a].g, forward, stack, depth);
    }
}

bool *tc_forward_nodes(tc_arena *arena, const tc_graph *graph, const tc_value *loss, uint32_t *out_size) {
    uint32_t n = graph->model->next_id;
    bool *forward = TC_NEW_ARRAY(arena, bool, n);
    const tc_node **stack = TC_NEW_ARRAY(arena, const tc_node *, n);
    size_t depth = 0;
    *out_size = n;
    mark(loss, forward, stack, &depth);
    while (depth) {
        const tc_node *node = stack[--depth];
        for (uint32_t i = 0; i < node->n_inputs; i++)
            mark(tc_input(node, i), forward, stack, &depth);
        for (uint32_t a = 0; a < node->n_attrs; a++)
            if (node->attrs[a].kind == TC_ATTR_GRAPH && !node->attrs[a].ref)
                mark_nested(node->attrs[a].g, forward, stack, &depth);
    }
    return forward;
}

/* --- layers ------------------------------------------------------------------------------------------------------------ */

enum { NO_LAYER = UINT32_MAX };

typedef struct layering {
    tc_arena *arena;
    tc_ledger *ledger;
    size_t cap_layers;
    tc_map *by_name;         /* layer name -> index + 1 */
    uint32_t *of_node;       /* by node id */
    bool numbered;           /* a numbered layer has begun */
} layering;

static uint32_t layer_named(layering *l, const char *name) {
    size_t at = (size_t)(uintptr_t)tc_map_get(l->by_name, name);
    if (at)
        return (uint32_t)at - 1;
    tc_ledger *ledger = l->ledger;
    ledger->layers = tc_arena_grow(l->arena, ledger->layers, sizeof *ledger->layers, &l->cap_layers, ledger->n_layers + 1);
    ledger->layers[ledger->n_layers++] = (tc_layer){.name = name, .bytes = tc_dim_const(0)};
    tc_map_set(l->by_name, name, (void *)(uintptr_t)ledger->n_layers);
    return (uint32_t)ledger->n_layers - 1;
}

/* "m.bert.encoder.layer.3.attention.self.query.bias" -> "m.bert.encoder.layer.3"; NULL when no part is a number. */
static const char *numbered_prefix(tc_arena *arena, const char *name) {
    for (const char *p = strchr(name, '.'); p; p = strchr(p + 1, '.')) {
        size_t digits = strspn(p + 1, "0123456789");
        if (digits && p[1 + digits] == '.')
            return tc_arena_strndup(arena, name, (size_t)(p + 1 + digits - name));
    }
    return NULL;
}

/* The float initializer of two or more elements that the operand is, seen through transposes and views; NULL else. */
static const tc_value *parameter(const tc_value *value) {
    value = source_of(value);
    bool is = value->init && tc_dtype_is_float(value->init->dtype) && value->init->count > 1;
    return is ? value : NULL;
}

/* A node is of the layer its parameters' names tell; without, of the latest layer that it reads from. */
static uint32_t layer_of(layering *l, const tc_node *node) {
    uint32_t latest = NO_LAYER;
    bool unnumbered = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i), *weight = value ? parameter(value) : NULL;
        const char *name = weight ? numbered_prefix(l->arena, weight->name) : NULL;
        if (name) {
            l->numbered = true;
            return layer_named(l, name);
        }
        unnumbered = unnumbered || (weight && strchr(weight->name, '.'));
        uint32_t from = value && value->producer ? l->of_node[value->producer->id] : NO_LAYER;
        if (from != NO_LAYER && (latest == NO_LAYER || from > latest))
            latest = from;
    }
    if (unnumbered || latest == NO_LAYER)
        return layer_named(l, l->numbered && latest != NO_LAYER ? "head" : "embeddings");
    return latest;
}

static void assign_layers(layering *l, const tc_graph *graph, const bool *forward) {
    TC_FOR_NODES(node, graph) {
        l->of_node[node->id] = NO_LAYER;
        if (!forward[node->id])
            continue;
        bool is_loss = l->ledger->loss->producer == node;
        bool reads_parameter_only = node->n_inputs > 0;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            reads_parameter_only = reads_parameter_only && tc_input(node, i) && parameter(tc_input(node, i));
        uint32_t layer = is_loss ? layer_named(l, "loss") : reads_parameter_only ? NO_LAYER : layer_of(l, node);
        l->of_node[node->id] = layer;
        if (layer != NO_LAYER)
            l->ledger->layers[layer].nodes++;
    }
}

/* --- the ledger -------------------------------------------------------------------------------------------------------- */

tc_dim tc_value_bytes(tc_dim_pool *pool, const tc_value *value) {
    const tc_type *type = value->type;
    unsigned bits = type && type->kind == TC_TENSOR ? tc_dtype_bits(type->dtype) : 0;
    if (!bits || type->rank == TC_RANK_UNKNOWN)
        return tc_dim_unknown();
    tc_dim bytes = tc_dim_const(bits < 8 ? 1 : bits / 8);
    for (int i = 0; i < type->rank; i++)
        bytes = tc_dim_mul(pool, bytes, type->dims[i]);
    return bytes;
}

/* The loss is the scalar float output that no gradient is. */
static const tc_value *find_loss(const tc_graph *graph) {
    const tc_value *loss = NULL;
    bool has_gradient = false;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const tc_value *value = graph->outputs[i];
        size_t n = strlen(value->name);
        bool gradient = n > 5 && strstr(value->name, "_grad") != NULL;
        int rank = tc_value_rank(value);
        bool scalar = rank == 0 || (rank == 1 && tc_dim_equal(value->type->dims[0], tc_dim_const(1)));
        has_gradient = has_gradient || gradient;
        if (!gradient && scalar && tc_dtype_is_float(tc_value_dtype(value)) && !loss)
            loss = value;
    }
    return has_gradient ? loss : NULL;
}

/* The first reader of the elements that is not of the forward pass, through views that are not, either; NULL: none. */
static const tc_node *backward_user(const tc_value *value, const bool *forward) {
    const tc_node *found = NULL;
    TC_FOR_USES(use, value) {
        const tc_node *user = use->user;
        const tc_node *reader = NULL;
        if (tc_node_has(user, TC_SHAPE_ONLY) && use->index == 0)
            continue;
        if (is_view(user) && use->index == 0)
            reader = backward_user(user->outputs[0], forward);
        else if (!forward[user->id])
            reader = user;
        if (reader && (!found || (reader->graph == found->graph && tc_node_before(reader, found))))
            found = reader;
    }
    return found;
}

void tc_ledger_make(tc_arena *arena, const tc_graph *graph, const tc_value *loss, tc_ledger *out_ledger) {
    *out_ledger = (tc_ledger){.loss = loss ? loss : find_loss(graph), .bytes = tc_dim_const(0)};
    if (!out_ledger->loss || !out_ledger->loss->producer)
        return;
    tc_dim_pool *pool = graph->model->dims;
    uint32_t size;
    bool *forward = tc_forward_nodes(arena, graph, out_ledger->loss, &size);
    layering l = {.arena = arena, .ledger = out_ledger, .by_name = tc_map_create(arena), .of_node = TC_NEW_ARRAY(arena, uint32_t, size)};
    assign_layers(&l, graph, forward);
    size_t cap = 0;
    TC_FOR_NODES(node, graph) {
        for (uint32_t i = 0; forward[node->id] && !is_view(node) && i < node->n_outputs; i++) {
            const tc_value *value = node->outputs[i];
            const tc_node *user = value && !tc_is_free(value) ? backward_user(value, forward) : NULL;
            if (!user)
                continue;
            tc_dim bytes = tc_value_bytes(pool, value);
            uint32_t layer = l.of_node[node->id] == NO_LAYER ? layer_named(&l, "embeddings") : l.of_node[node->id];
            out_ledger->saved = tc_arena_grow(arena, out_ledger->saved, sizeof(tc_saved), &cap, out_ledger->n_saved + 1);
            out_ledger->saved[out_ledger->n_saved++] = (tc_saved){value, user, bytes, layer};
            out_ledger->layers[layer].bytes = tc_dim_add(pool, out_ledger->layers[layer].bytes, bytes);
            out_ledger->bytes = tc_dim_add(pool, out_ledger->bytes, bytes);
        }
    }
}
