/* cudart_double.c: errors, devices and memory of the double; cudart_streams.c has streams and graphs. */
#include "cudart_double.h"
#include "cudart_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHARED_AS_IT_IS ((size_t)48 << 10)
#define SHARED_OPTIN ((size_t)227 << 10)

/* --- errors ----------------------------------------------------------------------------------- */

static cudaError_t last_error, broken;

cudaError_t cudart_give(cudaError_t error) {
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

void cudart_break(cudaError_t error) {
    if (broken == cudaSuccess)
        broken = cudart_give(error);
}

bool cudart_is_broken(void) { return broken != cudaSuccess; }

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = broken;
    return error;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

static const struct {
    cudaError_t number;
    const char *name, *text;
} errors[] = {
#define ROW(name, number, text) {name, #name, text},
    CUDART_DOUBLE_ERRORS(ROW)
#undef ROW
};

const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].number == error)
            return errors[i].name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].number == error)
            return errors[i].text;
    return "unrecognized error code";
}

/* Whoever does not look at findings still fails. */
static void fail_at_end(void) {
    if (emu_findings() == 0)
        return;
    fflush(NULL);
    _exit(86);
}

/* --- devices ---------------------------------------------------------------------------------- */

#define MOST_DEVICES 16

static _Thread_local int current; /* of each thread */
static size_t used[MOST_DEVICES]; /* bytes of each device's memory */

static long long environment(const char *name, long long otherwise) {
    const char *value = getenv(name);
    return value && *value ? strtoll(value, NULL, 10) : otherwise;
}

static int devices(void) {
    long long n = environment("EMU_DEVICES", 1);
    return n < MOST_DEVICES ? (int)n : MOST_DEVICES;
}

static size_t memory_of_device(void) { return (size_t)environment("EMU_MEMORY", (long long)2 << 30); }

cudaError_t cudart_ready(void) {
    static bool watched;
    if (!watched)
        watched = atexit(fail_at_end) == 0;
    if (broken != cudaSuccess)
        return cudart_give(broken);
    return cudart_give(devices() < 0 ? cudaErrorInsufficientDriver : devices() == 0 ? cudaErrorNoDevice : cudaSuccess);
}

/* The count stays as it is where there is no driver to ask. */
cudaError_t cudaGetDeviceCount(int *count) {
    if (devices() >= 0)
        *count = devices();
    return cudart_ready();
}

static cudaError_t check_device(int device) {
    cudaError_t error = cudart_ready();
    if (error == cudaSuccess && (device < 0 || device >= devices()))
        error = cudart_give(cudaErrorInvalidDevice);
    return error;
}

cudaError_t cudaSetDevice(int device) {
    cudaError_t error = check_device(device);
    if (error == cudaSuccess)
        current = device;
    return error;
}

int cudart_device(void) { return current; }

cudaError_t cudaGetDevice(int *device) {
    cudaError_t error = cudart_ready();
    if (error == cudaSuccess)
        *device = current;
    return error;
}

/* An H200's, with few multiprocessors: grids that depend on their number are small. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    cudaError_t error = check_device(device);
    if (error != cudaSuccess)
        return error;
    *prop = (struct cudaDeviceProp){
        .name = "emulated device",
        .totalGlobalMem = memory_of_device(),
        .sharedMemPerBlock = SHARED_AS_IT_IS,
        .regsPerBlock = 65536,
        .warpSize = 32,
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {2147483647, 65535, 65535},
        .major = 9,
        .minor = 0,
        .multiProcessorCount = 4,
        .pciBusID = device,
        .asyncEngineCount = 3,
        .unifiedAddressing = 1,
        .memoryBusWidth = 6144,
        .l2CacheSize = 60 << 20,
        .maxThreadsPerMultiProcessor = 2048,
        .sharedMemPerMultiprocessor = (size_t)228 << 10,
        .regsPerMultiprocessor = 65536,
        .sharedMemPerBlockOptin = SHARED_OPTIN,
        .maxBlocksPerMultiProcessor = 32,
        .reservedSharedMemPerBlock = 1024,
    };
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device) {
    struct cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error != cudaSuccess)
        return error;
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)p.sharedMemPerBlock; break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrClockRate: *value = 1980000; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMemoryClockRate: *value = 3201000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)p.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)p.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = (int)p.reservedSharedMemPerBlock; break;
    default: return cudart_give(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

/* 12.4: a driver of the last generation. */
cudaError_t cudaDriverGetVersion(int *driverVersion) {
    *driverVersion = devices() >= 0 ? CUDART_VERSION : devices() == -1 ? 12040 : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion) {
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
}

