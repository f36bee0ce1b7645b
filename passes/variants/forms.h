/* forms.h: other forms of what the forward pass keeps for a gradient node: the same results from fewer or other bytes.
 * A pass applies one form wherever it saves bytes (recipes.def); whoever has a budget may choose node by node. */
#ifndef TC_FORMS_H
#define TC_FORMS_H
#include "compiler/ir/ops.h"
#include "passes/pass/pass.h"

/* The forward node of an ai.tempo.DotProductAttentionGrad whose maps (P, the dropped map, what was kept) the tiled
 * gradient can do without: nobody else reads them, and both nodes have the same operands and attributes. NULL else, and
 * *out_why (may be NULL) says why. */
tc_node *tc_tileable_attention(const tc_node *grad, const char **out_why);

/* The tiled gradient of that attention, with the bits of `grad`: an ai.tempo.DotProductAttentionTiledGrad outside of
 * the graph's list, which reads what `forward` reads, and its statistics with y where it has them. Its results are
 * absent; it has places for those of `grad`, in the same order and of the same types. */
tc_node *tc_tiled_gradient(tc_node *grad, const tc_node *forward);

/* Takes the maps and statistics that nobody reads any more off an attention; flags in the signs of P with them. */
void tc_forget_maps(tc_node *forward);

/* Lets a tiled gradient that stands in its graph sum dS where nothing but a ReduceSum over leading axes reads it, as
 * for a bias that items share: the op does what the ReduceSum did, with the same bits, and dS is nowhere whole. */
void tc_sum_in_tiles(tc_node *tiled);

/* --- all forms of a graph, for whoever chooses node by node: forms.c ---------------------------- */

typedef struct tc_form {
    tc_node *node, *form; /* result i of both is the same, as far as the form has one */
    const char *rule;     /* that makes one of the other everywhere: --disable knows it */
} tc_form;

/* Adds to a typed graph, right behind each node that has one, its other form, whose results nobody reads, but for those
 * of rules that options->disabled names. In `arena`: which they are. */
tc_form *tc_forms_add(tc_pass_env *env, tc_arena *arena, tc_graph *graph, uint32_t *out_n);
/* Takes them away again, still unread. */
void tc_forms_remove(const tc_form *list, uint32_t n);
/* Takes the maps and masks that nobody reads off attentions and dropouts. */
void tc_forms_forget(tc_graph *graph);
#endif
