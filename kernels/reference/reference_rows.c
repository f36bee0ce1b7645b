/* reference_rows.c: ops along an axis: softmax, normalizations, reductions, running sums, losses. Operands become
 * doubles, results are rounded once. */
#include "reference.h"
#include <math.h>
#include <string.h>

static void put_all(void *out, tk_dtype dtype, const double *numbers, int64_t n) {
    for (int64_t i = 0; out && numbers && i < n; i++)
        tk_put(out, dtype, i, numbers[i]);
}

/* --- softmax ---------------------------------------------------------------------------------- */

static int64_t elements(tk_softmax_shape s) { return s.outer * s.n * s.inner; }

static void softmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape s, bool logarithm, tk_dtype dtype) {
    double *x = tk_reference_numbers(q, inp, elements(s), dtype);
    for (int64_t lane = 0; x && lane < s.outer * s.inner; lane++) {
        int64_t base = lane / s.inner * s.n * s.inner + lane % s.inner;
        double largest = -INFINITY, sum = 0;
        for (int64_t i = 0; i < s.n; i++)
            largest = fmax(largest, x[base + i * s.inner]);
        for (int64_t i = 0; i < s.n; i++)
            sum += exp(x[base + i * s.inner] - largest);
        for (int64_t i = 0; i < s.n; i++) {
            double y = x[base + i * s.inner] - largest - log(sum);
            tk_put(out, dtype, base + i * s.inner, logarithm ? y : exp(y));
        }
    }
    free(x);
}
void tk_reference_softmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype) {
    softmax(q, out, inp, shape, false, dtype);
}
void tk_reference_log_softmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype) {
    softmax(q, out, inp, shape, true, dtype);
}

static void softmax_grad(tk_queue *q, void *dinp, const void *dout, const void *out, tk_softmax_shape s, bool logarithm,
                         tk_dtype dtype) {
    double *dy = tk_reference_numbers(q, dout, elements(s), dtype),
           *y = tk_reference_numbers(q, out, elements(s), dtype);
    for (int64_t lane = 0; dy && y && lane < s.outer * s.inner; lane++) {
        int64_t base = lane / s.inner * s.n * s.inner + lane % s.inner;
        double sum = 0;
        for (int64_t i = 0; i < s.n; i++)
            sum += dy[base + i * s.inner] * (logarithm ? 1 : y[base + i * s.inner]);
        for (int64_t i = 0; i < s.n; i++) {
            int64_t at = base + i * s.inner;
            tk_put(dinp, dtype, at, logarithm ? dy[at] - exp(y[at]) * sum : (dy[at] - sum) * y[at]);
        }
    }
    free(dy), free(y);
}
void tk_reference_softmax_grad(tk_queue *q, void *dinp, const void *dout, const void *out, tk_softmax_shape shape,
                               tk_dtype dtype) {
    softmax_grad(q, dinp, dout, out, shape, false, dtype);
}
void tk_reference_log_softmax_grad(tk_queue *q, void *dinp, const void *dout, const void *out, tk_softmax_shape shape,
                                   tk_dtype dtype) {
    softmax_grad(q, dinp, dout, out, shape, true, dtype);
}

void tk_reference_hardmax(tk_queue *q, void *out, const void *inp, tk_softmax_shape s, tk_dtype dtype) {
    (void)q;
    for (int64_t lane = 0; lane < s.outer * s.inner; lane++) {
        int64_t base = lane / s.inner * s.n * s.inner + lane % s.inner, best = 0;
        for (int64_t i = 1; i < s.n; i++)
            if (tk_get(inp, dtype, base + i * s.inner) > tk_get(inp, dtype, base + best * s.inner))
                best = i;
        for (int64_t i = 0; i < s.n; i++)
            tk_put(out, dtype, base + i * s.inner, i == best);
    }
}

