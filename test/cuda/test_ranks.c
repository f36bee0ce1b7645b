/* test_ranks.c: GPUs that train together, emulated: sessions in several processes, connected by the double of NCCL. The
 * test's process is rank 0, children of it are the others. What a mean should be, loops in double say. */
#include "test/cuda/doubles/cuda_work.h"
#include "test/cuda/emulation/emulated_device.h"
#include "kernels/common/half.h"
#include "test/cuda/doubles/nccl_double.h"
#include "runtime/cuda/nccl_cuda.h"
#include "test/unit/session_test.h"
#include <math.h>
#include <sys/wait.h>

enum { N = 100, MOST = 3, RUNS = 4 };

static bool in_child;

/* A child must not go on with the tests of its parent. */
static void expect(bool is_true, const char *what, int line) {
    if (is_true)
        return;
    fprintf(stderr, "test_ranks.c:%d: %s%s\n", line, what, in_child ? " (in another rank)" : "");
    if (in_child)
        _exit(1);
    fail();
}
#define EXPECT(what) expect(what, #what, __LINE__)
#define OK(s, call) expect((call) == TEMPO_OK, tempo_message(s), __LINE__)
#define FAILS(s, status, call, part)                                                                                   \
    do {                                                                                                               \
        EXPECT((call) == (status));                                                                                    \
        expect(strstr(tempo_message(s), part) != NULL, tempo_message(s), __LINE__);                                    \
    } while (0)

/* --- ranks ------------------------------------------------------------------------------------ */

static double patience; /* of sessions; 0: the usual one */

static tempo_session *open_emulated(const char *graph) {
    tempo_session *s;
    tempo_status status = try_open(&(rt_hooks){.device = &rt_device_emulated}, "[\"\" : 21]", graph,
                                   &(tempo_options){.threads = 1, .patience = patience}, &s);
    OK(s, status);
    return s;
}

typedef void (*rank_fn)(tempo_session *s, int rank);

