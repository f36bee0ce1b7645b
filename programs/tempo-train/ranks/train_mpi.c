/* train_mpi.c: bytes between ranks, by MPI's messages from one to one. Nothing here depends on how an MPI library sums:
 * it sums nothing. */
#include "train_wire.h"
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const bool train_has_wire = true;

enum { SWAP_TAG = 1 };

struct train_wire {
    MPI_Comm ranks;
    int rank, n;
    MPI_Request *requests; /* [2 * n] */
    char failure[MPI_MAX_ERROR_STRING + 64];
};

static bool check(train_wire *wire, int result, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (result == MPI_SUCCESS)
        return true;
    bool known = MPI_Error_string(result, text, &length) == MPI_SUCCESS;
    snprintf(wire->failure, sizeof wire->failure, "%s: %s", call, known ? text : "an error without a name");
    return false;
}

static bool refuse(train_wire *wire, const char *why) {
    snprintf(wire->failure, sizeof wire->failure, "%s", why);
    return false;
}

/* Messages arrive only while MPI is polled: often at first, then as seldom as a message of a bucket takes. */
static void pause_for(int turn) {
    enum { YIELDS = 20, NANOSECONDS = 20000 };
    const struct timespec pause = {.tv_nsec = NANOSECONDS};
    if (turn < YIELDS)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

static bool settle(train_wire *wire, int n) {
    int done = 0;
    for (int turn = 0; !done; turn++) {
        if (!check(wire, MPI_Testall(n, wire->requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall"))
            return false;
        if (!done)
            pause_for(turn);
    }
    return true;
}

/* --- messages --------------------------------------------------------------------------------- */

bool train_wire_swap(train_wire *wire, const train_bytes *sent, const train_bytes *received) {
    int n = 0;
    for (int i = 0; i < wire->n; i++)
        if (i != wire->rank && received[i].bytes > 0 &&
            !check(wire,
                   MPI_Irecv(received[i].data, (int)received[i].bytes, MPI_BYTE, i, SWAP_TAG, wire->ranks,
                             &wire->requests[n++]),
                   "MPI_Irecv"))
            return false;
    for (int i = 0; i < wire->n; i++)
        if (i != wire->rank && sent[i].bytes > 0 &&
            !check(
                wire,
                MPI_Isend(sent[i].data, (int)sent[i].bytes, MPI_BYTE, i, SWAP_TAG, wire->ranks, &wire->requests[n++]),
                "MPI_Isend"))
            return false;
    return settle(wire, n);
}

bool train_wire_gather(train_wire *wire, const void *mine, size_t bytes, void *to) {
    return check(wire,
                 MPI_Iallgather(mine, (int)bytes, MPI_BYTE, to, (int)bytes, MPI_BYTE, wire->ranks, wire->requests),
                 "MPI_Iallgather") &&
           settle(wire, 1);
}

/* --- the job ---------------------------------------------------------------------------------- */

static bool begin(train_wire *wire) {
    int provided = MPI_THREAD_SINGLE;
    return check(wire, MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread") &&
           (provided >= MPI_THREAD_FUNNELED || refuse(wire, "this MPI knows no threads")) &&
           check(wire, MPI_Comm_dup(MPI_COMM_WORLD, &wire->ranks), "MPI_Comm_dup") &&
           check(wire, MPI_Comm_set_errhandler(wire->ranks, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler") &&
           check(wire, MPI_Comm_rank(wire->ranks, &wire->rank), "MPI_Comm_rank") &&
           check(wire, MPI_Comm_size(wire->ranks, &wire->n), "MPI_Comm_size");
}

static void destroy(train_wire *wire) {
    free(wire->requests);
    free(wire);
}

train_wire *train_wire_open(int *out_rank, int *out_ranks, char *why, size_t bytes) {
    train_wire *wire = calloc(1, sizeof *wire);
    if (!wire || !begin(wire)) {
        snprintf(why, bytes, "%s", wire ? wire->failure : "out of memory");
        free(wire);
        return NULL;
    }
    wire->requests = calloc((size_t)wire->n, 2 * sizeof *wire->requests);
    if (!wire->requests) {
        snprintf(why, bytes, "out of memory");
        destroy(wire);
        return NULL;
    }
    *out_rank = wire->rank;
    *out_ranks = wire->n;
    return wire;
}

const char *train_wire_failure(const train_wire *wire) { return wire->failure; }

bool train_wire_close(train_wire *wire, bool in_peace) {
    bool is_done = !in_peace || MPI_Finalize() == MPI_SUCCESS;
    destroy(wire);
    return is_done;
}
