/* values.h: kernels that write down what CUDA's functions give, one for each group of them (C and C++). */
#ifndef VALUES_H
#define VALUES_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Each lane's value is 100 + lane; out[i * 32 + lane]. */
enum { SHUFFLES = 8, VOTES = 12, BITS = 23, NUMBERS = 16, APPROXIMATIONS = 6, ATOMICS = 8, MMA_D = 16 * 8 };
void values_shuffles(uint32_t *out);
void values_votes(uint32_t *out);
void values_bits(uint64_t *out);
void values_numbers(double *out);
void values_approximations(float *out, const float *in, int n); /* out[APPROXIMATIONS * n] */
/* 2 blocks of 64 threads, each with its number of 0 to 127. */
void values_atomics(uint32_t *of_32, int32_t *of_signed, unsigned long long *of_64);
void values_places(uint32_t *out, unsigned *ticket); /* grid (3, 2, 2), block (4, 3, 2): out[block * 24 + thread] */
/* One warp, registers of each lane: a[lane * 4 + i], b[lane * 2 + i], c and d[lane * 4 + i]. type: emu_operand */
void values_mma(float *d, const uint32_t *a, const uint32_t *b, const float *c, int type);
/* n matrices of 8x8, rows one after another: out[lane * n + i]. */
void values_ldmatrix(uint32_t *out, const uint16_t *in, int n, int trans);
/* 3 groups of 16 bytes a thread, the last with 4 bytes of the source: out[group * 32 * 4 + ...]. */
void values_copies(float *out, const float *in);
/* A warp reads in[lane * stride], or a tile of shared memory. */
void values_strided(float *out, const float *in, int stride, int shared);

#ifdef __cplusplus
}
#endif
#endif