/* Runs each rank's function on a session that has joined; a child's ends its process with 0, or with what was found. */
static void with_ranks(int n, const char *graph, rank_fn first, rank_fn others) {
    tempo_session *s = open_emulated(graph);
    pid_t children[MOST];
    tempo_group group;
    int rank = 0, status = 0;
    OK(s, tempo_new_group(s, &group));
    fflush(NULL);
    for (int i = 1; i < n && rank == 0; i++) {
        children[i] = fork();
        EXPECT(children[i] >= 0);
        if (children[i] == 0) {
            in_child = true;
            rank = i;
        }
    }
    OK(s, tempo_join(s, &group, rank, n));
    (rank == 0 ? first : others)(s, rank);
    tempo_close(s);
    if (in_child) {
        fflush(NULL);
        exit(0);
    }
    for (int i = 1; i < n; i++) {
        EXPECT(waitpid(children[i], &status, 0) == children[i]);
        EXPECT(status == 0);
    }
    EXPECT(emu_findings() == 0);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static double input(int rank, int run, int i) { return ((i * 37 + rank * 11 + run * 5) % 100 - 50) / 16.0; }
static double gelu(double x) { return x * 0.5 * (1 + erf(x / sqrt(2.0))); }

static double mean_gelu(int ranks, int run, int i) {
    double sum = 0;
    for (int rank = 0; rank < ranks; rank++)
        sum += gelu(input(rank, run, i));
    return sum / ranks;
}

static const int64_t dims[] = {N};
static float x[N];

static void set_input(int rank, int run) {
    for (int i = 0; i < N; i++)
        x[i] = (float)input(rank, run, i);
}

static void bind_x(tempo_session *s) { OK(s, tempo_bind(s, "x", &(tempo_tensor){TEMPO_FLOAT, 1, dims, x, sizeof x})); }

static const float *get(tempo_session *s, const char *name) {
    tempo_tensor out;
    OK(s, tempo_output(s, name, &out));
    EXPECT(out.bytes == sizeof x);
    return out.data;
}

/* Floats: as GELU is rounded, and a mean of so few. */
static bool near(double got, double wanted) { return fabs(got - wanted) <= 4e-7 * (1 + fabs(wanted)); }

/* --- means ------------------------------------------------------------------------------------ */

/* a is averaged in the midst, b behind it, c not at all. */
static const char chain[] = "g (float[n] x) => (float[n] a, float[n] b, float[n] c)"
                            " { a = Gelu(x) c = Gelu(x) b = Gelu(a) }";

static int n_ranks;
static bool profiled;

static void count(void *user, const tempo_event *event) {
    (void)event;
    ++*(int *)user;
}

static void check_means(tempo_session *s, int rank) {
    int events = 0;
    if (profiled)
        tempo_on_event(s, count, &events);
    OK(s, tempo_average(s, "b"));
    OK(s, tempo_average(s, "a"));
    bind_x(s);
    for (int run = 0; run < RUNS; run++) {
        set_input(rank, run);
        OK(s, tempo_run(s));
        const float *a = get(s, "a"), *b = get(s, "b"), *c = get(s, "c");
        for (int i = 0; i < N; i++) {
            double mean = mean_gelu(n_ranks, run, i);
            EXPECT(near((double)a[i], mean));
            EXPECT(near((double)b[i], gelu(mean)));
            EXPECT(near((double)c[i], gelu(input(rank, run, i))));
        }
    }
    EXPECT((s->kept[0].plan->recordings[0].work != NULL) == !profiled);
    EXPECT(events == (profiled ? 3 * RUNS : 0));
}

/* In the first run launch by launch, then by a recording; reductions as late as can be, or as soon. */
TEST(means) {
    for (int eager = 0; eager < 2; eager++) {
        setenv("EMU_NCCL", eager ? "eager" : "", 1);
        for (n_ranks = 1; n_ranks <= MOST; n_ranks++)
            with_ranks(n_ranks, chain, check_means, check_means);
        profiled = true;
        with_ranks(n_ranks = 2, chain, check_means, check_means);
        profiled = false;
    }
    unsetenv("EMU_NCCL");
}

/* Nodes that are one launch elsewhere are two where the mean comes between them, by whatever name. */
static const char fusing[] = "g (float[n] x) => (float[n] a, float[n] r, float[n] b) <int64[1] all = {-1}>"
                             " { a = Gelu(x) b = Gelu(a) r = Reshape(a, all) }";
static const char *fused_average;

static void check_fused(tempo_session *s, int rank) {
    int events = 0;
    OK(s, tempo_average(s, fused_average));
    tempo_on_event(s, count, &events);
    set_input(rank, 0);
    bind_x(s);
    OK(s, tempo_run(s));
    EXPECT(events == (strcmp(fused_average, "b") == 0 ? 1 : 2));
    for (int i = 0; i < N && events == 2; i++) {
        EXPECT(near((double)get(s, "r")[i], mean_gelu(2, 0, i)));
        EXPECT(near((double)get(s, "b")[i], gelu(mean_gelu(2, 0, i))));
    }
}

TEST(fused) {
    static const char *const averages[] = {"a", "r", "b"};
    for (int i = 0; i < 3; i++) {
        fused_average = averages[i];
        with_ranks(2, fusing, check_fused, check_fused);
    }
}

/* Batches of several lengths: an arena that gives way to a larger one has no recordings left. */
static void check_lengths(tempo_session *s, int rank) {
    static const int64_t lengths[] = {10, N, 10};
    OK(s, tempo_average(s, "a"));
    for (int run = 0; run < 9; run++) {
        const int64_t length = lengths[run / 3];
        tempo_tensor out;
        set_input(rank, run);
        OK(s, tempo_bind(s, "x", &(tempo_tensor){TEMPO_FLOAT, 1, &length, x, (size_t)length * sizeof *x}));
        OK(s, tempo_run(s));
        OK(s, tempo_output(s, "a", &out));
        for (int i = 0; i < length; i++)
            EXPECT(near((double)((const float *)out.data)[i], mean_gelu(2, run, i)));
    }
}

TEST(of_several_lengths) { with_ranks(2, chain, check_lengths, check_lengths); }

/* Every float: the type of elements reaches NCCL. */
static const struct {
    const char *graph;
    tempo_dtype dtype;
    size_t size;
    double error;
} types[] = {
    {"g (double[100] x) => (double[100] a) { a = Gelu(x) }", TEMPO_DOUBLE, 8, 1e-14},
    {"g (float16[100] x) => (float16[100] a) { a = Gelu(x) }", TEMPO_FLOAT16, 2, 0x1p-9},
    {"g (bfloat16[100] x) => (bfloat16[100] a) { a = Gelu(x) }", TEMPO_BFLOAT16, 2, 0x1p-6},
};
static size_t type;

static double number(const void *data, int i) {
    return types[type].size == 8                ? ((const double *)data)[i]
           : types[type].dtype == TEMPO_FLOAT16 ? (double)tk_from_f16(((const uint16_t *)data)[i])
                                                : (double)tk_from_bf16(((const uint16_t *)data)[i]);
}

static void check_type(tempo_session *s, int rank) {
    static union {
        double wide[N];
        uint16_t half[N];
    } elements;
    tempo_tensor out;
    for (int i = 0; i < N; i++) { /* they are of few bits: exact in each type */
        if (types[type].size == 8)
            elements.wide[i] = input(rank, 0, i);
        else
            elements.half[i] = types[type].dtype == TEMPO_FLOAT16 ? tk_to_f16((float)input(rank, 0, i))
                                                                  : tk_to_bf16((float)input(rank, 0, i));
    }
    OK(s, tempo_average(s, "a"));
    OK(s, tempo_bind(s, "x", &(tempo_tensor){types[type].dtype, 1, dims, &elements, N * types[type].size}));
    OK(s, tempo_run(s));
    OK(s, tempo_output(s, "a", &out));
    for (int i = 0; i < N; i++) {
        double wanted = mean_gelu(2, 0, i);
        EXPECT(fabs(number(out.data, i) - wanted) <=
               types[type].error * (fabs(gelu(input(0, 0, i))) + fabs(gelu(input(1, 0, i))) + 1e-3));
    }
}

TEST(of_each_type) {
    for (type = 0; type < sizeof types / sizeof *types; type++)
        with_ranks(2, types[type].graph, check_type, check_type);
}

/* --- ranks that go, or do not come ---------------------------------------------------------------- */

static int runs_before;

static void run_some(tempo_session *s, int rank, int runs) {
    set_input(rank, 0);
    bind_x(s);
    OK(s, tempo_average(s, "a"));
    for (int i = 0; i < runs; i++)
        OK(s, tempo_run(s));
}

static void go(tempo_session *s, int rank) {
    run_some(s, rank, runs_before);
    _exit(0);
}

static void go_apart(tempo_session *s, int rank) {
    run_some(s, rank, runs_before);
    rt_part(s);
    FAILS(s, TEMPO_USAGE, tempo_run(s), "this session left its ranks when a run failed");
}

static void miss(tempo_session *s, int rank) {
    run_some(s, rank, runs_before);
    FAILS(s, TEMPO_IO, tempo_run(s),
          rank == 0
              ? "rank 0 of 2: the mean of 'a' did not come: a peer rank was lost: remote process exited or there was"
              : "rank 1 of 2: the mean of 'a' did not come: a peer rank was lost");
    FAILS(s, TEMPO_USAGE, tempo_run(s), "this session left its ranks when a run failed");
}

TEST(gone) {
    for (runs_before = 0; runs_before < 3; runs_before++) { /* before any, and from a recording */
        with_ranks(2, chain, miss, go);
        with_ranks(2, chain, miss, go_apart);
    }
}

static int alarm_clock[2]; /* a pipe: the late rank waits until it is closed */

static void come_late(tempo_session *s, int rank) {
    char byte;
    close(alarm_clock[1]);
    run_some(s, rank, runs_before);
    EXPECT(read(alarm_clock[0], &byte, 1) == 0);
    FAILS(s, TEMPO_IO, tempo_run(s), "a peer rank was lost");
}

static void lose_patience(tempo_session *s, int rank) {
    close(alarm_clock[0]);
    run_some(s, rank, runs_before);
    FAILS(s, TEMPO_IO, tempo_run(s),
          "rank 0 of 2: the mean of 'a' did not come: the other ranks did not come within 0.2 s");
    close(alarm_clock[1]);
}

TEST(late) {
    setenv("EMU_NCCL_SECONDS", "0.1", 1);
    patience = 0.2;
    for (runs_before = 0; runs_before < 3; runs_before += 2) {
        EXPECT(pipe(alarm_clock) == 0);
        with_ranks(2, chain, lose_patience, come_late);
    }
    patience = 0;
    unsetenv("EMU_NCCL_SECONDS");
}

/* Out of memory on its way: nothing can be said of its plans, but its recordings go, or NCCL would wait for them. */
static void get_lost(tempo_session *s, int rank) {
    run_some(s, rank, runs_before);
    s->lost = TC_LIMIT;
}

TEST(lost) {
    for (runs_before = 1; runs_before < 3; runs_before++)
        with_ranks(2, chain, miss, get_lost);
    with_ranks(2, chain, get_lost, get_lost);
}

/* A session that is alone again may join a new group. */
static void join_again(tempo_session *s, int rank) {
    tempo_group group;
    run_some(s, rank, 2);
    rt_part(s);
    OK(s, tempo_new_group(s, &group));
    OK(s, tempo_join(s, &group, 0, 1));
    OK(s, tempo_run(s));
    for (int i = 0; i < N; i++)
        EXPECT(near((double)get(s, "a")[i], gelu(input(rank, 0, i))));
}

TEST(again) { with_ranks(2, chain, join_again, join_again); }

/* --- diagnostics ------------------------------------------------------------------------------- */

static void refused(tempo_session *s, int rank) {
    (void)rank;
    bind_x(s);
    OK(s, tempo_average(s, "a"));
    setenv("EMU_NCCL", "refuses", 1);
    FAILS(s, TEMPO_IO, tempo_run(s), "the mean of 'a' did not come: ncclAllReduce: internal error: as it was told to");
    unsetenv("EMU_NCCL");
}

TEST(refusing) { with_ranks(2, chain, refused, refused); }

/* Ranks of other shapes, or that average other outputs, all tell, before anything is mixed up. */
static bool of_other_shapes;

static void disagree(tempo_session *s, int rank) {
    static const int64_t fewer[] = {N - 1};
    bool is_small = rank == 1 && of_other_shapes;
    OK(s, tempo_average(s, rank == 1 && !of_other_shapes ? "c" : "a"));
    OK(s,
       tempo_bind(s, "x",
                  &(tempo_tensor){TEMPO_FLOAT, 1, is_small ? fewer : dims, x, sizeof x - (is_small ? sizeof *x : 0)}));
    FAILS(s, TEMPO_USAGE, tempo_run(s),
          rank == 0 ? "rank 1 of 2 averages other values than rank 0"
                    : "rank 0 of 2 averages other values than rank 1");
    FAILS(s, TEMPO_USAGE, tempo_run(s), "this session left its ranks");
}

TEST(disagreeing) {
    for (int i = 0; i < 2; i++) {
        of_other_shapes = i == 1;
        with_ranks(2, chain, disagree, disagree);
    }
}

TEST(no_library) {
    tempo_group group = {{0}};
    const char *name = rt_nccl_library;
    tempo_session *s = open_emulated(chain);
    rt_nccl_library = "libnccl-none.so";
    FAILS(s, TEMPO_UNSUPPORTED, tempo_new_group(s, &group), "ranks need NCCL, but it was not found: libnccl-none");
    FAILS(s, TEMPO_UNSUPPORTED, tempo_join(s, &group, 0, 2), "hint: add its folder to LD_LIBRARY_PATH");
    rt_nccl_library = "libm.so.6";
    FAILS(s, TEMPO_UNSUPPORTED, tempo_new_group(s, &group), "ranks need NCCL 2.14: the one here has no ncclGetVersion");
    rt_nccl_library = name;
    setenv("EMU_NCCL", "old", 1);
    FAILS(s, TEMPO_UNSUPPORTED, tempo_join(s, &group, 0, 2),
          "ranks need NCCL 2.14: the one here has version code 21212");
    unsetenv("EMU_NCCL");
    tempo_close(s);
}

TEST(nobody_there) {
    tempo_group group, other = {{3}};
    patience = 0.2;
    tempo_session *s = open_emulated(chain);
    patience = 0;
    OK(s, tempo_new_group(s, &group));
    FAILS(s, TEMPO_IO, tempo_join(s, &group, 0, 2),
          "rank 0 of 2 cannot join: the other ranks did not come within 0.2 s");
    FAILS(s, TEMPO_IO, tempo_join(s, &group, 1, 2),
          "rank 1 of 2 cannot join: the other ranks did not come within 0.2 s");
    FAILS(s, TEMPO_IO, tempo_join(s, &other, 1, 2),
          "rank 1 of 2 cannot join: ncclCommInitRank: unhandled system error: the ranks do not find each other");
    setenv("EMU_DEVICES", "0", 1);
    FAILS(s, TEMPO_UNSUPPORTED, tempo_join(s, &group, 0, 2), "there is no second stream: no CUDA-capable device");
    unsetenv("EMU_DEVICES");
    tempo_close(s);
}

/* As many as the double can have, in a process of its own. */
TEST(no_group) {
    int status = 0;
    fflush(NULL);
    if (fork() == 0) {
        tempo_group group;
        tempo_session *s = open_emulated(chain);
        in_child = true;
        for (int i = 0; i < 64 && tempo_new_group(s, &group) == TEMPO_OK; i++)
            ;
        FAILS(s, TEMPO_IO, tempo_new_group(s, &group), "no group of ranks can be made: unhandled system error");
        tempo_close(s);
        exit(0);
    }
    EXPECT(wait(&status) > 0);
    EXPECT(status == 0);
}

/* --- the double ------------------------------------------------------------------------------- */

#define IS(result, call) EXPECT((call) == (result))

/* What NCCL says when it is done. */
static ncclResult_t done(ncclComm_t comm, ncclResult_t result) {
    while (result == ncclInProgress)
        IS(ncclSuccess, ncclCommGetAsyncError(comm, &result));
    return result;
}

static ncclResult_t begin_to_meet(ncclComm_t *comm, int n, ncclUniqueId id, int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return ncclCommInitRankConfig(comm, n, id, rank, &config);
}

static ncclResult_t meet(ncclComm_t *comm, int n, ncclUniqueId id, int rank) {
    ncclResult_t result = begin_to_meet(comm, n, id, rank);
    return done(*comm, result);
}

/* A communicator of one: its mean is what was there. */
TEST(strictness) {
    static const float one = 1;
    ncclComm_t comm;
    ncclUniqueId id;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float *memory, back = 0;
    ncclResult_t error;
    emu_quiet = true;
    IS(cudaSuccess, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    IS(cudaSuccess, cudaMalloc((void **)&memory, sizeof *memory));
    IS(ncclSuccess, ncclGetUniqueId(&id));
    IS(ncclInvalidArgument, begin_to_meet(&comm, 1, id, 1));
    IS(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &(ncclConfig_t)NCCL_CONFIG_INITIALIZER));
    IS(ncclSuccess, ncclGroupStart());
    IS(ncclInvalidUsage, begin_to_meet(&comm, 1, id, 0));
    IS(ncclSuccess, ncclGroupEnd());
    IS(ncclInvalidUsage, ncclGroupEnd());
    IS(ncclInProgress, begin_to_meet(&comm, 1, id, 0));
    IS(ncclInvalidArgument, ncclAllReduce(memory, memory, 1, ncclFloat32, ncclAvg, comm, stream));
    EXPECT(emu_complained("has not done what it was asked for before"));
    emu_forget();
    IS(ncclSuccess, done(comm, ncclInProgress));
    IS(ncclInvalidArgument, ncclAllReduce(&back, &back, 1, ncclFloat32, ncclAvg, comm, stream)); /* the host's */
    IS(ncclInvalidArgument, ncclAllReduce(memory, memory, 1, ncclFloat32, (ncclRedOp_t)2, comm, stream));
    IS(ncclInvalidArgument, ncclAllReduce(memory, memory, 1, (ncclDataType_t)2, ncclAvg, comm, stream));

    IS(ncclSuccess,
       done(comm, ncclAllReduce(memory, memory, 1, ncclFloat32, ncclAvg, comm, stream))); /* nobody wrote it */
    EXPECT(emu_findings() == 0);
    IS(cudaSuccess, cudaStreamSynchronize(stream));
    EXPECT(emu_complained("what is sent"));
    emu_forget();

    IS(cudaSuccess, cudaMemcpyAsync(memory, &one, sizeof one, cudaMemcpyHostToDevice, stream));
    IS(ncclSuccess, done(comm, ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, comm, stream)));
    IS(ncclSuccess, ncclCommGetAsyncError(comm, &error));
    IS(ncclSuccess, error);
    IS(cudaSuccess, cudaMemcpyAsync(&back, memory, sizeof one, cudaMemcpyDeviceToHost, stream));
    IS(cudaSuccess, cudaStreamSynchronize(stream));
    EXPECT(back == 1);
    EXPECT(emu_findings() == 0);

    IS(cudaSuccess, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    IS(ncclSuccess, done(comm, ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, comm, stream)));
    IS(cudaSuccess, cudaStreamEndCapture(stream, &graph));
    IS(cudaSuccess, cudaGraphInstantiate(&exec, graph, 0));
    IS(cudaSuccess, cudaGraphDestroy(graph));
    IS(ncclSuccess, done(comm, ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, comm, stream)));
    IS(ncclSuccess, ncclCommDestroy(comm));
    EXPECT(emu_complained("the communicator is not finalized"));
    EXPECT(emu_complained("graphs hold 1 operations of the communicator"));
    EXPECT(emu_complained("1 operations of the communicator have not run"));
    emu_forget();
    IS(cudaSuccess, cudaGraphExecDestroy(exec));
    IS(cudaSuccess, cudaStreamDestroy(stream));
    IS(cudaSuccess, cudaFree(memory));
    emu_quiet = false;
}

