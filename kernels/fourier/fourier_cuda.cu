/* fourier_cuda.cu: transforms on a CUDA device: a block has a lane, its threads the butterflies of a pass. */
#include "../cuda/device.cuh"
extern "C" {
#include "fourier_pass.h"
TK_FOURIER_KERNELS(TK_DECLARE_CUDA)
TK_FOURIER_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum { THREADS = 128 };
const int64_t MOST = 512; /* lanes that have room at once */

__device__ __forceinline__ tk_complex *transform(const tk_dft_shape &d, tk_complex *a, tk_complex *b) {
    int64_t stride = 1;
    for (int i = 0; i < d.n_factors; i++) {
        __syncthreads();
        for (int64_t item = threadIdx.x; item < d.length / d.factors[i]; item += THREADS)
            tk_butterfly(b, a, (const tk_complex *)d.roots, d.length, stride, d.factors[i], item);
        stride *= d.factors[i];
        tk_complex *const written = b;
        b = a;
        a = written;
    }
    __syncthreads();
    return a;
}

__device__ __forceinline__ tk_complex *convolve(const tk_dft_shape &d, tk_complex *a, tk_complex *b) {
    const tk_complex *const chirp = (const tk_complex *)d.chirp, *const filter = (const tk_complex *)d.filter;
    for (int64_t j = threadIdx.x; j < d.length; j += THREADS)
        a[j] = j < d.n ? tk_complex_mul(a[j], chirp[j]) : tk_complex{0, 0};
    tk_complex *y = transform(d, a, b);
    for (int64_t t = threadIdx.x; t < d.length; t += THREADS) {
        y[t] = tk_complex_mul(y[t], filter[t]);
        y[t].im = -y[t].im;
    }
    y = transform(d, y, y == a ? b : a);
    for (int64_t k = threadIdx.x; k < d.n; k += THREADS)
        y[k] = tk_complex_mul(tk_complex{y[k].re, -y[k].im}, chirp[k]);
    return y;
}

template <class S>
__device__ __forceinline__ void load(tk_complex *x, const S *inp, const S *window, const tk_dft_shape &d,
                                     int64_t lane) {
    inp += tk_dft_inp_at(&d, lane) * d.inp_parts;
    for (int64_t j = threadIdx.x; j < d.n; j += THREADS) {
        bool conjugate;
        const int64_t at = tk_dft_source(&d, j, &conjugate);
        if (at < 0) {
            x[j] = tk_complex{0, 0};
            continue;
        }
        const S *const number = inp + at * d.inner * d.inp_parts;
        const double scale = window ? (double)tk_number_of(window[at]) : 1;
        const double im = d.inp_parts == 2 ? (double)tk_number_of(number[1]) : 0;
        x[j] = tk_complex{scale * (double)tk_number_of(number[0]), scale * (conjugate != d.inverse ? -im : im)};
    }
}

template <class S>
__device__ __forceinline__ void store(S *out, const tk_complex *x, const tk_dft_shape &d, int64_t lane) {
    const double scale = d.inverse ? 1 / (double)d.n : 1;
    out += tk_dft_out_at(&d, lane) * d.out_parts;
    for (int64_t k = threadIdx.x; k < d.n_out; k += THREADS) {
        S *const number = out + k * d.inner * d.out_parts;
        number[0] = tk_element_of<S>((tk_math<S>)(scale * x[k].re));
        if (d.out_parts == 2)
            number[1] = tk_element_of<S>((tk_math<S>)(d.inverse ? -scale * x[k].im : x[k].im));
    }
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    transform_lanes(S *out, const S *inp, const S *window, const __grid_constant__ tk_dft_shape d,
                    tk_complex *workspace) {
    tk_complex *const a = workspace + 2 * d.length * blockIdx.x, *const b = a + d.length;
    for (int64_t lane = blockIdx.x; lane < d.outer * d.inner; lane += gridDim.x) {
        load(a, inp, window, d, lane);
        __syncthreads();
        const tk_complex *const y = d.chirp ? convolve(d, a, b) : transform(d, a, b);
        __syncthreads();
        store(out, y, d, lane);
        __syncthreads();
    }
}

int64_t lanes_at_once(const tk_dft_shape *d) {
    const int64_t lanes = d->outer * d->inner;
    return lanes < MOST ? lanes : MOST;
}

} // namespace

size_t tk_cuda_dft_workspace(const tk_dft_shape *d, int slots) {
    (void)slots;
    return 2 * (size_t)d->length * (size_t)lanes_at_once(d) * sizeof(tk_complex);
}

void tk_cuda_dft(tk_queue *q, void *out, const void *inp, const void *window, const tk_dft_shape *d, tk_dtype dtype,
                 void *workspace) {
    const unsigned blocks = (unsigned)lanes_at_once(d);
    if (blocks > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH((transform_lanes<S>), blocks, THREADS, 0, q, (S *)out, (const S *)inp, (const S *)window,
                            *d, (tk_complex *)workspace))
}