void tk_reference_softmax_statistics(tk_queue *q, void *largest, void *log_sum, const void *inp, tk_softmax_shape s,
                                     tk_dtype dtype) {
    tk_dtype wide = tk_wide(dtype);
    (void)q;
    for (int64_t lane = 0; lane < s.outer * s.inner; lane++) {
        int64_t base = lane / s.inner * s.n * s.inner + lane % s.inner;
        double most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < s.n; i++)
            most = fmax(most, tk_get(inp, dtype, base + i * s.inner));
        for (int64_t i = 0; i < s.n; i++)
            sum += exp(tk_get(inp, dtype, base + i * s.inner) - most);
        tk_put(largest, wide, lane, most);
        tk_put(log_sum, wide, lane, log(sum));
    }
}

/* --- normalizations --------------------------------------------------------------------------- */

/* Element i of scale or bias, whose rows are `step` apart. */
static double of_row(const void *data, int64_t step, const tk_norm_rows *s, int64_t i) {
    return tk_get(data, s->dtype, i / s->n * step + i % s->n);
}

static void row_statistics(double *out_mean, double *out_inv_std, const double *x, const tk_norm_rows *s) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < s->n && s->centered; i++)
        mean += x[i] / (double)s->n;
    for (int64_t i = 0; i < s->n; i++)
        variance += (x[i] - mean) * (x[i] - mean) / (double)s->n;
    *out_mean = mean;
    *out_inv_std = 1 / sqrt(variance + s->epsilon);
}

void tk_reference_norm(tk_queue *q, void *out, void *xhat, void *mean, void *inv_std, const void *inp,
                       const void *scale, const void *bias, const tk_norm_rows *s) {
    double *x = tk_reference_numbers(q, inp, s->rows * s->n, s->dtype);
    for (int64_t row = 0; x && row < s->rows; row++) {
        double m, inv;
        row_statistics(&m, &inv, x + row * s->n, s);
        for (int64_t i = row * s->n; i < (row + 1) * s->n; i++) {
            double y = (x[i] - m) * inv;
            tk_put(out, s->dtype, i,
                   y * of_row(scale, s->scale_step, s, i) + (bias ? of_row(bias, s->bias_step, s, i) : 0));
            if (xhat)
                tk_put(xhat, s->dtype, i, y);
        }
        if (mean)
            tk_put(mean, s->stat_dtype, row, m);
        if (inv_std)
            tk_put(inv_std, s->stat_dtype, row, inv);
    }
    free(x);
}

void tk_reference_scale_bias(tk_queue *q, void *out, const void *xhat, const void *scale, const void *bias,
                             const tk_norm_rows *s) {
    (void)q;
    for (int64_t i = 0; i < s->rows * s->n; i++)
        tk_put(out, s->dtype, i,
               tk_get(xhat, s->dtype, i) * of_row(scale, s->scale_step, s, i) +
                   (bias ? of_row(bias, s->bias_step, s, i) : 0));
}

/* From x-hat, which is overwritten: y = x-hat scale + bias, and x-hat depends on x also by mean and deviation of its
 * row. */
static void norm_grad(tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, double *xhat,
                      const void *scale, const void *inv_std, const tk_norm_rows *s) {
    int64_t n = s->n;
    double *dy = tk_reference_numbers(q, dout, s->rows * n, s->dtype), *gain = tk_reference_room(q, n),
           *shift = tk_reference_room(q, n), *of_scale = tk_reference_numbers(q, scale, n, s->dtype);
    for (int64_t row = 0; xhat && dy && gain && shift && of_scale && row < s->rows; row++) {
        double mean = 0, along = 0, inv = tk_get(inv_std, s->stat_dtype, row);
        const double *x = xhat + row * n, *of_y = dy + row * n;
        for (int64_t i = 0; i < n; i++) {
            gain[i] += of_y[i] * x[i];
            shift[i] += of_y[i];
            mean += s->centered ? of_y[i] * of_scale[i] / (double)n : 0;
            along += of_y[i] * of_scale[i] * x[i] / (double)n;
        }
        for (int64_t i = 0; dinp && i < n; i++)
            tk_put(dinp, s->dtype, row * n + i, inv * (of_y[i] * of_scale[i] - mean - x[i] * along));
    }
    put_all(dscale, s->dtype, gain, n);
    put_all(dbias, s->dtype, shift, n);
    free(xhat), free(dy), free(gain), free(shift), free(of_scale);
}

