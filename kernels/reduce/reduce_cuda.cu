/* reduce_cuda.cu: reductions as rows (the last dim is reduced: 4 to 256 threads a row) or columns (it is kept: packs of
 * neighbouring columns, threads of a block on different rows). Floats are summed by sixteen in float, those sums in
 * double. Few long rows or columns are cut into chunks, whose sums stand in the workspace until a second kernel adds
 * them up. The order of sums depends on shapes only: not on the device, nor on how operands are aligned. */
#include "../cuda/walk.cuh"
extern "C" {
#include "../movement/movement.h"
#include "reduce.h"
TK_REDUCE_KERNELS(TK_DECLARE_CUDA)
TK_REDUCE_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
TK_MOVEMENT_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256, PART = 16, AT_ONCE = 4 }; /* PART: terms that are summed in float */

/* --- reducers ------------------------------------------------------------------------------------- */

template <class S> constexpr bool is_float = tk_is_16_bit<S>;
template <> constexpr bool is_float<float> = true;
template <> constexpr bool is_float<double> = true;
template <class S> constexpr bool is_signed = is_float<S>;
template <> constexpr bool is_signed<int8_t> = true;
template <> constexpr bool is_signed<int32_t> = true;
template <> constexpr bool is_signed<int64_t> = true;

__device__ __forceinline__ double finite_or_0(double m) { return m - m == 0 ? m : 0; }

/* A reducer has the types part, of up to PART terms, and acc, of results; start, of both; map, of an element and, for
 * LogSumExp, the largest one; join, of two of a type; finish. This one has Sum and Mean of floats. */
template <class S> struct plain {
    typedef tk_math<S> part;
    typedef double acc;
    static __device__ __forceinline__ double start(tk_reduce_op) { return 0; }
    static __device__ __forceinline__ part map(part x, part, tk_reduce_op) { return x; }
    template <class T> static __device__ __forceinline__ T join(T a, T b, tk_reduce_op) { return a + b; }
    static __device__ __forceinline__ S finish(double acc, tk_math<S>, int64_t count, tk_reduce_op op) {
        return tk_element_of<S>((tk_math<S>)(op == TK_REDUCE_MEAN ? acc / (double)count : acc));
    }
};

/* Every reduction of floats, and LogSumExp of any type. P: double for LogSumExp and products. NaN wins in Max and
 * Min. */
template <class S, class P> struct general {
    typedef P part;
    typedef double acc;
    typedef tk_math<S> number;
    static __device__ __forceinline__ double start(tk_reduce_op op) {
        return op == TK_REDUCE_MAX ? -INFINITY : op == TK_REDUCE_MIN ? INFINITY : op == TK_REDUCE_PROD ? 1 : 0;
    }
    static __device__ __forceinline__ P map(number x, number m, tk_reduce_op op) {
        switch (op) {
        case TK_REDUCE_L1: return (P)fabs((P)x);
        case TK_REDUCE_L2:
        case TK_REDUCE_SUM_SQUARE: return (P)x * (P)x;
        case TK_REDUCE_LOG_SUM_EXP:
            return sizeof(number) == 8 || !is_float<S> ? (P)exp((double)x - finite_or_0((double)m))
                                                       : (P)tk_expf((float)x - (float)finite_or_0((double)m));
        default: return (P)x;
        }
    }
    template <class T> static __device__ __forceinline__ T join(T a, T b, tk_reduce_op op) {
        switch (op) {
        case TK_REDUCE_MAX: return b > a || b != b ? b : a;
        case TK_REDUCE_MIN: return b < a || b != b ? b : a;
        case TK_REDUCE_PROD: return a * b;
        default: return a + b;
        }
    }
    static __device__ __forceinline__ S finish(double acc, number m, int64_t count, tk_reduce_op op) {
        switch (op) {
        case TK_REDUCE_MEAN: acc /= (double)count; break;
        case TK_REDUCE_L2: acc = sqrt(acc); break;
        case TK_REDUCE_LOG_SUM: acc = log(acc); break;
        case TK_REDUCE_LOG_SUM_EXP: acc = log(acc) + finite_or_0((double)m); break;
        default: break;
        }
        return tk_element_of<S>((number)acc);
    }
};

