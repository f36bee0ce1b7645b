/* marks.h: how a file keeps the roles of values (tc_value.role) and which functions tempoc wrote (tc_function.is_body),
 * in the model's metadata:
 *
 *   tempo.loss             the output that is the loss
 *   tempo.gradient.OUTPUT  the parameter or input that the output is the gradient of; "" where that is not known
 *   tempo.backward.VALUE   "": an input that a gradient enters the graph by, or an output that depends on one
 *   tempo.body.NAME        the fingerprint of the function ai.tempo.NAME that tempoc wrote: its text as a number. A
 *                          function that was changed since has another, and is one of the file's own
 *   tempo.keep.OUTPUT      the input whose place the output takes in the next run: a weight that a step renews. Not a
 *                          role: onnx_training.c and the pass `update` write it, and tempo-run follows it
 *   tempo.zero.INPUT       "": an input that begins as zeros where nothing else is set, and that the file has no
 *                          default for: what an optimizer keeps. Not a role either */
#ifndef TC_MARKS_H
#define TC_MARKS_H
#include "compiler/ir/ir.h"

#define TC_KEEP_KEY "tempo.keep."
#define TC_ZERO_KEY "tempo.zero."

/* Marks what the model's metadata say, once its graph and functions have been read. What names no input, no output and
 * no function is passed over. */
void tc_marks_read(tc_model *model);
/* Whether the value is an output of the main graph that takes the place of an input of its type in the next run
 * (tempo.keep): it lies in the input's bytes. */
bool tc_is_renewal(const tc_value *value);
/* The model's metadata with what the marks say: pairs that still hold stay where they are. In `arena`. */
const tc_pair *tc_marks_metadata(tc_arena *arena, const tc_model *model, size_t *out_count);

/* What takes the place of an input in the next run, as the model's metadata tell: weights, and
 * what an optimizer keeps of them. In the arena, in the order of the weights; returns how many. */
typedef struct tc_kept_state {
    const tc_value *input, *output;
    bool is_weight; /* the file has it; else it begins as zeros */
} tc_kept_state;
size_t tc_list_states(tc_arena *arena, const tc_model *model, tc_kept_state **out_states);
#endif
