/* values.cu: what CUDA's functions give, written down by kernels (values.h). */
#include "emulation.h"
#include "values.h"

enum { FULL = -1, WARP = 32 };

/* --- warps ------------------------------------------------------------------------------------------ */

static __global__ void shuffles(uint32_t *out) {
    const int lane = (int)threadIdx.x;
    const uint32_t v = 100 + threadIdx.x;
    out[0 * WARP + lane] = __shfl_sync(FULL, v, lane + 3);
    out[1 * WARP + lane] = __shfl_sync(FULL, v, 5, 8);
    out[2 * WARP + lane] = __shfl_up_sync(FULL, v, 2);
    out[3 * WARP + lane] = __shfl_up_sync(FULL, v, 3, 16);
    out[4 * WARP + lane] = __shfl_down_sync(FULL, v, 4);
    out[5 * WARP + lane] = __shfl_down_sync(FULL, v, 1, 4);
    out[6 * WARP + lane] = __shfl_xor_sync(FULL, v, 16);
    out[7 * WARP + lane] = (uint32_t)__shfl_xor_sync(FULL, (double)v, 5, 8); /* 8 bytes */
}
void values_shuffles(uint32_t *out) { EMU_LAUNCH(shuffles, 1, WARP, 0, nullptr, out); }

static __global__ void votes(uint32_t *out) {
    const int lane = (int)threadIdx.x;
    const uint32_t v = 100 + threadIdx.x;
    out[0 * WARP + lane] = __ballot_sync(FULL, lane % 3 == 0);
    out[1 * WARP + lane] = (uint32_t)__any_sync(FULL, lane == 7);
    out[2 * WARP + lane] = (uint32_t)__any_sync(FULL, lane == 32);
    out[3 * WARP + lane] = (uint32_t)__all_sync(FULL, lane < 32);
    out[4 * WARP + lane] = (uint32_t)__all_sync(FULL, lane < 31);
    out[5 * WARP + lane] = __reduce_add_sync(FULL, v);
    out[6 * WARP + lane] = __reduce_max_sync(FULL, v);
    out[7 * WARP + lane] = (uint32_t)__reduce_min_sync(FULL, lane - 16);
    out[8 * WARP + lane] = __reduce_or_sync(FULL, 1u << lane % 8);
    out[9 * WARP + lane] = __reduce_and_sync(FULL, v);
    out[10 * WARP + lane] = __match_any_sync(FULL, threadIdx.x % 4);
    /* Halves of a warp by themselves. */
    const uint32_t half = lane < 16 ? 0xffffu : 0xffff0000u;
    out[11 * WARP + lane] = __reduce_add_sync(half, v);
}
void values_votes(uint32_t *out) { EMU_LAUNCH(votes, 1, WARP, 0, nullptr, out); }

/* --- numbers ---------------------------------------------------------------------------------------- */

static __global__ void bits(uint64_t *out) {
    const uint64_t found[] = {
        __float_as_uint(-1.0f),
        __float_as_uint(__uint_as_float(0x40490fdbu)),
        (uint64_t)(uint32_t)__float_as_int(-2.0f),
        __float_as_uint(__int_as_float(0x3f800000)),
        (uint64_t)__double_as_longlong(1.0),
        (uint64_t)__double_as_longlong(__longlong_as_double(0x7ff0000000000000)),
        (uint64_t)__popc(0xf0f0f0f1u),
        (uint64_t)__popcll(0xff00000000000001u),
        (uint64_t)__ffs(0x40),
        (uint64_t)__ffsll(0x4000000000),
        (uint64_t)__clz(0),
        (uint64_t)__clz(1),
        (uint64_t)__clzll(0x100000000),
        __brev(0x00000012u),
        __umulhi(0x80000001u, 6u),
        __umul64hi(0x8000000000000001u, 6u),
        __funnelshift_l(0x89abcdefu, 0x01234567u, 8),
        __funnelshift_r(0x89abcdefu, 0x01234567u, 8),
        __funnelshift_l(0x89abcdefu, 0x01234567u, 32),
        __byte_perm(0x33221100u, 0x77665544u, 0x7412),
        __byte_perm(0x80ff7f00u, 0u, 0xba98),
        emu_prmt(0x80ff7f00u, 0u, 0xba98),
        (uint64_t)(uint32_t)__ffs(0),
    };
    static_assert(sizeof found == BITS * sizeof *out, "values.h");
    for (int i = 0; i < BITS; i++)
        out[i] = found[i];
}
void values_bits(uint64_t *out) { EMU_LAUNCH(bits, 1, 1, 0, nullptr, out); }

static __global__ void numbers(double *out) {
    const float nan = __uint_as_float(0x7fc00000u), e = 0x1p-12f;
    const double found[] = {
        max(nan, 1.0f),
        min(1.0f, nan),
        (double)max(-1, 1),
        (double)min(3u, 4000000000u),
        (double)max(-1ll, 5ll),
        __fmaf_rn(1 + e, 1 + e, -1.0f), /* the product's lower half */
        (double)__fadd_rn(__fmul_rn(1 + e, 1 + e), -1.0f),
        __frcp_rn(3.0f),
        __fsqrt_rn(2.0f),
        __fdiv_rn(1.0f, 3.0f),
        __saturatef(1.5f),
        __saturatef(nan),
        __fdividef(6.0f, 2.0f),
        __fdividef(1.0f, 0x1.8p126f),
        (double)__float2int_rn(2.5f),
        (double)__float2int_rn(1e20f),
    };
    static_assert(sizeof found == NUMBERS * sizeof *out, "values.h");
    for (int i = 0; i < NUMBERS; i++)
        out[i] = found[i];
}
void values_numbers(double *out) { EMU_LAUNCH(numbers, 1, 1, 0, nullptr, out); }

