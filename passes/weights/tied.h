/* tied.h: what the parts of the pass `tied` share: tied.c finds the weights, merged_weights.c parts those that are
 * several parameters, split_weights.c joins those that are one. */
#ifndef TC_TIED_H
#define TC_TIED_H
#include "equal_weights.h"
#include "parameter_uses.h"
#include "passes/pass/pass.h"

/* Float initializers of the main graph that the loss depends on, in file order; arrays of n. */
typedef struct tc_weights {
    tc_value **values;
    bool *counts; /* as a parameter does: not only as a mask or scale */
    bool *trained;
    bool *has_data;
    tc_equal *equal; /* of those with data and two or more elements; others equal none */
    size_t n;
} tc_weights;

typedef struct tc_tied {
    tc_pass_env *env;
    tc_graph *graph;
    tc_arena *scratch;
    const tc_value *loss;
    tc_torch_program *program;
    tc_weights w;
} tc_tied;

/* Parts what the file says is several parameters, then warns of what seems to be (--untie parts it, too). Returns
 * whether there are new initializers. */
bool tc_part_merged(tc_tied *t);
bool tc_guess_merged(tc_tied *t);
/* Joins what the file says is one parameter, which changes the list of initializers; warns of what seems to be one
 * (--retie joins it, too). */
bool tc_join_split(tc_tied *t);
void tc_guess_split(tc_tied *t);

/* `MatMul "fc1"`, the node that a use belongs to. */
const char *tc_tied_place(const tc_tied *t, const tc_use *use);
#endif