void tk_reference_norm_grad(tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, const void *inp,
                            const void *scale, const void *mean, const void *inv_std, const tk_norm_rows *s,
                            void *workspace) {
    double *x = tk_reference_numbers(q, inp, s->rows * s->n, s->dtype);
    (void)workspace;
    for (int64_t i = 0; x && i < s->rows * s->n; i++)
        x[i] = (x[i] - (mean ? tk_get(mean, s->stat_dtype, i / s->n) : 0)) * tk_get(inv_std, s->stat_dtype, i / s->n);
    norm_grad(q, dinp, dscale, dbias, dout, x, scale, inv_std, s);
}

void tk_reference_norm_xhat_grad(tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, const void *xhat,
                                 const void *scale, const void *inv_std, const tk_norm_rows *s, void *workspace) {
    (void)workspace;
    norm_grad(q, dinp, dscale, dbias, dout, tk_reference_numbers(q, xhat, s->rows * s->n, s->dtype), scale, inv_std, s);
}

void tk_reference_norm_from_y(tk_queue *q, void *out, void *inv_std, int32_t *channels, void *kept, const void *inp,
                              const void *scale, const void *bias, const tk_norm_sides *sides, const tk_norm_rows *s) {
    void *xhat = tk_reference_room(q, s->rows * s->n);
    int64_t used = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double gamma = fabs(tk_get(scale, s->dtype, i)), beta = bias ? fabs(tk_get(bias, s->dtype, i)) : 0;
        if (!(gamma < sides->least) && !(beta > sides->limit * gamma))
            continue;
        if (used < sides->capacity)
            channels[used] = (int32_t)i;
        used++;
    }
    for (int64_t k = used; k < sides->capacity; k++)
        channels[k] = -1;
    tk_fault(q, used > sides->capacity ? TK_MANY_SIDES : TK_OK);
    if (xhat && used <= sides->capacity) {
        tk_reference_norm(q, out, xhat, NULL, inv_std, inp, scale, bias, s);
        for (int64_t i = 0; kept && i < s->rows * sides->capacity; i++) {
            int64_t row = i / sides->capacity, channel = channels[i % sides->capacity];
            tk_put(kept, s->dtype, i, channel < 0 ? 0 : tk_get(xhat, s->dtype, row * s->n + channel));
        }
    }
    free(xhat);
}

void tk_reference_norm_from_y_grad(tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout,
                                   const void *out, const void *scale, const void *bias, const void *inv_std,
                                   const int32_t *channels, const void *kept, int64_t capacity, const tk_norm_rows *s,
                                   void *workspace) {
    double *x = tk_reference_numbers(q, out, s->rows * s->n, s->dtype);
    (void)workspace;
    for (int64_t i = 0; x && i < s->rows * s->n; i++) {
        x[i] = (x[i] - (bias ? tk_get(bias, s->dtype, i % s->n) : 0)) / tk_get(scale, s->dtype, i % s->n);
        for (int64_t k = 0; k < capacity; k++)
            if (channels[k] == i % s->n)
                x[i] = tk_get(kept, s->dtype, i / s->n * capacity + k);
    }
    norm_grad(q, dinp, dscale, dbias, dout, x, scale, inv_std, s);
}

/* Mean and variance of x's channels [first, end), of item b or, -1, of all of the batch. */
static void moments(double *out_mean, double *out_variance, const void *x, const tk_channels *s, int64_t b,
                    int64_t first, int64_t end) {
    double sum = 0, square = 0;
    int64_t from = b < 0 ? 0 : b, to = b < 0 ? s->batch : b + 1, n = (to - from) * (end - first) * s->inner;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = from; k < to; k++)
            for (int64_t i = (k * s->channels + first) * s->inner; i < (k * s->channels + end) * s->inner; i++) {
                double value = tk_get(x, s->dtype, i);
                if (pass == 0)
                    sum += value / (double)n;
                else
                    square += (value - sum) * (value - sum) / (double)n;
            }
    *out_mean = sum;
    *out_variance = square;
}

