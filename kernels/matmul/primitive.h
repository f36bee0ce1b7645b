/* primitive.h: a tile of a product by a matmul primitive of oneDNN, for processors that multiply 16-bit numbers by
 * themselves: operands are read as they lie, sums are of floats, a result is rounded once. Making a primitive generates
 * code, so each form of a tile has one, made at its first use and kept by the process. A primitive runs on one thread,
 * its caller's: results do not depend on the number of threads. docs/decisions/005-16-bit.md says when they are
 * used. */
#ifndef TK_PRIMITIVE_H
#define TK_PRIMITIVE_H
#include "matmul.h"

/* out = alpha op(A) op(B) + beta out: op(A) [m, k], op(B) [k, n], out [m, n], row-major, with elements from one row to
 * the next as stored. */
typedef struct tk_tile_form {
    int64_t m, n, k, lda, ldb, ldc; /* at least 1 */
    bool trans_a, trans_b;          /* A is stored [k, m], B [n, k] */
    double alpha, beta;
    tk_dtype in, out; /* float or bfloat16; out may be float where in is not */
} tk_tile_form;

typedef struct tk_primitive tk_primitive;

/* Whether the processor has instructions for sums of products of the type, the library uses them, and it may generate
 * code: bfloat16 with AVX512-BF16 or AMX. Elsewhere 16-bit types are faster as floats. */
bool tk_primitive_fast(tk_dtype dtype);

/* *out_primitive: the form's, until it is given back; NULL: the library refuses the form. TK_NO_MEMORY: out of memory
 * for it. Several threads may call it at once. */
tk_status tk_primitive_take(const tk_tile_form *form, tk_primitive **out_primitive);
void tk_primitive_give(tk_primitive *p); /* NULL is fine */

/* Bytes that a run needs besides, at a multiple of 64. */
size_t tk_primitive_scratch(const tk_primitive *p);

/* False: the library has failed. Any number of threads may run one primitive, each with its own scratch. */
bool tk_primitive_run(const tk_primitive *p, void *out, const void *a, const void *b, void *scratch);

/* product_run by primitives for each of its tiles, on any processor. product_run calls it for bfloat16 where that is
 * fast; tests call it with floats, which the library multiplies on any machine. `thread_bytes` of the workspace are
 * each slot's. False: nothing was done, since there is no such primitive, or it needs more. A fault of the queue where
 * the library is out of memory. */
bool tk_product_run_primitives(tk_queue *q, void *out, const void *a, const void *b, const tk_product *product,
                               tk_dtype dtype, void *workspace, size_t thread_bytes);
#endif
