/* layers.c: which block of the model a node belongs to. PyTorch's exporters leave the answer in names. Parameters are
 * called after their modules ("bert.encoder.layer.3.output.dense.weight"). The older exporter names nodes after their
 * scopes ("/bert/encoder/layer.3/..."), and the newer one writes scopes into the metadata. A node without such a name
 * belongs to the latest block that it reads from, or, where it reads from none, to the block that reads it. */
#include "ledger.h"
#include "compiler/onnx/onnx.h"
#include <string.h>

typedef struct layering {
    tc_arena *arena;
    const tc_storages *storages;
    tc_ledger *ledger;
    size_t cap_layers;
    tc_map *by_name;   /* layer name -> index + 1 */
    uint32_t *of_node; /* by node id */
    bool *tail;        /* by node id: neither this node nor a later one reads a parameter */
    bool numbered;     /* a numbered layer has begun */
} layering;

static uint32_t layer_named(layering *l, const char *name) {
    size_t at = (size_t)(uintptr_t)tc_map_get(l->by_name, name);
    if (at)
        return (uint32_t)at - 1;
    tc_ledger *ledger = l->ledger;
    ledger->layers =
        tc_arena_grow(l->arena, ledger->layers, sizeof *ledger->layers, &l->cap_layers, ledger->n_layers + 1);
    ledger->layers[ledger->n_layers++] = (tc_layer){.name = name, .bytes = tc_dim_const(0)};
    tc_map_set(l->by_name, name, (void *)(uintptr_t)ledger->n_layers);
    return (uint32_t)ledger->n_layers - 1;
}

/* --- names ------------------------------------------------------------------------------------ */

/* Finds the first part of the name, after a dot at or after `at`, that is a number (of a layer), and returns where the
 * number ends; 0: no part is a number. Slashes count as dots; with `open` the number may end the name. */
static size_t number_end(const char *name, size_t at, size_t length, bool open) {
    for (; at < length; at++) {
        if (name[at] != '.' && name[at] != '/')
            continue;
        size_t digits = strspn(name + at + 1, "0123456789"), end = at + 1 + digits;
        bool ends = end >= length ? open && end == length : name[end] == '.' || name[end] == '/';
        if (digits > 0 && ends)
            return end;
    }
    return 0;
}

/* "m.bert.encoder.layer.3.attention.self.query.bias" -> "m.bert.encoder.layer.3"; NULL when no part after the first is
 * a number. Where stages hold blocks ("layers.2.blocks.5.mlp.fc1.bias"), the block is the layer. */
static const char *numbered_prefix(tc_arena *arena, const char *name, size_t length, bool open) {
    size_t end = number_end(name, 1, length, open);
    if (end == 0)
        return NULL;
    if (end < length && strncmp(name + end + 1, "blocks", 6) == 0) {
        size_t block = number_end(name, end + 7, end + 8 < length ? length : end, open);
        end = block ? block : end;
    }
    char *prefix = tc_arena_strndup(arena, name, end);
    for (char *c = prefix; *c; c++)
        *c = *c == '/' ? '.' : *c;
    return prefix;
}

/* The innermost module of "['', 'm', 'm.bert', 'm.bert.encoder.layer.0', 'linear']": the longest item with a dot, for
 * the last one is the operation. */
static const char *last_scope(const char *list, size_t *out_length) {
    const char *found = NULL;
    *out_length = 0;
    for (const char *open = strchr(list, '\''); open; open = strchr(open, '\'')) {
        const char *close = strchr(++open, '\'');
        if (!close)
            break;
        if ((size_t)(close - open) >= *out_length && memchr(open, '.', (size_t)(close - open))) {
            found = open;
            *out_length = (size_t)(close - open);
        }
        open = close + 1;
    }
    return found;
}

/* The node's own scope, of *out_length bytes; NULL: it has none. */
static const char *scope_of(const tc_node *node, size_t *out_length) {
    const char *scopes = tc_node_metadata(node, "pkg.torch.onnx.name_scopes");
    const char *scope = scopes ? last_scope(scopes, out_length) : NULL;
    if (scope)
        return scope;
    const char *slash = node->name[0] == '/' ? strrchr(node->name, '/') : NULL;
    if (!slash || slash == node->name)
        return NULL;
    *out_length = (size_t)(slash - node->name - 1);
    return node->name + 1;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* The float initializer of two or more elements that the operand is, seen through transposes and views; NULL else. */
static const tc_value *parameter(const layering *l, const tc_value *value) {
    const tc_value *source = value ? tc_source_of(l->storages, value) : NULL;
    return source && source->init && tc_dtype_is_float(source->init->dtype) && source->init->count > 1 ? source : NULL;
}

typedef struct reading {
    const char *layer; /* named by a parameter's name */
    bool weight;       /* there is a parameter */
    bool named;        /* a parameter has a module's name, without number */
    uint32_t latest;   /* layer that an operand comes from */
} reading;

static reading read_operands(layering *l, const tc_node *node) {
    reading r = {.latest = TC_NO_LAYER};
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i), *weight = parameter(l, value);
        if (weight && !r.layer)
            r.layer = numbered_prefix(l->arena, weight->name, strlen(weight->name), false);
        r.weight = r.weight || weight;
        r.named = r.named || (weight && strchr(weight->name, '.'));
        uint32_t from = value && value->producer ? l->of_node[value->producer->id] : TC_NO_LAYER;
        if (from != TC_NO_LAYER && (r.latest == TC_NO_LAYER || from > r.latest))
            r.latest = from;
    }
    return r;
}

