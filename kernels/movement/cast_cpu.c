/* cast_cpu.c: every type to every type through three wide ones that hold them exactly: double, int64 and uint64.
 * Blocks are small enough to stay in the first-level cache. */
#include "cast.h"
#include "../common/element.h"
#include "../common/parallel.h"
#include "cast_math.h"
#include <string.h>

#define BLOCK 512

typedef union block {
    double f[BLOCK];
    int64_t s[BLOCK];
    uint64_t u[BLOCK];
} block;
typedef enum wide { WIDE_F, WIDE_S, WIDE_U } wide;

#define LOAD(member, type, expr)                                                                                       \
    {                                                                                                                  \
        const type *from = inp;                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type x = from[i];                                                                                          \
            to->member[i] = expr;                                                                                      \
        }                                                                                                              \
        break;                                                                                                         \
    }

static wide load(block *to, const void *inp, int64_t n, tk_dtype dtype) {
    switch (dtype) {
    case TK_F32: LOAD(f, float, (double)x)
    case TK_F64: LOAD(f, double, x)
    case TK_F16: LOAD(f, uint16_t, (double)tk_from_f16(x))
    case TK_BF16: LOAD(f, uint16_t, (double)tk_from_bf16(x))
    case TK_U64: LOAD(u, uint64_t, x)
    case TK_I64: LOAD(s, int64_t, x)
    case TK_I32: LOAD(s, int32_t, x)
    case TK_U32: LOAD(s, uint32_t, x)
    case TK_I16: LOAD(s, int16_t, x)
    case TK_U16: LOAD(s, uint16_t, x)
    case TK_I8: LOAD(s, int8_t, x)
    case TK_U8: LOAD(s, uint8_t, x)
    case TK_BOOL: LOAD(s, uint8_t, x != 0)
    }
    bool floating = dtype == TK_F32 || dtype == TK_F64 || dtype == TK_F16 || dtype == TK_BF16;
    return floating ? WIDE_F : dtype == TK_U64 ? WIDE_U : WIDE_S;
}

#define STORE(type, from_f, from_s, from_u)                                                                            \
    {                                                                                                                  \
        type *to = out;                                                                                                \
        if (class == WIDE_F)                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                double x = from->f[i];                                                                                 \
                to[i] = (type)(from_f);                                                                                \
            }                                                                                                          \
        else if (class == WIDE_S)                                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                int64_t x = from->s[i];                                                                                \
                to[i] = (type)(from_s);                                                                                \
            }                                                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                uint64_t x = from->u[i];                                                                               \
                to[i] = (type)(from_u);                                                                                \
            }                                                                                                          \
        break;                                                                                                         \
    }
#define STORE_INT(type, clamped) STORE(type, clamped, x, x)

static void store(void *out, const block *from, wide class, int64_t n, tk_dtype dtype) {
    switch (dtype) {
    case TK_F32: STORE(float, x, x, x)
    case TK_F64: STORE(double, x, x, x)
    case TK_F16: STORE(uint16_t, tk_f16_of_double(x), tk_f16_of_double((double)x), tk_f16_of_double((double)x))
    case TK_BF16: STORE(uint16_t, tk_bf16_of_double(x), tk_bf16_of_double((double)x), tk_bf16_of_double((double)x))
    case TK_U64: STORE_INT(uint64_t, tk_clamp_unsigned(x, 0x1p64))
    case TK_I64: STORE_INT(int64_t, tk_clamp_signed(x, -0x1p63, 0x1p63))
    case TK_I32: STORE_INT(int32_t, tk_clamp_signed(x, -0x1p31, 0x1p31))
    case TK_U32: STORE_INT(uint32_t, tk_clamp_unsigned(x, 0x1p32))
    case TK_I16: STORE_INT(int16_t, tk_clamp_signed(x, -0x1p15, 0x1p15))
    case TK_U16: STORE_INT(uint16_t, tk_clamp_unsigned(x, 0x1p16))
    case TK_I8: STORE_INT(int8_t, tk_clamp_signed(x, -0x1p7, 0x1p7))
    case TK_U8: STORE_INT(uint8_t, tk_clamp_unsigned(x, 0x1p8))
    case TK_BOOL: STORE(uint8_t, x != 0, x != 0, x != 0)
    }
}

typedef struct cast {
    char *out;
    const char *inp;
    tk_dtype to, from;
} cast;

static void cast_range(void *ctx, tk_share share) {
    const cast *c = ctx;
    int64_t out_size = (int64_t)tk_size(c->to), inp_size = (int64_t)tk_size(c->from);
    for (int64_t at = share.begin; at < share.end; at += BLOCK) {
        int64_t n = share.end - at < BLOCK ? share.end - at : BLOCK;
        block wide_values;
        wide class = load(&wide_values, c->inp + at * inp_size, n, c->from);
        store(c->out + at * out_size, &wide_values, class, n, c->to);
    }
}

/* Between float and 16 bits, the casts of mixed precision. */
static void half_range(void *ctx, tk_share share) {
    const cast *c = ctx;
    if (c->to == TK_F32)
        tk_widen((float *)c->out + share.begin, (const uint16_t *)c->inp + share.begin, share.end - share.begin,
                 c->from);
    else
        tk_narrow((uint16_t *)c->out + share.begin, (const float *)c->inp + share.begin, share.end - share.begin,
                  c->to);
}

void tk_cast(tk_queue *q, void *out, const void *inp, int64_t n, tk_dtype to, tk_dtype from) {
    if (to == from && to != TK_BOOL) {
        if (n > 0 && out != inp)
            memcpy(out, inp, (size_t)n * tk_size(to));
        return;
    }
    bool by_float = (to == TK_F32 && tk_is_half(from)) || (from == TK_F32 && tk_is_half(to));
    cast c = {out, inp, to, from};
    tk_parallel_for(q, n, TK_GRAIN, by_float ? half_range : cast_range, &c);
}
