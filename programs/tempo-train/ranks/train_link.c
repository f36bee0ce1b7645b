/* train_link.c: jobs from the computing thread to the one that communicates with other ranks. A mean goes in chunks,
 * and each rank sums a slice of a chunk: it receives that slice from all others, and sends them the sum. So each rank
 * sends and receives about twice a chunk, whatever the number of ranks, and the memory is that of two chunks. */
#include "train_link.h"
#include "kernels/common/half.h"
#include "train_thread.h"
#include "train_wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t train_link_chunk = (size_t)1 << 20;

typedef struct job {
    enum { MEAN, GATHER, END } kind;
    double share;
    const rt_piece *pieces;
    uint32_t n;
    const void *mine;
    size_t bytes;
    void *to;
    bool in_peace;
} job;

enum { JOBS = 64 }; /* jobs that may wait; with more, the caller waits as well */

struct train_link {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a job is there, or one is done */
    job jobs[JOBS];         /* of number k, at k % JOBS */
    uint64_t posted, done;
    bool failed;
    bool is_open; /* the thread has met the others, or failed */
    char failure[600];
    train_wire *wire; /* from here on: for the thread alone, once it is open */
    int rank, ranks;
    double *own;    /* [chunk] this rank's elements, or floats, then the sums */
    double *theirs; /* [ranks * slice] of others: one slice each */
    train_bytes *sent, *received;
};

/* --- elements --------------------------------------------------------------------------------- */

/* Doubles are sent as doubles, other elements as floats: 16 bits are rounded once, after the sum. */
static bool is_wide(const rt_piece *piece) { return piece->dtype == TK_F64; }

static float from_half(tk_dtype dtype, uint16_t h) { return dtype == TK_F16 ? tk_from_f16(h) : tk_from_bf16(h); }
static uint16_t to_half(tk_dtype dtype, float f) { return dtype == TK_F16 ? tk_to_f16(f) : tk_to_bf16(f); }

static void pack(const rt_piece *piece, int64_t from, int64_t n, double share, void *to) {
    if (share == 0)
        memset(to, 0, (size_t)n * (is_wide(piece) ? sizeof(double) : sizeof(float)));
    else if (is_wide(piece))
        for (int64_t i = 0; i < n; i++)
            ((double *)to)[i] = share * ((const double *)piece->memory)[from + i];
    else if (piece->dtype == TK_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i] = (float)(share * (double)((const float *)piece->memory)[from + i]);
    else
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i] =
                (float)(share * (double)from_half(piece->dtype, ((const uint16_t *)piece->memory)[from + i]));
}

static void unpack(const rt_piece *piece, int64_t from, int64_t n, const void *sums) {
    size_t bytes = tk_size(piece->dtype);
    if (!tk_is_half(piece->dtype))
        memcpy((unsigned char *)piece->memory + (size_t)from * bytes, sums, (size_t)n * bytes);
    else
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)piece->memory)[from + i] = to_half(piece->dtype, ((const float *)sums)[i]);
}

/* The pieces from *at on that are sent in one type, as one row of elements. */
typedef struct row {
    const rt_piece *pieces;
    uint32_t n;
    int64_t count;
} row;

static row next_row(const job *j, uint32_t at) {
    row r = {j->pieces + at, 0, 0};
    for (; at + r.n < j->n && is_wide(&r.pieces[r.n]) == is_wide(r.pieces); r.n++)
        r.count += r.pieces[r.n].count;
    return r;
}

/* Calls pack, or else unpack, on the part of each piece in [from, from + n) of the row. */
static void walk(const row *r, int64_t from, int64_t n, bool packs, double share, void *elements) {
    const size_t bytes = is_wide(r->pieces) ? sizeof(double) : sizeof(float);
    int64_t first = 0;
    for (uint32_t i = 0; i < r->n; first += r->pieces[i++].count) {
        int64_t begin = first > from ? first : from, end = first + r->pieces[i].count;
        end = end < from + n ? end : from + n;
        if (begin >= end)
            continue;
        void *at = (unsigned char *)elements + (size_t)(begin - from) * bytes;
        if (packs)
            pack(&r->pieces[i], begin - first, end - begin, share, at);
        else
            unpack(&r->pieces[i], begin - first, end - begin, at);
    }
}

