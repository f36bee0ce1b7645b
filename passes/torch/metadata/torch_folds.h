/* torch_folds.h: how the dynamo exporter computed an initializer from parameters (optimize=True): by which
 * operations, as far as the file says. It lists the names of the operands (folded_from) without their order, and
 * operations under the names of their results; their arguments are lost. */
#ifndef TC_TORCH_FOLDS_H
#define TC_TORCH_FOLDS_H
#include "torch_names.h"
#include "torch_signature.h"

/* An elementwise function of one operand: y = forward (x), x = inverse (y). */
typedef struct tc_torch_function {
    const char *operation, *onnx; /* PyTorch's name, the op's of ONNX */
    double (*forward)(double), (*inverse)(double);
} tc_torch_function;

enum { TC_TORCH_FUNCTIONS = 2 };

typedef struct tc_torch_fold {
    const tc_torch_input **parameters; /* parameters among the operands */
    size_t n_parameters;
    bool known;                                             /* one parameter, and each step is one of those below */
    bool rows;                                              /* each row, along the last axis, is one of the table's */
    bool moved;                                             /* the same, but rows may lie along any axis */
    bool part;                                              /* some elements are left out; which ones is not known */
    bool spread;                                            /* elements are repeated along some axes */
    int added_axes;                                         /* the parameter has so many axes fewer */
    bool shifted;                                           /* a number was added, which is not known */
    bool stopped;                                           /* detached: not trained */
    tc_torch_layout layout;                                 /* of the elements that are left */
    const tc_torch_function *functions[TC_TORCH_FUNCTIONS]; /* from the parameter to the initializer */
    size_t n_functions;
    bool any_order; /* two functions whose order is not known */
} tc_torch_fold;

/* n_parameters is 0 if nothing was folded or no parameter went in. Lists live in the arena. */
tc_torch_fold tc_torch_fold_of(tc_arena *arena, const tc_torch_signature *signature, const tc_value *initializer);
#endif
