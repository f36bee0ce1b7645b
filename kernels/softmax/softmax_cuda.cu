/* softmax_cuda.cu: Softmax, its gradient and LogSoftmax's, and Hardmax. A row along the last axis lies in the registers
 * of a warp or a block; longer ones are read twice, and columns of other axes by blocks of neighbours. */
#include "softmax_device.cuh"

/* --- rows ---------------------------------------------------------------------------------------- */

/* e / sum: for 16 bits one product, since rounding to the element is a larger error; for float with the remainder added
 * back, which gives the bits of a division (P. Markstein, IBM J. Res. Dev. 34, 1990) but below the normal numbers. */
template <class S> struct share_of {
    float one_by;
    __device__ __forceinline__ share_of(float sum) : one_by(1.0f / sum) {}
    __device__ __forceinline__ S operator()(float e) const { return tk_element_of<S>(e * one_by); }
};
template <> struct share_of<float> {
    float sum, one_by;
    __device__ __forceinline__ share_of(float of) : sum(of), one_by(1.0f / of) {}
    __device__ __forceinline__ float operator()(float e) const {
        const float q = e * one_by;
        return fmaf(fmaf(-sum, q, e), one_by, q);
    }
};
template <> struct share_of<double> {
    double sum;
    __device__ __forceinline__ share_of(double of) : sum(of) {}
    __device__ __forceinline__ double operator()(double e) const { return e / sum; }
};

template <class S, int TEAM, int PER>
__global__ void __launch_bounds__(TK_ROW_THREADS)
    softmax_rows(S *out, const S *inp, int64_t rows, int64_t n, bool packed) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    __shared__ T parts[TK_ROW_THREADS / TK_WARP];
    TK_FOR_EACH_ROW(row, rows, TEAM) {
        T v[PER][N], sum = 0;
        const T largest = tk_team_max<TEAM>(tk_softmax_load<S, TEAM, PER>(v, inp + row * n, n, packed), parts);
#pragma unroll
        for (int p = 0; p < PER; p++)
#pragma unroll
            for (int k = 0; k < N; k++) {
                v[p][k] = tk_softmax_exp<S>::of(v[p][k] - largest);
                sum += v[p][k];
            }
        const share_of<S> share(tk_team_sum<TEAM>(sum, parts));
#pragma unroll
        for (int p = 0; p < PER; p++) {
            tk_pack<S, N> y;
#pragma unroll
            for (int k = 0; k < N; k++)
                y.at[k] = share(v[p][k]);
            tk_row_store(out + row * n, tk_row_at<S, TEAM>(p), n, packed, y);
        }
    }
}

template <class S>
__global__ void __launch_bounds__(TK_ROW_THREADS)
    softmax_long_rows(S *out, const S *inp, int64_t rows, int64_t n, bool packed) {
    constexpr int N = tk_pack_size<S>;
    __shared__ tk_math<S> parts[TK_ROW_THREADS / TK_WARP];
    TK_FOR_EACH_ROW(row, rows, TK_ROW_THREADS) {
        const tk_softmax_sums<tk_math<S>> sums = tk_softmax_long_sums(inp + row * n, n, packed, parts);
        const share_of<S> share(sums.sum);
        for (int64_t at = tk_row_at<S, TK_ROW_THREADS>(0); at < n; at += TK_ROW_THREADS * N) {
            tk_pack<S, N> y = tk_row_load(inp + row * n, at, n, packed);
#pragma unroll
            for (int k = 0; k < N; k++)
                y.at[k] = share(tk_softmax_exp<S>::of(tk_number_of(y.at[k]) - sums.largest));
            tk_row_store(out + row * n, at, n, packed, y);
        }
    }
}

/* --- gradients of rows --------------------------------------------------------------------------- */

/* The terms of a row's sum, and the gradient by the sum. */
template <class S, bool LOG> __device__ __forceinline__ tk_math<S> grad_term(S dout, S out) {
    return LOG ? tk_number_of(dout) : tk_number_of(dout) * tk_number_of(out);
}
template <class S, bool LOG> __device__ __forceinline__ S grad_element(S dout, S out, tk_math<S> sum) {
    const tk_math<S> dy = tk_number_of(dout), y = tk_number_of(out);
    return tk_element_of<S>(LOG ? dy - tk_softmax_exp<S>::of(y) * sum : (dy - sum) * y);
}

template <class S, bool LOG>
__device__ __forceinline__ void add_grad_terms(tk_math<S> &sum, const tk_pack<S, tk_pack_size<S>> &dy,
                                               const tk_pack<S, tk_pack_size<S>> &y) {
#pragma unroll
    for (int k = 0; k < tk_pack_size<S>; k++)
        sum += grad_term<S, LOG>(dy.at[k], y.at[k]);
}
template <class S, bool LOG>
__device__ __forceinline__ void to_grad(tk_pack<S, tk_pack_size<S>> &dy, const tk_pack<S, tk_pack_size<S>> &y,
                                        tk_math<S> sum) {
#pragma unroll
    for (int k = 0; k < tk_pack_size<S>; k++)
        dy.at[k] = grad_element<S, LOG>(dy.at[k], y.at[k], sum);
}

