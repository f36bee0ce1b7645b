/* broadcast.c: shapes to merged loops, and the walk over them. */
#include "broadcast.h"
#include <string.h>

static bool natural_strides(tk_shape out, tk_shape inp, int64_t *out_strides) {
    int64_t stride = 1;
    if (inp.rank > out.rank)
        return false;
    for (int i = 0; i < out.rank; i++)
        out_strides[i] = 0;
    for (int i = inp.rank - 1; i >= 0; i--) {
        int at = out.rank - inp.rank + i;
        if (inp.dims[i] != out.dims[at] && inp.dims[i] != 1)
            return false;
        out_strides[at] = inp.dims[i] == 1 ? 0 : stride;
        stride *= inp.dims[i];
    }
    return true;
}

/* Whether every operand walks dims (outer, inner) as one dim. */
static bool mergeable(const tk_bcast *bc, int outer, int64_t inner_dim, int64_t strides[][TK_MAX_RANK], int inner) {
    for (int k = 0; k < bc->n_inp; k++)
        if (bc->strides[k][outer] != strides[k][inner] * inner_dim)
            return false;
    return true;
}

bool tk_bcast_init(tk_bcast *bc, tk_shape out, const tk_shape *inp, int n_inp) {
    int64_t strides[TK_BCAST_MAX][TK_MAX_RANK] = {{0}};
    int64_t merged[TK_BCAST_MAX][TK_MAX_RANK] = {{0}}, dims[TK_MAX_RANK] = {0};
    memset(bc, 0, sizeof *bc);
    bc->n_inp = n_inp;
    bc->count = 1;
    for (int k = 0; k < n_inp; k++) {
        if (!natural_strides(out, inp[k], strides[k]))
            return false;
        memcpy(bc->strides[k], strides[k], sizeof strides[k]);
    }
    int n = 0; /* merged dims so far, innermost first */
    for (int i = out.rank - 1; i >= 0; i--) {
        bc->count *= out.dims[i];
        if (out.dims[i] == 1)
            continue;
        if (n > 0 && mergeable(bc, i, dims[n - 1], merged, n - 1)) {
            dims[n - 1] *= out.dims[i];
            continue;
        }
        dims[n] = out.dims[i];
        for (int k = 0; k < n_inp; k++)
            merged[k][n] = strides[k][i];
        n++;
    }
    bc->rank = n > 0 ? n : 1;
    dims[0] = n > 0 ? dims[0] : 1;
    for (int i = 0; i < bc->rank; i++) {
        bc->dims[i] = dims[bc->rank - 1 - i];
        for (int k = 0; k < n_inp; k++)
            bc->strides[k][i] = merged[k][bc->rank - 1 - i];
    }
    return true;
}

void tk_bcast_walk(const tk_bcast *bc, int64_t begin, int64_t end, tk_run_fn run, void *ctx) {
    int64_t index[TK_MAX_RANK], offset[TK_BCAST_MAX] = {0}, step[TK_BCAST_MAX] = {0};
    int last = bc->rank - 1;
    if (begin >= end)
        return;
    int64_t rest = begin;
    for (int d = last; d >= 0; d--) {
        index[d] = rest % bc->dims[d];
        rest /= bc->dims[d];
        for (int k = 0; k < bc->n_inp; k++)
            offset[k] += index[d] * bc->strides[k][d];
    }
    for (int k = 0; k < bc->n_inp; k++)
        step[k] = bc->strides[k][last];
    while (begin < end) {
        int64_t n = bc->dims[last] - index[last];
        n = n < end - begin ? n : end - begin;
        run(ctx, begin, n, offset, step);
        begin += n;
        index[last] += n;
        for (int k = 0; k < bc->n_inp; k++)
            offset[k] += n * step[k];
        for (int d = last; d > 0 && index[d] == bc->dims[d]; d--) {
            index[d] = 0;
            index[d - 1]++;
            for (int k = 0; k < bc->n_inp; k++)
                offset[k] += bc->strides[k][d - 1] - bc->dims[d] * bc->strides[k][d];
        }
    }
}
