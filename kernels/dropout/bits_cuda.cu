/* bits_cuda.cu: masks of a byte an element to a bit an element, and back, on a CUDA device: a thread has a byte of bits
 * and so eight elements, which it loads or stores as one word where there are as many. */
#include "dropout_device.cuh"
extern "C" {
#include "dropout.h"
TK_DROPOUT_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) pack(uint8_t *bits, const uint8_t *mask, int64_t n, bool is_aligned) {
    TK_FOR_EACH(i, (n + 7) / 8) {
        uint32_t kept = 0;
        if (is_aligned && 8 * i + 8 <= n)
            kept = tk_load_kept<8>(mask + 8 * i);
        else
            for (int k = 0; k < 8 && 8 * i + k < n; k++)
                kept |= (uint32_t)(mask[8 * i + k] != 0) << k;
        bits[i] = (uint8_t)kept;
    }
}

__global__ void __launch_bounds__(THREADS) unpack(uint8_t *mask, const uint8_t *bits, int64_t n, bool is_aligned) {
    TK_FOR_EACH(i, (n + 7) / 8) {
        const uint32_t kept = bits[i];
        if (is_aligned && 8 * i + 8 <= n)
            tk_store_kept<8>(mask + 8 * i, kept);
        else
            for (int k = 0; k < 8 && 8 * i + k < n; k++)
                mask[8 * i + k] = kept >> k & 1;
    }
}

} // namespace

void tk_cuda_pack_bits(tk_queue *q, uint8_t *bits, const uint8_t *mask, int64_t n) {
    TK_LAUNCH(pack, tk_blocks(q, n, THREADS, 8), THREADS, 0, q, bits, mask, n, (uintptr_t)mask % 8 == 0);
}

void tk_cuda_unpack_bits(tk_queue *q, uint8_t *mask, const uint8_t *bits, int64_t n) {
    TK_LAUNCH(unpack, tk_blocks(q, n, THREADS, 8), THREADS, 0, q, mask, bits, n, (uintptr_t)mask % 8 == 0);
}
