/* test_half_kernels.c: kernels on 16-bit elements against the same kernels on the floats that these are: what float
 * gives, rounded once, bit by bit. The float kernels have their own tests. Where a map between is stored in 16 bits
 * (x-hat, P, the dropped map), it is rounded on the way: those are composed here from their parts. */
#include "test/unit/kernel_test.h"
#include "kernels/attention/attention.h"
#include "kernels/common/element.h"
#include "kernels/common/types.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/loss/loss.h"
#include "kernels/matmul/einsum.h"
#include "kernels/norm/norm_y.h"
#include "kernels/pool/pool.h"
#include "kernels/reduce/reduce.h"
#include "kernels/softmax/softmax.h"

static const tk_dtype types[] = {TK_F16, TK_BF16};
#define FOR_TYPES(dtype)                                                                                               \
    for (size_t t_ = 0; t_ < 2; t_++)                                                                                  \
        for (tk_dtype dtype = types[t_], *once = &dtype; once; once = NULL)

/* n numbers of a type, and the floats that they are. */
typedef struct numbers {
    uint16_t *half;
    float *wide;
    size_t bytes;
} numbers;

static numbers make(int64_t n, tk_dtype dtype, uint64_t seed, double scale) {
    numbers x = {alloc_guarded((size_t)n * 2, 2), malloc((size_t)n * 4 + 4), (size_t)n * 2};
    for (int64_t i = 0; i < n; i++)
        x.wide[i] = (float)(scale * any_number(&seed));
    tk_narrow(x.half, x.wide, n, dtype);
    tk_widen(x.wide, x.half, n, dtype);
    return x;
}

static void drop_numbers(numbers *x) {
    free_guarded(x->half, x->bytes);
    free(x->wide);
}

/* What was computed in 16 bits, x->half, is what was computed in float, x->wide, rounded; any not-a-number is one. */
static void same(const char *what, const numbers *x, tk_dtype dtype) {
    int64_t n = (int64_t)x->bytes / 2;
    uint16_t *want = malloc(x->bytes + 1);
    tk_narrow(want, x->wide, n, dtype);
    for (int64_t i = 0; i < n; i++)
        if (x->half[i] != want[i] && !(isnan(x->wide[i]) && isnan(tk_get(x->half, dtype, i))))
            fail_msg("%s: element %lld of type %d is 0x%04x, expected 0x%04x", what, (long long)i, (int)dtype,
                     (unsigned)x->half[i], (unsigned)want[i]);
    free(want);
}

/* Within some places of the largest, where rounding is not alike: of results that go through maps in 16 bits. */
static void near(const char *what, const uint16_t *half, const float *wide, int64_t n, tk_dtype dtype) {
    double most = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)wide[i]));
        worst = fmax(worst, fabs(tk_get(half, dtype, i) - (double)wide[i]));
    }
    if (!(worst <= most * (dtype == TK_F16 ? 0x1p-9 : 0x1p-6)))
        fail_msg("%s of type %d is off by %g of %g", what, (int)dtype, worst, most);
}

/* --- rows ------------------------------------------------------------------------------------- */

TEST(softmax) {
    static const tk_softmax_shape shapes[] = {{3, 7, 1}, {4, 1000, 1}, {2, 1, 1}, {2, 3, 5}, {3, 70, 129}};
    static void (*const forward[])(tk_queue *, void *, const void *, tk_softmax_shape,
                                   tk_dtype) = {tk_softmax, tk_log_softmax, tk_hardmax};
    static void (*const backward[])(tk_queue *, void *, const void *, const void *, tk_softmax_shape,
                                    tk_dtype) = {tk_softmax_grad, tk_log_softmax_grad};
    FOR_TYPES(dtype)
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t n = shapes[i].outer * shapes[i].n * shapes[i].inner;
        numbers x = make(n, dtype, 1, 5), y = make(n, dtype, 2, 1), dy = make(n, dtype, 3, 1),
                dx = make(n, dtype, 4, 1);
        for (int f = 0; f < 3; f++) {
            forward[f](queue(), y.wide, x.wide, shapes[i], TK_F32);
            forward[f](queue(), y.half, x.half, shapes[i], dtype);
            same("softmax", &y, dtype);
            tk_widen(y.wide, y.half, n, dtype);
            if (f < 2) {
                backward[f](queue(), dx.wide, dy.wide, y.wide, shapes[i], TK_F32);
                backward[f](queue(), dx.half, dy.half, y.half, shapes[i], dtype);
                same("softmax's gradient", &dx, dtype);
            }
        }
        tk_softmax(queue(), y.wide, x.wide, shapes[i], TK_F32);
        memcpy(y.half, x.half, x.bytes);
        tk_softmax(queue(), y.half, y.half, shapes[i], dtype); /* in place */
        same("softmax in place", &y, dtype);
        drop_numbers(&x), drop_numbers(&y), drop_numbers(&dy), drop_numbers(&dx);
    }
}