/* Element i of y. */
static void put_normalized(void *y, tk_channel_operands in, const tk_channels *s, int64_t i, double mean,
                           double variance) {
    int64_t channel = i / s->inner % s->channels;
    tk_put(y, s->dtype, i,
           (tk_get(in.x, s->dtype, i) - mean) / sqrt(variance + s->epsilon) * tk_get(in.scale, s->dtype, channel) +
               tk_get(in.bias, s->dtype, channel));
}

void tk_reference_batch_norm(tk_queue *q, tk_channel_results out, tk_channel_operands in, const tk_channels *s) {
    (void)q;
    for (int64_t ch = 0; ch < s->channels; ch++) {
        double old_mean = tk_get(in.mean, s->dtype, ch), old_variance = tk_get(in.variance, s->dtype, ch),
               mean = old_mean, variance = old_variance;
        if (s->train)
            moments(&mean, &variance, in.x, s, -1, ch, ch + 1);
        for (int64_t k = 0; k < s->batch * s->inner; k++)
            put_normalized(out.y, in, s, (k / s->inner * s->channels + ch) * s->inner + k % s->inner, mean, variance);
        if (s->train && out.mean)
            tk_put(out.mean, s->dtype, ch, old_mean * s->momentum + mean * (1 - s->momentum));
        if (s->train && out.variance)
            tk_put(out.variance, s->dtype, ch, old_variance * s->momentum + variance * (1 - s->momentum));
    }
}

void tk_reference_group_norm(tk_queue *q, tk_channel_results out, tk_channel_operands in, const tk_channels *s) {
    (void)q;
    for (int64_t at = 0; at < s->batch * s->groups; at++) {
        double mean, variance;
        int64_t each = s->channels / s->groups, b = at / s->groups, first = at % s->groups * each;
        moments(&mean, &variance, in.x, s, b, first, first + each);
        for (int64_t i = at * each * s->inner; i < (at + 1) * each * s->inner; i++)
            put_normalized(out.y, in, s, i, mean, variance);
    }
}

void tk_reference_lrn(tk_queue *q, tk_channel_results out, tk_channel_operands in, const tk_channels *s) {
    (void)q;
    for (int64_t i = 0; i < s->batch * s->channels * s->inner; i++) {
        int64_t ch = i / s->inner % s->channels;
        double squares = 0;
        for (int64_t k = ch - (s->size - 1) / 2; k <= ch + s->size / 2; k++)
            if (k >= 0 && k < s->channels)
                squares += pow(tk_get(in.x, s->dtype, i + (k - ch) * s->inner), 2);
        tk_put(out.y, s->dtype, i,
               tk_get(in.x, s->dtype, i) / pow(s->add + s->alpha / (double)s->size * squares, s->beta));
    }
}

/* --- reductions ------------------------------------------------------------------------------- */

/* Element `index` of the reduced dims, or of the kept ones. */
static int64_t place(int64_t index, int64_t run, int n, const int64_t *dims, const int64_t *strides) {
    int64_t at = index % run;
    index /= run;
    for (int d = n - 1; d >= 0; index /= dims[d--])
        at += index % dims[d] * strides[d];
    return at;
}

/* log(sum exp(x)), which tk_reduce_ref does not keep from overflowing. */
static double log_sum_exp(const void *inp, const tk_reduction *r, tk_dtype dtype, int64_t base, double largest) {
    double sum = 0, shift = isfinite(largest) ? largest : 0;
    for (int64_t i = 0; i < r->n_each; i++)
        sum += exp(tk_get(inp, dtype, base + place(i, r->run, r->n_reduced, r->reduced, r->reduced_strides)) - shift);
    return log(sum) + shift;
}

