/* device.cuh: every .cu file includes it: CUDA by nvcc, or the emulation that replaces it in tests
 * (test/cuda/emulation/emulation.h); launches, faults, elements of all types, packs of 16 bytes, reductions over warps;
 * those of rows are in row.cuh. Tensor cores and asynchronous copies: tensor_core.cuh.
 *
 * A kernel NAME of the table is `extern "C" void tk_cuda_NAME` with the parameters of the CPU's. Its function here runs
 * on the host: it reads no byte of an operand (runtime/device/device.h), and gives structs and dims to kernels by
 * value. A file's own names stand in an unnamed namespace: of templates and classes with one name in two files the
 * linker would keep one. nvcc compiles without contraction of multiply-add, so that two kernels with one formula give
 * the same bits; fmaf says where one rounding is meant. */
#ifndef TK_DEVICE_CUH
#define TK_DEVICE_CUH
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#include <emulation.h>
#endif
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "../kernel.h"
#include "cuda_queue.h"
#include "../common/half.h"
#include "../common/math.h"
#include "../common/philox.h"
#include "../common/places.h"
#include "../common/types.h"
}

/* --- launches --------------------------------------------------------------------------------- */

static inline cudaStream_t tk_stream(const tk_queue *q) { return tk_queue_cuda(q)->stream; }

