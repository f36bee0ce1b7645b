/* activation_cuda.cu: activations that keep their result and a bit, on a CUDA device: a thread has eight elements and
 * the byte of their bits. The curve lies in shared memory, since the threads of a warp read different pieces of it at
 * once. f of 16-bit elements takes the fast forms (pointwise_row.cuh). */
#include "../pointwise/pointwise_row.cuh"
extern "C" {
#include "activation_curve.h"
TK_ACTIVATION_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256, EIGHT = 8 };

/* The curve in the type of computation. */
template <class T> struct curve;
#define CURVE(T, suffix)                                                                                               \
    template <> struct curve<T> : tk_curve_##suffix {                                                                  \
        void fill(tk_pointwise_row row, double a) { tk_activation_curve_##suffix(this, row, a); }                      \
        __device__ __forceinline__ T off(T v) const { return tk_curve_off_##suffix(v, this); }                         \
        __device__ __forceinline__ T value(T o, T rough) const { return tk_curve_value_##suffix(o, rough, this); }     \
        __device__ __forceinline__ T slope(T v, int right) const { return tk_curve_slope_##suffix(v, right, this); }   \
    };
CURVE(float, f32)
CURVE(double, f64)

template <class C> __device__ __forceinline__ void share(C *shared, const C &given) {
    const uint32_t *from = (const uint32_t *)&given;
    for (unsigned i = threadIdx.x; i < sizeof(C) / sizeof *from; i += THREADS)
        ((uint32_t *)shared)[i] = from[i];
    __syncthreads();
}

/* n <= EIGHT elements from `from` on; in packs where all eight exist and are aligned. */
template <class S> __device__ __forceinline__ void load(S *to, const S *from, int n, bool packed) {
    constexpr int N = tk_pack_size<S>;
    if (packed && n == EIGHT) {
#pragma unroll
        for (int k = 0; k < EIGHT; k += N) {
            const tk_pack<S, N> pack = tk_load_pack<N>(from + k);
            for (int j = 0; j < N; j++)
                to[k + j] = pack.at[j];
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < EIGHT; k++)
        if (k < n)
            to[k] = from[k];
}

template <class S> __device__ __forceinline__ void store(S *to, const S *from, int n, bool packed) {
    constexpr int N = tk_pack_size<S>;
    if (packed && n == EIGHT) {
#pragma unroll
        for (int k = 0; k < EIGHT; k += N) {
            tk_pack<S, N> pack;
            for (int j = 0; j < N; j++)
                pack.at[j] = from[k + j];
            tk_store_pack(to + k, pack);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < EIGHT; k++)
        if (k < n)
            to[k] = from[k];
}

__device__ __forceinline__ int count(int64_t n, int64_t at) { return n - at < EIGHT ? (int)(n - at) : (int)EIGHT; }

template <class S>
__global__ void __launch_bounds__(THREADS) masked(tk_pointwise_row row, S *out, uint8_t *right, const S *inp, int64_t n,
                                                  double alpha, curve<tk_math<S>> given, bool packed) {
    typedef tk_math<S> T;
    __shared__ curve<T> c;
    share(&c, given);
    TK_FOR_EACH(i, (n + EIGHT - 1) / EIGHT) {
        const int m = count(n, EIGHT * i);
        S x[EIGHT], y[EIGHT];
        unsigned bits = 0;
        load(x, inp + EIGHT * i, m, packed);
#pragma unroll
        for (int k = 0; k < EIGHT; k++) {
            if (k >= m)
                break;
            const T v = tk_number_of(x[k]), off = c.off(v);
            y[k] = tk_element_of<S>(c.value(off, tk_point<S>::forward(row, v, (T)alpha)));
            bits |= (unsigned)(off >= 0) << k;
        }
        store(out + EIGHT * i, y, m, packed);
        if (right)
            right[i] = (uint8_t)bits;
    }
}

template <class S>
__global__ void __launch_bounds__(THREADS) from_output(S *dinp, const S *dout, const S *out, const uint8_t *right,
                                                       int64_t n, curve<tk_math<S>> given, bool packed) {
    __shared__ curve<tk_math<S>> c;
    share(&c, given);
    TK_FOR_EACH(i, (n + EIGHT - 1) / EIGHT) {
        const int m = count(n, EIGHT * i);
        S y[EIGHT], dy[EIGHT];
        const unsigned bits = right[i];
        load(y, out + EIGHT * i, m, packed);
        load(dy, dout + EIGHT * i, m, packed);
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            if (k < m)
                dy[k] = tk_element_of<S>(tk_number_of(dy[k]) * c.slope(tk_number_of(y[k]), bits >> k & 1));
        store(dinp + EIGHT * i, dy, m, packed);
    }
}

template <class S> curve<tk_math<S>> curve_of(tk_pointwise_row row, double alpha) {
    curve<tk_math<S>> c;
    c.fill(row, alpha);
    return c;
}

} // namespace

void tk_cuda_activation_masked(tk_queue *q, tk_pointwise_row row, void *out, uint8_t *right, const void *inp, int64_t n,
                               double alpha, tk_dtype dtype) {
    const bool packed = tk_is_packed(out, inp);
    if (n > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH(masked<S>, tk_blocks(q, n, THREADS, EIGHT), THREADS, 0, q, row, (S *)out, right,
                            (const S *)inp, n, alpha, curve_of<S>(row, alpha), packed));
}

void tk_cuda_activation_from_output(tk_queue *q, tk_pointwise_row row, void *dinp, const void *dout, const void *out,
                                    const uint8_t *right, int64_t n, double alpha, tk_dtype dtype) {
    const bool packed = tk_is_packed(dinp, dout, out);
    if (n > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH(from_output<S>, tk_blocks(q, n, THREADS, EIGHT), THREADS, 0, q, (S *)dinp, (const S *)dout,
                            (const S *)out, right, n, curve_of<S>(row, alpha), packed));
}
