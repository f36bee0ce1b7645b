/* storage.h: whose bytes a value is. The one answer that the ledger, liveness, layers, the copies of `lean` and the
 * runtime's account of memory share.
 *
 * A *storage* is the value whose bytes were made for it; a view (Reshape, Squeeze, ...) is some storage's bytes, from
 * an offset on. A storage is *given* when its bytes are there anyway: a graph input, an initializer, a Constant, or a
 * transpose or view of one of the latter two, which hold no activations. The *source* of a value is its storage if
 * transposes count as views.
 *
 * An operand is read for its elements, for its shape alone (Shape, Size), or only to be shown by a view: neither of the
 * latter touches bytes. */
#ifndef TC_STORAGE_H
#define TC_STORAGE_H
#include "compiler/ir/ir.h"

/* --- one step --------------------------------------------------------------------------------- */

typedef struct tc_view {
    const tc_value *of; /* the value that is shown; NULL: the bytes are the value's own */
    tc_dim offset;      /* bytes into it. 0 as yet: parts (Slice and Split along the first dims, the operands of such a
                           Concat) are storages here; the runtime has them lie in the whole where that costs nothing */
} tc_view;

/* The value that this one shows: the operand of an op with the trait TC_VIEW, or of one that copies in order as its
 * types show (a Transpose that moves only dims of size 1, a Cast to the same type, an Expand or Tile that repeats
 * nothing, a Concat of one, a Slice of everything, a Dropout outside of training). The launches of the runtime run no
 * kernel for these (test/unit/runtime/test_storage.c). */
tc_view tc_value_view(const tc_value *value);
/* Whether result 0 of the node, which has it, is operand 0's bytes. */
bool tc_is_view(const tc_node *node);

typedef enum tc_read {
    TC_READ_NOTHING, /* the operand is absent */
    TC_READ_SHAPE,
    TC_READ_VIEW,
    TC_READ_ELEMENTS,
} tc_read;
tc_read tc_operand_read(const tc_node *node, uint32_t index);

/* Elements times their size; unknown where the type is, symbolic where a dim is. */
tc_dim tc_value_bytes(tc_dim_pool *pool, const tc_value *value);

/* --- of one value in a graph that changes: walks up to it -------------------------------------- */

const tc_value *tc_value_storage(const tc_value *value);
const tc_value *tc_value_source(const tc_value *value);
/* Whether the value's storage is given. */
bool tc_value_is_given(const tc_value *value);

/* --- of all values of a graph: one walk -------------------------------------------------------- */

typedef struct tc_place {
    const tc_value *storage, *source; /* NULL: the value itself */
    tc_dim offset;                    /* bytes from the start of the storage */
    uint32_t first, last; /* of storages: positions of the main graph's nodes, from 0, both inclusive: where it is made
                             (0 for what is there before) and where its elements are last read; n_nodes for outputs */
} tc_place;

typedef struct tc_storages {
    const tc_graph *graph;
    tc_place *places; /* [n_values] by value id; those of nested graphs too */
    uint32_t n_values, n_nodes;
} tc_storages;

/* Of a typed graph, in `arena`. Values that nested graphs read count as read by the node that holds them. Values
 * created later are storages of their own. Linear in the graph's size. */
void tc_storages_make(tc_arena *arena, const tc_graph *graph, tc_storages *out_storages);

static inline const tc_value *tc_storage_of(const tc_storages *s, const tc_value *value) {
    const tc_value *storage = value->id < s->n_values ? s->places[value->id].storage : NULL;
    return storage ? storage : value;
}
static inline const tc_value *tc_source_of(const tc_storages *s, const tc_value *value) {
    const tc_value *source = value->id < s->n_values ? s->places[value->id].source : NULL;
    return source ? source : value;
}
/* tc_value_is_given without its walk. */
bool tc_storage_is_given(const tc_storages *s, const tc_value *value);

/* Calls `read` for each storage whose elements the node or its nested graphs read, once per read. */
typedef void (*tc_read_fn)(void *user, const tc_value *storage);
void tc_storage_reads(const tc_storages *s, const tc_node *node, tc_read_fn read, void *user);
#endif