static __global__ void approximations(float *out, const float *in, int n) {
    for (int i = (int)threadIdx.x; i < n; i += WARP) {
        const float x = in[i];
        out[0 * n + i] = emu_ex2(x);
        out[1 * n + i] = emu_rcp(x);
        out[2 * n + i] = rsqrtf(x);
        out[3 * n + i] = emu_lg2(x);
        out[4 * n + i] = emu_tanh(x);
        out[5 * n + i] = __expf(x);
    }
}
void values_approximations(float *out, const float *in, int n) {
    EMU_LAUNCH(approximations, 1, WARP, 0, nullptr, out, in, n);
}

/* --- atomics, places -------------------------------------------------------------------------------- */

static __global__ void atomics(uint32_t *a, int32_t *s, unsigned long long *l) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(a + 0, i);
    atomicMax(a + 1, i);
    atomicMin(a + 2, i);
    atomicOr(a + 3, 1u << i % 32);
    atomicAnd(a + 4, ~(1u << i % 16));
    atomicXor(a + 5, i);
    atomicExch(a + 6, 7u);
    atomicCAS(a + 7, 0u, 9u); /* the first */
    atomicAdd(s + 0, -(int)i);
    atomicMax(s + 1, (int)i - 200);
    atomicMin(s + 2, (int)i - 200);
    atomicAdd(l + 0, (unsigned long long)i << 32);
    atomicMax(l + 1, (unsigned long long)i << 40);
    atomicCAS(l + 2, 0ull, 1ull << 50);
}
void values_atomics(uint32_t *of_32, int32_t *of_signed, unsigned long long *of_64) {
    EMU_LAUNCH(atomics, 2, 64, 0, nullptr, of_32, of_signed, of_64);
}

/* A thread's own numbers, and in the highest byte when its block had its turn. */
static __global__ void places(uint32_t *out, unsigned *ticket) {
    __shared__ unsigned turn;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    if (thread == 0)
        turn = atomicAdd(ticket, 1u);
    __syncthreads();
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = turn << 24 | block << 8 | thread;
}
void values_places(uint32_t *out, unsigned *ticket) {
    EMU_LAUNCH(places, dim3(3, 2, 2), dim3(4, 3, 2), 0, nullptr, out, ticket);
}

/* --- tensor cores, copies, memory ------------------------------------------------------------------- */

static __global__ void mma(float *d, const uint32_t *a, const uint32_t *b, const float *c, int type) {
    const unsigned l = threadIdx.x;
    const uint32_t x[4] = {a[4 * l], a[4 * l + 1], a[4 * l + 2], a[4 * l + 3]}, y[2] = {b[2 * l], b[2 * l + 1]};
    float z[4] = {c[4 * l], c[4 * l + 1], c[4 * l + 2], c[4 * l + 3]};
    if (type == EMU_TF32)
        emu_mma_1688(z, x, y, z, {__FILE__, __LINE__});
    else
        emu_mma_16816(z, x, y, z, (emu_operand)type, {__FILE__, __LINE__});
    for (unsigned i = 0; i < 4; i++)
        d[4 * l + i] = z[i];
}
void values_mma(float *d, const uint32_t *a, const uint32_t *b, const float *c, int type) {
    EMU_LAUNCH(mma, 1, WARP, 0, nullptr, d, a, b, c, type);
}

static __global__ void ldmatrix(uint32_t *out, const uint16_t *in, int n, bool trans) {
    __shared__ __align__(16) uint16_t tile[4 * 64];
    const int l = (int)threadIdx.x;
    for (int i = l; i < n * 64; i += WARP)
        tile[i] = in[i];
    __syncthreads();
    uint32_t r[4] = {0, 0, 0, 0};
    emu_ldmatrix(r, n, trans, tile + l % (8 * n) * 8, {__FILE__, __LINE__});
    for (int i = 0; i < n; i++)
        out[l * n + i] = r[i];
}
void values_ldmatrix(uint32_t *out, const uint16_t *in, int n, int trans) {
    EMU_LAUNCH(ldmatrix, 1, WARP, 0, nullptr, out, in, n, trans != 0);
}

static __global__ void copies(float *out, const float *in) {
    __shared__ __align__(16) float tile[3 * 4 * WARP];
    const unsigned at = 4 * threadIdx.x;
    for (unsigned group = 0; group < 3; group++) {
        emu_copy_async(tile + group * 4 * WARP + at, in + group * 4 * WARP + at, 16, group == 2 ? 4 : 16);
        emu_copy_commit();
    }
    for (unsigned group = 0; group < 3; group++) {
        emu_copy_wait(2 - (int)group);
        for (unsigned i = 0; i < 4; i++)
            out[group * 4 * WARP + at + i] = tile[group * 4 * WARP + at + i];
    }
}
void values_copies(float *out, const float *in) { EMU_LAUNCH(copies, 1, WARP, 0, nullptr, out, in); }

static __global__ void strided(float *out, const float *in, int stride, bool shared) {
    float *tile = static_cast<float *>(emu_dynamic_shared());
    const int l = (int)threadIdx.x;
    if (shared) {
        tile[l * stride] = 1;
        return;
    }
    out[l] = in[l * stride];
}
void values_strided(float *out, const float *in, int stride, int shared) {
    EMU_LAUNCH(strided, 1, WARP, 33 * 32 * sizeof(float), nullptr, out, in, stride, shared != 0);
}
