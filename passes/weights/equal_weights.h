/* equal_weights.h: finds tensors that hold the same numbers, in the same order or with permuted axes. */
#ifndef TC_EQUAL_WEIGHTS_H
#define TC_EQUAL_WEIGHTS_H
#include "compiler/ir/ir.h"

enum { TC_EQUAL_RANK = 4 }; /* permuted axes are looked for up to this rank */

/* A tensor of a float type with two or more elements, and its data: packed, of any alignment. */
typedef struct tc_weight {
    const tc_tensor *tensor;
    const void *data;
} tc_weight;

typedef struct tc_equal {
    size_t first;  /* the earliest equal tensor; the tensor itself if no earlier one is equal */
    bool uniform;  /* all elements have the same bits; such a tensor equals none */
    bool permuted; /* this = Transpose <perm> (first); else the two are copies */
    int64_t perm[TC_EQUAL_RANK];
} tc_equal;

/* Fills out[0 .. n - 1]. Bits are compared: -0 is not 0, and a NaN equals itself. Reads two elements of each tensor,
 * and all elements of tensors that share dims, first and last element with another; the time is linear in the bytes
 * (see equal_weights.c). Returns the number of bytes read. */
uint64_t tc_find_equal(const tc_weight *weights, size_t n, tc_equal *out);
#endif
