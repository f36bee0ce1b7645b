/* attention_cap_cuda.cu: caps scores of attention, c tanh(s / c), between the product and the softmax, and multiplies
 * by their slopes between the softmax's gradient and the products. These are separate kernels, so that attention
 * without a cap does not pay for it. */
#include "../cuda/device.cuh"
#include "../common/functions.h"
extern "C" {
#include "attention_map.h"
}

namespace {

enum { THREADS = 256 };

__device__ __forceinline__ float tanh_of(float x) { return tk_tanh_f32(x); }
__device__ __forceinline__ double tanh_of(double x) { return tk_tanh_f64(x); }

template <class T> __global__ void __launch_bounds__(THREADS) cap_scores(T *scores, T *slopes, T cap, int64_t n) {
    TK_FOR_EACH(i, n) {
        const T bent = tanh_of(scores[i] / cap);
        scores[i] = cap * bent;
        if (slopes)
            slopes[i] = 1 - bent * bent;
    }
}

template <class S>
__global__ void __launch_bounds__(THREADS) take_slopes(S *out, const S *ds, const tk_math<S> *slopes, int64_t n) {
    TK_FOR_EACH(i, n)
    out[i] = tk_element_of<S>(tk_number_of(ds[i]) * slopes[i]);
}

} // namespace

void tk_cuda_attention_cap(tk_queue *q, void *scores, void *slopes, const tk_attention *a, tk_attention_part part) {
    const int64_t n = part.items * a->s * a->t;
    if (n == 0)
        return;
    if (a->dtype == TK_F64)
        TK_LAUNCH(cap_scores<double>, tk_blocks(q, n, THREADS), THREADS, 0, q, (double *)scores, (double *)slopes,
                  a->softcap, n);
    else
        TK_LAUNCH(cap_scores<float>, tk_blocks(q, n, THREADS), THREADS, 0, q, (float *)scores, (float *)slopes,
                  (float)a->softcap, n);
}

void tk_cuda_attention_slopes(tk_queue *q, void *out, const void *ds, const void *slopes, const tk_attention *a,
                              tk_attention_part part) {
    const int64_t n = part.items * a->s * a->t;
    if (n > 0)
        TK_FLOATS(a->dtype, S,
                  TK_LAUNCH(take_slopes<S>, tk_blocks(q, n, THREADS), THREADS, 0, q, (S *)out, (const S *)ds,
                            (const tk_math<S> *)slopes, n));
}
