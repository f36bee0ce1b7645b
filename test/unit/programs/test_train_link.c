/* test_train_link.c: the ranks of a job as threads of one process, with a wire between them that is memory: sums, what
 * each rank gets from all, failures, and, where sanitizers watch, that all memory is given back, which nobody sees
 * beside MPI. */
#include "test/unit/cases.h"
#include "kernels/common/half.h"
#include "programs/tempo-train/ranks/train_link.h"
#include "programs/tempo-train/ranks/train_wire.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 3, MOST = 12, CHUNK = 4 };

/* --- the wire --------------------------------------------------------------------------------- */

struct train_wire {
    int rank, swaps;
};

const bool train_has_wire = true;
static struct {
    train_wire wires[RANKS];
    int met, closed, in_peace;
    int fails_at;  /* the number of a swap, from 1; 0: none */
    bool is_alone; /* nobody can be met */
    bool is_wrong;
    pthread_barrier_t barrier;
    const train_bytes *sent[RANKS];
    const void *all[RANKS];
} net;

train_wire *train_wire_open(int *out_rank, int *out_ranks, char *why, size_t bytes) {
    snprintf(why, bytes, "%s", net.is_alone ? "nobody is there" : "");
    if (net.is_alone)
        return NULL;
    train_wire *wire = &net.wires[net.met];
    *wire = (train_wire){net.met++, 0};
    *out_rank = wire->rank;
    *out_ranks = RANKS;
    return wire;
}

bool train_wire_swap(train_wire *wire, const train_bytes *sent, const train_bytes *received) {
    if (++wire->swaps == net.fails_at)
        return false;
    net.sent[wire->rank] = sent;
    pthread_barrier_wait(&net.barrier);
    for (int i = 0; i < RANKS; i++) {
        if (i == wire->rank)
            continue;
        if (net.sent[i][wire->rank].bytes == received[i].bytes)
            memcpy(received[i].data, net.sent[i][wire->rank].data, received[i].bytes);
        else
            net.is_wrong = true;
    }
    pthread_barrier_wait(&net.barrier);
    return true;
}

bool train_wire_gather(train_wire *wire, const void *mine, size_t bytes, void *to) {
    net.all[wire->rank] = mine;
    pthread_barrier_wait(&net.barrier);
    for (int i = 0; i < RANKS; i++)
        memcpy((char *)to + (size_t)i * bytes, net.all[i], bytes);
    pthread_barrier_wait(&net.barrier);
    return true;
}

const char *train_wire_failure(const train_wire *wire) { return wire->swaps ? "it broke" : ""; }

bool train_wire_close(train_wire *wire, bool in_peace) {
    net.closed += wire->rank >= 0;
    net.in_peace += in_peace;
    return true;
}

/* --- ranks ------------------------------------------------------------------------------------ */

typedef struct job {
    tc_ctx ctx;
    train_link *links[RANKS];
} job;

static void open_all(job *j, int fails_at) {
    memset(&net, 0, sizeof net);
    net.fails_at = fails_at;
    pthread_barrier_init(&net.barrier, NULL, RANKS);
    train_link_chunk = CHUNK;
    tc_ctx_init(&j->ctx, "test");
    for (int i = 0; i < RANKS; i++) {
        int rank, ranks;
        assert_int_equal(train_link_open(&j->ctx, &j->links[i], &rank, &ranks), TC_OK);
        assert_int_equal(rank, i);
        assert_int_equal(ranks, RANKS);
    }
}

static void close_all(job *j, bool in_peace, bool is_good) {
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(train_link_close(j->links[i], in_peace), is_good);
    assert_int_equal(net.closed, RANKS);
    assert_int_equal(net.in_peace, in_peace && is_good ? RANKS : 0);
    assert_false(net.is_wrong);
    pthread_barrier_destroy(&net.barrier);
    tc_ctx_fini(&j->ctx);
}

static const tk_dtype types[] = {TK_F32, TK_F16, TK_BF16, TK_F64, TK_F32};
enum { PIECES = sizeof types / sizeof *types };

/* Multiples of 4, so that quarters of them and their sums are exact in every type. */
static double number(int rank, int piece, int k) { return 4 * (1 + rank + 2 * piece - k); }

