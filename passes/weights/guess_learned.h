/* guess_learned.h: which initializers are parameters, if the file does not say: by their uses, elements and names. */
#ifndef TC_GUESS_LEARNED_H
#define TC_GUESS_LEARNED_H
#include "trainable.h"

/* The meaning of an initializer in its use as operand `index`: TC_FLOW_DIRECT, the loss depends on it as on a
 * parameter; TC_FLOW_SCORES, as on a mask or scale of softmax scores; 0, as on a running statistic. `flow`: complete
 * for the node's results, with TC_FLOW_DATA for its operands. */
int tc_use_of_operand(const tc_flow *flow, const tc_node *node, uint32_t index);

/* For an initializer of two or more elements that the loss depends on, but not directly, or as on a rotary table. */
typedef enum tc_guess {
    TC_GUESS_STATISTIC, /* a running statistic: not trained */
    TC_GUESS_MASK,      /* a mask or scale of softmax scores: not trained */
    TC_GUESS_ROTARY,    /* a table of rotary position embeddings: not trained */
    TC_GUESS_FRESH,     /* trained because of its name: its elements, all equal, could be those of a mask or scale */
    TC_GUESS_UNNAMED,   /* trained because of its elements: its name is not that of a parameter */
    TC_GUESS_LEARNED,   /* trained because of its elements and its name */
} tc_guess;
#define TC_GUESS_COUNT 6

tc_guess tc_guess_learned(const tc_flow *flow, const tc_value *value);

/* Notes about the guesses for `n` initializers; none about statistics and certain parameters. */
void tc_tell_guessed(tc_ctx *ctx, tc_guess guess, const char *const *names, size_t n);

/* PyTorch's exporters name parameters after their modules, as in "head.0.weight" or, in a list, "m.scales.0"; scalar
 * constants get numbers, as in "val_0.5". */
bool tc_has_parameter_name(const char *name);
#endif
