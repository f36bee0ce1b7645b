/* dropout_cpu.c: draws masks, a block of counters at a time, so that Philox's rounds become vector code, or as many
 * lanes of ONNX Runtime's generator; then computes the elements. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../movement/movement.h"
#include "dropout.h"
#include "dropout_math.h"
#include <string.h>

#define BLOCKS 64                      /* counters at a time */
#define BATCH 16                       /* drawn at least, so that vectors have no rest */
#define DRAWN (2 * TK_HALVES * BLOCKS) /* elements at a time */

#define GRAIN (16 * DRAWN)

typedef struct dropout_ctx {
    void *out;
    uint8_t *mask; /* written; read where nothing is drawn */
    const void *inp;
    uint32_t threshold;
    double keep;
    const tk_draw *draw; /* NULL: mask marks kept elements */
    tk_dtype dtype;
} dropout_ctx;

/* kept[i] of the elements of blocks [first, first + n), n <= BLOCKS. */
TK_VECTOR static void draw_blocks(uint8_t *kept, uint64_t first, int64_t n, const tk_draw *draw, uint32_t threshold) {
    uint32_t words[TK_WORDS][BLOCKS];
    uint16_t halves[TK_HALVES * BLOCKS];
    const tk_draw d = *draw;
    for (int64_t i = 0; i < n; i++) {
        uint32_t out[4];
        tk_draw_block(&d, first + (uint64_t)i, out);
        for (int lane = 0; lane < 4; lane++)
            words[lane][i] = out[lane];
    }
    for (int64_t i = 0; i < n; i++) {
        for (int lane = 0; lane < 4; lane++) {
            halves[8 * i + 2 * lane] = (uint16_t)words[lane][i];
            halves[8 * i + 2 * lane + 1] = (uint16_t)(words[lane][i] >> 16);
        }
    }
    const uint16_t least = (uint16_t)threshold;
    for (int64_t i = 0; i < TK_HALVES * n; i++)
        kept[i] = halves[i] >= least;
}

/* The same of minstd.h: lanes of neighbours, each of which steps over the others. */
TK_VECTOR static void keep_minstd(uint8_t *kept, int64_t first, int64_t n, uint32_t threshold, uint32_t seeded) {
    enum { LANES = 16 };
    uint32_t x[LANES];
    const uint32_t stride = tk_minstd_skip(1, LANES);
    x[0] = tk_minstd_skip(seeded, (uint64_t)first + 1);
    for (int k = 1; k < LANES; k++)
        x[k] = tk_minstd_product(x[k - 1], TK_MINSTD_FACTOR);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            kept[i + k] = (uint8_t)tk_is_kept_minstd(x[k], threshold);
            x[k] = tk_minstd_product(x[k], stride);
        }
    for (int k = 0; i + k < n; k++)
        kept[i + k] = (uint8_t)tk_is_kept_minstd(x[k], threshold);
}

void tk_dropout_keep(uint8_t *kept, int64_t first, int64_t n, uint32_t threshold, const tk_draw *draw) {
    if (draw->minstd) {
        keep_minstd(kept, first, n, threshold, draw->minstd);
        return;
    }
    uint8_t drawn[TK_HALVES * BLOCKS];
    for (int64_t at = first, end = first + n; at < end;) {
        int64_t skip = at % TK_HALVES, m = TK_HALVES * BLOCKS - skip;
        m = m < end - at ? m : end - at;
        int64_t blocks = (skip + m + TK_HALVES * BATCH - 1) / (TK_HALVES * BATCH) * BATCH;
        draw_blocks(drawn, (uint64_t)(at / TK_HALVES), blocks, draw, threshold);
        memcpy(kept + (at - first), drawn + skip, (size_t)m);
        at += m;
    }
}

TK_VECTOR static void drop_f32(float *out, const float *inp, const uint8_t *kept, int64_t n, float keep) {
    for (int64_t i = 0; i < n; i++)
        out[i] = tk_dropped_f32(inp[i], keep, kept[i]);
}

TK_VECTOR static void drop_f64(double *out, const double *inp, const uint8_t *kept, int64_t n, double keep) {
    for (int64_t i = 0; i < n; i++)
        out[i] = tk_dropped_f64(inp[i], keep, kept[i]);
}

/* A separate loop: together with the conversions the compiler does not vectorize it. */
static void drop_half(uint16_t *out, const uint16_t *inp, const uint8_t *kept, int64_t n, float keep, tk_dtype dtype) {
    float x[DRAWN];
    tk_widen(x, inp, n, dtype);
    drop_f32(x, x, kept, n, keep);
    tk_narrow(out, x, n, dtype);
}

static void range(void *ctx, tk_share share) {
    const dropout_ctx *c = ctx;
    uint8_t drawn[DRAWN];
    for (int64_t at = share.begin; at < share.end; at += DRAWN) {
        int64_t n = share.end - at < DRAWN ? share.end - at : DRAWN;
        uint8_t *kept = c->mask ? c->mask + at : drawn;
        if (c->draw)
            tk_dropout_keep(kept, at, n, c->threshold, c->draw);
        if (c->dtype == TK_F32)
            drop_f32((float *)c->out + at, (const float *)c->inp + at, kept, n, (float)c->keep);
        else if (c->dtype == TK_F64)
            drop_f64((double *)c->out + at, (const double *)c->inp + at, kept, n, c->keep);
        else
            drop_half((uint16_t *)c->out + at, (const uint16_t *)c->inp + at, kept, n, (float)c->keep, c->dtype);
    }
}

static void run(tk_queue *q, dropout_ctx c, int64_t n, double ratio) {
    if (!(ratio >= 0 && ratio < 1)) {
        tk_fault(q, TK_BAD_VALUE);
        return;
    }
    c.threshold = c.draw ? tk_draw_threshold(c.draw, ratio) : 0;
    c.keep = tk_dropout_divisor(ratio, c.dtype);
    tk_parallel_for(q, n, GRAIN, range, &c);
}

void tk_dropout(tk_queue *q, void *out, uint8_t *mask, const void *inp, int64_t n, tk_number ratio, tk_seed seed,
                const uint8_t *training, tk_dtype dtype) {
    if (training && !*training) {
        tk_copy(q, out, inp, (size_t)n * tk_size(dtype));
        if (mask)
            memset(mask, 1, (size_t)n);
        return;
    }
    tk_draw draw = tk_draw_of(seed);
    run(q, (dropout_ctx){.out = out, .mask = mask, .inp = inp, .draw = &draw, .dtype = dtype}, n, tk_number_get(ratio));
}

void tk_dropout_grad(tk_queue *q, void *dinp, const void *dout, const uint8_t *mask, int64_t n, tk_number ratio,
                     tk_dtype dtype) {
    union {
        const uint8_t *in;
        uint8_t *out;
    } kept = {mask}; /* only read */
    run(q, (dropout_ctx){.out = dinp, .mask = kept.out, .inp = dout, .dtype = dtype}, n, tk_number_get(ratio));
}
