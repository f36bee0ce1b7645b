/* emulation.h: CUDA C++ for g++ and clang++, in tests: a .cu file compiled with it runs block by block on the host,
 * each of CUDA's threads a fiber. Compiled with -fsanitize=thread and linked with the emulation (not with
 * ThreadSanitizer), every load and store of a kernel is looked at: bounds, bytes that nobody wrote, races between
 * barriers. Names that are CUDA's mean what they mean there; what only the emulation has begins with emu_. */
#ifndef EMULATION_H
#define EMULATION_H
#include "emulation_calls.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the language ----------------------------------------------------------------------------------- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static thread_local /* one segment, whose bounds the linker knows; one host thread: one block's */
#define __constant__ static const
#define __grid_constant__
#define __restrict__ __restrict
#define EMU_RAW __attribute__((no_sanitize("thread"))) /* not looked at */
#define EMU_CALL static inline __attribute__((always_inline))
#define EMU_HERE const char *emu_file = __builtin_FILE(), int emu_line = __builtin_LINE()
#define EMU_PLACE (emu_place{emu_file, emu_line})

typedef emu_dim3 uint3;
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned nx = 1, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz) {}
    constexpr dim3(emu_dim3 d) : x(d.x), y(d.y), z(d.z) {}
    constexpr operator emu_dim3() const { return {x, y, z}; }
};

#define EMU_VECTOR(type, name, of2, of4)                                                                               \
    struct name##1 {                                                                                                   \
        type x;                                                                                                        \
    };                                                                                                                 \
    struct alignas(of2) name##2 {                                                                                      \
        type x, y;                                                                                                     \
    };                                                                                                                 \
    struct name##3 {                                                                                                   \
        type x, y, z;                                                                                                  \
    };                                                                                                                 \
    struct alignas(of4) name##4 {                                                                                      \
        type x, y, z, w;                                                                                               \
    };                                                                                                                 \
    EMU_CALL name##2 make_##name##2(type x, type y) { return {x, y}; }                                                 \
    EMU_CALL name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                                      \
    EMU_CALL name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define uint3 emu_uint3 /* is there already */
EMU_VECTOR(float, float, 8, 16)
EMU_VECTOR(double, double, 16, 16)
EMU_VECTOR(int, int, 8, 16)
EMU_VECTOR(unsigned, uint, 8, 16)
EMU_VECTOR(long long, longlong, 16, 16)
EMU_VECTOR(unsigned long long, ulonglong, 16, 16)
EMU_VECTOR(short, short, 4, 8)
EMU_VECTOR(unsigned short, ushort, 4, 8)
EMU_VECTOR(signed char, char, 2, 4)
EMU_VECTOR(unsigned char, uchar, 2, 4)
#undef uint3

#define threadIdx (emu_thread_idx())
#define blockIdx (emu_block_idx())
#define blockDim (emu_block_dim())
#define gridDim (emu_grid_dim())
static const int warpSize = 32;

/* --- launching -------------------------------------------------------------------------------------- */

template <class T> struct emu_same { typedef T type; };
/* The call of a kernel, out of the hooks' sight; its arguments are copied here, when it is queued. The thread gets them
 * on its own stack, word by word: where they are large, the call itself copies them by a function that is looked at. */