/* y from the rounded x-hat; the gradient the same from x and from x-hat, and near float's. */
TEST(layer_norm) {
    enum { ROWS = 37, N = 101 };
    static double workspace[2 * ROWS * 2 * N];
    FOR_TYPES(dtype) {
        tk_norm_rows s = {ROWS, N, 1e-5, true, dtype, TK_F32}, wide = s;
        wide.dtype = TK_F32;
        numbers x = make(ROWS * N, dtype, 1, 3), dy = make(ROWS * N, dtype, 2, 1), scale = make(N, dtype, 3, 1),
                bias = make(N, dtype, 4, 1), y = make(ROWS * N, dtype, 5, 1), xhat = make(ROWS * N, dtype, 6, 1);
        numbers dx = make(ROWS * N, dtype, 7, 1), ds = make(N, dtype, 8, 1), db = make(N, dtype, 9, 1);
        uint16_t again[ROWS * N], ds2[N], db2[N];
        float mean[ROWS], inv[ROWS], wide_mean[ROWS], wide_inv[ROWS];
        tk_norm(queue(), y.half, xhat.half, mean, inv, x.half, scale.half, bias.half, &s);
        tk_norm(queue(), y.wide, xhat.wide, wide_mean, wide_inv, x.wide, scale.wide, bias.wide, &wide);
        assert_memory_equal(mean, wide_mean, sizeof mean);
        assert_memory_equal(inv, wide_inv, sizeof inv);
        same("x-hat", &xhat, dtype);
        tk_widen(xhat.wide, xhat.half, ROWS * N, dtype);
        tk_scale_bias(queue(), y.wide, xhat.wide, scale.wide, bias.wide, &wide);
        same("y", &y, dtype);
        tk_scale_bias(queue(), again, xhat.half, scale.half, bias.half, &s);
        assert_memory_equal(again, y.half, sizeof again);
        tk_norm(queue(), again, NULL, NULL, NULL, x.half, scale.half, bias.half, &s);
        assert_memory_equal(again, y.half, sizeof again);
        tk_norm_xhat_grad(queue(), dx.half, ds.half, db.half, dy.half, xhat.half, scale.half, inv, &s, workspace);
        tk_norm_xhat_grad(queue(), dx.wide, ds.wide, db.wide, dy.wide, xhat.wide, scale.wide, inv, &wide, workspace);
        same("dx", &dx, dtype), same("dscale", &ds, dtype), same("dbias", &db, dtype);
        tk_norm_grad(queue(), again, ds2, db2, dy.half, x.half, scale.half, mean, inv, &s, workspace);
        assert_memory_equal(again, dx.half, sizeof again);
        assert_memory_equal(ds2, ds.half, sizeof ds2);
        assert_memory_equal(db2, db.half, sizeof db2);
        drop_numbers(&x), drop_numbers(&dy), drop_numbers(&scale), drop_numbers(&bias), drop_numbers(&y);
        drop_numbers(&xhat), drop_numbers(&dx), drop_numbers(&ds), drop_numbers(&db);
    }
}

