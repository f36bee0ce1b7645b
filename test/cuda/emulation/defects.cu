/* defects.cu: what can be wrong with a kernel, one thing each; right where WRONG is false (defects.h). */
#include "emulation.h"
#include "defects.h"

enum { THREADS = 128 };
static const uint32_t FULL = 0xffffffffu;

#define KERNEL template <bool WRONG> static __global__ void
/* The launch of either twin. */
#define DEFECT(name, grid, block, shared, ...)                                                                         \
    void defect_##name(bool wrong, const defect_operands *o) {                                                         \
        if (wrong)                                                                                                     \
            EMU_LAUNCH((name<true>), grid, block, shared, o->stream, __VA_ARGS__);                                     \
        else                                                                                                           \
            EMU_LAUNCH((name<false>), grid, block, shared, o->stream, __VA_ARGS__);                                    \
    }

/* --- barriers --------------------------------------------------------------------------------------- */

KERNEL missing_barrier(float *out, const float *in) {
    __shared__ float row[THREADS];
    const int i = (int)threadIdx.x;
    row[i] = in[i];
    if (!WRONG)
        __syncthreads();
    out[i] = row[THREADS - 1 - i];
}
DEFECT(missing_barrier, 1, THREADS, 0, o->out, o->in)

/* __syncwarp where another warp's values are read. */
KERNEL warp_barrier(float *out, const float *in) {
    __shared__ float row[THREADS];
    const int i = (int)threadIdx.x;
    row[i] = in[i];
    __syncwarp();
    out[i] = row[WRONG ? i ^ 32 : i ^ 1];
}
DEFECT(warp_barrier, 1, THREADS, 0, o->out, o->in)

/* Two rounds through one buffer with one barrier each: the second round's writes meet the first one's reads. */
KERNEL one_buffer(float *out, const float *in) {
    __shared__ float row[2][THREADS];
    const int i = (int)threadIdx.x;
    float sum = 0;
    for (int turn = 0; turn < 2; turn++) {
        float *now = row[WRONG ? 0 : turn];
        now[i] = in[turn * THREADS + i];
        __syncthreads();
        sum += now[THREADS - 1 - i];
    }
    out[i] = sum;
}
DEFECT(one_buffer, 1, THREADS, 0, o->out, o->in)

