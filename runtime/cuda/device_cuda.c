/* device_cuda.c: a GPU by CUDA: its memory, copies and faults, one stream of work, and graphs of it. Compiled against
 * CUDA's headers, or in tests against doubles of them (test/cuda): not a line differs. Without a driver every call of
 * CUDA's gives an error, so that one program serves all machines. */
#include "../../kernels/common/cuda_queue.h"
#include "../../kernels/matmul/cublas.h"
#include "../../kernels/table_cuda.h"
#include "../device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RT_CUDA_LEAST 75 /* architecture that kernels are compiled for, whatever the build says */

/* What kernels know of the queue, and what only this file does. */
typedef struct cuda_device {
    tk_cuda shared;
    unsigned long long *host_fault; /* pinned */
    cudaEvent_t *moments;
    uint32_t n_moments;
    char failure[256]; /* of the last wait */
} cuda_device;

static cuda_device *of(const tk_queue *q) { return (cuda_device *)tk_queue_context(q); }

/* A call of CUDA's on a queue: its first error stays until the queue is waited for. */
#define CALL(q, call) tk_cuda_note(&of(q)->shared, call, #call)

/* --- which devices there are ------------------------------------------------------------------ */

static int count_devices(cudaError_t *out_error) {
    int n = 0;
    *out_error = cudaGetDeviceCount(&n);
    (void)cudaGetLastError(); /* it was told of here */
    return *out_error == cudaSuccess ? n : 0;
}

static int attribute(enum cudaDeviceAttr what, int number) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, what, number) == cudaSuccess ? value : 0;
}

static int architecture_of(int number) {
    return 10 * attribute(cudaDevAttrComputeCapabilityMajor, number) +
           attribute(cudaDevAttrComputeCapabilityMinor, number);
}

static bool cuda_describe(int number, char *text, size_t bytes) {
    cudaError_t error;
    struct cudaDeviceProp p;
    if (number >= count_devices(&error) || cudaGetDeviceProperties(&p, number) != cudaSuccess)
        return false;
    snprintf(text, bytes, "%s, compute capability %d.%d, %.1f GiB, %d multiprocessors", p.name, p.major, p.minor,
             (double)p.totalGlobalMem / 0x1p30, p.multiProcessorCount);
    return true;
}

