/* attention_tmpl.h: one item of an attention and of its gradient, for one element type. Set before including: T,
 * SUFFIX, DTYPE, EXP. */
#include "../softmax/softmax_rows.h"

TK_VECTOR static void TK_CAT(fill_row, SUFFIX)(T *s, const uint8_t *mask, int64_t n, T fill) {
    for (int64_t i = 0; i < n; i++)
        s[i] = mask[i] ? s[i] : fill;
}

TK_VECTOR static void TK_CAT(add_row, SUFFIX)(T *s, const T *bias, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        s[i] = s[i] + bias[i];
}

TK_VECTOR static void TK_CAT(set_row, SUFFIX)(T *s, int64_t n, T value, bool add) {
    for (int64_t i = 0; i < n; i++)
        s[i] = add ? s[i] + value : value;
}

/* |s|: of P, it only concerns the sign of a not-a-number; of flagged P it takes the flag off. */
TK_VECTOR static void TK_CAT(unflag, SUFFIX)(T *out, const T *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = TK_CAT(tk_flagged, SUFFIX)(p[i], 1);
}

TK_VECTOR static void TK_CAT(flag, SUFFIX)(T *p, const uint8_t *kept, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        p[i] = TK_CAT(tk_flagged, SUFFIX)(p[i], kept[i]);
}

TK_VECTOR static void TK_CAT(drop, SUFFIX)(T *out, const T *x, const uint8_t *kept, int64_t n, T keep) {
    for (int64_t i = 0; i < n; i++)
        out[i] = TK_CAT(tk_dropped, SUFFIX)(x[i], keep, kept[i]);
}

