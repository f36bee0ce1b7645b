/* cse.c: equal nodes on the same operands become one, and equal small constants become one value. A hash table per
 * graph takes nodes in order, so that the remaining node comes before every user of a removed one. Random nodes,
 * nodes of unknown ops and nodes with nested graphs are left; initializers that may be weights (canonical.h) are
 * never merged, even if they are equal. */
#include "compiler/ir/ops.h"
#include "canonical.h"
#include <string.h>

enum { CONSTANT_BYTES = 4096 };

typedef struct table {
    void **slots; /* tc_node or tc_value */
    uint64_t *hashes;
    size_t mask;
} table;

static table table_create(tc_arena *arena, size_t n) {
    size_t size = 16;
    while (size < n * 2)
        size *= 2;
    return (table){TC_NEW_ARRAY(arena, void *, size), TC_NEW_ARRAY(arena, uint64_t, size), size - 1};
}

/* The entry equal to `item`, which is added if there is none. */
static void *table_find_or_add(table *t, void *item, uint64_t hash, bool (*equal)(const void *a, const void *b)) {
    size_t at = (size_t)hash & t->mask;
    for (; t->slots[at]; at = (at + 1) & t->mask)
        if (t->hashes[at] == hash && equal(t->slots[at], item))
            return t->slots[at];
    t->slots[at] = item;
    t->hashes[at] = hash;
    return item;
}

static uint64_t mix(uint64_t hash, const void *data, size_t n) { return n ? tc_hash_bytes(data, n, hash) : hash; }
static uint64_t mix_text(uint64_t hash, const char *text) { return mix(hash, text, strlen(text) + 1); }

/* --- tensors ---------------------------------------------------------------------------------- */

static bool is_small(const tc_tensor *tensor) {
    return tensor && tensor->data && !tensor->strings && !tensor->external && tensor->bytes <= CONSTANT_BYTES;
}

static uint64_t hash_tensor(uint64_t hash, const tc_tensor *tensor) {
    hash = mix(hash, &tensor->dtype, sizeof tensor->dtype);
    hash = mix(hash, tensor->dims, (size_t)tensor->rank * sizeof *tensor->dims);
    return mix(hash, tensor->data, tensor->bytes);
}

static bool same_tensor(const tc_tensor *a, const tc_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes &&
           (!a->rank || !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims)) &&
           (!a->bytes || !memcmp(a->data, b->data, a->bytes));
}

/* --- attributes ------------------------------------------------------------------------------- */

static bool can_compare(const tc_attr *attr) {
    switch (attr->kind) {
    case TC_ATTR_FLOAT:
    case TC_ATTR_INT:
    case TC_ATTR_STRING:
    case TC_ATTR_FLOATS:
    case TC_ATTR_INTS:
    case TC_ATTR_STRINGS: return !attr->ref;
    case TC_ATTR_TENSOR: return !attr->ref && is_small(attr->t);
    default: return false;
    }
}

/* The order of attributes does not matter: hashes are added up. */
static uint64_t hash_attr(const tc_attr *attr) {
    uint64_t hash = mix_text((uint64_t)attr->kind, attr->name);
    switch (attr->kind) {
    case TC_ATTR_FLOAT: return mix(hash, &attr->f, sizeof attr->f);
    case TC_ATTR_INT: return mix(hash, &attr->i, sizeof attr->i);
    case TC_ATTR_STRING: return mix(hash, attr->s.data, attr->s.size);
    case TC_ATTR_FLOATS: return mix(hash, attr->floats, attr->count * sizeof *attr->floats);
    case TC_ATTR_INTS: return mix(hash, attr->ints, attr->count * sizeof *attr->ints);
    case TC_ATTR_TENSOR: return hash_tensor(hash, attr->t);
    default: return hash;
    }
}

static bool same_bytes(tc_bytes a, tc_bytes b) {
    return a.size == b.size && (!a.size || !memcmp(a.data, b.data, a.size));
}

static bool same_attr(const tc_attr *a, const tc_attr *b) {
    if (a->kind != b->kind || a->count != b->count)
        return false;
    bool same = true;
    switch (a->kind) {
    case TC_ATTR_FLOAT: return !memcmp(&a->f, &b->f, sizeof a->f);
    case TC_ATTR_INT: return a->i == b->i;
    case TC_ATTR_STRING: return same_bytes(a->s, b->s);
    case TC_ATTR_FLOATS: return !a->count || !memcmp(a->floats, b->floats, a->count * sizeof *a->floats);
    case TC_ATTR_INTS: return !a->count || !memcmp(a->ints, b->ints, a->count * sizeof *a->ints);
    case TC_ATTR_STRINGS:
        for (size_t i = 0; same && i < a->count; i++)
            same = same_bytes(a->strings[i], b->strings[i]);
        return same;
    case TC_ATTR_TENSOR: return same_tensor(a->t, b->t);
    default: return false;
    }
}

