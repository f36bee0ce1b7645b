/* vector.h: how a plain C loop becomes vector code on any machine. A function marked TK_VECTOR is compiled for x86-64,
 * for AVX2 and for AVX-512, and the loader picks one; elsewhere (arm64, other compilers, sanitizers, whose run time is
 * not ready when the loader picks) it is compiled once. Such a function holds loops over contiguous memory and no
 * OpenMP: parallel.h calls it per range. kernels/ is built without contraction of multiply-add, so all versions give
 * the same bits. */
#ifndef TK_VECTOR_H
#define TK_VECTOR_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#define TK_VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TK_VECTOR
#endif
/* A function that kernels share: for the host, and in .cu files for the device as well. */
#ifdef __CUDACC__
#define TK_INLINE static __host__ __device__ __forceinline__
#else
#define TK_INLINE static inline __attribute__((always_inline))
#endif

#define TK_CAT_(a, b) a##_##b
#define TK_CAT(a, b) TK_CAT_(a, b)
#endif