/* The same where p's flags say what was kept. */
TK_VECTOR static void TK_CAT(drop_flagged, SUFFIX)(T *out, const T *x, const T *p, int64_t n, T keep) {
    for (int64_t i = 0; i < n; i++)
        out[i] = TK_CAT(tk_dropped, SUFFIX)(x[i], keep, TK_CAT(tk_is_kept, SUFFIX)(p[i]));
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

/* A row of scores to a row of P. */
static void TK_CAT(score_row, SUFFIX)(const attention_ctx *c, T *s, int64_t item, int64_t row) {
    const tk_attention *a = c->a;
    int64_t n = a->t;
    if (a->mask_at) {
        const uint8_t *mask = c->in.mask + a->mask_at[item] + row * a->mask_row;
        if (a->mask_column)
            TK_CAT(fill_row, SUFFIX)(s, mask, n, (T)a->fill);
        else if (!*mask)
            TK_CAT(set_row, SUFFIX)(s, n, (T)a->fill, false);
    }
    if (a->bias_at) {
        const T *bias = (const T *)c->in.bias + a->bias_at[item] + row * a->bias_row;
        if (a->bias_column)
            TK_CAT(add_row, SUFFIX)(s, bias, n);
        else
            TK_CAT(set_row, SUFFIX)(s, n, *bias, true);
    }
    TK_CAT(row_exp, SUFFIX)(s, s, n, TK_CAT(row_max, SUFFIX)(s, n));
    T sum = (T)TK_CAT(row_sum, SUFFIX)(s, n);
    TK_CAT(row_divide, SUFFIX)(s, n, sum);
    if (sum != sum && a->guard)
        TK_CAT(set_row, SUFFIX)(s, n, 0, false);
    else if (sum != sum)
        TK_CAT(unflag, SUFFIX)(s, s, n);
}

/* P of n elements, from element `at` of all, to the dropped map, which may lie over P where P is not wanted. */
static void TK_CAT(drop_block, SUFFIX)(const attention_ctx *c, T *dropped, T *p, int64_t at, int64_t n) {
    uint8_t drawn[DRAWN];
    for (int64_t i = 0; i < n; i += DRAWN) {
        int64_t m = n - i < DRAWN ? n - i : DRAWN;
        uint8_t *kept = c->out.keep ? c->out.keep + at + i : drawn;
        tk_dropout_keep(kept, at + i, m, c->ratio, c->draw);
        TK_CAT(drop, SUFFIX)(dropped + i, p + i, kept, m, (T)c->keep);
        if (c->a->is_signed && dropped != p)
            TK_CAT(flag, SUFFIX)(p + i, kept, m);
    }
}

/* Rows [row, row + rows) of one item. `block` is scratch for as many. */
static void TK_CAT(forward_block, SUFFIX)(const attention_ctx *c, int64_t item, int64_t row, int64_t rows, T *block) {
    const tk_attention *a = c->a;
    int64_t at = (item * a->s + row) * a->t;
    T *p = c->out.p ? (T *)c->out.p + at : block, *dropped = p;
    const T *q = (const T *)c->in.q + a->q_at[item] + row * a->d;
    tk_product of_s = {.m = rows, .n = a->t, .k = a->d, .lda = a->d, .ldb = a->t, .alpha = a->scale};
    tk_product of_y = {.m = rows, .n = a->e, .k = a->t, .lda = a->t, .ldb = a->e, .alpha = 1};
    product(p, q, (const T *)c->in.kt + a->kt_at[item], of_s, DTYPE);
    for (int64_t i = 0; i < rows; i++)
        TK_CAT(score_row, SUFFIX)(c, p + i * a->t, item, row + i);
    if (c->draw) {
        dropped = c->out.dropped ? (T *)c->out.dropped + at : block;
        TK_CAT(drop_block, SUFFIX)(c, dropped, p, at, rows * a->t);
    }
    product((T *)c->out.y + (item * a->s + row) * a->e, dropped, (const T *)c->in.v + a->v_at[item], of_y, DTYPE);
}

static void TK_CAT(forward, SUFFIX)(void *ctx, int64_t item, int64_t end) {
    const attention_ctx *c = ctx;
    int64_t s = c->a->s;
    T *scratch = (T *)((char *)c->workspace + (size_t)tk_thread() * c->thread_bytes);
    for (; item < end; item++)
        for (int64_t row = 0; row < s; row += c->rows)
            TK_CAT(forward_block, SUFFIX)(c, item, row, s - row < c->rows ? s - row : c->rows, scratch);
}

/* --- backward ----------------------------------------------------------------------------------------------------- */

/* ds of n / t rows from dd = dout v^T, which it lies over; p without its flags. */
static void TK_CAT(score_grad, SUFFIX)(const gradient_ctx *c, T *ds, const T *p, int64_t at, int64_t n) {
    int64_t t = c->a->t;
    if (c->in.is_dropped && c->a->is_signed)
        TK_CAT(drop_flagged, SUFFIX)(ds, ds, (const T *)c->in.p + at, n, (T)c->keep);
    else if (c->in.is_dropped)
        TK_CAT(drop, SUFFIX)(ds, ds, c->in.keep + at, n, (T)c->keep);
    for (int64_t i = 0; i < n; i += t)
        TK_CAT(row_grad, SUFFIX)(ds + i, ds + i, p + i, t, (T)TK_CAT(row_dot, SUFFIX)(ds + i, p + i, t));
}

/* Rows of ds and dq, and what these rows give to dkt. `block` is scratch. */
static void TK_CAT(backward_scores, SUFFIX)(const gradient_ctx *c, int64_t item, int64_t row, int64_t rows, const T *p,
                                            T *block) {
    const tk_attention *a = c->a;
    int64_t at = (item * a->s + row) * a->t;
    T *ds = c->out.ds ? (T *)c->out.ds + at : block;
    const T *kt = (const T *)c->in.kt + a->kt_at[item], *q = (const T *)c->in.q + a->q_at[item] + row * a->d;
    tk_product of_dd = {.m = rows, .n = a->t, .k = a->e, .lda = a->e, .ldb = a->e, .trans_b = true, .alpha = 1};
    tk_product of_dq = {.m = rows, .n = a->d, .k = a->t, .lda = a->t, .ldb = a->t, .trans_b = true, .alpha = a->scale};
    tk_product of_dkt = {
        .m = a->d, .n = a->t, .k = rows, .lda = a->d, .ldb = a->t, .trans_a = true, .alpha = a->scale, .beta = row > 0};
    product(ds, (const T *)c->in.dout + (item * a->s + row) * a->e, (const T *)c->in.v + a->v_at[item], of_dd, DTYPE);
    TK_CAT(score_grad, SUFFIX)(c, ds, p, at, rows * a->t);
    if (c->out.dq)
        product((T *)c->out.dq + (item * a->s + row) * a->d, ds, kt, of_dq, DTYPE);
    if (c->out.dkt)
        product((T *)c->out.dkt + item * a->d * a->t, q, ds, of_dkt, DTYPE);
}

/* One block of rows. `block` and `map` are scratch for a block each. */
static void TK_CAT(backward_block, SUFFIX)(const gradient_ctx *c, int64_t item, int64_t row, int64_t rows, T *block,
                                           T *map) {
    const tk_attention *a = c->a;
    int64_t at = (item * a->s + row) * a->t, n = rows * a->t;
    bool flagged = c->in.is_dropped && a->is_signed;
    const T *p = (const T *)c->in.p + at, *dropped = c->in.is_dropped && !flagged ? (const T *)c->in.dropped + at : p;
    tk_product of_dv = {
        .m = a->t, .n = a->e, .k = rows, .lda = a->t, .ldb = a->e, .trans_a = true, .alpha = 1, .beta = row > 0};
    if (flagged)
        TK_CAT(unflag, SUFFIX)(map, p, n);
    if (c->out.dq || c->out.dkt || c->out.ds)
        TK_CAT(backward_scores, SUFFIX)(c, item, row, rows, flagged ? map : p, block);
    if (!c->out.dv)
        return;
    if (flagged) {
        TK_CAT(drop_flagged, SUFFIX)(map, map, p, n, (T)c->keep);
        dropped = map;
    }
    product((T *)c->out.dv + item * a->t * a->e, dropped, (const T *)c->in.dout + (item * a->s + row) * a->e, of_dv,
            DTYPE);
}

static void TK_CAT(backward, SUFFIX)(void *ctx, int64_t item, int64_t end) {
    const gradient_ctx *c = ctx;
    int64_t s = c->a->s;
    T *scratch = (T *)((char *)c->workspace + (size_t)tk_thread() * c->thread_bytes);
    for (; item < end; item++)
        for (int64_t row = 0; row == 0 || row < s; row += c->rows) /* without rows dkt and dv are 0 */
            TK_CAT(backward_block, SUFFIX)(c, item, row, s - row < c->rows ? s - row : c->rows, scratch,
                                           scratch + c->rows * c->a->t);
}

#undef T
#undef SUFFIX
#undef DTYPE
#undef EXP
#undef LANES
#undef BLOCK
#undef SUM_OF
