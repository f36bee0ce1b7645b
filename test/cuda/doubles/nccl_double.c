/* nccl_double.c: communicators of the double, and their reductions; nccl_sockets.c carries bytes between ranks. */
#include "nccl_double.h"
#include "cuda_work.h"
#include "kernels/common/half.h"
#include "nccl_sockets.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8, MOST_GROUPED = 4096 };

struct ncclComm {
    int holders; /* itself, and each reduction that was queued or captured */
    int rank, ranks;
    int with[MOST_RANKS]; /* sockets: rank 0's to each other rank, another's to rank 0 in place 0 */
    char id[NCCL_UNIQUE_ID_BYTES];
    int missing; /* ranks that this one still has to meet: of rank 0 all others, of another rank 0 */
    bool busy;   /* the last call is not done, as far as anybody has asked */
    bool finalized, ended;
    unsigned long calls;
    int captured, waiting; /* reductions that graphs hold; that have not run */
    ncclResult_t error;    /* as it is asked for */
};

/* What ranks must agree on. */
typedef struct header {
    unsigned long call;
    size_t count;
    int type, operation;
} header;

typedef struct reduction {
    ncclComm_t comm;
    const void *from;
    void *to;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t operation;
    cudaStream_t stream;
    bool captured, ran;
} reduction;

static reduction group[MOST_GROUPED];
static int n_grouped, depth;
static char last_error[200];

static bool is_set(const char *what) {
    const char *value = getenv("EMU_NCCL");
    return value && strcmp(value, what) == 0;
}

static ncclResult_t tell(ncclResult_t result, const char *text) {
    snprintf(last_error, sizeof last_error, "%s", text);
    return result;
}

ncclResult_t ncclGetVersion(int *version) {
    *version = is_set("old") ? 21212 : 22809;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (size_t)result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return last_error;
}

/* --- communicators ---------------------------------------------------------------------------- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId) {
    memset(uniqueId, 0, sizeof *uniqueId);
    return nccl_listen(uniqueId->internal) ? ncclSuccess : tell(ncclSystemError, "no socket");
}

/* Rank 0 hears of each other rank who it is, and tells when all have come. */
static bool meet_one(ncclComm_t c) {
    int hello[2] = {0, 0}, socket = nccl_accept(c->id);
    if (socket < 0)
        return true;
    if (!nccl_receive(socket, hello, sizeof hello) || hello[1] != c->ranks || hello[0] < 1 || hello[0] >= c->ranks ||
        c->with[hello[0]] >= 0) {
        nccl_close(socket);
        return false;
    }
    c->with[hello[0]] = socket;
    bool is_told = true;
    if (--c->missing == 0)
        for (int i = 1; i < c->ranks; i++)
            is_told = nccl_send(c->with[i], &c->ranks, sizeof c->ranks) && is_told;
    return is_told;
}

static bool report(ncclComm_t c) {
    const int hello[] = {c->rank, c->ranks};
    c->with[0] = nccl_connect(c->id);
    return nccl_send(c->with[0], hello, sizeof hello);
}

static bool hear(ncclComm_t c) {
    int all = 0;
    if (!nccl_has_come(c->with[0]))
        return true;
    c->missing = 0;
    return nccl_receive(c->with[0], &all, sizeof all) && all == c->ranks;
}

static void let_go(ncclComm_t c) {
    if (--c->holders == 0)
        free(c);
}

static void hang_up(ncclComm_t c) {
    for (int i = 0; i < MOST_RANKS; i++) {
        nccl_close(c->with[i]);
        c->with[i] = -1;
    }
    c->ended = true;
}

static ncclResult_t fail_to_meet(ncclComm_t c) {
    c->missing = 0;
    c->error = ncclSystemError;
    return tell(ncclSystemError, "the ranks do not find each other");
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config) {
    if (!comm || nranks < 1 || nranks > MOST_RANKS || rank < 0 || rank >= nranks)
        return tell(ncclInvalidArgument, "rank or number of ranks");
    if (!config || config->size != sizeof *config || config->magic != 0xcafebeef || config->blocking != 0)
        return tell(ncclInvalidArgument, "a configuration other than one that does not block");
    if (depth > 0 || emu_refuses_to_wait())
        return tell(ncclInvalidUsage, "it waits");
    ncclComm_t c = calloc(1, sizeof *c);
    if (!c)
        abort();
    *c = (struct ncclComm){
        .holders = 1, .rank = rank, .ranks = nranks, .missing = rank == 0 ? nranks - 1 : 1, .busy = true};
    memcpy(c->id, commId.internal, sizeof c->id);
    for (int i = 0; i < MOST_RANKS; i++)
        c->with[i] = -1;
    *comm = c;
    if (rank > 0 && !report(c))
        fail_to_meet(c);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError) {
    if (!comm || comm->ended)
        return ncclInvalidArgument;
    if (comm->missing > 0 && !(comm->rank == 0 ? meet_one(comm) : hear(comm)))
        fail_to_meet(comm);
    bool is_busy = comm->busy || comm->missing > 0;
    *asyncError = is_busy ? ncclInProgress : comm->error;
    comm->busy = false;
    return ncclSuccess;
}

