/* gather.cuh: sums the shares that windows at all places send to the elements under them, on a CUDA device: the second
 * half of a transposed convolution, and Col2Im. */
#ifndef TK_GATHER_CUH
#define TK_GATHER_CUH
#include "device.cuh"
#include "../common/window.h"

/* Which place's window has element `inp` at tap k, in one dim; -1: none. */
__device__ __forceinline__ int64_t tk_sender(const tk_window &w, int d, int64_t inp, int64_t k) {
    const int64_t at = inp + w.pad_begin[d] - k * w.dilation[d];
    if (at < 0 || (w.stride[d] > 1 && at % w.stride[d] != 0))
        return -1;
    const int64_t out = w.stride[d] > 1 ? at / w.stride[d] : at;
    return out < w.out[d] ? out : -1;
}

/* Adds the shares of the element at[TK_WINDOW_RANK] to `sum`, tap by tap. columns: [kernel..., out...] */
template <class T, class C>
__device__ __forceinline__ T tk_gathered(T sum, const C *columns, const tk_window &w, const int64_t *at) {
    const int64_t outs = w.out[0] * w.out[1] * w.out[2];
    for (int64_t k0 = 0; k0 < w.kernel[0]; k0++) {
        const int64_t o0 = tk_sender(w, 0, at[0], k0);
        for (int64_t k1 = 0; o0 >= 0 && k1 < w.kernel[1]; k1++) {
            const int64_t o1 = tk_sender(w, 1, at[1], k1);
            for (int64_t k2 = 0; o1 >= 0 && k2 < w.kernel[2]; k2++) {
                const int64_t o2 = tk_sender(w, 2, at[2], k2);
                if (o2 >= 0)
                    sum += tk_number_of(columns[((k0 * w.kernel[1] + k1) * w.kernel[2] + k2) * outs +
                                                (o0 * w.out[1] + o1) * w.out[2] + o2]);
            }
        }
    }
    return sum;
}
#endif
