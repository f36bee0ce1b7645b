/* train_heartbeat.h: a thread that reports to the other ranks that this one is alive, and notices ranks that are not.
 * Ranks are connected to rank 0 by sockets of their own: MPI never notices a rank that is stopped. Where a rank is
 * lost, silent or stuck, one rank reports it on stderr, and every rank ends its process at once, with TC_IO and without
 * temporary files. */
#ifndef TRAIN_HEARTBEAT_H
#define TRAIN_HEARTBEAT_H
#include "train_meet.h"

typedef struct train_heartbeat train_heartbeat;

/* Every rank calls it, with its own name; waits until all are connected. `timeout`: seconds that a rank may be silent,
 * or take for one node. `socket`: rank 0's (train_listen); it is closed. TC_IO: they do not meet. */
tc_status train_heartbeat_start(tc_ctx *ctx, const train_peer *peers, int rank, int ranks, double timeout, int socket,
                                train_heartbeat **out_heartbeat);
/* The computing thread is about to compute this node, or, NULL, does something that may take long: waiting for others,
 * say. `node` stays until the next call. */
void train_heartbeat_alive(train_heartbeat *heartbeat, const char *node);
/* This rank has failed and has reported it: the others end without another message. */
void train_heartbeat_fail(train_heartbeat *heartbeat);
/* Whether another rank has failed and has reported it: this process is about to end. */
bool train_heartbeat_ends(train_heartbeat *heartbeat);
/* When all ranks are done. */
void train_heartbeat_stop(train_heartbeat *heartbeat);
#endif
