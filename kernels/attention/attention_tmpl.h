/* attention_tmpl.h: Q [s, d], K^T [d, t] -> S -> P [s, t], V [t, e] -> Y [s, e]; dY -> dP -> dS -> dQ, dK^T, dV.
 * One item of an attention and of its gradient, for one element type. Set before including: T, SUFFIX, DTYPE; HALF for
 * 16-bit types, which are computed in T in a thread's scratch. Softmax's rows of T (softmax_rows.h) must be there
 * already. */

TK_VECTOR static void TK_CAT(fill_row, SUFFIX)(T *s, const uint8_t *mask, int64_t n, T fill) {
    for (int64_t i = 0; i < n; i++)
        s[i] = mask[i] ? s[i] : fill;
}

TK_VECTOR static void TK_CAT(add_row, SUFFIX)(T *s, const S *bias, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        s[i] = s[i] + GET(bias[i]);
}

TK_VECTOR static void TK_CAT(set_row, SUFFIX)(T *s, int64_t n, T value, bool add) {
    for (int64_t i = 0; i < n; i++)
        s[i] = add ? s[i] + value : value;
}

/* |p|: for P this changes only the sign of NaN; for flagged P it removes the flag. */
TK_VECTOR static void TK_CAT(unflag, SUFFIX)(T *out, const S *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = GET(TK_CAT(tk_flagged, SUFFIX)(p[i], 1));
}

TK_VECTOR static void TK_CAT(flag, SUFFIX)(S *p, const uint8_t *kept, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        p[i] = TK_CAT(tk_flagged, SUFFIX)(p[i], kept[i]);
}

TK_VECTOR static void TK_CAT(drop, SUFFIX)(T *out, const T *x, const uint8_t *kept, int64_t n, T keep) {
    for (int64_t i = 0; i < n; i++)
        out[i] = TK_CAT(tk_dropped, MATH)(x[i], keep, kept[i]);
}

/* The same where p's flags mark dropped elements. */
TK_VECTOR static void TK_CAT(drop_flagged, SUFFIX)(T *out, const T *x, const S *p, int64_t n, T keep) {
    for (int64_t i = 0; i < n; i++)
        out[i] = TK_CAT(tk_dropped, MATH)(x[i], keep, TK_CAT(tk_is_kept, SUFFIX)(p[i]));
}

/* --- operands and results in T ---------------------------------------------------------------- */

#define SCRATCH TK_CAT(scratch, SUFFIX)
#define ITEM TK_CAT(item, SUFFIX)
#define ROWS TK_CAT(block, SUFFIX)

/* In the elements of a thread: blocks [rows, t] of P and another map, of q or dq and of y or dout; then of 16-bit types
 * an item's kt and v and, backward, dkt and dv. */
typedef struct SCRATCH {
    T *block, *map, *of_d, *of_e, *kt, *v, *dkt, *dv;
    T *slope;     /* of the tiled gradient with a softcap: a third block */
    double *sums; /* of the tiled gradient: see sum_bytes */
    T *part;
    uint8_t *kept;
} SCRATCH;

static SCRATCH TK_CAT(scratch_of, SUFFIX)(const tk_attention *a, void *memory, int64_t rows, int64_t blocks) {
    T *at = memory;
    SCRATCH s = {.block = at, .map = at + rows * a->t, .slope = blocks > 2 ? at + 2 * rows * a->t : NULL};
    s.of_d = at + rows * a->t * blocks;
    s.of_e = s.of_d + rows * a->d;
    s.kt = s.of_e + rows * a->e;
    s.v = s.kt + a->d * a->t;
    s.dkt = s.v + a->t * a->e;
    s.dv = s.dkt + a->d * a->t;
    return s;
}

#ifdef HALF
TK_VECTOR static void TK_CAT(round_to, SUFFIX)(T *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = GET(PUT(x[i]));
}
#endif

/* n elements of an operand: as they lie, or widened into scratch. */
static const T *TK_CAT(operand, SUFFIX)(const void *x, int64_t at, int64_t n, T *scratch) {
#ifdef HALF
    tk_widen(scratch, (const S *)x + at, n, DTYPE);
    return scratch;
#else
    (void)n, (void)scratch;
    return (const T *)x + at;
#endif
}

