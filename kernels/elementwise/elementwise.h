/* elementwise.h: ops that compute each result element from the elements at its place (ONNX: Math, Logical and
 * Activation operators). Unary kernels run over contiguous elements; binary kernels over the runs of broadcasting
 * (common/broadcast.h), in four variants: each operand contiguous or a single element. Results may
 * be written over an operand of the same type. Integer arithmetic wraps; a division by zero gives 0. 16-bit types use
 * float's kernels: a block of operands is widened and stays in the first-level cache, and its results are rounded. */
#ifndef TK_ELEMENTWISE_H
#define TK_ELEMENTWISE_H
#include "../common/broadcast.h"

#define TK_HALF_BLOCK 1024 /* elements */

/* out[i] = f(inp[i]; params), 0 <= i < n. params: LeakyRelu, ThresholdedRelu, Elu, Celu {alpha}; Selu {alpha, gamma};
 * HardSigmoid {alpha, beta}; Shrink {bias, lambd}; IsInf {detect_negative, detect_positive}. */
#define TK_UNARY_PARAMS 2
typedef void (*tk_unary_fn)(void *out, const void *inp, int64_t n, const double *params);

typedef struct tk_unary {
    const char *op;      /* ONNX's name */
    tk_dtype dtype, out; /* element types */
    tk_unary_fn fn;      /* takes and gives floats where they have 16 bits */
} tk_unary;

const tk_unary *tk_unary_find(const char *op, tk_dtype dtype); /* NULL: none */
const tk_unary *tk_unary_at(int64_t index);                    /* NULL past the end: for tests */
/* The op's definition; NAN for an op it does not know. */
double tk_unary_ref(const char *op, double x, const double *params);

/* out[i] = f(a[i], b[i]): variant 0; f(a[i], b[0]): variant 1; f(a[0], b[i]): variant 2; f(a[0], b[0]): variant 3. */
typedef void (*tk_binary_fn)(void *out, const void *a, const void *b, int64_t n);

typedef struct tk_binary {
    const char *op; /* ONNX's name; BitShiftLeft, BitShiftRight, and ModFloor (fmod = 0) beside Mod (fmod = 1) */
    tk_dtype dtype, out;
    tk_binary_fn fn[4]; /* take and give floats where they have 16 bits */
} tk_binary;

const tk_binary *tk_binary_find(const char *op, tk_dtype dtype);
const tk_binary *tk_binary_at(int64_t index);
double tk_binary_ref(const char *op, double a, double b); /* floats, and integers below 2^53 */

/* pow: out = base ^ exponent, base any float type, int32 or int64, exponent any numeric type; bc is of out, base,
 * exponent. Integer powers wrap. */
bool tk_pow_has(tk_dtype base, tk_dtype exponent);

/* clip: out = min(max(inp, *low), *high); NULL: no bound. low > high gives *high. NaN stays NaN. */
bool tk_clip_has(tk_dtype dtype);

/* clang-format off */
#define TK_ELEMENTWISE_KERNELS(K) \
    K(unary_run, (tk_queue *q, const tk_unary *unary, void *out, const void *inp, int64_t n, \
      const double *params), (q, unary, out, inp, n, params)) \
    /* bc is of out, a, b. */ \
    K(binary_run, (tk_queue *q, const tk_binary *binary, void *out, const void *a, const void *b, \
      const tk_bcast *bc), (q, binary, out, a, b, bc)) \
    K(pow, (tk_queue *q, void *out, const void *base, tk_dtype dtype, const void *exponent, \
      tk_dtype exponent_dtype, const tk_bcast *bc), (q, out, base, dtype, exponent, exponent_dtype, bc)) \
    K(clip, (tk_queue *q, void *out, const void *inp, const void *low, const void *high, int64_t n, \
      tk_dtype dtype), (q, out, inp, low, high, n, dtype)) \
    /* out = cond ? a : b; bc is of out, cond (one byte each), a, b; size: bytes of an element of out, a and b. */ \
    K(where, (tk_queue *q, void *out, const void *cond, const void *a, const void *b, size_t size, \
      const tk_bcast *bc), (q, out, cond, a, b, size, bc)) \
    /* out[i] /= divisor: the last step of Mean. float and double. */ \
    K(divide, (tk_queue *q, void *out, int64_t n, double divisor, tk_dtype dtype), (q, out, n, divisor, dtype)) \
    /* out = (inp[0] + inp[1] + ...) / divisor of a 16-bit type, added in float and rounded once; bc[k] is of \
     * out and inp[k], 0 <= k < count. out may lie over an operand of its size. */ \
    K(half_sum, (tk_queue *q, void *out, const void *const *inp, const tk_bcast *bc, int count, double divisor, \
      tk_dtype dtype), (q, out, inp, bc, count, divisor, dtype))
/* clang-format on */

TK_ELEMENTWISE_KERNELS(TK_DECLARE_KERNEL)
#endif
