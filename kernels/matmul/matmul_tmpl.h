/* matmul_tmpl.h: A [m, k], B [k, n] -> out [m, n], in tiles.
 * One tile of a product by own loops, for one element type. Set before including: T, SUFFIX. Four rows of the result at
 * a time walk a packed block of B; sums run over k in order, whatever the tile. */
#define BLOCK_K 128
#define BLOCK_N 64

static void TK_CAT(pack_b, SUFFIX)(T *pack, const T *b, const tk_product *p, int64_t k0, int64_t ks, int64_t j0,
                                   int64_t js) {
    for (int64_t k = 0; k < ks; k++)
        for (int64_t j = 0; j < BLOCK_N; j++)
            pack[k * BLOCK_N + j] = j >= js      ? 0
                                    : p->trans_b ? b[(j0 + j) * p->ldb + k0 + k]
                                                 : b[(k0 + k) * p->ldb + j0 + j];
}

TK_VECTOR static void TK_CAT(four_rows, SUFFIX)(T *sum, const T *const *a, int64_t a_step, const T *pack, int64_t ks) {
    for (int64_t k = 0; k < ks; k++) {
        const T a0 = a[0][k * a_step], a1 = a[1][k * a_step], a2 = a[2][k * a_step], a3 = a[3][k * a_step];
        for (int64_t j = 0; j < BLOCK_N; j++) {
            sum[j] += a0 * pack[k * BLOCK_N + j];
            sum[BLOCK_N + j] += a1 * pack[k * BLOCK_N + j];
            sum[2 * BLOCK_N + j] += a2 * pack[k * BLOCK_N + j];
            sum[3 * BLOCK_N + j] += a3 * pack[k * BLOCK_N + j];
        }
    }
}

/* Rows [i0, i1) and columns [j0, j0 + js) of one product, js <= BLOCK_N. */
static void TK_CAT(own_columns, SUFFIX)(T *out, const T *a, const T *b, const tk_product *p, int64_t i0, int64_t i1,
                                        int64_t j0, int64_t js) {
    T pack[BLOCK_K * BLOCK_N], sum[4 * BLOCK_N];
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = j0; j < j0 + js; j++)
            out[i * p->n + j] = p->beta == 0 ? 0 : (T)((T)p->beta * out[i * p->n + j]);
    for (int64_t k0 = 0; k0 < p->k; k0 += BLOCK_K) {
        int64_t ks = p->k - k0 < BLOCK_K ? p->k - k0 : BLOCK_K;
        TK_CAT(pack_b, SUFFIX)(pack, b, p, k0, ks, j0, js);
        for (int64_t i = i0; i < i1; i += 4) {
            const T *rows[4];
            for (int64_t r = 0; r < 4; r++) {
                int64_t row = i + r < i1 ? i + r : i1 - 1;
                rows[r] = p->trans_a ? a + k0 * p->lda + row : a + row * p->lda + k0;
            }
            memset(sum, 0, sizeof sum);
            TK_CAT(four_rows, SUFFIX)(sum, rows, p->trans_a ? p->lda : 1, pack, ks);
            for (int64_t r = 0; r < 4 && i + r < i1; r++)
                for (int64_t j = 0; j < js; j++)
                    out[(i + r) * p->n + j0 + j] += (T)p->alpha * sum[r * BLOCK_N + j];
        }
    }
}

static bool TK_CAT(own_tile, SUFFIX)(void *out_, const void *a_, const void *b_, const tk_product *p, tile t) {
    T *out = (T *)out_ + t.item * p->m * p->n;
    const T *a = (const T *)a_ + tk_place(&p->a_at, t.item), *b = (const T *)b_ + tk_place(&p->b_at, t.item);
    for (int64_t j = t.j0; j < t.j1; j += BLOCK_N)
        TK_CAT(own_columns, SUFFIX)(out, a, b, p, t.i0, t.i1, j, t.j1 - j < BLOCK_N ? t.j1 - j : BLOCK_N);
    return true;
}

#undef T
#undef SUFFIX
#undef BLOCK_K
#undef BLOCK_N
