/* kernel.h: what every kernel sees: element types and status. Kernels are plain functions on pointers and sizes: no
 * graph, no session, no allocation. Results come first, then inputs, then sizes, as in
 *     void tk_softmax(void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype);
 * Each family has NAME.h (signatures, shapes and source), NAME_ref.c (obvious and scalar; what the others are checked
 * against) and NAME_cpu.c (fast), often from NAME_tmpl.h, which is included once for each element type. Threads:
 * common/parallel.h; vector code: common/vector.h. Reduction order depends on shapes only, never on threads. */
#ifndef TK_KERNEL_H
#define TK_KERNEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ONNX's numbers. */
typedef enum tk_dtype {
    TK_F32 = 1, TK_U8 = 2, TK_I8 = 3, TK_U16 = 4, TK_I16 = 5, TK_I32 = 6, TK_I64 = 7, TK_BOOL = 9, TK_F16 = 10,
    TK_F64 = 11, TK_U32 = 12, TK_U64 = 13, TK_BF16 = 16,
} tk_dtype;

size_t tk_size(tk_dtype dtype); /* bytes of one element */
static inline bool tk_is_half(tk_dtype dtype) { return dtype == TK_F16 || dtype == TK_BF16; }

typedef enum tk_status {
    TK_OK = 0,
    TK_BAD_INDEX, /* an index operand is out of range: Gather, Scatter, OneHot, labels */
    TK_BAD_VALUE, /* another operand's value is not allowed: ratio, k, depth */
} tk_status;

#define TK_MAX_RANK 32
#endif
