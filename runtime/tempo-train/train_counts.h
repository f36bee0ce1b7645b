/* train_counts.h: what a loss counts in a batch, and so how much of it a group of batches takes: labels that are not
 * ignored, say (passes/counts.c). The counts of a batch are computed from its data ahead of the batch itself. */
#ifndef TRAIN_COUNTS_H
#define TRAIN_COUNTS_H
#include "train.h"

/* A term of a scalar: which part of it a batch makes is weight / sum of weights, or, where it adds up, all of it. */
typedef struct train_counts {
    train_graph graph; /* that makes the counts; the session is NULL before they are asked for */
    tc_counted *terms; /* [n] of the loss; n 0: it is a mean of samples */
    size_t n;
    double *totals; /* [n] over the group at hand, of all ranks */
    double *shares; /* [n] of the batch at hand */
} train_counts;

/* Makes the graph, unless it is there. `loss`: the output. Memory is the context's. */
tc_status train_counts_open(tc_ctx *ctx, const train_source *from, int64_t batch, const train_graph *trained,
                            train_counts *c);
void train_counts_close(train_counts *c);
/* What each term counts in a batch: out[n], 0 where the batch has no sample of this rank. Its samples where the graph
 * counts nothing. */
tc_status train_counts_of(tc_ctx *ctx, train_counts *c, const train_batch *batch, double *out);
/* c->totals over the batches from `first` on, of all ranks. */
tc_status train_counts_total(tc_ctx *ctx, train_counts *c, train_ranks *ranks, train_data *data, int64_t epoch,
                             int64_t first, int64_t n);
/* c->shares of a batch of these. */
tc_status train_counts_share(tc_ctx *ctx, train_counts *c, const train_batch *batch);
/* Some term has nothing to count in the whole group: its mean is NaN, and its gradients are 0. */
bool train_counts_nothing(const train_counts *c);
#endif
