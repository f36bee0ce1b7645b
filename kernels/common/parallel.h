/* parallel.h: loops split among the threads of a queue. The only file of kernels/ that knows the threads' library. A
 * body must give the same bytes for any shares: shares depend on the number of threads, results must not. A loop runs
 * in a team of its own: it may start from any thread and from inside any team. The body of a loop that calls a kernel
 * gives it tk_queue_serial(). */
#ifndef TK_PARALLEL_H
#define TK_PARALLEL_H
#include "../queue.h"

/* A part of a loop, [begin, end), and the thread of the loop's own team that does it, counted from 0. */
typedef struct tk_share {
    int64_t begin, end;
    int thread;
} tk_share;
typedef void (*tk_range_fn)(void *ctx, tk_share share);

/* Calls body(ctx, share) on shares that cover [0, n) once, in at most tk_queue_threads(q) threads. Shares but the last
 * are multiples of `grain`, which should be worth about 10 us: at most n / grain threads work. */
void tk_parallel_for(tk_queue *q, int64_t n, int64_t grain, tk_range_fn body, void *ctx);

/* The same with grain 1, but items are handed out one by one: for long ones. */
void tk_parallel_items(tk_queue *q, int64_t n, tk_range_fn body, void *ctx);

/* As tk_parallel_items, in at most tk_queue_slots(q) threads and never more than n: for bodies with scratch at
 * share.thread in a workspace. */
void tk_parallel_slots(tk_queue *q, int64_t n, tk_range_fn body, void *ctx);

/* Lets the threads' library start as many as the queue has: the library ends the process if it cannot. TK_NO_THREADS,
 * TK_SMALL_STACK: such a team cannot work. */
tk_status tk_threads_ready(tk_queue *q);

/* How many threads a library with OpenMP may use when this thread calls it from now on. Returns the previous setting,
 * which belongs to the application: the caller restores it after the call. */
int tk_library_threads(int threads);

/* Elements of simple work (an addition each) that are worth a thread. */
#define TK_GRAIN 16384
#endif
