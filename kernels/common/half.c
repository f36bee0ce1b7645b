/* half.c: runs of 16-bit elements to floats and back, for kernels that compute a block at a time in float. */
#include "element.h"

TK_VECTOR static void widen_f16(float *out, const uint16_t *inp, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = tk_from_f16(inp[i]);
}

TK_VECTOR static void widen_bf16(float *out, const uint16_t *inp, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = tk_from_bf16(inp[i]);
}

TK_VECTOR static void narrow_f16(uint16_t *out, const float *inp, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = tk_to_f16(inp[i]);
}

TK_VECTOR static void narrow_bf16(uint16_t *out, const float *inp, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = tk_to_bf16(inp[i]);
}

void tk_widen(float *out, const void *inp, int64_t n, tk_dtype dtype) {
    (dtype == TK_F16 ? widen_f16 : widen_bf16)(out, inp, n);
}

void tk_narrow(void *out, const float *inp, int64_t n, tk_dtype dtype) {
    (dtype == TK_F16 ? narrow_f16 : narrow_bf16)(out, inp, n);
}
