/* log_softmax_cuda.cu: LogSoftmax, statistics of rows, and the single elements of LogSoftmax that a loss reads: all
 * from one walk over the rows, so that none of them depends on which others are wanted. */
#include "softmax_device.cuh"

template <class S> struct log_softmax_args {
    S *out; /* each of the four may be NULL */
    tk_math<S> *largest, *log_sum, *picked;
    const S *inp;
    const void *labels;
    bool has_wide_labels; /* int64, else int32 */
    tk_softmax_shape s;
    bool packed;
};

template <class S> __device__ __forceinline__ int64_t label_of(const log_softmax_args<S> &c, int64_t place) {
    return !c.picked           ? -1
           : c.has_wide_labels ? static_cast<const int64_t *>(c.labels)[place]
                               : static_cast<const int32_t *>(c.labels)[place];
}

template <class S>
__device__ __forceinline__ void put_statistics(const log_softmax_args<S> &c, int64_t place, tk_math<S> largest,
                                               tk_math<S> log_sum) {
    if (c.largest)
        c.largest[place] = largest;
    if (c.log_sum)
        c.log_sum[place] = log_sum;
}

template <class S, int TEAM, int PER>
__global__ void __launch_bounds__(TK_ROW_THREADS) log_softmax_rows(log_softmax_args<S> c) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    __shared__ T parts[TK_ROW_THREADS / TK_WARP];
    const int64_t n = c.s.n;
    TK_FOR_EACH_ROW(row, c.s.outer, TEAM) {
        T v[PER][N], sum = 0;
        const int64_t label = label_of(c, row);
        const T largest = tk_team_max<TEAM>(tk_softmax_load<S, TEAM, PER>(v, c.inp + row * n, n, c.packed), parts);
#pragma unroll
        for (int p = 0; p < PER; p++)
#pragma unroll
            for (int k = 0; k < N; k++)
                sum += tk_softmax_exp<S>::of(v[p][k] - largest);
        const T log_sum = tk_log_of(tk_team_sum<TEAM>(sum, parts));
        if (threadIdx.x % TEAM == 0)
            put_statistics(c, row, largest, log_sum);
#pragma unroll
        for (int p = 0; p < PER; p++) {
            const int64_t at = tk_row_at<S, TEAM>(p);
            tk_pack<S, N> y;
#pragma unroll
            for (int k = 0; k < N; k++)
                y.at[k] = tk_element_of<S>((v[p][k] - largest) - log_sum);
            if (c.out)
                tk_row_store(c.out + row * n, at, n, c.packed, y);
            if (label >= at && label < at + N && label < n)
#pragma unroll
                for (int k = 0; k < N; k++)
                    if (label == at + k)
                        c.picked[row] = (v[p][k] - largest) - log_sum;
        }
    }
}

/* The element that a label picks, read before anything is written over it. */
template <class S>
__device__ __forceinline__ tk_math<S> element_of_label(const log_softmax_args<S> &c, const S *x, int64_t label) {
    return label >= 0 && label < c.s.n ? tk_number_of(x[label * c.s.inner]) : (tk_math<S>)0;
}
template <class S>
__device__ __forceinline__ void put_place(const log_softmax_args<S> &c, int64_t place, int64_t label,
                                          tk_math<S> of_label, tk_math<S> largest, tk_math<S> log_sum) {
    put_statistics(c, place, largest, log_sum);
    if (label >= 0 && label < c.s.n)
        c.picked[place] = (of_label - largest) - log_sum;
}