static uint32_t layer_of(layering *l, const tc_node *node) {
    if (tc_output(node, 0) && parameter(l, node->outputs[0]))
        return TC_NO_LAYER;
    if (l->ledger->loss->producer == node)
        return layer_named(l, "loss");
    reading r = read_operands(l, node);
    size_t length;
    const char *scope = scope_of(node, &length);
    const char *name = r.layer ? r.layer : scope ? numbered_prefix(l->arena, scope, length, true) : NULL;
    if (name) {
        l->numbered = true;
        return layer_named(l, name);
    }
    if (l->tail[node->id])
        return layer_named(l, "loss");
    if (r.latest == TC_NO_LAYER)
        return r.weight || scope ? layer_named(l, "embeddings") : TC_NO_LAYER;
    return r.named ? layer_named(l, l->numbered ? "head" : "embeddings") : r.latest;
}

/* Tail: the loss, and the nodes that lead to it from the last node that reads a parameter. */
static void find_tail(layering *l, const tc_graph *graph, const bool *forward) {
    bool *leads = TC_NEW_ARRAY(l->arena, bool, graph->model->next_id);
    l->tail = TC_NEW_ARRAY(l->arena, bool, graph->model->next_id);
    for (const tc_node *node = graph->last; node; node = node->prev) {
        for (uint32_t i = 0; forward[node->id] && i < node->n_inputs; i++)
            leads[node->id] = leads[node->id] || parameter(l, tc_input(node, i));
        l->tail[node->id] = forward[node->id] && !leads[node->id];
        for (uint32_t i = 0; leads[node->id] && i < node->n_inputs; i++)
            if (tc_input(node, i) && tc_input(node, i)->producer)
                leads[tc_input(node, i)->producer->id] = true;
    }
}

/* Nodes without a scope that read neither parameters nor a layer (a dropout's draw, a mask) belong to the one layer
 * that reads them; a node that several layers read belongs before all layers. */
static void place_side_nodes(layering *l, const tc_graph *graph, const bool *forward) {
    for (const tc_node *node = graph->last; node; node = node->prev) {
        if (!forward[node->id] || l->of_node[node->id] != TC_NO_LAYER || parameter(l, node->outputs[0]))
            continue;
        uint32_t only = TC_NO_LAYER;
        bool several = false;
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            for (const tc_use *use = node->outputs[i] ? node->outputs[i]->uses : NULL; use; use = use->next) {
                uint32_t reader =
                    use->user->graph == graph && forward[use->user->id] ? l->of_node[use->user->id] : TC_NO_LAYER;
                several = several || (only != TC_NO_LAYER && reader != TC_NO_LAYER && reader != only);
                only = reader == TC_NO_LAYER ? only : reader;
            }
        }
        l->of_node[node->id] = several || only == TC_NO_LAYER ? layer_named(l, "embeddings") : only;
    }
}

uint32_t *tc_layers_make(tc_arena *arena, const tc_storages *storages, const bool *forward, tc_ledger *ledger) {
    const tc_graph *graph = storages->graph;
    layering l = {.arena = arena, .storages = storages, .ledger = ledger, .by_name = tc_map_create(arena)};
    l.of_node = TC_NEW_ARRAY(arena, uint32_t, graph->model->next_id);
    find_tail(&l, graph, forward);
    TC_FOR_NODES(node, graph)
        l.of_node[node->id] = forward[node->id] ? layer_of(&l, node) : TC_NO_LAYER;
    place_side_nodes(&l, graph, forward);
    TC_FOR_NODES(node, graph)
        if (l.of_node[node->id] != TC_NO_LAYER)
            ledger->layers[l.of_node[node->id]].nodes++;
    for (size_t i = 0; !l.numbered && i < ledger->n_layers; i++)
        if (strcmp(ledger->layers[i].name, "embeddings") == 0)
            ledger->layers[i].name = "model";
    return l.of_node;
}
