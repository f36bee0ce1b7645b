/* dropout_ref.c: Dropout element by element, each drawing its own block, or stepping on as std::minstd_rand0 does. */
#include "../common/types.h"
#include "dropout.h"
#include <math.h>

tk_status tk_dropout_ref(void *out, uint8_t *mask, const void *inp, int64_t n, double ratio, const tk_draw *draw,
                         tk_dtype dtype) {
    if (!(ratio >= 0 && ratio < 1))
        return TK_BAD_VALUE;
    uint64_t state = draw->minstd;
    double threshold = fmin(fmax(rint(ratio * 65536), ratio > 0 ? 1 : 0), 65535);
    for (int64_t i = 0; i < n; i++) {
        uint32_t words[4];
        tk_draw_block(draw, (uint64_t)i / 8, words);
        uint8_t kept = (words[i % 8 / 2] >> (i % 2 == 1 ? 16 : 0) & 0xffff) >= threshold;
        if (draw->minstd) {
            state = state * 16807 % 2147483647;
            kept = (float)(state - 1) / 2147483646.0f >= (float)ratio;
        }
        double x = tk_get(inp, dtype, i);
        if (dtype == TK_F64)
            tk_put(out, dtype, i, kept ? x / (1 - ratio) : 0);
        else
            tk_put(out, dtype, i, kept ? (double)((float)x / (float)(1 - ratio)) : 0);
        if (mask)
            mask[i] = kept;
    }
    return TK_OK;
}
