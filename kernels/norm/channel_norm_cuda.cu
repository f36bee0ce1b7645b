/* channel_norm_cuda.cu: normalizations by channel: batch, group, instance, local response. Plain kernels: sums in
 * double, an operand is read once for each of mean, variance and result. */
#include "../common/column.cuh"
#include "norm_device.cuh"

struct channel_args {
    void *out, *new_mean, *new_variance;
    const void *inp, *scale, *bias, *mean, *variance;
    int64_t batch, channels, groups, inner;
    double epsilon, momentum;
};

template <class T> struct moments { T mean, inv_std; };

template <class S>
__device__ __forceinline__ S normalized(const channel_args &c, S x, moments<tk_math<S>> m, int64_t channel) {
    return tk_element_of<S>((tk_number_of(x) - m.mean) * m.inv_std * tk_number_of(((const S *)c.scale)[channel]) +
                            tk_number_of(((const S *)c.bias)[channel]));
}

template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) batch_elements(channel_args c) {
    typedef tk_math<S> T;
    TK_FOR_EACH(i, c.batch * c.channels * c.inner) {
        const int64_t channel = i / c.inner % c.channels;
        const T variance = tk_number_of(((const S *)c.variance)[channel]);
        const moments<T> m = {tk_number_of(((const S *)c.mean)[channel]), 1 / sqrt(variance + (T)c.epsilon)};
        ((S *)c.out)[i] = normalized(c, ((const S *)c.inp)[i], m, channel);
    }
}

/* Element j of a channel, 0 <= j < batch inner. */
__device__ __forceinline__ int64_t place_of(const channel_args &c, int64_t channel, int64_t j) {
    return (j / c.inner * c.channels + channel) * c.inner + j % c.inner;
}

/* The sum over a channel of x - mean, or of its square. */
template <class S>
__device__ __forceinline__ double channel_moment(const channel_args &c, tk_column column, double mean, bool squared,
                                                 double *room) {
    double sum = 0;
    for (int64_t j = threadIdx.y; column.is_one && j < c.batch * c.inner; j += blockDim.y) {
        const double d = (double)tk_number_of(((const S *)c.inp)[place_of(c, column.inner, j)]) - mean;
        sum += squared ? d * d : d;
    }
    return tk_column_reduce(sum, room, tk_plus());
}

template <class S>
__device__ __forceinline__ void put_running(void *out, const void *old, int64_t channel, double now, double momentum) {
    if (out)
        ((S *)out)[channel] = tk_element_of<S>(
            (tk_math<S>)((double)tk_number_of(((const S *)old)[channel]) * momentum + now * (1 - momentum)));
}

/* A column of column.cuh is a channel: neighbours where inner is 1. */
template <class S> __global__ void __launch_bounds__(TK_COLUMN_THREADS) batch_channels(channel_args c) {
    typedef tk_math<S> T;
    __shared__ double room[TK_COLUMN_THREADS];
    const double n = (double)(c.batch * c.inner);
    TK_FOR_EACH_TILE(tile, 1, c.channels) {
        const tk_column column = tk_column_of(tile, c.channels);
        const int64_t channel = column.inner;
        const double mean = channel_moment<S>(c, column, 0, false, room) / n,
                     variance = channel_moment<S>(c, column, mean, true, room) / n;
        if (column.is_one && threadIdx.y == 0) {
            put_running<S>(c.new_mean, c.mean, channel, mean, c.momentum);
            put_running<S>(c.new_variance, c.variance, channel, variance, c.momentum);
        }
        const moments<T> m = {(T)mean, (T)(1 / sqrt(variance + c.epsilon))};
        for (int64_t j = threadIdx.y; column.is_one && j < c.batch * c.inner; j += blockDim.y) {
            const int64_t at = place_of(c, channel, j);
            ((S *)c.out)[at] = normalized(c, ((const S *)c.inp)[at], m, channel);
        }
    }
}

