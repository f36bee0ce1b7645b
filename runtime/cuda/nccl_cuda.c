/* nccl_cuda.c: a GPU as one of several ranks, by NCCL: means over all ranks on a stream beside that of the launches.
 * The library is opened by name, as few users need it. A missing rank is waited for in three places: in a call of NCCL,
 * which meets the others and connects to them; on the device, where NCCL's kernel waits for ever; and when the
 * communicator ends. So the communicator does not block: its calls return before they are done, and the caller asks
 * again and again, until NCCL knows of an error or patience is out. */
#include "nccl_cuda.h"
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* NULL: the program itself has the functions, as in tests. */
#ifndef RT_NCCL
#define RT_NCCL "libnccl.so.2"
#endif
#define OLDEST 21400 /* NCCL 2.14: calls that do not block */

const char *rt_nccl_library = RT_NCCL;

_Static_assert(sizeof(ncclUniqueId) == RT_GROUP_BYTES, "the id of a group is NCCL's");

/* --- the library ------------------------------------------------------------------------------ */

#define FUNCTIONS(F)                                                                                                   \
    F(GetVersion)                                                                                                      \
    F(GetErrorString)                                                                                                  \
    F(GetLastError)                                                                                                    \
    F(GetUniqueId)                                                                                                     \
    F(CommInitRankConfig)                                                                                              \
    F(CommFinalize)                                                                                                    \
    F(CommGetAsyncError)                                                                                               \
    F(CommDestroy)                                                                                                     \
    F(CommAbort)                                                                                                       \
    F(AllReduce)                                                                                                       \
    F(GroupStart)                                                                                                      \
    F(GroupEnd)

#define MEMBER(name) __typeof__(nccl##name) *name;
typedef struct nccl {
    FUNCTIONS(MEMBER)
} nccl;
#undef MEMBER

static const char *find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found); /* POSIX: a function's address is one of data */
    return found ? NULL : name;
}

/* The first function that is not there, or NULL. */
static const char *find_all(void *library, nccl *lib) {
    const char *missing = NULL;
#define FIND(name) missing = missing ? missing : find(library, "nccl" #name, (void *)&lib->name);
    FUNCTIONS(FIND)
#undef FIND
    return missing;
}

/* It stays loaded: CUDA's libraries are not made to be unloaded. */
static tc_status load(tc_ctx *ctx, nccl *lib) {
    void *library = dlopen(rt_nccl_library, RTLD_NOW | RTLD_LOCAL);
    const char *missing = library ? find_all(library, lib) : NULL;
    int version = 0;
    if (!library) {
        tc_error(ctx, TC_UNSUPPORTED, NULL, "ranks need NCCL, but it was not found: %s", dlerror());
        tc_hint(ctx, "add its folder to LD_LIBRARY_PATH");
        return TC_UNSUPPORTED;
    }
    if (missing)
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "ranks need NCCL 2.14: the one here has no %s", missing);
    if (lib->GetVersion(&version) != ncclSuccess || version < OLDEST)
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "ranks need NCCL 2.14: the one here has version code %d", version);
    return TC_OK;
}

/* --- waiting for others ----------------------------------------------------------------------- */

