/* eval_move.c: evaluators of ops that move elements: each result element is an operand's element, found by its
 * coordinate. */
#include "eval.h"
#include <string.h>

const tc_contents *tc_eval_copy(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    tc_contents *out = x ? tc_eval_out(ev, node, output) : NULL;
    if (!out || out->count != x->count)
        return NULL;
    out->items = x->items;
    return out;
}

/* Result element at `at` is the operand's at sum(at[i] * strides[i]) + offset. */
static const tc_contents *strided(tc_eval *ev, const tc_node *node, uint32_t output, const int64_t *strides,
                                  int64_t offset) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    tc_contents *out = tc_eval_out(ev, node, output);
    int64_t at[TC_MAX_RANK] = {0};
    for (uint64_t n = 0; out && n < out->count; n++, tc_eval_next(out->rank, out->dims, at)) {
        int64_t from = offset;
        for (int i = 0; i < out->rank; i++)
            from += at[i] * strides[i];
        if (from < 0 || (uint64_t)from >= x->count)
            return NULL;
        tc_eval_items(out)[n] = x->items[from];
    }
    return out;
}

const tc_contents *tc_eval_transpose(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    int64_t strides[TC_MAX_RANK], permuted[TC_MAX_RANK];
    size_t count;
    const int64_t *perm = tc_attr_ints(node, "perm", &count);
    if (!x || (perm && count != (size_t)x->rank))
        return NULL;
    tc_eval_strides(x->rank, x->dims, strides);
    for (int i = 0; i < x->rank; i++)
        permuted[i] = strides[perm ? perm[i] : x->rank - 1 - i];
    return strided(ev, node, output, permuted, 0);
}

const tc_contents *tc_eval_expand(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    int64_t strides[TC_MAX_RANK], spread[TC_MAX_RANK] = {0};
    int rank = tc_value_rank(node->outputs[output]);
    if (!x || rank < x->rank)
        return NULL;
    tc_eval_strides(x->rank, x->dims, strides);
    for (int i = 0; i < x->rank; i++)
        spread[rank - x->rank + i] = x->dims[i] == 1 ? 0 : strides[i];
    return strided(ev, node, output, spread, 0);
}

/* The axes that operand `index` lists, or all in order. */
static bool listed_axes(tc_eval *ev, const tc_node *node, uint32_t index, int rank, size_t count,
                        int axes[TC_MAX_RANK]) {
    const int64_t *given = NULL;
    size_t n = count;
    if (count > (size_t)rank || (tc_input(node, index) && (!tc_eval_ints(ev, node, index, &given, &n) || n != count)))
        return false;
    for (size_t i = 0; i < count; i++) {
        axes[i] = given ? tc_eval_axis(given[i], rank) : (int)i;
        if (axes[i] < 0)
            return false;
    }
    return true;
}

/* A slice's first position on an axis, also where its step is negative and its start before the beginning. */
static int64_t slice_start(int64_t start, int64_t size, int64_t step) {
    start = start < 0 ? start + size : start;
    int64_t high = step > 0 ? size : size - 1;
    return start < 0 ? 0 : start > high ? high : start;
}

const tc_contents *tc_eval_slice(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    const int64_t *starts, *steps = NULL;
    int64_t strides[TC_MAX_RANK], offset = 0;
    int axes[TC_MAX_RANK];
    size_t n, n_steps = 0;
    if (!x || !tc_eval_ints(ev, node, 1, &starts, &n) || !listed_axes(ev, node, 3, x->rank, n, axes))
        return NULL;
    if (tc_input(node, 4) && (!tc_eval_ints(ev, node, 4, &steps, &n_steps) || n_steps != n))
        return NULL;
    tc_eval_strides(x->rank, x->dims, strides);
    for (size_t i = 0; i < n; i++) {
        int64_t step = steps ? steps[i] : 1;
        if (step > INT32_MAX || step < -INT32_MAX)
            step = step > 0 ? INT32_MAX : -INT32_MAX; /* one element at most */
        offset += slice_start(starts[i], x->dims[axes[i]], step) * strides[axes[i]];
        strides[axes[i]] *= step;
    }
    return strided(ev, node, output, strides, offset);
}

