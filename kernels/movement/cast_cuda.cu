/* cast_cuda.cu: Cast on a CUDA device. Pairs of types that training steps convert between have a kernel each, which
 * goes through packs of up to 16 bytes; all others share one, which gets the types as arguments. */
#include "../cuda/device.cuh"
extern "C" {
#include "cast.h"
#include "cast_math.h"
#include "movement.h"
TK_CAST_KERNELS(TK_DECLARE_CUDA)
void tk_cuda_copy(tk_queue *q, void *out, const void *inp, size_t bytes);
}

namespace {

enum { THREADS = 256 };

struct flag {
    uint8_t bits;
};
#define TYPES(S, ...)                                                                                                  \
    TK_FLOAT_CASES(S, __VA_ARGS__)                                                                                     \
    TK_INTEGER_CASES(S, __VA_ARGS__)                                                                                   \
    TK_CASE(TK_BOOL, flag, S, __VA_ARGS__)

/* --- an element as a number that holds it: float, double, int64 or uint64 -------------------------- */

static __device__ __forceinline__ float wide_of(float x) { return x; }
static __device__ __forceinline__ float wide_of(tk_half x) { return tk_number_of(x); }
static __device__ __forceinline__ float wide_of(tk_bfloat x) { return tk_number_of(x); }
static __device__ __forceinline__ double wide_of(double x) { return x; }
static __device__ __forceinline__ uint64_t wide_of(uint64_t x) { return x; }
static __device__ __forceinline__ int64_t wide_of(flag x) { return x.bits != 0; }
template <class S> static __device__ __forceinline__ int64_t wide_of(S x) { return x; }

/* --- and such a number as an element: narrow_to<S>(x) ----------------------------------------------- */

template <class S> struct narrow { /* integers of up to 32 bits and int64 */
    static constexpr bool is_signed = (S)-1 < (S)1;
    static constexpr double past = is_signed ? 2.0 * (double)((uint64_t)1 << (8 * sizeof(S) - 2))
                                             : 2.0 * (double)((uint64_t)1 << (8 * sizeof(S) - 1));
    static __device__ __forceinline__ S of(double x) {
        return is_signed ? (S)tk_clamp_signed(x, -past, past) : (S)tk_clamp_unsigned(x, past);
    }
    static __device__ __forceinline__ S of(float x) { return of((double)x); }
    static __device__ __forceinline__ S of(int64_t x) { return (S)x; }
    static __device__ __forceinline__ S of(uint64_t x) { return (S)x; }
};
template <> struct narrow<float> {
    template <class W> static __device__ __forceinline__ float of(W x) { return (float)x; }
};
template <> struct narrow<double> {
    template <class W> static __device__ __forceinline__ double of(W x) { return (double)x; }
};
template <> struct narrow<flag> {
    template <class W> static __device__ __forceinline__ flag of(W x) { return {(uint8_t)(x != 0)}; }
};
template <> struct narrow<tk_half> {
    template <class W> static __device__ __forceinline__ tk_half of(W x) { return {tk_f16_of_double((double)x)}; }
    static __device__ __forceinline__ tk_half of(float x) { return tk_element_of<tk_half>(x); }
};
template <> struct narrow<tk_bfloat> {
    template <class W> static __device__ __forceinline__ tk_bfloat of(W x) { return {tk_bf16_of_double((double)x)}; }
    static __device__ __forceinline__ tk_bfloat of(float x) { return tk_element_of<tk_bfloat>(x); }
};

/* --- kernels ---------------------------------------------------------------------------------------- */

/* N: elements of a pack. */
template <class To, class From, int N>
__global__ void __launch_bounds__(THREADS) cast(To *out, const From *inp, int64_t n, int64_t packs) {
    TK_FOR_EACH(p, packs) {
        const tk_pack<From, N> x = tk_load_pack<N>(inp + p * N);
        tk_pack<To, N> y;
#pragma unroll
        for (int k = 0; k < N; k++)
            y.at[k] = narrow<To>::of(wide_of(x.at[k]));
        tk_store_pack(out + p * N, y);
    }
    TK_FOR_EACH(i, n - packs * N) { out[packs * N + i] = narrow<To>::of(wide_of(inp[packs * N + i])); }
}

/* A number of any type: one of the three. */
struct number {
    enum { F, S, U } kind;
    double f;
    int64_t s;
    uint64_t u;
};
static __device__ __forceinline__ number number_of(double x) { return {number::F, x, 0, 0}; }
static __device__ __forceinline__ number number_of(float x) { return {number::F, (double)x, 0, 0}; }
static __device__ __forceinline__ number number_of(int64_t x) { return {number::S, 0, x, 0}; }
static __device__ __forceinline__ number number_of(uint64_t x) { return {number::U, 0, 0, x}; }

static __device__ __forceinline__ number load(const void *inp, tk_dtype dtype, int64_t i) {
    switch ((int)dtype) { TYPES(From, return number_of(wide_of(((const From *)inp)[i]))) }
    return number_of(0.0);
}
template <class To> static __device__ __forceinline__ To element(const number &x) {
    return x.kind == number::F ? narrow<To>::of(x.f) : x.kind == number::S ? narrow<To>::of(x.s) : narrow<To>::of(x.u);
}

__global__ void __launch_bounds__(THREADS) cast_any(void *out, const void *inp, int64_t n, tk_dtype to, tk_dtype from) {
    TK_FOR_EACH(i, n) {
        const number x = load(inp, from, i);
        switch ((int)to) { TYPES(To, ((To *)out)[i] = element<To>(x)) }
    }
}

template <class To, class From> static void run(tk_queue *q, void *out, const void *inp, int64_t n) {
    constexpr int N = tk_pack_size<To> < tk_pack_size<From> ? tk_pack_size<To> : tk_pack_size<From>;
    const bool packed = (uintptr_t)out % (N * sizeof(To)) == 0 && (uintptr_t)inp % (N * sizeof(From)) == 0;
    TK_LAUNCH((cast<To, From, N>), tk_blocks(q, n, THREADS, N), THREADS, 0, q, (To *)out, (const From *)inp, n,
              packed ? n / N : 0);
}

/* Pairs with a kernel of their own: mixed precision, masks, and numbers from integers. */
#define PAIRS(K)                                                                                                       \
    K(TK_F32, float, TK_F16, tk_half)                                                                                  \
    K(TK_F32, float, TK_BF16, tk_bfloat)                                                                               \
    K(TK_F32, float, TK_F64, double)                                                                                   \
    K(TK_F32, float, TK_BOOL, flag)                                                                                    \
    K(TK_F32, float, TK_I32, int32_t)                                                                                  \
    K(TK_F32, float, TK_I64, int64_t)                                                                                  \
    K(TK_F16, tk_half, TK_F32, float)                                                                                  \
    K(TK_F16, tk_half, TK_BF16, tk_bfloat)                                                                             \
    K(TK_F16, tk_half, TK_BOOL, flag)                                                                                  \
    K(TK_BF16, tk_bfloat, TK_F32, float)                                                                               \
    K(TK_BF16, tk_bfloat, TK_F16, tk_half)                                                                             \
    K(TK_BF16, tk_bfloat, TK_BOOL, flag)                                                                               \
    K(TK_F64, double, TK_F32, float)                                                                                   \
    K(TK_BOOL, flag, TK_F32, float)                                                                                    \
    K(TK_BOOL, flag, TK_I64, int64_t)                                                                                  \
    K(TK_I32, int32_t, TK_I64, int64_t)                                                                                \
    K(TK_I64, int64_t, TK_I32, int32_t)

typedef void (*run_fn)(tk_queue *q, void *out, const void *inp, int64_t n);
static const struct {
    tk_dtype to, from;
    run_fn run;
} pairs[] = {
#define PAIR(to, To, from, From) {to, from, run<To, From>},
    PAIRS(PAIR)};

} // namespace

void tk_cuda_cast(tk_queue *q, void *out, const void *inp, int64_t n, tk_dtype to, tk_dtype from) {
    if (n == 0)
        return;
    if (to == from && to != TK_BOOL) {
        tk_cuda_copy(q, out, inp, (size_t)n * tk_size(to));
        return;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].to == to && pairs[i].from == from) {
            pairs[i].run(q, out, inp, n);
            return;
        }
    TK_LAUNCH(cast_any, tk_blocks(q, n, THREADS), THREADS, 0, q, out, inp, n, to, from);
}
