/* test_doubles.c: the double of the CUDA runtime refuses what CUDA refuses, and does nothing before somebody waits. */
#include "test/unit/cases.h"
#include "cuda_work.h"
#include "test/cuda/emulation/emulation_calls.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call) assert_int_equal(call, cudaSuccess)
#define FAILS(error, call)                                                                                             \
    do {                                                                                                               \
        assert_int_equal(call, error);                                                                                 \
        assert_int_equal(cudaGetLastError(), error);                                                                   \
    } while (0)

enum { N = 64, BYTES = N * sizeof(int) };

/* What most tests need. */
typedef struct setting {
    cudaStream_t stream, other;
    int *device, *second; /* [N], not written */
    int *pinned, *back;   /* [N], of the host */
} setting;

static int set_up(void **state) {
    setting *s = malloc(sizeof *s);
    emu_quiet = true;
    OK(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&s->other, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&s->device, BYTES));
    OK(cudaMalloc((void **)&s->second, BYTES));
    OK(cudaMallocHost((void **)&s->pinned, BYTES));
    OK(cudaMallocHost((void **)&s->back, BYTES));
    for (int i = 0; i < N; i++)
        s->pinned[i] = i;
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    setting *s = *state;
    emu_reset_device();
    OK(cudaFree(s->device));
    OK(cudaFree(s->second));
    OK(cudaFreeHost(s->pinned));
    OK(cudaFreeHost(s->back));
    OK(cudaStreamDestroy(s->stream));
    OK(cudaStreamDestroy(s->other));
    free(s);
    return 0;
}

static void upload(setting *s, int *to, const int *from) {
    OK(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyHostToDevice, s->stream));
}

static void download(setting *s, int *to, const int *from) {
    OK(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDeviceToHost, s->stream));
}

static cudaGraphExec_t end_capture(cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    return exec;
}

/* --- a kernel: adds a number to N integers, through the emulation's hooks -------------------------- */

typedef struct addition {
    int *at, number;
} addition;

static void add_number(const void *f) {
    const addition *a = f;
    for (int i = 0; i < N; i++)
        emu_store(a->at + i, emu_load(a->at + i, sizeof(int)) + (uint64_t)a->number, sizeof(int));
}

static void drop(const void *f) { free((void *)f); }

static void launch_sized(void *stream, int *at, int number, emu_dim3 grid, emu_dim3 block, size_t shared) {
    addition *a = malloc(sizeof *a);
    *a = (addition){at, number};
    emu_queue("add_number", grid, block, shared, stream, (const void *)(uintptr_t)add_number, add_number, drop, a);
}

static void launch(void *stream, int *at, int number) {
    launch_sized(stream, at, number, (emu_dim3){1, 1, 1}, (emu_dim3){1, 1, 1}, 0);
}

/* --- devices and errors ------------------------------------------------------------------------ */

/* Launches go to streams of the thread's device, and events are recorded on streams of their own. */
static void check_streams_device(void) {
    cudaStream_t stream;
    cudaEvent_t event;
    int number = 0;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaSetDevice(1));
    OK(cudaEventCreate(&event));
    emu_quiet = true;
    launch(stream, &number, 1);
    emu_quiet = false;
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(event, stream));
    OK(cudaSetDevice(0));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(number, 0);
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(stream));
}

TEST(devices) {
    int n = 7, version = 0, value = 0;
    size_t left = 0, total = 0;
    struct cudaDeviceProp p;
    void *memory;
    OK(cudaGetDeviceCount(&n));
    assert_int_equal(n, 1);
    OK(cudaGetDeviceProperties(&p, 0));
    assert_int_equal(p.major, 9);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    assert_int_equal(value, p.sharedMemPerBlockOptin);
    FAILS(cudaErrorInvalidDevice, cudaSetDevice(1));
    OK(cudaRuntimeGetVersion(&version));
    assert_int_equal(version, 13000);
    setenv("EMU_DEVICES", "2", 1);
    OK(cudaSetDevice(1));
    OK(cudaSetDevice(0));
    check_streams_device();
    setenv("EMU_DEVICES", "0", 1);
    FAILS(cudaErrorNoDevice, cudaGetDeviceCount(&n));
    assert_int_equal(n, 0);
    FAILS(cudaErrorNoDevice, cudaMalloc(&memory, 1));
    setenv("EMU_DEVICES", "-1", 1);
    FAILS(cudaErrorInsufficientDriver, cudaGetDeviceCount(&n));
    OK(cudaDriverGetVersion(&version));
    assert_int_equal(version, 12040);
    unsetenv("EMU_DEVICES");
    OK(cudaMemGetInfo(&left, &total));
    assert_int_equal(total, (size_t)2 << 30);
    assert_string_equal(cudaGetErrorName(cudaErrorNoDevice), "cudaErrorNoDevice");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorString((cudaError_t)12345), "unrecognized error code");
}

