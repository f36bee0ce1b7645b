/* recipe_movement.c: ops that move elements: their shapes, and shape arithmetic, where a Reshape takes its target from
 * a Shape. */
#include "recipe_build.h"
#include <string.h>

static bool is_static(const fz_value *v) {
    for (int i = 0; i < v->rank; i++)
        if (v->dims[i].symbol != 0)
            return false;
    return true;
}

/* A dim of known size, counted from the front; NONE: there is none. */
static int static_axis(gen *g, const fz_value *v, int64_t least) {
    int from = fz_below(g, v->rank);
    for (int i = 0; i < v->rank; i++) {
        int axis = (from + i) % v->rank;
        if (v->dims[axis].symbol == 0 && v->dims[axis].size >= least)
            return axis;
    }
    return NONE;
}

static fz_dim product(gen *g, fz_dim a, fz_dim b) {
    if (a.symbol == 0 && b.symbol == 0)
        return fz_size(a.size * b.size);
    return a.symbol == 0 && a.size == 1 ? b : b.symbol == 0 && b.size == 1 ? a : fz_fresh(g, a.size * b.size);
}

static const char *axis_text(char attrs[FZ_ATTRS], int axis) {
    snprintf(attrs, FZ_ATTRS, "axis = %d", axis);
    return attrs;
}

/* --- shapes alone ----------------------------------------------------------------------------- */

int fz_add_transpose(gen *g, const fz_row *row) {
    (void)row;
    int x = fz_pick(g, fz_chance(g, 92) ? FZ_FLOAT : FZ_BOOL, 2, 5), perm[FZ_RANK];
    if (x == NONE)
        return NONE;
    int rank = fz_at(g, x)->rank;
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int j = fz_below(g, i + 1), kept = perm[i];
        perm[i] = perm[j];
        perm[j] = kept;
    }
    return fz_transpose(g, x, perm);
}

/* Two neighbours become one, or one becomes two; the others are copied by 0, and one dim of the target may be -1. */
FZ_PICKED(, fz_add_reshape, x, fz_pick(g, FZ_FLOAT, 1, 4)) {
    (void)row;
    fz_value v = *fz_at(g, x);
    int64_t target[FZ_RANK];
    fz_dim dims[FZ_RANK];
    int n = 0, at = v.rank > 1 ? fz_below(g, v.rank - 1) : 0;
    bool merge = v.rank > 1 && fz_chance(g, 60), split = !merge && v.dims[v.rank - 1].symbol == 0 && v.rank < 5,
         open = fz_chance(g, 40);
    for (int i = 0; i < v.rank; i++) {
        dims[n] = v.dims[i];
        target[n] = merge && i > at ? -2 : 0; /* 0 copies the dim at the same place */
        if (merge && i == at) {
            dims[n] = product(g, v.dims[i], v.dims[i + 1]);
            target[n] = dims[n].symbol != 0 || open ? -1 : dims[n].size;
            i++;
        } else if (target[n] == -2) {
            if (dims[n].symbol != 0) /* only one may be -1 */
                return NONE;
            target[n] = dims[n].size;
        }
        n++;
    }
    if (split) {
        int64_t size = dims[n - 1].size, part = size % 2 == 0 && fz_chance(g, 70) ? 2 : fz_chance(g, 50) ? 1 : size;
        dims[n - 1] = fz_size(part);
        dims[n] = fz_size(size / part);
        target[n - 1] = part;
        target[n++] = open ? -1 : size / part;
    }
    return fz_reshape(g, x, n, target, dims);
}

FZ_PICKED(, fz_add_unsqueeze, x, fz_pick(g, fz_chance(g, 90) ? FZ_FLOAT : FZ_BOOL, 0, 3)) {
    fz_value v = *fz_at(g, x);
    int at = fz_below(g, v.rank + 1);
    int64_t axis = fz_chance(g, 50) ? at : at - v.rank - 1;
    memmove(&v.dims[at + 1], &v.dims[at], (size_t)(v.rank - at) * sizeof v.dims[0]);
    v.dims[at] = fz_size(1);
    return fz_call(g, row->op, NULL, FZ_IN(x, fz_ints(g, 1, &axis)), v.kind, v.rank + 1, v.dims, v.high);
}

