/* mask_contents.h: what the elements of a constant tell of its purpose: masks, scales and biases by position have few
 * distinct numbers, or those of a rule; learned ones, once trained, have neither. */
#ifndef TC_MASK_CONTENTS_H
#define TC_MASK_CONTENTS_H
#include "compiler/ir/ir.h"

typedef enum tc_looks {
    TC_LOOKS_UNKNOWN, /* the elements cannot be read: an external file that is not there */
    TC_LOOKS_UNIFORM, /* all elements are one number, of less than 1000: a scale, or a fresh parameter */
    TC_LOOKS_MASK,    /* 0 and one other number, 1 or at most -1; or some number beyond 1000, as -inf and -1e4 are */
    TC_LOOKS_RULE,    /* powers of two (to sixteenths), as slopes by head are, steps of one size along the last dim, or
                         equal diagonals */
    TC_LOOKS_VARIED,
} tc_looks;

/* Of a float tensor of two or more elements, of which the first 65536 count. *out_element: the first; 0 if unknown. */
tc_looks tc_looks_of(tc_model *model, const tc_tensor *tensor, double *out_element);
#endif
