/* norm_device.cuh: x-hat, y and statistics of one element or row on the device, by the formulas of norm_math.h, for any
 * type. */
#ifndef TK_NORM_DEVICE_CUH
#define TK_NORM_DEVICE_CUH
#include "../cuda/row.cuh"
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

/* x-hat as it is stored, and y of it, of a pack. */
template <class S, int N>
__device__ __forceinline__ tk_pack<S, N> tk_xhat_of(const tk_pack<S, N> &x, tk_math<S> mean, tk_math<S> inv_std) {
    tk_pack<S, N> xhat;
#pragma unroll
    for (int k = 0; k < N; k += 2)
        tk_put_two(&xhat.at[k], tk_xhat_number(tk_number_of(x.at[k]), mean, inv_std),
                   tk_xhat_number(tk_number_of(x.at[k + 1]), mean, inv_std));
    return xhat;
}
template <class S> __device__ __forceinline__ tk_math<S> tk_norm_number(S xhat, S scale, S bias) {
    return tk_affine_number(tk_number_of(xhat), tk_number_of(scale), tk_number_of(bias));
}
template <class S, int N>
__device__ __forceinline__ tk_pack<S, N> tk_norm_of(const tk_pack<S, N> &xhat, const tk_pack<S, N> &scale,
                                                    const tk_pack<S, N> &bias) {
    tk_pack<S, N> y;
#pragma unroll
    for (int k = 0; k < N; k += 2)
        tk_put_two(&y.at[k], tk_norm_number(xhat.at[k], scale.at[k], bias.at[k]),
                   tk_norm_number(xhat.at[k + 1], scale.at[k + 1], bias.at[k + 1]));
    return y;
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