static tc_status no_device(tc_ctx *ctx, int number, int n, cudaError_t error) {
    int driver = 0, runtime = 0;
    if (n > 0) {
        tc_error(ctx, TC_UNSUPPORTED, NULL, "there is no CUDA device %d here: there are %d, numbered from 0", number,
                 n);
        tc_hint(ctx, "tempo-run --list-devices tells which");
        return TC_UNSUPPORTED;
    }
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    tc_error(ctx, TC_UNSUPPORTED, NULL, "there is no CUDA device here: %s",
             driver == 0 ? "no driver of NVIDIA's was found" : cudaGetErrorString(error));
    if (driver > 0 && driver < runtime)
        tc_hint(ctx, "the driver is for CUDA %d.%d, and this program needs %d.%d; the graph runs on --device=cpu",
                driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    else
        tc_hint(ctx, "the graph runs on --device=cpu");
    return TC_UNSUPPORTED;
}

/* --- from open to close ----------------------------------------------------------------------- */

static tk_queue *cuda_open(int threads, int slots) { return tk_queue_create(threads, slots); }

static void stop(cuda_device *d) {
    tk_cublas_close(&d->shared);
    for (uint32_t i = 0; i < d->n_moments; i++)
        (void)cudaEventDestroy(d->moments[i]);
    free(d->moments);
    (void)cudaFreeHost(d->host_fault);
    (void)cudaFree(d->shared.fault);
    if (d->shared.stream)
        (void)cudaStreamDestroy(d->shared.stream);
    free(d);
}

static void cuda_close(tk_queue *q) {
    if (q && of(q))
        stop(of(q));
    tk_queue_destroy(q);
}

static bool start_stream(tk_queue *q) {
    cuda_device *d = of(q);
    return CALL(q, cudaStreamCreateWithFlags(&d->shared.stream, cudaStreamNonBlocking)) &&
           CALL(q, cudaMalloc((void **)&d->shared.fault, sizeof *d->shared.fault)) &&
           CALL(q, cudaMallocHost((void **)&d->host_fault, sizeof *d->host_fault)) &&
           CALL(q, cudaMemsetAsync(d->shared.fault, 0, sizeof *d->shared.fault, d->shared.stream));
}

static tc_status cuda_start(tc_ctx *ctx, tk_queue *q, int number) {
    cudaError_t error;
    int n = count_devices(&error);
    char why[256];
    if (number >= n)
        return no_device(ctx, number, n, error);
    if (architecture_of(number) < RT_CUDA_LEAST)
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "CUDA device %d has compute capability %.1f, below 7.5", number,
                        architecture_of(number) / 10.0);
    cuda_device *d = calloc(1, sizeof *d);
    if (!d)
        return tc_error(ctx, TC_LIMIT, NULL, "out of memory");
    tk_queue_set_context(q, d);
    d->shared.architecture = architecture_of(number);
    d->shared.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, number);
    d->shared.shared_most = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, number);
    if (!CALL(q, cudaSetDevice(number)) || !start_stream(q))
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "CUDA device %d does not start: %s: %s", number, d->shared.what,
                        cudaGetErrorString(d->shared.error));
    if (!tk_cublas_open(&d->shared, why, sizeof why)) {
        tc_error(ctx, TC_UNSUPPORTED, NULL, "products on CUDA need cuBLASLt: %s", why);
        tc_hint(ctx, "its folder belongs into LD_LIBRARY_PATH; the graph runs on --device=cpu");
        return TC_UNSUPPORTED;
    }
    return TC_OK;
}

static void cuda_allow_tf32(tk_queue *q) { of(q)->shared.tf32 = true; }

static size_t cuda_products(const tk_queue *q, char *text, size_t bytes) {
    return tk_cublas_describe(of(q)->shared.cublas, text, bytes);
}

/* --- memory ----------------------------------------------------------------------------------- */

static uint64_t cuda_available(tk_queue *q) {
    size_t left = 0, total = 0;
    return CALL(q, cudaMemGetInfo(&left, &total)) ? left : 0;
}

/* A failure is the caller's to tell: it is no error of the queue. */
static void *cuda_alloc(tk_queue *q, size_t bytes) {
    void *memory = NULL;
    (void)q;
    if (cudaMalloc(&memory, bytes > 0 ? bytes : 1) == cudaSuccess)
        return memory;
    (void)cudaGetLastError();
    return NULL;
}

static void cuda_free(tk_queue *q, void *memory) {
    if (memory)
        CALL(q, cudaFree(memory));
}

static void *cuda_host_alloc(tk_queue *q, size_t bytes) {
    void *memory = NULL;
    (void)q;
    if (cudaMallocHost(&memory, bytes > 0 ? bytes : 1) == cudaSuccess)
        return memory;
    (void)cudaGetLastError();
    return NULL;
}

static void cuda_host_free(tk_queue *q, void *memory) { CALL(q, cudaFreeHost(memory)); }

/* CUDA has taken the bytes of pageable memory when the call returns. */
static void cuda_upload(tk_queue *q, void *memory, const void *host, size_t bytes) {
    if (bytes > 0)
        CALL(q, cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, of(q)->shared.stream));
}

static void cuda_download(tk_queue *q, void *host, const void *memory, size_t bytes) {
    if (bytes > 0 && CALL(q, cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, of(q)->shared.stream)))
        CALL(q, cudaStreamSynchronize(of(q)->shared.stream));
}

/* --- running ---------------------------------------------------------------------------------- */

