/* activation_tmpl.h: what one type of numbers computes of an activation's curve (fit_curves.c). Set before including:
 * T, SUFFIX. */
#define FN(name) TK_CAT(tk_##name, SUFFIX)
#define NAME(name) TK_CAT(name, SUFFIX)
enum { NAME(PIECES) = NAME(CURVE_PIECES), NAME(TERMS) = NAME(CURVE_TERMS) };

/* A curve of one alpha, which is not 0: f(x) = curve(alpha x) / alpha. Lengths in alpha x are (x - x_min) alpha, where
 * x_min is in two parts and the difference exact near the minimum; so with y. */
typedef struct NAME(scaled) {
    T x[2], y[2], alpha, tail, least, most, tiny;
    T near[NAME(TERMS)], begin[NAME(PIECES)], middle[NAME(PIECES)], scale[NAME(PIECES)];
    T terms[NAME(TERMS)][NAME(PIECES)];
} NAME(scaled);

static void NAME(place)(T parts[2], const double minimum[2], double alpha) {
    const double whole = minimum[0] / alpha;
    parts[0] = (T)whole;
    parts[1] = (T)(whole - (double)parts[0] + (minimum[1] - fma(whole, alpha, -minimum[0])) / alpha);
}

static void NAME(fill)(NAME(scaled) * c, tk_pointwise_row row, double alpha, double tiny) {
    const struct TK_CAT(curve, SUFFIX) *from = &NAME(curves)[curve_rows[row] - 1];
    *c = (NAME(scaled)){
        .alpha = (T)alpha, .tail = (T)from->tail, .least = (T)from->least, .most = (T)from->most, .tiny = (T)tiny};
    NAME(place)(c->x, from->x, alpha);
    NAME(place)(c->y, from->y, alpha);
    for (int i = 0; i < NAME(TERMS); i++)
        c->near[i] = (T)from->near[i];
    for (int p = 0; p < NAME(PIECES); p++) {
        c->begin[p] = (T)from->begin[p], c->middle[p] = (T)from->middle[p], c->scale[p] = (T)from->scale[p];
        for (int i = 0; i < NAME(TERMS); i++)
            c->terms[i][p] = (T)from->terms[i][p];
    }
}

/* out holds f(x) and becomes more exact near the minimum; right[i] becomes 0 or 1. */
TK_VECTOR static void NAME(mask)(T *out, uint8_t *right, const T *inp, int64_t n, const NAME(scaled) * curve) {
    const NAME(scaled) c = *curve;
    const T shrink = 1 / c.alpha;
    for (int64_t i = 0; i < n; i++) {
        const T off = ((inp[i] - c.x[0]) - c.x[1]) * c.alpha, s = off * (T)(1 / CURVE_NEAR);
        T bend = c.near[NAME(TERMS) - 1];
        TK_UNROLL
        for (int k = NAME(TERMS) - 2; k >= 0; k--)
            bend = bend * s + c.near[k];
        const T close = c.y[0] + (c.y[1] + off * off * bend * shrink);
        out[i] = FN(fabs)(s) <= 1 ? close : out[i];
        right[i] = off >= 0;
    }
}

/* slope[i] = f' where f is y[i], on the side that right[i] says. */
TK_VECTOR static void NAME(decode)(T *slope, const T *y, const uint8_t *right, int64_t n, const NAME(scaled) * curve) {
    const NAME(scaled) c = *curve;
    for (int64_t i = 0; i < n; i++) {
        const T above = ((y[i] - c.y[0]) - c.y[1]) * c.alpha, depth = -c.alpha * y[i];
        const T height = above < 0 ? 0 : above, t = FN(sqrt)(height);
        const T u = FN(sqrt)(-FN(log)(depth < c.tiny ? c.tiny : depth));
        const int in_tail = !right[i] && depth < -c.tail;
        const T side = in_tail ? -u : right[i] ? t : -t, k = side < c.least ? c.least : side;
        int p = 0;
        TK_UNROLL
        for (int j = 1; j < NAME(PIECES); j++)
            p += k >= c.begin[j];
        const T s = (k - c.middle[p]) * c.scale[p];
        T sum = c.terms[NAME(TERMS) - 1][p];
        TK_UNROLL
        for (int j = NAME(TERMS) - 2; j >= 0; j--)
            sum = sum * s + c.terms[j][p];
        sum = in_tail ? -depth * sum : sum;
        slope[i] = k >= c.most ? 1 : sum;
    }
}
#undef NAME
#undef FN
#undef T
#undef SUFFIX
