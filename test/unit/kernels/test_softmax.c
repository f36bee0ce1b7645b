/* test_softmax.c: Softmax, LogSoftmax, their gradients and the losses against their definitions, for the axis last and
 * in the middle, between guard bands, the same bits at 1 and 2 threads. */
#include "test/unit/kernel_test.h"
#include "kernels/reference/reference.h"
#include "kernels/loss/loss.h"
#include "kernels/softmax/softmax.h"

static const tk_softmax_shape shapes[] = {{1, 1, 1}, {3, 7, 1},    {0, 5, 1},     {40, 1000, 1},
                                          {2, 3, 5}, {3, 70, 129}, {1, 30522, 1}, {5, 0, 3}};

typedef void (*forward_fn)(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype);
typedef void (*backward_fn)(tk_queue *q, void *dinp, const void *dout, const void *out, tk_softmax_shape shape,
                            tk_dtype dtype);

/* Within `tolerance` of |exact| + scale, the size of the terms that exact is a difference of. */
static void near(const float *got, const double *exact, int64_t n, double tolerance, double scale) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - exact[i]) <= tolerance * (scale + fabs(exact[i]))))
            fail_msg("element %lld is %.9g, expected %.9g", (long long)i, (double)got[i], exact[i]);
}

static void one(tk_softmax_shape s, int logarithm) {
    forward_fn forward = logarithm ? tk_log_softmax : tk_softmax;
    backward_fn backward = logarithm ? tk_log_softmax_grad : tk_softmax_grad;
    int64_t n = s.outer * s.n * s.inner;
    size_t bytes = (size_t)n * sizeof(float);
    float *inp = alloc_guarded(bytes, 4), *out = alloc_guarded(bytes, 8), *again = alloc_guarded(bytes, 0),
          *dout = alloc_guarded(bytes, 0);
    double *x = malloc(bytes * 2 + 8), *y = malloc(bytes * 2 + 8), *dy = malloc(bytes * 2 + 8),
           *dx = malloc(bytes * 2 + 8);
    fill_f32(inp, n, 1);
    fill_f32(dout, n, 2);
    for (int64_t i = 0; i < n; i++) {
        inp[i] *= 9;
        x[i] = (double)inp[i], dy[i] = (double)dout[i];
    }
    (logarithm ? tk_reference_log_softmax : tk_reference_softmax)(queue(), y, x, s, TK_F64);
    use_threads(2);
    forward(queue(), out, inp, s, TK_F32);
    use_threads(1);
    forward(queue(), again, inp, s, TK_F32);
    assert_memory_equal(out, again, bytes);
    near(out, y, n, 2e-6, 1e-3);
    (logarithm ? tk_reference_log_softmax_grad : tk_reference_softmax_grad)(queue(), dx, dy, y, s, TK_F64);
    use_threads(2);
    backward(queue(), inp, dout, out, s, TK_F32);
    use_threads(1);
    backward(queue(), dout, dout, out, s, TK_F32); /* in place */
    assert_memory_equal(inp, dout, bytes);
    near(dout, dx, n, 1e-6, logarithm ? 1 + sqrt((double)s.n) : 1);
    forward(queue(), y, x, s, TK_F64);
    (logarithm ? tk_reference_log_softmax : tk_reference_softmax)(queue(), dx, x, s, TK_F64);
    for (int64_t i = 0; i < n; i++)
        assert_true(fabs(y[i] - dx[i]) <= 1e-13 * (1 + fabs(dx[i])));
    free(x), free(y), free(dy), free(dx);
    free_guarded(inp, bytes);
    free_guarded(out, bytes);
    free_guarded(again, bytes);
    free_guarded(dout, bytes);
}

TEST(softmax) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        one(shapes[i], 0);
        one(shapes[i], 1);
    }
}

