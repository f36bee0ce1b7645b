/* select_cuda.cu: on a CUDA device, the ops of the elementwise family that don't fit the tables: Pow, whose operands
 * differ in type; Clip, with its bounds as operands; Where; the division that ends Mean; and sums of 16-bit types. */
#include "../cuda/any_type.cuh"
#include "../cuda/walk.cuh"
extern "C" {
#include "elementwise.h"
#include "pow_math.h"
TK_ELEMENTWISE_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

/* --- Pow ---------------------------------------------------------------------------------------- */

/* An integer power of an integer; any other is taken in double. */
template <class S>
static __device__ __forceinline__ S int_power(S base, const void *exponent, tk_dtype type, int64_t i) {
    const bool whole = type != TK_F32 && type != TK_F64 && type != TK_F16 && type != TK_BF16;
    return (S)(whole ? (int64_t)tk_int_power(base, tk_any_integer(exponent, type, i))
                     : tk_int_of_power(pow((double)base, tk_any_number(exponent, type, i))));
}
template <class S> static __device__ __forceinline__ S power(S base, const void *exponent, tk_dtype type, int64_t i) {
    typedef tk_math<S> T;
    const T x = tk_number_of(base);
    const double e = tk_any_number(exponent, type, i);
    return tk_element_of<S>(e == 2 ? x * x : (T)pow((double)x, e));
}
template <> __device__ __forceinline__ int32_t power(int32_t base, const void *exponent, tk_dtype type, int64_t i) {
    return int_power(base, exponent, type, i);
}
template <> __device__ __forceinline__ int64_t power(int64_t base, const void *exponent, tk_dtype type, int64_t i) {
    return int_power(base, exponent, type, i);
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    raise(S *out, const S *base, const void *exponent, tk_dtype type, const __grid_constant__ tk_walk<2> walk) {
    TK_FOR_EACH(i, walk.items) {
        const tk_spots<2> from = tk_spots_of(walk, i);
        out[i] = power<S>(base[from.at[0]], exponent, type, from.at[1]);
    }
}

template <class S>
static void run_pow(tk_queue *q, void *out, const void *base, const void *exponent, tk_dtype type, const tk_bcast *bc) {
    TK_LAUNCH((raise<S>), tk_blocks(q, bc->count, THREADS), THREADS, 0, q, (S *)out, (const S *)base, exponent, type,
              tk_walk_of<2>(bc));
}

} // namespace

void tk_cuda_pow(tk_queue *q, void *out, const void *base, tk_dtype dtype, const void *exponent,
                 tk_dtype exponent_dtype, const tk_bcast *bc) {
    if (bc->count == 0)
        return;
    switch ((int)dtype) {
        TK_FLOAT_CASES(S, run_pow<S>(q, out, base, exponent, exponent_dtype, bc))
        TK_CASE(TK_I32, int32_t, S, run_pow<S>(q, out, base, exponent, exponent_dtype, bc))
        TK_CASE(TK_I64, int64_t, S, run_pow<S>(q, out, base, exponent, exponent_dtype, bc))
    }
}

/* --- Clip --------------------------------------------------------------------------------------- */

namespace {

template <class S> static __device__ __forceinline__ S clipped(S x, const S *low, const S *high) {
    if (low && tk_number_of(x) < tk_number_of(*low))
        x = *low;
    if (high && tk_number_of(x) > tk_number_of(*high))
        x = *high;
    return x;
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    clip(S *out, const S *inp, const S *low, const S *high, int64_t n, int64_t packs) {
    constexpr int N = tk_pack_size<S>;
    TK_FOR_EACH(p, packs) {
        tk_pack<S, N> x = tk_load_pack<N>(inp + p * N);
#pragma unroll
        for (int k = 0; k < N; k++)
            x.at[k] = clipped(x.at[k], low, high);
        tk_store_pack(out + p * N, x);
    }
    TK_FOR_EACH(i, n - packs * N) { out[packs * N + i] = clipped(inp[packs * N + i], low, high); }
}

template <class S>
static void run_clip(tk_queue *q, void *out, const void *inp, const void *low, const void *high, int64_t n) {
    const int64_t packs = tk_is_packed(out, inp) ? n / tk_pack_size<S> : 0;
    TK_LAUNCH((clip<S>), tk_blocks(q, n, THREADS, tk_pack_size<S>), THREADS, 0, q, (S *)out, (const S *)inp,
              (const S *)low, (const S *)high, n, packs);
}

} // namespace

void tk_cuda_clip(tk_queue *q, void *out, const void *inp, const void *low, const void *high, int64_t n,
                  tk_dtype dtype) {
    if (n > 0)
        TK_NUMBERS(dtype, S, run_clip<S>(q, out, inp, low, high, n))
}

/* --- Where -------------------------------------------------------------------------------------- */

namespace {

template <class S, int N>
__global__ void __launch_bounds__(THREADS)
    where(S *out, const uint8_t *cond, const S *a, const S *b, const __grid_constant__ tk_walk<3> walk, int64_t rest) {
    const int last = walk.rank - 1;
    const int64_t last_cond = walk.strides[0][last], last_a = walk.strides[1][last], last_b = walk.strides[2][last];
    TK_FOR_EACH(i, walk.items) {
        const tk_spots<3> from = tk_spots_of(walk, i);
        const tk_pack<uint8_t, N> chosen = tk_load_spread<N>(cond + from.at[0], last_cond == 0);
        tk_pack<S, N> x = tk_load_spread<N>(a + from.at[1], last_a == 0);
        const tk_pack<S, N> y = tk_load_spread<N>(b + from.at[2], last_b == 0);
#pragma unroll
        for (int k = 0; k < N; k++)
            x.at[k] = chosen.at[k] ? x.at[k] : y.at[k];
        tk_store_pack(out + i * N, x);
    }
    TK_FOR_EACH(i, rest) {
        const int64_t at = walk.items * N + i;
        out[at] = cond[last_cond ? at : 0] ? a[last_a ? at : 0] : b[last_b ? at : 0];
    }
}

template <class S, int N>
static void run_where(tk_queue *q, void *out, const void *cond, const void *a, const void *b, const tk_bcast *bc) {
    const tk_walk<3> walk = tk_walk_of<3>(bc, N);
    TK_LAUNCH((where<S, N>), tk_blocks(q, bc->count, THREADS, N), THREADS, 0, q, (S *)out, (const uint8_t *)cond,
              (const S *)a, (const S *)b, walk, bc->count - walk.items * N);
}

} // namespace

void tk_cuda_where(tk_queue *q, void *out, const void *cond, const void *a, const void *b, size_t size,
                   const tk_bcast *bc) {
    const int last = bc->rank - 1;
    const bool spread[] = {bc->strides[0][last] == 0, bc->strides[1][last] == 0, bc->strides[2][last] == 0};
    const bool aligned = tk_is_packed(out, spread[1] ? nullptr : a, spread[2] ? nullptr : b) &&
                         (spread[0] || (uintptr_t)cond % (16 / size) == 0);
    if (bc->count == 0)
        return;
    if (aligned && tk_is_packed_walk(bc, (int)(16 / size)))
        TK_SIZES(size, S, run_where<S, tk_pack_size<S>>(q, out, cond, a, b, bc))
    else
        TK_SIZES(size, S, run_where<S, 1>(q, out, cond, a, b, bc))
}

/* --- the division that ends Mean ---------------------------------------------------------------- */

namespace {

template <class S> __global__ void __launch_bounds__(THREADS) divide(S *out, int64_t n, S divisor) {
    TK_FOR_EACH(i, n) { out[i] /= divisor; }
}

} // namespace

void tk_cuda_divide(tk_queue *q, void *out, int64_t n, double divisor, tk_dtype dtype) {
    const unsigned blocks = tk_blocks(q, n, THREADS);
    if (n == 0)
        return;
    if (dtype == TK_F32)
        TK_LAUNCH((divide<float>), blocks, THREADS, 0, q, (float *)out, n, (float)divisor);
    else
        TK_LAUNCH((divide<double>), blocks, THREADS, 0, q, (double *)out, n, divisor);
}

/* --- sums of 16-bit types ------------------------------------------------------------------------- */

namespace {

/* A launch adds so many operands, whatever their dims, or many that are simple; its parameters are about 4 KiB. A sum
 * of more goes on from its result, which is then rounded more than once, and lies over none but the first of them. */
enum { FEW = 4, MANY = 32, SIMPLE_RANK = 4 };

template <int MOST, int RANK> struct operands {
    int count;
    const void *data[MOST];
    tk_walk<1, RANK> walk[MOST];
};

template <class S, int MOST, int RANK, int N>
__global__ void __launch_bounds__(THREADS)
    half_sum(S *out, const __grid_constant__ operands<MOST, RANK> of, int64_t items, int64_t rest, float divisor) {
    TK_FOR_EACH(i, items) {
        float sum[N] = {};
        for (int j = 0; j < of.count; j++) {
            const tk_walk<1, RANK> &walk = of.walk[j];
            const S *from = (const S *)of.data[j] + tk_spots_of(walk, i).at[0];
            const tk_pack<S, N> x = tk_load_spread<N>(from, walk.strides[0][walk.rank - 1] == 0);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] += tk_number_of(x.at[k]);
        }
        tk_pack<S, N> y;
#pragma unroll
        for (int k = 0; k < N; k++)
            y.at[k] = tk_element_of<S>(sum[k] / divisor);
        tk_store_pack(out + i * N, y);
    }
    TK_FOR_EACH(i, rest) {
        const int64_t at = items * N + i;
        float sum = 0;
        for (int j = 0; j < of.count; j++)
            sum += tk_number_of(((const S *)of.data[j])[of.walk[j].strides[0][0] ? at : 0]);
        out[at] = tk_element_of<S>(sum / divisor);
    }
}

/* Operands that are added by one launch. */
typedef struct terms {
    const void *data[MANY];
    const tk_bcast *bc[MANY];
    int count;
} terms;

template <class S, int MOST, int RANK, int N>
static void run_half_sum(tk_queue *q, void *out, const terms *t, double divisor) {
    operands<MOST, RANK> of = {};
    const int64_t items = t->bc[0]->count / N;
    of.count = t->count;
    for (int j = 0; j < t->count; j++) {
        of.data[j] = t->data[j];
        of.walk[j] = tk_walk_of<1, RANK>(t->bc[j], N);
    }
    TK_LAUNCH((half_sum<S, MOST, RANK, N>), tk_blocks(q, t->bc[0]->count, THREADS, N), THREADS, 0, q, (S *)out, of,
              items, t->bc[0]->count - items * N, (float)divisor);
}

static void add_terms(tk_queue *q, void *out, const terms *t, int most, double divisor, tk_dtype dtype) {
    constexpr int N = tk_pack_size<tk_half>;
    bool packed = tk_is_packed(out);
    for (int j = 0; j < t->count; j++) {
        const bool spread = t->bc[j]->strides[0][t->bc[j]->rank - 1] == 0;
        packed = packed && (spread || tk_is_packed(t->data[j])) && tk_is_packed_walk(t->bc[j], N);
    }
    if (packed && most == MANY)
        TK_HALF_FLOATS(dtype, S, run_half_sum<S, MANY, SIMPLE_RANK, N>(q, out, t, divisor))
    else if (packed)
        TK_HALF_FLOATS(dtype, S, run_half_sum<S, FEW, TK_MAX_RANK, N>(q, out, t, divisor))
    else if (most == MANY)
        TK_HALF_FLOATS(dtype, S, run_half_sum<S, MANY, SIMPLE_RANK, 1>(q, out, t, divisor))
    else
        TK_HALF_FLOATS(dtype, S, run_half_sum<S, FEW, TK_MAX_RANK, 1>(q, out, t, divisor))
}

} // namespace

void tk_cuda_half_sum(tk_queue *q, void *out, const void *const *inp, const tk_bcast *bc, int count, double divisor,
                      tk_dtype dtype) {
    const tk_shape shape = {1, &bc[0].count};
    tk_bcast whole;
    terms t = {};
    int most = MANY;
    if (bc[0].count == 0)
        return;
    tk_bcast_init(&whole, shape, &shape, 1);
    for (int j = 0; j < count; j++)
        most = bc[j].rank > SIMPLE_RANK ? FEW : most;
    for (int j = 0; j < count; j++) {
        if (t.count == most) { /* the sum so far is an operand of the next launch */
            add_terms(q, out, &t, most, 1, dtype);
            t.count = 1;
            t.data[0] = out;
            t.bc[0] = &whole;
        }
        t.data[t.count] = inp[j];
        t.bc[t.count++] = &bc[j];
    }
    add_terms(q, out, &t, most, divisor, dtype);
}
