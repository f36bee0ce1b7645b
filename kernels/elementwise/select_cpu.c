/* select_cpu.c: ops of the elementwise family that don't fit the tables: Pow, whose operands differ in type; Clip, with
 * its bounds as operands; Where; the division that ends Mean; and sums of 16-bit types. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../common/types.h"
#include "elementwise.h"
#include "pow_math.h"
#include <math.h>
#include <string.h>

typedef struct pow_ctx {
    const tk_bcast *bc;
    void *out;
    const void *base, *exponent;
    tk_dtype dtype, exponent_dtype;
} pow_ctx;

static int64_t int_result(int64_t base, const void *exponent, tk_dtype dtype, int64_t i) {
    if (!tk_is_float(dtype))
        return (int64_t)tk_int_power(base, tk_get_int(exponent, dtype, i));
    return tk_int_of_power(pow((double)base, tk_get(exponent, dtype, i)));
}

TK_VECTOR static void square_f32(float *out, const float *inp, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = inp[i] * inp[i];
}

static void pow_one_run(void *ctx, int64_t at, int64_t n, const int64_t *offset, const int64_t *step) {
    const pow_ctx *c = ctx;
    const void *e = c->exponent;
    tk_dtype et = c->exponent_dtype;
    if (c->dtype == TK_F32 && step[0] == 1 && (step[1] == 0 || n == 1) && tk_get(e, et, offset[1]) == 2.0) {
        square_f32((float *)c->out + at, (const float *)c->base + offset[0], n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t b = offset[0] + i * step[0], k = offset[1] + i * step[1];
        switch (c->dtype) {
        case TK_F32:
            ((float *)c->out)[at + i] = et == TK_F32
                                            ? powf(((const float *)c->base)[b], ((const float *)e)[k])
                                            : (float)pow((double)((const float *)c->base)[b], tk_get(e, et, k));
            break;
        case TK_F64: ((double *)c->out)[at + i] = pow(((const double *)c->base)[b], tk_get(e, et, k)); break;
        case TK_F16:
        case TK_BF16: tk_put(c->out, c->dtype, at + i, pow(tk_get(c->base, c->dtype, b), tk_get(e, et, k))); break;
        case TK_I32: ((int32_t *)c->out)[at + i] = (int32_t)int_result(((const int32_t *)c->base)[b], e, et, k); break;
        default: ((int64_t *)c->out)[at + i] = int_result(((const int64_t *)c->base)[b], e, et, k); break;
        }
    }
}

static void pow_range(void *ctx, tk_share share) {
    tk_bcast_walk(((const pow_ctx *)ctx)->bc, share.begin, share.end, pow_one_run, ctx);
}

bool tk_pow_has(tk_dtype base, tk_dtype exponent) {
    return (tk_is_float(base) || base == TK_I32 || base == TK_I64) && exponent != TK_BOOL;
}

void tk_pow(tk_queue *q, void *out, const void *base, tk_dtype dtype, const void *exponent, tk_dtype exponent_dtype,
            const tk_bcast *bc) {
    pow_ctx c = {bc, out, base, exponent, dtype, exponent_dtype};
    tk_parallel_for(q, bc->count, TK_GRAIN / 8, pow_range, &c);
}

typedef struct clip_ctx {
    void *out;
    const void *inp, *low, *high;
    tk_dtype dtype;
} clip_ctx;

/* clang-format off */
#define CLIP_TYPES(K)                                                                                         \
    K(TK_F32, f32) K(TK_F64, f64) K(TK_F16, f16) K(TK_BF16, bf16) K(TK_I8, i8) K(TK_I16, i16) K(TK_I32, i32)   \
    K(TK_I64, i64) K(TK_U8, u8) K(TK_U16, u16) K(TK_U32, u32) K(TK_U64, u64)
/* clang-format on */

/* A missing bound changes nothing: only the other bound's loop runs. */
#define CLIP(D, X)                                                                                                     \
    TK_VECTOR static void clip_##X(void *out_, const void *inp_, const void *low, const void *high, int64_t n) {       \
        tk_stored_##X *out = out_;                                                                                     \
        const tk_stored_##X *inp = inp_;                                                                               \
        if (low) {                                                                                                     \
            const tk_stored_##X bound = *(const tk_stored_##X *)low;                                                   \
            for (int64_t i = 0; i < n; i++)                                                                            \
                out[i] = tk_from_##X(inp[i]) < tk_from_##X(bound) ? bound : inp[i];                                    \
            inp = out;                                                                                                 \
        }                                                                                                              \
        if (high) {                                                                                                    \
            const tk_stored_##X bound = *(const tk_stored_##X *)high;                                                  \
            for (int64_t i = 0; i < n; i++)                                                                            \
                out[i] = tk_from_##X(inp[i]) > tk_from_##X(bound) ? bound : inp[i];                                    \
        } else if (inp != out) {                                                                                       \
            memmove(out, inp, (size_t)n * sizeof *out);                                                                \
        }                                                                                                              \
    }
CLIP_TYPES(CLIP)

static void clip_range(void *ctx, tk_share share) {
    const clip_ctx *c = ctx;
    size_t skip = (size_t)share.begin * tk_size(c->dtype);
    switch ((int)c->dtype) {
#define CASE(D, X)                                                                                                     \
    case D:                                                                                                            \
        clip_##X((char *)c->out + skip, (const char *)c->inp + skip, c->low, c->high, share.end - share.begin);        \
        break;
        CLIP_TYPES(CASE)
    }
}