/* Whether the communicator takes a call. */
static bool is_ready(ncclComm_t c, const char *who) {
    if (!c || c->ended)
        return false;
    if (c->busy || c->missing > 0)
        emu_misused(who, "the communicator has not done what it was asked for before");
    return !c->busy && c->missing == 0;
}

static ncclResult_t finish(ncclComm_t c, const char *who) {
    if (!c || c->ended)
        return ncclInvalidArgument;
    if (c->captured > 0)
        emu_misused(who, "it waits for ever: graphs hold %d operations of the communicator", c->captured);
    hang_up(c);
    let_go(c);
    return ncclSuccess;
}

/* Whether it can come to a peaceful end. */
static bool may_end(ncclComm_t c, const char *who) {
    if (!is_ready(c, who))
        return false;
    if (c->waiting > 0)
        emu_misused(who, "%d operations of the communicator have not run", c->waiting);
    return true;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    if (!may_end(comm, "ncclCommFinalize"))
        return ncclInvalidArgument;
    comm->finalized = comm->busy = true;
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!may_end(comm, "ncclCommDestroy"))
        return ncclInvalidArgument;
    if (!comm->finalized)
        emu_misused("ncclCommDestroy", "the communicator is not finalized: it waits for the others");
    return finish(comm, "ncclCommDestroy");
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    emu_hang(false);
    return finish(comm, "ncclCommAbort");
}

/* --- elements --------------------------------------------------------------------------------- */

static size_t size_of(ncclDataType_t type) { return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : 2; }

static double number(const void *from, size_t i, ncclDataType_t type) {
    switch (type) {
    case ncclFloat64: return ((const double *)from)[i];
    case ncclFloat32: return (double)((const float *)from)[i];
    case ncclFloat16: return (double)tk_from_f16(((const uint16_t *)from)[i]);
    default: return (double)tk_from_bf16(((const uint16_t *)from)[i]);
    }
}

static void set_number(void *to, size_t i, ncclDataType_t type, double value) {
    switch (type) {
    case ncclFloat64: ((double *)to)[i] = value; break;
    case ncclFloat32: ((float *)to)[i] = (float)value; break;
    case ncclFloat16: ((uint16_t *)to)[i] = tk_to_f16((float)value); break;
    default: ((uint16_t *)to)[i] = tk_to_bf16((float)value); break;
    }
}

static void *make(size_t bytes) {
    void *p = calloc(bytes + 1, 1);
    if (!p)
        abort();
    return p;
}

/* sum += part, where the sum of all is the result. */
static void add(double *sum, const void *part, const reduction *r) {
    double scale = r->operation == ncclAvg ? 1.0 / r->comm->ranks : 1.0;
    for (size_t i = 0; i < r->count; i++) {
        double next = sum[i] + number(part, i, r->type) * scale;
        sum[i] = r->type == ncclFloat64 ? next : (double)(float)next;
    }
}

/* --- reductions ------------------------------------------------------------------------------- */

static void hang(ncclComm_t c, nccl_outcome outcome) {
    if (outcome == NCCL_GONE)
        c->error = ncclRemoteError;
    emu_hang(true);
}

static bool agrees(const reduction *r, const header *mine, const header *other, int rank) {
    if (mine->call == other->call && mine->count == other->count && mine->type == other->type &&
        mine->operation == other->operation)
        return true;
    emu_misused("ncclAllReduce",
                "rank %d reduces %zu elements of type %d by operation %d, rank %d %zu of type %d by %d", r->comm->rank,
                mine->count, mine->type, mine->operation, rank, other->count, other->type, other->operation);
    return false;
}