/* Integers: sums and products modulo 2^64, cut to the type's bits. */
template <class S> struct wide_of { typedef uint64_t type; };
template <> struct wide_of<int8_t> { typedef int64_t type; };
template <> struct wide_of<int32_t> { typedef int64_t type; };
template <> struct wide_of<int64_t> { typedef int64_t type; };
template <class S> struct whole {
    typedef typename wide_of<S>::type part, acc;
    static __device__ __forceinline__ acc start(tk_reduce_op op) {
        const uint64_t highest = UINT64_MAX >> ((is_signed<S> ? 65 : 64) - 8 * sizeof(S));
        switch (op) {
        case TK_REDUCE_MAX: return is_signed<S> ? (acc)~highest : (acc)0;
        case TK_REDUCE_MIN: return (acc)highest;
        default: return op == TK_REDUCE_PROD ? 1 : 0;
        }
    }
    static __device__ __forceinline__ part map(S x, S, tk_reduce_op op) {
        const uint64_t bits = (uint64_t)x;
        switch (op) {
        case TK_REDUCE_L1: return (part)(x < (S)1 ? 0 - bits : bits); /* an unsigned number below 1 is 0 */
        case TK_REDUCE_L2:
        case TK_REDUCE_SUM_SQUARE: return (part)(bits * bits);
        default: return (part)x;
        }
    }
    static __device__ __forceinline__ acc join(acc a, acc b, tk_reduce_op op) {
        switch (op) {
        case TK_REDUCE_MAX: return b > a ? b : a;
        case TK_REDUCE_MIN: return b < a ? b : a;
        case TK_REDUCE_PROD: return (acc)((uint64_t)a * (uint64_t)b);
        default: return (acc)((uint64_t)a + (uint64_t)b);
        }
    }
    /* Squares and sums whose roots and logarithms are taken wrap in the type, without a sign. */
    static __device__ __forceinline__ S finish(acc all, S, int64_t count, tk_reduce_op op) {
        const double sum = (double)(sizeof(S) == 8 ? (uint64_t)all : (uint64_t)(uint32_t)all);
        switch (op) {
        case TK_REDUCE_MEAN: return count ? (S)((S)all / (S)count) : (S)0;
        case TK_REDUCE_L2: return (S)sqrt(sum);
        case TK_REDUCE_LOG_SUM: return (S)log(sum);
        default: return (S)all;
        }
    }
};

/* --- shapes --------------------------------------------------------------------------------------- */

typedef struct reduce_shape {
    int64_t n_out, n_each, inner;
    tk_divisor run, chunks;
    int64_t chunk; /* elements of each result in a chunk */
    tk_walk<1> outer, reduced;
    tk_reduce_op op;
} reduce_shape;

/* Blocks that fill a device, and elements that are worth one. */
enum { WANTED = 1024, WORTH = 1 << 15, STEP = THREADS * PART, COLUMNS = 256 };

static bool is_rows(const tk_reduction *r) { return r->inner == 1; }

/* How many elements of each result make a chunk. */
static int64_t chunk_of(const tk_reduction *r) {
    const int64_t across = r->inner < COLUMNS ? r->inner : (int64_t)COLUMNS;
    const int64_t blocks = is_rows(r) ? r->n_out : r->n_out / r->inner * ((r->inner + COLUMNS - 1) / COLUMNS);
    const int64_t most = (r->n_each * across + WORTH - 1) / WORTH;
    const int64_t wanted = blocks > 0 ? (int64_t)WANTED / blocks : 1;
    const int64_t chunks = wanted < 1 ? 1 : wanted < most ? wanted : most;
    const int64_t chunk = chunks > 1 ? (r->n_each + chunks - 1) / chunks : r->n_each;
    return is_rows(r) && chunks > 1 ? (chunk + STEP - 1) / STEP * STEP : chunk > 0 ? chunk : 1;
}

static int64_t chunks_of(const tk_reduction *r) {
    const int64_t chunk = chunk_of(r);
    return r->n_each > chunk ? (r->n_each + chunk - 1) / chunk : 1;
}

