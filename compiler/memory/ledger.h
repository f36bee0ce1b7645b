/* ledger.h: the tensors of the forward pass that a training graph keeps for the backward pass.
 *
 * A value is *saved* when a node of the forward pass (roles.h) produces it and a node outside of it, on the way to a
 * gradient, reads its elements (a use that reads only its shape does not count). The saved tensor is the storage
 * (storage.h), counted once, also where views of it are read. Storages that are given (graph inputs, parameters,
 * transposed parameters) are not saved: they are there anyway. Bytes are raw: elements times their size, no alignment.
 */
#ifndef TC_LEDGER_H
#define TC_LEDGER_H
#include "roles.h"
#include "storage.h"

typedef struct tc_saved {
    const tc_value *value; /* the storage */
    const tc_node *user;   /* the first node outside of the forward pass that reads it */
    tc_dim bytes;          /* symbolic where a dim is */
    uint32_t layer;        /* index into tc_ledger.layers */
    uint32_t n_users;      /* nodes outside of the forward pass that read it */
} tc_saved;

/* One block of the model: a repeated layer, identified by the number in its parameters' names or its nodes' scopes
 * ("encoder.layer.3"); the part before ("embeddings") or after ("head") such layers; or the part after the last
 * parameter ("loss"). In a model without numbered layers all but the loss is "model". */
typedef struct tc_layer {
    const char *name;
    uint32_t nodes; /* of the forward pass; values computed from parameters alone belong to no layer */
    tc_dim bytes;   /* sum over its saved values */
} tc_layer;

typedef struct tc_ledger {
    tc_saved *saved; /* in the order of their producers */
    size_t n_saved;
    tc_layer *layers; /* in the order of their first nodes */
    size_t n_layers;
    tc_dim bytes;         /* sum of all */
    const tc_value *loss; /* NULL: the graph has no backward pass, and nothing is saved */
} tc_ledger;

/* The ledger of a typed graph, in `arena`. `loss` NULL: tc_find_loss's. Linear in the graph's size. */
void tc_ledger_make(tc_arena *arena, const tc_graph *graph, const tc_value *loss, tc_ledger *out_ledger);

/* The layer of each node of the forward pass, by node id: an index into ledger->layers, or TC_NO_LAYER. Creates the
 * layers, with 0 bytes. layers.c */
#define TC_NO_LAYER UINT32_MAX
uint32_t *tc_layers_make(tc_arena *arena, const tc_storages *storages, const bool *forward, tc_ledger *ledger);
#endif
