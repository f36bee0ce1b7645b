/* nccl_double.h: the part of NCCL's interface that ranks use, for machines without GPUs: names, types, values and
 * meaning are those of NCCL 2.28 (check_doubles.py holds them against its header, where it is). Ranks are processes of
 * one machine, each with an emulated device, connected by sockets; rank 0 belongs to the process that made the id, or
 * to a child of it. Stricter than the library:
 *   - a reduction runs when its stream comes to it, and waits there for the other ranks; it asks whether its operands
 *     were written, and whether ranks agree on elements, type and operation;
 *   - where a rank is gone, or does not come within EMU_NCCL_SECONDS (60), the stream hangs (emu_hang) until the
 *     communicator is aborted;
 *   - communicators are such that do not block: the call that makes one, the end of a group and ncclCommFinalize are
 *     done when ncclCommGetAsyncError says so, at the second time that it is asked; a call before that is a finding;
 *   - a communicator that ends while graphs hold reductions of it is a finding, since NCCL waits for them for ever, and
 *     so is one that is destroyed before its reductions have run, or not finalized;
 *   - a graph that outlives the memory of its reductions is a finding: NCCL registers it until the graph ends.
 * Each rank's elements are divided by the number of ranks and summed in the order of ranks, in float, or in double for
 * double. With EMU_NCCL=eager in the environment, reductions run when they are queued, with all that they wait for, and
 * those of a graph as soon as that has run: a stream that forgets to wait for another reads what is not there yet.
 * EMU_NCCL=old: it is version 2.12. EMU_NCCL=refuses: it takes no reduction. */
#ifndef NCCL_DOUBLE_H
#define NCCL_DOUBLE_H
#include "cudart_double.h"
#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_UNIQUE_ID_BYTES 128

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;

/* The members that are set here, of many. */
typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                                        \
    { sizeof(ncclConfig_t), 0xcafebeef, 22809, 1 }

typedef enum { ncclSum = 0, ncclAvg = 4 } ncclRedOp_t;

typedef enum { ncclFloat16 = 6, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9 } ncclDataType_t;

ncclResult_t ncclGetVersion(int *version);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

#ifdef __cplusplus
}
#endif
#endif