template <class F> EMU_RAW static void emu_call(const void *f) {
    union own {
        EMU_RAW own() {}
        F call;
        uint64_t words[sizeof(F) / 8]; /* a kernel's address is among them */
    } here;
    for (size_t i = 0; i < sizeof(F) / 8; i++)
        const_cast<volatile uint64_t *>(here.words)[i] = static_cast<const uint64_t *>(f)[i];
    here.call();
}
EMU_RAW static inline void emu_drop(const void *f) { free(const_cast<void *>(f)); }
template <class... P>
EMU_RAW static void emu_start(const char *name, dim3 grid, dim3 block, size_t shared, void *stream,
                              void (*kernel)(P...), typename emu_same<P>::type... arguments) {
    const auto f = [kernel, arguments...]() EMU_RAW { kernel(arguments...); };
    typedef decltype(f) call;
    static_assert(__is_trivially_copyable(call), "arguments of a kernel are bytes");
    void *copy = malloc(sizeof f);
    if (!copy)
        abort();
    __builtin_memcpy(copy, static_cast<const void *>(&f), sizeof f);
    emu_queue(name, grid, block, shared, stream, reinterpret_cast<const void *>(kernel), emu_call<call>, emu_drop,
              copy);
}
/* kernel<<<grid, block, shared, stream>>>(...); all template arguments of the kernel are given, in parentheses. */
#define EMU_LAUNCH(kernel, grid, block, shared, stream, ...)                                                           \
    emu_start(#kernel, grid, block, shared, stream, kernel, ##__VA_ARGS__)

/* --- threads that wait for each other --------------------------------------------------------------- */

#define EMU_FENCE __asm__ volatile("" ::: "memory") /* values in registers do not survive a wait */
EMU_CALL void __syncthreads(EMU_HERE) {
    emu_barrier(0, 0, EMU_PLACE);
    EMU_FENCE;
}
/* barrier.sync id, threads */
EMU_CALL void emu_named_barrier(int id, int threads, EMU_HERE) {
    emu_barrier(id, threads, EMU_PLACE);
    EMU_FENCE;
}
EMU_CALL void __syncwarp(uint32_t mask = 0xffffffffu, EMU_HERE) {
    emu_exchange(mask, 0, EMU_SYNC, 0, 32, EMU_PLACE);
    EMU_FENCE;
}
EMU_CALL void __threadfence() { EMU_FENCE; }
EMU_CALL void __threadfence_block() { EMU_FENCE; }

template <class T> EMU_CALL uint64_t emu_bits(T v) {
    static_assert(sizeof(T) <= 8, "at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &v, sizeof v);
    return bits;
}
template <class T> EMU_CALL T emu_of_bits(uint64_t bits) {
    T v;
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
}

#define EMU_SHUFFLE(name, kind)                                                                                        \
    template <class T> EMU_CALL T name(uint32_t mask, T v, int arg, int width = 32, EMU_HERE) {                        \
        return emu_of_bits<T>(emu_exchange(mask, emu_bits(v), kind, arg, width, EMU_PLACE));                           \
    }
EMU_SHUFFLE(__shfl_sync, EMU_IDX)
EMU_SHUFFLE(__shfl_up_sync, EMU_UP)
EMU_SHUFFLE(__shfl_down_sync, EMU_DOWN)
EMU_SHUFFLE(__shfl_xor_sync, EMU_XOR)
#define EMU_VOTE(type, name, kind, given, bits)                                                                        \
    EMU_CALL type name(uint32_t mask, given v, EMU_HERE) {                                                             \
        return (type)emu_exchange(mask, bits, kind, 0, 32, EMU_PLACE);                                                 \
    }
EMU_VOTE(unsigned, __ballot_sync, EMU_BALLOT, int, v != 0)
EMU_VOTE(int, __any_sync, EMU_ANY, int, v != 0)
EMU_VOTE(int, __all_sync, EMU_ALL, int, v != 0)
EMU_VOTE(unsigned, __reduce_add_sync, EMU_ADD, unsigned, v)
EMU_VOTE(int, __reduce_add_sync, EMU_ADD, int, (unsigned)v)
EMU_VOTE(unsigned, __reduce_max_sync, EMU_MAX, unsigned, v)
EMU_VOTE(int, __reduce_max_sync, EMU_MAX_SIGNED, int, (unsigned)v)
EMU_VOTE(unsigned, __reduce_min_sync, EMU_MIN, unsigned, v)
EMU_VOTE(int, __reduce_min_sync, EMU_MIN_SIGNED, int, (unsigned)v)
EMU_VOTE(unsigned, __reduce_or_sync, EMU_OR, unsigned, v)
EMU_VOTE(unsigned, __reduce_and_sync, EMU_AND, unsigned, v)
EMU_VOTE(unsigned, __match_any_sync, EMU_MATCH, unsigned, v)
EMU_CALL unsigned __activemask() { return emu_active_mask(); }

/* --- memory ----------------------------------------------------------------------------------------- */

/* A value as one access, as wide as its type is; beyond 16 bytes, accesses of 16. */
template <class T> EMU_CALL T emu_load_as(const T *p) {
    static_assert(sizeof(T) % 16 == 0 || (sizeof(T) < 16 && (sizeof(T) & (sizeof(T) - 1)) == 0), "no access");
    T v;
    if constexpr (sizeof(T) % 16 == 0) {
        emu_16 bits[sizeof(T) / 16];
        for (size_t i = 0; i < sizeof(T) / 16; i++)
            bits[i] = emu_load16(reinterpret_cast<const char *>(p) + 16 * i);
        __builtin_memcpy(&v, bits, sizeof v);
    } else {
        const uint64_t bits = emu_load(p, sizeof(T));
        __builtin_memcpy(&v, &bits, sizeof v);
    }
    return v;
}
template <class T> EMU_CALL void emu_store_as(T *p, T v) {
    static_assert(sizeof(T) % 16 == 0 || (sizeof(T) < 16 && (sizeof(T) & (sizeof(T) - 1)) == 0), "no access");
    if constexpr (sizeof(T) % 16 == 0) {
        emu_16 bits[sizeof(T) / 16];
        __builtin_memcpy(bits, &v, sizeof v);
        for (size_t i = 0; i < sizeof(T) / 16; i++)
            emu_store16(reinterpret_cast<char *>(p) + 16 * i, bits[i]);
    } else {
        emu_store(p, emu_bits(v), sizeof(T));
    }
}
template <class T> EMU_CALL T __ldg(const T *p) { return emu_load_as(p); }
template <class T> EMU_CALL T __ldcs(const T *p) { return emu_load_as(p); }
template <class T> EMU_CALL T __ldcg(const T *p) { return emu_load_as(p); }
template <class T> EMU_CALL void __stcs(T *p, T v) { emu_store_as(p, v); }
template <class T> EMU_CALL void __stcg(T *p, T v) { emu_store_as(p, v); }

/* Loops and structs that the compiler copies by the C library's functions, behind the hooks' back. */
__asm__(".set memcpy, __tsan_memcpy\n.set memmove, __tsan_memmove\n.set memset, __tsan_memset");

#define EMU_ATOMIC_OF(name, op)                                                                                        \
    EMU_CALL unsigned name(unsigned *p, unsigned v) { return emu_atomic32(p, v, op); }                                 \
    EMU_CALL int name(int *p, int v) { return emu_atomic_signed(p, v, op); }                                           \
    EMU_CALL unsigned long long name(unsigned long long *p, unsigned long long v) {                                    \
        return emu_atomic64((uint64_t *)p, v, op);                                                                     \
    }
EMU_ATOMIC_OF(atomicAdd, EMU_ATOMIC_ADD)
EMU_ATOMIC_OF(atomicMax, EMU_ATOMIC_MAX)
EMU_ATOMIC_OF(atomicMin, EMU_ATOMIC_MIN)
EMU_ATOMIC_OF(atomicExch, EMU_ATOMIC_EXCHANGE)
EMU_ATOMIC_OF(atomicOr, EMU_ATOMIC_OR)
EMU_ATOMIC_OF(atomicAnd, EMU_ATOMIC_AND)
EMU_ATOMIC_OF(atomicXor, EMU_ATOMIC_XOR)
EMU_CALL float atomicAdd(float *p, float v) { return emu_atomic_float(p, v); }
EMU_CALL double atomicAdd(double *p, double v) { return emu_atomic_double(p, v); }
EMU_CALL unsigned atomicCAS(unsigned *p, unsigned expected, unsigned v) { return emu_atomic_swap32(p, expected, v); }
EMU_CALL int atomicCAS(int *p, int expected, int v) {
    return (int)emu_atomic_swap32((uint32_t *)p, (uint32_t)expected, (uint32_t)v);
}
EMU_CALL unsigned long long atomicCAS(unsigned long long *p, unsigned long long expected, unsigned long long v) {
    return emu_atomic_swap64((uint64_t *)p, expected, v);
}

#include "emulation_numbers.h"
#endif