TEST(masked_rows) {
    const float inp[] = {-INFINITY, 0, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    float out[6];
    tk_softmax(queue(), out, inp, (tk_softmax_shape){2, 3, 1}, TK_F32);
    assert_true(out[0] == 0 && out[1] == 1 && out[2] == 0 && isnan(out[3]) && isnan(out[5]));
}

TEST(hardmax) {
    const float inp[] = {1, 3, 3, 5, 2, 2};
    float out[6];
    tk_hardmax(queue(), out, inp, (tk_softmax_shape){1, 3, 2}, TK_F32); /* columns 1 3 2 and 3 5 2 */
    assert_memory_equal(out, ((float[]){0, 0, 1, 1, 0, 0}), sizeof out);
}

/* --- losses ----------------------------------------------------------------------------------- */

enum { BATCH = 5, CLASSES = 37, INNER = 6, PLACES = BATCH * INNER, SCORES = PLACES * CLASSES };

typedef struct data {
    double scores[SCORES], weights[CLASSES];
    float scores_f32[SCORES], weights_f32[CLASSES];
    int64_t labels[PLACES];
} data;

static void fill(data *d, const tk_loss *s) {
    uint64_t seed = 3;
    for (int64_t i = 0; i < s->batch * s->classes * s->inner; i++)
        d->scores[i] = (double)(d->scores_f32[i] = (float)(3 * any_number(&seed)));
    for (int64_t i = 0; i < s->classes; i++)
        d->weights[i] = (double)(d->weights_f32[i] = (float)(any_number(&seed) + 1.1));
    for (int64_t i = 0; i < s->batch * s->inner; i++)
        d->labels[i] = s->has_ignored && i % 3 == 0 ? s->ignored : i * 7 % s->classes;
}

/* The loss with and without log_prob, and its gradient against differences of the definition. */
static void one_loss(tk_loss s, int weighted) {
    data d;
    double exact[PLACES], moved[PLACES], scratch[3 * PLACES];
    float loss[PLACES], again[PLACES], log_prob[SCORES], grad[SCORES], dloss[PLACES];
    int64_t places = s.batch * s.inner, losses = s.reduction == TK_LOSS_NONE ? places : 1;
    const double *weights = weighted ? d.weights : NULL;
    const float *weights_f32 = weighted ? d.weights_f32 : NULL;
    tk_loss wide = s;
    wide.dtype = TK_F64;
    fill(&d, &s);
    tk_reference_cross_entropy(queue(), exact, NULL, d.scores, d.labels, weights, &wide, NULL);
    assert_int_equal(FAULT_OF(tk_cross_entropy(queue(), loss, NULL, d.scores_f32, d.labels, weights_f32, &s, scratch)),
                     TK_OK);
    assert_int_equal(
        FAULT_OF(tk_cross_entropy(queue(), again, log_prob, d.scores_f32, d.labels, weights_f32, &s, scratch)), TK_OK);
    near(loss, exact, losses, 2e-6, 1e-3);
    near(again, exact, losses, 2e-6, 1e-3);
    assert_int_equal(FAULT_OF(tk_nll_loss(queue(), loss, log_prob, d.labels, weights_f32, &s, scratch)), TK_OK);
    assert_memory_equal(loss, again, (size_t)losses * sizeof(float));
    for (int64_t i = 0; i < losses; i++)
        dloss[i] = (float)(i + 1);
    assert_int_equal(FAULT_OF(tk_cross_entropy_grad(queue(), grad, dloss, log_prob, d.labels, weights_f32, &s, NULL)),
                     TK_OK);
    /* log_prob over scores, dscores over log_prob: the same bits. */
    float over[SCORES];
    size_t bytes = (size_t)(places * s.classes) * sizeof *over;
    memcpy(over, d.scores_f32, bytes);
    assert_int_equal(FAULT_OF(tk_cross_entropy(queue(), again, over, over, d.labels, weights_f32, &s, scratch)), TK_OK);
    assert_memory_equal(again, loss, (size_t)losses * sizeof(float));
    assert_memory_equal(over, log_prob, bytes);
    assert_int_equal(FAULT_OF(tk_cross_entropy_grad(queue(), over, dloss, over, d.labels, weights_f32, &s, NULL)),
                     TK_OK);
    assert_memory_equal(over, grad, bytes);
    for (int64_t i = 0; i < places * s.classes; i += 5) {
        double before = d.scores[i], change = 0;
        d.scores[i] = before + 1e-5;
        tk_reference_cross_entropy(queue(), moved, NULL, d.scores, d.labels, weights, &wide, NULL);
        for (int64_t k = 0; k < losses; k++)
            change += (double)dloss[k] * moved[k];
        d.scores[i] = before - 1e-5;
        tk_reference_cross_entropy(queue(), moved, NULL, d.scores, d.labels, weights, &wide, NULL);
        for (int64_t k = 0; k < losses; k++)
            change -= (double)dloss[k] * moved[k];
        d.scores[i] = before;
        assert_true(fabs(change / 2e-5 - (double)grad[i]) < 2e-5);
    }
}

TEST(losses) {
    for (int reduction = TK_LOSS_NONE; reduction <= TK_LOSS_MEAN; reduction++)
        for (int kind = 0; kind < 8; kind++) {
            tk_loss s = {.batch = BATCH,
                         .classes = CLASSES,
                         .inner = kind & 4 ? INNER : 1,
                         .reduction = (tk_reduction_kind)reduction,
                         .has_ignored = kind & 2,
                         .ignored = -100,
                         .dtype = TK_F32,
                         .label_dtype = TK_I64};
            one_loss(s, kind & 1);
        }
}

TEST(wrong_labels) {
    tk_loss s = {.batch = 1,
                 .classes = 3,
                 .inner = 1,
                 .reduction = TK_LOSS_MEAN,
                 .has_ignored = true,
                 .ignored = -1,
                 .dtype = TK_F32,
                 .label_dtype = TK_I32};
    const float scores[3] = {0};
    float loss, grad[3], scratch[3];
    for (int32_t label = -2; label < 5; label++) {
        tk_status expected = label >= -1 && label < 3 ? TK_OK : TK_BAD_INDEX;
        assert_int_equal(FAULT_OF(tk_cross_entropy(queue(), &loss, NULL, scores, &label, NULL, &s, scratch)), expected);
        assert_int_equal(FAULT_OF(tk_nll_loss(queue(), &loss, scores, &label, NULL, &s, scratch)), expected);
        assert_int_equal(FAULT_OF(tk_cross_entropy_grad(queue(), grad, &loss, scores, &label, NULL, &s, NULL)),
                         expected);
    }
}
