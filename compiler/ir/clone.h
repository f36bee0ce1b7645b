/* clone.h: the shared parts of copying a node, inlining a call and unrolling a loop. Inside compiler/ only; others use
 * ir.h. */
#ifndef TC_CLONE_H
#define TC_CLONE_H
#include "ir.h"

typedef struct tc_cloner {
    tc_map *values;      /* tc_value -> its copy; a value without an entry stands for itself */
    const tc_node *call; /* inlining: attribute references take values from the attributes of this node, ... */
    const tc_function
        *function;      /* ... or the defaults of this function, or are dropped; both NULL: references are kept */
    const char *prefix; /* prefix for the names of nodes and values; NULL: names are kept where they are free */
    bool whole;         /* the target is another model, still empty: names stay, types move to its pool */
} tc_cloner;

/* Maps `value` to no value: copies of its users get an absent operand. */
void tc_cloner_set_absent(tc_cloner *cloner, const tc_value *value);
/* The operand of a copy that stands for `value`; NULL stays NULL. */
tc_value *tc_cloner_value(const tc_cloner *cloner, tc_value *value);
/* A copy of the node for `graph`, not yet in its list; its outputs are created and mapped. */
tc_node *tc_cloner_node(const tc_cloner *cloner, tc_graph *graph, const tc_node *node);
/* Gives new ordinals to the nodes from `first` up to `stop`: copies of one body must not draw the same dropout mask.
 * inline.c */
void tc_new_ordinals(tc_graph *graph, tc_node *first, const tc_node *stop);
/* The node's output `j` becomes a second name of `to`: an Identity before the node where it is a graph output. inline.c
 */
void tc_alias_output(tc_node *node, uint32_t j, tc_value *to);
#endif