int fz_add_squeeze(gen *g, const fz_row *row) {
    for (int tries = 0; tries < 6; tries++) {
        int x = fz_pick(g, FZ_FLOAT, 1, 4);
        if (x == NONE)
            return NONE;
        fz_value v = *fz_at(g, x);
        for (int i = 0; i < v.rank; i++)
            if (v.dims[i].size == 1 && v.dims[i].symbol == 0) {
                int64_t axis = fz_chance(g, 50) ? i : i - v.rank;
                memmove(&v.dims[i], &v.dims[i + 1], (size_t)(v.rank - i - 1) * sizeof v.dims[0]);
                return fz_call(g, row->op, NULL, FZ_IN(x, fz_ints(g, 1, &axis)), v.kind, v.rank - 1, v.dims, v.high);
            }
    }
    return NONE;
}

FZ_PICKED(, fz_add_flatten, x, fz_pick(g, FZ_FLOAT, 1, 4)) {
    fz_value v = *fz_at(g, x);
    int axis = fz_below(g, v.rank + 1);
    fz_dim dims[2] = {fz_size(1), fz_size(1)};
    char attrs[FZ_ATTRS];
    for (int i = 0; i < v.rank; i++)
        dims[i >= axis] = product(g, dims[i >= axis], v.dims[i]);
    return fz_call(g, row->op, axis_text(attrs, axis), FZ_IN(x), FZ_FLOAT, 2, dims, v.high);
}

/* --- more of the same ------------------------------------------------------------------------- */

int fz_add_expand(gen *g, const fz_row *row) {
    int x = fz_pick(g, FZ_FLOAT, 0, 3), like = fz_pick(g, FZ_FLOAT, 1, 4);
    if (x == NONE || like == NONE || !fz_broadcasts(g, x, like))
        return NONE;
    fz_dim dims[FZ_RANK];
    double bound = fz_at(g, x)->high;
    fz_value v = *fz_at(g, like);
    int64_t sizes[FZ_RANK];
    int rank = fz_joined(g, x, like, dims);
    for (int i = 0; i < v.rank; i++)
        sizes[i] = v.dims[i].size;
    int shape = is_static(&v) && fz_chance(g, 50)
                    ? fz_ints(g, v.rank, sizes)
                    : fz_call(g, "Shape", NULL, FZ_IN(like), FZ_INT, 1, (fz_dim[]){fz_size(v.rank)}, 0);
    return fz_call(g, row->op, NULL, FZ_IN(x, shape), FZ_FLOAT, rank, dims, bound);
}

FZ_PICKED(, fz_add_tile, x, fz_pick(g, FZ_FLOAT, 1, 3)) {
    fz_value v = *fz_at(g, x);
    int64_t repeats[FZ_RANK];
    for (int i = 0; i < v.rank; i++) {
        repeats[i] = fz_chance(g, 40) ? 2 : 1;
        v.dims[i] = repeats[i] == 1 ? v.dims[i] : product(g, v.dims[i], fz_size(repeats[i]));
    }
    return fz_call(g, row->op, NULL, FZ_IN(x, fz_ints(g, v.rank, repeats)), FZ_FLOAT, v.rank, v.dims, v.high);
}

