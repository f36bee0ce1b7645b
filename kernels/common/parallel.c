/* parallel.c: shares of a loop to OpenMP threads: even ranges for uniform work, one by one for products. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_getattr_np */
#endif
#include "parallel.h"
#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* --- teams ------------------------------------------------------------------------------------ */

#define STACK ((size_t)5 << 18) /* of a thread: the largest frame of a kernel has 0.95 MiB (matmul/sgemm.c) */

/* A child of fork has only the calling thread, and the library would wait for the others forever: loops of such a
 * process run on that thread, with the same results. */
static bool is_alone;
static void leave_team(void) { is_alone = true; }
static void watch_forks(void) { is_alone = pthread_atfork(NULL, NULL, leave_team) != 0; }

/* How many of the given threads a loop may use. */
static int allowed(int threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    return threads > 1 && pthread_once(&once, watch_forks) == 0 && !is_alone ? threads : 1;
}

static void *pass_gate(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Whether the process can have so many threads at one time: the library ends the process if it cannot start one. */
static bool can_start(int threads) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *started = malloc((size_t)threads * sizeof *started);
    int n = 0;
    pthread_mutex_lock(&gate);
    while (started && n < threads && pthread_create(&started[n], NULL, pass_gate, &gate) == 0)
        n++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < n; i++)
        pthread_join(started[i], NULL);
    free(started);
    return n == threads;
}

/* Of the calling thread; if unknown, a size that is enough. */
static size_t stack_bytes(void) {
    pthread_attr_t attributes;
    size_t bytes = STACK;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return bytes;
    if (pthread_attr_getstacksize(&attributes, &bytes) != 0)
        bytes = STACK;
    pthread_attr_destroy(&attributes);
    return bytes;
}

tk_status tk_threads_ready(tk_queue *q) {
    static _Thread_local int ready; /* each thread has a team of its own */
    int threads = allowed(tk_queue_threads(q));
    atomic_bool is_small = false;
    if (threads <= ready)
        return TK_OK;
    if (threads > 1 && !can_start(threads - 1))
        return TK_NO_THREADS;
#pragma omp parallel num_threads(threads)
    if (stack_bytes() < STACK)
        atomic_store(&is_small, true);
    if (atomic_load(&is_small))
        return TK_SMALL_STACK;
    ready = threads;
    return TK_OK;
}
#else
static int allowed(int threads) { return (void)threads, 1; }
tk_status tk_threads_ready(tk_queue *q) { return (void)q, TK_OK; }
#endif

/* --- loops ------------------------------------------------------------------------------------ */

void tk_parallel_for(tk_queue *q, int64_t n, int64_t grain, tk_range_fn body, void *ctx) {
    if (n <= 0)
        return;
#ifdef _OPENMP
    int64_t grains = (n - 1) / grain + 1;
    int64_t threads = allowed(tk_queue_threads(q));
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
    threads = allowed(threads < n ? threads : (int)n);
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