static tk_walk<1> walk_of(int rank, const int64_t *dims, const int64_t *strides) {
    const int64_t *const of_inp[] = {strides};
    return tk_walk_of<1>(rank, dims, of_inp);
}

static reduce_shape shape_of(const tk_reduction *r, tk_reduce_op op) {
    return reduce_shape{r->n_out,
                        r->n_each,
                        r->inner,
                        tk_divisor_of(r->run),
                        tk_divisor_of(chunks_of(r)),
                        chunk_of(r),
                        walk_of(r->n_outer, r->outer, r->outer_strides),
                        walk_of(r->n_reduced, r->reduced, r->reduced_strides),
                        op};
}

} // namespace

size_t tk_cuda_reduce_workspace(const tk_reduction *r) {
    const int64_t chunks = chunks_of(r);
    return chunks > 1 ? (size_t)(chunks * r->n_out) * sizeof(double) : 0;
}

namespace {

/* --- rows ----------------------------------------------------------------------------------------- */

/* Where the e-th reduced element of a row is. */
__device__ __forceinline__ int64_t element_at(const reduce_shape &s, int64_t e) {
    if (s.reduced.rank == 0)
        return e;
    const int64_t at = tk_split(e, s.run);
    return tk_spots_of(s.reduced, e).at[0] + at;
}

/* A thread's part of elements [begin, end): groups of 16 bytes in turn with the other threads of the row, whether they
 * are read as packs or not. */
template <class S, class R>
__device__ __forceinline__ typename R::acc of_row(const S *row, tk_math<S> most, const reduce_shape &s, int64_t begin,
                                                  int64_t end, int lane, int width, bool packed) {
    typedef typename R::part part;
    constexpr int N = tk_pack_size<S>, U = PART > N ? PART / N : 1;
    typename R::acc acc = (typename R::acc)R::start(s.op);
    for (int64_t at = begin + lane * N; at < end; at += U * width * N) {
        part p = (part)R::start(s.op);
        if (packed) {
            tk_pack<S, N> x[U];
#pragma unroll
            for (int u = 0; u < U; u++)
                if (at + u * width * N < end)
                    x[u] = tk_load_pack<N>(row + element_at(s, at + u * width * N));
#pragma unroll
            for (int u = 0; u < U; u++)
                if (at + u * width * N < end)
#pragma unroll
                    for (int j = 0; j < N; j++)
                        p = R::join(p, R::map(tk_number_of(x[u].at[j]), most, s.op), s.op);
        } else {
#pragma unroll 2
            for (int k = 0; k < U * N; k++) {
                const int64_t e = at + k / N * width * N + k % N;
                if (e < end)
                    p = R::join(p, R::map(tk_number_of(row[element_at(s, e)]), most, s.op), s.op);
            }
        }
        acc = R::join(acc, (typename R::acc)p, s.op);
    }
    return acc;
}

/* Over `width` neighbouring threads, a power of two; the first of them has the result. parts: of shared memory. */
template <class R>
__device__ __forceinline__ typename R::acc of_threads(typename R::acc acc, int width, typename R::acc *parts,
                                                      tk_reduce_op op) {
    typedef typename R::acc A;
    for (int d = (width < TK_WARP ? width : TK_WARP) / 2; d > 0; d /= 2)
        acc = R::join(acc, (A)__shfl_xor_sync(TK_ALL_LANES, acc, d), op);
    if (width <= TK_WARP)
        return acc;
    __syncthreads();
    if (threadIdx.x % TK_WARP == 0)
        parts[threadIdx.x / TK_WARP] = acc;
    __syncthreads();
    acc = parts[0];
    for (int w = 1; w < THREADS / TK_WARP; w++)
        acc = R::join(acc, parts[w], op);
    return acc;
}

/* most: of each result, or NULL; it may be out. partial: [chunks, n_out], NULL: there is one chunk. width: threads of a
 * row, 4 to 32 or THREADS. */
template <class S, class R>
__global__ void __launch_bounds__(THREADS) rows(S *out, typename R::acc *partial, const S *inp, const S *most,
                                                const __grid_constant__ reduce_shape s, int width, bool packed) {
    __shared__ typename R::acc parts[THREADS / TK_WARP];
    const int64_t pieces = s.n_out * s.chunks.by, per_block = THREADS / width;
    for (int64_t first = blockIdx.x * per_block; first < pieces; first += gridDim.x * per_block) {
        int64_t row = first + (int)threadIdx.x / width;
        const bool is_there = row < pieces;
        const int lane = (int)threadIdx.x % width;
        typename R::acc acc = (typename R::acc)R::start(s.op);
        const int64_t chunk = is_there ? tk_split(row, s.chunks) : 0, begin = chunk * s.chunk;
        const tk_math<S> m = most && is_there ? tk_number_of(most[row]) : (tk_math<S>)0;
        if (is_there)
            acc = of_row<S, R>(inp + tk_spots_of(s.outer, row).at[0], m, s, begin,
                               begin + s.chunk < s.n_each ? begin + s.chunk : s.n_each, lane, width, packed);
        acc = of_threads<R>(acc, width, parts, s.op);
        __syncwarp(); /* all threads have read `most`, over which the result may lie */
        if (is_there && lane == 0 && partial)
            partial[chunk * s.n_out + row] = acc;
        else if (is_there && lane == 0)
            out[row] = R::finish(acc, m, s.n_each, s.op);
    }
}

/* --- columns -------------------------------------------------------------------------------------- */

/* Which columns of a tile a thread has: N neighbours where they are read as packs, else every lanes-th. */
template <int N> __device__ __forceinline__ int column_of(int lane, int lanes, int j, bool packed) {
    return packed ? lane * N + j : j * lanes + lane;
}

/* Rows begin, begin + step, ... of a thread's columns joined to acc. n: columns of the tile. */
template <class S, class R, int N>
__device__ __forceinline__ void of_columns(typename R::acc *acc, const S *tile, const tk_math<S> *most,
                                           const reduce_shape &s, int64_t begin, int64_t end, int lane, int lanes,
                                           int64_t n, bool packed) {
    typedef typename R::part part;
    const int step = THREADS / lanes;
    for (int64_t row = begin; row < end;) {
        part p[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            p[j] = (part)R::start(s.op);
        for (int k = 0; k < PART && row < end; k += AT_ONCE, row += AT_ONCE * step) {
            tk_pack<S, N> x[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                const S *from = row + u * step < end ? tile + tk_spots_of(s.reduced, row + u * step).at[0] : nullptr;
                if (from && packed && lane * N < n)
                    x[u] = tk_load_pack<N>(from + lane * N);
                else if (from)
#pragma unroll
                    for (int j = 0; j < N; j++)
                        if (j * lanes + lane < n)
                            x[u].at[j] = from[j * lanes + lane];
            }
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
                for (int j = 0; j < N; j++)
                    if (row + u * step < end && column_of<N>(lane, lanes, j, packed) < n)
                        p[j] = R::join(p[j], R::map(tk_number_of(x[u].at[j]), most[j], s.op), s.op);
        }
#pragma unroll
        for (int j = 0; j < N; j++)
            acc[j] = R::join(acc[j], (typename R::acc)p[j], s.op);
    }
}

/* Over threads that are `lanes` apart; parts [N, THREADS] then have the results of the first `lanes` threads. */
template <class R, int N>
__device__ __forceinline__ void of_block(typename R::acc *acc, int lanes, typename R::acc *parts, tk_reduce_op op) {
    for (int from = THREADS / 2; from >= lanes; from /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < 2 * from)
#pragma unroll
            for (int j = 0; j < N; j++)
                parts[j * THREADS + threadIdx.x] = acc[j];
        __syncthreads();
        if ((int)threadIdx.x < from)
#pragma unroll
            for (int j = 0; j < N; j++)
                acc[j] = R::join(acc[j], parts[j * THREADS + threadIdx.x + from], op);
    }
    __syncthreads();
    if ((int)threadIdx.x < lanes)
#pragma unroll
        for (int j = 0; j < N; j++)
            parts[j * THREADS + threadIdx.x] = acc[j];
    __syncthreads();
}

/* tiles: of lanes packs of columns, in a row. */
template <class S, class R>
__global__ void __launch_bounds__(THREADS) columns(S *out, typename R::acc *partial, const S *inp, const S *most,
                                                   reduce_shape s, tk_divisor tiles, int lanes, bool packed) {
    constexpr int N = tk_pack_size<S>;
    __shared__ typename R::acc parts[N * THREADS];
    const int64_t pieces = s.n_out / s.inner * tiles.by * s.chunks.by;
    const int lane = (int)threadIdx.x % lanes, y = (int)threadIdx.x / lanes;
    for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
        int64_t o = piece;
        const int64_t tile = tk_split(o, tiles) * lanes * N, chunk = tk_split(o, s.chunks);
        const int64_t begin = chunk * s.chunk, end = begin + s.chunk < s.n_each ? begin + s.chunk : s.n_each;
        tk_math<S> m[N];
        typename R::acc acc[N];
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int64_t c = tile + column_of<N>(lane, lanes, j, packed);
            m[j] = most && c < s.inner ? tk_number_of(most[o * s.inner + c]) : (tk_math<S>)0;
            acc[j] = (typename R::acc)R::start(s.op);
        }
        of_columns<S, R, N>(acc, inp + tk_spots_of(s.outer, o).at[0] + tile, m, s, begin + y, end, lane, lanes,
                            s.inner - tile, packed);
        of_block<R, N>(acc, lanes, parts, s.op);
        for (int c = (int)threadIdx.x; c < lanes * N && tile + c < s.inner; c += THREADS) {
            const int64_t to = o * s.inner + tile + c;
            const typename R::acc all =
                packed ? parts[c % N * THREADS + c / N] : parts[c / lanes * THREADS + c % lanes];
            if (partial)
                partial[chunk * s.n_out + to] = all;
            else
                out[to] = R::finish(all, most ? tk_number_of(most[to]) : (tk_math<S>)0, s.n_each, s.op);
        }
        __syncthreads();
    }
}

