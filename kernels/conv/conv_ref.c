/* conv_ref.c: one element of a convolution by its definition. */
#include "../common/types.h"
#include "conv.h"

double tk_conv_ref(const void *inp, const void *weight, const void *bias, const tk_conv *c, tk_dtype dtype,
                   int64_t index) {
    const tk_window *w = &c->window;
    int64_t outs = tk_volume(w->out), f = index / outs % c->filters, b = index / outs / c->filters,
            channels = c->channels / c->groups;
    int64_t o[] = {index / (w->out[1] * w->out[2]) % w->out[0], index / w->out[2] % w->out[1], index % w->out[2]};
    double sum = bias ? tk_get(bias, dtype, f) : 0;
    for (int64_t ch = 0; ch < channels; ch++)
        for (int64_t k = 0; k < tk_volume(w->kernel); k++) {
            int64_t ks[] = {k / (w->kernel[1] * w->kernel[2]), k / w->kernel[2] % w->kernel[1], k % w->kernel[2]},
                    at = 0;
            bool inside = true;
            for (int d = 0; d < TK_WINDOW_RANK; d++) {
                int64_t i = o[d] * w->stride[d] - w->pad_begin[d] + ks[d] * w->dilation[d];
                inside = inside && i >= 0 && i < w->inp[d];
                at = at * w->inp[d] + i;
            }
            int64_t channel = f / (c->filters / c->groups) * channels + ch;
            if (inside)
                sum += tk_get(inp, dtype, (b * c->channels + channel) * tk_volume(w->inp) + at) *
                       tk_get(weight, dtype, (f * channels + ch) * tk_volume(w->kernel) + k);
        }
    return sum;
}

double tk_conv_transpose_ref(const void *narrow, const void *weight, const void *bias, const tk_conv *c, tk_dtype dtype,
                             int64_t index) {
    const tk_window *w = &c->window;
    int64_t wides = tk_volume(w->inp), channels = c->channels / c->groups, filters = c->filters / c->groups,
            channel = index / wides % c->channels, b = index / wides / c->channels;
    int64_t at[] = {index / (w->inp[1] * w->inp[2]) % w->inp[0], index / w->inp[2] % w->inp[1], index % w->inp[2]};
    double sum = bias ? tk_get(bias, dtype, channel) : 0;
    for (int64_t place = 0; place < tk_volume(w->out); place++)
        for (int64_t k = 0; k < tk_volume(w->kernel); k++) {
            int64_t o[] = {place / (w->out[1] * w->out[2]), place / w->out[2] % w->out[1], place % w->out[2]};
            int64_t ks[] = {k / (w->kernel[1] * w->kernel[2]), k / w->kernel[2] % w->kernel[1], k % w->kernel[2]};
            bool reads = true;
            for (int d = 0; d < TK_WINDOW_RANK; d++)
                reads = reads && o[d] * w->stride[d] - w->pad_begin[d] + ks[d] * w->dilation[d] == at[d];
            for (int64_t f = channel / channels * filters; reads && f < (channel / channels + 1) * filters; f++)
                sum += tk_get(narrow, dtype, (b * c->filters + f) * tk_volume(w->out) + place) *
                       tk_get(weight, dtype, (f * channels + channel % channels) * tk_volume(w->kernel) + k);
        }
    return sum;
}
