/* channel_tmpl.h: normalizations by channel for one element type. Set before including: T, SUFFIX. */

/* The sum of x - shift or of its square over `segments` runs of n elements, `stride` apart. */
static double TK_CAT(moment, SUFFIX)(const S *x, int64_t segments, int64_t stride, int64_t n, double shift,
                                     bool squared) {
    double total = 0;
    for (int64_t s = 0; s < segments; s++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double d = (double)GET(x[s * stride + i]) - shift;
            sum += squared ? d * d : d;
        }
        total += sum;
    }
    return total;
}

static void TK_CAT(channel_apply, SUFFIX)(S *out, const S *x, int64_t n, double mean, double inv_std, double scale,
                                          double bias) {
    for (int64_t i = 0; i < n; i++)
        out[i] = PUT((T)(((double)GET(x[i]) - mean) * inv_std * scale + bias));
}

/* One channel of a batch normalization. */
static void TK_CAT(batch_channels, SUFFIX)(void *ctx, tk_share share) {
    const channel_ctx *c = ctx;
    for (int64_t ch = share.begin; ch < share.end; ch++) {
        const S *x = (const S *)c->inp + ch * c->inner;
        S *out = (S *)c->out + ch * c->inner;
        int64_t stride = c->channels * c->inner;
        double old_mean = (double)GET(((const S *)c->mean)[ch]);
        double old_variance = (double)GET(((const S *)c->variance)[ch]);
        double mean = old_mean, variance = old_variance;
        if (c->train) {
            double n = (double)(c->batch * c->inner);
            mean = TK_CAT(moment, SUFFIX)(x, c->batch, stride, c->inner, 0, false) / n;
            variance = TK_CAT(moment, SUFFIX)(x, c->batch, stride, c->inner, mean, true) / n;
            if (c->new_mean)
                ((S *)c->new_mean)[ch] = PUT((T)(old_mean * c->momentum + mean * (1 - c->momentum)));
            if (c->new_variance)
                ((S *)c->new_variance)[ch] = PUT((T)(old_variance * c->momentum + variance * (1 - c->momentum)));
        }
        double scale = (double)GET(((const S *)c->scale)[ch]), bias = (double)GET(((const S *)c->bias)[ch]);
        double inv_std = 1 / sqrt(variance + c->epsilon);
        for (int64_t b = 0; b < c->batch; b++)
            TK_CAT(channel_apply, SUFFIX)(out + b * stride, x + b * stride, c->inner, mean, inv_std, scale, bias);
    }
}

/* One group of one batch item. */
static void TK_CAT(groups, SUFFIX)(void *ctx, tk_share share) {
    const channel_ctx *c = ctx;
    int64_t of_group = c->channels / c->groups, n = of_group * c->inner;
    for (int64_t at = share.begin; at < share.end; at++) {
        const S *x = (const S *)c->inp + at * n;
        S *out = (S *)c->out + at * n;
        double mean = TK_CAT(moment, SUFFIX)(x, 1, n, n, 0, false) / (double)n;
        double inv_std = 1 / sqrt(TK_CAT(moment, SUFFIX)(x, 1, n, n, mean, true) / (double)n + c->epsilon);
        for (int64_t k = 0; k < of_group; k++) {
            int64_t ch = at % c->groups * of_group + k;
            TK_CAT(channel_apply, SUFFIX)
            (out + k * c->inner, x + k * c->inner, c->inner, mean, inv_std, (double)GET(((const S *)c->scale)[ch]),
             (double)GET(((const S *)c->bias)[ch]));
        }
    }
}

static void TK_CAT(lrn_channels, SUFFIX)(void *ctx, tk_share share) {
    const channel_ctx *c = ctx;
    for (int64_t at = share.begin; at < share.end; at++) {
        int64_t ch = at % c->channels, low = ch - (c->size - 1) / 2, high = ch + c->size / 2;
        const S *x = (const S *)c->inp + (at - ch) * c->inner;
        low = low < 0 ? 0 : low;
        high = high < c->channels ? high : c->channels - 1;
        for (int64_t i = 0; i < c->inner; i++) {
            double sum = 0;
            for (int64_t k = low; k <= high; k++)
                sum += (double)GET(x[k * c->inner + i]) * (double)GET(x[k * c->inner + i]);
            ((S *)c->out)[at * c->inner + i] =
                PUT((T)((double)GET(x[ch * c->inner + i]) / pow(c->add + c->alpha / (double)c->size * sum, c->beta)));
        }
    }
}
#undef T
#undef SUFFIX