/* Where a result is computed: in its place, or in scratch, from which put() stores it. */
static T *TK_CAT(place, SUFFIX)(void *out, int64_t at, T *scratch) {
#ifdef HALF
    (void)out, (void)at;
    return scratch;
#else
    return out ? (T *)out + at : scratch;
#endif
}

static void TK_CAT(put, SUFFIX)(void *out, int64_t at, const T *x, int64_t n) {
#ifdef HALF
    if (out)
        tk_narrow((S *)out + at, x, n, DTYPE);
#else
    if (out && (T *)out + at != x)
        memcpy((T *)out + at, x, (size_t)n * sizeof(T));
#endif
}

/* The same for a map that is read again: the stored (rounded) numbers are read, also where none are stored. */
static void TK_CAT(put_map, SUFFIX)(void *out, int64_t at, T *x, int64_t n) {
#ifdef HALF
    TK_CAT(round_to, SUFFIX)(x, n);
#endif
    TK_CAT(put, SUFFIX)(out, at, x, n);
}

/* --- forward ---------------------------------------------------------------------------------- */

/* Replaces masked scores of a row by `fill`. */
static void TK_CAT(mask_row, SUFFIX)(T *s, const uint8_t *masks, const tk_attention *a, int64_t item, int64_t row,
                                     T fill) {
    const uint8_t *mask = masks + tk_place(&a->mask_at, item) + row * a->mask_row;
    if (a->mask_column)
        TK_CAT(fill_row, SUFFIX)(s, mask, a->t, fill);
    else if (!*mask)
        TK_CAT(set_row, SUFFIX)(s, a->t, fill, false);
}

static void TK_CAT(bias_row, SUFFIX)(T *s, const void *biases, const tk_attention *a, int64_t item, int64_t row) {
    const S *bias = (const S *)biases + tk_place(&a->bias_at, item) + row * a->bias_row;
    if (a->bias_column)
        TK_CAT(add_row, SUFFIX)(s, bias, a->t);
    else
        TK_CAT(set_row, SUFFIX)(s, a->t, GET(*bias), true);
}

/* n scores to cap tanh(score / cap), and, where wanted, their slope 1 - tanh^2. */
TK_VECTOR static void TK_CAT(cap_scores, SUFFIX)(T *s, T *slope, int64_t n, T cap) {
    for (int64_t i = 0; i < n; i++) {
        T t = TK_CAT(tk_tanh, MATH)(s[i] / cap);
        s[i] = cap * t;
        if (slope)
            slope[i] = 1 - t * t;
    }
}

/* A row of scores to powers, relative to the largest. Returns their sum; both are those of the row's statistics. */
static T TK_CAT(power_row, SUFFIX)(const attention_ctx *c, T *s, int64_t row) {
    const T *known = c->statistics;
    T *out = c->out.statistics;
    int64_t n = c->a->t;
    T most = known ? known[2 * row] : TK_CAT(row_max, MATH)(s, n);
    TK_CAT(row_exp, MATH)(s, s, n, most);
    T sum = known ? known[2 * row + 1] : (T)TK_CAT(row_sum, MATH)(s, n);
    if (out)
        out[2 * row] = most, out[2 * row + 1] = sum;
    return sum;
}

/* A row of scores to a row of P. */
static void TK_CAT(score_row, SUFFIX)(const attention_ctx *c, T *s, int64_t item, int64_t row) {
    const tk_attention *a = c->a;
    int64_t n = a->t;
    if (c->in.bias && a->bias_first)
        TK_CAT(bias_row, SUFFIX)(s, c->in.bias, a, item, row);
    if (c->in.mask)
        TK_CAT(mask_row, SUFFIX)(s, c->in.mask, a, item, row, (T)a->fill);
    if (c->in.bias && !a->bias_first)
        TK_CAT(bias_row, SUFFIX)(s, c->in.bias, a, item, row);
    T sum = TK_CAT(power_row, SUFFIX)(c, s, item * a->s + row);
    TK_CAT(row_divide, MATH)(s, n, sum);
    if (sum != sum && a->guard)
        TK_CAT(set_row, SUFFIX)(s, n, 0, false);
    else if (sum != sum)
        TK_CAT(unflag, MATH)(s, s, n);
}

