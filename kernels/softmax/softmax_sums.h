/* softmax_sums.h: the largest element, sums and exponentials of one row, for one element type. Every kernel with a
 * softmax inside calls them, so that all give the same bits. Set before including: T, SUFFIX. Sums of a thousand
 * elements are taken over many lanes and added up in double; their order depends on the length only. */
#define LANES 64
#define BLOCK 1024

TK_VECTOR static T TK_CAT(row_max, SUFFIX)(const S *x, int64_t n) {
    T lane[LANES], best = -INFINITY;
    int64_t i = 0;
    for (int64_t l = 0; l < LANES; l++)
        lane[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int64_t l = 0; l < LANES; l++)
            lane[l] = GET(x[i + l]) > lane[l] ? GET(x[i + l]) : lane[l];
    for (; i < n; i++)
        best = GET(x[i]) > best ? GET(x[i]) : best;
    for (int64_t l = 0; l < LANES; l++)
        best = lane[l] > best ? lane[l] : best;
    return best;
}

/* The sum of term(i), 0 <= i < n; the macro's user writes the term with `at`. */
#define SUM_OF(total, n, term)                                                                                         \
    for (int64_t start = 0; start < (n); start += BLOCK) {                                                             \
        int64_t stop = start + BLOCK < (n) ? start + BLOCK : (n);                                                      \
        T lane[LANES] = {0};                                                                                           \
        int64_t at = start;                                                                                            \
        for (; at + LANES <= stop; at += LANES)                                                                        \
            for (int64_t l = 0; l < LANES; l++)                                                                        \
                lane[l] += term(at + l);                                                                               \
        for (int64_t l = 0; at + l < stop; l++)                                                                        \
            lane[l] += term(at + l);                                                                                   \
        for (int64_t width = LANES / 2; width > 0; width /= 2)                                                         \
            for (int64_t l = 0; l < width; l++)                                                                        \
                lane[l] += lane[l + width];                                                                            \
        total += (double)lane[0];                                                                                      \
    }

TK_VECTOR static double TK_CAT(row_sum, SUFFIX)(const S *x, int64_t n) {
    double total = 0;
#define TERM(i) GET(x[i])
    SUM_OF(total, n, TERM)
#undef TERM
    return total;
}

TK_VECTOR static void TK_CAT(row_exp, SUFFIX)(S *out, const S *x, int64_t n, T largest) {
    for (int64_t i = 0; i < n; i++)
        out[i] = PUT(TK_EXP_OF(T)(GET(x[i]) - largest));
}