/* Rank 0 has everybody's header, then everybody's elements. */
static nccl_outcome collect(const reduction *r, const header *mine, void *out) {
    ncclComm_t c = r->comm;
    const size_t bytes = r->count * size_of(r->type);
    double *sum = make(r->count * sizeof *sum);
    void *part = make(bytes);
    nccl_outcome outcome = NCCL_DONE;
    add(sum, r->from, r);
    for (int i = 1; i < c->ranks && outcome == NCCL_DONE; i++) {
        header other;
        outcome = nccl_exchange(c->with[i], mine, &other, sizeof other);
        if (outcome == NCCL_DONE && !agrees(r, mine, &other, i))
            outcome = NCCL_GONE;
        outcome = outcome == NCCL_DONE ? nccl_get(c->with[i], part, bytes) : outcome;
        if (outcome == NCCL_DONE)
            add(sum, part, r);
    }
    for (size_t i = 0; i < r->count; i++)
        set_number(out, i, r->type, sum[i]);
    for (int i = 1; i < c->ranks && outcome == NCCL_DONE; i++)
        outcome = nccl_send(c->with[i], out, bytes) ? NCCL_DONE : NCCL_GONE;
    free(sum);
    free(part);
    return outcome;
}

static nccl_outcome contribute(const reduction *r, const header *mine, void *out) {
    const size_t bytes = r->count * size_of(r->type);
    header other;
    nccl_outcome outcome = nccl_exchange(r->comm->with[0], mine, &other, sizeof other);
    if (outcome == NCCL_DONE && !agrees(r, mine, &other, 0))
        outcome = NCCL_GONE;
    if (outcome == NCCL_DONE && !nccl_send(r->comm->with[0], r->from, bytes))
        outcome = NCCL_GONE;
    return outcome == NCCL_DONE ? nccl_get(r->comm->with[0], out, bytes) : outcome;
}

static void run_reduction(void *context) {
    reduction *r = context;
    const size_t bytes = r->count * size_of(r->type);
    const header mine = {r->comm->calls++, r->count, r->type, r->operation};
    if (!r->ran && !r->captured)
        r->comm->waiting--;
    r->ran = true;
    if (r->comm->ended || !emu_may_read(r->from, bytes, "ncclAllReduce", "what is sent") ||
        !emu_may_touch(r->to, bytes, true, "ncclAllReduce", "what is received"))
        return;
    void *out = make(bytes);
    nccl_outcome outcome = r->comm->rank == 0 ? collect(r, &mine, out) : contribute(r, &mine, out);
    if (outcome == NCCL_DONE) {
        emu_trace("reduce", r->to, bytes);
        memcpy(r->to, out, bytes);
        emu_host_wrote(r->to, bytes);
    } else {
        hang(r->comm, outcome);
    }
    free(out);
}

static void end_reduction(void *context) {
    reduction *r = context;
    if (r->captured && !r->comm->ended && !emu_is_device(r->to, r->count * size_of(r->type)))
        emu_misused("cudaFree",
                    "a graph outlives memory that it reduces, which NCCL has registered with other devices");
    r->comm->captured -= r->captured;
    r->comm->waiting -= !r->captured && !r->ran;
    let_go(r->comm);
    free(r);
}

static ncclResult_t queue(const reduction *what) {
    reduction *r = make(sizeof *r);
    *r = *what;
    r->captured = emu_is_captured(r->stream);
    r->comm->holders++;
    r->comm->captured += r->captured;
    r->comm->waiting += !r->captured;
    if (emu_on_stream(r->stream, run_reduction, end_reduction, r) != cudaSuccess)
        return tell(ncclUnhandledCudaError, "the stream takes no work");
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    const reduction r = {comm, sendbuff, recvbuff, count, datatype, op, stream, false, false};
    if (!comm || comm->ended || datatype < ncclFloat16 || datatype > ncclBfloat16 || (op != ncclSum && op != ncclAvg) ||
        !emu_is_device(sendbuff, count * size_of(datatype)) || !emu_is_device(recvbuff, count * size_of(datatype)))
        return tell(ncclInvalidArgument, "an argument of ncclAllReduce");
    if (!is_ready(comm, "ncclAllReduce"))
        return ncclInvalidArgument;
    if (is_set("refuses"))
        return tell(ncclInternalError, "as it was told to");
    if (n_grouped == MOST_GROUPED)
        abort();
    group[n_grouped++] = r;
    return depth > 0 ? ncclSuccess : (depth = 1, ncclGroupEnd());
}

ncclResult_t ncclGroupStart(void) {
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    ncclResult_t result = n_grouped > 0 && depth == 1 ? ncclInProgress : ncclSuccess;
    cudaStream_t last = NULL;
    if (depth == 0)
        return tell(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--depth > 0)
        return ncclSuccess;
    for (int i = 0; i < n_grouped; i++) {
        ncclResult_t one = queue(&group[i]);
        result = one != ncclSuccess ? one : result;
        group[i].comm->busy = true;
        last = group[i].stream;
    }
    n_grouped = 0;
    if (last && emu_is_eager() && !emu_is_capturing())
        while (cudaStreamQuery(last) == cudaErrorNotReady && !emu_hangs())
            (void)cudaGetLastError();
    return result;
}
