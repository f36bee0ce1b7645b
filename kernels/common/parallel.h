/* parallel.h: loops split among threads. The only file of kernels/ that knows the threads' library. A body must give
 * the same bytes whatever ranges it is called with: ranges depend on the number of threads, results must not. */
#ifndef TK_PARALLEL_H
#define TK_PARALLEL_H
#include <stdint.h>

typedef void (*tk_range_fn)(void *ctx, int64_t begin, int64_t end);

/* Calls body(ctx, begin, end) on ranges that cover [0, n) once. Ranges but the last are multiples of `grain`, which
 * should be worth about 10 us: at most n / grain threads work. Inside a parallel body the loop runs in the calling
 * thread. */
void tk_parallel_for(int64_t n, int64_t grain, tk_range_fn body, void *ctx);

/* As tk_parallel_for with grain 1, but items are handed out one by one, and inside the body the threads' library says
 * that there is one thread, so that a product library called from there uses no more. */
void tk_parallel_items(int64_t n, tk_range_fn body, void *ctx);

/* Inside a body: which thread this is, from 0, below the number of threads in use when the loop began. Says where a
 * thread's scratch is. */
int tk_thread(void);

/* Elements of simple work (an addition each) that are worth a thread. */
#define TK_GRAIN 16384
#endif
