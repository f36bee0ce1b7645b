/* train_meet.h: sockets from each rank to rank 0. */
#ifndef TRAIN_MEET_H
#define TRAIN_MEET_H
#include "compiler/base/base.h"
#include <stdint.h>

/* The name by which a rank is known to the others. */
typedef struct train_peer {
    char host[64];
    int32_t process;
    int32_t port;   /* of rank 0: where others meet it */
    uint64_t token; /* of rank 0: the token that ranks send, known to them alone */
} train_peer;

/* This host and process. */
void train_describe(train_peer *out_own);
/* Rank 0 begins to listen, only to its own host if all ranks are there, and fills in port and token. TC_IO: there is no
 * such socket. */
tc_status train_listen(tc_ctx *ctx, const train_peer *peers, int ranks, train_peer *out_own, int *out_socket);
/* Connects rank 0, whose socket is closed then, with all others: out_sockets[i] is to rank i, those between other ranks
 * are not set. TC_IO: a rank does not come, or rank 0 is not found. */
tc_status train_meet(tc_ctx *ctx, const train_peer *peers, int rank, int ranks, int socket, int *out_sockets);
#endif