TEST(memory) {
    void *a, *b;
    int here;
    size_t left, total, now;
    setenv("EMU_MEMORY", "10000", 1);
    OK(cudaMemGetInfo(&left, &total));
    assert_int_equal(total, 10000);
    OK(cudaMalloc(&a, 5000));
    OK(cudaMemGetInfo(&now, &total));
    assert_int_equal(left - now, 5120);
    FAILS(cudaErrorMemoryAllocation, cudaMalloc(&b, 5000));
    assert_null(b);
    OK(cudaFree(a));
    OK(cudaMalloc(&b, 5000));
    OK(cudaFree(b));
    unsetenv("EMU_MEMORY");
    OK(cudaMalloc(&a, 0));
    assert_null(a);
    OK(cudaFree(NULL));
    FAILS(cudaErrorInvalidValue, cudaFree(&here));
    FAILS(cudaErrorInvalidValue, cudaFreeHost(&here));
}

/* --- streams ---------------------------------------------------------------------------------- */

TEST_WITH(nothing_runs_before_a_wait, set_up, tear_down) {
    setting *s = *test_state;
    memset(s->back, 0, BYTES);
    upload(s, s->device, s->pinned);
    launch(s->stream, s->device, 100);
    download(s, s->back, s->device);
    s->pinned[5] = 1000; /* pinned memory is read when the copy runs */
    assert_int_equal(s->back[5], 0);
    OK(cudaStreamSynchronize(s->other));
    assert_int_equal(s->back[5], 0);
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(s->back[4], 104);
    assert_int_equal(s->back[5], 1100);
    assert_int_equal(emu_findings(), 0);
}

TEST_WITH(pageable_memory_is_read_at_once, set_up, tear_down) {
    setting *s = *test_state;
    int pageable[N] = {1, 2, 3};
    upload(s, s->device, pageable);
    pageable[1] = 50;
    download(s, pageable, s->device);
    assert_int_equal(pageable[1], 50);
    OK(cudaDeviceSynchronize());
    assert_int_equal(pageable[1], 2);
}

TEST_WITH(copies, set_up, tear_down) {
    setting *s = *test_state;
    int here[N];
    download(s, here, s->device);
    OK(cudaStreamSynchronize(s->stream));
    assert_true(emu_complained("from the device"));
    emu_reset_device();
    OK(cudaMemsetAsync(s->device, 0, BYTES - 1, s->stream)); /* all but one byte */
    OK(cudaMemcpyAsync(s->second, s->device, BYTES - 1, cudaMemcpyDeviceToDevice, s->stream));
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(emu_findings(), 0);
    OK(cudaMemcpyAsync(s->second, s->device, BYTES, cudaMemcpyDeviceToDevice, s->stream));
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(emu_findings(), 1);
    FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(s->device, here, BYTES + 1, cudaMemcpyHostToDevice, s->stream));
    FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(here, s->pinned, BYTES, cudaMemcpyDeviceToHost, s->stream));
    FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(s->device, s->second, BYTES, cudaMemcpyHostToDevice, s->stream));
    FAILS(cudaErrorInvalidValue, cudaMemsetAsync(here, 0, BYTES, s->stream));
    OK(cudaMemset(s->device, 7, BYTES));
    OK(cudaMemcpy(here, s->device, BYTES, cudaMemcpyDefault));
    assert_int_equal(here[N - 1], 0x07070707);
}

