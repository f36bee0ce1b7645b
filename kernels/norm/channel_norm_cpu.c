/* channel_norm_cpu.c: normalizations by channel: batch, group, instance, local response. Channels or groups go to
 * threads. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "norm.h"
#include <math.h>

typedef struct channel_ctx {
    void *out, *new_mean, *new_variance;
    const void *inp, *scale, *bias, *mean, *variance;
    int64_t batch, channels, groups, inner, size;
    double epsilon, momentum, alpha, beta, add;
    bool train;
} channel_ctx;

#define TEMPLATE "../norm/channel_tmpl.h"
#include "../common/each_float.h"

static int64_t grain(int64_t elements) { return TK_GRAIN / 4 / (elements + 1) + 1; }

void tk_batch_norm(tk_queue *q, void *out, const void *inp, const void *scale, const void *bias, const void *mean,
                   const void *variance, int64_t batch, int64_t channels, int64_t inner, double epsilon,
                   tk_dtype dtype) {
    channel_ctx c = {.out = out,
                     .inp = inp,
                     .scale = scale,
                     .bias = bias,
                     .mean = mean,
                     .variance = variance,
                     .batch = batch,
                     .channels = channels,
                     .inner = inner,
                     .epsilon = epsilon};
    tk_parallel_for(q, channels, grain(batch * inner), TK_OF_FLOAT(dtype, batch_channels), &c);
}

void tk_batch_norm_train(tk_queue *q, void *out, void *new_mean, void *new_variance, const void *inp, const void *scale,
                         const void *bias, const void *mean, const void *variance, int64_t batch, int64_t channels,
                         int64_t inner, double epsilon, double momentum, tk_dtype dtype) {
    channel_ctx c = {.out = out,
                     .new_mean = new_mean,
                     .new_variance = new_variance,
                     .inp = inp,
                     .scale = scale,
                     .bias = bias,
                     .mean = mean,
                     .variance = variance,
                     .batch = batch,
                     .channels = channels,
                     .inner = inner,
                     .epsilon = epsilon,
                     .momentum = momentum,
                     .train = true};
    tk_parallel_for(q, channels, grain(batch * inner), TK_OF_FLOAT(dtype, batch_channels), &c);
}

void tk_group_norm(tk_queue *q, void *out, const void *inp, const void *scale, const void *bias, int64_t batch,
                   int64_t channels, int64_t groups, int64_t inner, double epsilon, tk_dtype dtype) {
    channel_ctx c = {.out = out,
                     .inp = inp,
                     .scale = scale,
                     .bias = bias,
                     .batch = batch,
                     .channels = channels,
                     .groups = groups,
                     .inner = inner,
                     .epsilon = epsilon};
    tk_parallel_for(q, batch * groups, grain(channels / groups * inner), TK_OF_FLOAT(dtype, groups), &c);
}

void tk_lrn(tk_queue *q, void *out, const void *inp, int64_t batch, int64_t channels, int64_t inner, int64_t size,
            double alpha, double beta, double bias, tk_dtype dtype) {
    channel_ctx c = {.out = out,
                     .inp = inp,
                     .batch = batch,
                     .channels = channels,
                     .inner = inner,
                     .size = size,
                     .alpha = alpha,
                     .beta = beta,
                     .add = bias};
    tk_parallel_for(q, batch * channels, grain(inner * size * 4), TK_OF_FLOAT(dtype, lrn_channels), &c);
}
