/* fourier_tmpl.h: a lane [n_inp, 1 or 2] -> x [n] of pairs -> transformed [n] -> a lane [n_out, 1 or 2].
 * Lanes of one element type to pairs of doubles and back; an inverse transform is that of the conjugates, conjugated,
 * over n. Set before including: T, SUFFIX. */
static void TK_CAT(load, SUFFIX)(const dft_ctx *c, int64_t lane, tk_complex *x) {
    const tk_dft_shape *d = c->d;
    const S *inp = (const S *)c->inp + tk_dft_inp_at(d, lane) * d->inp_parts;
    for (int64_t j = 0; j < d->n; j++) {
        bool conjugate;
        int64_t at = tk_dft_source(d, j, &conjugate);
        x[j] = (tk_complex){0, 0};
        if (at < 0)
            continue;
        const S *number = inp + at * d->inner * d->inp_parts;
        double scale = c->window ? (double)GET(((const S *)c->window)[at]) : 1;
        double im = d->inp_parts == 2 ? (double)GET(number[1]) : 0;
        x[j] = (tk_complex){scale * (double)GET(number[0]), scale * (conjugate != d->inverse ? -im : im)};
    }
}

static void TK_CAT(store, SUFFIX)(const dft_ctx *c, int64_t lane, const tk_complex *x) {
    const tk_dft_shape *d = c->d;
    S *out = (S *)c->out + tk_dft_out_at(d, lane) * d->out_parts;
    double scale = d->inverse ? 1 / (double)d->n : 1;
    for (int64_t k = 0; k < d->n_out; k++) {
        S *number = out + k * d->inner * d->out_parts;
        number[0] = PUT((T)(scale * x[k].re));
        if (d->out_parts == 2)
            number[1] = PUT((T)(d->inverse ? -scale * x[k].im : x[k].im));
    }
}
#undef T
#undef SUFFIX
