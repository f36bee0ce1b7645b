/* loss_cpu.c: the losses of classification. The losses of all places are computed first, then added up in order, in
 * double. */
#include "loss.h"
#include "../common/element.h"
#include "../common/math.h"
#include "../common/parallel.h"
#include "../common/types.h"
#include "../softmax/softmax.h"

static int64_t places(const tk_loss *s) { return s->batch * s->inner; }
static tk_softmax_shape softmax_shape(const tk_loss *s) { return (tk_softmax_shape){s->batch, s->classes, s->inner}; }

static bool is_ignored(const tk_loss *s, int64_t label) { return s->has_ignored && label == s->ignored; }

static double weight_of(const tk_loss *s, const void *weights, int64_t label) {
    if (is_ignored(s, label))
        return 0;
    return weights ? tk_get(weights, s->dtype, label) : 1;
}

static tk_status check_labels(const tk_loss *s, const void *labels) {
    for (int64_t i = 0; i < places(s); i++) {
        int64_t label = tk_get_int(labels, s->label_dtype, i);
        if ((label < 0 || label >= s->classes) && !is_ignored(s, label))
            return TK_BAD_INDEX;
    }
    return TK_OK;
}

static double weight_sum(const tk_loss *s, const void *labels, const void *weights) {
    double sum = 0;
    for (int64_t i = 0; i < places(s); i++)
        sum += weight_of(s, weights, tk_get_int(labels, s->label_dtype, i));
    return sum;
}

/* The element type of intermediate numbers: statistics, and losses before they are added up. */
static tk_dtype wide_dtype(const tk_loss *s) { return tk_wide(s->dtype); }
static tk_dtype each_dtype(const tk_loss *s) { return s->reduction == TK_LOSS_NONE ? s->dtype : wide_dtype(s); }

static double rounded(tk_dtype dtype, double x) {
    double cell;
    tk_put(&cell, dtype, 0, x);
    return tk_get(&cell, dtype, 0);
}

/* log_prob as tk_log_softmax would write it in the wide type, bit for bit: a loss is the same whether log_prob is
 * wanted or not. */
static double log_prob_of(const tk_loss *s, double score, double largest, double log_sum) {
    return rounded(wide_dtype(s), rounded(wide_dtype(s), score - largest) - log_sum);
}

/* -log_prob at each place's label; largest and log_sum are NULL where inp holds log-probabilities already. */
static void each_loss(void *each, const void *inp, const void *largest, const void *log_sum, const void *labels,
                      const void *weights, const tk_loss *s) {
    for (int64_t i = 0; i < places(s); i++) {
        int64_t label = tk_get_int(labels, s->label_dtype, i);
        if (is_ignored(s, label)) {
            tk_put(each, each_dtype(s), i, 0);
            continue;
        }
        double y = tk_get(inp, s->dtype, (i / s->inner * s->classes + label) * s->inner + i % s->inner);
        if (largest)
            y = log_prob_of(s, y, tk_get(largest, wide_dtype(s), i), tk_get(log_sum, wide_dtype(s), i));
        tk_put(each, each_dtype(s), i, -weight_of(s, weights, label) * y);
    }
}

static void reduce(void *loss, const void *each, const void *labels, const void *weights, const tk_loss *s) {
    double sum = 0;
    if (s->reduction == TK_LOSS_NONE)
        return;
    for (int64_t i = 0; i < places(s); i++)
        sum += tk_get(each, each_dtype(s), i);
    tk_put(loss, s->dtype, 0, s->reduction == TK_LOSS_MEAN ? sum / weight_sum(s, labels, weights) : sum);
}

void tk_nll_loss(tk_queue *q, void *loss, const void *log_prob, const void *labels, const void *weights,
                 const tk_loss *s, void *scratch) {
    if (check_labels(s, labels) != TK_OK) {
        tk_fault(q, TK_BAD_INDEX);
        return;
    }
    void *each = s->reduction == TK_LOSS_NONE ? loss : scratch;
    each_loss(each, log_prob, NULL, NULL, labels, weights, s);
    reduce(loss, each, labels, weights, s);
}

size_t tk_cross_entropy_workspace(const tk_loss *s) { return 3 * (size_t)places(s) * tk_size(wide_dtype(s)); }

