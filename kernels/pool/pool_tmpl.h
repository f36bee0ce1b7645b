/* pool_tmpl.h: a plane [inp...] -> [out...], with places of maxima [out...].
 * One plane of a pool for one element type. Set before including: T, SUFFIX, and LOWEST of integers. NaN is a
 * maximum. */
#ifndef LOWEST
#define LOWEST -INFINITY
#define FLOAT
#endif
#ifdef FLOAT
#define IS_NAN(v) isnan(v)
#else
#define IS_NAN(v) false
#endif
static void TK_CAT(max_plane, SUFFIX)(const pool_ctx *c, int64_t plane) {
    const tk_window *w = &c->pool->window;
    const S *x = (const S *)c->inp + plane * tk_volume(w->inp);
    for (int64_t at = 0; at < tk_volume(w->out); at++) {
        box b = window_at(w, at);
        T best = LOWEST;
        int64_t place = -1;
        for (int64_t i = b.from[0]; i < b.to[0]; i += w->dilation[0])
            for (int64_t j = b.from[1]; j < b.to[1]; j += w->dilation[1])
                for (int64_t k = b.from[2]; k < b.to[2]; k += w->dilation[2]) {
                    T v = GET(x[(i * w->inp[1] + j) * w->inp[2] + k]);
                    if (place < 0 || v > best || IS_NAN(v)) {
                        best = v;
                        place = c->pool->column_major ? (k * w->inp[1] + j) * w->inp[0] + i
                                                      : (i * w->inp[1] + j) * w->inp[2] + k;
                    }
                }
        ((S *)c->out)[plane * tk_volume(w->out) + at] = PUT(best);
        if (c->indices)
            c->indices[plane * tk_volume(w->out) + at] = place < 0 ? -1 : plane * tk_volume(w->inp) + place;
    }
}

#ifdef FLOAT
static void TK_CAT(mean_plane, SUFFIX)(const pool_ctx *c, int64_t plane) {
    const tk_window *w = &c->pool->window;
    const S *x = (const S *)c->inp + plane * tk_volume(w->inp);
    bool mean = c->pool->op == TK_POOL_AVERAGE;
    double p = (double)c->pool->p;
    for (int64_t at = 0; at < tk_volume(w->out); at++) {
        box b = window_at(w, at);
        double sum = 0;
        for (int64_t i = b.from[0]; i < b.to[0]; i += w->dilation[0])
            for (int64_t j = b.from[1]; j < b.to[1]; j += w->dilation[1])
                for (int64_t k = b.from[2]; k < b.to[2]; k += w->dilation[2]) {
                    double v = (double)GET(x[(i * w->inp[1] + j) * w->inp[2] + k]);
                    sum += mean ? v : pow(fabs(v), p);
                }
        double y = mean ? sum / (double)(c->pool->count_pads ? b.padded : b.inside) : pow(sum, 1 / p);
        ((S *)c->out)[plane * tk_volume(w->out) + at] = PUT((T)y);
    }
}

static void TK_CAT(fold_plane, SUFFIX)(const pool_ctx *c, int64_t plane) {
    const tk_window *w = &c->pool->window;
    int64_t outs = tk_volume(w->out);
    const S *x = (const S *)c->inp + plane * tk_volume(w->kernel) * outs;
    S *y = (S *)c->out + plane * tk_volume(w->inp);
    for (int64_t at = 0; at < tk_volume(w->inp); at++) {
        int64_t i[] = {at / w->inp[2] / w->inp[1], at / w->inp[2] % w->inp[1], at % w->inp[2]};
        T sum = 0;
        for (int64_t tap = 0; tap < tk_volume(w->kernel); tap++) {
            int64_t k[] = {tap / w->kernel[2] / w->kernel[1], tap / w->kernel[2] % w->kernel[1], tap % w->kernel[2]};
            int64_t o0 = window_place(w, 0, i[0], k[0]), o1 = window_place(w, 1, i[1], k[1]),
                    o2 = window_place(w, 2, i[2], k[2]);
            if (o0 >= 0 && o1 >= 0 && o2 >= 0)
                sum += GET(x[tap * outs + (o0 * w->out[1] + o1) * w->out[2] + o2]);
        }
        y[at] = PUT(sum);
    }
}
#endif
#undef T
#undef SUFFIX
#undef LOWEST
#undef FLOAT
#undef IS_NAN
