/* roles.h: the role of each output of a graph (the loss, the gradient of a value, or neither), and the nodes of
 * the forward pass. Names do not matter.
 *
 * Roles come from marks (tc_value.role), which autodiff and upgrade_ort set and files keep (marks.h). In a graph
 * without marks they are found by its structure (roles_infer.c). */
#ifndef TC_ROLES_H
#define TC_ROLES_H
#include "compiler/ir/ir.h"

typedef struct tc_roles {
    const tc_value *loss;        /* NULL: the graph has no backward pass */
    const tc_role *outputs;      /* [n_outputs of the graph] none of them TC_ROLE_NONE */
    tc_value *const *parameters; /* [n_outputs] of gradients: the values whose gradients they are; NULL: not known */
    bool inferred;               /* found by the graph's structure, not given by marks or gradient ops */
} tc_roles;

/* Of a typed graph, in `arena`. Marks hold; an output that depends on a marked gradient, or on the result of a gradient
 * op (...Grad of ai.tempo or com.microsoft), is of the backward pass. The loss is the marked one, else the first scalar
 * float output of the forward pass, else the first float one (a graph may start from the gradient of its result).
 * Linear in the graph's size. */
void tc_roles_find(tc_arena *arena, const tc_graph *graph, tc_roles *out_roles);
/* Marks the roles that tc_roles_find finds, to keep them whatever passes do. Does nothing for graphs without a backward
 * pass. */
void tc_roles_settle(tc_graph *graph);
tc_value *tc_marked_loss(const tc_graph *graph);     /* the output with that mark, or NULL */
const tc_value *tc_find_loss(const tc_graph *graph); /* tc_roles.loss */
/* Whether it holds gradient ops or outputs of a backward pass; `marked_only`: inferred ones do not count. */
bool tc_has_backward(const tc_graph *graph, bool marked_only);

/* Nodes of the main graph and the nested ones by id, in `arena`; `out_size` entries. The forward pass: the nodes on
 * which the loss, or another output outside of the backward pass, depends. */
bool *tc_forward_nodes(tc_arena *arena, const tc_graph *graph, const tc_value *loss, uint32_t *out_size);
/* The nodes on which outputs of the backward pass depend. */
bool *tc_gradient_nodes(tc_arena *arena, const tc_graph *graph);
/* The nodes on which one value depends. */
bool *tc_needed_nodes(tc_arena *arena, const tc_graph *graph, const tc_value *value);

/* --- for roles.c -------------------------------------------------------------------------------- */
/* A loss, and its gradients in the order of the outputs, in a graph without marks and gradient ops; `of` [n_outputs]
 * gets roles and `parameters` likewise. False: there is no seed that outputs depend on linearly. roles_infer.c */
bool tc_roles_infer(tc_arena *arena, const tc_graph *graph, const tc_value **out_loss, tc_role *of,
                    tc_value **parameters);
/* Float inputs and initializers that the nodes read, by their types. tc_typed_as: whether one has the value's type;
 * `out_only` gets it where it is the only one, else NULL. */
tc_map *tc_read_by_type(tc_arena *arena, const tc_graph *graph, const bool *nodes);
bool tc_typed_as(tc_arena *arena, const tc_map *by_type, const tc_value *value, tc_value **out_only);
bool tc_is_scalar_float(const tc_value *value); /* [] or [1] */
#endif