FZ_PICKED(, fz_add_slice, x, fz_pick(g, FZ_FLOAT, 1, 4)) {
    fz_value v = *fz_at(g, x);
    int axis = static_axis(g, &v, 1);
    if (axis == NONE) {
        axis = fz_below(g, v.rank); /* the first one, whatever the size */
        int zero = fz_ints(g, 1, (int64_t[]){0}), one = fz_ints(g, 1, (int64_t[]){1}),
            at = fz_ints(g, 1, (int64_t[]){axis});
        v.dims[axis] = fz_fresh(g, 1);
        return fz_call(g, row->op, NULL, FZ_IN(x, zero, one, at), FZ_FLOAT, v.rank, v.dims, v.high);
    }
    int64_t size = v.dims[axis].size, start = fz_below(g, (int)size),
            end = start + 1 + fz_below(g, (int)(size - start));
    int64_t step = fz_chance(g, 25)   ? 2
                   : fz_chance(g, 20) ? -1
                                      : 1,
            count = step == 2 ? (end - start + 1) / 2 : end - start;
    int64_t from = step < 0 ? end - 1 : start, to = step < 0 ? (start == 0 ? INT32_MIN : start - 1)
                                                    : end == size && fz_chance(g, 50) ? INT64_MAX / 2
                                                                                      : end;
    if (step < 0 && start > 0)
        to -= size; /* from the end, or -1 would be the last */
    int a = fz_ints(g, 1, &from), b = fz_ints(g, 1, &to), c = fz_ints(g, 1, (int64_t[]){axis}),
        d = fz_ints(g, 1, &step);
    v.dims[axis] = fz_size(count);
    return fz_call(g, row->op, NULL, step == 1 ? 4 : 5, (int[]){x, a, b, c, d}, FZ_FLOAT, v.rank, v.dims, v.high);
}

FZ_PICKED(, fz_add_concat, a, fz_pick(g, FZ_FLOAT, 1, 4)) {
    fz_value v = *fz_at(g, a), w;
    int axis = fz_below(g, v.rank), b = a;
    for (int tries = 0; tries < 8; tries++) {
        int other = fz_pick(g, FZ_FLOAT, v.rank, v.rank);
        bool fits = other != NONE;
        for (int i = 0; fits && i < v.rank; i++)
            fits = i == axis || fz_same_dim(g, v.dims[i], fz_at(g, other)->dims[i]);
        b = fits ? other : b;
    }
    w = *fz_at(g, b);
    fz_dim p = v.dims[axis], q = w.dims[axis];
    v.dims[axis] = p.symbol == 0 && q.symbol == 0 ? fz_size(p.size + q.size) : fz_fresh(g, p.size + q.size);
    char attrs[FZ_ATTRS];
    return fz_call(g, row->op, axis_text(attrs, fz_chance(g, 60) ? axis : axis - v.rank), FZ_IN(a, b), FZ_FLOAT, v.rank,
                   v.dims, v.high > w.high ? v.high : w.high);
}

FZ_PICKED(, fz_add_split, x, fz_pick(g, FZ_FLOAT, 1, 4)) {
    fz_value v = *fz_at(g, x);
    int axis = static_axis(g, &v, 2);
    if (axis == NONE)
        return NONE;
    int64_t size = v.dims[axis].size, first = 1 + fz_below(g, (int)size - 1);
    bool even = size % 2 == 0 && fz_chance(g, 50);
    char attrs[FZ_ATTRS];
    snprintf(attrs, sizeof attrs, "axis = %d%s", axis, even ? ", num_outputs = 2" : "");
    first = even ? size / 2 : first;
    int sizes = even ? NONE : fz_ints(g, 2, (int64_t[]){first, size - first});
    int node = fz_node_add(g, row->op, attrs, even ? 1 : 2, (int[]){x, sizes});
    v.dims[axis] = fz_size(first);
    int y = fz_result(g, node, FZ_FLOAT, v.rank, v.dims, v.high);
    v.dims[axis] = fz_size(size - first);
    fz_result(g, node, FZ_FLOAT, v.rank, v.dims, v.high);
    return y;
}

