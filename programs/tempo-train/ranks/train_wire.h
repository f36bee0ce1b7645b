/* train_wire.h: bytes between the ranks of a job, by MPI: train_mpi.c, or, in builds without, train_no_mpi.c. One
 * thread makes all calls, and every rank makes each call, in the same order. Waiting for others sleeps between looks,
 * so that a core is left to kernels. */
#ifndef TRAIN_WIRE_H
#define TRAIN_WIRE_H
#include <stdbool.h>
#include <stddef.h>

typedef struct train_wire train_wire;

typedef struct train_bytes {
    void *data;
    size_t bytes; /* less than 2^31 */
} train_bytes;

extern const bool train_has_wire; /* this build can */

/* Meets the others. NULL: that failed, and `why` has the reason. */
train_wire *train_wire_open(int *out_rank, int *out_ranks, char *why, size_t bytes);
/* Sends sent[i] to each rank i and gets received[i] from it; the rank's own are ignored. False: MPI has failed, and
 * train_wire_failure has the reason. */
bool train_wire_swap(train_wire *wire, const train_bytes *sent, const train_bytes *received);
/* The same bytes to all: to[i] gets those of rank i, the rank's own among them. */
bool train_wire_gather(train_wire *wire, const void *mine, size_t bytes, void *to);
const char *train_wire_failure(const train_wire *wire);
/* Waits for the others to do the same, where `in_peace`; else they and MPI are left as they are. */
bool train_wire_close(train_wire *wire, bool in_peace);
#endif
