/* conv_cpu.c: patches to columns, then one product for each batch item and group. A window of one element without
 * strides or pads needs no columns: the input is the matrix. */
#include "../common/parallel.h"
#include "../matmul/matmul.h"
#include "conv.h"
#include <string.h>

static bool is_pointwise(const tk_window *w) {
    for (int d = 0; d < TK_WINDOW_RANK; d++)
        if (w->kernel[d] != 1 || w->stride[d] != 1 || w->pad_begin[d] != 0 || w->pad_end[d] != 0)
            return false;
    return true;
}

/* Of one batch item and group: filters x (channels, kernel) by (channels, kernel) x places. */
static tk_product product_of(const tk_conv *c) {
    int64_t outs = tk_volume(c->window.out), k = c->channels / c->groups * tk_volume(c->window.kernel);
    return (tk_product){.batch = 1, .m = c->filters / c->groups, .n = outs, .k = k, .lda = k, .ldb = outs, .alpha = 1};
}

/* Bytes of the columns; the product's own workspace follows them. */
static size_t columns_bytes(const tk_conv *c, const tk_product *p, tk_dtype dtype) {
    return is_pointwise(&c->window) ? 0 : ((size_t)(p->k * p->n) * tk_size(dtype) + 63) / 64 * 64;
}

size_t tk_conv_workspace(const tk_conv *c, tk_dtype dtype, int slots) {
    if (c->groups == 0)
        return 0;
    tk_product product = product_of(c);
    return columns_bytes(c, &product, dtype) + tk_product_workspace(&product, dtype, slots);
}

typedef struct columns_ctx {
    char *columns;
    const char *inp; /* of one group */
    const tk_window *w;
    size_t size;
} columns_ctx;

/* One line of results: n elements, `stride` apart in the input from `first` on, zero outside [0, limit). */
static void line(char *to, const char *from, int64_t n, int64_t first, int64_t stride, int64_t limit, size_t size) {
    int64_t begin = first < 0 ? (-first + stride - 1) / stride : 0,
            end = first >= limit ? 0 : (limit - 1 - first) / stride + 1;
    begin = begin < n ? begin : n;
    end = end < n ? end : n;
    end = end > begin ? end : begin;
    memset(to, 0, (size_t)begin * size);
    if (stride == 1)
        memcpy(to + (size_t)begin * size, from + (first + begin) * (int64_t)size, (size_t)(end - begin) * size);
    else if (size == sizeof(float))
        for (int64_t i = begin; i < end; i++)
            ((float *)to)[i] = ((const float *)from)[first + i * stride];
    else if (size == sizeof(uint16_t))
        for (int64_t i = begin; i < end; i++)
            ((uint16_t *)to)[i] = ((const uint16_t *)from)[first + i * stride];
    else
        for (int64_t i = begin; i < end; i++)
            ((double *)to)[i] = ((const double *)from)[first + i * stride];
    memset(to + (size_t)end * size, 0, (size_t)(n - end) * size);
}

/* Row r of the matrix: channel and place in the window, in that order; its columns are the places of the result. */
static void columns_rows(void *ctx, tk_share share) {
    const columns_ctx *c = ctx;
    const tk_window *w = c->w;
    for (int64_t r = share.begin; r < share.end; r++) {
        int64_t k2 = r % w->kernel[2], k1 = r / w->kernel[2] % w->kernel[1],
                k0 = r / (w->kernel[2] * w->kernel[1]) % w->kernel[0];
        const char *inp = c->inp + (size_t)(r / tk_volume(w->kernel) * tk_volume(w->inp)) * c->size;
        char *to = c->columns + (size_t)(r * tk_volume(w->out)) * c->size;
        for (int64_t at = 0; at < w->out[0] * w->out[1]; at++, to += (size_t)w->out[2] * c->size) {
            int64_t i0 = at / w->out[1] * w->stride[0] - w->pad_begin[0] + k0 * w->dilation[0];
            int64_t i1 = at % w->out[1] * w->stride[1] - w->pad_begin[1] + k1 * w->dilation[1];
            if (i0 < 0 || i0 >= w->inp[0] || i1 < 0 || i1 >= w->inp[1])
                memset(to, 0, (size_t)w->out[2] * c->size);
            else
                line(to, inp + (size_t)((i0 * w->inp[1] + i1) * w->inp[2]) * c->size, w->out[2],
                     k2 * w->dilation[2] - w->pad_begin[2], w->stride[2], w->inp[2], c->size);
        }
    }
}

void tk_conv_run(tk_queue *q, void *out_, const void *inp_, const void *weight_, const void *bias, const tk_conv *c,
                 tk_dtype dtype, void *workspace) {
    const int64_t outs = tk_volume(c->window.out), inps = tk_volume(c->window.inp);
    if (c->groups == 0 || c->batch * c->filters * outs == 0)
        return;
    int64_t channels = c->channels / c->groups, filters = c->filters / c->groups;
    size_t size = tk_size(dtype);
    bool pointwise = is_pointwise(&c->window);
    tk_product product = product_of(c);
    char *product_workspace = workspace ? (char *)workspace + columns_bytes(c, &product, dtype) : NULL;
    product.beta = bias ? 1 : 0;
    if (bias) {
        const int64_t out_dims[] = {c->batch, c->filters, outs}, bias_dims[] = {c->filters, 1};
        tk_bcast bc;
        tk_bcast_init(&bc, (tk_shape){3, out_dims}, (tk_shape[]){{2, bias_dims}}, 1);
        tk_product_start(q, out_, bias, 1, &bc, dtype);
    }
    for (int64_t at = 0; at < c->batch * c->groups; at++) {
        const char *inp = (const char *)inp_ + (size_t)(at * channels * inps) * size;
        const char *weight = (const char *)weight_ + (size_t)(at % c->groups * filters * product.k) * size;
        columns_ctx columns = {workspace, inp, &c->window, size};
        if (!pointwise)
            tk_parallel_for(q, product.k, TK_GRAIN / (outs + 1) + 1, columns_rows, &columns);
        tk_product_run(q, (char *)out_ + (size_t)(at * filters * outs) * size, weight, pointwise ? inp : workspace,
                       &product, dtype, product_workspace);
    }
}