KERNEL diverging_barrier(float *out) {
    if (WRONG && threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 0;
}
DEFECT(diverging_barrier, 1, THREADS, 0, o->out)

/* Two halves of the block, each with a barrier of its own. */
KERNEL named_barrier(float *out, const float *in) {
    __shared__ float row[THREADS];
    const int i = (int)threadIdx.x, half = i / 64;
    row[i] = in[i];
    emu_named_barrier(1 + half, 64);
    out[i] = row[WRONG ? THREADS - 1 - i : half * 64 + 63 - i % 64];
}
DEFECT(named_barrier, 1, THREADS, 0, o->out, o->in)

KERNEL waiting_forever(float *out) {
    if (threadIdx.x < 64)
        emu_named_barrier(1, WRONG ? 96 : 64);
    out[threadIdx.x] = 0;
}
DEFECT(waiting_forever, 1, THREADS, 0, o->out)

KERNEL barrier_of_nobody(float *out) {
    emu_named_barrier(WRONG ? 16 : 15, THREADS);
    out[threadIdx.x] = 0;
}
DEFECT(barrier_of_nobody, 1, THREADS, 0, o->out)

/* --- bounds, alignment, bytes that nobody wrote ------------------------------------------------------ */

KERNEL byte_behind(uint8_t *bytes) {
    const int i = (int)threadIdx.x + DEFECT_N - THREADS + (WRONG ? 1 : 0);
    bytes[i] = 1;
}
DEFECT(byte_behind, 1, THREADS, 0, o->bytes)

KERNEL byte_before(uint8_t *bytes) { bytes[(int)threadIdx.x - (WRONG ? 1 : 0)] = 1; }
DEFECT(byte_before, 1, THREADS, 0, o->bytes)

KERNEL shared_behind(float *out) {
    float *row = static_cast<float *>(emu_dynamic_shared());
    row[threadIdx.x] = 0;
    out[threadIdx.x] = row[threadIdx.x];
}
DEFECT(shared_behind, 1, THREADS, THREADS * sizeof(float) - (wrong ? 1 : 0), o->out)

/* Copies that the compiler makes. */
struct hundred {
    float at[100];
};
KERNEL struct_behind(hundred *out, const hundred *in) { *out = in[WRONG ? 10 : 9]; }
DEFECT(struct_behind, 1, 1, 0, reinterpret_cast<hundred *>(o->out), reinterpret_cast<const hundred *>(o->in))

KERNEL filled_behind(uint8_t *bytes, int n) {
    for (int i = 0; i < n; i++)
        bytes[i] = 0;
}
DEFECT(filled_behind, 1, 1, 0, o->bytes, DEFECT_N + (wrong ? 1 : 0))

KERNEL misaligned(float4 *out, const float *in) {
    const float *from = in + (WRONG ? 1 : 0);
    out[threadIdx.x] = __ldg(reinterpret_cast<const float4 *>(from) + threadIdx.x);
}
DEFECT(misaligned, 1, 32, 0, reinterpret_cast<float4 *>(o->out), o->in)

KERNEL unwritten_global(float *out, float *unwritten) {
    if (!WRONG)
        unwritten[threadIdx.x] = 0;
    out[threadIdx.x] = unwritten[threadIdx.x];
}
DEFECT(unwritten_global, 1, 32, 0, o->out, o->unwritten)

KERNEL unwritten_shared(float *out) {
    float *row = static_cast<float *>(emu_dynamic_shared());
    if (!WRONG || threadIdx.x > 0)
        row[threadIdx.x] = 0;
    out[threadIdx.x] = row[threadIdx.x];
}
DEFECT(unwritten_shared, 1, THREADS, THREADS * sizeof(float), o->out)

/* What the block before left in shared memory is not there. */
KERNEL unwritten_static(float *out, unsigned first) {
    __shared__ float row[THREADS];
    if (!WRONG || blockIdx.x == first)
        row[threadIdx.x] = 0;
    out[blockIdx.x * THREADS + threadIdx.x] = row[threadIdx.x];
}
DEFECT(unwritten_static, 2, THREADS, 0, o->out, emu_order == 1)

/* --- races ------------------------------------------------------------------------------------------ */

KERNEL blocks_write(float *out) { out[threadIdx.x + (WRONG ? THREADS - 1 : THREADS) * blockIdx.x] = 0; }
DEFECT(blocks_write, 2, THREADS, 0, o->out)

KERNEL blocks_read(float *out, float *in) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    in[i] = 1;
    out[i] = in[WRONG ? (i + THREADS) % (2 * THREADS) : i];
}
DEFECT(blocks_read, 2, THREADS, 0, o->out, o->in)

/* Words that reach into each other's bytes, and bytes side by side. */
KERNEL neighbour_bytes(uint8_t *bytes) {
    const unsigned i = threadIdx.x;
    if (WRONG && i == 5)
        *reinterpret_cast<uint32_t *>(bytes + 4) = 1;
    else
        bytes[i] = 1;
}
DEFECT(neighbour_bytes, 1, THREADS, 0, o->bytes)

KERNEL plain_count(unsigned *counter) {
    if (WRONG)
        *counter += 1;
    else
        atomicAdd(counter, 1u);
}
DEFECT(plain_count, 1, THREADS, 0, o->counter)

KERNEL float_atomic(float *out, unsigned *counter) {
    if (WRONG)
        atomicAdd(out, 1.0f);
    else
        atomicAdd(counter, 1u);
}
DEFECT(float_atomic, 2, THREADS, 0, o->in, o->counter)

/* --- asynchronous copies ---------------------------------------------------------------------------- */

KERNEL missing_wait(float *out, const float *in) {
    __shared__ __align__(16) float row[THREADS];
    const int i = (int)threadIdx.x;
    if (i < THREADS / 4)
        emu_copy_async(row + 4 * i, in + 4 * i, 16, 16);
    emu_copy_commit();
    if (!WRONG)
        emu_copy_wait(0);
    __syncthreads();
    out[i] = row[i];
    emu_copy_wait(0);
}
DEFECT(missing_wait, 1, THREADS, 0, o->out, o->in)