#define MOST_KERNELS 1000
static struct {
    const void *kernel;
    size_t shared;
} kernels[MOST_KERNELS];
static int n_kernels;

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess)
        return error;
    if (!func)
        return cudart_give(cudaErrorInvalidDeviceFunction);
    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || (size_t)value > SHARED_OPTIN)
        return cudart_give(cudaErrorInvalidValue);
    int i = 0;
    while (i < n_kernels && kernels[i].kernel != func)
        i++;
    if (i == MOST_KERNELS)
        abort();
    kernels[i].kernel = func;
    kernels[i].shared = (size_t)value;
    n_kernels += i == n_kernels;
    return cudaSuccess;
}

size_t cudart_shared_of(const void *kernel) {
    for (int i = 0; i < n_kernels; i++)
        if (kernels[i].kernel == kernel && kernels[i].shared > SHARED_AS_IT_IS)
            return kernels[i].shared;
    return SHARED_AS_IT_IS;
}

/* --- memory ----------------------------------------------------------------------------------- */

typedef struct block {
    char *at;
    size_t bytes, charged;
    int device; /* -1: pinned memory of the host */
} block;

static block *blocks;
static size_t n_blocks;

static void add_block(block b) {
    blocks = realloc(blocks, (n_blocks + 1) * sizeof *blocks);
    if (!blocks)
        abort();
    blocks[n_blocks++] = b;
}

/* The block that the address is in. */
static block *block_at(const void *p) {
    for (size_t i = 0; i < n_blocks; i++)
        if ((const char *)p >= blocks[i].at && (const char *)p < blocks[i].at + blocks[i].bytes)
            return &blocks[i];
    return NULL;
}

static block *block_of(const void *p, bool pinned) {
    block *b = block_at(p);
    return b && b->at == p && (b->device < 0) == pinned ? b : NULL;
}

/* Calls that allocate, or give back, which waits. */
static cudaError_t check_allocation(void) {
    cudaError_t error = cudart_ready();
    if (error == cudaSuccess && emu_refuses_to_wait())
        error = cudart_give(cudaErrorStreamCaptureUnsupported);
    return error;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess)
        return error;
    *total = memory_of_device();
    *free = used[current] < *total ? *total - used[current] : 0;
    return cudaSuccess;
}

/* Blocks are charged in steps of 512 bytes. */
cudaError_t cudaMalloc(void **devPtr, size_t size) {
    size_t left = 0, total = 0;
    cudaError_t error = check_allocation();
    if (error != cudaSuccess)
        return error;
    *devPtr = NULL;
    if (size == 0)
        return cudaSuccess;
    cudaMemGetInfo(&left, &total);
    const size_t charged = (size + 511) / 512 * 512;
    if (charged < size || charged > left || !(*devPtr = emu_malloc(size, "cudaMalloc")))
        return cudart_give(cudaErrorMemoryAllocation);
    add_block((block){*devPtr, size, charged, current});
    used[current] += charged;
    return cudaSuccess;
}

/* CUDA waits here, too, for all that was queued. */
static cudaError_t give_back(void *p, bool pinned) {
    cudaError_t error = check_allocation();
    if (error != cudaSuccess || !p)
        return error;
    if (!block_of(p, pinned))
        return cudart_give(cudaErrorInvalidValue);
    cudart_run_streams();
    block *b = block_of(p, pinned);
    if (pinned) {
        free(p);
    } else {
        emu_free(p);
        used[b->device] -= b->charged;
    }
    *b = blocks[--n_blocks];
    return cudart_waited("cudaFree");
}

cudaError_t cudaFree(void *devPtr) { return give_back(devPtr, false); }
cudaError_t cudaFreeHost(void *ptr) { return give_back(ptr, true); }

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags) {
    cudaError_t error = check_allocation();
    if (error != cudaSuccess)
        return error;
    if (flags > cudaHostAllocPortable)
        return cudart_give(cudaErrorInvalidValue);
    *pHost = NULL;
    if (size == 0)
        return cudaSuccess;
    if (posix_memalign(pHost, 4096, size) != 0)
        return cudart_give(cudaErrorMemoryAllocation);
    memset(*pHost, 0xa5, size);
    add_block((block){*pHost, size, size, -1});
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ptr, size_t size) { return cudaHostAlloc(ptr, size, cudaHostAllocDefault); }

