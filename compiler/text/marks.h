/* marks.h: how a file keeps the roles of values (tc_value.role) and the functions that tempoc wrote
 * (tc_function.is_body), in the model's metadata:
 *
 *   tempo.loss             the output that is the loss
 *   tempo.gradient.OUTPUT  the parameter or input whose gradient the output is; "" where that is not known
 *   tempo.backward.VALUE   "": an input by which a gradient enters the graph, or an output that depends on one
 *   tempo.body.NAME        the fingerprint of the function ai.tempo.NAME that tempoc wrote: its text as a number. A
 *                          function that was changed since has another, and counts as one of the file's own
 *   tempo.keep.OUTPUT      the input that the output replaces in the next run: a weight that a step updates. Not a
 *                          role: onnx_training.c and the pass `update` write it, and tempo-run follows it
 *   tempo.zero.INPUT       "": an input without a default in the file that begins as zeros unless it is set: a state
 *                          of an optimizer. Not a role either */
#ifndef TC_MARKS_H
#define TC_MARKS_H
#include "compiler/ir/ir.h"

#define TC_KEEP_KEY "tempo.keep."
#define TC_ZERO_KEY "tempo.zero."

/* Sets the marks that the model's metadata give, once its graph and functions have been read. A name that is no input,
 * output or function is skipped. */
void tc_marks_read(tc_model *model);
/* Whether the value is an output of the main graph that replaces an input of its type in the next run (tempo.keep): it
 * shares the input's bytes. */
bool tc_is_renewal(const tc_value *value);
/* The model's metadata with the marks: pairs that still hold stay where they are. In `arena`. */
const tc_pair *tc_marks_metadata(tc_arena *arena, const tc_model *model, size_t *out_count);

/* What takes the place of an input in the next run, as the model's metadata tell: weights, and
 * what an optimizer keeps of them. In the arena, in the order of the weights; returns how many. */
typedef struct tc_kept_state {
    const tc_value *input, *output;
    bool is_weight; /* the file has it; else it begins as zeros */
} tc_kept_state;
size_t tc_list_states(tc_arena *arena, const tc_model *model, tc_kept_state **out_states);
#endif