/* From y: its bits are those of the norm; x-hat from it is float's of the same y. */
TEST(norm_from_y) {
    enum { ROWS = 37, N = 101 };
    static double workspace[3 * 3 * N];
    FOR_TYPES(dtype) {
        tk_norm_rows s = {ROWS, N, 1e-5, true, dtype, TK_F32}, wide = s;
        wide.dtype = TK_F32;
        assert_true(tk_norm_from_y_grad_workspace(&s) <= sizeof workspace);
        numbers x = make(ROWS * N, dtype, 1, 3), dy = make(ROWS * N, dtype, 2, 1), scale = make(N, dtype, 3, 1),
                bias = make(N, dtype, 4, 1), y = make(ROWS * N, dtype, 5, 1), kept = make(ROWS * N, dtype, 6, 1);
        numbers dx = make(ROWS * N, dtype, 7, 1), ds = make(N, dtype, 8, 1), db = make(N, dtype, 9, 1);
        uint16_t again[ROWS * N];
        float inv[ROWS];
        int32_t channels[N];
        const tk_norm_sides sides = {N, 0x1p-14, 1};
        tk_norm(queue(), again, NULL, NULL, NULL, x.half, scale.half, bias.half, &s);
        tk_norm_from_y(queue(), y.half, inv, channels, kept.half, x.half, scale.half, bias.half, &sides, &s);
        assert_memory_equal(again, y.half, sizeof again);
        assert_true(channels[0] >= 0 && channels[N - 1] == -1); /* some */
        tk_widen(y.wide, y.half, ROWS * N, dtype);
        tk_widen(kept.wide, kept.half, ROWS * N, dtype);
        tk_norm_from_y_grad(queue(), dx.half, ds.half, db.half, dy.half, y.half, scale.half, bias.half, inv, channels,
                            kept.half, N, &s, workspace);
        tk_norm_from_y_grad(queue(), dx.wide, ds.wide, db.wide, dy.wide, y.wide, scale.wide, bias.wide, inv, channels,
                            kept.wide, N, &wide, workspace);
        same("dx", &dx, dtype), same("dscale", &ds, dtype), same("dbias", &db, dtype);
        drop_numbers(&x), drop_numbers(&dy), drop_numbers(&scale), drop_numbers(&bias), drop_numbers(&y);
        drop_numbers(&kept), drop_numbers(&dx), drop_numbers(&ds), drop_numbers(&db);
    }
}

TEST(channel_norms) {
    enum { BATCH = 3, CHANNELS = 6, INNER = 35, ALL = BATCH * CHANNELS * INNER };
    FOR_TYPES(dtype) {
        numbers x = make(ALL, dtype, 1, 3), y = make(ALL, dtype, 2, 1), scale = make(CHANNELS, dtype, 3, 1),
                bias = make(CHANNELS, dtype, 4, 1), mean = make(CHANNELS, dtype, 5, 1),
                variance = make(CHANNELS, dtype, 6, 1);
        numbers new_mean = make(CHANNELS, dtype, 7, 1), new_variance = make(CHANNELS, dtype, 8, 1);
        const tk_channel_operands half = {x.half, scale.half, bias.half, mean.half, variance.half},
                                  wide = {x.wide, scale.wide, bias.wide, mean.wide, variance.wide};
        const tk_channel_results to_half = {y.half, new_mean.half, new_variance.half},
                                 to_wide = {y.wide, new_mean.wide, new_variance.wide};
        tk_channels s = {BATCH, CHANNELS, INNER, 2, 3, 1e-5, 0.9, 1e-2, 0.75, 1, dtype, true}, s32 = s;
        s32.dtype = TK_F32;
        tk_batch_norm(queue(), to_half, half, &s);
        tk_batch_norm(queue(), to_wide, wide, &s32);
        same("batch norm", &y, dtype), same("mean", &new_mean, dtype), same("variance", &new_variance, dtype);
        tk_group_norm(queue(), to_half, half, &s);
        tk_group_norm(queue(), to_wide, wide, &s32);
        same("group norm", &y, dtype);
        tk_lrn(queue(), to_half, half, &s);
        tk_lrn(queue(), to_wide, wide, &s32);
        same("LRN", &y, dtype);
        drop_numbers(&x), drop_numbers(&y), drop_numbers(&scale), drop_numbers(&bias), drop_numbers(&mean),
            drop_numbers(&variance);
        drop_numbers(&new_mean), drop_numbers(&new_variance);
    }
}

/* --- sums ------------------------------------------------------------------------------------- */

