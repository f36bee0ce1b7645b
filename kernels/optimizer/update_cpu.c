/* update_cpu.c: an optimizer's update of many tensors: threads share the elements of all of them. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "../queue.h"
#include "optimizer_math.h"
#include <string.h>

enum { BLOCK = 512, GRAIN = 4096 };

#define T float
#define SUFFIX f32
#include "update_tmpl.h"
#define T double
#define SUFFIX f64
#include "update_tmpl.h"

size_t tk_update_workspace(const tk_update_op *u) {
    (void)u;
    return 0;
}

typedef struct update_job {
    tk_queue *q;
    const tk_update_op *u;
    const tk_update_tensor *tensors;
    int64_t count;
    tk_update_numbers numbers;
} update_job;

/* Of all tensors' elements, one after the other. */
static void update_share(void *ctx, tk_share share) {
    const update_job *job = ctx;
    int64_t first = 0;
    for (int64_t i = 0; i < job->count && first < share.end; first += job->tensors[i++].g.n) {
        const tk_update_tensor *tensor = &job->tensors[i];
        const int64_t n = tensor->g.n, begin = share.begin > first ? share.begin - first : 0,
                      end = share.end - first < n ? share.end - first : n;
        if (begin < end)
            (job->u->dtype == TK_F64 ? update_f64 : update_f32)(job->q, job->u, &job->numbers, tensor, begin, end);
    }
}

void tk_update(tk_queue *q, const tk_update_op *u, const tk_update_tensor *tensors, int64_t count, void *workspace) {
    update_job job = {q, u, tensors, count,
                      tk_update_numbers_of(u, tk_number_get(u->rate), tk_number_get(u->scale), *u->step)};
    int64_t n = 0;
    (void)workspace;
    for (int64_t i = 0; i < count; i++)
        n += tensors[i].g.n;
    tk_parallel_for(q, n, GRAIN, update_share, &job);
}

/* --- LAMB ------------------------------------------------------------------------------------- */

enum { CHUNK = 1 << 14 };

static int64_t chunks_of(int64_t n) { return (n + CHUNK - 1) / CHUNK; }

size_t tk_lamb_workspace(int64_t n) { return (size_t)chunks_of(n) * 2 * sizeof(double); }

typedef struct lamb_job {
    const update_job *update;
    double (*sums)[2]; /* of each chunk */
} lamb_job;

static void squares_share(void *ctx, tk_share share) {
    const lamb_job *job = ctx;
    const tk_update_tensor *tensor = job->update->tensors;
    for (int64_t c = share.begin; c < share.end; c++) {
        const int64_t begin = c * CHUNK, end = tensor->g.n - begin < CHUNK ? tensor->g.n : begin + CHUNK;
        job->sums[c][0] = job->sums[c][1] = 0;
        (job->update->u->dtype == TK_F64 ? lamb_squares_f64 : lamb_squares_f32)(&job->update->numbers, tensor, begin,
                                                                                end, job->sums[c]);
    }
}

void tk_lamb(tk_queue *q, const tk_update_op *u, const tk_update_tensor *tensor, void *workspace) {
    update_job job = {q, u, tensor, 1,
                      tk_update_numbers_of(u, tk_number_get(u->rate), tk_number_get(u->scale), *u->step)};
    lamb_job squares = {&job, workspace};
    double sums[2] = {0};
    tk_parallel_for(q, chunks_of(tensor->g.n), 1, squares_share, &squares);
    for (int64_t c = 0; c < chunks_of(tensor->g.n); c++)
        for (int i = 0; i < 2; i++)
            sums[i] += squares.sums[c][i];
    job.numbers.rate *= tk_lamb_ratio(sums[0], sums[1]);
    tk_parallel_for(q, tensor->g.n, GRAIN, update_share, &job);
}
