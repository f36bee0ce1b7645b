/* device_cuda.c: a GPU by CUDA: its memory, copies and faults, one stream of work, and graphs of it. Compiled without
 * change against CUDA's headers or, in tests, against doubles of them (test/cuda). Without a driver every CUDA call
 * gives an error: one program serves all machines. */
#include "kernels/conv/conv_cudnn.h"
#include "kernels/matmul/cublas.h"
#include "kernels/cuda/table_cuda.h"
#include "nccl_cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RT_CUDA_LEAST 75 /* architecture that kernels are compiled for, whatever the build says */

/* --- the devices of this machine -------------------------------------------------------------- */

static int count_devices(cudaError_t *out_error) {
    int n = 0;
    *out_error = cudaGetDeviceCount(&n);
    (void)cudaGetLastError(); /* it was reported here */
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
        tc_hint(ctx, "tempo-run --list-devices shows them");
        return TC_UNSUPPORTED;
    }
    if (cudaDriverGetVersion(&driver) != cudaSuccess || cudaRuntimeGetVersion(&runtime) != cudaSuccess)
        driver = 0;
    tc_error(ctx, TC_UNSUPPORTED, NULL, "there is no CUDA device here: %s",
             driver == 0 ? "no NVIDIA driver was found" : cudaGetErrorString(error));
    if (driver > 0 && driver < runtime)
        tc_hint(ctx, "the driver is for CUDA %d.%d, and this program needs %d.%d; the graph runs on --device=cpu",
                driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    else
        tc_hint(ctx, "the graph runs on --device=cpu");
    return TC_UNSUPPORTED;
}

/* --- from open to close ----------------------------------------------------------------------- */

static tk_queue *cuda_open(int threads, int slots) { return tk_queue_create(threads, slots); }

void cuda_forget_all(cuda_device *d) {
    for (uint32_t i = 0; i < d->n_recordings; i++)
        (void)cudaGraphExecDestroy(d->recordings[i]);
    free(d->recordings);
    d->recordings = NULL;
    d->n_recordings = 0;
}

static void stop(cuda_device *d) {
    cuda_forget_all(d);
    rt_nccl_leave(d);
    tk_cudnn_close(&d->shared);
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
    if (q && cuda_of(q))
        stop(cuda_of(q));
    tk_queue_destroy(q);
}

static bool start_stream(tk_queue *q) {
    cuda_device *d = cuda_of(q);
    return CUDA_CALL(q, cudaStreamCreateWithFlags(&d->shared.stream, cudaStreamNonBlocking)) &&
           CUDA_CALL(q, cudaMalloc((void **)&d->shared.fault, sizeof *d->shared.fault)) &&
           CUDA_CALL(q, cudaMallocHost((void **)&d->host_fault, sizeof *d->host_fault)) &&
           CUDA_CALL(q, cudaMemsetAsync(d->shared.fault, 0, sizeof *d->shared.fault, d->shared.stream));
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
    d->number = number;
    d->shared.architecture = architecture_of(number);
    d->shared.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, number);
    d->shared.shared_most = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, number);
    if (!CUDA_CALL(q, cudaSetDevice(number)) || !start_stream(q))
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "CUDA device %d does not start: %s: %s", number, d->shared.what,
                        cudaGetErrorString(d->shared.error));
    if (!tk_cublas_open(&d->shared, why, sizeof why)) {
        tc_error(ctx, TC_UNSUPPORTED, NULL, "products on CUDA need cuBLASLt: %s", why);
        tc_hint(ctx, "add its folder to LD_LIBRARY_PATH; the graph runs on --device=cpu");
        return TC_UNSUPPORTED;
    }
    (void)cudaGetLastError(); /* of calls before, which may have failed */
    return TC_OK;
}

/* CUDA calls go to the device of the calling thread, the first one at its start. */
static void cuda_enter(tk_queue *q) {
    if (cuda_of(q))
        CUDA_CALL(q, cudaSetDevice(cuda_of(q)->number));
}

static void cuda_allow_tf32(tk_queue *q) { cuda_of(q)->shared.tf32 = true; }

static void cuda_leave_cudnn(tk_queue *q) { cuda_of(q)->shared.no_cudnn = true; }

static size_t cuda_products(const tk_queue *q, char *text, size_t bytes) {
    const size_t n = tk_cublas_describe(cuda_of(q)->shared.cublas, text, bytes), used = n < bytes ? n : bytes;
    return n + tk_cudnn_describe(&cuda_of(q)->shared, text + used, bytes - used);
}

/* --- memory ----------------------------------------------------------------------------------- */

static uint64_t cuda_available(tk_queue *q) {
    size_t left = 0, total = 0;
    return CUDA_CALL(q, cudaMemGetInfo(&left, &total)) ? left : 0;
}

/* A failure is the caller's to report: it is no error of the queue. */
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
        CUDA_CALL(q, cudaFree(memory));
}

static void *cuda_host_alloc(tk_queue *q, size_t bytes) {
    void *memory = NULL;
    (void)q;
    if (cudaMallocHost(&memory, bytes > 0 ? bytes : 1) == cudaSuccess)
        return memory;
    (void)cudaGetLastError();
    return NULL;
}

static void cuda_host_free(tk_queue *q, void *memory) { CUDA_CALL(q, cudaFreeHost(memory)); }

/* CUDA has taken the bytes of pageable memory when the call returns. */
static void cuda_upload(tk_queue *q, void *memory, const void *host, size_t bytes) {
    if (bytes > 0)
        CUDA_CALL(q, cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, cuda_of(q)->shared.stream));
}

