/* train_metrics.c: metrics of an evaluation, by sums of counts. F1 is scikit-learn's: of class 1 where there are two,
 * else its mean over the classes that are labels or predicted ("macro"). Of labels that are 0 or 1 it is that of
 * ones, the mean over all columns where there are several. */
#include "train_metrics.h"
#include "train.h"
#include <math.h>
#include <string.h>

enum { RIGHT, ACTUAL, PREDICTED };

static const double *part(const train_metrics *m, size_t at) { return m->sums + at * (size_t)m->of->classes; }
static double *likelihood(const train_metrics *m) { return m->sums + m->n_sums - 1; }
static double *count(const train_metrics *m) { return m->sums + m->n_sums - 2; }

/* --- formulas ------------------------------------------------------------------------------------- */

static double total(const train_metrics *m, size_t at) {
    double sum = 0;
    for (int64_t i = 0; i < m->of->classes; i++)
        sum += part(m, at)[i];
    return sum;
}

static double accuracy(const train_metrics *m) {
    if (m->of->count)
        return *count(m) > 0 ? 1 - (total(m, ACTUAL) + total(m, PREDICTED) - 2 * total(m, RIGHT)) / *count(m) : NAN;
    return total(m, ACTUAL) > 0 ? total(m, RIGHT) / total(m, ACTUAL) : NAN;
}

/* 2 right / (actual + predicted); `absent` where both are 0. */
static double f1_of(const train_metrics *m, int64_t class, double absent) {
    double both = part(m, ACTUAL)[class] + part(m, PREDICTED)[class];
    return both > 0 ? 2 * part(m, RIGHT)[class] / both : absent;
}

static double f1(const train_metrics *m) {
    return total(m, ACTUAL) + *count(m) > 0 ? f1_of(m, m->of->classes - 1, 0) : NAN;
}

static double f1_macro(const train_metrics *m) {
    double sum = 0, n = 0;
    for (int64_t i = 0; i < m->of->classes; i++) {
        double of = f1_of(m, i, NAN);
        sum += isnan(of) ? 0 : of;
        n += m->of->count || !isnan(of);
    }
    return n > 0 ? sum / n : NAN;
}

static double perplexity(const train_metrics *m) {
    return total(m, ACTUAL) > 0 ? exp(*likelihood(m) / total(m, ACTUAL)) : NAN;
}

static const struct {
    const char *name;
    double (*value)(const train_metrics *m);
} formulas[TRAIN_METRICS] = {{"accuracy", accuracy}, {"f1", f1}, {"f1_macro", f1_macro}, {"perplexity", perplexity}};

double train_metrics_value(const train_metrics *m, size_t index) {
    for (size_t i = 0; i < TRAIN_METRICS; i++)
        if (strcmp(formulas[i].name, m->names[index]) == 0)
            return formulas[i].value(m);
    return NAN;
}

/* --- counts --------------------------------------------------------------------------------------- */

static bool is_output(const tc_graph *graph, const char *name) {
    const tc_value *value = tc_map_get(graph->names, name);
    return value && value->n_graph_outputs > 0;
}

void train_metrics_open(tc_ctx *ctx, const tc_summary *summary, const tc_graph *graph, train_metrics *m) {
    const tc_metrics *of = summary->metrics;
    *m = (train_metrics){.of = of};
    if (!of)
        return;
    const int64_t two = of->count ? 1 : 2;
    const bool has[TRAIN_METRICS] = {true, of->predicted && of->classes == two, of->predicted && of->classes > two,
                                     of->likelihood != NULL};
    m->n_sums = 3 * (size_t)of->classes + 2;
    m->sums = TC_NEW_ARRAY(ctx->arena, double, m->n_sums);
    for (size_t i = 0; i < TRAIN_METRICS; i++)
        if (has[i] && !is_output(graph, formulas[i].name))
            m->names[m->n++] = formulas[i].name;
}

void train_metrics_begin(train_metrics *m) {
    if (m->of)
        memset(m->sums, 0, m->n_sums * sizeof *m->sums);
}

/* Adds an output's elements to sums; *out_total is their sum. */
static tc_status add_counts(tc_ctx *ctx, tempo_session *session, const char *output, size_t n, double *sums,
                            double *out_total) {
    tempo_tensor tensor;
    tempo_status status = tempo_output(session, output, &tensor);
    if (status != TEMPO_OK)
        return train_failed(ctx, session, status);
    TC_ASSERT(tensor.dtype == TEMPO_FLOAT && tensor.bytes == n * sizeof(float));
    *out_total = 0;
    for (size_t i = 0; i < n; i++) {
        sums[i] += ((const float *)tensor.data)[i];
        *out_total += ((const float *)tensor.data)[i];
    }
    return TC_OK;
}

tc_status train_metrics_add(tc_ctx *ctx, tempo_session *session, train_metrics *m) {
    if (!m->of)
        return TC_OK;
    const char *const outputs[] = {m->of->right, m->of->actual, m->of->predicted};
    double counts[TC_COUNT(outputs)] = {0}, value = 0;
    for (size_t i = 0; i < TC_COUNT(outputs); i++)
        if (outputs[i])
            TC_TRY(add_counts(ctx, session, outputs[i], (size_t)m->of->classes, m->sums + i * (size_t)m->of->classes,
                              &counts[i]));
    if (m->of->count) {
        TC_TRY(train_read_number(ctx, session, m->of->count, &value));
        *count(m) += value;
    }
    if (!m->of->likelihood || counts[ACTUAL] == 0) /* the mean of nothing is NaN */
        return TC_OK;
    TC_TRY(train_read_number(ctx, session, m->of->likelihood, &value));
    *likelihood(m) += m->of->is_mean ? value * counts[ACTUAL] : value;
    return TC_OK;
}

tc_status train_metrics_end(tc_ctx *ctx, train_ranks *ranks, train_metrics *m) {
    return m->of ? train_ranks_sum(ctx, ranks, m->sums, m->n_sums) : TC_OK;
}