/* What is given back is waited for; what a graph will still want is not there any more. */
TEST_WITH(memory_that_is_given_back, set_up, tear_down) {
    setting *s = *test_state;
    int *short_lived;
    OK(cudaMalloc((void **)&short_lived, BYTES));
    upload(s, short_lived, s->pinned);
    download(s, s->back, short_lived);
    OK(cudaFree(short_lived));
    assert_int_equal(s->back[1], 1);
    assert_int_equal(emu_findings(), 0);
    OK(cudaMalloc((void **)&short_lived, BYTES));
    OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeGlobal));
    upload(s, short_lived, s->pinned);
    cudaGraphExec_t exec = end_capture(s->stream);
    OK(cudaFree(short_lived));
    OK(cudaGraphLaunch(exec, s->stream));
    OK(cudaStreamSynchronize(s->stream));
    assert_true(emu_complained("given back"));
    OK(cudaGraphExecDestroy(exec));
}

/* Whoever does not ask for findings still ends with an error. */
TEST_WITH(findings_are_an_exit_code, set_up, tear_down) {
    setting *s = *test_state;
    for (int written = 0; written < 2; written++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            if (written)
                upload(s, s->device, s->pinned);
            download(s, s->back, s->device);
            cudaStreamSynchronize(s->stream);
            exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), written ? 0 : 86);
    }
}

TEST_WITH(events, set_up, tear_down) {
    setting *s = *test_state;
    cudaEvent_t first, second, untimed;
    float ms = -1;
    OK(cudaEventCreate(&first));
    OK(cudaEventCreate(&second));
    OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    OK(cudaEventSynchronize(first)); /* never recorded */
    FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, first, second));
    OK(cudaEventRecord(first, s->stream));
    upload(s, s->device, s->pinned);
    OK(cudaEventRecord(second, s->stream));
    launch(s->stream, s->device, 1);
    FAILS(cudaErrorNotReady, cudaEventElapsedTime(&ms, first, second));
    OK(cudaStreamWaitEvent(s->other, second, 0));
    OK(cudaMemcpyAsync(s->back, s->device, BYTES, cudaMemcpyDeviceToHost, s->other));
    OK(cudaStreamSynchronize(s->other));
    assert_int_equal(s->back[3], 3); /* what is behind the event has not run */
    OK(cudaEventElapsedTime(&ms, first, second));
    assert_true(ms >= 0 && ms < 1e5f);
    OK(cudaEventRecord(untimed, s->stream));
    FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, first, untimed));
    int asked = 0;
    while (cudaEventQuery(untimed) == cudaErrorNotReady)
        asked++;
    assert_int_equal(asked, 2); /* a launch and the event itself */
    OK(cudaStreamQuery(s->stream));
    OK(cudaEventDestroy(first));
    OK(cudaEventDestroy(second));
    OK(cudaEventDestroy(untimed));
    assert_int_equal(emu_findings(), 0);
}

TEST_WITH(legacy_stream, set_up, tear_down) {
    setting *s = *test_state;
    cudaStream_t blocking;
    OK(cudaStreamCreate(&blocking));
    OK(cudaMemsetAsync(s->device, 1, BYTES, blocking));
    OK(cudaMemcpyAsync(s->back, s->device, BYTES, cudaMemcpyDeviceToHost, NULL)); /* waits for the other */
    OK(cudaStreamSynchronize(NULL));
    assert_int_equal(s->back[0], 0x01010101);
    OK(cudaMemsetAsync(s->device, 2, BYTES, NULL));
    OK(cudaMemcpyAsync(s->back, s->device, BYTES, cudaMemcpyDeviceToHost, blocking)); /* and the other for it */
    OK(cudaStreamSynchronize(blocking));
    assert_int_equal(s->back[0], 0x02020202);
    assert_int_equal(emu_findings(), 0);
    OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    FAILS(cudaErrorStreamCaptureImplicit, cudaMemsetAsync(s->device, 1, BYTES, NULL));
    OK(cudaStreamDestroy(blocking));
}

