/* gradient_movement.c: gradients of ops that only move elements: the elements of dy move back, with zeros for
 * elements that were not taken, and sums for those taken several times. Sizes that are not known before the run come
 * from Shape of the forward operands. */
#include "compiler/ir/ops.h"
#include "gradients.h"
#include <string.h>

/* Reshape, Squeeze, Unsqueeze, Flatten: same elements, same order. */
void tc_gradient_view(tc_build *g) {
    g->of->dins[0] = tc_build_reshape_like(g, g->of->douts[0], tc_input(g->of->node, 0));
}

void tc_gradient_expand(tc_build *g) {
    g->of->dins[0] = tc_grad_reduce_like(g, g->of->douts[0], tc_input(g->of->node, 0));
}

void tc_gradient_transpose(tc_build *g) {
    int rank = tc_grad_rank(g, tc_input(g->of->node, 0));
    size_t count = 0;
    const int64_t *perm = tc_attr_ints(g->of->node, "perm", &count);
    int64_t inverse[TC_MAX_RANK] = {0};
    for (int i = 0; i < rank; i++)
        inverse[tc_grad_axis(g, perm && (size_t)i < count ? perm[i] : rank - 1 - i, rank)] = i;
    g->of->dins[0] = tc_build_transpose(g, g->of->douts[0], inverse, rank);
}

/* Sizes of the values along an axis, as int64[count]. */
static tc_value *sizes_along(tc_build *g, size_t count, tc_value *const *values, int axis) {
    int64_t *sizes = TC_NEW_ARRAY(g->pool->arena, int64_t, count);
    tc_value **dims = TC_NEW_ARRAY(g->pool->arena, tc_value *, count);
    bool known = true;
    for (size_t i = 0; i < count; i++)
        known = tc_build_static(values[i], axis, &sizes[i]) && known;
    if (known)
        return tc_build_ints(g, sizes, count);
    for (size_t i = 0; i < count; i++)
        dims[i] = tc_build_dims(g, values[i], axis, axis + 1);
    return tc_build_concat(g, count, dims, 0);
}

void tc_gradient_concat(tc_build *g) {
    uint32_t n = g->of->node->n_inputs;
    tc_value **parts = TC_NEW_ARRAY(g->pool->arena, tc_value *, n);
    for (uint32_t i = 0; i < n; i++)
        parts[i] = tc_input(g->of->node, i);
    int axis = tc_grad_axis(g, tc_attr_int(g->of->node, "axis", 0), tc_grad_rank(g, parts[0]));
    if (g->status != TC_OK)
        return;
    tc_value *operands[] = {g->of->douts[0], sizes_along(g, n, parts, axis)};
    tc_node *split = tc_build_node(g, "", "Split", 2, operands, n);
    tc_attr_set_int(split, "axis", axis);
    tc_build_finish(g, split);
    for (uint32_t i = 0; i < n; i++)
        if (g->of->needed[i])
            g->of->dins[i] = split->outputs[i];
}

void tc_gradient_split(tc_build *g) {
    uint32_t n = g->of->node->n_outputs;
    tc_value **parts = TC_NEW_ARRAY(g->pool->arena, tc_value *, n);
    for (uint32_t i = 0; i < n; i++) {
        tc_value *y = tc_output(g->of->node, i);
        parts[i] = g->of->douts[i];
        if (!y)
            tc_grad_refuse(g, "result %u is left out", (unsigned)i);
        else if (!parts[i])
            parts[i] = tc_build_zeros(g, tc_build_shape(g, y), tc_value_dtype(y));
    }
    if (g->status == TC_OK)
        g->of->dins[0] = tc_build_concat(g, n, parts, tc_attr_int(g->of->node, "axis", 0));
}

/* --- Slice ------------------------------------------------------------------------------------ */
typedef struct slice {
    tc_value *x;
    int64_t axes[TC_MAX_RANK], starts[TC_MAX_RANK], ends[TC_MAX_RANK], steps[TC_MAX_RANK];
    size_t n;   /* axes */
    bool known; /* starts, ends and steps are constant */
} slice;

