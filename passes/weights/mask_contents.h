/* mask_contents.h: the purpose of a constant by its elements: masks, scales and biases by position have few distinct
 * numbers, or follow a pattern; trained parameters do neither. */
#ifndef TC_MASK_CONTENTS_H
#define TC_MASK_CONTENTS_H
#include "compiler/ir/ir.h"

typedef enum tc_looks {
    TC_LOOKS_UNKNOWN, /* the elements cannot be read: an external file is missing */
    TC_LOOKS_UNIFORM, /* all elements are one number below 1000: a scale, or a fresh parameter */
    TC_LOOKS_MASK,    /* 0 and one other number, 1 or at most -1; or some number beyond 1000, such as -inf and -1e4 */
    TC_LOOKS_RULE,    /* powers of two (to sixteenths), such as slopes by head; equal steps along the last dim; or equal
                         diagonals */
    TC_LOOKS_VARIED,
} tc_looks;

/* For a float tensor of two or more elements; examines the first 65536. *out_element: the first; 0 if unknown. */
tc_looks tc_looks_of(tc_model *model, const tc_tensor *tensor, double *out_element);
#endif
