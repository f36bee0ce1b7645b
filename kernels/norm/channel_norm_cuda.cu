/* channel_norm_cuda.cu: normalizations by channel: batch, group, instance, local response. Plain kernels: sums in
 * double, an operand is read once for each of mean, variance and result. */
#include "../cuda/column.cuh"
#include "norm_device.cuh"

struct channel_args {
    tk_channel_results out;
    tk_channel_operands in;
    tk_channels s;
};

template <class T> struct moments { T mean, inv_std; };

template <class S>
__device__ __forceinline__ S normalized(const channel_args &c, S x, moments<tk_math<S>> m, int64_t channel) {
    return tk_element_of<S>((tk_number_of(x) - m.mean) * m.inv_std * tk_number_of(((const S *)c.in.scale)[channel]) +
                            tk_number_of(((const S *)c.in.bias)[channel]));
}

template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) batch_elements(channel_args c) {
    typedef tk_math<S> T;
    TK_FOR_EACH(i, c.s.batch * c.s.channels * c.s.inner) {
        const int64_t channel = i / c.s.inner % c.s.channels;
        const T variance = tk_number_of(((const S *)c.in.variance)[channel]);
        const moments<T> m = {tk_number_of(((const S *)c.in.mean)[channel]), 1 / sqrt(variance + (T)c.s.epsilon)};
        ((S *)c.out.y)[i] = normalized(c, ((const S *)c.in.x)[i], m, channel);
    }
}

/* Element j of a channel, 0 <= j < batch inner. */
__device__ __forceinline__ int64_t place_of(const channel_args &c, int64_t channel, int64_t j) {
    return (j / c.s.inner * c.s.channels + channel) * c.s.inner + j % c.s.inner;
}

/* The sum over a channel of x - mean, or of its square. */
template <class S>
__device__ __forceinline__ double channel_moment(const channel_args &c, tk_column column, double mean, bool squared,
                                                 double *room) {
    double sum = 0;
    for (int64_t j = threadIdx.y; column.is_one && j < c.s.batch * c.s.inner; j += blockDim.y) {
        const double d = (double)tk_number_of(((const S *)c.in.x)[place_of(c, column.inner, j)]) - mean;
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
    const double n = (double)(c.s.batch * c.s.inner);
    TK_FOR_EACH_TILE(tile, 1, c.s.channels) {
        const tk_column column = tk_column_of(tile, c.s.channels);
        const int64_t channel = column.inner;
        const double mean = channel_moment<S>(c, column, 0, false, room) / n,
                     variance = channel_moment<S>(c, column, mean, true, room) / n;
        if (column.is_one && threadIdx.y == 0) {
            put_running<S>(c.out.mean, c.in.mean, channel, mean, c.s.momentum);
            put_running<S>(c.out.variance, c.in.variance, channel, variance, c.s.momentum);
        }
        const moments<T> m = {(T)mean, (T)(1 / sqrt(variance + c.s.epsilon))};
        for (int64_t j = threadIdx.y; column.is_one && j < c.s.batch * c.s.inner; j += blockDim.y) {
            const int64_t at = place_of(c, channel, j);
            ((S *)c.out.y)[at] = normalized(c, ((const S *)c.in.x)[at], m, channel);
        }
    }
}

/* A block for a group of one batch item: a row. */
template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) group_rows(channel_args c) {
    typedef tk_math<S> T;
    __shared__ double parts[TK_ROW_THREADS / TK_WARP];
    const int64_t channels = c.s.channels / c.s.groups, n = channels * c.s.inner;
    TK_FOR_EACH_ROW(row, c.s.batch * c.s.groups, TK_ROW_THREADS) {
        const S *x = (const S *)c.in.x + row * n;
        double mean = 0, square = 0;
        for (int64_t i = threadIdx.x; i < n; i += TK_ROW_THREADS)
            mean += (double)tk_number_of(x[i]);
        mean = tk_team_sum<TK_ROW_THREADS>(mean, parts) / (double)n;
        for (int64_t i = threadIdx.x; i < n; i += TK_ROW_THREADS) {
            const double d = (double)tk_number_of(x[i]) - mean;
            square += d * d;
        }
        square = tk_team_sum<TK_ROW_THREADS>(square, parts) / (double)n;
        const moments<T> m = {(T)mean, (T)(1 / sqrt(square + c.s.epsilon))};
        for (int64_t i = threadIdx.x; i < n; i += TK_ROW_THREADS)
            ((S *)c.out.y)[row * n + i] = normalized(c, x[i], m, row % c.s.groups * channels + i / c.s.inner);
    }
}

template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) lrn_elements(channel_args c) {
    const S *inp = (const S *)c.in.x;
    TK_FOR_EACH(i, c.s.batch * c.s.channels * c.s.inner) {
        const int64_t channel = i / c.s.inner % c.s.channels, before = (c.s.size - 1) / 2, behind = c.s.size / 2;
        const int64_t first = channel < before ? -channel : -before,
                      last = c.s.channels - 1 - channel < behind ? c.s.channels - 1 - channel : behind;
        double sum = 0;
        for (int64_t k = first; k <= last; k++) {
            const double x = (double)tk_number_of(inp[i + k * c.s.inner]);
            sum += x * x;
        }
        ((S *)c.out.y)[i] = tk_element_of<S>(
            (tk_math<S>)((double)tk_number_of(inp[i]) / pow(c.s.add + c.s.alpha / (double)c.s.size * sum, c.s.beta)));
    }
}

void tk_cuda_batch_norm(tk_queue *q, tk_channel_results out, tk_channel_operands in, const tk_channels *s) {
    const channel_args c = {out, in, *s};
    const int64_t n = s->batch * s->channels * s->inner;
    const dim3 block = tk_column_block(s->inner == 1 ? s->channels : 1);
    const unsigned blocks = (unsigned)((s->channels + block.x - 1) / block.x);
    if (s->train && s->channels > 0)
        TK_FLOATS(s->dtype, S, TK_LAUNCH(batch_channels<S>, blocks, block, 0, q, c))
    else if (!s->train && n > 0)
        TK_FLOATS(s->dtype, S, TK_LAUNCH(batch_elements<S>, tk_blocks(q, n, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c))
}

void tk_cuda_group_norm(tk_queue *q, tk_channel_results out, tk_channel_operands in, const tk_channels *s) {
    const channel_args c = {out, in, *s};
    if (s->batch * s->channels * s->inner > 0)
        TK_FLOATS(
            s->dtype, S,
            TK_LAUNCH(group_rows<S>, tk_row_blocks(s->batch * s->groups, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c))
}

void tk_cuda_lrn(tk_queue *q, tk_channel_results out, tk_channel_operands in, const tk_channels *s) {
    const channel_args c = {out, in, *s};
    const int64_t n = s->batch * s->channels * s->inner;
    if (n > 0)
        TK_FLOATS(s->dtype, S, TK_LAUNCH(lrn_elements<S>, tk_blocks(q, n, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c))
}