FZ_PICKED(, fz_add_pad, x, fz_pick(g, FZ_FLOAT, 1, 3)) {
    fz_value v = *fz_at(g, x);
    int64_t pads[2 * FZ_RANK];
    for (int i = 0; i < v.rank; i++) {
        bool some = fz_chance(g, 50);
        pads[i] = some ? fz_below(g, 2) : 0;
        pads[i + v.rank] = some ? 1 : 0;
        if (some)
            v.dims[i] = v.dims[i].symbol == 0 ? fz_size(v.dims[i].size + pads[i] + 1)
                                              : fz_fresh(g, v.dims[i].size + pads[i] + 1);
    }
    int by = fz_ints(g, 2 * v.rank, pads);
    return fz_call(g, row->op, NULL, FZ_IN(x, by, fz_number(g, 0.5)), FZ_FLOAT, v.rank, v.dims, v.high + 0.5);
}

int fz_add_trilu(gen *g, const fz_row *row) {
    int x = fz_pick(g, FZ_FLOAT, 2, 4);
    return x == NONE ? NONE : fz_unary(g, row->op, FZ_ONE_OF(g, "", "upper = 0"), x, fz_at(g, x)->high);
}

/* --- by indices ------------------------------------------------------------------------------- */

/* Integers below `size`, as many as dims say: an input, or an initializer where the dims are known. */
static int indices(gen *g, int rank, const fz_dim *dims, int64_t size) {
    int value = fz_input(g, FZ_INT, rank, dims, 0, (double)size);
    if (is_static(fz_at(g, value)) && fz_chance(g, 50))
        g->p->values[value].from = 'c';
    return value;
}

FZ_PICKED(, fz_add_gather, x, fz_pick(g, FZ_FLOAT, 1, 4)) {
    fz_value v = *fz_at(g, x);
    int axis = static_axis(g, &v, 1), n = fz_below(g, v.rank < 3 ? 3 : 2), rank = 0;
    if (axis == NONE)
        return NONE;
    fz_dim at[2] = {fz_symbol(g, 0), fz_size(1 + fz_below(g, 4))}, dims[FZ_RANK];
    char attrs[FZ_ATTRS];
    for (int i = 0; i < v.rank; i++)
        if (i != axis)
            dims[rank++] = v.dims[i];
        else
            for (int k = 0; k < n; k++)
                dims[rank++] = at[k];
    return fz_call(g, row->op, axis_text(attrs, axis), FZ_IN(x, indices(g, n, at, v.dims[axis].size)), FZ_FLOAT, rank,
                   dims, v.high);
}

FZ_PICKED(, fz_add_gather_elements, x, fz_pick(g, FZ_FLOAT, 1, 3)) {
    fz_value v = *fz_at(g, x);
    int axis = static_axis(g, &v, 1);
    if (axis == NONE)
        return NONE;
    int64_t size = v.dims[axis].size;
    char attrs[FZ_ATTRS];
    v.dims[axis] = fz_size(1 + fz_below(g, 4));
    return fz_call(g, row->op, axis_text(attrs, axis), FZ_IN(x, indices(g, v.rank, v.dims, size)), FZ_FLOAT, v.rank,
                   v.dims, v.high);
}

int fz_add_gather_nd(gen *g, const fz_row *row) {
    int x = fz_pick(g, FZ_FLOAT, 2, 3);
    if (x == NONE || fz_at(g, x)->dims[0].symbol != 0)
        return NONE;
    fz_value v = *fz_at(g, x);
    fz_dim many = fz_size(1 + fz_below(g, 4));
    int at = indices(g, 2, (fz_dim[]){many, fz_size(1)}, v.dims[0].size);
    v.dims[0] = many;
    return fz_call(g, row->op, NULL, FZ_IN(x, at), FZ_FLOAT, v.rank, v.dims, v.high);
}

