/* train_heartbeat.h: a thread that tells the other ranks that this one lives, and finds out which of them does not.
 * Ranks are connected to rank 0 by sockets of their own: MPI never notices a rank that is stopped. Where a rank is
 * gone, silent or stuck, one rank says which on stderr, and every rank ends its process at once, with TC_IO and without
 * temporary files. */
#ifndef TRAIN_HEARTBEAT_H
#define TRAIN_HEARTBEAT_H
#include "train_meet.h"

typedef struct train_heartbeat train_heartbeat;

/* Every rank calls it, with what each knows of itself; waits until all are connected. `timeout`: seconds
 * that a rank may be silent, or take for one node. `socket`: rank 0's (train_listen); it is closed. TC_IO: they do not
 * meet. */
tc_status train_heartbeat_start(tc_ctx *ctx, const train_peer *peers, int rank, int ranks, double timeout, int socket,
                                train_heartbeat **out_heartbeat);
/* The thread that computes is about to compute this node, or, NULL, does something that may take long: waiting for
 * others, say. `node` stays until the next call. */
void train_heartbeat_alive(train_heartbeat *heartbeat, const char *node);
/* This rank has failed and has said so: the others end without another word. */
void train_heartbeat_fail(train_heartbeat *heartbeat);
/* Another rank has failed and has said so: this process is about to end. */
bool train_heartbeat_ends(train_heartbeat *heartbeat);
/* When all ranks are done. */
void train_heartbeat_stop(train_heartbeat *heartbeat);
#endif
