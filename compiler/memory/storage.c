/* storage.c: finds, for the nodes of a typed graph, whose bytes each value is and when they are read. A table of ops
 * says which results are views; everything else follows in one walk along the nodes. */
#include "storage.h"
#include "compiler/ir/ops.h"
#include <string.h>

/* --- views ------------------------------------------------------------------------------------ */

static bool is_one(tc_dim dim) { return tc_dim_equal(dim, tc_dim_const(1)); }

/* Only dims of size 1 change places, so that the elements stay in order. */
static bool moves_nothing(const tc_node *node) {
    const tc_type *type = tc_input(node, 0)->type;
    size_t n = 0;
    const int64_t *perm = tc_attr_ints(node, "perm", &n);
    if (!type || type->kind != TC_TENSOR || type->rank < 0 || (perm && n != (size_t)type->rank))
        return false;
    int64_t before = -1;
    for (int i = 0; i < type->rank; i++) {
        int64_t from = perm ? perm[i] : type->rank - 1 - i;
        if (from < 0 || from >= type->rank)
            return false;
        if (is_one(type->dims[from]))
            continue;
        if (from < before)
            return false;
        before = from;
    }
    return true;
}

/* Only dims of 1 are added before the operand's. */
static bool repeats_nothing(const tc_node *node) {
    const tc_value *from = tc_input(node, 0), *to = tc_output(node, 0);
    int rank = tc_value_rank(from), more = tc_value_rank(to) - rank;
    if (rank == TC_RANK_UNKNOWN || more < 0)
        return false;
    for (int i = 0; i < rank + more; i++)
        if (i < more ? !is_one(to->type->dims[i]) : !tc_dim_equal(to->type->dims[i], from->type->dims[i - more]))
            return false;
    return true;
}

static bool casts_nothing(const tc_node *node) {
    tc_dtype from = tc_value_dtype(tc_input(node, 0));
    return from != TC_UNDEFINED && from == tc_value_dtype(tc_output(node, 0));
}

static bool joins_nothing(const tc_node *node) { return node->n_inputs == 1; }

/* The whole range, from front to back. */
static bool cuts_nothing(const tc_node *node) {
    const tc_tensor *steps = tc_input(node, 4) ? tc_value_constant(tc_input(node, 4)) : NULL;
    if (!repeats_nothing(node) || (tc_input(node, 4) && (!steps || !steps->data)))
        return false;
    for (uint64_t i = 0; steps && i < steps->count; i++)
        if (tc_tensor_get_int(steps, i) < 1)
            return false;
    return true;
}

/* Inference, and its mask is not used. */
static bool drops_nothing(const tc_node *node) {
    return !tc_input(node, 2) && !(tc_output(node, 1) && tc_value_is_used(tc_output(node, 1)));
}

typedef struct row {
    const char *op;
    bool (*copies)(const tc_node *node); /* operand 0 to result 0, in order */
} row;

static const row rows[] = {
    {"Transpose", moves_nothing}, {"Cast", casts_nothing},   {"CastLike", casts_nothing}, {"Concat", joins_nothing},
    {"Expand", repeats_nothing},  {"Tile", repeats_nothing}, {"Slice", cuts_nothing},     {"Dropout", drops_nothing},
};

bool tc_is_view(const tc_node *node) {
    if (!tc_input(node, 0) || !tc_output(node, 0))
        return false;
    if (tc_node_has(node, TC_VIEW))
        return true;
    for (size_t i = 0; i < TC_COUNT(rows); i++)
        if (tc_node_is(node, "", rows[i].op))
            return rows[i].copies(node);
    return false;
}

tc_view tc_value_view(const tc_value *value) {
    const tc_node *node = value->producer;
    bool shows = node && value->out_index == 0 && tc_is_view(node);
    return (tc_view){shows ? tc_input(node, 0) : NULL, tc_dim_const(0)};
}

tc_read tc_operand_read(const tc_node *node, uint32_t index) {
    if (!tc_input(node, index))
        return TC_READ_NOTHING;
    if (index > 0)
        return TC_READ_ELEMENTS;
    return tc_node_has(node, TC_SHAPE_ONLY) ? TC_READ_SHAPE : tc_is_view(node) ? TC_READ_VIEW : TC_READ_ELEMENTS;
}

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

