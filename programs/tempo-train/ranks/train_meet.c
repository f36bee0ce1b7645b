/* train_meet.c: each rank connects to rank 0, and identifies itself with a token that MPI brought it: other connections
 * to the port are refused. */
#include "train_meet.h"
#include "train_thread.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE = 30 }; /* seconds; MPI has brought all here a moment ago */

typedef struct greeting {
    uint64_t token;
    int32_t rank;
    int32_t nothing; /* no bytes between */
} greeting;

void train_describe(train_peer *out_own) {
    *out_own = (train_peer){.process = (int32_t)getpid()};
    if (gethostname(out_own->host, sizeof out_own->host - 1) != 0)
        snprintf(out_own->host, sizeof out_own->host, "?");
}

static bool share_host(const train_peer *peers, int ranks) {
    for (int i = 1; i < ranks; i++)
        if (strcmp(peers[i].host, peers[0].host) != 0)
            return false;
    return true;
}

tc_status train_listen(tc_ctx *ctx, const train_peer *peers, int ranks, train_peer *out_own, int *out_socket) {
    const uint32_t where = share_host(peers, ranks) ? INADDR_LOOPBACK : INADDR_ANY;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(where)}};
    socklen_t length = sizeof address;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&address, sizeof address) != 0 || listen(s, ranks) != 0 ||
        getsockname(s, (struct sockaddr *)&address, &length) != 0 ||
        getrandom(&out_own->token, sizeof out_own->token, 0) != (ssize_t)sizeof out_own->token) {
        tc_error(ctx, TC_IO, NULL, "rank 0 cannot listen to other ranks: %s", strerror(errno));
        if (s >= 0)
            close(s);
        return TC_IO;
    }
    out_own->port = ntohs(address.sin_port);
    *out_socket = s;
    return TC_OK;
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

static bool comes(int socket, double until) {
    struct pollfd fd = {.fd = socket, .events = POLLIN};
    int found;
    do
        found = poll(&fd, 1, until > train_now() ? (int)(1000 * (until - train_now())) + 1 : 0);
    while (found < 0 && errno == EINTR);
    return found > 0;
}

/* The rank that has just connected, or -1. Its greeting is one packet. */
static int rank_of(int socket, const train_peer *own, int ranks) {
    greeting g = {0};
    const double seconds = 2;
    if (!comes(socket, train_now() + seconds) || recv(socket, &g, sizeof g, MSG_WAITALL) != (ssize_t)sizeof g)
        return -1;
    return g.token == own->token && g.rank > 0 && g.rank < ranks ? g.rank : -1;
}

static tc_status accept_all(tc_ctx *ctx, const train_peer *peers, int ranks, int socket, int *out_sockets) {
    const double until = train_now() + PATIENCE;
    int n = 1;
    for (int i = 0; i < ranks; i++)
        out_sockets[i] = -1;
    while (n < ranks && comes(socket, until)) {
        int s = accept(socket, NULL, NULL), rank = s < 0 ? -1 : rank_of(s, &peers[0], ranks);
        if (rank > 0 && out_sockets[rank] < 0) {
            out_sockets[rank] = s;
            n++;
        } else if (s >= 0) {
            close(s);
        }
    }
    for (int i = 1; i < ranks; i++)
        if (out_sockets[i] < 0)
            return tc_error(ctx, TC_IO, NULL, "rank %d of %d (process %d on %s) did not come within %d s", i, ranks,
                            (int)peers[i].process, peers[i].host, PATIENCE);
    return TC_OK;
}

/* --- the others ------------------------------------------------------------------------------- */

static bool find(const train_peer *hub, const train_peer *own, struct sockaddr_in *out_address) {
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    *out_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    if (strcmp(hub->host, own->host) != 0) {
        if (getaddrinfo(hub->host, NULL, &hints, &found) != 0)
            return false;
        memcpy(out_address, found->ai_addr, sizeof *out_address);
        freeaddrinfo(found);
    }
    out_address->sin_port = htons((uint16_t)hub->port);
    return true;
}

static tc_status greet(tc_ctx *ctx, const train_peer *peers, int rank, int *out_socket) {
    const greeting g = {peers[0].token, rank, 0};
    struct sockaddr_in address;
    if (!find(&peers[0], &peers[rank], &address))
        return tc_error(ctx, TC_IO, NULL, "rank %d finds no address of rank 0's host '%s'", rank,
                        tc_quote(ctx, peers[0].host));
    int s = *out_socket = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&address, sizeof address) != 0 ||
        send(s, &g, sizeof g, MSG_NOSIGNAL) != (ssize_t)sizeof g)
        return tc_error(ctx, TC_IO, NULL, "rank %d cannot connect to rank 0 on '%s': %s", rank,
                        tc_quote(ctx, peers[0].host), strerror(errno));
    return TC_OK;
}

tc_status train_meet(tc_ctx *ctx, const train_peer *peers, int rank, int ranks, int socket, int *out_sockets) {
    if (rank > 0)
        return greet(ctx, peers, rank, &out_sockets[0]);
    tc_status status = accept_all(ctx, peers, ranks, socket, out_sockets);
    close(socket);
    return status;
}
