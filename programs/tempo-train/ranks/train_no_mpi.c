/* train_no_mpi.c: a build without MPI: there are no other ranks. */
#include "train_wire.h"
#include <stdio.h>

const bool train_has_wire = false;

train_wire *train_wire_open(int *out_rank, int *out_ranks, char *why, size_t bytes) {
    *out_rank = 0;
    *out_ranks = 1;
    snprintf(why, bytes, "this build has no MPI");
    return NULL;
}

bool train_wire_swap(train_wire *wire, const train_bytes *sent, const train_bytes *received) {
    (void)wire, (void)sent, (void)received;
    return false;
}

bool train_wire_gather(train_wire *wire, const void *mine, size_t bytes, void *to) {
    (void)wire, (void)mine, (void)bytes, (void)to;
    return false;
}

const char *train_wire_failure(const train_wire *wire) {
    (void)wire;
    return "";
}

bool train_wire_close(train_wire *wire, bool in_peace) {
    (void)wire, (void)in_peace;
    return true;
}
