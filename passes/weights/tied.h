/* tied.h: shared parts of the pass `tied`: tied.c finds the weights, merged_weights.c separates those that are
 * several parameters, split_weights.c joins those that are one. */
#ifndef TC_TIED_H
#define TC_TIED_H
#include "equal_weights.h"
#include "parameter_uses.h"
#include "passes/pass/pass.h"

/* Float initializers of the main graph that the loss depends on, in file order; arrays of n. */
typedef struct tc_weights {
    tc_value **values;
    bool *counts; /* as on a parameter: not only as on a mask or scale */
    bool *trained;
    bool *has_data;
    tc_equal *equal; /* of weights with data and two or more elements; others equal none */
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

/* Separates parameters that the file records as several, then warns of likely ones (--untie separates these, too).
 * Returns whether there are new initializers. */
bool tc_part_merged(tc_tied *t);
bool tc_guess_merged(tc_tied *t);
/* Joins weights that the file records as one parameter, which changes the list of initializers; warns of likely ones
 * (--retie joins these, too). */
bool tc_join_split(tc_tied *t);
void tc_guess_split(tc_tied *t);

/* `MatMul "fc1"`, the node of a use. */
const char *tc_tied_place(const tc_tied *t, const tc_use *use);
#endif
