/* train_heartbeat.c: messages between ranks and rank 0, a few bytes once a second, and the actions when they do not
 * come. A process that ends closes its sockets, whatever ended it: that is noticed at once. A stopped process sends
 * nothing. A process that computes the same node for too long notices that itself. */
#include "train_heartbeat.h"
#include "compiler/base/base.h"
#include "train_meet.h"
#include "train_thread.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef enum kind {
    BEAT,
    BYE,    /* done, in good order */
    FAILED, /* the rank has failed by itself and reported why */
    GONE,   /* its process has ended */
    SILENT,
    STUCK,
} kind;

typedef struct message {
    int32_t kind, rank;
} message;

/* A socket to another rank: to rank 0, or, on that one, to each. */
typedef struct wire {
    int socket, rank;
    double heard; /* seconds */
    bool left;    /* said good bye */
    message got;  /* n bytes of it */
    size_t n;
} wire;

struct train_heartbeat {
    pthread_t thread;
    int rank, ranks;
    double timeout, interval;
    train_peer *peers;  /* [ranks] */
    wire *wires;        /* [n_wires] */
    struct pollfd *fds; /* [n_wires + 1] the last one is the pipe's */
    int n_wires;
    int pipe[2]; /* message of the computing thread to this one: a kind, as a byte */
    pthread_mutex_t mutex;
    const char *node; /* the node that is computed, or NULL */
    uint64_t nodes;   /* that were begun */
    uint64_t seen;    /* of these, at the last look */
    double moved;     /* the time when there were more, or none; seconds */
    bool ends;        /* another rank has failed: the process is about to end */
};

static void pause_for(double seconds) {
    const struct timespec pause = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&pause, NULL);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* A rank that does not receive is not waited for. */
