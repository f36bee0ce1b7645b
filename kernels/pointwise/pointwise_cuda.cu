/* pointwise_cuda.cu: pointwise.def compiled for each float type, as kernels that go through packs of 16 bytes. Results
 * of 16 bits take the fast forms (pointwise_row.cuh). */
#include "pointwise_row.cuh"
extern "C" {
TK_POINTWISE_KERNELS(TK_DECLARE_CUDA)
TK_POINTWISE_BOTH_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

/* The results of a kernel from x and the gradient g of f(x). */
enum { FORWARD, GRAD, BOTH };
template <class S> struct made { S y, dx; /* f(x), g f'(x): those that are wanted */ };
template <class S, int ROW, int KIND> __device__ __forceinline__ made<S> one(S grad, S inp, double alpha) {
    typedef tk_row_of<ROW, typename tk_points_of<S>::type> row;
    const tk_math<S> x = tk_number_of(inp), a = (tk_math<S>)alpha;
    made<S> m = {};
    if (KIND != GRAD)
        m.y = tk_element_of<S>(row::forward(x, a));
    if (KIND != FORWARD)
        m.dx = tk_element_of<S>(tk_number_of(grad) * row::slope(x, a));
    return m;
}

/* out: y, dinp: dx; either may lie over an operand. Arguments that KIND does not use are NULL. */
struct operands {
    void *out, *dinp;
    const void *dout, *inp;
};

template <class S, int ROW, int KIND>
__global__ void __launch_bounds__(THREADS) pointwise(operands c, int64_t n, int64_t packs, double alpha) {
    constexpr int N = tk_pack_size<S>;
    S *out = (S *)c.out, *dinp = (S *)c.dinp;
    const S *dout = (const S *)c.dout, *inp = (const S *)c.inp;
    TK_FOR_EACH(p, packs) {
        const tk_pack<S, N> x = tk_load_pack<N>(inp + p * N), g = KIND != FORWARD
        ? tk_load_pack<N>(dout + p * N) : x;
        tk_pack<S, N> y, dx;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const made<S> m = one<S, ROW, KIND>(g.at[k], x.at[k], alpha);
            y.at[k] = m.y, dx.at[k] = m.dx;
        }
        if (KIND != GRAD)
            tk_store_pack(out + p * N, y);
        if (KIND != FORWARD)
            tk_store_pack(dinp + p * N, dx);
    }
    TK_FOR_EACH(i, n - packs * N) {
        const int64_t at = packs * N + i;
        const made<S> m = one<S, ROW, KIND>(KIND != FORWARD ? dout[at] : inp[at], inp[at], alpha);
        if (KIND != GRAD)
            out[at] = m.y;
        if (KIND != FORWARD)
            dinp[at] = m.dx;
    }
}

template <class S, int ROW, int KIND> static void run(tk_queue *q, const operands &c, int64_t n, double alpha) {
    const int64_t packs = tk_is_packed(c.out, c.dinp, c.dout, c.inp) ? n / tk_pack_size<S> : 0;
    if (n > 0)
        TK_LAUNCH((pointwise<S, ROW, KIND>), tk_blocks(q, n, THREADS, tk_pack_size<S>), THREADS, 0, q, c, n, packs,
                  alpha);
}

/* The function of a row: one of a row's number, which the table below is indexed by. */
template <int KIND>
static void start(tk_queue *q, tk_pointwise_row row, const operands &c, int64_t n, double alpha, tk_dtype dtype) {
    switch (row) {
#define POINTWISE(name, ...)                                                                                           \
    case TK_POINTWISE_##name:                                                                                          \
        TK_FLOATS(dtype, S, run<S, TK_POINTWISE_##name, KIND>(q, c, n, alpha)) break;
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
    start < FORWARD
    > (q, row, operands{out, nullptr, nullptr, inp}, n, alpha, dtype);
}

void tk_cuda_pointwise_grad(tk_queue *q, tk_pointwise_row row, void *dinp, const void *dout, const void *inp, int64_t n,
                            double alpha, tk_dtype dtype) {
    start<GRAD>(q, row, operands{nullptr, dinp, dout, inp}, n, alpha, dtype);
}

void tk_cuda_pointwise_both(tk_queue *q, tk_pointwise_row row, void *dinp, void *out, const void *dout, const void *inp,
                            int64_t n, double alpha, tk_dtype dtype) {
    start<BOTH>(q, row, operands{out, dinp, dout, inp}, n, alpha, dtype);
}