/* --- chunks --------------------------------------------------------------------------------------- */

template <class S, class R>
__global__ void __launch_bounds__(THREADS)
    join_chunks(S *out, const typename R::acc *partial, const S *most, int64_t n_out, int64_t n_each, int64_t chunks,
                int lanes, tk_reduce_op op) {
    __shared__ typename R::acc parts[THREADS];
    const int lane = (int)threadIdx.x % lanes, y = (int)threadIdx.x / lanes, step = THREADS / lanes;
    for (int64_t first = (int64_t)blockIdx.x * lanes; first < n_out; first += (int64_t)gridDim.x * lanes) {
        const int64_t to = first + lane;
        typename R::acc acc = (typename R::acc)R::start(op);
        for (int64_t c = y; c < chunks && to < n_out; c += step)
            acc = R::join(acc, partial[c * n_out + to], op);
        of_block<R, 1>(&acc, lanes, parts, op);
        if (y == 0 && to < n_out)
            out[to] = R::finish(parts[lane], most ? tk_number_of(most[to]) : (tk_math<S>)0, n_each, op);
        __syncthreads();
    }
}

/* --- launches ------------------------------------------------------------------------------------- */

/* The smallest power of two from `least` up to `most` that is n or more. */
static int power_from(int64_t n, int least, int most) {
    while (least < n && least < most)
        least *= 2;
    return least;
}