/* Drops n elements of P, from element `at` of all; the dropped map may lie over P. */
static void TK_CAT(drop_block, SUFFIX)(const attention_ctx *c, T *dropped, const T *p, int64_t at, int64_t n) {
    uint8_t drawn[DRAWN];
    for (int64_t i = 0; i < n; i += DRAWN) {
        int64_t m = n - i < DRAWN ? n - i : DRAWN;
        uint8_t *kept = c->out.keep ? c->out.keep + at + i : drawn;
        tk_dropout_keep(kept, at + i, m, c->threshold, c->draw);
        TK_CAT(drop, SUFFIX)(dropped + i, p + i, kept, m, (T)c->keep);
        if (c->a->is_signed && c->out.p)
            TK_CAT(flag, SUFFIX)((S *)c->out.p + at + i, kept, m);
    }
    TK_CAT(put_map, SUFFIX)(c->out.dropped, at, dropped, n);
}

/* Rows [row, row + rows) of one item's P, from its K^T and these rows of its Q; the slopes of capped scores, or NULL.
 */
static void TK_CAT(make_map, SUFFIX)(const attention_ctx *c, T *p, T *slope, int64_t item, int64_t row, int64_t rows,
                                     const T *q, const T *kt) {
    const tk_attention *a = c->a;
    tk_product of_s = {.m = rows, .n = a->t, .k = a->d, .lda = a->d, .ldb = a->t, .alpha = a->scale};
    TK_CAT(product, MATH)(c->serial, p, q, kt, of_s);
    if (a->softcap != 0)
        TK_CAT(cap_scores, SUFFIX)(p, slope, rows * a->t, (T)a->softcap);
    for (int64_t i = 0; i < rows; i++)
        TK_CAT(score_row, SUFFIX)(c, p + i * a->t, item, row + i);
    TK_CAT(put_map, SUFFIX)(c->out.p, (item * a->s + row) * a->t, p, rows * a->t);
}

/* Rows [row, row + rows) of one item, whose K^T and V are at hand. */
static void TK_CAT(forward_block, SUFFIX)(const attention_ctx *c, int64_t item, int64_t row, int64_t rows, const T *kt,
                                          const T *v, const SCRATCH *scratch) {
    const tk_attention *a = c->a;
    int64_t at = (item * a->s + row) * a->t, y_at = (item * a->s + row) * a->e;
    T *p = TK_CAT(place, SUFFIX)(c->out.p, at, scratch->block), *dropped = p;
    T *y = TK_CAT(place, SUFFIX)(c->out.y, y_at, scratch->of_e);
    const T *q = TK_CAT(operand, SUFFIX)(c->in.q, tk_place(&a->q.at, item) + row * a->d, rows * a->d, scratch->of_d);
    tk_product of_y = {.m = rows, .n = a->e, .k = a->t, .lda = a->t, .ldb = a->e, .alpha = 1};
    TK_CAT(make_map, SUFFIX)(c, p, NULL, item, row, rows, q, kt);
    if (c->draw) {
        dropped = TK_CAT(place, SUFFIX)(c->out.dropped, at, scratch->block);
        TK_CAT(drop_block, SUFFIX)(c, dropped, p, at, rows * a->t);
    }
    TK_CAT(product, MATH)(c->serial, y, dropped, v, of_y);
    TK_CAT(put, SUFFIX)(c->out.y, y_at, y, rows * a->e);
}

