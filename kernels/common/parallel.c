/* parallel.c: ranges of a loop to OpenMP threads: even ranges for uniform work, one by one for products. */
#include "parallel.h"
#ifdef _OPENMP
#include <omp.h>
#endif

void tk_parallel_for(int64_t n, int64_t grain, tk_range_fn body, void *ctx) {
    if (n <= 0)
        return;
#ifdef _OPENMP
    int64_t grains = (n - 1) / grain + 1;
    int64_t threads = omp_get_max_threads();
    if (threads > grains)
        threads = grains;
    if (threads > 1 && !omp_in_parallel()) {
#pragma omp parallel num_threads((int)threads)
        {
            int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
            int64_t first = grains / team * me + (me < grains % team ? me : grains % team);
            int64_t last = first + grains / team + (me < grains % team);
            int64_t end = last * grain < n ? last * grain : n;
            if (first < last)
                body(ctx, first * grain, end);
        }
        return;
    }
#else
    (void)grain;
#endif
    body(ctx, 0, n);
}

void tk_parallel_items(int64_t n, tk_range_fn body, void *ctx) {
#ifdef _OPENMP
    int threads = omp_get_max_threads();
    if (!omp_in_parallel() && n > 1 && threads > 1) {
#pragma omp parallel for schedule(dynamic, 1)
        for (int64_t i = 0; i < n; i++)
            body(ctx, i, i + 1);
        return;
    }
    omp_set_num_threads(1);
#endif
    for (int64_t i = 0; i < n; i++)
        body(ctx, i, i + 1);
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
}

int tk_thread(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}