/* Blocks that a multiprocessor has at a time: with a fourth the compiler would spill registers in LogSoftmax. */
template <class S, bool LOG> constexpr int grad_blocks = tk_is_16_bit<S> &&LOG ? 3 : 1;

template <class S, int TEAM, int PER, bool LOG>
__global__ void __launch_bounds__(TK_ROW_THREADS, (grad_blocks<S, LOG>))
    grad_rows(S *dinp, const S *dout, const S *out, int64_t rows, int64_t n, bool packed) {
    typedef tk_math<S> T;
    __shared__ T parts[TK_ROW_THREADS / TK_WARP];
    TK_FOR_EACH_ROW(row, rows, TEAM) {
        tk_pack<S, tk_pack_size<S>> dy[PER], y[PER];
        T sum = 0;
#pragma unroll
        for (int p = 0; p < PER; p++) {
            dy[p] = tk_row_load(dout + row * n, tk_row_at<S, TEAM>(p), n, packed);
            y[p] = tk_row_load(out + row * n, tk_row_at<S, TEAM>(p), n, packed);
        }
#pragma unroll
        for (int p = 0; p < PER; p++)
            add_grad_terms<S, LOG>(sum, dy[p], y[p]);
        sum = tk_team_sum<TEAM>(sum, parts);
#pragma unroll
        for (int p = 0; p < PER; p++) {
            to_grad<S, LOG>(dy[p], y[p], sum);
            tk_row_store(dinp + row * n, tk_row_at<S, TEAM>(p), n, packed, dy[p]);
        }
    }
}

template <class S, bool LOG>
__global__ void __launch_bounds__(TK_ROW_THREADS)
    grad_long_rows(S *dinp, const S *dout, const S *out, int64_t rows, int64_t n, bool packed) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    __shared__ T parts[TK_ROW_THREADS / TK_WARP];
    TK_FOR_EACH_ROW(row, rows, TK_ROW_THREADS) {
        T sum = 0;
        for (int64_t at = tk_row_at<S, TK_ROW_THREADS>(0); at < n; at += TK_ROW_THREADS * N) {
            T here = 0;
            add_grad_terms<S, LOG>(here, tk_row_load(dout + row * n, at, n, packed),
                                   tk_row_load(out + row * n, at, n, packed));
            sum += here;
        }
        sum = tk_team_sum<TK_ROW_THREADS>(sum, parts);
        for (int64_t at = tk_row_at<S, TK_ROW_THREADS>(0); at < n; at += TK_ROW_THREADS * N) {
            tk_pack<S, N> dy = tk_row_load(dout + row * n, at, n, packed);
            to_grad<S, LOG>(dy, tk_row_load(out + row * n, at, n, packed), sum);
            tk_row_store(dinp + row * n, at, n, packed, dy);
        }
    }
}

/* --- columns ------------------------------------------------------------------------------------- */

template <class S>
__global__ void __launch_bounds__(TK_COLUMN_THREADS) softmax_columns(S *out, const S *inp, tk_softmax_shape s) {
    __shared__ tk_math<S> room[TK_COLUMN_THREADS];
    TK_FOR_EACH_TILE(tile, s.outer, s.inner) {
        const tk_column c = tk_column_of(tile, s.inner);
        const int64_t first = c.outer * s.n * s.inner + c.inner;
        const tk_softmax_sums<tk_math<S>> sums = tk_softmax_column_sums(inp + first, s.n, s.inner, c.is_one, room);
        const share_of<S> share(sums.sum);
        for (int64_t i = threadIdx.y; c.is_one && i < s.n; i += blockDim.y)
            out[first + i * s.inner] =
                share(tk_softmax_exp<S>::of(tk_number_of(inp[first + i * s.inner]) - sums.largest));
    }
}

template <class S, bool LOG>
__global__ void __launch_bounds__(TK_COLUMN_THREADS)
    grad_columns(S *dinp, const S *dout, const S *out, tk_softmax_shape s) {
    typedef tk_math<S> T;
    __shared__ T room[TK_COLUMN_THREADS];
    TK_FOR_EACH_TILE(tile, s.outer, s.inner) {
        const tk_column c = tk_column_of(tile, s.inner);
        const int64_t first = c.outer * s.n * s.inner + c.inner;
        T sum = 0;
        for (int64_t i = threadIdx.y; c.is_one && i < s.n; i += blockDim.y)
            sum += grad_term<S, LOG>(dout[first + i * s.inner], out[first + i * s.inner]);
        sum = tk_column_reduce(sum, room, tk_plus());
        for (int64_t i = threadIdx.y; c.is_one && i < s.n; i += blockDim.y)
            dinp[first + i * s.inner] = grad_element<S, LOG>(dout[first + i * s.inner], out[first + i * s.inner], sum);
    }
}

