/* random_cpu.c: random numbers by counter, a block of counters at a time, so that Philox's rounds become vector code.
 */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../common/vector.h"
#include "create.h"
#include <math.h>
#include <string.h>

#define BLOCKS 64 /* counters at a time; 4 words each */
#define WORDS (4 * BLOCKS)

typedef struct random_ctx {
    void *out;
    double shift, width; /* the result is shift + width times the number drawn */
    tk_draw draw;
    tk_dtype dtype;
} random_ctx;

/* words[4 i + lane] of blocks [first, first + BLOCKS). */
TK_VECTOR static void draw_words(uint32_t *words, uint64_t first, const tk_draw *draw) {
    uint32_t lanes[4][BLOCKS];
    const tk_draw d = *draw;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        uint32_t out[4];
        tk_draw_block(&d, first + i, out);
        for (int lane = 0; lane < 4; lane++)
            lanes[lane][i] = out[lane];
    }
    for (int i = 0; i < BLOCKS; i++)
        for (int lane = 0; lane < 4; lane++)
            words[4 * i + lane] = lanes[lane][i];
}

/* n elements from `at` on, which begins a block of counters. */
static void place(const random_ctx *c, int64_t at, int64_t n, const double *drawn) {
    float numbers[WORDS];
    if (c->dtype == TK_F64) {
        for (int64_t i = 0; i < n; i++)
            ((double *)c->out)[at + i] = c->shift + c->width * drawn[i];
        return;
    }
    float shift = (float)c->shift, width = (float)c->width;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = shift + width * (float)drawn[i];
    if (c->dtype == TK_F32)
        memcpy((float *)c->out + at, numbers, (size_t)n * sizeof(float));
    else
        tk_narrow((uint16_t *)c->out + at, numbers, n, c->dtype);
}

static void uniform_range(void *ctx, tk_share share) {
    const random_ctx *c = ctx;
    uint32_t words[WORDS];
    double drawn[WORDS];
    for (int64_t at = share.begin; at < share.end; at += WORDS) {
        int64_t n = share.end - at < WORDS ? share.end - at : WORDS;
        draw_words(words, (uint64_t)at / 4, &c->draw);
        for (int64_t i = 0; i < n; i++)
            drawn[i] = tk_uniform_bits(words[i], c->dtype);
        place(c, at, n, drawn);
    }
}

static void normal_range(void *ctx, tk_share share) {
    const random_ctx *c = ctx;
    uint32_t words[WORDS];
    double drawn[WORDS / 2];
    for (int64_t at = share.begin; at < share.end; at += WORDS / 2) {
        int64_t n = share.end - at < WORDS / 2 ? share.end - at : WORDS / 2;
        draw_words(words, (uint64_t)at / 2, &c->draw);
        for (int64_t i = 0; i < n; i++)
            drawn[i] = tk_normal(words[2 * i], words[2 * i + 1]);
        place(c, at, n, drawn);
    }
}

static random_ctx begin(void *out, double shift, double width, tk_seed seed, tk_dtype dtype) {
    return (random_ctx){out, shift, width, tk_draw_of(seed), dtype};
}

void tk_random_uniform(tk_queue *q, void *out, int64_t n, float low, float high, tk_seed seed, tk_dtype dtype) {
    random_ctx c = begin(out, low, dtype == TK_F64 ? (double)high - low : (double)(high - low), seed, dtype);
    tk_parallel_for(q, n, WORDS * 16, uniform_range, &c);
}

void tk_random_normal(tk_queue *q, void *out, int64_t n, float mean, float scale, tk_seed seed, tk_dtype dtype) {
    random_ctx c = begin(out, mean, scale, seed, dtype);
    tk_parallel_for(q, n, WORDS * 2, normal_range, &c);
}
