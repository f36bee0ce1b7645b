/* rows.h: the parts of the pass `masks`. Values picked by a mask (NonZero and lookups by it) have as many rows as
 * the mask has elements. Where the mask is false, a row is a copy of the first picked row, so that ops on it cannot
 * fail. Ops that combine rows leave these copies out.
 * A value knows for each of its axes the mask that picked the rows along it. */
#ifndef TC_ROWS_H
#define TC_ROWS_H
#include "compiler/build/build.h"
#include "passes/pass/pass.h"

/* A mask, flat: each element of `base` `inner` times. */
typedef struct tc_mask {
    tc_value *base; /* of any shape and element type: an element that is not 0 picks */
    tc_dim inner;
    tc_value *flat;   /* bool[size] */
    tc_value *count;  /* int64[]: the number of picked elements; NULL: not computed yet */
    tc_value *places; /* int64[size]: each element's position, or the first picked one; NULL: not computed yet */
} tc_mask;

/* The replacement of a NonZero: all positions of a mask, in order, as coordinates in `from`, [rank,size]. */
typedef struct tc_picked {
    const tc_mask *mask;
    tc_value *from;
} tc_picked;

/* By axis; NULL: all rows are real. */
typedef struct tc_masks {
    const tc_mask *axis[TC_MAX_RANK];
} tc_masks;

typedef struct tc_masked {
    tc_pass_env *env;
    tc_model *model;
    tc_graph *graph;
    tc_arena *arena;
    tc_build_pool pool;
    tc_insert insert;  /* nodes before the current one */
    tc_build *g;       /* that of `insert` */
    tc_map *masks;     /* tc_value -> tc_masks: values with picked rows */
    tc_node *inserted; /* a node to be inserted after the current one, whose result it has; or NULL */
    tc_map *picked;    /* tc_value -> tc_picked */
    tc_map *counts;    /* tc_value -> tc_value: integers that count the true elements of the latter */
    tc_map *sizes;     /* tc_value -> itself: integers computed from sizes of picked rows, or from counts */
    tc_map *changed;   /* tc_value -> itself: values with new types */
    tc_mask **known;
    size_t n_known, cap_known;
    const tc_node *origin; /* the first node whose mask picks, for messages */
} tc_masked;

/* TC_UNSUPPORTED, naming the node and the mask that picked its rows. */
tc_status tc_masked_refuse(tc_masked *w, const tc_node *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Infers the types of the node's results once more. */
tc_status tc_masked_infer(tc_masked *w, tc_node *node);
static inline const tc_masks *tc_masks_of(const tc_masked *w, const tc_value *value) {
    return value ? tc_map_get_ptr(w->masks, value) : NULL;
}
static inline const tc_mask *tc_mask_at(const tc_masked *w, const tc_value *value, int axis) {
    const tc_masks *masks = tc_masks_of(w, value);
    return masks ? masks->axis[axis] : NULL;
}
/* A node that takes over the result of `node`, whose result gets another name. The caller adds operands; the type is
 * inferred after the handler. */
tc_node *tc_masked_after(tc_masked *w, tc_node *node, const char *op, uint32_t n_inputs, tc_value **out_result);
/* Records that a mask picked the rows along an axis of the value; NULL: none did. */
void tc_mask_set(tc_masked *w, tc_value *value, int axis, const tc_mask *mask);

/* --- masked_values.c ---------------------------------------------------------------------------- */
/* The mask that a value is, in any shape; a mask that repeats the elements of another is recognized as that. */
tc_mask *tc_mask_of(tc_masked *w, tc_value *value);
/* Each element of a mask `inner` times, one after another. */
const tc_mask *tc_mask_repeat(tc_masked *w, const tc_mask *mask, tc_dim inner, tc_value *inner_size);
tc_value *tc_mask_count(tc_masked *w, tc_mask *mask);  /* int64[] */
tc_value *tc_mask_places(tc_masked *w, tc_mask *mask); /* int64[size] */
/* The coordinates in `from` of positions in the flattened value, [rank,size]. */
tc_value *tc_mask_coordinates(tc_masked *w, tc_value *from, tc_value *places);
/* Where the rows of the value are picked, along its `wanted` axes (NULL: all); it broadcasts to the value. NULL: all
 * rows are real. */
tc_value *tc_mask_for(tc_masked *w, const tc_value *value, const bool *axes);
/* The value with `fill` in rows that are not picked along the wanted axes (NULL: all). */
tc_value *tc_mask_fill(tc_masked *w, tc_value *value, const bool *axes, double fill);
/* The lowest, or with -1 the highest, number of a type. */
double tc_masked_lowest(tc_dtype dtype, int sign);
/* Integers computed from sizes and counts: with the current sizes of values, or with the correct ones. */
tc_value *tc_masked_bound(tc_masked *w, tc_value *value);
tc_value *tc_masked_counted(tc_masked *w, tc_value *value);
/* The mask whose count is element `at` of a list of sizes; NULL: there is none. */
const tc_mask *tc_masked_count_at(tc_masked *w, tc_value *sizes, int at);

/* --- handlers: change or replace a node whose operands have picked rows, and record its results' rows */
typedef tc_status (*tc_masked_fn)(tc_masked *w, tc_node *node);
tc_masked_fn tc_masked_handler(const tc_node *node); /* NULL: the op is not known to treat rows one by one */
/* masked_sums.c */
tc_status tc_masked_reduce(tc_masked *w, tc_node *node);
tc_status tc_masked_softmax(tc_masked *w, tc_node *node);
tc_status tc_masked_matmul(tc_masked *w, tc_node *node);
tc_status tc_masked_gemm(tc_masked *w, tc_node *node);
tc_status tc_masked_loss(tc_masked *w, tc_node *node);
tc_status tc_masked_scatter_nd(tc_masked *w, tc_node *node);
tc_status tc_masked_scatter_elements(tc_masked *w, tc_node *node);
#endif
