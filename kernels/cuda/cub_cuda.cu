/* cub_cuda.cu: sorts and sums of cub.h: the one file that sees CUB, and for one type of keys, values and numbers each,
 * since each costs nvcc seconds and the program kilobytes. */
#include <ostream>
/* CUB includes <iostream> but needs only the declarations of <ostream>; the rest would link C++'s library. */
#define _GLIBCXX_IOSTREAM 1
#define CCCL_DISABLE_NVTX /* marks for profilers, which look for their library when the program starts */
#define NDEBUG            /* its assertions end the process */
/* CUB exits where CUDA refuses to restore the current device: here that returns to the caller. */
#include <cstdlib>
#include <setjmp.h>
static __thread jmp_buf *cub_caller;
[[noreturn, maybe_unused]] static void leave_cub(int) { longjmp(*cub_caller, 1); }
#define exit(code) leave_cub(code)
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#undef exit
extern "C" {
#include "cub.h"
}

/* After this an exit of CUB's returns a true value. */
#define CUB_EXITS(here) (cub_caller = &(here), setjmp(here))

/* Whether CUB has reported its scratch memory, and the bound covers it. */
static bool fits(tk_cuda *cuda, cudaError_t said, size_t wanted, size_t room, const char *what) {
    return tk_cuda_note(cuda, said, what) && tk_cuda_note(cuda, wanted > room ? cudaErrorInvalidValue : cudaSuccess,
                                                          "what CUB takes of workspace: more than was planned");
}

tk_pairs tk_sort(tk_cuda *cuda, void *workspace, tk_pairs pairs, int64_t n, int bits) {
    const tk_pairs other = tk_sort_other(workspace, n, pairs);
    jmp_buf here;
    if (CUB_EXITS(here)) {
        tk_cuda_note(cuda, cudaErrorUnknown, "cub::DeviceRadixSort");
        return pairs;
    }
    cub::DoubleBuffer<uint64_t> keys(pairs.keys, other.keys), values(pairs.values, other.values);
    void *room = (uint64_t *)workspace + 4 * n;
    size_t wanted = 0;
    const cudaError_t said = cub::DeviceRadixSort::SortPairs(nullptr, wanted, keys, values, n, 0, bits, cuda->stream);
    if (fits(cuda, said, wanted, tk_sort_room(n), "cub::DeviceRadixSort"))
        tk_cuda_note(cuda, cub::DeviceRadixSort::SortPairs(room, wanted, keys, values, n, 0, bits, cuda->stream),
                     "cub::DeviceRadixSort");
    return tk_pairs{keys.Current(), values.Current()};
}

void tk_sums_before(tk_cuda *cuda, uint64_t *numbers, int64_t n, void *workspace) {
    size_t wanted = 0;
    jmp_buf here;
    if (CUB_EXITS(here)) {
        tk_cuda_note(cuda, cudaErrorUnknown, "cub::DeviceScan");
        return;
    }
    const cudaError_t said = cub::DeviceScan::ExclusiveSum(nullptr, wanted, numbers, n, cuda->stream);
    if (fits(cuda, said, wanted, tk_sums_workspace(n), "cub::DeviceScan"))
        tk_cuda_note(cuda, cub::DeviceScan::ExclusiveSum(workspace, wanted, numbers, n, cuda->stream),
                     "cub::DeviceScan");
}
