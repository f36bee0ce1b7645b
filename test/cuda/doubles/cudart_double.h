/* cudart_double.h: the part of the CUDA runtime's interface that the project uses, for machines without CUDA: names,
 * types, values and meaning are those of CUDA 13 (check_doubles.py holds them against its headers, where they are). The
 * device behind it is emulated (emulation_host.h), and stricter than a real one:
 *   - work on a stream runs when somebody waits for it, not before;
 *   - while a stream is captured nothing may wait or allocate, but for a capture of mode Relaxed;
 *   - copies look whether they stay in an allocation, and whether what they take from the device was written;
 *   - bytes of pageable memory are taken when a copy to the device is called, those of pinned memory when it runs;
 *     copies that are captured take pinned memory only.
 * What CUDA allows, or does not notice, and is wrong, is a finding (emu_misused). EMU_DEVICES: how many devices there
 * are (1; 0: none, -1: the driver is too old, -2: there is no driver). EMU_MEMORY: bytes of memory that each has (2
 * GiB). One host thread. */
#ifndef CUDART_DOUBLE_H
#define CUDART_DOUBLE_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

#define CUDART_VERSION 13000

/* --- errors ----------------------------------------------------------------------------------- */

/* E(name, number, text) */
#define CUDART_DOUBLE_ERRORS(E)                                                                                        \
    E(cudaSuccess, 0, "no error")                                                                                      \
    E(cudaErrorInvalidValue, 1, "invalid argument")                                                                    \
    E(cudaErrorMemoryAllocation, 2, "out of memory")                                                                   \
    E(cudaErrorInitializationError, 3, "initialization error")                                                         \
    E(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                              \
    E(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                                     \
    E(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                                        \
    E(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version")                 \
    E(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                                   \
    E(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                                    \
    E(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                           \
    E(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device")                \
    E(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                                  \
    E(cudaErrorNotReady, 600, "device not ready")                                                                      \
    E(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                                        \
    E(cudaErrorMisalignedAddress, 716, "misaligned address")                                                           \
    E(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                                       \
    E(cudaErrorNotSupported, 801, "operation not supported")                                                           \
    E(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")                      \
    E(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture")               \
    E(cudaErrorStreamCaptureMerge, 902, "operation would result in a merge of separate capture sequences")             \
    E(cudaErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began")                    \
    E(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                                       \
    E(cudaErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream")                 \
    E(cudaErrorStreamCaptureImplicit, 906,                                                                             \
      "operation would make the legacy stream depend on a capturing blocking stream")                                  \
    E(cudaErrorCapturedEvent, 907, "operation not permitted on an event last recorded in a capturing stream")          \
    E(cudaErrorUnknown, 999, "unknown error")

#define CUDART_DOUBLE_ERROR(name, number, text) name = number,
typedef enum cudaError { CUDART_DOUBLE_ERRORS(CUDART_DOUBLE_ERROR) } cudaError_t;
#undef CUDART_DOUBLE_ERROR

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

/* --- devices ---------------------------------------------------------------------------------- */

/* Members that nobody asked for yet are left out: the struct is smaller than CUDA's. */
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int regsPerBlock;
    int warpSize;
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    int major;
    int minor;
    int multiProcessorCount;
    int integrated;
    int pciBusID;
    int pciDeviceID;
    int pciDomainID;
    int asyncEngineCount;
    int unifiedAddressing;
    int memoryBusWidth;
    int l2CacheSize;
    int maxThreadsPerMultiProcessor;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor;
    size_t sharedMemPerBlockOptin;
    int maxBlocksPerMultiProcessor;
    size_t reservedSharedMemPerBlock;
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrMaxBlocksPerMultiprocessor = 106,
    cudaDevAttrReservedSharedMemoryPerBlock = 111
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDriverGetVersion(int *driverVersion);
cudaError_t cudaRuntimeGetVersion(int *runtimeVersion);

/* Kernels: the function is that which a launch names. */
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value);

/* --- streams and events ----------------------------------------------------------------------- */

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02

cudaError_t cudaStreamCreate(cudaStream_t *pStream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

/* --- memory ----------------------------------------------------------------------------------- */

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};
#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01

cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaMalloc(void **devPtr, size_t size);
cudaError_t cudaFree(void *devPtr);
cudaError_t cudaMallocHost(void **ptr, size_t size);
cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags);
cudaError_t cudaFreeHost(void *ptr);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaMemset(void *devPtr, int value, size_t count);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream);

/* --- capture and graphs ----------------------------------------------------------------------- */

typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0,
    cudaStreamCaptureStatusActive = 1,
    cudaStreamCaptureStatusInvalidated = 2
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes); /* nodes: NULL */
cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

#ifdef __cplusplus
}
#endif
#endif
