/* train_ranks.h: tempo-train as one of several processes, which mpirun starts (docs/howto/processes.md): each trains
 * on its part of every batch, and takes the mean of all gradients. A process alone is rank 0 of 1: every call does
 * nothing then, and MPI is not touched. One thread calls, and every rank makes the same calls in the same order. */
#ifndef TRAIN_RANKS_H
#define TRAIN_RANKS_H
#include "compiler/base/diag.h"
#include "runtime/plan/collective.h"
#include <stdint.h>

typedef struct train_ranks {
    int rank, ranks;
    int local;               /* ranks on this host, this one among them */
    int threads;             /* for this rank's kernels, where the user says nothing; 0: one per core */
    double share;            /* of this rank in the means of the next run */
    bool holds;              /* no means are taken */
    struct train_link *link; /* NULL: alone */
    struct train_heartbeat *heartbeat;
    struct train_peer *peers; /* [ranks] */
    rt_collective collective;
    uint64_t before; /* jobs before the first bucket of a run */
} train_ranks;

#define TRAIN_RANK_TIMEOUT 60 /* seconds, where the user says nothing */

/* Meets the other ranks, where mpirun has started several. From here on this process ends with the one that started it,
 * and with TC_IO where another rank ends, or does not answer, or does not get on in a run, for `timeout` seconds; then
 * one rank says which. *out_ranks stays where it is. TC_UNSUPPORTED: there are several, and this build has no MPI;
 * TC_IO: they do not meet. */
tc_status train_ranks_begin(tc_ctx *ctx, double timeout, train_ranks *out_ranks);
/* Behind a failure before ranks have met, a wrong option, say: the first one tells it, the others wait and forget it.
 */
void train_ranks_refuse(tc_ctx *ctx);
/* What makes a session average over ranks (rt_hooks); NULL: alone. */
const rt_collective *train_ranks_collective(const train_ranks *ranks);
/* The weight of this rank's part in the means of the next run; those of all ranks add up to 1. With 0 its gradients
 * count nothing, whatever they are, but it runs, for those of others. */
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
/* Waits for all: behind what rank 0 alone does, such as writing a checkpoint. */
tc_status train_ranks_barrier(tc_ctx *ctx, train_ranks *ranks);
/* Prints the diagnostics so far, which are no errors, on rank 0; the others have the same, and forget them. */
void train_ranks_tell(tc_ctx *ctx, const train_ranks *ranks);
/* Before a failure of this rank is told: waits so many seconds whether another rank tells one, and ends here then. */
void train_ranks_give_way(train_ranks *ranks, double seconds);
/* The same for rank 0 to come first: what is wrong on all ranks, it tells. */
void train_ranks_let_first(train_ranks *ranks);
/* Ends MPI where all went well, or a signal has ended all (a status from 128 on); else prints the diagnostics of the
 * context and lets the other ranks end, too. Returns `status`, or what the end itself came to. */
tc_status train_ranks_end(tc_ctx *ctx, train_ranks *ranks, tc_status status);
#endif
