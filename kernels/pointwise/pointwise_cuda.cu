/* pointwise_cuda.cu: pointwise.def compiled for each float type, as kernels that go through packs of 16 bytes. Results
 * of 16 bits take the fast forms (pointwise_row.cuh). */
#include "pointwise_row.cuh"
extern "C" {
TK_POINTWISE_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

/* GRAD: out = dout slope(inp), else out = forward(inp) and dout is not read. out may lie over either. */
template <class S, int ROW, bool GRAD> __device__ __forceinline__ S one(S dout, S inp, double alpha) {
    typedef tk_row_of<ROW, typename tk_points_of<S>::type> row;
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
