/* train_link.h: a thread that communicates with the other ranks while this one computes: it does its jobs in order.
 * Sums are made here, term by term in the order of ranks: they are the same bits on all ranks, and in every run with as
 * many ranks, whatever MPI does. */
#ifndef TRAIN_LINK_H
#define TRAIN_LINK_H
#include "runtime/device/device.h"

typedef struct train_link train_link;

/* Meets the other ranks. TC_IO, TC_UNSUPPORTED: that cannot be. train_link_close ends it. */
tc_status train_link_open(tc_ctx *ctx, train_link **out_link, int *out_rank, int *out_ranks);
/* Begins to replace the elements of all pieces by their sum over ranks, each rank's multiplied by its share: a mean,
 * where shares add up to 1. Elements of a rank of share 0 are not read. The result is rounded once to the piece's type.
 * The pieces stay until the job is done; returns its number: jobs are numbered from 1. */
uint64_t train_link_mean(train_link *link, double share, const rt_piece *pieces, uint32_t n);
/* False: it, or a job before it, failed, and train_link_failure says why. */
bool train_link_wait(train_link *link, uint64_t job);
/* to[i] gets the bytes of rank i; waits for all ranks. */
bool train_link_gather(train_link *link, const void *mine, size_t bytes, void *to);
const char *train_link_failure(const train_link *link);
/* Ends the job with all other ranks, where `in_peace`; else alone, as they may be lost. */
bool train_link_close(train_link *link, bool in_peace);

extern size_t train_link_chunk; /* elements that are exchanged at a time; tests take fewer */
#endif