TEST(reductions) {
    static const struct {
        int64_t dims[3];
        bool reduced[3];
    } cases[] = {
        {{3, 70, 33}, {false, false, true}},   {{3, 70, 33}, {false, true, false}},  {{30, 7, 33}, {true, false, true}},
        {{2, 1, 140000}, {false, true, true}}, {{1, 1, 131072}, {true, true, true}},
    };
    FOR_TYPES(dtype)
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tk_reduction r;
        tk_reduction_init(&r, 3, cases[i].dims, cases[i].reduced);
        numbers x = make(r.n_out * r.n_each, dtype, 1, 1), y = make(r.n_out, dtype, 2, 1);
        void *workspace = malloc(tk_reduce_workspace(&r) + 1);
        for (int op = 0; op < TK_REDUCE_OPS; op++) {
            use_threads(2);
            tk_reduce(queue(), y.half, x.half, &r, (tk_reduce_op)op, dtype, workspace);
            use_threads(1);
            tk_reduce(queue(), y.wide, x.wide, &r, (tk_reduce_op)op, TK_F32, workspace);
            same("a reduction", &y, dtype);
        }
        free(workspace);
        drop_numbers(&x), drop_numbers(&y);
    }
}

/* 4096 ones: a sum that was kept in 16 bits would stop at 2048, or at 256. */
TEST(long_sums) {
    enum { N = 4096 };
    FOR_TYPES(dtype) {
        numbers x = make(N, dtype, 1, 0), sums = make(N, dtype, 1, 0), table = make(2, dtype, 1, 0);
        for (int i = 0; i < N; i++)
            x.wide[i] = 1;
        tk_narrow(x.half, x.wide, N, dtype);
        tk_cumsum(queue(), sums.half, x.half, 1, N, 1, false, false, dtype, NULL);
        tk_cumsum(queue(), sums.wide, x.wide, 1, N, 1, false, false, TK_F32, NULL);
        assert_true(sums.wide[N - 1] == N);
        same("CumSum", &sums, dtype);
        int64_t indices[N], found;
        for (int i = 0; i < N; i++)
            indices[i] = i % 2;
        void *workspace = malloc(tk_gather_grad_workspace(1, 2, 1, N, dtype, 2));
        assert_int_equal(FAULT_OF(tk_gather_grad(queue(), table.half, x.half, (tk_indices){indices, TK_I64}, 1, 2, 1, N,
                                                 dtype, workspace)),
                         TK_OK);
        table.wide[0] = table.wide[1] = N / 2;
        same("Gather's gradient", &table, dtype);
        x.half[77] = x.half[90] = 0x4000; /* 2 in both types */
        tk_arg(queue(), &found, x.half, 1, N, 1, true, false, dtype);
        assert_int_equal(found, 77);
        free(workspace);
        drop_numbers(&x), drop_numbers(&sums), drop_numbers(&table);
    }
}

TEST(gather_grad) {
    enum { OUTER = 3, AXIS = 11, INNER = 150, N = 40 };
    int64_t indices[N];
    for (int i = 0; i < N; i++)
        indices[i] = i * i % AXIS - (i % 3 == 0 ? AXIS : 0);
    FOR_TYPES(dtype) {
        numbers grad = make(OUTER * N * INNER, dtype, 1, 1), out = make(OUTER * AXIS * INNER, dtype, 2, 1);
        void *workspace = malloc(tk_gather_grad_workspace(OUTER, AXIS, INNER, N, dtype, 3));
        use_queue(6, 3); /* more threads than the workspace is for */
        assert_int_equal(FAULT_OF(tk_gather_grad(queue(), out.half, grad.half, (tk_indices){indices, TK_I64}, OUTER,
                                                 AXIS, INNER, N, dtype, workspace)),
                         TK_OK);
        assert_int_equal(FAULT_OF(tk_gather_grad(queue(), out.wide, grad.wide, (tk_indices){indices, TK_I64}, OUTER,
                                                 AXIS, INNER, N, TK_F32, NULL)),
                         TK_OK);
        same("Gather's gradient", &out, dtype);
        free(workspace);
        drop_numbers(&grad), drop_numbers(&out);
    }
}

TEST(einsum) {
    const tk_einsum e = {2, 3, 2, {4, 5, 70}, {{70, 0, 1}, {0, 70, 1}}};
    FOR_TYPES(dtype) {
        numbers a = make(4 * 70, dtype, 1, 1), b = make(5 * 70, dtype, 2, 1), c = make(20, dtype, 3, 1);
        tk_einsum_loop(queue(), c.half, (const void *[]){a.half, b.half}, &e, dtype);
        tk_einsum_loop(queue(), c.wide, (const void *[]){a.wide, b.wide}, &e, TK_F32);
        same("Einsum", &c, dtype);
        drop_numbers(&a), drop_numbers(&b), drop_numbers(&c);
    }
}