/* --- one value -------------------------------------------------------------------------------- */

static const tc_value *transposed(const tc_value *value) {
    return value->producer && tc_node_is(value->producer, "", "Transpose") ? tc_input(value->producer, 0) : NULL;
}

/* A transposed graph input is a copy that has to be kept; a transposed parameter could be recomputed at any time. */
static bool is_given(const tc_value *storage, const tc_value *source) {
    if (source->producer)
        return tc_node_is(source->producer, "", "Constant");
    return source->init || source == storage;
}

const tc_value *tc_value_storage(const tc_value *value) {
    for (const tc_value *next = tc_value_view(value).of; next; next = tc_value_view(value).of)
        value = next;
    return value;
}

const tc_value *tc_value_source(const tc_value *value) {
    const tc_value *source = tc_value_storage(value);
    for (const tc_value *next = transposed(source); next; next = transposed(source))
        source = tc_value_storage(next);
    return source;
}

bool tc_value_is_given(const tc_value *value) { return is_given(tc_value_storage(value), tc_value_source(value)); }

bool tc_storage_is_given(const tc_storages *s, const tc_value *value) {
    return is_given(tc_storage_of(s, value), tc_source_of(s, value));
}

/* --- all values ------------------------------------------------------------------------------- */

static void read_graph(const tc_storages *s, const tc_graph *graph, tc_read_fn read, void *user);

void tc_storage_reads(const tc_storages *s, const tc_node *node, tc_read_fn read, void *user) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_operand_read(node, i) == TC_READ_ELEMENTS)
            read(user, tc_storage_of(s, tc_input(node, i)));
    TC_FOR_NESTED(nested, node)
        read_graph(s, nested, read, user);
}

/* Outputs of a nested graph are read, too: they are copied to the results of its node. */
static void read_graph(const tc_storages *s, const tc_graph *graph, tc_read_fn read, void *user) {
    TC_FOR_NODES(node, graph)
        tc_storage_reads(s, node, read, user);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        read(user, tc_storage_of(s, graph->outputs[i]));
}

static void place_graph(tc_storages *s, const tc_graph *graph, uint32_t at);

/* Results of a node at position `at`, and of the nested graphs in it. */
static void place_results(tc_storages *s, const tc_node *node, uint32_t at) {
    tc_dim_pool *pool = s->graph->model->dims;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_value *value = node->outputs[i], *through = value ? transposed(value) : NULL;
        if (!value)
            continue;
        tc_place *place = &s->places[value->id];
        tc_view view = tc_value_view(value);
        *place = (tc_place){.offset = tc_dim_const(0), .first = at, .last = at};
        if (view.of) {
            place->storage = tc_storage_of(s, view.of);
            place->offset = tc_dim_add(pool, s->places[view.of->id].offset, view.offset);
        }
        if (view.of || through)
            place->source = tc_source_of(s, view.of ? view.of : through);
    }
    TC_FOR_NESTED(nested, node)
        place_graph(s, nested, at);
}

static void place_graph(tc_storages *s, const tc_graph *graph, uint32_t at) {
    TC_FOR_NODES(node, graph)
        place_results(s, node, at);
}

typedef struct reader {
    tc_storages *s;
    uint32_t at;
} reader;

static void note_read(void *user, const tc_value *storage) {
    const reader *r = user;
    r->s->places[storage->id].last = r->at;
}

void tc_storages_make(tc_arena *arena, const tc_graph *graph, tc_storages *out_storages) {
    uint32_t n = graph->model->next_id;
    *out_storages = (tc_storages){graph, TC_NEW_ARRAY(arena, tc_place, n), n, 0};
    reader r = {out_storages, 0};
    for (uint32_t i = 0; i < n; i++)
        out_storages->places[i].offset = tc_dim_const(0);
    TC_FOR_NODES(node, graph) {
        place_results(out_storages, node, r.at);
        tc_storage_reads(out_storages, node, note_read, &r);
        r.at++;
    }
    out_storages->n_nodes = r.at;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        note_read(&r, tc_storage_of(out_storages, graph->outputs[i]));
}