static slice read_slice(tc_build *g) {
    slice s = {.x = tc_input(g->of->node, 0), .known = true};
    int rank = tc_grad_rank(g, s.x);
    size_t n_starts = 0, n_ends = 0, n_steps = 0;
    tc_value *starts = tc_input(g->of->node, 1), *axes = tc_input(g->of->node, 3), *steps = tc_input(g->of->node, 4);
    int64_t count = 0;
    if (!tc_build_static(starts, 0, &count) || count > TC_MAX_RANK)
        tc_grad_refuse(g, "the number of its axes is not known");
    s.n = (size_t)count;
    for (size_t i = 0; i < s.n; i++) {
        s.axes[i] = (int64_t)i;
        s.steps[i] = 1;
    }
    if (axes && !tc_build_known_ints(axes, s.axes, TC_MAX_RANK, &s.n))
        tc_grad_refuse(g, "its axes %s are not constant", tc_quote(g->ctx, axes->name));
    for (size_t i = 0; i < s.n; i++)
        s.axes[i] = tc_grad_axis(g, s.axes[i], rank);
    s.known = tc_build_known_ints(starts, s.starts, TC_MAX_RANK, &n_starts) &&
              tc_build_known_ints(tc_input(g->of->node, 2), s.ends, TC_MAX_RANK, &n_ends) &&
              (!steps || tc_build_known_ints(steps, s.steps, TC_MAX_RANK, &n_steps));
    return s;
}

/* The zeros around the slice along every axis of x: begins, then ends. False unless all sizes are known and steps
 * are 1. */
static bool slice_margins(const slice *s, int rank, int64_t *out_pads) {
    memset(out_pads, 0, 2 * (size_t)rank * sizeof(*out_pads));
    for (size_t i = 0; i < s->n; i++) {
        int64_t dim, axis = s->axes[i], start = s->starts[i], end = s->ends[i];
        if (!s->known || s->steps[i] != 1 || !tc_build_static(s->x, (int)axis, &dim))
            return false;
        start = start < 0 ? start + dim : start;
        start = start < 0 ? 0 : start > dim ? dim : start;
        end = end < 0 ? end + dim : end;
        end = end < start ? start : end > dim ? dim : end;
        out_pads[axis] = start;
        out_pads[axis + rank] = dim - end;
    }
    return true;
}

/* int64[1]: the entry of one axis in a list that has one per axis. */
static tc_value *element(tc_build *g, tc_value *list, size_t i) {
    return TC_OP(g, "Gather", list, tc_build_int(g, (int64_t)i));
}

/* The positions of x along the axis that the slice took: the slice of 0, 1, 2, .... */
static tc_value *taken_positions(tc_build *g, const slice *s, size_t i) {
    tc_value *dim = tc_build_dims(g, s->x, s->axes[i], s->axes[i] + 1);
    tc_value *scalar = TC_OP(g, "Squeeze", dim, tc_build_int(g, 0));
    tc_value *all = TC_OP(g, "Range", tc_build_scalar(g, TC_INT64, 0), scalar, tc_build_scalar(g, TC_INT64, 1));
    tc_value *operands[5] = {all};
    size_t n = 4;
    for (uint32_t k = 1; k < 5; k++) {
        tc_value *list = tc_input(g->of->node, k);
        operands[k] = k == 3 ? tc_build_int(g, 0) : list ? tc_build_cast(g, element(g, list, i), TC_INT64) : NULL;
        n = operands[k] ? k + 1 : n;
    }
    return tc_build_finish(g, tc_build_node(g, "", "Slice", n, operands, 1));
}

/* One axis at a time, in any order: rows go back to their positions. The shape grows from dy's to x's. */
static tc_value *scatter_slice(tc_build *g, const slice *s) {
    tc_value *dx = g->of->douts[0];
    int rank = tc_grad_rank(g, s->x);
    for (size_t i = 0; i < s->n; i++) {
        int64_t axis = s->axes[i];
        tc_value *parts[] = {tc_build_dims(g, dx, 0, axis), tc_build_dims(g, s->x, axis, axis + 1),
                             tc_build_dims(g, dx, axis + 1, rank)};
        tc_value *shape = tc_build_concat(g, 3, parts, 0);
        tc_value *operands[] = {shape, taken_positions(g, s, i), dx};
        tc_node *node = tc_build_node(g, TC_TEMPO_DOMAIN, "GatherGrad", 3, operands, 1);
        tc_attr_set_int(node, "axis", axis);
        dx = tc_build_finish(g, node);
    }
    return dx;
}

void tc_gradient_slice(tc_build *g) {
    slice s = read_slice(g);
    int64_t pads[2 * TC_MAX_RANK];
    int rank = tc_grad_rank(g, s.x);
    if (g->status != TC_OK)
        return;
    if (!slice_margins(&s, rank, pads))
        g->of->dins[0] = scatter_slice(g, &s);
    else if (tc_same_shape(s.x, g->of->douts[0]))
        g->of->dins[0] = g->of->douts[0];
    else
        g->of->dins[0] =
            TC_OP(g, "Pad", g->of->douts[0], tc_build_ints(g, pads, 2 * (size_t)rank), tc_build_like(g, s.x, 0));
}

