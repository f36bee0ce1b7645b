/* reduce_tmpl.h: x [outer..., reduced..., inner] -> out [outer..., inner].
 * One way of reducing one element type. Set before including: NAME, T, SUFFIX; PART, the type of sums within a block of
 * columns; LANE, of those within a row, if it is not PART; ACC, of sums of blocks; INIT; MAP(x, m), the reduced term;
 * JOIN(a, b). m is one more operand, the maximum of LogSumExp. Declares NAME, a reducer. */
#ifndef LANE
#define LANE PART
#endif
#define LANES 64
#define ROW_BLOCK 1024

TK_VECTOR static void TK_CAT(NAME, row)(void *acc_, const void *x_, int64_t n, const void *m_) {
    const S *x = x_;
    const T m = m_ ? GET(*(const S *)m_) : 0;
    ACC acc = *(ACC *)acc_;
    (void)m;
    while (n > 0) {
        int64_t block = n < ROW_BLOCK ? n : ROW_BLOCK, i = 0;
        LANE lane[LANES];
        for (int64_t l = 0; l < LANES; l++)
            lane[l] = (LANE)INIT;
        for (; i + LANES <= block; i += LANES)
            for (int64_t l = 0; l < LANES; l++)
                lane[l] = (LANE)JOIN(lane[l], (LANE)MAP(GET(x[i + l]), m));
        for (int64_t l = 0; i + l < block; l++)
            lane[l] = (LANE)JOIN(lane[l], (LANE)MAP(GET(x[i + l]), m));
        for (int64_t width = LANES / 2; width > 0; width /= 2)
            for (int64_t l = 0; l < width; l++)
                lane[l] = (LANE)JOIN(lane[l], lane[l + width]);
        acc = (ACC)JOIN(acc, (ACC)lane[0]);
        x += block;
        n -= block;
    }
    *(ACC *)acc_ = acc;
}

TK_VECTOR static void TK_CAT(NAME, column)(void *part_, const void *x_, int64_t n, const void *m_) {
    PART *part = part_;
    const S *x = x_, *m = m_ ? m_ : x_;
    (void)m;
    for (int64_t j = 0; j < n; j++)
        part[j] = (PART)JOIN(part[j], (PART)MAP(GET(x[j]), GET(m[j])));
}

static void TK_CAT(NAME, flush)(void *acc_, void *part_, int64_t n) {
    PART *part = part_;
    ACC *acc = acc_;
    for (int64_t j = 0; j < n; j++) {
        acc[j] = (ACC)JOIN(acc[j], (ACC)part[j]);
        part[j] = (PART)INIT;
    }
}

static void TK_CAT(NAME, start)(void *acc_, void *part_, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        ((ACC *)acc_)[j] = (ACC)INIT;
        ((PART *)part_)[j] = (PART)INIT;
    }
}

static void TK_CAT(NAME, finish)(void *out_, const void *acc_, int64_t n, tk_reduce_op op, int64_t count) {
    S *out = out_; /* holds the maximum of LogSumExp */
    const ACC *acc = acc_;
    (void)count;
    for (int64_t j = 0; j < n; j++)
        switch (op) {
        case TK_REDUCE_MEAN: out[j] = PUT((T)MEAN(acc[j], count)); break;
        case TK_REDUCE_L2: out[j] = PUT((T)sqrt((double)acc[j])); break;
        case TK_REDUCE_LOG_SUM: out[j] = PUT((T)log((double)acc[j])); break;
        case TK_REDUCE_LOG_SUM_EXP: out[j] = PUT((T)(log((double)acc[j]) + (double)FINITE(GET(out[j])))); break;
        default: out[j] = PUT((T)acc[j]);
        }
}

static const reducer NAME = {TK_CAT(NAME, row),   TK_CAT(NAME, column), TK_CAT(NAME, flush),
                             TK_CAT(NAME, start), TK_CAT(NAME, finish), sizeof(S),
                             sizeof(ACC)};
#undef NAME
#undef ACC
#undef PART
#undef LANE
#undef INIT
#undef MAP
#undef JOIN
#undef LANES
#undef ROW_BLOCK
