/* resize_tmpl.h: lines [inner] of x, each with a weight -> a line [inner] of y.
 * Lines of a resize for one element type. Set before including: T, SUFFIX. */

/* line = or += weight inp, n elements. */
TK_VECTOR static void TK_CAT(add_line, SUFFIX)(T *line, const S *inp, T weight, int64_t n, bool begins) {
    if (begins)
        for (int64_t i = 0; i < n; i++)
            line[i] = weight * GET(inp[i]);
    else
        for (int64_t i = 0; i < n; i++)
            line[i] += weight * GET(inp[i]);
}

/* The weight of the line at hand: the product of those of all axes but the last. */
static T TK_CAT(weight_of, SUFFIX)(const line_walk *w) {
    T weight = 1;
    for (int d = 0; d < w->r->n_axes - 1; d++)
        weight *= ((const T *)w->r->axes[d].weights)[w->taps[d]->weights + w->k[d]];
    return weight;
}

static void TK_CAT(along_line, SUFFIX)(S *out, const T *line, const tk_resize_axis *axis, S outside) {
    for (int64_t t = 0; t < axis->out; t++) {
        const tk_tap tap = axis->taps[t];
        const T *w = (const T *)axis->weights + tap.weights, *x = line + tap.first;
        T sum = 0;
        if (tap.count == 2)
            sum = w[0] * x[0] + w[1] * x[1];
        else
            for (int32_t k = 0; k < tap.count; k++)
                sum += w[k] * x[k];
        out[t] = tap.count ? PUT(sum) : outside;
    }
}

/* Rows of `inner` elements at each place of the line, in parts that stay in registers and the nearest cache. */
TK_VECTOR static void TK_CAT(along_rows, SUFFIX)(S *out, const T *line, const tk_resize_axis *axis, int64_t inner,
                                                 S outside) {
    enum { PART = 64 };
    for (int64_t t = 0; t < axis->out; t++) {
        const tk_tap tap = axis->taps[t];
        const T *w = (const T *)axis->weights + tap.weights;
        for (int64_t from = 0; from < inner; from += PART) {
            T sums[PART] = {0};
            const int64_t n = inner - from < PART ? inner - from : PART;
            for (int32_t k = 0; k < tap.count; k++)
                for (int64_t i = 0; i < n; i++)
                    sums[i] += w[k] * line[(tap.first + k) * inner + from + i];
            for (int64_t i = 0; i < n; i++)
                out[t * inner + from + i] = tap.count ? PUT(sums[i]) : outside;
        }
    }
}

static void TK_CAT(resize_lines, SUFFIX)(void *ctx, tk_share share) {
    const resize_ctx *c = ctx;
    const tk_resize *r = c->r;
    const tk_resize_axis *last = &r->axes[r->n_axes - 1];
    const int64_t n = last->inp * r->inner, wide = last->out * r->inner;
    const int64_t end = share.end * c->block < c->lines ? share.end * c->block : c->lines;
    S outside;
    memcpy(&outside, &r->outside, sizeof outside);
    for (int64_t at = share.begin * c->block; at < end; at++) {
        S *out = (S *)c->out + at * wide;
        T *line = c->workspace ? (T *)(void *)(c->workspace + (size_t)share.thread * c->line_bytes) : NULL;
        line_walk w = begin_walk(r, at);
        if (w.outside) {
            for (int64_t i = 0; i < wide; i++)
                out[i] = outside;
            continue;
        }
        const T *x = line;
        const S *inp = (const S *)c->inp + line_at(&w);
        const T weight = TK_CAT(weight_of, SUFFIX)(&w);
        bool more = next_line(&w);
        if (sizeof(S) == sizeof(T) && !more && weight == 1) /* the stored type is the type of computation */
            x = (const T *)(const void *)inp;
        else
            TK_CAT(add_line, SUFFIX)(line, inp, weight, n, true);
        for (; more; more = next_line(&w))
            TK_CAT(add_line, SUFFIX)(line, (const S *)c->inp + line_at(&w), TK_CAT(weight_of, SUFFIX)(&w), n, false);
        if (r->inner == 1)
            TK_CAT(along_line, SUFFIX)(out, x, last, outside);
        else
            TK_CAT(along_rows, SUFFIX)(out, x, last, r->inner, outside);
    }
}
#undef T
#undef SUFFIX