const tc_contents *tc_eval_split(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    int axis = x ? tc_eval_axis(tc_attr_int(node, "axis", 0), x->rank) : -1;
    int64_t strides[TC_MAX_RANK], before = 0;
    if (axis < 0)
        return NULL;
    for (uint32_t i = 0; i < output; i++) {
        const tc_value *part = node->outputs[i];
        if (!part || !tc_type_is_static(part->type))
            return NULL;
        before += part->type->dims[axis].value;
    }
    tc_eval_strides(x->rank, x->dims, strides);
    return strided(ev, node, output, strides, before * strides[axis]);
}

const tc_contents *tc_eval_tile(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    tc_contents *out = x ? tc_eval_out(ev, node, output) : NULL;
    int64_t at[TC_MAX_RANK] = {0}, strides[TC_MAX_RANK];
    if (!out || out->rank != x->rank)
        return NULL;
    tc_eval_strides(x->rank, x->dims, strides);
    for (uint64_t n = 0; n < out->count; n++, tc_eval_next(out->rank, out->dims, at)) {
        int64_t from = 0;
        for (int i = 0; i < x->rank; i++)
            from += at[i] % x->dims[i] * strides[i];
        tc_eval_items(out)[n] = x->items[from];
    }
    return out;
}

/* Constant mode only: the others are used on data, not on sizes. */
const tc_contents *tc_eval_pad(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0), *fill = tc_eval_in(ev, node, 2);
    const int64_t *pads;
    int64_t before[TC_MAX_RANK] = {0}, at[TC_MAX_RANK] = {0}, strides[TC_MAX_RANK];
    int axes[TC_MAX_RANK];
    size_t n;
    if (!x || !tc_eval_ints(ev, node, 1, &pads, &n) || !listed_axes(ev, node, 3, x->rank, n / 2, axes) ||
        strcmp(tc_attr_string(node, "mode", "constant"), "constant") != 0 || (tc_input(node, 2) && !fill))
        return NULL;
    tc_contents *out = tc_eval_out(ev, node, output);
    tc_scalar zero = tc_eval_is_int(x->dtype) ? (tc_scalar){.i = tc_dim_const(0)} : (tc_scalar){.f = 0};
    for (size_t i = 0; i < n / 2; i++)
        before[axes[i]] = pads[i] < -((int64_t)1 << 62) ? -((int64_t)1 << 62) : pads[i]; /* as far outside */
    tc_eval_strides(x->rank, x->dims, strides);
    for (uint64_t k = 0; out && k < out->count; k++, tc_eval_next(out->rank, out->dims, at)) {
        int64_t from = 0;
        bool inside = true;
        for (int i = 0; i < x->rank; i++) {
            int64_t p = at[i] - before[i];
            inside = inside && p >= 0 && p < x->dims[i];
            from += inside ? p * strides[i] : 0;
        }
        tc_eval_items(out)[k] = inside ? x->items[from] : fill && fill->count ? fill->items[0] : zero;
    }
    return out;
}

const tc_contents *tc_eval_concat(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *first = tc_eval_in(ev, node, 0);
    tc_contents *out = first ? tc_eval_out(ev, node, output) : NULL;
    int axis = out ? tc_eval_axis(tc_attr_int(node, "axis", 0), out->rank) : -1;
    int64_t outer = 1, inner = 1, row = 0, before = 0;
    if (axis < 0)
        return NULL;
    for (int i = 0; i < out->rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : out->dims[i];
    row = out->dims[axis] * inner;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        const tc_contents *x = tc_eval_in(ev, node, k);
        if (!x || x->rank != out->rank || (before + x->dims[axis] * inner) > row)
            return NULL;
        int64_t part = x->dims[axis] * inner;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < part; i++)
                tc_eval_items(out)[o * row + before + i] = x->items[o * part + i];
        before += part;
    }
    return before == row ? out : NULL;
}

/* --- indices ---------------------------------------------------------------------------------- */