bool tk_clip_has(tk_dtype dtype) { return dtype != TK_BOOL; }

void tk_clip(tk_queue *q, void *out, const void *inp, const void *low, const void *high, int64_t n, tk_dtype dtype) {
    clip_ctx c = {out, inp, low, high, dtype};
    tk_parallel_for(q, n, TK_GRAIN, clip_range, &c);
}

typedef struct where_ctx {
    const tk_bcast *bc;
    char *out;
    const uint8_t *cond;
    const char *a, *b;
    size_t size;
} where_ctx;

/* One loop for each way in which the two choices are repeated or not; a repeated condition is rare. */
#define WHERE(T)                                                                                                       \
    TK_VECTOR static void where_##T(T *out, const uint8_t *cond, const T *a, const T *b, int64_t n,                    \
                                    const int64_t *step) {                                                             \
        const T a0 = *a, b0 = *b;                                                                                      \
        if (step[0] == 0)                                                                                              \
            for (int64_t i = 0; i < n; i++)                                                                            \
                out[i] = cond[0] ? a[i * step[1]] : b[i * step[2]];                                                    \
        else if (step[1] && step[2])                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                                            \
                out[i] = cond[i] ? a[i] : b[i];                                                                        \
        else if (step[1])                                                                                              \
            for (int64_t i = 0; i < n; i++)                                                                            \
                out[i] = cond[i] ? a[i] : b0;                                                                          \
        else if (step[2])                                                                                              \
            for (int64_t i = 0; i < n; i++)                                                                            \
                out[i] = cond[i] ? a0 : b[i];                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                out[i] = cond[i] ? a0 : b0;                                                                            \
    }
WHERE(uint8_t)
WHERE(uint16_t)
WHERE(uint32_t)
WHERE(uint64_t)

static void where_one_run(void *ctx, int64_t at, int64_t n, const int64_t *offset, const int64_t *step) {
    const where_ctx *c = ctx;
    const uint8_t *cond = c->cond + offset[0];
    char *out = c->out + (size_t)at * c->size;
    const char *a = c->a + (size_t)offset[1] * c->size, *b = c->b + (size_t)offset[2] * c->size;
    switch (c->size) {
    case 1: where_uint8_t((uint8_t *)out, cond, (const uint8_t *)a, (const uint8_t *)b, n, step); break;
    case 2: where_uint16_t((uint16_t *)out, cond, (const uint16_t *)a, (const uint16_t *)b, n, step); break;
    case 4: where_uint32_t((uint32_t *)out, cond, (const uint32_t *)a, (const uint32_t *)b, n, step); break;
    default: where_uint64_t((uint64_t *)out, cond, (const uint64_t *)a, (const uint64_t *)b, n, step); break;
    }
}

static void where_range(void *ctx, tk_share share) {
    tk_bcast_walk(((const where_ctx *)ctx)->bc, share.begin, share.end, where_one_run, ctx);
}

void tk_where(tk_queue *q, void *out, const void *cond, const void *a, const void *b, size_t size, const tk_bcast *bc) {
    where_ctx c = {bc, out, cond, a, b, size};
    tk_parallel_for(q, bc->count, TK_GRAIN, where_range, &c);
}

void tk_divide(tk_queue *q, void *out, int64_t n, double divisor, tk_dtype dtype) {
    (void)q;
    if (dtype == TK_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)out)[i] /= (float)divisor;
    else
        for (int64_t i = 0; i < n; i++)
            ((double *)out)[i] /= divisor;
}

typedef struct half_sum_ctx {
    void *out;
    const void *const *inp;
    const tk_bcast *bc;
    int count, at; /* operands; the one that is added */
    float divisor;
    tk_dtype dtype;
    int64_t first; /* element of the block */
    float *sum;    /* of the block */
} half_sum_ctx;

static void add_half_run(void *ctx, int64_t at, int64_t n, const int64_t *offset, const int64_t *step) {
    const half_sum_ctx *c = ctx;
    float x[TK_HALF_BLOCK], *sum = c->sum + (at - c->first);
    tk_widen(x, (const uint16_t *)c->inp[c->at] + offset[0], step[0] ? n : 1, c->dtype);
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[step[0] ? i : 0];
}

static void half_sum_range(void *ctx, tk_share share) {
    half_sum_ctx c = *(const half_sum_ctx *)ctx;
    float sum[TK_HALF_BLOCK];
    c.sum = sum;
    for (c.first = share.begin; c.first < share.end; c.first += TK_HALF_BLOCK) {
        int64_t n = share.end - c.first < TK_HALF_BLOCK ? share.end - c.first : TK_HALF_BLOCK;
        memset(sum, 0, sizeof sum);
        for (c.at = 0; c.at < c.count; c.at++)
            tk_bcast_walk(&c.bc[c.at], c.first, c.first + n, add_half_run, &c);
        for (int64_t i = 0; i < n; i++)
            sum[i] /= c.divisor;
        tk_narrow((uint16_t *)c.out + c.first, sum, n, c.dtype);
    }
}

void tk_half_sum(tk_queue *q, void *out, const void *const *inp, const tk_bcast *bc, int count, double divisor,
                 tk_dtype dtype) {
    half_sum_ctx c = {.out = out, .inp = inp, .bc = bc, .count = count, .divisor = (float)divisor, .dtype = dtype};
    tk_parallel_for(q, bc[0].count, TK_GRAIN, half_sum_range, &c);
}
