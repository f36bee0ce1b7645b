/* train_ranks.c: one process among those that mpirun starts: the data that ranks exchange besides gradients. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "train_ranks.h"
#include "train_heartbeat.h"
#include "train_link.h"
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static tc_status lost(tc_ctx *ctx, const train_ranks *ranks) {
    return tc_error(ctx, TC_IO, NULL, "rank %d of %d does not reach the others: %s", ranks->rank, ranks->ranks,
                    train_link_failure(ranks->link));
}

/* --- between launches ------------------------------------------------------------------------- */

/* Buckets of a run are jobs one after the other. */
static void average(void *user, uint32_t bucket, const rt_piece *pieces, uint32_t n) {
    train_ranks *ranks = user;
    if (ranks->holds)
        return;
    uint64_t job = train_link_mean(ranks->link, ranks->share, pieces, n);
    if (bucket == 0)
        ranks->before = job;
}

static bool averaged(void *user, uint32_t bucket) {
    train_ranks *ranks = user;
    train_heartbeat_alive(ranks->heartbeat, NULL);
    return ranks->holds || train_link_wait(ranks->link, ranks->before + bucket);
}

static const char *failure(void *user) { return train_link_failure(((train_ranks *)user)->link); }

static bool exchange(void *user, double number, double *to) {
    return train_link_gather(((train_ranks *)user)->link, &number, sizeof number, to);
}

static void alive(void *user, const char *node) { train_heartbeat_alive(((train_ranks *)user)->heartbeat, node); }

const rt_collective *train_ranks_collective(const train_ranks *ranks) {
    return ranks->link ? &ranks->collective : NULL;
}

void train_ranks_share(train_ranks *ranks, double share) { ranks->share = share; }

void train_ranks_hold(train_ranks *ranks, bool holds) { ranks->holds = holds; }

/* --- exchange --------------------------------------------------------------------------------- */

/* to[i] gets the bytes of rank i; `arena` is for this call. */
static tc_status gather(tc_ctx *ctx, train_ranks *ranks, tc_arena *arena, const void *mine, size_t n, void **to) {
    *to = tc_arena_alloc(arena, (size_t)ranks->ranks * n + 1, sizeof(double));
    return train_link_gather(ranks->link, mine, n, *to) ? TC_OK : lost(ctx, ranks);
}

/* In the order of ranks, so that all have the same bits. */
tc_status train_ranks_sum(tc_ctx *ctx, train_ranks *ranks, double *numbers, size_t n) {
    if (!ranks->link)
        return TC_OK;
    tc_arena *arena = tc_arena_create();
    void *all;
    tc_status status = gather(ctx, ranks, arena, numbers, n * sizeof *numbers, &all);
    for (size_t i = 0; status == TC_OK && i < n; i++) {
        numbers[i] = 0;
        for (int rank = 0; rank < ranks->ranks; rank++)
            numbers[i] += ((const double *)all)[(size_t)rank * n + i];
    }
    tc_arena_destroy(arena);
    return status;
}

tc_status train_ranks_take_first(tc_ctx *ctx, train_ranks *ranks, void *bytes, size_t n) {
    if (!ranks->link)
        return TC_OK;
    tc_arena *arena = tc_arena_create();
    void *all;
    tc_status status = gather(ctx, ranks, arena, bytes, n, &all);
    if (status == TC_OK)
        memcpy(bytes, all, n);
    tc_arena_destroy(arena);
    return status;
}

typedef struct state {
    int64_t step;
    uint64_t plan, bits;
} state;

static tc_status compare(tc_ctx *ctx, const train_ranks *ranks, const state *all) {
    for (int i = 1; i < ranks->ranks; i++) {
        const char *what = all[i].step != all[0].step   ? "is at another step"
                           : all[i].plan != all[0].plan ? "runs another plan"
                           : all[i].bits != all[0].bits ? "has computed other bits"
                                                        : NULL;
        if (!what)
            continue;
        tc_error(ctx, TC_IO, NULL, "rank %d of %d %s than rank 0, at step %lld", i, ranks->ranks, what,
                 (long long)all[0].step);
        tc_hint(ctx, "a machine that computes wrong, or ranks of different builds; --resume goes on from the last "
                     "checkpoint");
        return TC_IO;
    }
    return TC_OK;
}

tc_status train_ranks_agree(tc_ctx *ctx, train_ranks *ranks, int64_t step, uint64_t plan, uint64_t bits) {
    const state own = {step, plan, bits};
    if (!ranks->link)
        return TC_OK;
    state *all = TC_NEW_ARRAY(ctx->arena, state, (size_t)ranks->ranks);
    return train_link_gather(ranks->link, &own, sizeof own, all) ? compare(ctx, ranks, all) : lost(ctx, ranks);
}

tc_status train_ranks_barrier(tc_ctx *ctx, train_ranks *ranks) {
    double nothing = 0;
    return train_ranks_sum(ctx, ranks, &nothing, 1);
}