/* --- Tile, triangles, sums -------------------------------------------------------------------- */
/* Each dim d repeated r times is seen as [r, d] and summed over r. */
void tc_gradient_tile(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *repeats = tc_input(g->of->node, 1);
    int rank = tc_grad_rank(g, x);
    int64_t r[TC_MAX_RANK], shape[2 * TC_MAX_RANK], axes[TC_MAX_RANK], dim = 0;
    size_t n = 0;
    bool known = tc_build_known_ints(repeats, r, TC_MAX_RANK, &n) && n == (size_t)rank;
    for (int i = 0; i < rank; i++) {
        axes[i] = 2 * i;
        known = known && tc_build_static(x, i, &dim);
        shape[2 * i] = known ? r[i] : 0;
        shape[2 * i + 1] = dim;
    }
    tc_value *pairs;
    if (known) {
        pairs = tc_build_ints(g, shape, 2 * (size_t)rank);
    } else {
        tc_value *columns[] = {tc_build_unsqueeze(g, repeats, (int64_t[]){1}, 1),
                               tc_build_unsqueeze(g, tc_build_shape(g, x), (int64_t[]){1}, 1)};
        pairs = TC_OP(g, "Reshape", tc_build_concat(g, 2, columns, 1), tc_build_int(g, 2 * rank));
    }
    g->of->dins[0] =
        tc_build_reduce(g, "ReduceSum", tc_build_reshape(g, g->of->douts[0], pairs), axes, (size_t)rank, false);
}

/* The triangle that the op kept. */
void tc_gradient_trilu(tc_build *g) {
    tc_value *k = tc_input(g->of->node, 1), *operands[] = {g->of->douts[0], k};
    tc_node *node = tc_build_node(g, "", "Trilu", k ? 2 : 1, operands, 1);
    tc_attr_set_int(node, "upper", tc_attr_int(g->of->node, "upper", 1));
    g->of->dins[0] = tc_build_finish(g, node);
}

/* Cumulative sums in the other direction. */
void tc_gradient_cumsum(tc_build *g) {
    tc_node *node = TC_BEGIN(g, "CumSum", g->of->douts[0], tc_input(g->of->node, 1));
    tc_attr_set_int(node, "exclusive", tc_attr_int(g->of->node, "exclusive", 0));
    tc_attr_set_int(node, "reverse", !tc_attr_int(g->of->node, "reverse", 0));
    g->of->dins[0] = tc_build_finish(g, node);
}

/* SpaceToDepth and DepthToSpace are inverse to each other in depth, column, row order (DCR). */
void tc_gradient_space_to_depth(tc_build *g) {
    tc_node *node = TC_BEGIN(g, "DepthToSpace", g->of->douts[0]);
    tc_attr_set_int(node, "blocksize", tc_attr_int(g->of->node, "blocksize", 1));
    g->of->dins[0] = tc_build_finish(g, node);
}

/* Depths in column, row order: [N, C, b, b, H, W] is stored as [N, C, H, b, W, b]. */
static tc_value *space_to_columns(tc_build *g, tc_value *x, tc_value *dy, int64_t blocksize) {
    static const int64_t perm[] = {0, 1, 3, 5, 2, 4};
    tc_value *size = tc_build_int(g, blocksize);
    tc_value *dims[] = {tc_build_dims(g, dy, 0, 2), tc_build_dims(g, x, 2, 3), size, tc_build_dims(g, x, 3, 4), size};
    tc_value *blocks = tc_build_reshape(g, dy, tc_build_concat(g, TC_COUNT(dims), dims, 0));
    return tc_build_reshape_like(g, tc_build_transpose(g, blocks, perm, 6), x);
}

void tc_gradient_depth_to_space(tc_build *g) {
    int64_t blocksize = tc_attr_int(g->of->node, "blocksize", 1);
    if (strcmp(tc_attr_string(g->of->node, "mode", "DCR"), "CRD") == 0) {
        g->of->dins[0] = space_to_columns(g, tc_input(g->of->node, 0), g->of->douts[0], blocksize);
        return;
    }
    tc_node *node = TC_BEGIN(g, "SpaceToDepth", g->of->douts[0]);
    tc_attr_set_int(node, "blocksize", blocksize);
    g->of->dins[0] = tc_build_finish(g, node);
}