/* Item `n` of the indices as a position on an axis; -1 where it is not known or outside. */
static int64_t position(const tc_contents *indices, uint64_t n, int64_t size) {
    tc_dim at = indices->items[n].i;
    if (!tc_dim_is_const(at) || at.value < -size || at.value >= size)
        return -1;
    return at.value < 0 ? at.value + size : at.value;
}

const tc_contents *tc_eval_gather(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0), *indices = tc_eval_in(ev, node, 1);
    tc_contents *out = x && indices ? tc_eval_out(ev, node, output) : NULL;
    int axis = out ? tc_eval_axis(tc_attr_int(node, "axis", 0), x->rank) : -1;
    int64_t inner = 1;
    if (axis < 0)
        return NULL;
    for (int i = axis + 1; i < x->rank; i++)
        inner *= x->dims[i];
    uint64_t block = indices->count * (uint64_t)inner;
    for (uint64_t n = 0; n < out->count; n++) {
        int64_t at = position(indices, n % block / (uint64_t)inner, x->dims[axis]);
        if (at < 0)
            return NULL;
        uint64_t outer = n / block;
        tc_eval_items(out)[n] =
            x->items[(outer * (uint64_t)x->dims[axis] + (uint64_t)at) * (uint64_t)inner + n % (uint64_t)inner];
    }
    return out;
}

const tc_contents *tc_eval_gather_elements(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0), *indices = tc_eval_in(ev, node, 1);
    tc_contents *out = x && indices ? tc_eval_out(ev, node, output) : NULL;
    int axis = out ? tc_eval_axis(tc_attr_int(node, "axis", 0), x->rank) : -1;
    int64_t at[TC_MAX_RANK] = {0}, strides[TC_MAX_RANK];
    if (axis < 0 || out->rank != x->rank)
        return NULL;
    tc_eval_strides(x->rank, x->dims, strides);
    for (uint64_t n = 0; n < out->count; n++, tc_eval_next(out->rank, out->dims, at)) {
        int64_t from = 0;
        for (int i = 0; i < x->rank; i++) {
            int64_t p = i == axis ? position(indices, n, x->dims[i]) : at[i];
            if (p < 0 || p >= x->dims[i])
                return NULL;
            from += p * strides[i];
        }
        tc_eval_items(out)[n] = x->items[from];
    }
    return out;
}

/* The position in a tensor to which tuple number `n` of indices points, in blocks that a tuple names; -1: not known. */
static int64_t tuple_offset(const tc_contents *indices, uint64_t n, int64_t tuple, const int64_t *dims, int first) {
    int64_t from = 0;
    for (int64_t i = 0; i < tuple; i++) {
        int64_t p = position(indices, n * (uint64_t)tuple + (uint64_t)i, dims[first + i]);
        if (p < 0)
            return -1;
        from = from * dims[first + i] + p;
    }
    return from;
}

/* The number of elements after `axis`. */
static int64_t block_size(const tc_contents *x, int axis) {
    int64_t size = 1;
    for (int i = axis; i < x->rank; i++)
        size *= x->dims[i];
    return size;
}

const tc_contents *tc_eval_gather_nd(tc_eval *ev, const tc_node *node, uint32_t output) {
    const tc_contents *x = tc_eval_in(ev, node, 0), *indices = tc_eval_in(ev, node, 1);
    tc_contents *out = x && indices && indices->rank > 0 ? tc_eval_out(ev, node, output) : NULL;
    int64_t batch = tc_attr_int(node, "batch_dims", 0), tuple = out ? indices->dims[indices->rank - 1] : 0;
    if (!out || batch < 0 || batch + tuple > x->rank || batch >= indices->rank || out->count == 0)
        return out && out->count == 0 ? out : NULL;
    int64_t block = block_size(x, (int)(batch + tuple)), per_batch = block_size(x, (int)batch), batches = 1;
    for (int64_t i = 0; i < batch; i++)
        batches *= x->dims[i];
    uint64_t tuples = out->count / (uint64_t)block, tuples_per_batch = tuples / (uint64_t)batches;
    for (uint64_t n = 0; n < tuples; n++) {
        int64_t from = tuple_offset(indices, n, tuple, x->dims, (int)batch);
        if (from < 0)
            return NULL;
        uint64_t start = n / tuples_per_batch * (uint64_t)per_batch + (uint64_t)(from * block);
        memcpy(&tc_eval_items(out)[n * (uint64_t)block], &x->items[start], (size_t)block * sizeof *x->items);
    }
    return out;
}

