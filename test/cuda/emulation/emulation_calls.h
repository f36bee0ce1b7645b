/* emulation_calls.h: what kernels call of the emulation's run time (C and C++); emulation.h gives it CUDA's names. A
 * place is the file and line of the caller. */
#ifndef EMULATION_CALLS_H
#define EMULATION_CALLS_H
#include "emulation_host.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct emu_place {
    const char *file;
    int line;
} emu_place;

/* Of the thread that calls; they do not change while it runs. */
__attribute__((const)) emu_dim3 emu_thread_idx(void);
__attribute__((const)) emu_dim3 emu_block_idx(void);
__attribute__((const)) emu_dim3 emu_block_dim(void);
__attribute__((const)) emu_dim3 emu_grid_dim(void);
void *emu_dynamic_shared(void);

/* A barrier of `count` threads; id 0 with count 0 is __syncthreads: all that have not returned. */
void emu_barrier(int id, int count, emu_place place);

/* What lanes of a warp exchange; shuffles take the argument and the width of CUDA's. */
typedef enum emu_kind {
    EMU_SYNC,
    EMU_IDX,
    EMU_UP,
    EMU_DOWN,
    EMU_XOR,
    EMU_BALLOT,
    EMU_ANY,
    EMU_ALL,
    EMU_ADD,
    EMU_MAX,
    EMU_MIN,
    EMU_MAX_SIGNED,
    EMU_MIN_SIGNED,
    EMU_OR,
    EMU_AND,
    EMU_MATCH,
    EMU_MMA,
    EMU_LDMATRIX,
} emu_kind;
uint64_t emu_exchange(uint32_t mask, uint64_t bits, emu_kind kind, int arg, int width, emu_place place);
uint32_t emu_active_mask(void);

/* Looks at an access as the hooks do; then does it. A size that is a power of 2 up to 16 asks for that alignment. */
typedef struct emu_16 {
    uint64_t lo, hi;
} emu_16;
uint64_t emu_load(const void *from, unsigned size); /* up to 8 bytes */
emu_16 emu_load16(const void *from);
void emu_store(void *to, uint64_t bits, unsigned size);
void emu_store16(void *to, emu_16 bits);

/* Atomics of 4 and 8 bytes: what was there before. A finding of kind "order" for those of floats. */
typedef enum emu_atomic {
    EMU_ATOMIC_ADD,
    EMU_ATOMIC_MAX,
    EMU_ATOMIC_MIN,
    EMU_ATOMIC_EXCHANGE,
    EMU_ATOMIC_OR,
    EMU_ATOMIC_AND,
    EMU_ATOMIC_XOR
} emu_atomic;
uint32_t emu_atomic32(uint32_t *p, uint32_t value, emu_atomic op);
int32_t emu_atomic_signed(int32_t *p, int32_t value, emu_atomic op);
uint64_t emu_atomic64(uint64_t *p, uint64_t value, emu_atomic op);
uint32_t emu_atomic_swap32(uint32_t *p, uint32_t expected, uint32_t value);
uint64_t emu_atomic_swap64(uint64_t *p, uint64_t expected, uint64_t value);
float emu_atomic_float(float *p, float value);
double emu_atomic_double(double *p, double value);

/* Approximations of PTX: emu_ex2_error. */
float emu_ex2(float x);   /* ex2.approx.ftz.f32 */
float emu_lg2(float x);   /* lg2.approx.ftz.f32 */
float emu_rcp(float x);   /* rcp.approx.ftz.f32 */
float emu_rsqrt(float x); /* rsqrt.approx.ftz.f32 */
float emu_tanh(float x);  /* tanh.approx.f32 */

/* Products on tensor cores, operands in registers as PTX lays them out: mma.sync.aligned.row.col, sums in float. d may
 * be c. */
typedef enum emu_operand { EMU_BF16, EMU_F16, EMU_TF32 } emu_operand;
void emu_mma_16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], emu_operand type,
                   emu_place place); /* EMU_BF16 or EMU_F16 */
void emu_mma_1688(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4],
                  emu_place place); /* EMU_TF32 */
/* ldmatrix.sync.aligned.m8n8 .x1 .x2 .x4 (n), .trans; `row` as PTX: of 16 bytes in shared memory. */
void emu_ldmatrix(uint32_t *r, int n, bool trans, const void *row, emu_place place);

/* cp.async: `size` (4, 8, 16) bytes to shared memory, of which `bytes` come from global memory and the rest are 0. They
 * arrive as late as they may: at the wait. */
void emu_copy_async(void *shared, const void *global, int size, int bytes);
void emu_copy_commit(void);
void emu_copy_wait(int groups); /* until at most so many groups are under way */

#ifdef __cplusplus
}
#endif
#endif