/* Who waits without asking waits for ever, with each call that waits. */
static void hang_on(tempo_session *s, int rank) {
    static const float one = 1;
    ncclComm_t comm;
    ncclUniqueId id;
    cudaStream_t stream;
    cudaEvent_t event;
    float *memory;
    ncclResult_t error;
    (void)s, (void)rank;
    emu_quiet = true;
    setenv("EMU_NCCL_SECONDS", "0.1", 1);
    memcpy(&id, x, sizeof id);
    IS(ncclSuccess, meet(&comm, 2, id, 0));
    IS(cudaSuccess, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    IS(cudaSuccess, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    IS(cudaSuccess, cudaMalloc((void **)&memory, sizeof *memory));
    IS(cudaSuccess, cudaMemcpyAsync(memory, &one, sizeof one, cudaMemcpyHostToDevice, stream));
    IS(ncclSuccess, done(comm, ncclAllReduce(memory, memory, 1, ncclFloat32, ncclAvg, comm, stream)));
    IS(cudaSuccess, cudaEventRecord(event, stream));
    for (int i = 0; i < 3; i++)
        IS(cudaErrorNotReady, cudaStreamQuery(stream));
    IS(ncclSuccess, ncclCommGetAsyncError(comm, &error));
    IS(ncclRemoteError, error);
    EXPECT(emu_findings() == 0);
    IS(cudaErrorUnknown, cudaStreamSynchronize(stream));
    EXPECT(emu_complained("cudaStreamSynchronize: it waits for ever"));
    IS(cudaErrorUnknown, cudaDeviceSynchronize());
    IS(cudaErrorUnknown, cudaEventSynchronize(event));
    EXPECT(emu_complained("cudaDeviceSynchronize: it waits for ever") &&
           emu_complained("cudaEventSynchronize: it waits for ever"));
    IS(ncclSuccess, ncclCommAbort(comm));
    IS(ncclInvalidArgument, ncclCommAbort(comm));
    IS(cudaSuccess, cudaStreamSynchronize(stream));
    (void)cudaGetLastError();
    IS(cudaSuccess, cudaEventDestroy(event));
    IS(cudaSuccess, cudaFree(memory));
    IS(cudaSuccess, cudaStreamDestroy(stream));
    unsetenv("EMU_NCCL_SECONDS");
    emu_forget();
    emu_quiet = false;
}

/* A reduction of ranks that disagree is a finding of both, and none goes on. */
static void mix_up(tempo_session *s, int rank) {
    ncclComm_t comm;
    ncclUniqueId id;
    ncclResult_t error;
    cudaStream_t stream;
    float *memory;
    (void)s;
    emu_quiet = true;
    memcpy(&id, x, sizeof id);
    IS(ncclSuccess, meet(&comm, 2, id, rank));
    IS(cudaSuccess, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    IS(cudaSuccess, cudaMalloc((void **)&memory, sizeof x));
    IS(cudaSuccess, cudaMemcpyAsync(memory, x, sizeof x, cudaMemcpyHostToDevice, stream));
    IS(ncclSuccess, done(comm, ncclAllReduce(memory, memory, N - (size_t)rank, ncclFloat32, ncclAvg, comm, stream)));
    while (!emu_hangs())
        IS(cudaErrorNotReady, cudaStreamQuery(stream));
    IS(ncclSuccess, ncclCommGetAsyncError(comm, &error));
    IS(ncclRemoteError, error);
    EXPECT(emu_complained(rank ? "rank 1 reduces 99 elements of type 7 by operation 4, rank 0 100 of type 7 by 4"
                               : "rank 0 reduces 100 elements of type 7 by operation 4, rank 1 99 of type 7 by 4"));
    IS(ncclSuccess, ncclCommAbort(comm));
    (void)cudaGetLastError();
    IS(cudaSuccess, cudaFree(memory));
    IS(cudaSuccess, cudaStreamDestroy(stream));
    emu_forget();
    emu_quiet = false;
}

static void join_and_go(tempo_session *s, int rank) {
    ncclComm_t comm;
    ncclUniqueId id;
    (void)s;
    memcpy(&id, x, sizeof id);
    IS(ncclSuccess, meet(&comm, 2, id, rank));
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
}

static void on_nccl(rank_fn first, rank_fn others) {
    ncclUniqueId id;
    EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
    memcpy(x, &id, sizeof id);
    with_ranks(2, chain, first, others);
}

TEST(hanging) { on_nccl(hang_on, join_and_go); }

TEST(mixing) { on_nccl(mix_up, mix_up); }