struct cuda_ranks {
    nccl lib;
    ncclComm_t comm;
    cudaStream_t stream;
    double patience;     /* seconds */
    cudaEvent_t *events; /* two for each bucket: when its tensors are made, and when it is reduced */
    uint32_t n_events;
    char wrong[256]; /* the first error; "": none */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_briefly(void) {
    const struct timespec pause = {.tv_nsec = 20000}; /* little compared with a step, and a core is left to others */
    nanosleep(&pause, NULL);
}

static bool note(cuda_ranks *ranks, ncclResult_t result, const char *what) {
    if (result == ncclSuccess || result == ncclInProgress || ranks->wrong[0] != '\0')
        return ranks->wrong[0] == '\0';
    const char *more = ranks->lib.GetLastError(NULL);
    snprintf(ranks->wrong, sizeof ranks->wrong, "%s: %s%s%s", what, ranks->lib.GetErrorString(result),
             more && *more ? ": " : "", more ? more : "");
    return false;
}

/* True while waiting for the others may go on; else that is the error. */
static bool is_patient(cuda_ranks *ranks, double began) {
    if (now() - began > ranks->patience && ranks->wrong[0] == '\0')
        snprintf(ranks->wrong, sizeof ranks->wrong, "the other ranks did not come within %g s", ranks->patience);
    return ranks->wrong[0] == '\0';
}

/* The communicator's state: an error, or a call that goes on. */
static ncclResult_t state_of(const cuda_ranks *ranks) {
    ncclResult_t state = ncclSuccess, result = ranks->lib.CommGetAsyncError(ranks->comm, &state);
    return result == ncclSuccess ? state : result;
}

/* Waits until the call is done. A communicator takes no other call before that. */
static bool settle(cuda_ranks *ranks, ncclResult_t result, const char *what) {
    for (double began = now(); result == ncclInProgress && is_patient(ranks, began); result = state_of(ranks))
        pause_briefly();
    return note(ranks, result, what);
}

/* --- joining and leaving ---------------------------------------------------------------------- */

tc_status rt_nccl_make_group(tc_ctx *ctx, tk_queue *q, unsigned char *out_id) {
    nccl lib;
    ncclUniqueId id;
    (void)q;
    TC_TRY(load(ctx, &lib));
    ncclResult_t result = lib.GetUniqueId(&id);
    if (result != ncclSuccess)
        return tc_error(ctx, TC_IO, NULL, "no group of ranks can be made: %s", lib.GetErrorString(result));
    memcpy(out_id, &id, sizeof id);
    return TC_OK;
}

static void end(cuda_device *d) {
    cuda_ranks *ranks = d->ranks;
    for (uint32_t i = 0; i < ranks->n_events; i++)
        (void)cudaEventDestroy(ranks->events[i]);
    free(ranks->events);
    if (ranks->stream)
        (void)cudaStreamDestroy(ranks->stream);
    free(ranks);
    d->ranks = NULL;
}

static bool meet(cuda_ranks *ranks, const unsigned char *id, int rank, int n) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId group;
    config.blocking = 0;
    memcpy(&group, id, sizeof group);
    bool met = settle(ranks, ranks->lib.CommInitRankConfig(&ranks->comm, n, group, rank, &config), "ncclCommInitRank");
    if (!met && ranks->comm)
        (void)ranks->lib.CommAbort(ranks->comm);
    return met;
}

tc_status rt_nccl_join(tc_ctx *ctx, tk_queue *q, const unsigned char *id, int rank, int n, double patience) {
    cuda_device *d = cuda_of(q);
    cuda_ranks *ranks = d->ranks = calloc(1, sizeof *ranks);
    if (!ranks)
        return tc_error(ctx, TC_LIMIT, NULL, "out of memory");
    ranks->patience = patience;
    tc_status status = load(ctx, &ranks->lib);
    if (status == TC_OK && !CUDA_CALL(q, cudaStreamCreateWithFlags(&ranks->stream, cudaStreamNonBlocking)))
        status =
            tc_error(ctx, TC_UNSUPPORTED, NULL, "there is no second stream: %s", cudaGetErrorString(d->shared.error));
    if (status == TC_OK && !meet(ranks, id, rank, n))
        status = tc_error(ctx, TC_IO, NULL, "rank %d of %d cannot join: %s", rank, n, ranks->wrong);
    if (status != TC_OK)
        end(d);
    return status;
}

/* The stream of launches may wait for a mean that never comes: the abort ends NCCL's kernel, then all else runs. An
 * abort waits until no recording knows of the communicator. */
void rt_nccl_part(tk_queue *q) {
    cuda_device *d = cuda_of(q);
    cuda_forget_all(d);
    (void)d->ranks->lib.CommAbort(d->ranks->comm);
    (void)cudaStreamSynchronize(d->shared.stream);
    (void)cudaStreamSynchronize(d->ranks->stream);
    (void)cudaGetLastError(); /* the failure that led here has been reported */
    end(d);
}

