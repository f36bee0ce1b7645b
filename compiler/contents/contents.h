/* contents.h: the elements of a small value that are known before anything runs. This evaluator serves shape inference
 * (Reshape's target, Slice's bounds), canonicalize (folding) and the runtime (binding inputs that decide shapes).
 * Integers may be symbolic; floats are rounded to their element type after each operation. */
#ifndef TC_CONTENTS_H
#define TC_CONTENTS_H
#include "compiler/ir/ir.h"

#define TC_CONTENTS_LIMIT 65536 /* bytes of a result as a tensor; larger ones are not evaluated */

typedef union tc_scalar {
    tc_dim i; /* integer and bool element types */
    double f; /* float element types; unknown elements do not occur */
} tc_scalar;

struct tc_contents {
    tc_dtype dtype;
    int rank;
    const int64_t *dims; /* static: contents of values with symbolic shapes are not kept */
    uint64_t count;
    const tc_scalar *items;  /* [count], row-major */
    const tc_tensor *tensor; /* the constant it was read from, or NULL */
};

/* Contents of a constant tensor, or NULL when too large, external or not numeric. */
const tc_contents *tc_contents_of_tensor(tc_model *model, const tc_tensor *tensor);
/* The known elements of a value: its contents, those of its constant, or NULL. */
const tc_contents *tc_value_contents(tc_model *model, tc_value *value);
/* A tensor with these contents, or NULL unless every element is a number. */
tc_tensor *tc_contents_to_tensor(tc_model *model, const tc_contents *contents);
bool tc_contents_is_const(const tc_contents *contents);
/* The only element of an integer or bool, where it is known. `value` may be NULL. */
bool tc_value_number(tc_model *model, tc_value *value, int64_t *out_number);
/* Evaluates one node whose operands' contents or shapes suffice: sets `contents` of its outputs where it can. */
void tc_contents_eval(tc_model *model, tc_node *node);
#endif