static void cuda_download(tk_queue *q, void *host, const void *memory, size_t bytes) {
    if (bytes > 0 &&
        CUDA_CALL(q, cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, cuda_of(q)->shared.stream)))
        CUDA_CALL(q, cudaStreamSynchronize(cuda_of(q)->shared.stream));
}

/* --- running ---------------------------------------------------------------------------------- */

/* False: other ranks are missing, or an error has been noted. */
static bool finish(tk_queue *q) {
    return cuda_of(q)->ranks ? rt_nccl_wait(q) : CUDA_CALL(q, cudaStreamSynchronize(cuda_of(q)->shared.stream));
}

/* The fault word is copied after all other work and is cleared for the next run. */
static tk_status cuda_wait(tk_queue *q, uint32_t *out_launch) {
    cuda_device *d = cuda_of(q);
    cudaStream_t stream = d->shared.stream;
    tk_status fault = tk_queue_take_fault(q, out_launch);
    *d->host_fault = 0;
    d->peer_lost = false;
    if (CUDA_CALL(q, cudaMemcpyAsync(d->host_fault, d->shared.fault, sizeof *d->host_fault, cudaMemcpyDeviceToHost,
                                     stream)) &&
        CUDA_CALL(q, cudaMemsetAsync(d->shared.fault, 0, sizeof *d->shared.fault, stream)))
        d->peer_lost = !finish(q);
    if (d->shared.error != cudaSuccess) {
        snprintf(d->failure, sizeof d->failure, "%s in %s", cudaGetErrorString(d->shared.error), d->shared.what);
        d->shared.error = cudaSuccess;
        (void)cudaGetLastError(); /* it was reported here: the next launch asks for errors of its own */
        d->peer_lost = false;
        *out_launch = UINT32_MAX;
        return TK_DEVICE_FAILED;
    }
    if (d->peer_lost) {
        *out_launch = UINT32_MAX;
        return TK_DEVICE_FAILED;
    }
    if (fault == TK_OK && *d->host_fault != 0) {
        *out_launch = (uint32_t)(*d->host_fault >> 8);
        fault = (tk_status)(*d->host_fault & 0xff);
    }
    return fault;
}

static const char *cuda_failure(const tk_queue *q) { return cuda_of(q)->failure; }

static bool cuda_peer_lost(const tk_queue *q) { return cuda_of(q)->peer_lost; }

static bool cuda_record(tk_queue *q) {
    cuda_of(q)->shared.recording =
        CUDA_CALL(q, cudaStreamBeginCapture(cuda_of(q)->shared.stream, cudaStreamCaptureModeThreadLocal));
    return cuda_of(q)->shared.recording;
}

static bool keep_recording(tk_queue *q, cudaGraphExec_t work) {
    cuda_device *d = cuda_of(q);
    cudaGraphExec_t *more = realloc(d->recordings, (d->n_recordings + 1) * sizeof *more);
    if (!more)
        return CUDA_CALL(q, cudaErrorMemoryAllocation);
    d->recordings = more;
    d->recordings[d->n_recordings++] = work;
    return true;
}

static void *cuda_recorded(tk_queue *q) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t work = NULL;
    cuda_of(q)->shared.recording = false;
    if (CUDA_CALL(q, cudaStreamEndCapture(cuda_of(q)->shared.stream, &graph)))
        CUDA_CALL(q, cudaGraphInstantiate(&work, graph, 0));
    if (graph)
        CUDA_CALL(q, cudaGraphDestroy(graph));
    if (work && !keep_recording(q, work)) {
        CUDA_CALL(q, cudaGraphExecDestroy(work));
        work = NULL;
    }
    return work;
}

static void cuda_replay(tk_queue *q, void *recording) {
    CUDA_CALL(q, cudaGraphLaunch((cudaGraphExec_t)recording, cuda_of(q)->shared.stream));
}

static void cuda_forget(tk_queue *q, void *recording) {
    cuda_device *d = cuda_of(q);
    for (uint32_t i = 0; i < d->n_recordings; i++)
        if (d->recordings[i] == recording)
            d->recordings[i--] = d->recordings[--d->n_recordings];
    CUDA_CALL(q, cudaGraphExecDestroy((cudaGraphExec_t)recording));
}

/* --- times ------------------------------------------------------------------------------------ */

static bool cuda_mark(tk_queue *q, uint32_t index) {
    cuda_device *d = cuda_of(q);
    while (d->n_moments <= index) {
        cudaEvent_t *more = realloc(d->moments, (d->n_moments + 1) * sizeof *more);
        if (!more)
            return CUDA_CALL(q, cudaErrorMemoryAllocation);
        d->moments = more;
        if (!CUDA_CALL(q, cudaEventCreateWithFlags(&more[d->n_moments], cudaEventDefault)))
            return false;
        d->n_moments++;
    }
    return CUDA_CALL(q, cudaEventRecord(d->moments[index], d->shared.stream));
}

static double cuda_marked(tk_queue *q, uint32_t index) {
    float milliseconds = 0;
    CUDA_CALL(q, cudaEventElapsedTime(&milliseconds, cuda_of(q)->moments[0], cuda_of(q)->moments[index]));
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
                                  .enter = cuda_enter,
                                  .allow_tf32 = cuda_allow_tf32,
                                  .leave_cudnn = cuda_leave_cudnn,
                                  .products = cuda_products,
                                  .describe = cuda_describe,
                                  .available = cuda_available,
                                  .host_alloc = cuda_host_alloc,
                                  .host_free = cuda_host_free,
                                  .failure = cuda_failure,
                                  .peer_lost = cuda_peer_lost,
                                  RT_NCCL_MEMBERS.record = cuda_record,
                                  .recorded = cuda_recorded,
                                  .replay = cuda_replay,
                                  .forget = cuda_forget,
                                  .mark = cuda_mark,
                                  .marked = cuda_marked};