/* Each place is written once. */
int fz_add_scatter_elements(gen *g, const fz_row *row) {
    int x = fz_pick(g, FZ_FLOAT, 1, 3);
    if (x == NONE || fz_at(g, x)->dims[0].symbol != 0)
        return NONE;
    fz_value v = *fz_at(g, x);
    int64_t at = fz_below(g, (int)v.dims[0].size);
    fz_dim dims[FZ_RANK];
    for (int i = 0; i < v.rank; i++)
        dims[i] = fz_size(1);
    int index = fz_input(g, FZ_INT, v.rank, dims, (double)at, (double)at + 0.5);
    g->p->values[index].from = 'c';
    return fz_call(g, row->op, "axis = 0", FZ_IN(x, index, fz_weight(g, v.rank, dims)), FZ_FLOAT, v.rank, v.dims,
                   v.high + 1.25);
}

int fz_add_scatter_nd(gen *g, const fz_row *row) {
    int x = fz_pick(g, FZ_FLOAT, 1, 3);
    if (x == NONE || fz_at(g, x)->dims[0].symbol != 0 || !is_static(fz_at(g, x)))
        return NONE;
    fz_value v = *fz_at(g, x);
    int64_t at = fz_below(g, (int)v.dims[0].size);
    int index = fz_input(g, FZ_INT, 2, (fz_dim[]){fz_size(1), fz_size(1)}, (double)at, (double)at + 0.5);
    fz_dim dims[FZ_RANK];
    g->p->values[index].from = 'c';
    memcpy(dims, v.dims, sizeof dims);
    dims[0] = fz_size(1);
    return fz_call(g, row->op, NULL, FZ_IN(x, index, fz_weight(g, v.rank, dims)), FZ_FLOAT, v.rank, v.dims,
                   v.high + 1.25);
}

/* --- windows ---------------------------------------------------------------------------------- */

int fz_add_conv(gen *g, const fz_row *row) {
    int x = fz_pick(g, FZ_FLOAT, 3, 3);
    if (x == NONE || fz_at(g, x)->dims[1].symbol != 0 || fz_at(g, x)->high > CALM)
        return NONE;
    fz_value v = *fz_at(g, x);
    fz_dim filters = fz_size(1 + fz_below(g, 3)), kernel = fz_size(fz_chance(g, 50) ? 3 : 1);
    int w = fz_weight(g, 3, (fz_dim[]){filters, v.dims[1], kernel}),
        b = fz_chance(g, 60) ? fz_weight(g, 1, &filters) : NONE;
    return fz_call(g, row->op, kernel.size == 3 ? "pads = [1, 1]" : "", b == NONE ? 2 : 3, (int[]){x, w, b}, FZ_FLOAT,
                   3, (fz_dim[]){v.dims[0], filters, v.dims[2]},
                   1.25 * (v.high * (double)(v.dims[1].size * kernel.size) + 1));
}

int fz_add_conv_transpose(gen *g, const fz_row *row) {
    int x = fz_pick(g, FZ_FLOAT, 3, 3);
    if (x == NONE || fz_at(g, x)->dims[1].symbol != 0 || fz_at(g, x)->dims[2].symbol != 0 || fz_at(g, x)->high > CALM)
        return NONE;
    fz_value v = *fz_at(g, x);
    fz_dim filters = fz_size(1 + fz_below(g, 3));
    int64_t stride = 1 + fz_below(g, 2);
    int w = fz_weight(g, 3, (fz_dim[]){v.dims[1], filters, fz_size(2)});
    return fz_call(g, row->op, stride == 2 ? "strides = [2]" : "", FZ_IN(x, w), FZ_FLOAT, 3,
                   (fz_dim[]){v.dims[0], filters, fz_size((v.dims[2].size - 1) * stride + 2)},
                   2.5 * v.high * (double)v.dims[1].size);
}

/* Blocks of 2 x 2; a weight where nothing has dims that fit. One block of one channel would move nothing, and be a view
 * that no ledger tells. */