static void TK_CAT(forward, SUFFIX)(void *ctx, tk_share share) {
    const attention_ctx *c = ctx;
    const tk_attention *a = c->a;
    SCRATCH scratch =
        TK_CAT(scratch_of, SUFFIX)(a, (char *)c->workspace + (size_t)share.thread * c->thread_bytes, c->rows, 1);
    for (int64_t item = share.begin; item < share.end; item++) {
        const T *kt = TK_CAT(operand, SUFFIX)(c->in.kt, tk_place(&a->kt.at, item), a->d * a->t, scratch.kt);
        const T *v = TK_CAT(operand, SUFFIX)(c->in.v, tk_place(&a->v.at, item), a->t * a->e, scratch.v);
        for (int64_t row = 0; row < a->s; row += c->rows)
            TK_CAT(forward_block, SUFFIX)(c, item, row, a->s - row < c->rows ? a->s - row : c->rows, kt, v, &scratch);
    }
}

/* --- backward --------------------------------------------------------------------------------- */

/* State that the rows of one item share; `member`: its number in the group that shares a bias. */
typedef struct ITEM {
    int64_t index, group, member;
    const T *kt, *v;
    T *dkt, *dv;
    SCRATCH scratch;
} ITEM;

/* Rows [row, row + rows) of an item; n elements of P, the first of them element `at` of all. Bytes or flags of the
 * stored P mark kept elements; neither: all were kept. */
typedef struct ROWS {
    int64_t row, rows, at, n;
    const T *q, *dout, *p; /* p without flags; q where it is needed */
    const uint8_t *kept;
    const S *flags;
} ROWS;

static void TK_CAT(drop_again, SUFFIX)(T *out, const T *x, const ROWS *b, T keep) {
    if (b->flags)
        TK_CAT(drop_flagged, SUFFIX)(out, x, b->flags, b->n, keep);
    else if (b->kept)
        TK_CAT(drop, SUFFIX)(out, x, b->kept, b->n, keep);
}

/* ds from dd = dout v^T, in its place. */
static void TK_CAT(score_grad, SUFFIX)(const gradient_ctx *c, T *ds, const ROWS *b) {
    int64_t t = c->a->t;
    TK_CAT(drop_again, SUFFIX)(ds, ds, b, (T)c->keep);
    for (int64_t i = 0; i < b->n; i += t)
        TK_CAT(row_grad, MATH)(ds + i, ds + i, b->p + i, t, (T)TK_CAT(row_dot, MATH)(ds + i, b->p + i, t));
}

/* Adds a block's ds, as it would be stored, to the sums of its group, in the order of ReduceSum's columns. */
TK_VECTOR static void TK_CAT(add_scores, SUFFIX)(T *part, const T *ds, int64_t n, bool first) {
    for (int64_t i = 0; i < n; i++)
        part[i] = (first ? 0 : part[i]) + GET(PUT(ds[i]));
}

TK_VECTOR static void TK_CAT(add_parts, SUFFIX)(double *sums, T *part, int64_t n, bool first, bool last) {
    for (int64_t i = 0; i < n; i++) {
        sums[i] = (first ? 0 : sums[i]) + (double)part[i];
        part[i] = last ? (T)sums[i] : part[i];
    }
}

static void TK_CAT(sum_scores, SUFFIX)(const gradient_ctx *c, const ITEM *item, const ROWS *b, const T *ds) {
    const tk_attention *a = c->a;
    int64_t in_item = b->row * a->t, at = item->group * a->s * a->t + in_item, member = item->member;
    T *part = TK_CAT(place, SUFFIX)(c->out.ds, at, item->scratch.part + in_item);
    bool last = member == c->groups.members - 1;
    TK_CAT(add_scores, SUFFIX)(part, ds, b->n, member % SUM_BLOCK == 0);
    if (c->groups.members > SUM_BLOCK && (last || member % SUM_BLOCK == SUM_BLOCK - 1))
        TK_CAT(add_parts, SUFFIX)(item->scratch.sums + in_item, part, b->n, member < SUM_BLOCK, last);
    if (last)
        TK_CAT(put, SUFFIX)(c->out.ds, at, part, b->n);
}

/* The products do not reach masked scores. */
static void TK_CAT(mask_rows, SUFFIX)(const gradient_ctx *c, T *ds, const ITEM *item, const ROWS *b) {
    for (int64_t i = 0; c->in.mask && i < b->rows; i++)
        TK_CAT(mask_row, SUFFIX)(ds + i * c->a->t, c->in.mask, c->a, item->index, b->row + i, 0);
}

