/* dropout_cuda.cu: Dropout on a CUDA device: a thread draws the eight elements of a block of Philox; a warp goes
 * through its blocks by packs of up to 16 bytes, neighbours by neighbouring lanes. */
#include "dropout_device.cuh"
extern "C" {
#include "dropout.h"
TK_DROPOUT_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

/* The blocks of a warp, one a lane: out and inp are where the first one begins. */
template <class S>
__device__ __forceinline__ void drop(S *out, const S *inp, uint32_t kept, const tk_keeping<S> &divided) {
    constexpr int N = tk_pack_size<S> < TK_HALVES ? tk_pack_size<S> : TK_HALVES, PACKS = TK_HALVES / N;
#pragma unroll 1 /* divisions of floats take many registers */
    for (int p = 0; p < PACKS; p++) {
        const int pack = p * TK_WARP + (int)threadIdx.x % TK_WARP;
        const uint32_t bits = PACKS == 1 ? kept : __shfl_sync(TK_ALL_LANES, kept, pack / PACKS) >> pack % PACKS * N;
        tk_pack<S, N> x = tk_load_pack<N>(inp + pack * N);
        tk_drop(x, bits, divided);
        tk_store_pack(out + pack * N, x);
    }
}

/* Where masks come from: they are drawn, and written where there is room for one, or given. */
enum source { DRAWN, GIVEN };

/* packed: out and inp lie at multiples of 16 bytes, mask of 8. out may be inp. */
template <class S, source FROM>
__global__ void __launch_bounds__(THREADS)
    dropout(S *out, uint8_t *mask, const S *inp, int64_t n, tk_number ratio, tk_seed seed, const uint8_t *training,
            tk_dtype dtype, bool packed, tk_fault_place fault) {
    const bool drops = !training || *training;
    const double part = drops ? tk_device_number(ratio) : 0;
    if (!(part >= 0 && part < 1)) {
        tk_fault_set(fault, TK_BAD_VALUE);
        return;
    }
    const tk_keeping<S> divided(tk_dropout_divisor(part, dtype));
    const uint32_t threshold = tk_drop_threshold(part);
    const tk_draw draw = FROM == DRAWN && drops ? tk_draw_of(seed) : tk_draw{};
    TK_FOR_EACH(block, (n + TK_HALVES - 1) / TK_HALVES) {
        const int64_t first = block * TK_HALVES, of_warp = first - (int)threadIdx.x % TK_WARP * TK_HALVES;
        uint32_t kept = FROM == DRAWN && drops ? tk_kept_drawn<TK_HALVES>(draw, first, threshold) : 0xff;
        if (packed && of_warp + TK_WARP * TK_HALVES <= n) {
            if (FROM == GIVEN)
                kept = tk_load_kept<TK_HALVES>(mask + first);
            drop(out + of_warp, inp + of_warp, kept, divided);
            if (FROM == DRAWN && mask)
                tk_store_kept<TK_HALVES>(mask + first, kept);
            continue;
        }
#pragma unroll 1
        for (int k = 0; k < TK_HALVES && first + k < n; k++) {
            const bool is_kept = FROM == GIVEN ? mask[first + k] != 0 : kept >> k & 1;
            out[first + k] = divided.of(inp[first + k], is_kept);
            if (FROM == DRAWN && mask)
                mask[first + k] = is_kept;
        }
    }
}

template <class S, source FROM>
void run(tk_queue *q, void *out, uint8_t *mask, const void *inp, int64_t n, tk_number ratio, tk_seed seed,
         const uint8_t *training, tk_dtype dtype) {
    const bool packed = tk_is_packed(out, inp) && (uintptr_t)mask % TK_HALVES == 0;
    TK_LAUNCH((dropout<S, FROM>), tk_blocks(q, n, THREADS, TK_HALVES), THREADS, 0, q, (S *)out, mask, (const S *)inp, n,
              ratio, seed, training, dtype, packed, tk_fault_of(q));
}

} // namespace

void tk_cuda_dropout(tk_queue *q, void *out, uint8_t *mask, const void *inp, int64_t n, tk_number ratio, tk_seed seed,
                     const uint8_t *training, tk_dtype dtype) {
    TK_FLOATS(dtype, S, run<S, DRAWN>(q, out, mask, inp, n, ratio, seed, training, dtype))
}

void tk_cuda_dropout_grad(tk_queue *q, void *dinp, const void *dout, const uint8_t *mask, int64_t n, tk_number ratio,
                          tk_dtype dtype) {
    const tk_seed none = {};
    TK_FLOATS(dtype, S, run<S, GIVEN>(q, dinp, const_cast<uint8_t *>(mask), dout, n, ratio, none, nullptr, dtype))
}
