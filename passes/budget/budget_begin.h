/* budget_begin.h: the graph with which a search begins. Of the pass `budget`. */
#ifndef TC_BUDGET_BEGIN_H
#define TC_BUDGET_BEGIN_H
#include "budget.h"

/* As the recipe leaves it, or as its passes find it, with their forms to choose from. */
typedef enum tc_beginning_kind { TC_BEGIN_RECIPE, TC_BEGIN_FORMS } tc_beginning_kind;

typedef struct tc_beginning {
    tc_model *model;
    tc_beginning_kind kind;
    tc_node_memories memories;
    tc_footprint footprint; /* without the forms */
    tc_form *forms;         /* [n_forms] that stand in the graph beside its nodes */
    uint32_t n_forms;
} tc_beginning;

/* What the runtime says of a model whose shapes are known; an error lists dims that have no value. budget.c */
tc_status tc_budget_foresee(tc_pass_env *env, tc_arena *arena, tc_model *model, tc_node_memories *out_memories,
                            tc_footprint *out_footprint);

/* Makes the model, as it came to this pass, the graph of that kind, and asks the runtime. */
tc_status tc_budget_begin(tc_pass_env *env, tc_arena *arena, tc_model *model, tc_beginning_kind kind,
                          tc_beginning *out_begin);
/* Makes it a graph that can be planned: nodes in whose place the runtime would run others make room for these; each
 * gets the first result that kernels write; what nothing reads goes; forms are added. */
tc_status tc_budget_prepare(tc_pass_env *env, tc_arena *arena, tc_beginning *begin);
#endif