/* --- begin and end ------------------------------------------------------------------------------ */

/* Whether a launcher has started several: Open MPI's, or another one that speaks PMIx. */
static bool is_among_others(void) {
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    return size ? atoi(size) > 1 : getenv("PMIX_RANK") != NULL;
}

static int launched_rank(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank ? rank : getenv("PMIX_RANK");
    return rank ? atoi(rank) : 0;
}

/* mpirun ends all when the first process has ended. */
void train_ranks_refuse(tc_ctx *ctx) {
    const struct timespec a_while = {.tv_sec = 1};
    if (launched_rank() == 0)
        return;
    ctx->n_diags = 0;
    nanosleep(&a_while, NULL);
}

/* Cores that this process may use; those of the machine, divided among its ranks, where these are fewer. */
static int fair_threads(const train_ranks *ranks) {
    cpu_set_t allowed;
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN), share = cores / ranks->local;
    int own = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : cores;
    share = own < share ? own : share;
    return share > 1 ? share : 1;
}

/* All ranks learn the names of the others, and then, where rank 0 listens. */
static tc_status meet(tc_ctx *ctx, double timeout, train_ranks *ranks) {
    train_peer own;
    int socket = -1;
    train_describe(&own);
    ranks->peers = TC_NEW_ARRAY(ctx->arena, train_peer, (size_t)ranks->ranks);
    if (!train_link_gather(ranks->link, &own, sizeof own, ranks->peers))
        return lost(ctx, ranks);
    if (ranks->rank == 0)
        TC_TRY(train_listen(ctx, ranks->peers, ranks->ranks, &own, &socket));
    if (!train_link_gather(ranks->link, &own, sizeof own, ranks->peers))
        return lost(ctx, ranks);
    ranks->local = 0;
    for (int i = 0; i < ranks->ranks; i++)
        ranks->local += strcmp(ranks->peers[i].host, ranks->peers[ranks->rank].host) == 0;
    ranks->threads = fair_threads(ranks);
    return train_heartbeat_start(ctx, ranks->peers, ranks->rank, ranks->ranks, timeout, socket, &ranks->heartbeat);
}

tc_status train_ranks_begin(tc_ctx *ctx, double timeout, train_ranks *out_ranks) {
    *out_ranks = (train_ranks){.ranks = 1, .local = 1, .share = 1};
    if (!is_among_others())
        return TC_OK;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* from here on: a rank that is left over does not go on */
    TC_TRY(train_link_open(ctx, &out_ranks->link, &out_ranks->rank, &out_ranks->ranks));
    if (out_ranks->ranks == 1) {
        (void)train_link_close(out_ranks->link, true);
        out_ranks->link = NULL;
        return TC_OK;
    }
    out_ranks->share = 1.0 / out_ranks->ranks;
    out_ranks->collective = (rt_collective){.user = out_ranks,
                                            .rank = out_ranks->rank,
                                            .ranks = out_ranks->ranks,
                                            .average = average,
                                            .averaged = averaged,
                                            .failure = failure,
                                            .exchange = exchange,
                                            .alive = alive};
    return meet(ctx, timeout, out_ranks);
}

void train_ranks_tell(tc_ctx *ctx, const train_ranks *ranks) {
    if (ranks->rank == 0)
        tc_diags_print(ctx, stderr);
    ctx->n_diags = 0;
}

void train_ranks_give_way(train_ranks *ranks, double seconds) {
    const struct timespec a_moment = {.tv_nsec = 20000000};
    if (!ranks->heartbeat)
        return;
    for (double waited = 0; waited < seconds; waited += 0.02) {
        nanosleep(&a_moment, NULL);
        while (train_heartbeat_ends(ranks->heartbeat))
            pause();
    }
}

void train_ranks_let_first(train_ranks *ranks) {
    if (ranks->rank > 0)
        train_ranks_give_way(ranks, 1);
}

static tc_status end_badly(tc_ctx *ctx, train_ranks *ranks, tc_status status) {
    train_ranks_let_first(ranks);
    tc_diags_print(ctx, stderr);
    if (ranks->heartbeat)
        train_heartbeat_fail(ranks->heartbeat);
    return status;
}

tc_status train_ranks_end(tc_ctx *ctx, train_ranks *ranks, tc_status status) {
    const bool by_signal = (int)status >= 128;
    if (!ranks->link)
        return status;
    tc_status met = status == TC_OK || by_signal ? train_ranks_barrier(ctx, ranks) : status;
    if (met != TC_OK)
        return end_badly(ctx, ranks, met);
    train_ranks_tell(ctx, ranks);
    bool is_good = train_link_close(ranks->link, true);
    train_heartbeat_stop(ranks->heartbeat);
    ranks->link = NULL;
    ranks->heartbeat = NULL;
    return is_good ? status : tc_error(ctx, TC_IO, NULL, "MPI did not end in an orderly way");
}
