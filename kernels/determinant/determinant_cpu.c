/* determinant_cpu.c: determinants, a matrix at a time in each thread. */
#include "determinant.h"
#include "../common/parallel.h"
#include "../common/types.h"

typedef struct determinant_ctx {
    void *out;
    const void *dout, *inp; /* dout NULL: determinants */
    int64_t n;
    tk_dtype dtype;
    double *workspace;
} determinant_ctx;

static void cofactors(const determinant_ctx *c, const tk_lu *lu, int64_t b) {
    double dout = tk_get(c->dout, c->dtype, b);
    for (int64_t j = 0; j < lu->n; j++) {
        tk_lu_adjugate(lu, j);
        for (int64_t i = 0; i < lu->n; i++)
            tk_put(c->out, c->dtype, (b * lu->n + lu->rows[j]) * lu->n + lu->cols[i], dout * lu->column[i]);
    }
}

static void range(void *ctx, tk_share share) {
    const determinant_ctx *c = ctx;
    for (int64_t b = share.begin; b < share.end; b++) {
        tk_lu lu = tk_lu_of(c->workspace + TK_LU_ROOM(c->n) * share.thread, c->n);
        for (int64_t i = 0; i < c->n * c->n; i++)
            lu.a[i] = tk_get(c->inp, c->dtype, b * c->n * c->n + i);
        tk_lu_factor(&lu);
        if (c->dout)
            cofactors(c, &lu, b);
        else
            tk_put(c->out, c->dtype, b, tk_lu_determinant(&lu));
    }
}

size_t tk_determinant_workspace(int64_t batch, int64_t n, int slots) {
    (void)batch;
    return (size_t)TK_LU_ROOM(n) * (size_t)slots * sizeof(double);
}

void tk_determinant(tk_queue *q, void *out, const void *inp, int64_t batch, int64_t n, tk_dtype dtype,
                    void *workspace) {
    tk_parallel_slots(q, batch, range, &(determinant_ctx){out, NULL, inp, n, dtype, workspace});
}

void tk_determinant_grad(tk_queue *q, void *dinp, const void *dout, const void *inp, int64_t batch, int64_t n,
                         tk_dtype dtype, void *workspace) {
    tk_parallel_slots(q, batch, range, &(determinant_ctx){dinp, dout, inp, n, dtype, workspace});
}
