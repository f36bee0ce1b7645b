/* parallel.c: shares of a loop to OpenMP threads: even ranges for uniform work, one by one for products. */
#include "parallel.h"
#ifdef _OPENMP
#include <omp.h>
#endif

void tk_parallel_for(tk_queue *q, int64_t n, int64_t grain, tk_range_fn body, void *ctx) {
    if (n <= 0)
        return;
#ifdef _OPENMP
    int64_t grains = (n - 1) / grain + 1;
    int64_t threads = tk_queue_threads(q);
    if (threads > grains)
        threads = grains;
    if (threads > 1) {
#pragma omp parallel num_threads((int)threads)
        {
            int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
            int64_t first = grains / team * me + (me < grains % team ? me : grains % team);
            int64_t last = first + grains / team + (me < grains % team);
            int64_t end = last * grain < n ? last * grain : n;
            if (first < last)
                body(ctx, (tk_share){first * grain, end, (int)me});
        }
        return;
    }
#else
    (void)q, (void)grain;
#endif
    body(ctx, (tk_share){0, n, 0});
}

static void hand_out(int threads, int64_t n, tk_range_fn body, void *ctx) {
    threads = threads < n ? threads : (int)n;
#ifdef _OPENMP
    if (n > 1 && threads > 1) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t i = 0; i < n; i++)
            body(ctx, (tk_share){i, i + 1, omp_get_thread_num()});
        return;
    }
#else
    (void)threads;
#endif
    for (int64_t i = 0; i < n; i++)
        body(ctx, (tk_share){i, i + 1, 0});
}

void tk_parallel_items(tk_queue *q, int64_t n, tk_range_fn body, void *ctx) {
    hand_out(tk_queue_threads(q), n, body, ctx);
}

void tk_parallel_slots(tk_queue *q, int64_t n, tk_range_fn body, void *ctx) {
    int threads = tk_queue_threads(q), slots = tk_queue_slots(q);
    hand_out(threads < slots ? threads : slots, n, body, ctx);
}

int tk_library_threads(int threads) {
#ifdef _OPENMP
    int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
#else
    return threads;
#endif
}