/* --- launches --------------------------------------------------------------------------------- */

TEST_WITH(launches_that_cannot_be, set_up, tear_down) {
    setting *s = *test_state;
    static const struct {
        emu_dim3 grid, block;
        size_t shared;
        cudaError_t error;
    } cases[] = {
        {{0, 1, 1}, {32, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 65536, 1}, {32, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 65536}, {32, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{0x80000000u, 1, 1}, {32, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1025, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {64, 17, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1, 1, 65}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1, 0, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1, 1, 1}, (48 << 10) + 1, cudaErrorInvalidValue},
        {{1, 1, 1}, {1, 1, 1}, 48 << 10, cudaSuccess},
    };
    upload(s, s->device, s->pinned);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        launch_sized(s->stream, s->device, 1, cases[i].grid, cases[i].block, cases[i].shared);
        assert_int_equal(cudaGetLastError(), cases[i].error);
    }
    const void *kernel = (const void *)(uintptr_t)add_number;
    const enum cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    FAILS(cudaErrorInvalidValue, cudaFuncSetAttribute(kernel, most, (227 << 10) + 1));
    OK(cudaFuncSetAttribute((const void *)(uintptr_t)drop, most, 227 << 10)); /* another's */
    launch_sized(s->stream, s->device, 1, (emu_dim3){1, 1, 1}, (emu_dim3){1, 1, 1}, 100 << 10);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(kernel, most, 100 << 10));
    launch_sized(s->stream, s->device, 1, (emu_dim3){1, 1, 1}, (emu_dim3){1, 1, 1}, 100 << 10);
    OK(cudaPeekAtLastError());
    launch_sized(s->stream, s->device, 1, (emu_dim3){1, 1, 1}, (emu_dim3){1, 1, 1}, (100 << 10) + 1);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    download(s, s->back, s->device);
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(s->back[10], 12); /* the two that could be */
}

TEST_WITH(a_fault_stays, set_up, tear_down) {
    setting *s = *test_state;
    upload(s, s->device, s->pinned);
    launch(s->stream, s->device + 1, 1); /* one element too far */
    OK(cudaPeekAtLastError());
    download(s, s->back, s->device);
    memset(s->back, 0, BYTES);
    assert_int_equal(cudaStreamSynchronize(s->stream), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress); /* not forgotten */
    assert_int_equal(cudaMemsetAsync(s->device, 0, BYTES, s->stream), cudaErrorIllegalAddress);
    assert_int_equal(s->back[1], 0); /* nothing ran behind it */
    assert_true(emu_findings() > 0);
}

TEST_WITH(declared_spans, set_up, tear_down) {
    setting *s = *test_state;
    const emu_span half[] = {{s->device, BYTES / 2, true}, {s->device + N / 2, BYTES / 2, false}};
    upload(s, s->device, s->pinned);
    emu_declare(s->stream, half, 2);
    OK(cudaMemcpyAsync(s->back, s->device, BYTES, cudaMemcpyDeviceToHost, s->stream));
    OK(cudaMemsetAsync(s->device, 0, BYTES / 2, s->stream));
    OK(cudaMemsetAsync(s->second, 0, BYTES, s->other)); /* another stream's work */
    OK(cudaDeviceSynchronize());
    assert_int_equal(emu_findings(), 0);
    OK(cudaMemsetAsync(s->device, 0, BYTES / 2 + 1, s->stream));
    OK(cudaStreamSynchronize(s->stream));
    assert_true(emu_complained("to be written"));
    emu_reset_device();
    emu_declare(s->stream, half, 1);
    OK(cudaMemcpyAsync(s->back, s->device, BYTES, cudaMemcpyDeviceToHost, s->stream));
    OK(cudaStreamSynchronize(s->stream));
    assert_true(emu_complained("to be read"));
    emu_reset_device();
    emu_declare(s->stream, half, 2);
    launch(s->stream, s->device, 1);
    cudaStreamSynchronize(s->stream);
    assert_true(emu_findings() > 0);
    emu_reset_device();
    emu_declare(s->stream, half, 2);
    emu_declare(s->stream, NULL, 0);
    launch(s->stream, s->device, 1);
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(emu_findings(), 0);
}