/* How a scattered update is combined with the element at its position. */
static bool read_reduction(const tc_node *node, int *arith) {
    static const struct {
        const char *name;
        int arith;
    } words[] = {{"none", -1}, {"add", TC_ADD}, {"mul", TC_MUL}, {"max", TC_MAX}, {"min", TC_MIN}};
    const char *reduction = tc_attr_string(node, "reduction", "none");
    for (size_t i = 0; i < TC_COUNT(words); i++)
        if (strcmp(words[i].name, reduction) == 0)
            return *arith = words[i].arith, true;
    return false;
}

static void update(tc_eval *ev, tc_dtype dtype, int arith, tc_scalar *at, tc_scalar value) {
    *at = arith < 0 ? value : tc_eval_arith(ev, (tc_arith)arith, dtype, *at, value);
}

/* The result with operand 0's items, to be updated. */
static tc_contents *scatter_base(tc_eval *ev, const tc_node *node, uint32_t output, int *arith) {
    const tc_contents *x = tc_eval_in(ev, node, 0);
    if (!x || !tc_eval_in(ev, node, 1) || !tc_eval_in(ev, node, 2) || !read_reduction(node, arith))
        return NULL;
    tc_contents *out = tc_eval_out(ev, node, output);
    if (out && out->count)
        memcpy(tc_eval_items(out), x->items, (size_t)out->count * sizeof *x->items);
    return out;
}

const tc_contents *tc_eval_scatter_elements(tc_eval *ev, const tc_node *node, uint32_t output) {
    int arith;
    tc_contents *out = scatter_base(ev, node, output, &arith);
    const tc_contents *indices = tc_eval_in(ev, node, 1), *updates = tc_eval_in(ev, node, 2);
    int axis = out ? tc_eval_axis(tc_attr_int(node, "axis", 0), out->rank) : -1;
    int64_t at[TC_MAX_RANK] = {0}, strides[TC_MAX_RANK];
    if (axis < 0 || indices->rank != out->rank || updates->count != indices->count)
        return NULL;
    tc_eval_strides(out->rank, out->dims, strides);
    for (uint64_t n = 0; n < indices->count; n++, tc_eval_next(indices->rank, indices->dims, at)) {
        int64_t to = 0;
        for (int i = 0; i < out->rank; i++) {
            int64_t p = i == axis ? position(indices, n, out->dims[i]) : at[i];
            if (p < 0 || p >= out->dims[i])
                return NULL;
            to += p * strides[i];
        }
        update(ev, out->dtype, arith, &tc_eval_items(out)[to], updates->items[n]);
    }
    return out;
}

const tc_contents *tc_eval_scatter_nd(tc_eval *ev, const tc_node *node, uint32_t output) {
    int arith;
    tc_contents *out = scatter_base(ev, node, output, &arith);
    const tc_contents *indices = tc_eval_in(ev, node, 1), *updates = tc_eval_in(ev, node, 2);
    int64_t tuple = out && indices->rank > 0 ? indices->dims[indices->rank - 1] : -1;
    if (tuple < 0 || tuple > out->rank)
        return NULL;
    uint64_t block = (uint64_t)block_size(out, (int)tuple), tuples = tuple ? indices->count / (uint64_t)tuple : 0;
    if (tuple == 0 || updates->count != tuples * block)
        return NULL;
    for (uint64_t n = 0; n < tuples; n++) {
        int64_t to = tuple_offset(indices, n, tuple, out->dims, 0);
        if (to < 0)
            return NULL;
        for (uint64_t i = 0; i < block; i++)
            update(ev, out->dtype, arith, &tc_eval_items(out)[(uint64_t)to * block + i], updates->items[n * block + i]);
    }
    return out;
}
