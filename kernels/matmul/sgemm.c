/* sgemm.c: oneDNN's sgemm, with operands laid out so that it is fast. The library is column-major: it computes the
 * transposed product.
 *
 * An operand whose lines belong to k, [k, n] or [k, m], is read a few columns at a time over many lines. Where lines
 * begin at multiples of 2 KiB, their beginnings share two sets of the first cache and a few of the second: the kernels
 * without AVX-512, which read it in place, then miss at each line, and a product of 512 x 384 x 768 takes three times
 * as long (one core of an AMD Zen 3, oneDNN 2.6.3: 28 GFLOP/s where lines have 3072 floats, 92 where they have 3088).
 * Such an operand is copied, a block of k at a time, to lines that no power of two divides. Kernels of AVX-512 make
 * such copies themselves. */
#include "sgemm.h"
#include "../common/parallel.h"
#include "../common/room.h"
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <string.h>

/* Floats; lines of a multiple share cache sets. 768 is harmless, 1024 and 1536 are not. */
#define CLASH 512
#define BLOCK_K 256 /* copied at a time: with the tile's result in the second cache */
#define PAD 16      /* floats, a cache line: an odd number of lines from one line's beginning to the next */

static bool multiply(float *out, const float *a, const float *b, const tk_sgemm *p) {
    return dnnl_sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', p->m, p->n, p->k, p->alpha, a, p->lda, b, p->ldb,
                      p->beta, out, p->ldo) == dnnl_success;
}

static void copy_lines(float *out, int64_t ldo, const float *inp, int64_t ld, int64_t lines, int64_t n) {
    for (int64_t i = 0; i < lines; i++)
        memcpy(out + i * ldo, inp + i * ld, (size_t)n * sizeof(float));
}

/* Block by block of k, each added to the result. */
static bool multiply_copied(float *out, const float *a, const float *b, const tk_sgemm *p, bool copy_a, bool copy_b) {
    float block_a[BLOCK_K * (TK_SGEMM_ROWS + PAD)], block_b[BLOCK_K * (TK_SGEMM_COLUMNS + PAD)];
    tk_sgemm block = *p;
    block.lda = copy_a ? TK_SGEMM_ROWS + PAD : p->lda;
    block.ldb = copy_b ? TK_SGEMM_COLUMNS + PAD : p->ldb;
    bool good = true;
    for (int64_t k = 0; good && k < p->k; k += BLOCK_K) {
        const float *at_a = a + (p->trans_a ? k * p->lda : k), *at_b = b + (p->trans_b ? k : k * p->ldb);
        block.k = p->k - k < BLOCK_K ? p->k - k : BLOCK_K;
        block.beta = k == 0 ? p->beta : 1;
        if (copy_a)
            copy_lines(block_a, block.lda, at_a, p->lda, block.k, p->m);
        if (copy_b)
            copy_lines(block_b, block.ldb, at_b, p->ldb, block.k, p->n);
        good = multiply(out, copy_a ? block_a : at_a, copy_b ? block_b : at_b, &block);
    }
    return good;
}

/* Whether reading an operand in place is slow: `by_k`, its lines belong to k. A few lines fit in any cache. */
static bool clashes(const tk_sgemm *p, bool by_k, int64_t ld) { return by_k && p->k >= 64 && ld % CLASH == 0; }

static bool has_avx512(void) {
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

bool tk_sgemm_run(float *out, const float *a, const float *b, const tk_sgemm *p) {
    int threads = tk_library_threads(1);
    bool copy_a = clashes(p, p->trans_a, p->lda), copy_b = clashes(p, !p->trans_b, p->ldb);
    bool copies = (copy_a || copy_b) && !has_avx512();
    bool good = copies ? multiply_copied(out, a, b, p, copy_a, copy_b) : multiply(out, a, b, p);
    tk_library_threads(threads);
    return good;
}

/* --- code ------------------------------------------------------------------------------------- */

/* Measured: with AVX-512 the first product's code takes 6 MiB of all, without it half a MiB. */
size_t tk_sgemm_code_bytes(void) { return (size_t)(has_avx512() ? 17 : 6) << 20; }

#define CODE_BYTES ((size_t)24 << 20) /* what is free before the library makes code: all of it, and some for itself */

/* A product of ones, m x n over k, is k. */
static bool multiplies(int64_t m, int64_t n, int64_t k, bool trans_b) {
    enum { MOST = 64 };
    float ones[MOST * MOST], out[MOST * MOST];
    for (int i = 0; i < MOST * MOST; i++)
        ones[i] = 1;
    const tk_sgemm p = {.trans_b = trans_b, .m = m, .n = n, .k = k, .lda = MOST, .ldb = MOST, .ldo = MOST, .alpha = 1};
    return tk_sgemm_run(out, ones, ones, &p) && out[(m - 1) * MOST + n - 1] == (float)k;
}

/* Without room the library is not tried: a run then fails before its first product. */
static bool works;
static void try_library(void) { works = !tk_has_room(CODE_BYTES) || multiplies(1, 1, 1, false); }

bool tk_sgemm_works(void) {
    static pthread_once_t tried = PTHREAD_ONCE_INIT;
    return pthread_once(&tried, try_library) == 0 && works;
}

/* The library has three kinds of code for AVX-512: a row by a matrix, few columns, and all else. The first product that
 * needs a kind generates all of its code, and crashes without memory for it. */
bool tk_sgemm_prepare(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool is_made;
    pthread_mutex_lock(&lock);
    if (!is_made && tk_has_room(CODE_BYTES))
        is_made = !tk_sgemm_works() || (multiplies(2, 1, 1, true) && multiplies(64, 64, 64, false));
    bool made = is_made;
    pthread_mutex_unlock(&lock);
    return made;
}
