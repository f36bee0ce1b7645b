/* insert.h: nodes in front of another one, made by the helpers of gradients/gradient.h, which append to the graph. */
#ifndef TC_INSERT_H
#define TC_INSERT_H
#include "passes/gradients/gradient.h"

typedef struct tc_insert {
    tc_grad g; /* what builds; its status tells of the first error */
    tc_grad_pool pool;
    tc_node *before, *last; /* where the nodes go; the last one of the graph when it began */
} tc_insert;

/* Values are called after `before`. `arena` is scratch and must last until the end. */
void tc_insert_begin(tc_insert *insert, tc_ctx *ctx, tc_arena *arena, tc_node *before);
/* Moves what was made in front of the node. The status is that of the helpers; after an error nothing is left. */
tc_status tc_insert_end(tc_insert *insert);
/* Takes back what was made. */
void tc_insert_undo(tc_insert *insert);
#endif