TK_VECTOR static void TK_CAT(multiply, SUFFIX)(T *out, const T *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = out[i] * x[i];
}

/* Rows of ds and dq, and these rows' part of dkt. */
static void TK_CAT(backward_scores, SUFFIX)(const gradient_ctx *c, const ITEM *item, const ROWS *b) {
    const tk_attention *a = c->a;
    int64_t rows = b->rows, dq_at = (item->index * a->s + b->row) * a->d;
    void *out = c->groups.sums ? NULL : c->out.ds;
    T *ds = TK_CAT(place, SUFFIX)(c->in.mask || item->scratch.slope ? NULL : out, b->at, item->scratch.block);
    tk_product of_dd = {.m = rows, .n = a->t, .k = a->e, .lda = a->e, .ldb = a->e, .trans_b = true, .alpha = 1};
    tk_product of_dq = {.m = rows, .n = a->d, .k = a->t, .lda = a->t, .ldb = a->t, .trans_b = true, .alpha = a->scale};
    tk_product of_dkt = {.m = a->d,
                         .n = a->t,
                         .k = rows,
                         .lda = a->d,
                         .ldb = a->t,
                         .trans_a = true,
                         .alpha = a->scale,
                         .beta = b->row > 0};
    TK_CAT(product, MATH)(c->serial, ds, b->dout, item->v, of_dd);
    TK_CAT(score_grad, SUFFIX)(c, ds, b);
    if (a->bias_first)
        TK_CAT(mask_rows, SUFFIX)(c, ds, item, b);
    if (c->groups.sums)
        TK_CAT(sum_scores, SUFFIX)(c, item, b, ds);
    TK_CAT(put, SUFFIX)(out, b->at, ds, b->n);
    TK_CAT(mask_rows, SUFFIX)(c, ds, item, b);
    if (item->scratch.slope)
        TK_CAT(multiply, SUFFIX)(ds, item->scratch.slope, b->n);
    if (c->out.dkt)
        TK_CAT(product, MATH)(c->serial, item->dkt, b->q, ds, of_dkt);
    if (c->out.dq) {
        T *dq = TK_CAT(place, SUFFIX)(c->out.dq, dq_at, item->scratch.of_d);
        TK_CAT(product, MATH)(c->serial, dq, ds, item->kt, of_dq);
        TK_CAT(put, SUFFIX)(c->out.dq, dq_at, dq, rows * a->d);
    }
}

/* P of a block, and flags of its kept elements: from results that the forward pass kept, or recomputed from the
 * operands. */
static void TK_CAT(take_map, SUFFIX)(const gradient_ctx *c, const ITEM *item, ROWS *b) {
    T *map = item->scratch.map;
    b->p = map;
    if (c->again) {
        TK_CAT(make_map, SUFFIX)(c->again, map, item->scratch.slope, item->index, b->row, b->rows, b->q, item->kt);
        if (c->again->draw) {
            tk_dropout_keep(item->scratch.kept, b->at, b->n, c->again->threshold, c->again->draw);
            b->kept = item->scratch.kept;
        }
    } else if (c->in.is_dropped && c->a->is_signed) {
        b->flags = (const S *)c->in.p + b->at;
        TK_CAT(unflag, SUFFIX)(map, b->flags, b->n);
    } else {
        b->p = TK_CAT(operand, SUFFIX)(c->in.p, b->at, b->n, map);
        b->kept = c->in.is_dropped ? c->in.keep + b->at : NULL;
    }
}

/* The map that was multiplied by V. It replaces P. */
static const T *TK_CAT(take_dropped, SUFFIX)(const gradient_ctx *c, const ITEM *item, const ROWS *b) {
    T *map = item->scratch.map;
    if (!b->flags && !b->kept)
        return b->p;
    if (c->in.dropped)
        return TK_CAT(operand, SUFFIX)(c->in.dropped, b->at, b->n, map);
    TK_CAT(drop_again, SUFFIX)(map, b->p, b, (T)c->keep);
    TK_CAT(put_map, SUFFIX)(NULL, 0, map, b->n);
    return map;
}