int fz_add_blocks(gen *g, const fz_row *row) {
    bool to_space = row->form == 1;
    int x = fz_pick(g, FZ_FLOAT, 4, 4);
    fz_value v = {0};
    if (x != NONE)
        v = *fz_at(g, x);
    bool fits = x != NONE &&
                (to_space ? v.dims[1].size % 4 == 0 : v.dims[2].size % 2 == 0 && v.dims[3].size % 2 == 0) &&
                is_static(&v);
    fits = fits && v.dims[1].size * v.dims[2].size * v.dims[3].size > 4;
    if (!fits) {
        fz_dim dims[] = {fz_size(1 + fz_below(g, 2)), fz_size(to_space ? 4 : 2), fz_size(2), fz_size(2)};
        x = fz_weight(g, 4, dims);
        v = *fz_at(g, x);
    }
    int64_t by = to_space ? 2 : 1, from = to_space ? 1 : 2;
    fz_dim dims[] = {v.dims[0], fz_size(to_space ? v.dims[1].size / 4 : v.dims[1].size * 4),
                     fz_size(v.dims[2].size * by / from), fz_size(v.dims[3].size * by / from)};
    return fz_call(g, row->op, "blocksize = 2", FZ_IN(x), FZ_FLOAT, 4, dims, v.high);
}

FZ_PICKED(, fz_add_pool, x, fz_pick(g, FZ_FLOAT, 3, 3)) {
    fz_value v = *fz_at(g, x);
    if (row->form == 1)
        return fz_call(g, row->op, NULL, FZ_IN(x), FZ_FLOAT, 3, (fz_dim[]){v.dims[0], v.dims[1], fz_size(1)}, v.high);
    if (v.dims[2].symbol != 0) /* the gradient has to know it */
        return NONE;
    return fz_unary(g, row->op, "kernel_shape = [3], pads = [1, 1]", x, v.high);
}

/* `form`: gates. Y [steps, directions, batch, states]; all functions of a state are below 1. */
int fz_add_recurrent(gen *g, const fz_row *row) {
    int x = fz_pick(g, FZ_FLOAT, 3, 3);
    if (x == NONE || fz_at(g, x)->dims[2].symbol != 0)
        return NONE;
    const fz_value v = *fz_at(g, x);
    const int64_t states = 1 + fz_below(g, 3), directions = 1 + fz_below(g, 2), rows = row->form * states;
    const fz_dim w[] = {fz_size(directions), fz_size(rows), v.dims[2]}, r[] = {w[0], w[1], fz_size(states)},
                 b[] = {w[0], fz_size(2 * rows)}, y[] = {v.dims[0], w[0], v.dims[1], r[2]};
    const char *attrs = directions == 2    ? "direction = \"bidirectional\""
                        : fz_chance(g, 30) ? "direction = \"reverse\""
                        : row->form == 3   ? "linear_before_reset = 1"
                                           : NULL;
    int of_x = fz_weight(g, 3, w), of_h = fz_weight(g, 3, r);
    if (fz_chance(g, 50))
        return fz_call(g, row->op, attrs, FZ_IN(x, of_x, of_h), FZ_FLOAT, 4, y, 1);
    return fz_call(g, row->op, attrs, FZ_IN(x, of_x, of_h, fz_weight(g, 2, b)), FZ_FLOAT, 4, y, 1);
}

/* --- shape arithmetic ------------------------------------------------------------------------- */

static int shape_of(gen *g, int x) {
    return fz_call(g, "Shape", NULL, FZ_IN(x), FZ_INT, 1, (fz_dim[]){fz_size(fz_at(g, x)->rank)}, 0);
}

static int pick_dims(gen *g, int shape, int64_t from, int64_t to) { /* a Slice of a Shape */
    int a = fz_ints(g, 1, &from), b = fz_ints(g, 1, &to);
    return fz_call(g, "Slice", NULL, FZ_IN(shape, a, b), FZ_INT, 1, (fz_dim[]){fz_size(to - from)}, 0);
}