static void send_to(const wire *w, kind k, int rank) {
    const message m = {k, rank};
    (void)!send(w->socket, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Bytes on their way in a socket are lost where its other end closes before it has read all. */
static void let_arrive(void) { pause_for(0.2); }

static void send_to_all(const train_heartbeat *h, kind k, int rank) {
    for (int i = 0; i < h->n_wires; i++)
        send_to(&h->wires[i], k, rank);
}

static void leave(void) {
    tc_remove_temporary_files();
    _exit(TC_IO);
}

/* One line on stderr, in one piece: several ranks write there. */
static void tell(train_heartbeat *h, kind k, int rank) {
    char text[512], what[256];
    pthread_mutex_lock(&h->mutex);
    if (k == GONE)
        snprintf(what, sizeof what, "is lost: its process has ended");
    else if (k == SILENT)
        snprintf(what, sizeof what, "has sent nothing for %g s: it is stopped, or its machine is", h->timeout);
    else
        snprintf(what, sizeof what, "is stuck: it has computed '%.100s' for %g s", h->node ? h->node : "", h->timeout);
    pthread_mutex_unlock(&h->mutex);
    int n = snprintf(text, sizeof text,
                     "tempo-train: error: rank %d of %d (process %d on %s) %s\n"
                     "tempo-train: hint: all ranks end; --resume goes on from the last checkpoint\n",
                     rank, h->ranks, (int)h->peers[rank].process, h->peers[rank].host, what);
    (void)!write(STDERR_FILENO, text, (size_t)n);
}

/* Without rank 0 no rank learns what the others know: all notice, and the first of them reports it. The stopped rank
 * itself finds out, too, should it wake up. */
static void conclude(train_heartbeat *h, kind k, int rank) {
    if (rank == 0 && h->rank > 1)
        pause_for(2);
    tell(h, k, rank);
    send_to_all(h, k, rank);
    let_arrive();
    leave();
}

/* A failed rank is about to end, with a more specific exit code. */
static void follow(train_heartbeat *h, const message *m) {
    send_to_all(h, (kind)m->kind, m->rank);
    pthread_mutex_lock(&h->mutex);
    h->ends = true;
    pthread_mutex_unlock(&h->mutex);
    if (m->kind == FAILED)
        pause_for(2);
    let_arrive();
    leave();
}

/* --- messages --------------------------------------------------------------------------------- */

static void take(train_heartbeat *h, wire *w) {
    w->n = 0;
    w->heard = train_now();
    if (w->got.kind == BYE)
        w->left = true;
    else if (w->got.kind != BEAT)
        follow(h, &w->got);
}

static void read_from(train_heartbeat *h, wire *w) {
    for (;;) {
        ssize_t n = recv(w->socket, (unsigned char *)&w->got + w->n, sizeof w->got - w->n, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            if (!w->left)
                conclude(h, GONE, w->rank);
            return;
        }
        w->n += (size_t)n;
        if (w->n == sizeof w->got)
            take(h, w);
    }
}

static void look_at_itself(train_heartbeat *h) {
    pthread_mutex_lock(&h->mutex);
    if (!h->node || h->nodes != h->seen)
        h->moved = train_now();
    h->seen = h->nodes;
    bool is_stuck = train_now() - h->moved > h->timeout;
    pthread_mutex_unlock(&h->mutex);
    if (is_stuck)
        conclude(h, STUCK, h->rank);
}

static void judge(train_heartbeat *h) {
    for (int i = 0; i < h->n_wires; i++)
        if (!h->wires[i].left && train_now() - h->wires[i].heard > h->timeout)
            conclude(h, SILENT, h->wires[i].rank);
    look_at_itself(h);
}

/* A process that was stopped itself, with the whole job, say, has received nothing meanwhile. */
static void forgive(train_heartbeat *h) {
    for (int i = 0; i < h->n_wires; i++)
        h->wires[i].heard = train_now();
    pthread_mutex_lock(&h->mutex);
    h->moved = train_now();
    pthread_mutex_unlock(&h->mutex);
}

/* --- the thread ------------------------------------------------------------------------------- */

static void await(train_heartbeat *h, double seconds) {
    for (int i = 0; i < h->n_wires; i++)
        h->fds[i] = (struct pollfd){.fd = h->wires[i].left ? -1 : h->wires[i].socket, .events = POLLIN};
    h->fds[h->n_wires] = (struct pollfd){.fd = h->pipe[0], .events = POLLIN};
    (void)poll(h->fds, (nfds_t)h->n_wires + 1, (int)(1000 * seconds) + 1);
}

/* The next message of the other thread, if any. */
static kind next_message(train_heartbeat *h) {
    unsigned char k = BEAT;
    if ((h->fds[h->n_wires].revents & POLLIN) != 0 && read(h->pipe[0], &k, 1) == 1)
        send_to_all(h, (kind)k, h->rank);
    return (kind)k;
}

static void *watch(void *user) {
    train_heartbeat *h = user;
    double sent = 0;
    for (;;) {
        double began = train_now();
        await(h, h->interval);
        if (train_now() - began > 3 * h->interval)
            forgive(h);
        kind k = next_message(h);
        if (k == FAILED)
            let_arrive();
        if (k != BEAT)
            return NULL;
        for (int i = 0; i < h->n_wires; i++)
            read_from(h, &h->wires[i]);
        judge(h);
        if (train_now() - sent < h->interval)
            continue;
        send_to_all(h, BEAT, -1);
        sent = train_now();
    }
}

/* --- from the thread that computes -------------------------------------------------------------- */

void train_heartbeat_alive(train_heartbeat *heartbeat, const char *node) {
    pthread_mutex_lock(&heartbeat->mutex);
    heartbeat->node = node;
    heartbeat->nodes++;
    pthread_mutex_unlock(&heartbeat->mutex);
}

static void say(train_heartbeat *h, kind k) {
    const unsigned char byte = (unsigned char)k;
    (void)!write(h->pipe[1], &byte, 1);
}

/* The message has been sent when the thread ends; sockets are open until the process ends. */
void train_heartbeat_fail(train_heartbeat *heartbeat) {
    say(heartbeat, FAILED);
    pthread_join(heartbeat->thread, NULL);
}

bool train_heartbeat_ends(train_heartbeat *heartbeat) {
    pthread_mutex_lock(&heartbeat->mutex);
    bool ends = heartbeat->ends;
    pthread_mutex_unlock(&heartbeat->mutex);
    return ends;
}

static void destroy(train_heartbeat *h) {
    for (int i = 0; i < h->n_wires; i++)
        if (h->wires[i].socket >= 0)
            close(h->wires[i].socket);
    if (h->pipe[0] >= 0)
        close(h->pipe[0]);
    if (h->pipe[1] >= 0)
        close(h->pipe[1]);
    pthread_mutex_destroy(&h->mutex);
    free(h->peers);
    free(h->wires);
    free(h->fds);
    free(h);
}

void train_heartbeat_stop(train_heartbeat *heartbeat) {
    say(heartbeat, BYE);
    pthread_join(heartbeat->thread, NULL);
    destroy(heartbeat);
}

static train_heartbeat *create(const train_peer *peers, int rank, int ranks, double timeout) {
    train_heartbeat *h = calloc(1, sizeof *h);
    const int n = rank == 0 ? ranks - 1 : 1;
    if (!h)
        return NULL;
    *h = (train_heartbeat){.rank = rank,
                           .ranks = ranks,
                           .timeout = timeout,
                           .interval = timeout < 5 ? timeout / 5 : 1,
                           .peers = calloc((size_t)ranks, sizeof *h->peers),
                           .n_wires = n,
                           .wires = calloc((size_t)n, sizeof *h->wires),
                           .fds = calloc((size_t)n + 1, sizeof *h->fds),
                           .moved = train_now()};
    pthread_mutex_init(&h->mutex, NULL);
    bool has_pipe = pipe(h->pipe) == 0;
    for (int i = 0; h->wires && i < n; i++)
        h->wires[i] = (wire){.socket = -1, .rank = rank == 0 ? i + 1 : 0};
    for (int i = 0; h->peers && i < ranks; i++)
        h->peers[i] = peers[i];
    if (h->peers && h->wires && h->fds && has_pipe)
        return h;
    h->n_wires = h->wires ? n : 0;
    if (!has_pipe)
        h->pipe[0] = h->pipe[1] = -1;
    destroy(h);
    return NULL;
}

tc_status train_heartbeat_start(tc_ctx *ctx, const train_peer *peers, int rank, int ranks, double timeout, int socket,
                                train_heartbeat **out_heartbeat) {
    train_heartbeat *h = create(peers, rank, ranks, timeout);
    int *sockets = TC_NEW_ARRAY(ctx->arena, int, (size_t)ranks);
    if (!h)
        return tc_error(ctx, TC_LIMIT, NULL, "out of memory");
    tc_status status = train_meet(ctx, peers, rank, ranks, socket, sockets);
    for (int i = 0; status == TC_OK && i < h->n_wires; i++) {
        h->wires[i].socket = sockets[h->wires[i].rank];
        h->wires[i].heard = train_now();
    }
    if (status == TC_OK && !train_thread_start(&h->thread, watch, h))
        status = tc_error(ctx, TC_LIMIT, NULL, "no thread can be made");
    if (status != TC_OK)
        destroy(h);
    *out_heartbeat = status == TC_OK ? h : NULL;
    return status;
}
