/* keep.h: which values to keep for the backward pass, as a problem of numbers. Some values can be recomputed from
 * others; the solution is the set with the fewest bytes from which all values that are read can be computed. This is
 * a min cut with bytes as capacities, from the values that cannot be recomputed to those that are read. */
#ifndef TC_KEEP_H
#define TC_KEEP_H
#include <stdbool.h>
#include <stdint.h>

typedef struct tc_keep_value {
    uint64_t bytes;
    bool there;        /* available in the backward pass, whatever the choice */
    bool makes;        /* can be recomputed from its operands */
    bool read;         /* the backward pass reads it */
    uint32_t first, n; /* operands[first .. first + n): numbers of values before this one */
} tc_keep_value;

/* out_keep[n]: whether to keep the value; false for available ones. Of several best sets the one closest to the
 * readers is chosen, because it takes the fewest steps to recompute. Each value has less than 2^60 bytes, all kept
 * values less than 2^62. If there is no memory, the call ends in tc_out_of_memory. */
void tc_keep_least(const tc_keep_value *values, uint32_t n, const uint32_t *operands, bool *out_keep);
#endif
