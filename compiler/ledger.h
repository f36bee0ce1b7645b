/* ledger.h: what a training graph keeps of the forward pass for the backward pass, tensor by tensor.
 *
 * The forward pass is the loss and every node that it depends on. A value is *saved* when a node of the forward pass produces it and a
 * node outside of it reads its elements (a use that reads only its shape does not count). Views (Reshape, Squeeze, ...) are
 * their root's bytes: the root is what is saved, once. Graph inputs, parameters and parameters seen through transposes are not saved:
 * they are there anyway. Bytes are raw: elements times their size, no alignment. */
#ifndef TC_LEDGER_H
#define TC_LEDGER_H
#include "ir.h"

typedef struct tc_saved {
    const tc_value *value;   /* the root */
    const tc_node *user;     /* the first node outside of the forward pass that reads it */
    tc_dim bytes;            /* symbolic where a dim is */
    uint32_t layer;          /* index into tc_ledger.layers */
} tc_saved;

/* One block of the model: a repeated layer, told by the number in its parameters' names ("encoder.layer.3"), or what stands before
 * (embeddings) and behind (head) such layers, or the loss. */
typedef struct tc_layer {
    const char *name;
    uint32_t nodes;          /* of the forward pass */
    tc_dim bytes;            /* sum over its saved values */
} tc_layer;

typedef struct tc_ledger {
    tc_saved *saved;         /* in the order of their producers */
    size_t n_saved;
    tc_layer *layers;        /* in the order of their first nodes */
    size_t n_layers;
    tc_dim bytes;            /* sum of all */
    const tc_value *loss;    /* NULL: the graph has no backward pass, and nothing is saved */
} tc_ledger;

/* The ledger of a typed graph, in `arena`. `loss` NULL: found from the gradient outputs (`<initializer>_grad`): the scalar float
 * output that is none of them. */
void tc_ledger_make(tc_arena *arena, const tc_graph *graph, const tc_value *loss, tc_ledger *out_ledger);

/* Elements times their size; unknown where the type is. */
tc_dim tc_value_bytes(tc_dim_pool *pool, const tc_value *value);
/* The value whose bytes `value` shows: itself unless views made it. */
const tc_value *tc_view_root(const tc_value *value);
/* Whether the bytes are there without being saved: a graph input, an initializer, or a transposed or viewed one. */
bool tc_is_free(const tc_value *root);
/* Nodes the loss depends on: by node id, in the arena; `out_size` entries. */
bool *tc_forward_nodes(tc_arena *arena, const tc_graph *graph, const tc_value *loss, uint32_t *out_size);
#endif
