/* activation_tmpl.h: x [n] -> y [n], a bit each; dy, y [n], bits -> dx [n].
 * X [n] -> y [n], a bit each; dy, y [n], bits -> dx [n]. Curves of one type of numbers, from the table, and loops over
 * their points (activation_point.h). Set before including: T, SUFFIX. */
#define NAME(name) TK_CAT(name, SUFFIX)
_Static_assert((int)NAME(CURVE_TERMS) == (int)NAME(TK_CURVE_TERMS) && CURVE_PIECES == TK_CURVE_PIECES,
               "fit_curves.c says others");

static void NAME(place)(T parts[2], const double minimum[2], double alpha) {
    const double whole = minimum[0] / alpha;
    parts[0] = (T)whole;
    parts[1] = (T)(whole - (double)parts[0] + (minimum[1] - fma(whole, alpha, -minimum[0])) / alpha);
}

void NAME(tk_activation_curve)(NAME(tk_curve) * out, tk_pointwise_row row, double alpha) {
    const struct NAME(curve) *from = &NAME(curves)[curve_rows[row] - 1];
    alpha = isnan(tk_pointwise_alpha(row)) ? 1 : alpha; /* 1 for functions without alpha */
    alpha = fabs(alpha) < LEAST_ALPHA ? LEAST_ALPHA : alpha;
    *out = (NAME(tk_curve)){.alpha = (T)alpha,
                            .shrink = 1 / (T)alpha,
                            .tail = (T)from->tail,
                            .least = (T)from->least,
                            .most = (T)from->most,
                            .tiny = NAME(TINY)};
    NAME(place)(out->x, from->x, alpha);
    NAME(place)(out->y, from->y, alpha);
    for (int i = 0; i < NAME(TK_CURVE_TERMS); i++)
        out->near[i] = (T)from->near[i];
    for (int p = 0; p < TK_CURVE_PIECES; p++) {
        out->begin[p] = (T)from->begin[p], out->middle[p] = (T)from->middle[p], out->scale[p] = (T)from->scale[p];
        for (int i = 0; i < NAME(TK_CURVE_TERMS); i++)
            out->terms[i][p] = (T)from->terms[i][p];
    }
}

/* out holds f(x) and becomes more exact near the minimum; right[i] becomes 0 or 1. */
TK_VECTOR static void NAME(mask)(T *out, uint8_t *right, const T *inp, int64_t n, const NAME(tk_curve) * curve) {
    const NAME(tk_curve) c = *curve;
    for (int64_t i = 0; i < n; i++) {
        const T off = NAME(tk_curve_off)(inp[i], &c);
        out[i] = NAME(tk_curve_value)(off, out[i], &c);
        right[i] = off >= 0;
    }
}

TK_VECTOR static void NAME(decode)(T *slope, const T *y, const uint8_t *right, int64_t n,
                                   const NAME(tk_curve) * curve) {
    const NAME(tk_curve) c = *curve;
    for (int64_t i = 0; i < n; i++)
        slope[i] = NAME(tk_curve_slope)(y[i], right[i], &c);
}
#undef NAME
#undef T
#undef SUFFIX