/* Sums, products and extremes of 64-bit integers have more digits than a double. */
static uint64_t of_integers(const void *inp, const tk_reduction *r, tk_reduce_op op, tk_dtype dtype, int64_t base) {
    bool is_unsigned = dtype == TK_U64;
    uint64_t sum = 0, product = 1, absolute = 0, squares = 0, least = 0, most = 0;
    for (int64_t i = 0; i < r->n_each; i++) {
        int64_t at = base + place(i, r->run, r->n_reduced, r->reduced, r->reduced_strides);
        uint64_t x = (uint64_t)tk_get_int(inp, dtype, at);
        sum += x;
        product *= x;
        squares += x * x;
        absolute += !is_unsigned && (int64_t)x < 0 ? 0 - x : x;
        if (i == 0 || (is_unsigned ? x < least : (int64_t)x < (int64_t)least))
            least = x;
        if (i == 0 || (is_unsigned ? x > most : (int64_t)x > (int64_t)most))
            most = x;
    }
    const uint64_t results[TK_REDUCE_OPS] = {
        [TK_REDUCE_SUM] = sum,  [TK_REDUCE_PROD] = product, [TK_REDUCE_MIN] = least,
        [TK_REDUCE_MAX] = most, [TK_REDUCE_L1] = absolute,  [TK_REDUCE_SUM_SQUARE] = squares};
    return results[op];
}

static bool is_exact(tk_reduce_op op) {
    return op == TK_REDUCE_SUM || op == TK_REDUCE_PROD || op == TK_REDUCE_MIN || op == TK_REDUCE_MAX ||
           op == TK_REDUCE_L1 || op == TK_REDUCE_SUM_SQUARE;
}

void tk_reference_reduce(tk_queue *q, void *out, const void *inp, const tk_reduction *r, tk_reduce_op op,
                         tk_dtype dtype, void *workspace) {
    (void)q, (void)workspace;
    for (int64_t i = 0; i < r->n_out; i++) {
        double results[TK_REDUCE_OPS];
        int64_t base = place(i, r->inner, r->n_outer, r->outer, r->outer_strides);
        tk_reduce_ref(results, inp, r, dtype, i);
        if (dtype == TK_BOOL && r->n_each == 0)
            results[op] = op == TK_REDUCE_MIN;
        if (op == TK_REDUCE_LOG_SUM_EXP)
            results[op] = log_sum_exp(inp, r, dtype, base, results[TK_REDUCE_MAX]);
        if ((dtype == TK_I64 || dtype == TK_U64) && is_exact(op) && r->n_each > 0)
            tk_reference_put_int(out, dtype, i, of_integers(inp, r, op, dtype, base));
        else if (dtype == TK_BOOL || tk_is_float(dtype) || !is_exact(op) || op == TK_REDUCE_MIN || op == TK_REDUCE_MAX)
            tk_reference_put(out, dtype, i, results[op]);
        else
            tk_reference_put_int(out, dtype, i, of_integers(inp, r, op, dtype, base));
    }
}

void tk_reference_arg(tk_queue *q, int64_t *out, const void *inp, int64_t outer, int64_t n, int64_t inner, bool largest,
                      bool last, tk_dtype dtype) {
    (void)q;
    for (int64_t lane = 0; lane < outer * inner; lane++) {
        int64_t base = lane / inner * n * inner + lane % inner, best = 0;
        for (int64_t i = 1; i < n; i++) {
            int64_t a = base + i * inner, b = base + best * inner;
            bool wide = dtype == TK_I64 || dtype == TK_U64;
            double x = tk_get(inp, dtype, a), y = tk_get(inp, dtype, b);
            int64_t v = wide ? tk_get_int(inp, dtype, a) : 0, w = wide ? tk_get_int(inp, dtype, b) : 0;
            int order = !wide             ? (x > y) - (x < y)
                        : dtype == TK_U64 ? ((uint64_t)v > (uint64_t)w) - ((uint64_t)v < (uint64_t)w)
                                          : (v > w) - (v < w);
            bool equal = wide ? v == w : x == y;
            if (order == (largest ? 1 : -1) || (last && equal))
                best = i;
        }
        out[lane] = best;
    }
}