/* --- captures and graphs ---------------------------------------------------------------------- */

TEST_WITH(graphs_read_again, set_up, tear_down) {
    setting *s = *test_state;
    size_t nodes = 0;
    memset(s->back, 0, BYTES);
    OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeGlobal));
    upload(s, s->device, s->pinned);
    launch(s->stream, s->device, 1);
    download(s, s->back, s->device);
    cudaGraph_t graph;
    OK(cudaStreamEndCapture(s->stream, &graph));
    OK(cudaGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 3);
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(s->back[7], 0); /* captured work did not run */
    OK(cudaGraphUpload(exec, s->stream));
    for (int i = 0; i < 3; i++) {
        s->pinned[7] = 70 + i;
        OK(cudaGraphLaunch(exec, s->stream));
        assert_int_equal(s->back[7], i == 0 ? 0 : 70 + i);
        OK(cudaStreamSynchronize(s->stream));
        assert_int_equal(s->back[7], 71 + i);
    }
    OK(cudaGraphLaunch(exec, s->stream));
    OK(cudaGraphExecDestroy(exec)); /* what was launched still runs */
    s->pinned[7] = 7;
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(s->back[7], 8);
    assert_int_equal(emu_findings(), 0);
}

TEST_WITH(declared_in_a_graph, set_up, tear_down) {
    setting *s = *test_state;
    const emu_span span = {s->device, BYTES, true};
    OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeGlobal));
    emu_declare(s->stream, &span, 1);
    OK(cudaMemsetAsync(s->device, 0, BYTES, s->stream));
    cudaGraphExec_t right = end_capture(s->stream);
    OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeGlobal));
    emu_declare(s->stream, &span, 1);
    OK(cudaMemsetAsync(s->second, 0, BYTES, s->stream));
    cudaGraphExec_t wrong = end_capture(s->stream);
    OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(s->second, 0, BYTES, s->stream));
    cudaGraphExec_t silent = end_capture(s->stream);
    OK(cudaGraphLaunch(right, s->stream));
    OK(cudaGraphLaunch(silent, s->stream));
    OK(cudaMemsetAsync(s->second, 0, BYTES, s->stream)); /* behind the graph anything is allowed again */
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(emu_findings(), 0);
    OK(cudaGraphLaunch(wrong, s->stream));
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(emu_findings(), 1);
    emu_reset_device();
    emu_declare(s->stream, &span, 1); /* holds for a graph that says nothing */
    OK(cudaGraphLaunch(silent, s->stream));
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(emu_findings(), 1);
    OK(cudaGraphExecDestroy(right));
    OK(cudaGraphExecDestroy(wrong));
    OK(cudaGraphExecDestroy(silent));
}

static cudaError_t wait_stream(setting *s) { return cudaStreamSynchronize(s->stream); }
static cudaError_t wait_other(setting *s) { return cudaStreamSynchronize(s->other); }
static cudaError_t wait_device(setting *s) { return (void)s, cudaDeviceSynchronize(); }
static cudaError_t query(setting *s) { return cudaStreamQuery(s->stream); }
static cudaError_t allocate(setting *s) {
    void *p = NULL;
    cudaError_t error = cudaMalloc(&p, 1);
    (void)s;
    return error == cudaSuccess ? cudaFree(p) : error;
}
static cudaError_t allocate_host(setting *s) {
    void *p = NULL;
    cudaError_t error = cudaMallocHost(&p, 1);
    (void)s;
    return error == cudaSuccess ? cudaFreeHost(p) : error;
}
static cudaError_t free_nothing(setting *s) { return (void)s, cudaFree(NULL); }
static cudaError_t copy_pageable(setting *s) {
    int here[N];
    return cudaMemcpyAsync(here, s->device, BYTES, cudaMemcpyDeviceToHost, s->stream);
}
static cudaError_t copy_and_wait(setting *s) { return cudaMemcpy(s->device, s->pinned, BYTES, cudaMemcpyHostToDevice); }

