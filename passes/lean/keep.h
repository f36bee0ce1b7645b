/* keep.h: what to keep for the backward pass, as a problem of numbers: of values, some of which can be made again from
 * others, the set with the fewest bytes from which everything that is read can be had. A min cut: bytes are the
 * capacities, from what cannot be made again to what is read. */
#ifndef TC_KEEP_H
#define TC_KEEP_H
#include <stdbool.h>
#include <stdint.h>

typedef struct tc_keep_value {
    uint64_t bytes;
    bool there;        /* at hand whatever is decided here */
    bool makes;        /* can be made again of its operands */
    bool read;         /* has to be had */
    uint32_t first, n; /* operands[first .. first + n): numbers of values before this one */
} tc_keep_value;

/* out_keep[n]: whether the value is to be kept; false for what is there. Of several such sets the one closest to what
 * is read, which is made again in the fewest steps. Each value has less than 2^60 bytes, all that are kept less than
 * 2^62. Without memory for it the call ends in tc_out_of_memory. */
void tc_keep_least(const tc_keep_value *values, uint32_t n, const uint32_t *operands, bool *out_keep);
#endif