/* A block for a group of one batch item: a row. */
template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) group_rows(channel_args c) {
    typedef tk_math<S> T;
    __shared__ double parts[TK_ROW_THREADS / TK_WARP];
    const int64_t channels = c.channels / c.groups, n = channels * c.inner;
    TK_FOR_EACH_ROW(row, c.batch * c.groups, TK_ROW_THREADS) {
        const S *x = (const S *)c.inp + row * n;
        double mean = 0, square = 0;
        for (int64_t i = threadIdx.x; i < n; i += TK_ROW_THREADS)
            mean += (double)tk_number_of(x[i]);
        mean = tk_team_sum<TK_ROW_THREADS>(mean, parts) / (double)n;
        for (int64_t i = threadIdx.x; i < n; i += TK_ROW_THREADS) {
            const double d = (double)tk_number_of(x[i]) - mean;
            square += d * d;
        }
        square = tk_team_sum<TK_ROW_THREADS>(square, parts) / (double)n;
        const moments<T> m = {(T)mean, (T)(1 / sqrt(square + c.epsilon))};
        for (int64_t i = threadIdx.x; i < n; i += TK_ROW_THREADS)
            ((S *)c.out)[row * n + i] = normalized(c, x[i], m, row % c.groups * channels + i / c.inner);
    }
}

struct lrn_args {
    int64_t batch, channels, inner, size;
    double alpha, beta, bias;
};

template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) lrn_elements(S *out, const S *inp, lrn_args c) {
    TK_FOR_EACH(i, c.batch * c.channels * c.inner) {
        const int64_t channel = i / c.inner % c.channels, before = (c.size - 1) / 2, behind = c.size / 2;
        const int64_t first = channel < before ? -channel : -before,
                      last = c.channels - 1 - channel < behind ? c.channels - 1 - channel : behind;
        double sum = 0;
        for (int64_t k = first; k <= last; k++) {
            const double x = (double)tk_number_of(inp[i + k * c.inner]);
            sum += x * x;
        }
        out[i] = tk_element_of<S>(
            (tk_math<S>)((double)tk_number_of(inp[i]) / pow(c.bias + c.alpha / (double)c.size * sum, c.beta)));
    }
}

void tk_cuda_batch_norm(tk_queue *q, void *out, const void *inp, const void *scale, const void *bias, const void *mean,
                        const void *variance, int64_t batch, int64_t channels, int64_t inner, double epsilon,
                        tk_dtype dtype) {
    const channel_args c = {out,      nullptr, nullptr,  inp, scale, bias,    mean,
                            variance, batch,   channels, 0,   inner, epsilon, 0};
    const int64_t n = batch * channels * inner;
    if (n > 0)
        TK_FLOATS(dtype, S, TK_LAUNCH(batch_elements<S>, tk_blocks(q, n, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c))
}

void tk_cuda_batch_norm_train(tk_queue *q, void *out, void *new_mean, void *new_variance, const void *inp,
                              const void *scale, const void *bias, const void *mean, const void *variance,
                              int64_t batch, int64_t channels, int64_t inner, double epsilon, double momentum,
                              tk_dtype dtype) {
    const channel_args c = {out,      new_mean, new_variance, inp, scale, bias,    mean,
                            variance, batch,    channels,     0,   inner, epsilon, momentum};
    const int64_t neighbours = inner == 1 ? channels : 1;
    const dim3 block = tk_column_block(neighbours);
    const unsigned blocks = (unsigned)((channels + block.x - 1) / block.x);
    if (channels > 0)
        TK_FLOATS(dtype, S, TK_LAUNCH(batch_channels<S>, blocks, block, 0, q, c))
}

void tk_cuda_group_norm(tk_queue *q, void *out, const void *inp, const void *scale, const void *bias, int64_t batch,
                        int64_t channels, int64_t groups, int64_t inner, double epsilon, tk_dtype dtype) {
    const channel_args c = {out,     nullptr, nullptr,  inp,    scale, bias,    nullptr,
                            nullptr, batch,   channels, groups, inner, epsilon, 0};
    if (batch * channels * inner > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH(group_rows<S>, tk_row_blocks(batch * groups, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c))
}

void tk_cuda_lrn(tk_queue *q, void *out, const void *inp, int64_t batch, int64_t channels, int64_t inner, int64_t size,
                 double alpha, double beta, double bias, tk_dtype dtype) {
    const lrn_args c = {batch, channels, inner, size, alpha, beta, bias};
    const int64_t n = batch * channels * inner;
    if (n > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH(lrn_elements<S>, tk_blocks(q, n, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, (S *)out,
                            (const S *)inp, c))
}
