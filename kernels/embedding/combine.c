/* combine.c: sums, products, minima and maxima of runs of elements. NaN wins in Min and Max, as in ONNX's Min and Max.
 * Integer sums and products wrap. 16-bit floats have none of these: each step would round. */
#include "combine.h"

#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))

/* `wide` computes without undefined overflow: unsigned for wrapping ops, the type itself for comparisons. */
#define DEFINE(name, type, wide, OP)                                                                                   \
    static void name(void *to_bytes, const void *from_bytes, int64_t n) {                                              \
        type *to = to_bytes;                                                                                           \
        const type *from = from_bytes;                                                                                 \
        for (int64_t i = 0; i < n; i++)                                                                                \
            to[i] = (type)OP((wide)to[i], (wide)from[i]);                                                              \
    }
#define DEFINE_ALL(suffix, type, wide)                                                                                 \
    DEFINE(add_##suffix, type, wide, ADD)                                                                              \
    DEFINE(mul_##suffix, type, wide, MUL)                                                                              \
    DEFINE(min_##suffix, type, type, MIN)                                                                              \
    DEFINE(max_##suffix, type, type, MAX)
DEFINE_ALL(f32, float, float)
DEFINE_ALL(f64, double, double)
DEFINE_ALL(i8, int8_t, int32_t)
DEFINE_ALL(u8, uint8_t, uint32_t)
DEFINE_ALL(i16, int16_t, int32_t)
DEFINE_ALL(u16, uint16_t, uint32_t)
DEFINE_ALL(i32, int32_t, uint32_t)
DEFINE_ALL(u32, uint32_t, uint32_t)
DEFINE_ALL(i64, int64_t, uint64_t)
DEFINE_ALL(u64, uint64_t, uint64_t)

#define ROW(op)                                                                                                        \
    {                                                                                                                  \
        [TK_F32] = op##_f32, [TK_F64] = op##_f64, [TK_I8] = op##_i8, [TK_U8] = op##_u8, [TK_I16] = op##_i16,           \
        [TK_U16] = op##_u16, [TK_I32] = op##_i32, [TK_U32] = op##_u32, [TK_I64] = op##_i64, [TK_U64] = op##_u64,       \
    }

tk_combine_fn tk_combine(tk_scatter_kind reduction, tk_dtype dtype) {
    static const tk_combine_fn table[][TK_BF16 + 1] = {
        [TK_ADD] = ROW(add), [TK_MUL] = ROW(mul), [TK_MIN] = ROW(min), [TK_MAX] = ROW(max)};
    return table[reduction][dtype];
}

bool tk_can_reduce(tk_scatter_kind reduction, tk_dtype dtype) {
    return reduction == TK_PUT || tk_combine(reduction, dtype) != NULL;
}
