/* tensor_core.cuh: products of 16-bit matrices on tensor cores, loads of their operands from shared memory, and
 * asynchronous copies to it: PTX for sm_80 and newer, and the emulation's twins. Older devices have no code: a launch
 * of a kernel with these checks the queue's architecture first.
 *
 * A product of m16n8k16 takes A [16, 16] in four registers a lane, B [16, 8] in two, and its sums [16, 8] in four
 * floats. With g = lane / 4 and c = lane % 4 * 2, a lane has elements (PTX ISA, "Matrix fragments for mma.m16n8k16")
 *     A        (g, c), (g, c + 1) | (g + 8, c), .. | (g, c + 8), .. | (g + 8, c + 8), ..
 *     B        (c, g), (c + 1, g) | (c + 8, g), (c + 9, g)
 *     sums     (g, c), (g, c + 1), (g + 8, c), (g + 8, c + 1)
 * so that the sums of two products side by side, rounded, are A of the next, and those of one, rounded, are half of the
 * columns of B in its transpose. */
#ifndef TK_TENSOR_CORE_CUH
#define TK_TENSOR_CORE_CUH
#include "device.cuh"

#ifdef __CUDACC__
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define TK_SM_80(...) __VA_ARGS__
#else
#define TK_SM_80(...) __trap()
#endif

/* d = a b + c; d may be c. */
template <class S>
__device__ __forceinline__ void tk_mma(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4]);
#define TK_MMA(type, name)                                                                                             \
    template <>                                                                                                        \
    __device__ __forceinline__ void tk_mma<type>(float d[4], const uint32_t a[4], const uint32_t b[2],                 \
                                                 const float c[4]) {                                                   \
        TK_SM_80(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name                                   \
                              ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"                         \
                              : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                         \
                              : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),           \
                                "f"(c[1]), "f"(c[2]), "f"(c[3])));                                                     \
    }
TK_MMA(tk_bfloat, "bf16")
TK_MMA(tk_half, "f16")

__device__ __forceinline__ unsigned tk_shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

/* Four matrices of 8x8 elements: lane l names row l % 8 of matrix l / 8, 16 bytes in shared memory. Of matrix i a lane
 * gets elements (g, c), (g, c + 1), or, turned, (c, g), (c + 1, g), in r[i]. */
__device__ __forceinline__ void tk_load_matrices(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(tk_shared_address(row))
                 : "memory");
}
__device__ __forceinline__ void tk_load_turned(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(tk_shared_address(row))
                 : "memory");
}

/* Copies 16 bytes to shared memory: `bytes` of them come from global memory, the rest are 0; both addresses are
 * aligned. They are ready after each copying thread has waited for their group, and after a barrier. */
__device__ __forceinline__ void tk_copy_async(void *shared, const void *global, int bytes) {
    TK_SM_80(asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(tk_shared_address(shared)), "l"(global),
                          "r"(bytes)
                          : "memory"));
}
__device__ __forceinline__ void tk_copy_commit() { TK_SM_80(asm volatile("cp.async.commit_group;" ::: "memory")); }
/* Until at most GROUPS of this thread's groups are under way. */
template <int GROUPS> __device__ __forceinline__ void tk_copy_wait() {
    TK_SM_80(asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory"));
}
#else
template <class S> struct tk_operand_type;
template <> struct tk_operand_type<tk_bfloat> { static const emu_operand type = EMU_BF16; };
template <> struct tk_operand_type<tk_half> { static const emu_operand type = EMU_F16; };
template <class S>
static inline void tk_mma(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], EMU_HERE) {
    emu_mma_16816(d, a, b, c, tk_operand_type<S>::type, EMU_PLACE);
}
static inline void tk_load_matrices(uint32_t r[4], const void *row, EMU_HERE) {
    emu_ldmatrix(r, 4, false, row, EMU_PLACE);
}
static inline void tk_load_turned(uint32_t r[4], const void *row, EMU_HERE) {
    emu_ldmatrix(r, 4, true, row, EMU_PLACE);
}
static inline void tk_copy_async(void *shared, const void *global, int bytes) {
    emu_copy_async(shared, global, 16, bytes);
}
static inline void tk_copy_commit() { emu_copy_commit(); }
template <int GROUPS> static inline void tk_copy_wait() { emu_copy_wait(GROUPS); }
#endif
#endif