/* The fault word travels behind all other work and is cleared for the next run. */
static tk_status cuda_wait(tk_queue *q, uint32_t *out_launch) {
    cuda_device *d = of(q);
    cudaStream_t stream = d->shared.stream;
    tk_status fault = tk_queue_take_fault(q, out_launch);
    *d->host_fault = 0;
    if (CALL(q,
             cudaMemcpyAsync(d->host_fault, d->shared.fault, sizeof *d->host_fault, cudaMemcpyDeviceToHost, stream)) &&
        CALL(q, cudaMemsetAsync(d->shared.fault, 0, sizeof *d->shared.fault, stream)))
        CALL(q, cudaStreamSynchronize(stream));
    if (d->shared.error != cudaSuccess) {
        snprintf(d->failure, sizeof d->failure, "%s in %s", cudaGetErrorString(d->shared.error), d->shared.what);
        d->shared.error = cudaSuccess;
        *out_launch = UINT32_MAX;
        return TK_DEVICE_FAILED;
    }
    if (fault == TK_OK && *d->host_fault != 0) {
        *out_launch = (uint32_t)(*d->host_fault >> 8);
        fault = (tk_status)(*d->host_fault & 0xff);
    }
    return fault;
}

static const char *cuda_failure(const tk_queue *q) { return of(q)->failure; }

static bool cuda_record(tk_queue *q) {
    of(q)->shared.recording = CALL(q, cudaStreamBeginCapture(of(q)->shared.stream, cudaStreamCaptureModeThreadLocal));
    return of(q)->shared.recording;
}

static void *cuda_recorded(tk_queue *q) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t work = NULL;
    of(q)->shared.recording = false;
    if (CALL(q, cudaStreamEndCapture(of(q)->shared.stream, &graph)))
        CALL(q, cudaGraphInstantiate(&work, graph, 0));
    if (graph)
        CALL(q, cudaGraphDestroy(graph));
    return work;
}

static void cuda_replay(tk_queue *q, void *recording) {
    CALL(q, cudaGraphLaunch((cudaGraphExec_t)recording, of(q)->shared.stream));
}

static void cuda_forget(tk_queue *q, void *recording) { CALL(q, cudaGraphExecDestroy((cudaGraphExec_t)recording)); }

/* --- times ------------------------------------------------------------------------------------ */

static bool cuda_mark(tk_queue *q, uint32_t index) {
    cuda_device *d = of(q);
    while (d->n_moments <= index) {
        cudaEvent_t *more = realloc(d->moments, (d->n_moments + 1) * sizeof *more);
        if (!more)
            return CALL(q, cudaErrorMemoryAllocation);
        d->moments = more;
        if (!CALL(q, cudaEventCreateWithFlags(&more[d->n_moments], cudaEventDefault)))
            return false;
        d->n_moments++;
    }
    return CALL(q, cudaEventRecord(d->moments[index], d->shared.stream));
}

static double cuda_marked(tk_queue *q, uint32_t index) {
    float milliseconds = 0;
    CALL(q, cudaEventElapsedTime(&milliseconds, of(q)->moments[0], of(q)->moments[index]));
    return 1e-3 * (double)milliseconds;
}

const rt_device rt_device_cuda = {.name = "cuda",
                                  .kind = RT_CUDA,
                                  .kernels = &tk_table_cuda,
                                  .open = cuda_open,
                                  .close = cuda_close,
                                  .alloc = cuda_alloc,
                                  .free = cuda_free,
                                  .upload = cuda_upload,
                                  .download = cuda_download,
                                  .wait = cuda_wait,
                                  .start = cuda_start,
                                  .allow_tf32 = cuda_allow_tf32,
                                  .products = cuda_products,
                                  .describe = cuda_describe,
                                  .available = cuda_available,
                                  .host_alloc = cuda_host_alloc,
                                  .host_free = cuda_host_free,
                                  .failure = cuda_failure,
                                  .record = cuda_record,
                                  .recorded = cuda_recorded,
                                  .replay = cuda_replay,
                                  .forget = cuda_forget,
                                  .mark = cuda_mark,
                                  .marked = cuda_marked};
