/* channel_tmpl.h: x [batch, channels, inner] -> mean, variance of a channel or group -> y [batch, channels, inner].
 * Normalizations by channel for one element type. Set before including: T, SUFFIX. */

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
        const S *x = (const S *)c->in.x + ch * c->s->inner;
        S *out = (S *)c->out.y + ch * c->s->inner;
        int64_t stride = c->s->channels * c->s->inner;
        double old_mean = (double)GET(((const S *)c->in.mean)[ch]);
        double old_variance = (double)GET(((const S *)c->in.variance)[ch]);
        double mean = old_mean, variance = old_variance;
        if (c->s->train) {
            double n = (double)(c->s->batch * c->s->inner);
            mean = TK_CAT(moment, SUFFIX)(x, c->s->batch, stride, c->s->inner, 0, false) / n;
            variance = TK_CAT(moment, SUFFIX)(x, c->s->batch, stride, c->s->inner, mean, true) / n;
            if (c->out.mean)
                ((S *)c->out.mean)[ch] = PUT((T)(old_mean * c->s->momentum + mean * (1 - c->s->momentum)));
            if (c->out.variance)
                ((S *)c->out.variance)[ch] = PUT((T)(old_variance * c->s->momentum + variance * (1 - c->s->momentum)));
        }
        double scale = (double)GET(((const S *)c->in.scale)[ch]), bias = (double)GET(((const S *)c->in.bias)[ch]);
        double inv_std = 1 / sqrt(variance + c->s->epsilon);
        for (int64_t b = 0; b < c->s->batch; b++)
            TK_CAT(channel_apply, SUFFIX)(out + b * stride, x + b * stride, c->s->inner, mean, inv_std, scale, bias);
    }
}

/* One group of one batch item. */
static void TK_CAT(groups, SUFFIX)(void *ctx, tk_share share) {
    const channel_ctx *c = ctx;
    int64_t of_group = c->s->channels / c->s->groups, n = of_group * c->s->inner;
    for (int64_t at = share.begin; at < share.end; at++) {
        const S *x = (const S *)c->in.x + at * n;
        S *out = (S *)c->out.y + at * n;
        double mean = TK_CAT(moment, SUFFIX)(x, 1, n, n, 0, false) / (double)n;
        double inv_std = 1 / sqrt(TK_CAT(moment, SUFFIX)(x, 1, n, n, mean, true) / (double)n + c->s->epsilon);
        for (int64_t k = 0; k < of_group; k++) {
            int64_t ch = at % c->s->groups * of_group + k;
            TK_CAT(channel_apply, SUFFIX)
            (out + k * c->s->inner, x + k * c->s->inner, c->s->inner, mean, inv_std,
             (double)GET(((const S *)c->in.scale)[ch]), (double)GET(((const S *)c->in.bias)[ch]));
        }
    }
}

static void TK_CAT(lrn_channels, SUFFIX)(void *ctx, tk_share share) {
    const channel_ctx *c = ctx;
    for (int64_t at = share.begin; at < share.end; at++) {
        int64_t ch = at % c->s->channels, low = ch - (c->s->size - 1) / 2, high = ch + c->s->size / 2;
        const S *x = (const S *)c->in.x + (at - ch) * c->s->inner;
        low = low < 0 ? 0 : low;
        high = high < c->s->channels ? high : c->s->channels - 1;
        for (int64_t i = 0; i < c->s->inner; i++) {
            double sum = 0;
            for (int64_t k = low; k <= high; k++)
                sum += (double)GET(x[k * c->s->inner + i]) * (double)GET(x[k * c->s->inner + i]);
            ((S *)c->out.y)[at * c->s->inner + i] =
                PUT((T)((double)GET(x[ch * c->s->inner + i]) /
                        pow(c->s->add + c->s->alpha / (double)c->s->size * sum, c->s->beta)));
        }
    }
}
#undef T
#undef SUFFIX
