/* ledger.c: lists what a graph with a backward pass saves. The nodes outside of the forward pass note the storages that
 * they read; a walk along the nodes of the forward pass lists those of them that it made. */
#include "ledger.h"

/* The nodes of the backward pass that read a storage. */
typedef struct readers {
    const tc_node *first, *last; /* the latest: each counts once */
    uint32_t n;
} readers;

typedef struct walk {
    readers *readers;      /* by value id, of storages */
    const tc_node *reader; /* the current node */
} walk;

static void note_read(void *user, const tc_value *storage) {
    const walk *w = user;
    readers *r = &w->readers[storage->id];
    if (r->last == w->reader)
        return;
    r->first = r->first ? r->first : w->reader;
    r->last = w->reader;
    r->n++;
}

/* By value id: the nodes outside of the forward pass, on the way to a gradient, that read each storage. */
static readers *find_readers(tc_arena *arena, const tc_storages *storages, const bool *forward) {
    const bool *backward = tc_gradient_nodes(arena, storages->graph);
    walk w = {.readers = TC_NEW_ARRAY(arena, readers, storages->n_values)};
    TC_FOR_NODES(node, storages->graph) {
        w.reader = node;
        if (!forward[node->id] && backward[node->id])
            tc_storage_reads(storages, node, note_read, &w);
    }
    return w.readers;
}

static void add_saved(tc_arena *arena, tc_ledger *ledger, size_t *cap, const tc_saved *saved) {
    tc_dim_pool *pool = saved->value->graph->model->dims;
    tc_layer *layer = &ledger->layers[saved->layer];
    ledger->saved = tc_arena_grow(arena, ledger->saved, sizeof *ledger->saved, cap, ledger->n_saved + 1);
    ledger->saved[ledger->n_saved++] = *saved;
    layer->bytes = tc_dim_add(pool, layer->bytes, saved->bytes);
    ledger->bytes = tc_dim_add(pool, ledger->bytes, saved->bytes);
}

void tc_ledger_make(tc_arena *arena, const tc_graph *graph, const tc_value *loss, tc_ledger *out_ledger) {
    *out_ledger = (tc_ledger){.loss = loss ? loss : tc_find_loss(graph), .bytes = tc_dim_const(0)};
    if (!out_ledger->loss || !out_ledger->loss->producer)
        return;
    uint32_t size;
    tc_storages storages;
    tc_storages_make(arena, graph, &storages);
    const bool *forward = tc_forward_nodes(arena, graph, out_ledger->loss, &size);
    const uint32_t *layer_of = tc_layers_make(arena, &storages, forward, out_ledger);
    const readers *read = find_readers(arena, &storages, forward);
    size_t cap = 0;
    TC_FOR_NODES(node, graph) {
        for (uint32_t i = 0; forward[node->id] && i < node->n_outputs; i++) {
            const tc_value *value = node->outputs[i];
            const readers *r = value ? &read[value->id] : NULL;
            if (!r || r->n == 0 || tc_storage_is_given(&storages, value))
                continue;
            uint32_t layer = layer_of[node->id] == TC_NO_LAYER ? 0 : layer_of[node->id];
            add_saved(arena, out_ledger, &cap,
                      &(tc_saved){value, r->first, tc_value_bytes(graph->model->dims, value), layer, r->n});
        }
    }
}
