/* sgemm.h: products of floats by oneDNN, on the calling thread alone. */
#ifndef TK_SGEMM_H
#define TK_SGEMM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TK_SGEMM_ROWS = 512, TK_SGEMM_COLUMNS = 384 }; /* the largest result */

/* out[m, n] (row-major, leading dimension ldo) = alpha op(a) op(b) + beta out: op(a) is [m, k], stored [k, m] where
 * trans_a, op(b) is [k, n], stored [n, k] where trans_b. m <= TK_SGEMM_ROWS, n <= TK_SGEMM_COLUMNS; all sizes above 0.
 * The order of sums depends on shapes and the processor only. */
typedef struct tk_sgemm {
    bool trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldo;
    float alpha, beta;
} tk_sgemm;
/* False: the library has failed for lack of memory; the result is in part written. */
bool tk_sgemm_run(float *out, const float *a, const float *b, const tk_sgemm *p);

/* Whether this process can use the library: it generates code, and some systems forbid that (PR_SET_MDWE,
 * MemoryDenyWriteExecute, SELinux). Tried once; without the library own loops multiply. */
bool tk_sgemm_works(void);

/* Bytes of all the code that products may ask for: it depends on the processor. */
size_t tk_sgemm_code_bytes(void);

/* Lets the library make all of that code, in 60 ms at most. False: there is no memory for it. */
bool tk_sgemm_prepare(void);
#endif
