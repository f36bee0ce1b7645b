/* global_norm_cpu.c: the norm of many gradients: chunks are summed by threads, their sums one after the other. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "optimizer_math.h"

enum { CHUNK = 1 << 14, BLOCK = 512, LANES = 16 };

static int64_t chunks_of(const tk_gradient *g) { return (g->n + CHUNK - 1) / CHUNK; }

static int64_t all_chunks(const tk_gradient *gradients, int64_t count) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++)
        n += chunks_of(&gradients[i]);
    return n;
}

size_t tk_global_norm_workspace(const tk_gradient *gradients, int64_t count) {
    return (size_t)all_chunks(gradients, count) * sizeof(double);
}

#define SQUARES(T, suffix)                                                                                             \
    TK_VECTOR static double squares_##suffix(const T *x, int64_t n) {                                                  \
        double lane[LANES] = {0}, sum = 0;                                                                             \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int64_t l = 0; l < LANES; l++)                                                                        \
                lane[l] += (double)x[i + l] * (double)x[i + l];                                                        \
        for (int64_t l = 0; i + l < n; l++)                                                                            \
            lane[l] += (double)x[i + l] * (double)x[i + l];                                                            \
        for (int64_t l = 0; l < LANES; l++)                                                                            \
            sum += lane[l];                                                                                            \
        return sum;                                                                                                    \
    }
SQUARES(float, f32)
SQUARES(double, f64)

static double squares_half(const uint16_t *x, int64_t n, tk_dtype dtype) {
    float numbers[BLOCK];
    double sum = 0;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t block = n - at < BLOCK ? n - at : BLOCK;
        tk_widen(numbers, x + at, block, dtype);
        sum += squares_f32(numbers, block);
    }
    return sum;
}

static double squares_of_chunk(const tk_gradient *g, int64_t chunk) {
    const int64_t at = chunk * CHUNK, n = g->n - at < CHUNK ? g->n - at : CHUNK;
    switch ((int)g->dtype) {
    case TK_F64: return squares_f64((const double *)g->data + at, n);
    case TK_F32: return squares_f32((const float *)g->data + at, n);
    default: return squares_half((const uint16_t *)g->data + at, n, g->dtype);
    }
}

typedef struct norm_job {
    const tk_gradient *gradients;
    int64_t count;
    double *sums; /* of each chunk */
} norm_job;

static void sum_share(void *ctx, tk_share share) {
    const norm_job *job = ctx;
    int64_t first = 0;
    for (int64_t i = 0; i < job->count && first < share.end; first += chunks_of(&job->gradients[i++])) {
        const int64_t n = chunks_of(&job->gradients[i]);
        for (int64_t c = share.begin > first ? share.begin - first : 0; c < n && first + c < share.end; c++)
            job->sums[first + c] = squares_of_chunk(&job->gradients[i], c);
    }
}

void tk_global_norm(tk_queue *q, void *norm, void *scale, double max_norm, const tk_gradient *gradients, int64_t count,
                    tk_dtype dtype, void *workspace) {
    norm_job job = {gradients, count, workspace};
    const int64_t chunks = all_chunks(gradients, count);
    double sum = 0;
    tk_parallel_for(q, chunks, 1, sum_share, &job);
    for (int64_t c = 0; c < chunks; c++)
        sum += job.sums[c];
    tk_put(norm, dtype, 0, sqrt(sum));
    if (scale)
        tk_put(scale, dtype, 0, tk_clipping(sqrt(sum), max_norm));
}
