/* forms.h: other forms of what the forward pass keeps for a gradient node: the same results from fewer or other bytes.
 * A pass applies one form wherever it saves bytes (recipes.def); whoever has a budget may choose node by node. */
#ifndef TC_FORMS_H
#define TC_FORMS_H
#include "../../compiler/ops.h"

/* The forward node of an ai.tempo.DotProductAttentionGrad whose maps (P, the dropped map, what was kept) the tiled
 * gradient can do without: nobody else reads them, and both nodes have the same operands and attributes. NULL else, and
 * *out_why (may be NULL) says why. */
tc_node *tc_tileable_attention(const tc_node *grad, const char **out_why);

/* The tiled gradient of that attention, with the bits of `grad`: an ai.tempo.DotProductAttentionTiledGrad outside of
 * the graph's list, which reads what `forward` reads. Its results are absent; it has places for those of `grad`, in the
 * same order and of the same types. */
tc_node *tc_tiled_gradient(tc_node *grad, const tc_node *forward);

/* Takes the maps that nobody reads any more off an attention; flags in the signs of P with them. */
void tc_forget_maps(tc_node *forward);

/* Lets a tiled gradient that stands in its graph sum dS where nothing but a ReduceSum over leading axes reads it, as
 * for a bias that items share: the op does what the ReduceSum did, with the same bits, and dS is nowhere whole. */
void tc_sum_in_tiles(tc_node *tiled);
#endif