static bool is_multiple(const tk_walk<1> &w, int64_t n) {
    for (int d = 0; d < w.rank; d++)
        if (w.strides[0][d] % n != 0)
            return false;
    return true;
}

template <class S, class R>
static void reduce(tk_queue *q, void *out_, const void *inp_, const void *most_, const tk_reduction *r, tk_reduce_op op,
                   void *workspace) {
    constexpr int N = tk_pack_size<S>;
    typedef typename R::acc A;
    S *out = (S *)out_;
    const S *inp = (const S *)inp_, *most = (const S *)most_;
    const reduce_shape s = shape_of(r, op);
    A *partial = s.chunks.by > 1 ? (A *)workspace : nullptr;
    const bool aligned = tk_is_packed(inp) && is_multiple(s.outer, N) && is_multiple(s.reduced, N);
    if (is_rows(r)) {
        const int width =
            r->n_each > 4 * TK_WARP * PART ? THREADS : power_from((r->n_each + PART - 1) / PART, 4, TK_WARP);
        const int64_t pieces = s.n_out * s.chunks.by;
        TK_LAUNCH((rows<S, R>), tk_blocks(q, pieces, THREADS / width), THREADS, 0, q, out, partial, inp, most, s, width,
                  aligned && r->run % N == 0);
    } else {
        const int lanes = power_from((r->inner + N - 1) / N, 1, TK_WARP);
        const int64_t tiles = (r->inner + lanes * N - 1) / (lanes * N),
                      pieces = r->n_out / r->inner * tiles * s.chunks.by;
        TK_LAUNCH((columns<S, R>), tk_blocks(q, pieces, 1), THREADS, 0, q, out, partial, inp, most, s,
                  tk_divisor_of(tiles), lanes, aligned && r->inner % N == 0);
    }
    if (!partial)
        return;
    const int lanes = power_from(r->n_out, 1, TK_WARP);
    TK_LAUNCH((join_chunks<S, R>), tk_blocks(q, r->n_out, lanes), THREADS, 0, q, out, partial, most, r->n_out,
              r->n_each, s.chunks.by, lanes, op);
}

