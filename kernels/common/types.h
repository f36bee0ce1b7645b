/* types.h: elements of any type as numbers, for operands of a few elements (ratios, exponents, labels). Not for inner
 * loops. */
#ifndef TK_TYPES_H
#define TK_TYPES_H
#include "../kernel.h"

double tk_get(const void *data, tk_dtype dtype, int64_t i);      /* 64-bit integers are rounded */
int64_t tk_get_int(const void *data, tk_dtype dtype, int64_t i); /* floats must fit */
/* A number that an operand holds: it is read where the kernel runs, never by the host. */
typedef struct tk_number {
    const void *data; /* one element; NULL: the number is `otherwise` */
    tk_dtype dtype;
    double otherwise;
} tk_number;
static inline double tk_number_get(tk_number n) { return n.data ? tk_get(n.data, n.dtype, 0) : n.otherwise; }

void tk_put(void *data, tk_dtype dtype, int64_t i, double value); /* a float type; rounded once */
#endif