/* --- nodes ------------------------------------------------------------------------------------ */

bool tc_can_merge(const tc_node *node) {
    if (!node->op || tc_node_has(node, TC_RANDOM | TC_CONTROL | TC_SIDE_EFFECT))
        return false;
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (!can_compare(&node->attrs[i]))
            return false;
    return true;
}

/* Operand `i` in an order that does not depend on the order of commutative operands. */
static const tc_value *ordered(const tc_node *node, uint32_t i) {
    const tc_value *a = tc_input(node, 0), *b = tc_input(node, 1);
    bool swap = tc_node_has(node, TC_COMMUTATIVE) && node->n_inputs == 2 && a && b && a->id > b->id;
    return swap ? (i ? a : b) : tc_input(node, i);
}

uint64_t tc_hash_op(const tc_node *node) {
    uint64_t hash = mix_text(mix_text(1, node->domain), node->op_type), attrs = 0;
    for (uint32_t i = 0; i < node->n_attrs; i++)
        attrs += hash_attr(&node->attrs[i]);
    return mix(hash, &attrs, sizeof attrs);
}

bool tc_same_op(const tc_node *a, const tc_node *b) {
    if (strcmp(a->op_type, b->op_type) != 0 || strcmp(a->domain, b->domain) != 0 || a->n_inputs != b->n_inputs ||
        a->n_attrs != b->n_attrs)
        return false;
    for (uint32_t i = 0; i < a->n_attrs; i++) {
        const tc_attr *other = tc_attr_find(b, a->attrs[i].name);
        if (!other || !same_attr(&a->attrs[i], other))
            return false;
    }
    return true;
}

static uint64_t hash_node(const tc_node *node) {
    uint64_t hash = tc_hash_op(node);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = ordered(node, i);
        uint32_t id = value ? value->id : UINT32_MAX;
        hash = mix(hash, &id, sizeof id);
    }
    return hash;
}

static bool same_node(const void *x, const void *y) {
    const tc_node *a = x, *b = y;
    if (!tc_same_op(a, b))
        return false;
    for (uint32_t i = 0; i < a->n_inputs; i++)
        if (ordered(a, i) != ordered(b, i))
            return false;
    for (uint32_t i = 0; i < b->n_outputs; i++) /* the remaining node has every result of the removed one */
        if (b->outputs[i] && !tc_output(a, i))
            return false;
    return true;
}

static uint32_t merge_nodes(tc_arena *scratch, tc_graph *graph) {
    table t = table_create(scratch, graph->n_nodes);
    uint32_t merged = 0;
    TC_FOR_NODES_SAFE(node, graph) {
        bool is_output = false;
        for (uint32_t i = 0; i < node->n_outputs; i++)
            is_output |= node->outputs[i] && node->outputs[i]->n_graph_outputs;
        if (!tc_can_merge(node))
            continue;
        tc_node *first = table_find_or_add(&t, node, hash_node(node), same_node);
        if (first == node || is_output) /* outputs of the graph keep their names */
            continue;
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                tc_value_replace(node->outputs[i], first->outputs[i]);
        tc_node_erase(node);
        merged++;
    }
    return merged;
}

/* --- constants -------------------------------------------------------------------------------- */

static bool same_init(const void *x, const void *y) {
    const tc_value *a = x, *b = y;
    return same_tensor(a->init, b->init);
}

/* Running statistics change in training, each on its own. */
static bool is_statistic(const tc_value *value) {
    TC_FOR_USES(use, value)
        if (use->index >= 3 && tc_node_is(use->user, "", "BatchNormalization"))
            return true;
    return false;
}

static uint32_t merge_constants(tc_arena *scratch, tc_graph *graph) {
    table t = table_create(scratch, graph->n_initializers);
    uint32_t merged = 0;
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        tc_value *value = graph->initializers[i];
        if (value->is_input || value->n_graph_outputs || tc_may_be_trained(value) || !is_small(value->init) ||
            is_statistic(value))
            continue;
        tc_value *first = table_find_or_add(&t, value, hash_tensor(2, value->init), same_init);
        if (first == value || !value->uses)
            continue;
        tc_value_replace(value, first);
        merged++;
    }
    return merged;
}

static uint32_t merge_graph(tc_arena *scratch, tc_graph *graph) {
    uint32_t merged = merge_constants(scratch, graph) + merge_nodes(scratch, graph);
    TC_FOR_NODES(node, graph)
        TC_FOR_NESTED(nested, node)
            merged += merge_graph(scratch, nested);
    return merged;
}

uint32_t tc_merge_equal(tc_graph *graph) {
    tc_arena *scratch = tc_arena_create();
    uint32_t merged = merge_graph(scratch, graph);
    tc_arena_destroy(scratch);
    return merged;
}