void tk_reference_cumsum(tk_queue *q, void *out, const void *inp, int64_t outer, int64_t n, int64_t inner,
                         bool exclusive, bool reverse, tk_dtype dtype, void *workspace) {
    (void)q, (void)workspace;
    for (int64_t lane = 0; lane < outer * inner; lane++) {
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t i = (lane / inner * n + (reverse ? n - 1 - k : k)) * inner + lane % inner;
            double x = tk_is_float(dtype) ? tk_get(inp, dtype, i) : 0, before = sum;
            uint64_t w = tk_is_float(dtype) ? 0 : (uint64_t)tk_get_int(inp, dtype, i), whole_before = whole;
            sum += x, whole += w;
            if (tk_is_float(dtype))
                tk_put(out, dtype, i, exclusive ? before : sum);
            else
                tk_reference_put_int(out, dtype, i, exclusive ? whole_before : whole);
        }
    }
}

/* --- losses ----------------------------------------------------------------------------------- */

static bool is_ignored(const void *labels, const tk_loss *s, int64_t i) {
    return s->has_ignored && tk_get_int(labels, s->label_dtype, i) == s->ignored;
}

/* The weight of each place's label, 0 where it is ignored, [batch, inner]; NULL, and a fault, where a label is
 * invalid. */
static double *label_weights(tk_queue *q, const void *labels, const void *weights, const tk_loss *s) {
    double *each = tk_reference_room(q, s->batch * s->inner);
    for (int64_t i = 0; each && i < s->batch * s->inner; i++) {
        int64_t label = tk_get_int(labels, s->label_dtype, i);
        bool ignored = is_ignored(labels, s, i);
        if (!ignored && (label < 0 || label >= s->classes)) {
            tk_fault(q, TK_BAD_INDEX);
            free(each);
            return NULL;
        }
        each[i] = ignored ? 0 : weights ? tk_get(weights, s->dtype, label) : 1;
    }
    return each;
}

