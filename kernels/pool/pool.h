/* pool.h: pools of one to three spatial dims (ONNX MaxPool, AveragePool, LpPool; the Global ones have a window as large
 * as the input), and windows put back (Col2Im). Arrays are [planes, spatial...], planes = batch x channels. */
#ifndef TK_POOL_H
#define TK_POOL_H
#include "../common/window.h"
#include "../kernel.h"

typedef enum tk_pool_op { TK_POOL_MAX, TK_POOL_AVERAGE, TK_POOL_LP } tk_pool_op;

typedef struct tk_pool {
    tk_pool_op op;
    int64_t planes, p; /* p: the norm of LpPool */
    bool count_pads;   /* AveragePool divides by the window's elements within the padded input, else within the input */
    bool column_major; /* MaxPool's indices within a plane */
    tk_window window;
} tk_pool;

bool tk_pool_has(tk_pool_op op, tk_dtype dtype); /* any float type; Max also int8 and uint8 */

/* clang-format off */
#define TK_POOL_KERNELS(K) \
    /* indices: where each maximum is in the whole input, or NULL. */ \
    K(pool_run, (tk_queue *q, void *out, int64_t *indices, const void *inp, const tk_pool *pool, tk_dtype dtype), \
      (q, out, indices, inp, pool, dtype)) \
    /* out[planes, window->inp...] = the sum of each element's values in the windows at all places, in the order of \
     * their taps; inp: [planes, window->kernel..., window->out...]. Any float type */ \
    K(fold, (tk_queue *q, void *out, const void *inp, int64_t planes, const tk_window *window, tk_dtype dtype), \
      (q, out, inp, planes, window, dtype))
/* clang-format on */

TK_POOL_KERNELS(TK_DECLARE_KERNEL)
#endif
