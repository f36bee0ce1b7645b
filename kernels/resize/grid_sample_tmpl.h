/* grid_sample_tmpl.h: x [channels, inp...], taps of a place -> y [channels, that place].
 * One place of all channels for one element type. Set before including: T, SUFFIX. */
static void TK_CAT(sample_channels, SUFFIX)(const grid_ctx *c, int64_t item, int64_t place, const int64_t *at,
                                            const double *weights, int n) {
    const tk_grid_sample *s = c->s;
    for (int64_t channel = item * s->channels; channel < (item + 1) * s->channels; channel++) {
        const S *x = (const S *)c->inp + channel * c->volume;
        T sum = 0;
        for (int k = 0; k < n; k++)
            if (weights[k] != 0)
                sum += (T)weights[k] * GET(x[at[k]]);
        ((S *)c->out)[channel * s->places + place] = PUT(sum);
    }
}
#undef T
#undef SUFFIX