void tk_cross_entropy(tk_queue *q, void *loss, void *log_prob, const void *scores, const void *labels,
                      const void *weights, const tk_loss *s, void *scratch) {
    size_t bytes = (size_t)places(s) * tk_size(wide_dtype(s));
    char *largest = scratch, *log_sum = largest + bytes;
    void *each = s->reduction == TK_LOSS_NONE ? loss : log_sum + bytes;
    if (check_labels(s, labels) != TK_OK) {
        tk_fault(q, TK_BAD_INDEX);
        return;
    }
    bool is_wide = log_prob && !tk_is_half(s->dtype);
    if (!is_wide) {
        tk_softmax_statistics(q, largest, log_sum, scores, softmax_shape(s), s->dtype);
        each_loss(each, scores, largest, log_sum, labels, weights, s);
    }
    if (log_prob)
        tk_log_softmax(q, log_prob, scores, softmax_shape(s), s->dtype);
    if (is_wide)
        each_loss(each, log_prob, NULL, NULL, labels, weights, s);
    reduce(loss, each, labels, weights, s);
}

typedef struct grad_ctx {
    void *dscores;
    const void *dloss, *log_prob, *labels, *weights;
    const tk_loss *shape;
    double divisor;
} grad_ctx;

#define SCALED_EXP(SUFFIX, T, EXP)                                                                                     \
    TK_VECTOR static void scaled_exp_##SUFFIX(void *out_, const void *inp_, int64_t at, int64_t n, double factor_) {   \
        tk_stored_##SUFFIX *out = (tk_stored_##SUFFIX *)out_ + at;                                                     \
        const tk_stored_##SUFFIX *inp = (const tk_stored_##SUFFIX *)inp_ + at;                                         \
        const T factor = (T)factor_;                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = tk_to_##SUFFIX(EXP(tk_from_##SUFFIX(inp[i])) * factor);                                           \
    }
SCALED_EXP(f32, float, tk_expf)
SCALED_EXP(f64, double, exp)
SCALED_EXP(f16, float, tk_expf)
SCALED_EXP(bf16, float, tk_expf)

/* One place: the column of its classes. An ignored label takes no part, even where the sum of all weights is 0 and the
 * share of the others is not finite. A row of log-probabilities is NaN as a whole or nowhere. */
static void grad_place(const grad_ctx *c, int64_t i) {
    const tk_loss *s = c->shape;
    int64_t label = tk_get_int(c->labels, s->label_dtype, i),
            base = i / s->inner * s->classes * s->inner + i % s->inner;
    if (is_ignored(s, label)) {
        double nothing = s->classes > 0 ? 0 * exp(tk_get(c->log_prob, s->dtype, base)) : 0;
        for (int64_t k = 0; k < s->classes; k++)
            tk_put(c->dscores, s->dtype, base + k * s->inner, nothing);
        return;
    }
    double share = tk_get(c->dloss, s->dtype, s->reduction == TK_LOSS_NONE ? i : 0) / c->divisor,
           factor = weight_of(s, c->weights, label) * share;
    int64_t at = base + label * s->inner; /* read first: dscores may lie over log_prob */
    double of_label = exp(tk_get(c->log_prob, s->dtype, at)) * factor - factor;
    if (s->inner == 1)
        TK_OF_FLOAT(s->dtype, scaled_exp)(c->dscores, c->log_prob, base, s->classes, factor);
    else
        for (int64_t k = base; k < base + s->classes * s->inner; k += s->inner)
            tk_put(c->dscores, s->dtype, k, exp(tk_get(c->log_prob, s->dtype, k)) * factor);
    tk_put(c->dscores, s->dtype, at, of_label);
}

static void grad_range(void *ctx, tk_share share) {
    for (int64_t i = share.begin; i < share.end; i++)
        grad_place(ctx, i);
}

/* The sum of the weights is this function's own. */
size_t tk_cross_entropy_grad_workspace(const tk_loss *s) {
    (void)s;
    return 0;
}

void tk_cross_entropy_grad(tk_queue *q, void *dscores, const void *dloss, const void *log_prob, const void *labels,
                           const void *weights, const tk_loss *s, void *scratch) {
    (void)scratch;
    if (check_labels(s, labels) != TK_OK) {
        tk_fault(q, TK_BAD_INDEX);
        return;
    }
    grad_ctx c = {dscores,
                  dloss,
                  log_prob,
                  labels,
                  weights,
                  s,
                  s->reduction == TK_LOSS_MEAN ? weight_sum(s, labels, weights) : 1};
    tk_parallel_for(q, places(s), TK_GRAIN / 4 / (s->classes + 1) + 1, grad_range, &c);
}