/* Two groups: the second may be under way while the first is used. */
KERNEL early_wait(float *out, const float *in) {
    __shared__ __align__(16) float row[2][THREADS];
    const int i = (int)threadIdx.x;
    for (int turn = 0; turn < 2; turn++) {
        if (i < THREADS / 4)
            emu_copy_async(row[turn] + 4 * i, in + turn * THREADS + 4 * i, 16, 16);
        emu_copy_commit();
    }
    emu_copy_wait(WRONG ? 2 : 1);
    __syncthreads();
    out[i] = row[0][i];
    emu_copy_wait(0);
}
DEFECT(early_wait, 1, THREADS, 0, o->out, o->in)

KERNEL unfinished_copy(const float *in) {
    __shared__ __align__(16) float row[4 * 32];
    emu_copy_async(row + 4 * threadIdx.x, in + 4 * threadIdx.x, 16, 16);
    if (!WRONG) /* nothing waits for a group that was not closed */
        emu_copy_commit();
    emu_copy_wait(0);
}
DEFECT(unfinished_copy, 1, 32, 0, o->in)

/* --- warps ------------------------------------------------------------------------------------------ */

KERNEL shuffle_mask(float *out) {
    const float v = (float)threadIdx.x;
    out[threadIdx.x] = __shfl_xor_sync(WRONG ? 0xffffu : FULL, v, 1);
}
DEFECT(shuffle_mask, 1, 32, 0, o->out)

/* 16 lanes, one of which reads beyond them. */
KERNEL shuffle_source(float *out) {
    float v = (float)threadIdx.x;
    if (threadIdx.x < 16)
        v = __shfl_down_sync(0xffffu, v, 1, WRONG ? 32 : 16);
    out[threadIdx.x] = v;
}
DEFECT(shuffle_source, 1, 32, 0, o->out)

KERNEL diverging_warp(float *out) {
    float v = (float)threadIdx.x;
    if (WRONG && threadIdx.x < 16)
        v = __shfl_xor_sync(FULL, v, 1);
    else
        v = __shfl_xor_sync(FULL, v, 1);
    out[threadIdx.x] = v;
}
DEFECT(diverging_warp, 1, 32, 0, o->out)

KERNEL part_of_warp(float *out) {
    uint32_t a[4] = {0, 0, 0, 0};
    float d[4] = {0, 0, 0, 0};
    emu_mma_16816(d, a, a, d, EMU_BF16, {__FILE__, __LINE__});
    out[threadIdx.x] = d[0];
}
DEFECT(part_of_warp, 1, wrong ? 24 : 32, 0, o->out)

KERNEL global_matrix(float *out, const float *in) {
    __shared__ __align__(16) float row[4 * 8];
    row[threadIdx.x] = 0;
    __syncthreads();
    uint32_t r[1];
    emu_ldmatrix(r, 1, false, WRONG ? in : row, {__FILE__, __LINE__});
    out[threadIdx.x] = (float)r[0];
}
DEFECT(global_matrix, 1, 32, 0, o->out, o->in)

/* --- launches --------------------------------------------------------------------------------------- */

/* The test allows `in` to be read and `out` to be written. */
KERNEL not_operand(float *out, const float *in, const uint8_t *bytes) {
    out[threadIdx.x] = WRONG ? (float)bytes[threadIdx.x] : in[threadIdx.x];
}
DEFECT(not_operand, 1, THREADS, 0, o->out, o->in, o->bytes)

KERNEL written_input(float *out, float *in) { (WRONG ? in : out)[threadIdx.x] = 0; }
DEFECT(written_input, 1, THREADS, 0, o->out, o->in)

KERNEL divided_by_zero(float *out, int by) { out[0] = (float)(100 / (WRONG ? by : by + 1)); }
DEFECT(divided_by_zero, 1, 1, 0, o->out, 0)

/* Waits for what nobody does. */
KERNEL endless(volatile unsigned *counter) {
    while (WRONG && *counter == 0)
        ;
    *counter = 1;
}
DEFECT(endless, 1, 1, 0, o->counter)

KERNEL large_block(float *out) { out[threadIdx.y * 32 + threadIdx.x] = WRONG ? 1 : 0; }
DEFECT(large_block, 1, dim3(32, wrong ? 33 : 31), 0, o->out)

KERNEL large_shared(float *out) { out[threadIdx.x] = WRONG ? 1 : 0; }
DEFECT(large_shared, 1, THREADS, (48 << 10) + (wrong ? 1 : 0), o->out)
