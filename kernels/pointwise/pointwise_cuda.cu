/* pointwise_cuda.cu: pointwise.def compiled for each float type, as kernels that go through packs of 16 bytes. Results
 * of 16 bits take the fast forms of pointwise_fast.cuh. */
#include "pointwise_fast.cuh"
extern "C" {
#include "pointwise.h"
TK_POINTWISE_KERNELS(TK_DECLARE_CUDA)
}

namespace {

/* The functions that rows name, by what is computed in. */
#define OF_ONE(name, form)                                                                                             \
    static __device__ __forceinline__ T name(T x) { return tk_##name##_##form(x); }
#define OF_TWO(name, form)                                                                                             \
    static __device__ __forceinline__ T name(T x, T alpha) { return tk_##name##_##form(x, alpha); }
#define FUNCTIONS(form)                                                                                                \
    struct form##_points : tk_##form##_functions {                                                                     \
        OF_ONE(gelu, form)                                                                                             \
        OF_ONE(gelu_slope, form)                                                                                       \
        OF_ONE(gelu_tanh, form)                                                                                        \
        OF_ONE(gelu_tanh_slope, form)                                                                                  \
        OF_TWO(swish, form)                                                                                            \
        OF_TWO(swish_slope, form)                                                                                      \
    };
FUNCTIONS(f32)
FUNCTIONS(f64)
FUNCTIONS(fast)
template <class S> struct points_of { typedef fast_points type; };
template <> struct points_of<float> { typedef f32_points type; };
template <> struct points_of<double> { typedef f64_points type; };

/* What a row computes of functions F: forward(x, alpha), slope(x, alpha). */
template <int ROW, class F> struct row_of;
#define FN(name) F::name
#define POINTWISE(name, domain, op, form, default_alpha, term, y, slope_)                                              \
    template <class F> struct row_of<TK_POINTWISE_##name, F> {                                                         \
        typedef typename F::T T;                                                                                       \
        static __device__ __forceinline__ T forward(T x, T alpha) {                                                    \
            const T t = (T)(term);                                                                                     \
            (void)t, (void)alpha;                                                                                      \
            return y;                                                                                                  \
        }                                                                                                              \
        static __device__ __forceinline__ T slope(T x, T alpha) {                                                      \
            const T t = (T)(term);                                                                                     \
            (void)t, (void)alpha;                                                                                      \
            return slope_;                                                                                             \
        }                                                                                                              \
    };
#define POINTWISE_FORM POINTWISE
#include "pointwise.def"
#undef POINTWISE
#undef POINTWISE_FORM
#undef FN

enum { THREADS = 256 };

/* GRAD: out = dout slope(inp), else out = forward(inp) and dout is not read. out may lie over either. */
template <class S, int ROW, bool GRAD> __device__ __forceinline__ S one(S dout, S inp, double alpha) {
    typedef row_of<ROW, typename points_of<S>::type> row;
    const tk_math<S> x = tk_number_of(inp), a = (tk_math<S>)alpha;
    return tk_element_of<S>(GRAD ? tk_number_of(dout) * row::slope(x, a) : row::forward(x, a));
}

template <class S, int ROW, bool GRAD>
__global__ void __launch_bounds__(THREADS)
    pointwise(S *out, const S *dout, const S *inp, int64_t n, int64_t packs, double alpha) {
    constexpr int N = tk_pack_size<S>;
    TK_FOR_EACH(p, packs) {
        const tk_pack<S, N> x = tk_load_pack<N>(inp + p * N), g = GRAD ? tk_load_pack<N>(dout + p * N) : x;
        tk_pack<S, N> y;
#pragma unroll
        for (int k = 0; k < N; k++)
            y.at[k] = one<S, ROW, GRAD>(g.at[k], x.at[k], alpha);
        tk_store_pack(out + p * N, y);
    }
    TK_FOR_EACH(i, n - packs * N) {
        const int64_t at = packs * N + i;
        out[at] = one<S, ROW, GRAD>(GRAD ? dout[at] : inp[at], inp[at], alpha);
    }
}

template <class S, int ROW, bool GRAD>
static void run(tk_queue *q, void *out, const void *dout, const void *inp, int64_t n, double alpha) {
    const int64_t packs = tk_is_packed(out, dout, inp) ? n / tk_pack_size<S> : 0;
    if (n > 0)
        TK_LAUNCH((pointwise<S, ROW, GRAD>), tk_blocks(q, n, THREADS, tk_pack_size<S>), THREADS, 0, q, (S *)out,
                  (const S *)dout, (const S *)inp, n, packs, alpha);
}

/* The function of a row: one of a row's number, which the table below is indexed by. */
template <bool GRAD>
static void start(tk_queue *q, tk_pointwise_row row, void *out, const void *dout, const void *inp, int64_t n,
                  double alpha, tk_dtype dtype) {
    switch (row) {
#define POINTWISE(name, ...)                                                                                           \
    case TK_POINTWISE_##name:                                                                                          \
        TK_FLOATS(dtype, S, run<S, TK_POINTWISE_##name, GRAD>(q, out, dout, inp, n, alpha)) break;
#define POINTWISE_FORM POINTWISE
#include "pointwise.def"
#undef POINTWISE
#undef POINTWISE_FORM
    case TK_POINTWISE_COUNT: break;
    }
}

} // namespace

void tk_cuda_pointwise(tk_queue *q, tk_pointwise_row row, void *out, const void *inp, int64_t n, double alpha,
                       tk_dtype dtype) {
    start<false>(q, row, out, nullptr, inp, n, alpha, dtype);
}

void tk_cuda_pointwise_grad(tk_queue *q, tk_pointwise_row row, void *dinp, const void *dout, const void *inp, int64_t n,
                            double alpha, tk_dtype dtype) {
    start<true>(q, row, dinp, dout, inp, n, alpha, dtype);
}
