/* variants.h: variants of nodes whose results the forward pass keeps for a gradient node: the same results from
 * fewer or other bytes. A pass applies one variant wherever it saves bytes (recipes.def); a memory budget may choose
 * node by node. */
#ifndef TC_VARIANTS_H
#define TC_VARIANTS_H
#include "compiler/ir/ops.h"
#include "passes/pass/pass.h"

/* The forward node of an ai.tempo.DotProductAttentionGrad whose maps (P, the dropped map, the mask) the tiled
 * gradient does not need: they have no other reader, and both nodes have the same operands and attributes. Else
 * NULL, and *out_why (may be NULL) is the reason. */
tc_node *tc_tileable_attention(const tc_node *grad, const char **out_why);

/* The tiled gradient of that attention, with the bits of `grad`: an ai.tempo.DotProductAttentionTiledGrad outside of
 * the graph's list. It reads the operands of `forward`, and its statistics with y if it has them. Its results are
 * absent; there are positions for those of `grad`, in the same order and of the same types. */
tc_node *tc_tiled_gradient(tc_node *grad, const tc_node *forward);

/* Removes maps and statistics without readers from an attention, and with them flags in the signs of P. */
void tc_forget_maps(tc_node *forward);

/* Makes a tiled gradient in its graph sum dS if its only reader is a ReduceSum over leading axes, as for a bias that
 * batch items share. The op then replaces the ReduceSum, with the same bits, and dS never exists as a whole. */
void tc_sum_in_tiles(tc_node *tiled);

/* --- all variants of a graph, for a choice node by node: variants.c ----------------------------- */

typedef struct tc_variant {
    tc_node *node, *variant; /* result i of both is the same, as far as the variant has one */
    const char *rule;        /* the rule that makes one of the other everywhere: --disable turns it off */
} tc_variant;

/* Adds the other variant of each node that has one to a typed graph, right after the node. Its results have no
 * readers. Rules that options->disabled names are left out. The list is in `arena`. */
tc_variant *tc_variants_add(tc_pass_env *env, tc_arena *arena, tc_graph *graph, uint32_t *out_n);
/* Removes them again, still without readers. */
void tc_variants_remove(const tc_variant *list, uint32_t n);
/* Removes maps and masks without readers from attentions and dropouts. */
void tc_variants_forget(tc_graph *graph);
#endif
