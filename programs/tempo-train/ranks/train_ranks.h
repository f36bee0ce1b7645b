/* train_ranks.h: tempo-train as one of several processes, started by mpirun (docs/howto/processes.md): each trains on
 * its part of every batch, and takes the mean of all gradients. A single process is rank 0 of 1: every call does
 * nothing then, and MPI is not used. One thread calls, and every rank makes the same calls in the same order. */
#ifndef TRAIN_RANKS_H
#define TRAIN_RANKS_H
#include "compiler/base/base.h"
#include "runtime/plan/collective.h"
#include <stdint.h>

typedef struct train_ranks {
    int rank, ranks;
    int local;               /* ranks on this host, this one among them */
    int threads;             /* for this rank's kernels, by default; 0: one per core */
    double share;            /* of this rank in the means of the next run */
    bool holds;              /* no means are taken */
    struct train_link *link; /* NULL: alone */
    struct train_heartbeat *heartbeat;
    struct train_peer *peers; /* [ranks] */
    rt_collective collective;
    uint64_t before; /* jobs before the first bucket of a run */
} train_ranks;

#define TRAIN_RANK_TIMEOUT 60 /* seconds, by default */

/* Meets the other ranks, where mpirun has started several. From here on this process ends with the one that started it,
 * and with TC_IO where another rank ends, does not answer, or makes no progress in a run for `timeout` seconds; then
 * one rank says which. *out_ranks stays where it is. TC_UNSUPPORTED: there are several, and this build has no MPI;
 * TC_IO: they do not meet. */
tc_status train_ranks_begin(tc_ctx *ctx, double timeout, train_ranks *out_ranks);
/* After a failure before ranks have met, such as a wrong option: the first rank reports it, the others wait and drop
 * it. */
void train_ranks_refuse(tc_ctx *ctx);
/* The collective for a session that averages over ranks (rt_hooks); NULL: a single process. */
const rt_collective *train_ranks_collective(const train_ranks *ranks);
/* The weight of this rank's part in the means of the next run; those of all ranks add up to 1. With 0 its gradients do
 * not count, but it runs, for the means of others. */
void train_ranks_share(train_ranks *ranks, double share);
/* Whether the next runs leave gradients as they are: they add up on each rank for an update that comes later. */
void train_ranks_hold(train_ranks *ranks, bool holds);
/* Replaces each number by its sum over all ranks: the same bits on each. */
tc_status train_ranks_sum(tc_ctx *ctx, train_ranks *ranks, double *numbers, size_t n);
/* The bytes become those of rank 0. */
tc_status train_ranks_take_first(tc_ctx *ctx, train_ranks *ranks, void *bytes, size_t n);
/* TC_IO, naming a rank, where one has another step, another plan or other bits than rank 0: of the loss, or of weights.
 */
tc_status train_ranks_agree(tc_ctx *ctx, train_ranks *ranks, int64_t step, uint64_t plan, uint64_t bits);
/* Waits for all ranks: after work that rank 0 alone does, such as writing a checkpoint. */
tc_status train_ranks_barrier(tc_ctx *ctx, train_ranks *ranks);
/* Prints the diagnostics so far, which are no errors, on rank 0; the others have the same, and drop them. */
void train_ranks_tell(tc_ctx *ctx, const train_ranks *ranks);
/* Before a failure of this rank is reported: waits so many seconds whether another rank reports one, and ends here
 * then. */
void train_ranks_give_way(train_ranks *ranks, double seconds);
/* The same, with rank 0 first: it reports failures that all ranks have. */
void train_ranks_let_first(train_ranks *ranks);
/* Ends MPI where all went well, or a signal has ended all (a status from 128 on); else prints the diagnostics of the
 * context and lets the other ranks end, too. Returns `status`, or a failure of the end itself. */
tc_status train_ranks_end(tc_ctx *ctx, train_ranks *ranks, tc_status status);
#endif
