/* train_counts.h: how many labels or samples a loss counts in a batch (those not ignored, say), and so the batch's
 * share in a group of batches (passes/autodiff/counts.c). The counts of a batch are computed from its data ahead of the
 * batch itself. */
#ifndef TRAIN_COUNTS_H
#define TRAIN_COUNTS_H
#include "train.h"

/* A term of a scalar: a batch's share of it is weight / sum of weights, or, where it adds up, all of it. */
typedef struct train_counts {
    train_graph graph; /* that makes the counts; the session is NULL before they are asked for */
    tc_counted *terms; /* [n] of the loss; n 0: it is a mean of samples */
    size_t n;
    double *counts; /* [batches][n] of this rank's batches of the current group: the divisor of each */
    size_t cap;
    double *totals; /* [n] of the group, of all ranks, without the guard that keeps them from 0 in a batch */
    double *shares; /* [n] of the current batch */
} train_counts;

/* The divisor of the term of the last batch, and its part in the divisor of all batches: 0 where the first is only kept
 * from 0. */
tc_status train_read_counts(tc_ctx *ctx, tempo_session *session, const tc_counted *term, int64_t samples,
                            double *out_count, double *out_total);
/* Parts of the term add up: it is a sum, or a mean whose divisor is only kept from 0 and is `total` over all
 * batches. */
bool train_adds_up(const tc_counted *term, double total);

/* Makes the graph, unless it is there. `loss`: the output. Memory is the context's. */
tc_status train_counts_open(tc_ctx *ctx, const train_source *from, int64_t batch, const train_graph *trained,
                            train_counts *c);
void train_counts_close(train_counts *c);
/* The current group: c->counts and c->totals of the batches from `first` on; 0 for a batch without a sample of this
 * rank, its samples where the graph counts nothing. */
tc_status train_counts_total(tc_ctx *ctx, train_counts *c, train_ranks *ranks, train_data *data, int64_t epoch,
                             int64_t first, int64_t n);
/* c->shares of batch `index` of these. */
void train_counts_share(train_counts *c, int64_t index, const train_batch *batch);
/* Some term has nothing to count in the whole group: its mean is NaN, and its gradients are 0. */
bool train_counts_nothing(const train_counts *c);
#endif