static double total(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static int64_t of_label(const void *labels, const tk_loss *s, int64_t i) {
    return (i / s->inner * s->classes + tk_get_int(labels, s->label_dtype, i)) * s->inner + i % s->inner;
}

void tk_reference_nll_loss(tk_queue *q, void *loss, const void *log_prob, const void *labels, const void *weights,
                           const tk_loss *s, void *scratch) {
    (void)scratch;
    int64_t n = s->batch * s->inner;
    double *weight = label_weights(q, labels, weights, s), *each = tk_reference_room(q, n);
    for (int64_t i = 0; weight && each && i < n; i++)
        each[i] = is_ignored(labels, s, i) ? 0 : -weight[i] * tk_get(log_prob, s->dtype, of_label(labels, s, i));
    if (weight && each && s->reduction == TK_LOSS_NONE)
        put_all(loss, s->dtype, each, n);
    else if (weight && each)
        tk_put(loss, s->dtype, 0, total(each, n) / (s->reduction == TK_LOSS_MEAN ? total(weight, n) : 1));
    free(weight), free(each);
}

void tk_reference_cross_entropy(tk_queue *q, void *loss, void *log_prob, const void *scores, const void *labels,
                                const void *weights, const tk_loss *s, void *scratch) {
    tk_softmax_shape shape = {s->batch, s->classes, s->inner};
    double *x = tk_reference_numbers(q, scores, elements(shape), s->dtype), *y = tk_reference_room(q, elements(shape));
    if (x && y) {
        tk_loss wide = *s;
        double *of_weights = tk_reference_numbers(q, weights, s->classes, s->dtype), *each = NULL;
        int64_t n = s->reduction == TK_LOSS_NONE ? s->batch * s->inner : 1;
        wide.dtype = TK_F64;
        tk_reference_log_softmax(q, y, x, shape, TK_F64);
        if (of_weights && (each = tk_reference_room(q, n)) != NULL) {
            tk_reference_nll_loss(q, each, y, labels, weights ? of_weights : NULL, &wide, scratch);
            put_all(log_prob, s->dtype, y, elements(shape));
            put_all(loss, s->dtype, each, n);
        }
        free(of_weights), free(each);
    }
    free(x), free(y);
}

void tk_reference_cross_entropy_grad(tk_queue *q, void *dscores, const void *dloss, const void *log_prob,
                                     const void *labels, const void *weights, const tk_loss *s, void *scratch) {
    (void)scratch;
    int64_t n = s->batch * s->inner;
    double *weight = label_weights(q, labels, weights, s);
    double divisor = weight && s->reduction == TK_LOSS_MEAN ? total(weight, n) : 1;
    for (int64_t i = 0; weight && i < n; i++) {
        double of_loss = tk_get(dloss, s->dtype, s->reduction == TK_LOSS_NONE ? i : 0);
        int64_t label = tk_get_int(labels, s->label_dtype, i);
        for (int64_t k = 0; k < s->classes; k++) {
            int64_t at = (i / s->inner * s->classes + k) * s->inner + i % s->inner;
            double slope = exp(tk_get(log_prob, s->dtype, at)) - (k == label);
            tk_put(dscores, s->dtype, at, is_ignored(labels, s, i) ? 0 : slope * weight[i] * of_loss / divisor);
        }
    }
    free(weight);
}

static double *numbers_or_null(tk_queue *q, const void *data, int64_t n, tk_dtype dtype) {
    return data ? tk_reference_numbers(q, data, n, dtype) : NULL;
}

static double *room_or_null(tk_queue *q, const void *out, int64_t n) { return out ? tk_reference_room(q, n) : NULL; }

void tk_reference_linear_loss_run(tk_queue *q, tk_linear_loss_results out, tk_linear_loss_operands in,
                                  const tk_linear_loss *s, void *workspace) {
    (void)workspace;
    int64_t of_x = s->rows * s->hidden, of_w = s->classes * s->hidden,
            of_loss = s->reduction == TK_LOSS_NONE ? s->rows : 1;
    int64_t *labels = calloc((size_t)s->rows + 1, sizeof *labels);
    for (int64_t i = 0; labels && i < s->rows; i++)
        labels[i] = tk_get_int(in.labels, s->label_dtype, i);
    double *x = tk_reference_numbers(q, in.x, of_x, s->dtype), *w = tk_reference_numbers(q, in.w, of_w, s->dtype),
           *b = numbers_or_null(q, in.b, s->classes, s->dtype),
           *weights = numbers_or_null(q, in.weights, s->classes, s->loss_dtype),
           *dloss = numbers_or_null(q, in.dloss, of_loss, s->loss_dtype), *loss = tk_reference_room(q, of_loss),
           *dx = room_or_null(q, out.dx, of_x), *dw = room_or_null(q, out.dw, of_w),
           *db = room_or_null(q, out.db, s->classes);
    bool all = labels && x && w && loss && (b || !in.b) && (weights || !in.weights) && (dloss || !in.dloss) &&
               (dx || !out.dx) && (dw || !out.dw) && (db || !out.db);
    tk_status status = all ? tk_linear_loss_ref((tk_linear_loss_results){loss, dx, dw, db},
                                                (tk_linear_loss_operands){x, w, labels, b, weights, dloss}, s)
                           : TK_NO_MEMORY;
    if (status != TK_OK)
        tk_fault(q, status);
    if (status == TK_OK) {
        put_all(out.loss, s->loss_dtype, loss, of_loss);
        put_all(out.dx, s->dtype, dx, of_x);
        put_all(out.dw, s->dtype, dw, of_w);
        put_all(out.db, s->dtype, db, s->classes);
    }
    free(labels), free(x), free(w), free(b), free(weights), free(dloss), free(loss), free(dx), free(dw), free(db);
}