TEST(pools) {
    FOR_TYPES(dtype)
    for (int op = TK_POOL_MAX; op <= TK_POOL_LP; op++) {
        tk_pool pool = {
            (tk_pool_op)op, 2,     2,
            true,           false, {{1, 9, 8}, {1, 4, 4}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 0, 1}, {0, 0, 0}}};
        numbers x = make(2 * 72, dtype, 1, 1), y = make(2 * 16, dtype, 2, 1);
        int64_t at[32], wide_at[32];
        tk_pool_run(queue(), y.half, op == TK_POOL_MAX ? at : NULL, x.half, &pool, dtype);
        tk_pool_run(queue(), y.wide, op == TK_POOL_MAX ? wide_at : NULL, x.wide, &pool, TK_F32);
        same("a pool", &y, dtype);
        if (op == TK_POOL_MAX)
            assert_memory_equal(at, wide_at, sizeof at);
        drop_numbers(&x), drop_numbers(&y);
    }
}

/* --- losses, dropout -------------------------------------------------------------------------- */

TEST(losses) {
    enum { BATCH = 7, CLASSES = 37, INNER = 3, PLACES = BATCH * INNER, SCORES = PLACES * CLASSES };
    int64_t labels[PLACES];
    FOR_TYPES(dtype)
    for (int reduction = TK_LOSS_NONE; reduction <= TK_LOSS_MEAN; reduction++)
        for (int64_t inner = 1; inner <= INNER; inner += INNER - 1) {
            tk_loss s = {BATCH, CLASSES, inner, (tk_reduction_kind)reduction, true, -1, dtype, TK_I64}, wide = s;
            int64_t places = BATCH * inner, n = reduction == TK_LOSS_NONE ? places : 1;
            float scratch[3 * PLACES];
            wide.dtype = TK_F32;
            for (int64_t i = 0; i < places; i++)
                labels[i] = i % 5 == 0 ? -1 : i * 7 % CLASSES;
            numbers x = make(places * CLASSES, dtype, 1, 4), weights = make(CLASSES, dtype, 2, 1),
                    loss = make(n, dtype, 3, 1), log_prob = make(places * CLASSES, dtype, 4, 1),
                    dloss = make(n, dtype, 5, 1), dx = make(places * CLASSES, dtype, 6, 1);
            assert_int_equal(
                FAULT_OF(tk_cross_entropy(queue(), loss.half, NULL, x.half, labels, weights.half, &s, scratch)), TK_OK);
            assert_int_equal(
                FAULT_OF(tk_cross_entropy(queue(), loss.wide, NULL, x.wide, labels, weights.wide, &wide, scratch)),
                TK_OK);
            same("the loss", &loss, dtype);
            assert_int_equal(FAULT_OF(tk_cross_entropy(queue(), loss.half, log_prob.half, x.half, labels, weights.half,
                                                       &s, scratch)),
                             TK_OK);
            same("the loss beside log-probabilities", &loss, dtype); /* the same as without */
            tk_log_softmax(queue(), log_prob.wide, x.wide, (tk_softmax_shape){BATCH, CLASSES, inner}, TK_F32);
            same("log-probabilities", &log_prob, dtype);
            tk_widen(log_prob.wide, log_prob.half, places * CLASSES, dtype);
            assert_int_equal(
                FAULT_OF(tk_nll_loss(queue(), loss.half, log_prob.half, labels, weights.half, &s, scratch)), TK_OK);
            assert_int_equal(
                FAULT_OF(tk_nll_loss(queue(), loss.wide, log_prob.wide, labels, weights.wide, &wide, scratch)), TK_OK);
            same("the loss of log-probabilities", &loss, dtype);
            assert_int_equal(FAULT_OF(tk_cross_entropy_grad(queue(), dx.half, dloss.half, log_prob.half, labels,
                                                            weights.half, &s, NULL)),
                             TK_OK);
            assert_int_equal(FAULT_OF(tk_cross_entropy_grad(queue(), dx.wide, dloss.wide, log_prob.wide, labels,
                                                            weights.wide, &wide, NULL)),
                             TK_OK);
            near("the gradient of scores", dx.half, dx.wide, places * CLASSES,
                 dtype); /* here and there by way of double */
            drop_numbers(&x), drop_numbers(&weights), drop_numbers(&loss), drop_numbers(&log_prob),
                drop_numbers(&dloss), drop_numbers(&dx);
        }
}