template <class S>
static void reduce_floats(tk_queue *q, void *out, const void *inp, const tk_reduction *r, tk_reduce_op op, void *w) {
    switch (op) {
    case TK_REDUCE_SUM:
    case TK_REDUCE_MEAN: reduce<S, plain<S>>(q, out, inp, nullptr, r, op, w); break;
    case TK_REDUCE_PROD: reduce<S, general<S, double>>(q, out, inp, nullptr, r, op, w); break;
    case TK_REDUCE_LOG_SUM_EXP:
        if (r->n_each > 0)
            reduce<S, general<S, tk_math<S>>>(q, out, inp, nullptr, r, TK_REDUCE_MAX, w);
        reduce<S, general<S, double>>(q, out, inp, r->n_each > 0 ? out : nullptr, r, op, w);
        break;
    default: reduce<S, general<S, tk_math<S>>>(q, out, inp, nullptr, r, op, w);
    }
}

template <class S>
static void reduce_whole(tk_queue *q, void *out, const void *inp, const tk_reduction *r, tk_reduce_op op, void *w) {
    const bool is_exp = op == TK_REDUCE_LOG_SUM_EXP, has_most = is_exp && r->n_each > 0;
    if (!is_exp || has_most)
        reduce<S, whole<S>>(q, out, inp, nullptr, r, is_exp ? TK_REDUCE_MAX : op, w);
    if (is_exp)
        reduce<S, general<S, double>>(q, out, inp, has_most ? out : nullptr, r, op, w);
}

} // namespace

void tk_cuda_reduce(tk_queue *q, void *out, const void *inp, const tk_reduction *r, tk_reduce_op op, tk_dtype dtype,
                    void *workspace) {
    const uint8_t all = op == TK_REDUCE_MIN;
    if (r->n_out == 0)
        return;
    if (dtype == TK_BOOL && r->n_each == 0) {
        tk_cuda_fill(q, out, &all, r->n_out, 1);
        return;
    }
    switch ((int)dtype) {
        TK_FLOAT_CASES(S, reduce_floats<S>(q, out, inp, r, op, workspace))
        TK_CASE(TK_I32, int32_t, S, reduce_whole<S>(q, out, inp, r, op, workspace))
        TK_CASE(TK_U32, uint32_t, S, reduce_whole<S>(q, out, inp, r, op, workspace))
        TK_CASE(TK_I64, int64_t, S, reduce_whole<S>(q, out, inp, r, op, workspace))
        TK_CASE(TK_U64, uint64_t, S, reduce_whole<S>(q, out, inp, r, op, workspace))
        TK_CASE(TK_I8, int8_t, S, reduce<S, whole<S>>(q, out, inp, nullptr, r, op, workspace))
        TK_CASE(TK_U8, uint8_t, S, reduce<S, whole<S>>(q, out, inp, nullptr, r, op, workspace))
        TK_CASE(TK_BOOL, uint8_t, S, reduce<S, whole<S>>(q, out, inp, nullptr, r, op, workspace))
    }
}
