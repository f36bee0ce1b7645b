/* conv_transpose_cpu.c: one product for each batch item and group computes the share that each place of narrow sends to
 * each element under its window; then every channel of wide adds up its shares, in an order that the shapes fix. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../common/types.h"
#include "../matmul/matmul.h"
#include "../movement/cast.h"
#include "conv.h"
#include <string.h>

/* Of one batch item and group: (channels, kernel) x filters by filters x places; not rounded before it is added up. */
static tk_product product_of(const tk_conv *c, tk_dtype dtype) {
    int64_t outs = tk_volume(c->window.out), rows = c->channels / c->groups * tk_volume(c->window.kernel);
    return (tk_product){.batch = 1,
                        .m = rows,
                        .n = outs,
                        .k = c->filters / c->groups,
                        .lda = rows,
                        .ldb = outs,
                        .trans_a = true,
                        .alpha = 1,
                        .wide = tk_is_half(dtype)};
}

/* Bytes of the product; of 16-bit types the sums of a group's channels follow it. */
static size_t columns_bytes(const tk_product *p, tk_dtype dtype) {
    return ((size_t)(p->m * p->n) * tk_size(tk_wide(dtype)) + 63) / 64 * 64;
}
static size_t sums_bytes(const tk_conv *c, tk_dtype dtype) {
    int64_t n = tk_is_half(dtype) ? c->channels / c->groups * tk_volume(c->window.inp) : 0;
    return ((size_t)n * sizeof(float) + 63) / 64 * 64;
}

size_t tk_conv_transpose_workspace(const tk_conv *c, tk_dtype dtype, int slots) {
    if (c->groups == 0)
        return 0;
    tk_product product = product_of(c, dtype);
    return columns_bytes(&product, dtype) + sums_bytes(c, dtype) + tk_product_workspace(&product, dtype, slots);
}

typedef struct wide_ctx {
    char *wide;          /* of one batch item and group */
    const char *columns; /* [channels, kernel..., out...] */
    const char *bias;    /* of the group's channels, or NULL */
    const tk_window *w;
    tk_dtype dtype, bias_dtype;
} wide_ctx;

/* Places of one line of narrow that fall into wide: [begin, end). */
static void places_inside(const tk_window *w, int64_t first, int64_t *begin, int64_t *end) {
    int64_t stride = w->stride[2], n = w->out[2], limit = w->inp[2];
    *begin = first < 0 ? (-first + stride - 1) / stride : 0;
    *end = first >= limit ? 0 : (limit - 1 - first) / stride + 1;
    *end = *end < n ? *end : n;
}

#define ADD_LINES(T, SUFFIX)                                                                                           \
    static void add_channel_##SUFFIX(const wide_ctx *c, int64_t channel) {                                             \
        const tk_window *w = c->w;                                                                                     \
        int64_t volume = tk_volume(w->inp), lines = w->out[0] * w->out[1], begin, end;                                 \
        T *wide = (T *)c->wide + channel * volume;                                                                     \
        const T start = c->bias ? (T)tk_get(c->bias, c->bias_dtype, channel) : 0;                                      \
        const T *from = (const T *)c->columns + channel * tk_volume(w->kernel) * lines * w->out[2];                    \
        for (int64_t i = 0; i < volume; i++)                                                                           \
            wide[i] = start;                                                                                           \
        for (int64_t k = 0; k < tk_volume(w->kernel); k++) {                                                           \
            int64_t k0 = k / (w->kernel[1] * w->kernel[2]), k1 = k / w->kernel[2] % w->kernel[1],                      \
                    k2 = k % w->kernel[2];                                                                             \
            int64_t first = k2 * w->dilation[2] - w->pad_begin[2];                                                     \
            places_inside(w, first, &begin, &end);                                                                     \
            for (int64_t line = 0; line < lines; line++, from += w->out[2]) {                                          \
                int64_t i0 = line / w->out[1] * w->stride[0] - w->pad_begin[0] + k0 * w->dilation[0];                  \
                int64_t i1 = line % w->out[1] * w->stride[1] - w->pad_begin[1] + k1 * w->dilation[1];                  \
                if (i0 < 0 || i0 >= w->inp[0] || i1 < 0 || i1 >= w->inp[1])                                            \
                    continue;                                                                                          \
                T *to = wide + (i0 * w->inp[1] + i1) * w->inp[2];                                                      \
                for (int64_t i = begin; i < end; i++)                                                                  \
                    to[first + i * w->stride[2]] += from[i];                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }
ADD_LINES(float, f32)
ADD_LINES(double, f64)

static void add_channels(void *ctx, tk_share share) {
    const wide_ctx *c = ctx;
    for (int64_t channel = share.begin; channel < share.end; channel++)
        (c->dtype == TK_F32 ? add_channel_f32 : add_channel_f64)(c, channel);
}

void tk_conv_transpose_run(tk_queue *q, void *wide, const void *narrow, const void *weight, const void *bias,
                           const tk_conv *c, tk_dtype dtype, void *workspace) {
    const int64_t outs = tk_volume(c->window.out), wides = tk_volume(c->window.inp);
    if (c->groups == 0 || c->batch * c->channels * wides == 0)
        return;
    int64_t channels = c->channels / c->groups, filters = c->filters / c->groups;
    size_t size = tk_size(dtype);
    const tk_product product = product_of(c, dtype);
    char *sums = workspace ? (char *)workspace + columns_bytes(&product, dtype) : NULL;
    char *product_workspace = workspace ? sums + sums_bytes(c, dtype) : NULL;
    for (int64_t at = 0; at < c->batch * c->groups; at++) {
        int64_t group = at % c->groups;
        char *out = (char *)wide + (size_t)(at * channels * wides) * size;
        tk_product_run(q, workspace, (const char *)weight + (size_t)(group * filters * product.m) * size,
                       (const char *)narrow + (size_t)(at * filters * outs) * size, &product, dtype, product_workspace);
        wide_ctx ctx = {tk_is_half(dtype) ? sums : out, workspace, NULL, &c->window, tk_wide(dtype), dtype};
        ctx.bias = bias ? (const char *)bias + (size_t)(group * channels) * size : NULL;
        tk_parallel_for(q, channels, TK_GRAIN / (outs * tk_volume(c->window.kernel) + wides) + 1, add_channels, &ctx);
        if (tk_is_half(dtype))
            tk_cast(q, out, sums, channels * wides, dtype, TK_F32);
    }
}