template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) log_softmax_long_rows(log_softmax_args<S> c) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    __shared__ T parts[TK_ROW_THREADS / TK_WARP];
    const int64_t n = c.s.n;
    TK_FOR_EACH_ROW(row, c.s.outer, TK_ROW_THREADS) {
        const S *x = c.inp + row * n;
        const bool is_first = threadIdx.x == 0;
        const int64_t label = is_first ? label_of(c, row) : -1;
        const T of_label = element_of_label(c, x, label);
        const tk_softmax_sums<T> sums = tk_softmax_long_sums(x, n, c.packed, parts);
        const T log_sum = tk_log_of(sums.sum);
        if (is_first)
            put_place(c, row, label, of_label, sums.largest, log_sum);
        for (int64_t at = tk_row_at<S, TK_ROW_THREADS>(0); c.out && at < n; at += TK_ROW_THREADS * N) {
            tk_pack<S, N> y = tk_row_load(x, at, n, c.packed);
#pragma unroll
            for (int k = 0; k < N; k++)
                y.at[k] = tk_element_of<S>((tk_number_of(y.at[k]) - sums.largest) - log_sum);
            tk_row_store(c.out + row * n, at, n, c.packed, y);
        }
    }
}

template <class S> __global__ void __launch_bounds__(TK_COLUMN_THREADS) log_softmax_columns(log_softmax_args<S> c) {
    typedef tk_math<S> T;
    __shared__ T room[TK_COLUMN_THREADS];
    const tk_softmax_shape s = c.s;
    TK_FOR_EACH_TILE(tile, s.outer, s.inner) {
        const tk_column column = tk_column_of(tile, s.inner);
        const int64_t first = column.outer * s.n * s.inner + column.inner,
                      place = column.outer * s.inner + column.inner;
        const bool is_first = column.is_one && threadIdx.y == 0;
        const int64_t label = is_first ? label_of(c, place) : -1;
        const T of_label = element_of_label(c, c.inp + first, label);
        const tk_softmax_sums<T> sums = tk_softmax_column_sums(c.inp + first, s.n, s.inner, column.is_one, room);
        const T log_sum = tk_log_of(sums.sum);
        if (is_first)
            put_place(c, place, label, of_label, sums.largest, log_sum);
        for (int64_t i = threadIdx.y; c.out && column.is_one && i < s.n; i += blockDim.y)
            c.out[first + i * s.inner] =
                tk_element_of<S>((tk_number_of(c.inp[first + i * s.inner]) - sums.largest) - log_sum);
    }
}

template <class S>
static void log_softmax(tk_queue *q, tk_log_softmax_results out, const void *inp, const void *labels,
                        tk_dtype label_dtype, tk_softmax_shape s) {
    typedef tk_math<S> T;
    const bool packed = tk_is_packed(out.out, inp) && s.n % tk_pack_size<S> == 0;
    const log_softmax_args<S> c = {(S *)out.out,   (T *)out.largest, (T *)out.log_sum,      (T *)out.picked,
                                   (const S *)inp, labels,           label_dtype == TK_I64, s,
                                   packed};
    if (s.inner != 1)
        TK_LAUNCH(log_softmax_columns<S>, tk_column_blocks(s.outer, s.inner), tk_column_block(s.inner), 0, q, c);
    else if (s.n > tk_row_most<S>)
        TK_LAUNCH(log_softmax_long_rows<S>, tk_row_blocks(s.outer, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c);
    else
        TK_ROW_TEAMS(
            S, s.n, TEAM, PER,
            TK_LAUNCH((log_softmax_rows<S, TEAM, PER>), tk_row_blocks(s.outer, TEAM), TK_ROW_THREADS, 0, q, c));
}

void tk_cuda_log_softmax_parts(tk_queue *q, tk_log_softmax_results out, const void *inp, const void *labels,
                               tk_dtype label_dtype, tk_softmax_shape shape, tk_dtype dtype) {
    if (shape.outer > 0 && shape.inner > 0)
        TK_FLOATS(dtype, S, log_softmax<S>(q, out, inp, labels, label_dtype, shape))
}

void tk_cuda_log_softmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype) {
    const tk_log_softmax_results results = {out, nullptr, nullptr, nullptr};
    tk_cuda_log_softmax_parts(q, results, inp, nullptr, TK_I64, shape, dtype);
}

void tk_cuda_softmax_statistics(tk_queue *q, void *largest, void *log_sum, const void *inp, tk_softmax_shape shape,
                                tk_dtype dtype) {
    const tk_log_softmax_results results = {nullptr, largest, log_sum, nullptr};
    tk_cuda_log_softmax_parts(q, results, inp, nullptr, TK_I64, shape, dtype);
}