static int one_dim(gen *g, int shape,
                   int64_t index) { /* Gather, then Unsqueeze: as exporters of a view(b, s, -1) write it */
    fz_dim one = fz_size(1);
    int at = fz_ints(g, -1, &index), size = fz_call(g, "Gather", "axis = 0", FZ_IN(shape, at), FZ_INT, 0, &one, 0);
    return fz_call(g, "Unsqueeze", NULL, FZ_IN(size, fz_ints(g, 1, (int64_t[]){0})), FZ_INT, 1, &one, 0);
}

static int joined_target(gen *g, int a, int b, int n) {
    return fz_call(g, "Concat", "axis = 0", FZ_IN(a, b), FZ_INT, 1, (fz_dim[]){fz_size(n)}, 0);
}

/* x as [d0, everything else]. */
static int flat_behind(gen *g, int x) {
    fz_value v = *fz_at(g, x);
    fz_dim rest = fz_size(1);
    for (int i = 1; i < v.rank; i++)
        rest = product(g, rest, v.dims[i]);
    int shape = shape_of(g, x), first = fz_chance(g, 50) ? one_dim(g, shape, 0) : pick_dims(g, shape, 0, 1);
    int open = fz_ints(g, 1, (int64_t[]){-1}), target = joined_target(g, first, open, 2);
    return fz_call(g, "Reshape", NULL, FZ_IN(x, target), FZ_FLOAT, 2, (fz_dim[]){v.dims[0], rest}, v.high);
}

/* 0, 1, 2, ... along the last dim but one, added to x. */
static int counted(gen *g, int x) {
    fz_value v = *fz_at(g, x);
    fz_dim n = v.dims[v.rank - 2], none = {0, 0};
    int at = fz_ints(g, -1, (int64_t[]){v.rank - 2}), shape = shape_of(g, x),
        size = fz_call(g, "Gather", NULL, FZ_IN(shape, at), FZ_INT, 0, &none, 0);
    int zero = fz_ints(g, -1, (int64_t[]){0}), one = fz_ints(g, -1, (int64_t[]){1});
    int range = fz_call(g, "Range", NULL, FZ_IN(zero, size, one), FZ_INT, 1, &n, 0);
    int column = fz_call(g, "Unsqueeze", NULL, FZ_IN(range, fz_ints(g, 1, (int64_t[]){1})), FZ_INT, 2,
                         (fz_dim[]){n, fz_size(1)}, 0);
    int cast = fz_call(g, "Cast", "to = @", FZ_IN(column), FZ_FLOAT, 2, (fz_dim[]){n, fz_size(1)}, 5);
    return fz_either(g, "Add", x, cast, v.high + 5);
}

/* A weight, repeated to the shape of x; and as much of a constant. */
static int spread(gen *g, int x) {
    fz_value v = *fz_at(g, x);
    fz_dim last = fz_last(g, x, 1);
    int w = fz_weight(g, 1, (fz_dim[]){last.symbol ? fz_size(1) : last}), shape = shape_of(g, x);
    int wide = fz_call(g, "Expand", NULL, FZ_IN(w, shape), FZ_FLOAT, v.rank, v.dims, 1.25);
    if (fz_chance(g, 50))
        return fz_either(g, "Mul", wide, x, v.high * 1.25);
    int fill = fz_call(g, "ConstantOfShape", "value = @ {0.5}", FZ_IN(shape), FZ_FLOAT, v.rank, v.dims, 0.5);
    return fz_either(g, "Add", fill, wide, 1.75);
}

int fz_add_shape_arithmetic(gen *g, const fz_row *row) {
    (void)row;
    int x = fz_pick(g, FZ_FLOAT, 2, 3), which = fz_below(g, 3);
    if (x == NONE || fz_at(g, x)->high > CALM)
        return NONE;
    return which == 0 ? flat_behind(g, x) : which == 1 ? counted(g, x) : spread(g, x);
}
