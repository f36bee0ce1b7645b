/* norm_device.cuh: x-hat, y and statistics of one element or row on the device, by the formulas of norm_math.h, for
 * whatever type. */
#ifndef TK_NORM_DEVICE_CUH
#define TK_NORM_DEVICE_CUH
#include "../common/row.cuh"
extern "C" {
#include "norm.h"
#include "norm_math.h"
TK_NORM_KERNELS(TK_DECLARE_CUDA)
TK_NORM_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

__device__ __forceinline__ float tk_xhat_number(float x, float mean, float inv_std) {
    return tk_xhat_f32(x, mean, inv_std);
}
__device__ __forceinline__ double tk_xhat_number(double x, double mean, double inv_std) {
    return tk_xhat_f64(x, mean, inv_std);
}
__device__ __forceinline__ float tk_affine_number(float xhat, float scale, float bias) {
    return tk_affine_f32(xhat, scale, bias);
}
__device__ __forceinline__ double tk_affine_number(double xhat, double scale, double bias) {
    return tk_affine_f64(xhat, scale, bias);
}

/* x-hat as it is stored, and y of it. */
template <class S> __device__ __forceinline__ S tk_xhat_element(S x, tk_math<S> mean, tk_math<S> inv_std) {
    return tk_element_of<S>(tk_xhat_number(tk_number_of(x), mean, inv_std));
}
template <class S> __device__ __forceinline__ S tk_norm_element(S xhat, S scale, S bias) {
    return tk_element_of<S>(tk_affine_number(tk_number_of(xhat), tk_number_of(scale), tk_number_of(bias)));
}

/* Statistics have a type of their own: float or double. */
__device__ __forceinline__ void tk_put_statistic(void *out, tk_dtype dtype, int64_t row, double value) {
    if (dtype == TK_F64)
        static_cast<double *>(out)[row] = value;
    else
        static_cast<float *>(out)[row] = (float)value;
}
template <class T> __device__ __forceinline__ T tk_get_statistic(const void *from, tk_dtype dtype, int64_t row) {
    return dtype == TK_F64 ? (T) static_cast<const double *>(from)[row] : (T) static_cast<const float *>(from)[row];
}
#endif