/* --- a mean ----------------------------------------------------------------------------------- */

/* Where the slice of rank i of n elements begins; it ends where the next one begins. */
static size_t slice_at(const train_link *l, size_t n, int i) { return n * (size_t)i / (size_t)l->ranks; }

/* In the order of ranks, in double: the sum of floats is rounded once. */
static void sum_doubles(double *sum, const train_bytes *terms, int ranks, size_t n) {
    for (size_t k = 0; k < n; k++) {
        double s = 0;
        for (int i = 0; i < ranks; i++)
            s += ((const double *)terms[i].data)[k];
        sum[k] = s;
    }
}

static void sum_floats(float *sum, const train_bytes *terms, int ranks, size_t n) {
    for (size_t k = 0; k < n; k++) {
        double s = 0;
        for (int i = 0; i < ranks; i++)
            s += (double)((const float *)terms[i].data)[k];
        sum[k] = (float)s;
    }
}

static bool sum_chunk(train_link *l, size_t n, size_t bytes) {
    unsigned char *own = (unsigned char *)l->own, *theirs = (unsigned char *)l->theirs;
    const size_t begin = slice_at(l, n, l->rank), mine = slice_at(l, n, l->rank + 1) - begin;
    for (int i = 0; i < l->ranks; i++) {
        size_t at = slice_at(l, n, i);
        l->sent[i] = (train_bytes){own + at * bytes, (slice_at(l, n, i + 1) - at) * bytes};
        l->received[i] =
            (train_bytes){i == l->rank ? own + begin * bytes : theirs + (size_t)i * mine * bytes, mine * bytes};
    }
    if (!train_wire_swap(l->wire, l->sent, l->received))
        return false;
    if (bytes == sizeof(double))
        sum_doubles(l->own + begin, l->received, l->ranks, mine);
    else
        sum_floats((float *)l->own + begin, l->received, l->ranks, mine);
    for (int i = 0; i < l->ranks; i++) {
        l->received[i] = l->sent[i];
        l->sent[i] = (train_bytes){own + begin * bytes, mine * bytes};
    }
    return train_wire_swap(l->wire, l->sent, l->received);
}

static bool mean(train_link *l, const job *j) {
    row r;
    for (uint32_t at = 0; at < j->n; at += r.n) {
        r = next_row(j, at);
        const size_t bytes = is_wide(r.pieces) ? sizeof(double) : sizeof(float);
        for (int64_t from = 0, n; from < r.count; from += n) {
            n = r.count - from < (int64_t)train_link_chunk ? r.count - from : (int64_t)train_link_chunk;
            walk(&r, from, n, true, j->share, l->own);
            if (!sum_chunk(l, (size_t)n, bytes))
                return false;
            walk(&r, from, n, false, 0, l->own);
        }
    }
    return true;
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool take_memory(train_link *l) {
    const size_t ranks = (size_t)l->ranks;
    l->own = malloc((train_link_chunk + 1) * sizeof *l->own);
    l->theirs = malloc((train_link_chunk + ranks) * sizeof *l->theirs);
    l->sent = calloc(ranks, sizeof *l->sent);
    l->received = calloc(ranks, sizeof *l->received);
    if (l->own && l->theirs && l->sent && l->received)
        return true;
    snprintf(l->failure, sizeof l->failure, "out of memory");
    return false;
}

static bool work(train_link *l, const job *j) {
    bool is_good = j->kind == MEAN     ? mean(l, j)
                   : j->kind == GATHER ? train_wire_gather(l->wire, j->mine, j->bytes, j->to)
                                       : true;
    if (!is_good)
        snprintf(l->failure, sizeof l->failure, "%s", train_wire_failure(l->wire));
    return is_good;
}

static void set_open(train_link *l, bool failed) {
    pthread_mutex_lock(&l->mutex);
    l->is_open = true;
    l->failed = failed;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
}

/* A failed job fails all later ones. */
static void serve(train_link *l) {
    job j;
    do {
        pthread_mutex_lock(&l->mutex);
        while (l->done == l->posted)
            pthread_cond_wait(&l->changed, &l->mutex);
        j = l->jobs[(l->done + 1) % JOBS];
        bool failed = l->failed;
        pthread_mutex_unlock(&l->mutex);
        failed = failed || !work(l, &j);
        if (j.kind == END)
            failed |= !train_wire_close(l->wire, j.in_peace && !failed);
        pthread_mutex_lock(&l->mutex);
        l->failed |= failed;
        l->done++;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->mutex);
    } while (j.kind != END);
}