/* An orderly end needs the others, as a rank's last kernel may read another's memory: if they do not come, NCCL's
 * threads are broken off. */
void rt_nccl_leave(cuda_device *d) {
    cuda_ranks *ranks = d->ranks;
    if (!ranks)
        return;
    bool is_settled = settle(ranks, ranks->lib.CommFinalize(ranks->comm), "ncclCommFinalize");
    (void)(is_settled ? ranks->lib.CommDestroy(ranks->comm) : ranks->lib.CommAbort(ranks->comm));
    end(d);
}

/* --- means ------------------------------------------------------------------------------------ */

static bool make_events(tk_queue *q, uint32_t n) {
    cuda_ranks *ranks = cuda_of(q)->ranks;
    if (n <= ranks->n_events)
        return true;
    cudaEvent_t *more = realloc(ranks->events, n * sizeof *more);
    if (!more)
        return CUDA_CALL(q, cudaErrorMemoryAllocation);
    ranks->events = more;
    for (; ranks->n_events < n; ranks->n_events++)
        if (!CUDA_CALL(q, cudaEventCreateWithFlags(&more[ranks->n_events], cudaEventDisableTiming)))
            return false;
    return true;
}

static ncclDataType_t type_of(tk_dtype dtype) {
    return dtype == TK_F64    ? ncclFloat64
           : dtype == TK_F16  ? ncclFloat16
           : dtype == TK_BF16 ? ncclBfloat16
                              : ncclFloat32;
}

/* One group: NCCL makes as few launches of it as it can, on a thread of its own, which a capture of this thread's
 * stream does not mind. */
static void reduce(cuda_ranks *ranks, const rt_piece *pieces, uint32_t n) {
    if (ranks->wrong[0] != '\0' || !note(ranks, ranks->lib.GroupStart(), "ncclGroupStart"))
        return;
    for (uint32_t i = 0; i < n; i++)
        note(ranks,
             ranks->lib.AllReduce(pieces[i].memory, pieces[i].memory, (size_t)pieces[i].count, type_of(pieces[i].dtype),
                                  ncclAvg, ranks->comm, ranks->stream),
             "ncclAllReduce");
    settle(ranks, ranks->lib.GroupEnd(), "ncclGroupEnd");
}

/* The two events fork the second stream off and join it again, which a capture takes into its graph. */
void rt_nccl_average(tk_queue *q, uint32_t bucket, const rt_piece *pieces, uint32_t n) {
    cuda_ranks *ranks = cuda_of(q)->ranks;
    if (!make_events(q, 2 * bucket + 2))
        return;
    if (CUDA_CALL(q, cudaEventRecord(ranks->events[2 * bucket], cuda_of(q)->shared.stream)) &&
        CUDA_CALL(q, cudaStreamWaitEvent(ranks->stream, ranks->events[2 * bucket], 0)))
        reduce(ranks, pieces, n);
    CUDA_CALL(q, cudaEventRecord(ranks->events[2 * bucket + 1], ranks->stream));
}

void rt_nccl_averaged(tk_queue *q, uint32_t bucket) {
    cuda_ranks *ranks = cuda_of(q)->ranks;
    if (2 * bucket + 1 < ranks->n_events)
        CUDA_CALL(q, cudaStreamWaitEvent(cuda_of(q)->shared.stream, ranks->events[2 * bucket + 1], 0));
}

/* --- the end of a run ------------------------------------------------------------------------- */

/* A run that came to its end is good, even if another rank was lost since. */
bool rt_nccl_wait(tk_queue *q) {
    cuda_device *d = cuda_of(q);
    cuda_ranks *ranks = d->ranks;
    for (double began = now(); ranks->wrong[0] == '\0'; pause_briefly()) {
        cudaError_t error = cudaStreamQuery(d->shared.stream);
        if (error != cudaErrorNotReady)
            return CUDA_CALL(q, error);
        (void)cudaGetLastError(); /* it is none */
        if (is_patient(ranks, began))
            note(ranks, state_of(ranks), "a peer rank was lost");
    }
    snprintf(d->failure, sizeof d->failure, "%s", ranks->wrong);
    return false;
}