static double get(const rt_piece *piece, int64_t k) {
    switch (piece->dtype) {
    case TK_F64: return ((const double *)piece->memory)[k];
    case TK_F32: return (double)((const float *)piece->memory)[k];
    case TK_F16: return (double)tk_from_f16(((const uint16_t *)piece->memory)[k]);
    default: return (double)tk_from_bf16(((const uint16_t *)piece->memory)[k]);
    }
}

static void put(const rt_piece *piece, int64_t k, double value) {
    switch (piece->dtype) {
    case TK_F64: ((double *)piece->memory)[k] = value; break;
    case TK_F32: ((float *)piece->memory)[k] = (float)value; break;
    case TK_F16: ((uint16_t *)piece->memory)[k] = tk_to_f16((float)value); break;
    default: ((uint16_t *)piece->memory)[k] = tk_to_bf16((float)value); break;
    }
}

static double memory[RANKS][PIECES][MOST];
static const int counts[PIECES] = {5, 1, MOST, 7, 0};
static const double shares[RANKS] = {0.25, 0.75, 0};

/* Rank 2 has a share of 0, and no numbers. */
static void make_pieces(rt_piece (*pieces)[PIECES]) {
    for (int i = 0; i < RANKS; i++)
        for (int p = 0; p < PIECES; p++) {
            pieces[i][p] = (rt_piece){memory[i][p], counts[p], types[p]};
            for (int k = 0; k < counts[p]; k++)
                put(&pieces[i][p], k, shares[i] > 0 ? number(i, p, k) : (double)NAN);
        }
}

/* --- tests ------------------------------------------------------------------------------------ */

TEST(means) {
    job j;
    rt_piece pieces[RANKS][PIECES];
    uint64_t last[RANKS];
    open_all(&j, 0);
    make_pieces(pieces);
    for (int i = 0; i < RANKS; i++)
        last[i] = train_link_mean(j.links[i], shares[i], pieces[i], PIECES);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(last[i], 1);
        assert_true(train_link_wait(j.links[i], last[i]));
        for (int p = 0; p < PIECES; p++)
            for (int k = 0; k < counts[p]; k++)
                assert_true(get(&pieces[i][p], k) == 0.25 * number(0, p, k) + 0.75 * number(1, p, k));
    }
    close_all(&j, true, true);
}

typedef struct gathering {
    train_link *link;
    int mine, all[RANKS];
    bool is_good;
} gathering;

static void *gather(void *user) {
    gathering *g = user;
    g->is_good = train_link_gather(g->link, &g->mine, sizeof g->mine, g->all);
    return NULL;
}

TEST(gather) {
    job j;
    pthread_t threads[RANKS];
    gathering each[RANKS];
    open_all(&j, 0);
    for (int i = 0; i < RANKS; i++) {
        each[i] = (gathering){.link = j.links[i], .mine = 10 + i};
        assert_int_equal(pthread_create(&threads[i], NULL, gather, &each[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < RANKS; i++) {
        assert_true(each[i].is_good);
        for (int k = 0; k < RANKS; k++)
            assert_int_equal(each[i].all[k], 10 + k);
    }
    close_all(&j, true, true);
}

/* A job that fails fails those behind it, and the end. */
TEST(failure) {
    job j;
    rt_piece pieces[RANKS][PIECES];
    open_all(&j, 3);
    make_pieces(pieces);
    for (int i = 0; i < RANKS; i++)
        for (int k = 0; k < 2; k++)
            train_link_mean(j.links[i], shares[i], pieces[i], PIECES);
    for (int i = 0; i < RANKS; i++) {
        assert_false(train_link_wait(j.links[i], 1));
        assert_false(train_link_wait(j.links[i], 2));
        assert_string_equal(train_link_failure(j.links[i]), "it broke");
    }
    close_all(&j, true, false);
}

TEST(nobody) {
    tc_ctx ctx;
    train_link *link;
    int rank, ranks;
    tc_ctx_init(&ctx, "test");
    memset(&net, 0, sizeof net);
    net.is_alone = true;
    assert_int_equal(train_link_open(&ctx, &link, &rank, &ranks), TC_IO);
    assert_null(link);
    assert_non_null(strstr(ctx.diags[0].message, "the ranks of this job cannot meet: nobody is there"));
    tc_ctx_fini(&ctx);
}
