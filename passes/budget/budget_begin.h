/* budget_begin.h: the graph with which a search begins. For the pass `budget`. */
#ifndef TC_BUDGET_BEGIN_H
#define TC_BUDGET_BEGIN_H
#include "budget.h"

/* The result of the recipe, or the graph before its passes, with their variants to choose from. */
typedef enum tc_beginning_kind { TC_BEGIN_RECIPE, TC_BEGIN_VARIANTS } tc_beginning_kind;

typedef struct tc_beginning {
    tc_model *model;
    tc_beginning_kind kind;
    tc_node_memories memories;
    tc_footprint footprint; /* without the variants */
    tc_variant *variants;   /* [n_variants] that the graph has beside its nodes */
    uint32_t n_variants;
} tc_beginning;

/* The runtime's estimate for a model with known shapes; an error lists dims without a value. budget.c */
tc_status tc_budget_estimate(tc_pass_env *env, tc_arena *arena, tc_model *model, tc_node_memories *out_memories,
                             tc_footprint *out_footprint);

/* Turns the model, as it came to this pass, into that kind of graph, and asks the runtime. */
tc_status tc_budget_begin(tc_pass_env *env, tc_arena *arena, tc_model *model, tc_beginning_kind kind,
                          tc_beginning *out_begin);
/* Prepares a graph for planning: nodes are replaced by those that the runtime would run instead; each gets the first
 * result that its kernel writes; unread nodes are removed; variants are added. */
tc_status tc_budget_prepare(tc_pass_env *env, tc_arena *arena, tc_beginning *begin);
#endif