TEST(dropout) {
    enum { N = 3001 };
    const tk_draw draw = {7, 1, 2};
    uint8_t mask[N], wide_mask[N];
    FOR_TYPES(dtype) {
        numbers x = make(N, dtype, 1, 1), y = make(N, dtype, 2, 1);
        assert_int_equal(
            FAULT_OF(tk_dropout(queue(), y.half, mask, x.half, N, number(0.1), seed_of(&draw), NULL, dtype)), TK_OK);
        assert_int_equal(
            FAULT_OF(tk_dropout(queue(), y.wide, wide_mask, x.wide, N, number(0.1), seed_of(&draw), NULL, TK_F32)),
            TK_OK);
        assert_memory_equal(mask, wide_mask, N);
        same("dropout", &y, dtype);
        assert_int_equal(FAULT_OF(tk_dropout_grad(queue(), y.half, x.half, mask, N, number(0.1), dtype)), TK_OK);
        same("its gradient", &y, dtype);
        drop_numbers(&x), drop_numbers(&y);
    }
}

/* --- attention -------------------------------------------------------------------------------- */

enum { ITEMS = 3, ROWS = 70, KEYS = 130, DEPTH = 24, WIDTH = 40, ATTENTION_P = ITEMS * ROWS * KEYS };

static tk_attention attention_of(tk_dtype dtype, bool is_signed, const int64_t (*at)[ITEMS]) {
    return (tk_attention){.items = ITEMS,
                          .s = ROWS,
                          .t = KEYS,
                          .d = DEPTH,
                          .e = WIDTH,
                          .q.at = {.at = at[0]},
                          .kt.at = {.at = at[1]},
                          .v.at = {.at = at[2]},
                          .bias_at = {.at = at[3]},
                          .bias_row = KEYS,
                          .bias_column = 1,
                          .scale = 0.4,
                          .fill = -INFINITY,
                          .is_signed = is_signed,
                          .dtype = dtype};
}

