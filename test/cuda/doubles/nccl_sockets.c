/* nccl_sockets.c: sockets between ranks. Each id has a socket that listens, in the process that made it. */
#include "nccl_sockets.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_IDS = 64, ID_BYTES = 128, DEFAULT_SECONDS = 60 };

typedef struct listener {
    char id[ID_BYTES];
    int socket;
} listener;

static listener listeners[MOST_IDS];
static int n_listeners;

static int patience(void) {
    const char *text = getenv("EMU_NCCL_SECONDS");
    return (int)(1000 * (text ? atof(text) : DEFAULT_SECONDS));
}

static bool comes(int socket, int milliseconds) {
    return poll(&(struct pollfd){.fd = socket, .events = POLLIN}, 1, milliseconds) > 0;
}

bool nccl_has_come(int socket) { return comes(socket, 1); }

/* The id: how long the name is, and the name. */
bool nccl_listen(char *out_id) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof(sa_family_t); /* no name: the kernel finds one, which is no file's */
    int one = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (one < 0 || n_listeners == MOST_IDS || bind(one, (struct sockaddr *)&name, bytes) != 0)
        return false;
    bytes = sizeof name;
    if (listen(one, MOST_IDS) != 0 || getsockname(one, (struct sockaddr *)&name, &bytes) != 0 || bytes >= ID_BYTES)
        return false;
    out_id[0] = (char)bytes;
    memcpy(out_id + 1, &name, bytes);
    memcpy(listeners[n_listeners].id, out_id, ID_BYTES);
    listeners[n_listeners++].socket = one;
    return true;
}

int nccl_accept(const char *id) {
    for (int i = 0; i < n_listeners; i++)
        if (memcmp(listeners[i].id, id, ID_BYTES) == 0)
            return nccl_has_come(listeners[i].socket) ? accept(listeners[i].socket, NULL, NULL) : -1;
    return -1;
}

int nccl_connect(const char *id) {
    struct sockaddr_un name;
    int one = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(&name, 0, sizeof name);
    memcpy(&name, id + 1, (size_t)id[0]);
    if (one >= 0 && connect(one, (struct sockaddr *)&name, (socklen_t)id[0]) != 0) {
        close(one);
        one = -1;
    }
    return one;
}

void nccl_close(int socket) {
    if (socket >= 0)
        close(socket);
}

bool nccl_send(int socket, const void *data, size_t bytes) {
    const char *at = data;
    while (socket >= 0 && bytes > 0) {
        ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return socket >= 0;
}

nccl_outcome nccl_get(int socket, void *data, size_t bytes) {
    char *at = data;
    while (socket >= 0 && bytes > 0) {
        if (!comes(socket, patience()))
            return NCCL_LATE;
        ssize_t n = recv(socket, at, bytes, 0);
        if (n <= 0)
            return NCCL_GONE;
        at += n;
        bytes -= (size_t)n;
    }
    return socket >= 0 ? NCCL_DONE : NCCL_GONE;
}

nccl_outcome nccl_exchange(int socket, const void *mine, void *theirs, size_t bytes) {
    return nccl_send(socket, mine, bytes) ? nccl_get(socket, theirs, bytes) : NCCL_GONE;
}
