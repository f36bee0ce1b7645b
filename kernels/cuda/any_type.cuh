/* any_type.cuh: an element of a type that is known when the kernel runs: types.h's tk_get for kernels. For operands of
 * few elements, and for kernels where speed does not matter. */
#ifndef TK_ANY_TYPE_CUH
#define TK_ANY_TYPE_CUH
#include "device.cuh"

/* Element i as a number; integers of 64 bits are rounded. */
static __device__ __forceinline__ double tk_any_number(const void *data, tk_dtype dtype, int64_t i) {
    switch ((int)dtype) {
        TK_FLOAT_CASES(S, return (double)tk_number_of(((const S *)data)[i]))
        TK_INTEGER_CASES(S, return (double)((const S *)data)[i])
        TK_CASE(TK_BOOL, uint8_t, S, return (double)((const S *)data)[i])
    }
    return 0;
}

/* Element i of an integer type, or a float that fits. */
static __device__ __forceinline__ int64_t tk_any_integer(const void *data, tk_dtype dtype, int64_t i) {
    switch ((int)dtype) {
        TK_FLOAT_CASES(S, return (int64_t)tk_number_of(((const S *)data)[i]))
        TK_INTEGER_CASES(S, return (int64_t)((const S *)data)[i])
        TK_CASE(TK_BOOL, uint8_t, S, return (int64_t)((const S *)data)[i])
    }
    return 0;
}
#endif