TEST(attention) {
    static const int64_t at[4][ITEMS] = {
        {0, ROWS * DEPTH, 2 * ROWS * DEPTH}, {0, DEPTH * KEYS, 0}, {0, KEYS * WIDTH, 0}, {0, 0, 0}};
    const tk_draw draw = {5, 6, 7};
    static uint8_t keep[ATTENTION_P], wide_keep[ATTENTION_P];
    FOR_TYPES(dtype) {
        tk_attention a = attention_of(dtype, false, at), flagged = attention_of(dtype, true, at),
                     wide = attention_of(TK_F32, false, at);
        numbers q = make(ITEMS * ROWS * DEPTH, dtype, 1, 1), kt = make(2 * DEPTH * KEYS, dtype, 2, 1),
                v = make(2 * KEYS * WIDTH, dtype, 3, 1), bias = make(ROWS * KEYS, dtype, 4, 1),
                dout = make(ITEMS * ROWS * WIDTH, dtype, 5, 1);
        numbers y = make(ITEMS * ROWS * WIDTH, dtype, 6, 1), p = make(ATTENTION_P, dtype, 7, 1),
                dropped = make(ATTENTION_P, dtype, 8, 1), dq = make(ITEMS * ROWS * DEPTH, dtype, 9, 1),
                dkt = make(ITEMS * DEPTH * KEYS, dtype, 10, 1), dv = make(ITEMS * KEYS * WIDTH, dtype, 11, 1),
                ds = make(ATTENTION_P, dtype, 12, 1);
        numbers y2 = make(ITEMS * ROWS * WIDTH, dtype, 6, 1), p2 = make(ATTENTION_P, dtype, 7, 1),
                dq2 = make(ITEMS * ROWS * DEPTH, dtype, 9, 1), dkt2 = make(ITEMS * DEPTH * KEYS, dtype, 10, 1),
                dv2 = make(ITEMS * KEYS * WIDTH, dtype, 11, 1);
        size_t bytes = tk_attention_workspace(&a, 2), grad_bytes = tk_attention_grad_workspace(&a, 2);
        void *workspace = alloc_guarded(bytes, 0), *more = alloc_guarded(grad_bytes, 0);
        tk_attention_operands in = {q.half, kt.half, v.half, bias.half, NULL},
                              wide_in = {q.wide, kt.wide, v.wide, bias.wide, NULL};
        use_queue(4, 2);
        assert_int_equal(
            FAULT_OF(tk_attention_run(queue(), (tk_attention_results){y.half, p.half, dropped.half, keep, NULL}, in, &a,
                                      number(0.25), seed_of(&draw), workspace)),
            TK_OK);
        assert_int_equal(
            FAULT_OF(tk_attention_run(queue(), (tk_attention_results){y.wide, p.wide, dropped.wide, wide_keep, NULL},
                                      wide_in, &wide, number(0.25), seed_of(&draw), workspace)),
            TK_OK);
        assert_memory_equal(keep, wide_keep, sizeof keep);
        same("P", &p, dtype);
        near("Y", y.half, y.wide, ITEMS * ROWS * WIDTH, dtype);
        tk_widen(dropped.wide, p.half, ATTENTION_P, dtype);
        tk_dropout_grad(queue(), dropped.wide, dropped.wide, keep, ATTENTION_P, number(0.25), TK_F32);
        same("the dropped map", &dropped, dtype);
        tk_attention_gradients gradients = {dq.half, dkt.half, dv.half, ds.half},
                               wide_gradients = {dq.wide, dkt.wide, dv.wide, ds.wide};
        tk_attention_saved saved = {dout.half, q.half, kt.half, v.half, p.half, dropped.half, keep, true};
        assert_int_equal(FAULT_OF(tk_attention_grad(queue(), gradients, saved, &a, number(0.25), more)), TK_OK);
        tk_widen(p.wide, p.half, ATTENTION_P, dtype), tk_widen(dropped.wide, dropped.half, ATTENTION_P, dtype);
        tk_attention_saved wide_saved = {dout.wide, q.wide, kt.wide, v.wide, p.wide, dropped.wide, keep, true};
        assert_int_equal(FAULT_OF(tk_attention_grad(queue(), wide_gradients, wide_saved, &wide, number(0.25), more)),
                         TK_OK);
        same("dQ", &dq, dtype), same("dK^T", &dkt, dtype), same("dV", &dv, dtype), same("dS", &ds, dtype);
        assert_int_equal(FAULT_OF(tk_attention_run(queue(), (tk_attention_results){.y = y2.half, .p = p2.half}, in,
                                                   &flagged, number(0.25), seed_of(&draw), workspace)),
                         TK_OK);
        saved = (tk_attention_saved){dout.half, q.half, kt.half, v.half, p2.half, NULL, NULL, true};
        assert_int_equal(
            FAULT_OF(tk_attention_grad(queue(), (tk_attention_gradients){dq2.half, dkt2.half, dv2.half, NULL}, saved,
                                       &flagged, number(0.25), more)),
            TK_OK);
        for (int i = 0; i < ATTENTION_P; i++)
            assert_int_equal(p2.half[i], p.half[i] | (keep[i] ? 0 : 0x8000));
        assert_memory_equal(y.half, y2.half, y.bytes);
        assert_memory_equal(dq.half, dq2.half, dq.bytes);
        assert_memory_equal(dkt.half, dkt2.half, dkt.bytes);
        assert_memory_equal(dv.half, dv2.half, dv.bytes);
        assert_int_equal(FAULT_OF(tk_attention_run(queue(), (tk_attention_results){.y = y2.half}, in, &a, number(0.25),
                                                   seed_of(&draw), workspace)),
                         TK_OK);
        assert_memory_equal(y.half, y2.half, y.bytes);
        free_guarded(workspace, bytes), free_guarded(more, grad_bytes);
        drop_numbers(&q), drop_numbers(&kt), drop_numbers(&v), drop_numbers(&bias), drop_numbers(&dout),
            drop_numbers(&y);
        drop_numbers(&p), drop_numbers(&dropped), drop_numbers(&dq), drop_numbers(&dkt), drop_numbers(&dv),
            drop_numbers(&ds);
        drop_numbers(&y2), drop_numbers(&p2), drop_numbers(&dq2), drop_numbers(&dkt2), drop_numbers(&dv2);
    }
}