#ifdef __CUDACC__
/* kernel: in parentheses where it has template arguments. `shared`: bytes of dynamic shared memory. */
#define TK_LAUNCH(kernel, grid, block, shared, q, ...)                                                                 \
    do {                                                                                                               \
        kernel<<<grid, block, shared, tk_stream(q)>>>(__VA_ARGS__);                                                    \
        tk_cuda_note(tk_queue_cuda(q), cudaPeekAtLastError(), #kernel);                                                \
    } while (0)
#define TK_DYNAMIC_SHARED(type, name)                                                                                  \
    extern __shared__ __align__(16) unsigned char tk_dynamic_shared[];                                                 \
    type *name = reinterpret_cast<type *>(tk_dynamic_shared)
#else
#define TK_LAUNCH(kernel, grid, block, shared, q, ...)                                                                 \
    do {                                                                                                               \
        EMU_LAUNCH(kernel, grid, block, shared, tk_stream(q), __VA_ARGS__);                                            \
        tk_cuda_note(tk_queue_cuda(q), cudaPeekAtLastError(), #kernel);                                                \
    } while (0)
#define TK_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(emu_dynamic_shared())
#endif

/* Before a launch with more than 48 KiB of dynamic shared memory; not of a template's name in parentheses. */
#define TK_ALLOW_SHARED(q, kernel, bytes)                                                                              \
    tk_cuda_note(                                                                                                      \
        tk_queue_cuda(q),                                                                                              \
        cudaFuncSetAttribute((const void *)(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes)),       \
        "cudaFuncSetAttribute")

/* Blocks of `block` threads for n elements, `each` a thread, in a loop with steps of the grid: no more than fill the
 * device a few times over, so that results never depend on their number but by the loop's order. */
static inline unsigned tk_blocks(const tk_queue *q, int64_t n, int block, int each = 1) {
    const int64_t most = (int64_t)tk_queue_cuda(q)->multiprocessors * 32, per = (int64_t)block * each;
    const int64_t wanted = (n + per - 1) / per;
    return (unsigned)(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

/* for (i of this thread; i < n), in steps of the whole grid */
#define TK_FOR_EACH(i, n)                                                                                              \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)

/* --- faults ----------------------------------------------------------------------------------- */

typedef struct tk_fault_place {
    unsigned long long *word;
    uint32_t launch;
} tk_fault_place;

static inline tk_fault_place tk_fault_of(const tk_queue *q) {
    return tk_fault_place{tk_queue_cuda(q)->fault, tk_queue_launch(q)};
}

/* The first fault stays; which of two in one launch comes first is open, but one launch has faults of one kind. */
__device__ __forceinline__ void tk_fault_set(tk_fault_place place, tk_status status) {
    atomicCAS(place.word, 0ull, (unsigned long long)place.launch << 8 | (unsigned long long)status);
}

/* --- elements: stored as their bits, computed in tk_math<S> ------------------------------------- */

struct tk_half {
    uint16_t bits;
};
struct tk_bfloat {
    uint16_t bits;
};
template <class S> struct tk_math_of { typedef S type; };
template <> struct tk_math_of<tk_half> { typedef float type; };
template <> struct tk_math_of<tk_bfloat> { typedef float type; };
template <class S> using tk_math = typename tk_math_of<S>::type;
template <class S> constexpr bool tk_is_16_bit = false;
template <> constexpr bool tk_is_16_bit<tk_half> = true;
template <> constexpr bool tk_is_16_bit<tk_bfloat> = true;

/* Of integers: unsigned, at least as wide as int, so that arithmetic wraps. */
template <class S> struct tk_wraps_of { typedef uint32_t type; };
template <> struct tk_wraps_of<int64_t> { typedef uint64_t type; };
template <> struct tk_wraps_of<uint64_t> { typedef uint64_t type; };
template <class S> using tk_wraps = typename tk_wraps_of<S>::type;

/* The number that an element is, and the element that is nearest to a number: tk_element_of<S>(x). */
template <class S> __device__ __forceinline__ S tk_number_of(S x) { return x; }
template <class S> __device__ __forceinline__ S tk_element_of(tk_math<S> x) { return x; }
__device__ __forceinline__ float tk_number_of(tk_bfloat x) { return tk_from_bf16(x.bits); }
#ifdef __CUDACC__
__device__ __forceinline__ float tk_number_of(tk_half x) { return __half2float(__ushort_as_half(x.bits)); }
template <> __device__ __forceinline__ tk_half tk_element_of<tk_half>(float x) {
    return {__half_as_ushort(__float2half_rn(x))};
}
template <> __device__ __forceinline__ tk_bfloat tk_element_of<tk_bfloat>(float x) {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}
#else
static inline float tk_number_of(tk_half x) { return tk_from_f16(x.bits); }
template <> inline tk_half tk_element_of<tk_half>(float x) { return {tk_to_f16(x)}; }
template <> inline tk_bfloat tk_element_of<tk_bfloat>(float x) { return {tk_to_bf16(x)}; }
#endif

/* Two elements of 16 bits in a word, the first in its low half: one instruction rounds both. The numbers of a word. */
template <class S> __device__ __forceinline__ uint32_t tk_word_of(float low, float high) {
    return (uint32_t)tk_element_of<S>(low).bits | (uint32_t)tk_element_of<S>(high).bits << 16;
}
#ifdef __CUDACC__
template <> __device__ __forceinline__ uint32_t tk_word_of<tk_bfloat>(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}
template <> __device__ __forceinline__ uint32_t tk_word_of<tk_half>(float low, float high) {
    const __half2 both = __floats2half2_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}
#endif
template <class S> __device__ __forceinline__ float tk_low_of(uint32_t word) {
    return tk_number_of(S{(uint16_t)(word & 0xffff)});
}
template <class S> __device__ __forceinline__ float tk_high_of(uint32_t word) {
    return tk_number_of(S{(uint16_t)(word >> 16)});
}

/* Of the 8 bytes of b:a, four by the numbers in `which`, four bits each; the highest of these asks for eight times the
 * byte's upper bit in its place, which __byte_perm cannot. */
#ifdef __CUDACC__
__device__ __forceinline__ uint32_t tk_bytes_of(uint32_t a, uint32_t b, uint32_t which) {
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(which));
    return bytes;
}
#else
static inline uint32_t tk_bytes_of(uint32_t a, uint32_t b, uint32_t which) { return emu_prmt(a, b, which); }
#endif

/* The elements nearest to two numbers, side by side. */
template <class S> __device__ __forceinline__ void tk_put_two(S *at, tk_math<S> first, tk_math<S> second) {
    if constexpr (tk_is_16_bit<S>) {
        const uint32_t word = tk_word_of<S>(first, second);
        memcpy(at, &word, sizeof word);
    } else {
        at[0] = first, at[1] = second;
    }
}

/* Calls with S as the type of elements: TK_FLOATS(dtype, S, run<S>(...)). Nothing happens for other types, which
 * kernels.def does not list. */
#define TK_CASE(number, type, S, ...)                                                                                  \
    case number: {                                                                                                     \
        typedef type S;                                                                                                \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }
#define TK_HALF_CASES(S, ...)                                                                                          \
    TK_CASE(TK_F16, tk_half, S, __VA_ARGS__)                                                                           \
    TK_CASE(TK_BF16, tk_bfloat, S, __VA_ARGS__)
#define TK_FLOAT_CASES(S, ...)                                                                                         \
    TK_CASE(TK_F32, float, S, __VA_ARGS__)                                                                             \
    TK_CASE(TK_F64, double, S, __VA_ARGS__)                                                                            \
    TK_HALF_CASES(S, __VA_ARGS__)
#define TK_SIGNED_CASES(S, ...)                                                                                        \
    TK_CASE(TK_I8, int8_t, S, __VA_ARGS__)                                                                             \
    TK_CASE(TK_I16, int16_t, S, __VA_ARGS__)                                                                           \
    TK_CASE(TK_I32, int32_t, S, __VA_ARGS__)                                                                           \
    TK_CASE(TK_I64, int64_t, S, __VA_ARGS__)
#define TK_UNSIGNED_CASES(S, ...)                                                                                      \
    TK_CASE(TK_U8, uint8_t, S, __VA_ARGS__)                                                                            \
    TK_CASE(TK_U16, uint16_t, S, __VA_ARGS__)                                                                          \
    TK_CASE(TK_U32, uint32_t, S, __VA_ARGS__)                                                                          \
    TK_CASE(TK_U64, uint64_t, S, __VA_ARGS__)
#define TK_INTEGER_CASES(S, ...)                                                                                       \
    TK_SIGNED_CASES(S, __VA_ARGS__)                                                                                    \
    TK_UNSIGNED_CASES(S, __VA_ARGS__)
#define TK_HALF_FLOATS(dtype, S, ...)                                                                                  \
    switch ((int)(dtype)) { TK_HALF_CASES(S, __VA_ARGS__) }
#define TK_FLOATS(dtype, S, ...)                                                                                       \
    switch ((int)(dtype)) { TK_FLOAT_CASES(S, __VA_ARGS__) }
#define TK_NUMBERS(dtype, S, ...)                                                                                      \
    switch ((int)(dtype)) { TK_FLOAT_CASES(S, __VA_ARGS__) TK_INTEGER_CASES(S, __VA_ARGS__) }
/* By the bytes of an element, for kernels that only move elements. */
#define TK_SIZES(size, S, ...)                                                                                         \
    switch ((int)(size)) {                                                                                             \
        TK_CASE(1, uint8_t, S, __VA_ARGS__)                                                                            \
        TK_CASE(2, uint16_t, S, __VA_ARGS__)                                                                           \
        TK_CASE(4, uint32_t, S, __VA_ARGS__)                                                                           \
        TK_CASE(8, uint64_t, S, __VA_ARGS__)                                                                           \
    }

/* An operand of one element, read by the kernel. */
__device__ __forceinline__ double tk_device_number(tk_number n) {
    if (!n.data)
        return n.otherwise;
    switch ((int)n.dtype) {
    case TK_F32: return (double)*(const float *)n.data;
    case TK_F16: return (double)tk_number_of(*(const tk_half *)n.data);
    case TK_BF16: return (double)tk_number_of(*(const tk_bfloat *)n.data);
    default: return *(const double *)n.data;
    }
}

/* --- packs: as many elements as one access moves ------------------------------------------------- */

template <class S, int N> struct alignas(sizeof(S) * N) tk_pack { S at[N]; };
template <class S> constexpr int tk_pack_size = 16 / (int)sizeof(S);
/* Whether all of them may be read and written in packs of 16 bytes. */
static inline bool tk_is_packed(const void *a, const void *b = nullptr, const void *c = nullptr,
                                const void *d = nullptr, const void *e = nullptr) {
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d | (uintptr_t)e) & 15) == 0;
}
/* One access: the host's compiler would split an aggregate, and a misaligned access would go unnoticed. */
#ifdef __CUDACC__
template <class T> __device__ __forceinline__ T tk_load_whole(const T *at) { return *at; }
template <class T> __device__ __forceinline__ void tk_store_whole(T *at, const T &value) { *at = value; }
#else
template <class T> __device__ __forceinline__ T tk_load_whole(const T *at) { return emu_load_as(at); }
template <class T> __device__ __forceinline__ void tk_store_whole(T *at, const T &value) { emu_store_as(at, value); }
#endif
template <int N, class S> __device__ __forceinline__ tk_pack<S, N> tk_load_pack(const S *at) {
    return tk_load_whole(reinterpret_cast<const tk_pack<S, N> *>(at));
}
template <int N, class S> __device__ __forceinline__ void tk_store_pack(S *at, const tk_pack<S, N> &pack) {
    tk_store_whole(reinterpret_cast<tk_pack<S, N> *>(at), pack);
}

/* N elements, or the `left` remaining ones one by one, with 0 for the others. packed: both begin at a pack. */
template <int N, class S> __device__ __forceinline__ tk_pack<S, N> tk_load_some(const S *at, int left, bool packed) {
    if (packed && left >= N)
        return tk_load_pack<N>(at);
    tk_pack<S, N> pack = {};
#pragma unroll
    for (int k = 0; k < N; k++)
        if (k < left)
            pack.at[k] = at[k];
    return pack;
}
template <int N, class S>
__device__ __forceinline__ void tk_store_some(S *at, const tk_pack<S, N> &pack, int left, bool packed) {
    if (packed && left >= N) {
        tk_store_pack(at, pack);
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        if (k < left)
            at[k] = pack.at[k];
}

/* --- reductions: the same order on every lane, and for every grid --------------------------------- */

#define TK_WARP 32
#define TK_ALL_LANES 0xffffffffu

/* Of all lanes, or of every LANES neighbours. */
template <int LANES = TK_WARP, class T> __device__ __forceinline__ T tk_warp_sum(T v) {
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2)
        v += __shfl_xor_sync(TK_ALL_LANES, v, d);
    return v;
}
/* The larger one; NaN only where both are. */
__device__ __forceinline__ float tk_larger_of(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double tk_larger_of(double a, double b) { return fmax(a, b); }
template <int LANES = TK_WARP, class T> __device__ __forceinline__ T tk_warp_max(T v) {
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2)
        v = tk_larger_of(v, __shfl_xor_sync(TK_ALL_LANES, v, d));
    return v;
}
#endif
