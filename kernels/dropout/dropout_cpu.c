/* dropout_cpu.c: masks a block of counters at a time, so that the rounds become vector code, then the elements. */
#include "../common/parallel.h"
#include "dropout.h"
#include "dropout_math.h"

#define BLOCKS 64 /* counters at a time; 4 elements each */

typedef struct dropout_ctx {
    void *out;
    uint8_t *mask;
    const void *inp;
    int64_t n;
    float ratio;
    double keep;
    const tk_draw *draw;
    tk_dtype dtype;
} dropout_ctx;

/* kept[4 i + lane] of blocks [first, first + BLOCKS). */
TK_VECTOR static void draw_blocks(uint8_t *kept, uint64_t first, const tk_draw *draw, float ratio) {
    uint32_t words[4][BLOCKS];
    const uint32_t key[2] = {(uint32_t)draw->seed, (uint32_t)(draw->seed >> 32)}, node = draw->node, step = draw->step;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        const uint32_t counter[4] = {(uint32_t)(first + i), (uint32_t)((first + i) >> 32), node, step};
        uint32_t out[4];
        tk_philox(counter, key, out);
        for (int lane = 0; lane < 4; lane++)
            words[lane][i] = out[lane];
    }
    for (int i = 0; i < BLOCKS; i++)
        for (int lane = 0; lane < 4; lane++)
            kept[4 * i + lane] = tk_uniform(words[lane][i]) >= ratio;
}

TK_VECTOR static void drop_f32(float *out, const float *inp, const uint8_t *kept, int64_t n, float keep) {
    for (int64_t i = 0; i < n; i++)
        out[i] = tk_dropped_f32(inp[i], keep, kept[i]);
}

TK_VECTOR static void drop_f64(double *out, const double *inp, const uint8_t *kept, int64_t n, double keep) {
    for (int64_t i = 0; i < n; i++)
        out[i] = tk_dropped_f64(inp[i], keep, kept[i]);
}

static void range(void *ctx, int64_t begin, int64_t end) { /* begin is a multiple of 4 BLOCKS */
    const dropout_ctx *c = ctx;
    uint8_t kept[4 * BLOCKS];
    for (int64_t at = begin; at < end; at += 4 * BLOCKS) {
        int64_t n = end - at < 4 * BLOCKS ? end - at : 4 * BLOCKS;
        draw_blocks(kept, (uint64_t)at / 4, c->draw, c->ratio);
        if (c->dtype == TK_F32)
            drop_f32((float *)c->out + at, (const float *)c->inp + at, kept, n, (float)c->keep);
        else
            drop_f64((double *)c->out + at, (const double *)c->inp + at, kept, n, c->keep);
        for (int64_t i = 0; c->mask && i < n; i++)
            c->mask[at + i] = kept[i];
    }
}

tk_status tk_dropout(void *out, uint8_t *mask, const void *inp, int64_t n, double ratio, const tk_draw *draw,
                     tk_dtype dtype) {
    if (!(ratio >= 0 && ratio < 1))
        return TK_BAD_VALUE;
    dropout_ctx c = {out,  mask, inp, n, (float)ratio, dtype == TK_F32 ? (double)(1.0f - (float)ratio) : 1 - ratio,
                     draw, dtype};
    tk_parallel_for(n, 4 * BLOCKS * 16, range, &c);
    return TK_OK;
}