TEST_WITH(captures_refuse, set_up, tear_down) {
    setting *s = *test_state;
    static const struct {
        cudaError_t (*call)(setting *s);
        cudaError_t relaxed;
    } cases[] = {
        {wait_stream, cudaErrorStreamCaptureUnsupported},
        {wait_other, cudaSuccess},
        {wait_device, cudaErrorStreamCaptureUnsupported},
        {query, cudaErrorStreamCaptureUnsupported},
        {allocate, cudaSuccess},
        {allocate_host, cudaSuccess},
        {free_nothing, cudaSuccess},
        {copy_pageable, cudaErrorStreamCaptureUnsupported},
        {copy_and_wait, cudaSuccess},
    };
    for (int mode = 0; mode < 3; mode++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            const cudaError_t error = mode == 2 ? cases[i].relaxed : cudaErrorStreamCaptureUnsupported;
            cudaGraph_t graph;
            enum cudaStreamCaptureStatus status;
            OK(cudaStreamBeginCapture(s->stream, (enum cudaStreamCaptureMode)mode));
            assert_int_equal(cases[i].call(s), error);
            OK(cudaStreamIsCapturing(s->stream, &status));
            assert_int_equal(status, error ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive);
            if (error)
                assert_int_equal(cudaMemsetAsync(s->device, 0, 1, s->stream), cudaErrorStreamCaptureInvalidated);
            assert_int_equal(cudaStreamEndCapture(s->stream, &graph), error ? cudaErrorStreamCaptureInvalidated : 0);
            assert_int_equal(!graph, error != 0);
            if (graph)
                OK(cudaGraphDestroy(graph));
            OK(cudaStreamIsCapturing(s->stream, &status));
            assert_int_equal(status, cudaStreamCaptureStatusNone);
        }
    FAILS(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
    cudaGraph_t graph;
    FAILS(cudaErrorInvalidValue, cudaStreamEndCapture(s->stream, &graph));
}

TEST_WITH(graphs_fork_and_join, set_up, tear_down) {
    setting *s = *test_state;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    for (int joined = 0; joined < 3; joined++) { /* not at all, too early, as it should be */
        OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
        upload(s, s->device, s->pinned);
        OK(cudaEventRecord(fork, s->stream));
        OK(cudaStreamWaitEvent(s->other, fork, 0));
        if (joined == 1)
            OK(cudaEventRecord(join, s->other));
        OK(cudaMemcpyAsync(s->second, s->device, BYTES, cudaMemcpyDeviceToDevice, s->other));
        FAILS(cudaErrorCapturedEvent, cudaEventSynchronize(fork));
        if (joined == 2)
            OK(cudaEventRecord(join, s->other));
        OK(cudaMemsetAsync(s->device, 0, 1, s->stream)); /* nothing orders this and the other's copy */
        if (joined > 0)
            OK(cudaStreamWaitEvent(s->stream, join, 0));
        download(s, s->back, s->second);
        assert_int_equal(cudaStreamEndCapture(s->stream, &graph), joined < 2 ? cudaErrorStreamCaptureUnjoined : 0);
    }
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphLaunch(exec, s->stream));
    OK(cudaStreamSynchronize(s->stream));
    assert_int_equal(s->back[9], 9);
    assert_int_equal(emu_findings(), 0);
    OK(cudaMemsetAsync(s->device, 0, 1, s->other)); /* a stream of its own again */
    OK(cudaStreamSynchronize(s->other));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
}

TEST_WITH(captures_wait_for_their_own, set_up, tear_down) {
    setting *s = *test_state;
    cudaEvent_t event;
    cudaGraph_t graph;
    OK(cudaEventCreate(&event));
    OK(cudaEventRecord(event, s->other));
    OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeGlobal));
    FAILS(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(s->stream, event, 0));
    FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s->stream, &graph));
    OK(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(event, s->stream));
    OK(cudaStreamWaitEvent(s->other, event, 0));
    FAILS(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(s->other, &graph));
    FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s->stream, &graph));
    FAILS(cudaErrorCapturedEvent, cudaStreamWaitEvent(s->other, event, 0));
    OK(cudaEventDestroy(event));
}