static void *run(void *user) {
    train_link *l = user;
    l->wire = train_wire_open(&l->rank, &l->ranks, l->failure, sizeof l->failure);
    bool is_good = l->wire && take_memory(l);
    set_open(l, !is_good);
    if (l->wire)
        serve(l);
    return NULL;
}

static uint64_t post(train_link *l, job j) {
    pthread_mutex_lock(&l->mutex);
    while (l->posted - l->done >= JOBS - 1)
        pthread_cond_wait(&l->changed, &l->mutex);
    uint64_t number = ++l->posted;
    l->jobs[number % JOBS] = j;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    return number;
}

/* --- from the thread that computes -------------------------------------------------------------- */

uint64_t train_link_mean(train_link *link, double share, const rt_piece *pieces, uint32_t n) {
    return post(link, (job){.kind = MEAN, .share = share, .pieces = pieces, .n = n});
}

bool train_link_wait(train_link *link, uint64_t number) {
    pthread_mutex_lock(&link->mutex);
    while (link->done < number)
        pthread_cond_wait(&link->changed, &link->mutex);
    bool failed = link->failed;
    pthread_mutex_unlock(&link->mutex);
    return !failed;
}

bool train_link_gather(train_link *link, const void *mine, size_t bytes, void *to) {
    return train_link_wait(link, post(link, (job){.kind = GATHER, .mine = mine, .bytes = bytes, .to = to}));
}

const char *train_link_failure(const train_link *link) { return link->failure; }

static void destroy(train_link *l) {
    free(l->own);
    free(l->theirs);
    free(l->sent);
    free(l->received);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

tc_status train_link_open(tc_ctx *ctx, train_link **out_link, int *out_rank, int *out_ranks) {
    train_link *l = *out_link = calloc(1, sizeof *l);
    if (!l)
        return tc_error(ctx, TC_LIMIT, NULL, "out of memory");
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (!train_thread_start(&l->thread, run, l)) {
        destroy(l);
        return tc_error(ctx, TC_LIMIT, NULL, "no thread can be made");
    }
    pthread_mutex_lock(&l->mutex);
    while (!l->is_open)
        pthread_cond_wait(&l->changed, &l->mutex);
    bool failed = l->failed;
    pthread_mutex_unlock(&l->mutex);
    *out_rank = l->rank;
    *out_ranks = l->ranks;
    if (!failed)
        return TC_OK;
    tc_error(ctx, train_has_wire ? TC_IO : TC_UNSUPPORTED, NULL, "the ranks of this job cannot meet: %s", l->failure);
    if (!train_has_wire)
        tc_hint(ctx, "build with Open MPI (Debian: libopenmpi-dev), or run one process without mpirun");
    (void)train_link_close(l, false);
    *out_link = NULL;
    return train_has_wire ? TC_IO : TC_UNSUPPORTED;
}

bool train_link_close(train_link *link, bool in_peace) {
    bool is_good = true;
    if (link->wire)
        is_good = train_link_wait(link, post(link, (job){.kind = END, .in_peace = in_peace}));
    pthread_join(link->thread, NULL);
    destroy(link);
    return is_good;
}
