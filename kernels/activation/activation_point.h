/* activation_point.h: one point of an activation's curve (fit_curves.c), in one type of numbers. Kernels of the CPU and
 * of CUDA both use it. Set before including: T, SUFFIX. */
#define FN(name) TK_CAT(tk_##name, SUFFIX)
#define NAME(name) TK_CAT(name, SUFFIX)
#define TERMS NAME(TK_CURVE_TERMS)

/* A curve of one alpha, which is not 0: f(x) = curve(alpha x) / alpha. Lengths in alpha x are (x - x_min) alpha, where
 * x_min is in two parts and the difference exact near the minimum; so with y. */
typedef struct NAME(tk_curve) {
    T x[2], y[2], alpha, shrink, tail, least, most, tiny; /* shrink: 1 / alpha */
    T near[TERMS], begin[TK_CURVE_PIECES], middle[TK_CURVE_PIECES], scale[TK_CURVE_PIECES];
    T terms[TERMS][TK_CURVE_PIECES];
} NAME(tk_curve);

/* For a row with tk_activation_is_known. */
void NAME(tk_activation_curve)(NAME(tk_curve) * out, tk_pointwise_row row, double alpha);

/* How far right of the minimum x lies, in alpha x. */
TK_INLINE T NAME(tk_curve_off)(T x, const NAME(tk_curve) * c) { return ((x - c->x[0]) - c->x[1]) * c->alpha; }

/* f(x); `rough` is f(x) too, except near the minimum. */
TK_INLINE T NAME(tk_curve_value)(T off, T rough, const NAME(tk_curve) * c) {
    const T s = off * (T)(1 / TK_CURVE_NEAR);
    T bend = c->near[TERMS - 1];
    TK_UNROLL
    for (int k = TERMS - 2; k >= 0; k--)
        bend = bend * s + c->near[k];
    const T close = c->y[0] + (c->y[1] + off * off * bend * c->shrink);
    return FN(fabs)(s) <= 1 ? close : rough;
}

/* f' where f is y, on the side that `right` says. */
TK_INLINE T NAME(tk_curve_slope)(T y, int right, const NAME(tk_curve) * c) {
    const T above = ((y - c->y[0]) - c->y[1]) * c->alpha, depth = -c->alpha * y;
    const T height = above < 0 ? 0 : above, t = FN(sqrt)(height);
    const T u = FN(sqrt)(-FN(log)(depth < c->tiny ? c->tiny : depth));
    const int in_tail = !right && depth < -c->tail;
    const T side = in_tail ? -u : right ? t : -t, k = side < c->least ? c->least : side;
    int p = 0;
    TK_UNROLL
    for (int j = 1; j < TK_CURVE_PIECES; j++)
        p += k >= c->begin[j];
    const T s = (k - c->middle[p]) * c->scale[p];
    T sum = c->terms[TERMS - 1][p];
    TK_UNROLL
    for (int j = TERMS - 2; j >= 0; j--)
        sum = sum * s + c->terms[j][p];
    sum = in_tail ? -depth * sum : sum;
    return k >= c->most ? 1 : sum;
}
#undef NAME
#undef FN
#undef TERMS
#undef T
#undef SUFFIX
