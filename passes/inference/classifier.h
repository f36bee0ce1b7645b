/* classifier.h: the last product before the logits of a model, with its weight and bias. */
#ifndef TC_CLASSIFIER_H
#define TC_CLASSIFIER_H
#include "passes/pass/pass.h"

enum { TC_CLASSIFIER_STEPS = 16 };

typedef struct tc_classifier {
    tc_value *output;                   /* the logits, of the graph; axis 1 or the last one counts classes: */
    bool axis_1;                        /* where a Conv makes them */
    tc_node *path[TC_CLASSIFIER_STEPS]; /* from the output back to the product */
    size_t n;                           /* the product is the last one */
    tc_value *weight;                   /* the initializer */
    tc_node *bias_node;                 /* reads the bias: the product or an Add of the path; NULL: none */
    uint32_t bias_index;                /* its operand */
    tc_use *weight_use;                 /* of the initializer, by the product or a Transpose before it */
    int class_axis;                     /* of the weight */
    int64_t classes, inputs;            /* inputs of each class */
} tc_classifier;

/* Types need not be known: the file may be as it was read. False: no product with a weight of the file makes the
 * output's classes; *out_op is the op that stopped the search, or NULL. */
bool tc_find_classifier(tc_value *output, tc_classifier *out, const char **out_op);
/* The embedding of the model's tokens, if it has a row for each class, of as many numbers as the classifier reads: the
 * scores are those of a language model. NULL: there is none. */
const tc_value *tc_classifier_table(const tc_classifier *c);
#endif
