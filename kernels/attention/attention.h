/* attention.h: scaled dot-product attention of many heads with bias, mask and dropout, and its gradient. An item is one
 * head of one batch entry. Items go to threads; within one, blocks of rows, as many as stay in the cache, go through
 * both products, the softmax and the dropout before the next: scores of all heads exist only as P, where P is wanted.
 * Results don't depend on the number of threads. float and double.
 *   s = scale q kt, where mask is 0 fill, plus bias;  P = softmax(s);  dropped = kept ? P / (1 - ratio) : 0
 *   y = dropped v
 * P never has a negative number, nor a negative not-a-number: its sign bit is free, and may say what was dropped. */
#ifndef TK_ATTENTION_H
#define TK_ATTENTION_H
#include "../common/philox.h"
#include "../kernel.h"

/* Sizes, and where the operands of each item begin, in elements: q [s, d], kt [d, t], v [t, e]. */
typedef struct tk_attention {
    int64_t items, s, t, d, e;
    const int64_t *q_at, *kt_at, *v_at;                   /* [items] */
    const int64_t *bias_at, *mask_at;                     /* [items]; NULL: there is none */
    int64_t bias_row, bias_column, mask_row, mask_column; /* strides; of columns 0 or 1 */
    double scale, fill;
    bool guard;     /* rows of P that are not a number become 0 */
    bool is_signed; /* P's sign bit is set where it was dropped */
    tk_dtype dtype;
} tk_attention;

/* Results are dense: y [items, s, e]; p, dropped, keep [items, s, t], each of the three may be NULL. draw NULL: no
 * dropout, and neither dropped nor keep. Element i of p takes number i of the draw. TK_BAD_VALUE unless 0 <= ratio < 1.
 * workspace: as many bytes as said here, for at most `threads` threads. */
typedef struct tk_attention_results {
    void *y, *p, *dropped;
    uint8_t *keep;
} tk_attention_results;
typedef struct tk_attention_operands {
    const void *q, *kt, *v, *bias;
    const uint8_t *mask;
} tk_attention_operands;
size_t tk_attention_workspace(const tk_attention *a, int threads);
tk_status tk_attention_run(tk_attention_results out, tk_attention_operands in, const tk_attention *a, double ratio,
                           const tk_draw *draw, void *workspace);

/* Results are dense and may be NULL: dq [items, s, d], dkt [items, d, t], dv [items, t, e], ds [items, s, t]. dout
 * [items, s, e]. p alone: there was no dropout; with dropped and keep: as tk_attention_run gave them; is_dropped and
 * is_signed: p's sign says it all.
 * A finite `fill` leaves masked scores a share of P: their part of dq and dkt is the caller's to take out. */
typedef struct tk_attention_gradients {
    void *dq, *dkt, *dv, *ds;
} tk_attention_gradients;
typedef struct tk_attention_saved {
    const void *dout, *q, *kt, *v, *p, *dropped;
    const uint8_t *keep;
    bool is_dropped;
} tk_attention_saved;
size_t tk_attention_grad_workspace(const tk_attention *a, int threads);
tk_status tk_attention_grad(tk_attention_gradients out, tk_attention_saved in, const tk_attention *a, double ratio,
                            void *workspace);

/* The definition in double precision, whatever a->dtype says. bias, mask NULL: there is none; kept [items, s, t] NULL:
 * no dropout. */
void tk_attention_ref(double *y, double *p, const double *q, const double *kt, const double *v, const double *bias,
                      const uint8_t *mask, const uint8_t *kept, double ratio, const tk_attention *a);
#endif