/* --- copies ----------------------------------------------------------------------------------- */

typedef enum where { PAGEABLE, PINNED, DEVICE, NOWHERE } where;

/* Where these bytes are; NOWHERE: they begin in a block and go beyond it. */
static where where_is(const void *p, size_t bytes) {
    const block *b = block_at(p);
    if (!b)
        return PAGEABLE;
    if (bytes > b->bytes - (size_t)((const char *)p - b->at))
        return NOWHERE;
    return b->device < 0 ? PINNED : DEVICE;
}

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
    where to_is, from_is;
    int value;             /* of a memset, whose from is NULL */
    unsigned char taken[]; /* bytes of pageable memory */
} copy;

static void run_copy(void *context) {
    const copy *c = context;
    const char *who = c->from ? "cudaMemcpyAsync" : "cudaMemsetAsync";
    const void *from = c->from_is == PAGEABLE ? c->taken : c->from;
    if (where_is(c->to, c->bytes) != c->to_is ||
        (c->from_is != PAGEABLE && where_is(c->from, c->bytes) != c->from_is)) {
        emu_misused(who, "memory was given back before the copy ran");
        return;
    }
    if (c->from_is == DEVICE)
        emu_may_read(c->from, c->bytes, who, "from the device");
    if (c->to_is == DEVICE && !emu_may_touch(c->to, c->bytes, true, who, "to the device"))
        return;
    if (c->from)
        memmove(c->to, from, c->bytes);
    else
        memset(c->to, c->value, c->bytes);
    if (c->to_is == DEVICE)
        emu_host_wrote(c->to, c->bytes);
}

/* What a copy of this kind takes and gives is there. */
static bool is_of_kind(enum cudaMemcpyKind kind, where to, where from) {
    if (to == NOWHERE || from == NOWHERE)
        return false;
    if (kind == cudaMemcpyDefault)
        return true;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return (to == DEVICE) == to_device && (from == DEVICE) == from_device;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess || count == 0)
        return error;
    const where to = where_is(dst, count), from = where_is(src, count);
    if (!dst || !src || !is_of_kind(kind, to, from))
        return cudart_give(cudaErrorInvalidValue);
    if (emu_is_captured(stream) && (to == PAGEABLE || from == PAGEABLE)) {
        cudart_spoil_captures();
        return cudart_give(cudaErrorStreamCaptureUnsupported);
    }
    if (to != DEVICE && from != DEVICE) /* such a copy waits */
        emu_misused("cudaMemcpyAsync", "from the host to the host");
    if (to == DEVICE && from == DEVICE && (char *)dst < (const char *)src + count &&
        (const char *)src < (char *)dst + count)
        emu_misused("cudaMemcpyAsync", "the bytes overlap");
    copy *c = malloc(sizeof *c + (from == PAGEABLE ? count : 0));
    if (!c)
        abort();
    *c = (copy){dst, src, count, to, from, 0};
    if (from == PAGEABLE)
        memcpy(c->taken, src, count);
    return emu_on_stream(stream, run_copy, free, c);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess || count == 0)
        return error;
    if (where_is(devPtr, count) != DEVICE)
        return cudart_give(cudaErrorInvalidValue);
    copy *c = malloc(sizeof *c);
    if (!c)
        abort();
    *c = (copy){devPtr, NULL, count, DEVICE, PAGEABLE, value};
    return emu_on_stream(stream, run_copy, free, c);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind) {
    if (emu_refuses_to_wait())
        return cudart_give(cudaErrorStreamCaptureUnsupported);
    cudaError_t error = cudaMemcpyAsync(dst, src, count, kind, NULL);
    return error == cudaSuccess ? cudaStreamSynchronize(NULL) : error;
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count) {
    if (emu_refuses_to_wait())
        return cudart_give(cudaErrorStreamCaptureUnsupported);
    return cudaMemsetAsync(devPtr, value, count, NULL);
}

/* --- for tests -------------------------------------------------------------------------------- */

void emu_reset_device(void) {
    cudart_forget_streams();
    emu_forget();
    last_error = broken = cudaSuccess;
    n_kernels = 0;
    current = 0;
}
