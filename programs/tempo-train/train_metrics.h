/* train_metrics.h: accuracy, F1 and perplexity of an evaluation, from counts that the graph makes of each batch
 * (passes/autodiff/metrics.c). The counts are added up, so that batches and ranks do not matter. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H
#include "compiler/base/base.h"
#include "passes/pass/pass.h"
#include "programs/tempo-train/ranks/train_ranks.h"
#include "runtime/session/session.h"

enum { TRAIN_METRICS = 4 };

typedef struct train_metrics {
    const tc_metrics *of; /* NULL: the graph has none */
    double *sums;         /* [n_sums] right, actual and predicted, by class; then the count, and -log p of labels */
    size_t n_sums;
    const char *names[TRAIN_METRICS]; /* [n] those that no output of the model has */
    size_t n;
} train_metrics;

/* Of a graph with this summary. Memory is the context's. */
void train_metrics_open(tc_ctx *ctx, const tc_summary *summary, const tc_graph *graph, train_metrics *out);
/* Before the first batch; after each run; after the last. */
void train_metrics_begin(train_metrics *m);
tc_status train_metrics_add(tc_ctx *ctx, tempo_session *session, train_metrics *m);
tc_status train_metrics_end(tc_ctx *ctx, train_ranks *ranks, train_metrics *m);
/* Metric `index` of all samples: NaN where no label counts. */
double train_metrics_value(const train_metrics *m, size_t index);
#endif