static void TK_CAT(backward_block, SUFFIX)(const gradient_ctx *c, const ITEM *item, int64_t row, int64_t rows) {
    const tk_attention *a = c->a;
    const SCRATCH *scratch = &item->scratch;
    int64_t first = item->index * a->s + row;
    ROWS b = {.row = row, .rows = rows, .at = first * a->t, .n = rows * a->t};
    tk_product of_dv = {
        .m = a->t, .n = a->e, .k = rows, .lda = a->t, .ldb = a->e, .trans_a = true, .alpha = 1, .beta = row > 0};
    if (c->again || c->out.dkt)
        b.q =
            TK_CAT(operand, SUFFIX)(c->in.q, tk_place(&a->q.at, item->index) + row * a->d, rows * a->d, scratch->of_d);
    b.dout = TK_CAT(operand, SUFFIX)(c->in.dout, first * a->e, rows * a->e, scratch->of_e);
    TK_CAT(take_map, SUFFIX)(c, item, &b);
    if (c->out.dq || c->out.dkt || c->out.ds)
        TK_CAT(backward_scores, SUFFIX)(c, item, &b);
    if (c->out.dv)
        TK_CAT(product, MATH)(c->serial, item->dv, TK_CAT(take_dropped, SUFFIX)(c, item, &b), b.dout, of_dv);
}

static void TK_CAT(backward_item, SUFFIX)(const gradient_ctx *c, ITEM *item) {
    const tk_attention *a = c->a;
    int64_t s = a->s, kt_n = a->d * a->t, v_n = a->t * a->e, index = item->index;
    item->kt = TK_CAT(operand, SUFFIX)(c->in.kt, tk_place(&a->kt.at, index), kt_n, item->scratch.kt);
    item->v = TK_CAT(operand, SUFFIX)(c->in.v, tk_place(&a->v.at, index), v_n, item->scratch.v);
    item->dkt = TK_CAT(place, SUFFIX)(c->out.dkt, index * kt_n, item->scratch.dkt);
    item->dv = TK_CAT(place, SUFFIX)(c->out.dv, index * v_n, item->scratch.dv);
    for (int64_t row = 0; row == 0 || row < s; row += c->rows) /* without rows dkt and dv are 0 */
        TK_CAT(backward_block, SUFFIX)(c, item, row, s - row < c->rows ? s - row : c->rows);
    TK_CAT(put, SUFFIX)(c->out.dkt, index * kt_n, item->dkt, kt_n);
    TK_CAT(put, SUFFIX)(c->out.dv, index * v_n, item->dv, v_n);
}

static void TK_CAT(backward, SUFFIX)(void *ctx, tk_share share) {
    const gradient_ctx *c = ctx;
    const tk_attention *a = c->a;
    const tk_attention_groups *groups = &c->groups;
    char *memory = (char *)c->workspace + (size_t)share.thread * c->thread_bytes, *rest = memory + backward_bytes(a);
    ITEM item = {.scratch = TK_CAT(scratch_of, SUFFIX)(a, memory, c->rows, backward_blocks(a))};
    item.scratch.sums = (double *)(void *)rest;
    item.scratch.part = (T *)(void *)(rest + sum_bytes(a, groups));
    item.scratch.kept = (uint8_t *)rest + sum_bytes(a, groups) + part_bytes(a, groups);
    for (item.group = share.begin; item.group < share.end; item.group++) {
        if (groups->sums && groups->members == 0)
            memset((S *)c->out.ds + item.group * a->s * a->t, 0, (size_t)(a->s * a->t) * sizeof(S));
        for (item.member = 0; item.member < groups->members; item.member++) {
            item.index = tk_place(&groups->group_at, item.group) + tk_place(&groups->member_at, item.member);
            TK_CAT(backward_item, SUFFIX)(c, &item);
        }
    }
}

#undef T
#undef SUFFIX
#undef DTYPE
#undef HALF
#undef SCRATCH
#undef ITEM
#undef ROWS
