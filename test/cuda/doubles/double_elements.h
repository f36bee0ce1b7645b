/* double_elements.h: elements of matrices and tensors as the doubles of CUDA's libraries read and write them: types are
 * numbers of cudaDataType. */
#ifndef DOUBLE_ELEMENTS_H
#define DOUBLE_ELEMENTS_H
#include "cublaslt_double.h"
#include "kernels/common/half.h"
#include <math.h>

static inline size_t double_size(int32_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

static inline double double_get(const void *p, int32_t type, int64_t i) {
    if (type == CUDA_R_64F)
        return ((const double *)p)[i];
    if (type == CUDA_R_32F)
        return (double)((const float *)p)[i];
    const uint16_t bits = ((const uint16_t *)p)[i];
    return (double)(type == CUDA_R_16F ? tk_from_f16(bits) : tk_from_bf16(bits));
}

/* Rounds once: numbers of all types but double are computed in float. */
static inline void double_put(void *p, int32_t type, int64_t i, double v) {
    if (type == CUDA_R_64F)
        ((double *)p)[i] = v;
    else if (type == CUDA_R_32F)
        ((float *)p)[i] = (float)v;
    else
        ((uint16_t *)p)[i] = type == CUDA_R_16F ? tk_to_f16((float)v) : tk_to_bf16((float)v);
}

/* The nearest number of 10 bits behind the point, the larger one of two. */
static inline double double_as_tf32(double v) {
    const uint32_t bits = tk_float_bits((float)v);
    return isfinite(v) ? (double)tk_bits_float((bits + 0x1000) & ~(uint32_t)0x1fff) : v;
}
#endif
