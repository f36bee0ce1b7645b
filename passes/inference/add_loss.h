/* add_loss.h: for the pass `loss`: a graph that gets a loss. */
#ifndef TC_ADD_LOSS_H
#define TC_ADD_LOSS_H
#include "compiler/build/build.h"
#include "passes/weights/weights.h"

typedef struct tc_adding {
    tc_pass_env *env;
    tc_graph *graph;
    tc_added_loss of;
    tc_build g; /* makes nodes at the graph's end */
} tc_adding;

/* An input of that name and type: a new one, or the file's, with a note. TC_USAGE if the name means something else. */
tc_status tc_adding_input(tc_adding *a, const char *name, const tc_type *type, tc_value **out_value);
/* The loss of a file of ONNX text. Its inputs are outputs and inputs of the graph by name, or new inputs; if none is
 * called like an output, the first is the one output that is meant. loss_file.c */
tc_status tc_loss_of_file(tc_adding *a, tc_value **out_loss);
#endif