/* The first of the largest elements; a NaN that stands first wins: nothing is larger. */
struct candidate {
    double x; /* whatever S is: a struct without holes */
    int64_t at;
};
struct first_largest {
    __device__ __forceinline__ candidate operator()(candidate a, candidate b) const {
        return a.at < 0 || (b.at >= 0 && (b.x > a.x || (b.x == a.x && b.at < a.at))) ? b : a;
    }
};

template <class S>
__global__ void __launch_bounds__(TK_COLUMN_THREADS) hardmax_columns(S *out, const S *inp, tk_softmax_shape s) {
    __shared__ candidate room[TK_COLUMN_THREADS];
    TK_FOR_EACH_TILE(tile, s.outer, s.inner) {
        const tk_column c = tk_column_of(tile, s.inner);
        const int64_t first = c.outer * s.n * s.inner + c.inner;
        const candidate none = {0, -1};
        candidate best = none;
        for (int64_t i = threadIdx.y; c.is_one && i < s.n; i += blockDim.y) {
            const candidate here = {(double)tk_number_of(inp[first + i * s.inner]), i};
            best = first_largest()(best, here.x == here.x ? here : none);
        }
        best = tk_column_reduce(best, room, first_largest());
        if (c.is_one && s.n > 0 && (best.at < 0 || !(best.x >= (double)tk_number_of(inp[first]))))
            best.at = 0;
        for (int64_t i = threadIdx.y; c.is_one && i < s.n; i += blockDim.y)
            out[first + i * s.inner] = tk_element_of<S>(i == best.at ? (tk_math<S>)1 : (tk_math<S>)0);
    }
}

/* --- launches ------------------------------------------------------------------------------------ */

template <class S> static void softmax(tk_queue *q, S *out, const S *inp, tk_softmax_shape s) {
    const bool packed = tk_is_packed(out, inp) && s.n % tk_pack_size<S> == 0;
    if (s.inner != 1)
        TK_LAUNCH(softmax_columns<S>, tk_column_blocks(s.outer, s.inner), tk_column_block(s.inner), 0, q, out, inp, s);
    else if (s.n > tk_row_most<S>)
        TK_LAUNCH(softmax_long_rows<S>, tk_row_blocks(s.outer, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, out, inp, s.outer,
                  s.n, packed);
    else
        TK_ROW_TEAMS(S, s.n, TEAM, PER,
                     TK_LAUNCH((softmax_rows<S, TEAM, PER>), tk_row_blocks(s.outer, TEAM), TK_ROW_THREADS, 0, q, out,
                               inp, s.outer, s.n, packed));
}

template <class S, bool LOG> static void grad(tk_queue *q, S *dinp, const S *dout, const S *out, tk_softmax_shape s) {
    const bool packed = tk_is_packed(dinp, dout, out) && s.n % tk_pack_size<S> == 0;
    if (s.inner != 1)
        TK_LAUNCH((grad_columns<S, LOG>), tk_column_blocks(s.outer, s.inner), tk_column_block(s.inner), 0, q, dinp,
                  dout, out, s);
    else if (s.n > tk_row_most<S>)
        TK_LAUNCH((grad_long_rows<S, LOG>), tk_row_blocks(s.outer, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, dinp, dout,
                  out, s.outer, s.n, packed);
    else
        TK_ROW_TEAMS(S, s.n, TEAM, PER,
                     TK_LAUNCH((grad_rows<S, TEAM, PER, LOG>), tk_row_blocks(s.outer, TEAM), TK_ROW_THREADS, 0, q, dinp,
                               dout, out, s.outer, s.n, packed));
}

template <class S> static void hardmax(tk_queue *q, S *out, const S *inp, tk_softmax_shape s) {
    TK_LAUNCH(hardmax_columns<S>, tk_column_blocks(s.outer, s.inner), tk_column_block(s.inner), 0, q, out, inp, s);
}

static bool is_empty(tk_softmax_shape s) { return s.outer == 0 || s.n == 0 || s.inner == 0; }

void tk_cuda_softmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype) {
    if (!is_empty(shape))
        TK_FLOATS(dtype, S, softmax<S>(q, (S *)out, (const S *)inp, shape))
}

void tk_cuda_hardmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype) {
    if (!is_empty(shape))
        TK_FLOATS(dtype, S, hardmax<S>(q, (S *)out, (const S *)inp, shape))
}

void tk_cuda_softmax_grad(tk_queue *q, void *dinp, const void *dout, const void *out, tk_softmax_shape shape,
                          tk_dtype dtype) {
    if (!is_empty(shape))
        TK_FLOATS(dtype, S, grad<S, false>(q, (S *)dinp, (const S *)dout, (const S *)out, shape))
}

void tk_cuda_log_softmax_grad(tk_queue *q, void *dinp, const void *dout, const void *out, tk_softmax_shape shape,
                              tk_dtype dtype) {
    if (!is_empty(shape))
        TK_FLOATS(dtype, S, grad<S, true>(q, (S *)dinp, (const S *)dout, (const S *)out, shape))
}
