/* masked_values.c: masks, their counts, and sizes computed from them. */
#include "compiler/shape/shape.h"
#include "rows.h"
#include <float.h>
#include <math.h>

/* --- masks -------------------------------------------------------------------------------------- */

static tc_mask *known_mask(tc_masked *w, tc_value *base, tc_dim inner) {
    for (size_t i = 0; i < w->n_known; i++)
        if (w->known[i]->base == base && tc_dim_equal(w->known[i]->inner, inner))
            return w->known[i];
    return NULL;
}

static tc_mask *add_mask(tc_masked *w, tc_value *base, tc_dim inner, tc_value *flat) {
    tc_mask *mask = TC_NEW(w->arena, tc_mask);
    *mask = (tc_mask){.base = base, .inner = inner, .flat = flat};
    w->known = tc_arena_grow(w->arena, w->known, sizeof(*w->known), &w->cap_known, w->n_known + 1);
    w->known[w->n_known++] = mask;
    return mask;
}

static tc_mask *plain_mask(tc_masked *w, tc_value *base) {
    tc_mask *known = known_mask(w, base, tc_dim_const(1));
    if (known)
        return known;
    tc_value *flat = tc_build_cast(w->g, base, TC_BOOL);
    if (tc_value_rank(flat) != 1)
        flat = TC_OP(w->g, "Reshape", flat, tc_build_int(w->g, -1));
    return add_mask(w, base, tc_dim_const(1), flat);
}

const tc_mask *tc_mask_repeat(tc_masked *w, const tc_mask *mask, tc_dim inner, tc_value *inner_size) {
    if (tc_dim_is_const(inner) && inner.value == 1)
        return mask;
    tc_dim all = tc_dim_mul(w->model->dims, mask->inner, inner);
    tc_mask *known = known_mask(w, mask->base, all);
    if (known)
        return known;
    tc_value *shape[] = {tc_build_shape(w->g, mask->flat), inner_size};
    tc_value *rows = TC_OP(w->g, "Expand", tc_build_unsqueeze(w->g, mask->flat, (int64_t[]){1}, 1),
                           tc_build_concat(w->g, 2, shape, 0));
    return add_mask(w, mask->base, all, TC_OP(w->g, "Reshape", rows, tc_build_int(w->g, -1)));
}

static tc_value *without_views(tc_value *value) {
    while (value->producer && tc_node_has(value->producer, TC_VIEW))
        value = tc_input(value->producer, 0);
    return value;
}

/* The number of axes of `narrow` that are axes of `wide`, if all others have one element; else -1. */
static int leading_axes(const tc_value *narrow, const tc_value *wide) {
    int rank = tc_value_rank(narrow), n = 0;
    if (rank == TC_RANK_UNKNOWN || rank != tc_value_rank(wide))
        return -1;
    while (n < rank && tc_dim_equal(narrow->type->dims[n], wide->type->dims[n]))
        n++;
    for (int i = n; i < rank; i++)
        if (!tc_dim_is_const(narrow->type->dims[i]) || narrow->type->dims[i].value != 1)
            return -1;
    return n;
}

tc_mask *tc_mask_of(tc_masked *w, tc_value *value) {
    tc_value *base = without_views(value);
    const tc_node *expand = base->producer;
    tc_value *narrow = expand && tc_node_is(expand, "", "Expand") ? tc_input(expand, 0) : NULL;
    int leading = narrow ? leading_axes(narrow, base) : -1, rank = tc_value_rank(base);
    if (leading < 0)
        return plain_mask(w, base);
    tc_dim inner = tc_dim_const(1);
    for (int i = leading; i < rank; i++)
        inner = tc_dim_mul(w->model->dims, inner, base->type->dims[i]);
    tc_value *sizes = tc_build_dims(w->g, base, leading, rank);
    if (rank - leading != 1)
        sizes = tc_build_reduce(w->g, "ReduceProd", sizes, (int64_t[]){0}, 1, true);
    const tc_mask *mask = plain_mask(w, without_views(narrow));
    return leading == rank ? (tc_mask *)mask : (tc_mask *)tc_mask_repeat(w, mask, inner, sizes);
}

tc_value *tc_mask_count(tc_masked *w, tc_mask *mask) {
    if (!mask->count)
        mask->count =
            tc_build_reduce(w->g, "ReduceSum", tc_build_cast(w->g, mask->flat, TC_INT64), (int64_t[]){0}, 1, false);
    return mask->count;
}

tc_value *tc_mask_places(tc_masked *w, tc_mask *mask) {
    if (mask->places)
        return mask->places;
    tc_build *g = w->g;
    tc_value *size = TC_OP(g, "Squeeze", tc_build_shape(g, mask->flat), tc_build_int(g, 0));
    tc_value *all = TC_OP(g, "Range", tc_build_scalar(g, TC_INT64, 0), size, tc_build_scalar(g, TC_INT64, 1));
    tc_node *first = TC_BEGIN(g, "ArgMax", tc_build_cast(g, mask->flat, TC_INT32));
    tc_attr_set_int(first, "axis", 0);
    tc_attr_set_int(first, "keepdims", 0);
    return mask->places = TC_OP(g, "Where", mask->flat, all, tc_build_finish(g, first));
}

tc_value *tc_mask_coordinates(tc_masked *w, tc_value *from, tc_value *places) {
    tc_build *g = w->g;
    tc_value *rows[TC_MAX_RANK], *step = NULL;
    int rank = tc_value_rank(from);
    for (int axis = rank; axis-- > 0;) {
        tc_value *dim = tc_build_dims(g, from, axis, axis + 1), *at = step ? TC_OP(g, "Div", places, step) : places;
        at = axis > 0 ? TC_OP(g, "Mod", at, dim) : at;
        rows[axis] = tc_build_unsqueeze(g, at, (int64_t[]){0}, 1);
        step = step ? TC_OP(g, "Mul", step, dim) : dim;
    }
    return tc_build_concat(g, (size_t)rank, rows, 0);
}

tc_value *tc_mask_for(tc_masked *w, const tc_value *value, const bool *axes) {
    tc_value *all = NULL;
    int rank = tc_value_rank(value);
    for (int axis = 0; axis < rank; axis++) {
        const tc_mask *mask = tc_mask_at(w, value, axis);
        if (!mask || (axes && !axes[axis]))
            continue;
        int64_t trailing[TC_MAX_RANK];
        for (int i = axis + 1; i < rank; i++)
            trailing[i - axis - 1] = i - axis;
        tc_value *along = tc_build_unsqueeze(w->g, mask->flat, trailing, (size_t)(rank - axis - 1));
        all = all ? TC_OP(w->g, "And", all, along) : along;
    }
    return all;
}

tc_value *tc_mask_fill(tc_masked *w, tc_value *value, const bool *axes, double fill) {
    tc_value *mask = tc_mask_for(w, value, axes);
    return mask ? TC_OP(w->g, "Where", mask, value, tc_build_like(w->g, value, fill)) : value;
}

double tc_masked_lowest(tc_dtype dtype, int sign) {
    static const struct {
        tc_dtype dtype;
        double lowest;
    } numbers[] = {{TC_FLOAT, -FLT_MAX}, {TC_DOUBLE, -DBL_MAX}, {TC_FLOAT16, -65504}, {TC_BFLOAT16, -0x1.FEp127},
                   {TC_INT64, -0x1p62},  {TC_INT32, -0x1p30},   {TC_INT16, -32767},   {TC_INT8, -127}};
    for (size_t i = 0; i < TC_COUNT(numbers); i++)
        if (numbers[i].dtype == dtype)
            return sign * numbers[i].lowest;
    return 0;
}

/* --- sizes -------------------------------------------------------------------------------------- */

/* The correct result of a Shape: counts for picked rows. */
static tc_value *counted_shape(tc_masked *w, const tc_node *shape) {
    tc_value *x = tc_input(shape, 0), *parts[TC_MAX_RANK];
    int rank = tc_value_rank(x);
    int64_t from = tc_attr_int(shape, "start", 0), to = tc_attr_int(shape, "end", rank);
    from += from < 0 ? rank : 0;
    to += to < 0 ? rank : 0;
    to = to < rank ? to : rank;
    size_t n = 0;
    for (int64_t i = from > 0 ? from : 0; i < to; i++) {
        const tc_mask *mask = tc_mask_at(w, x, (int)i);
        parts[n++] = mask ? tc_build_unsqueeze(w->g, tc_mask_count(w, (tc_mask *)mask), (int64_t[]){0}, 1)
                          : tc_build_dims(w->g, x, i, i + 1);
    }
    return n ? tc_build_concat(w->g, n, parts, 0) : shape->outputs[0];
}

static tc_value *counted_size(tc_masked *w, const tc_node *size) {
    tc_value *x = tc_input(size, 0), *product = tc_build_scalar(w->g, TC_INT64, 1);
    for (int i = 0; i < tc_value_rank(x); i++) {
        const tc_mask *mask = tc_mask_at(w, x, i);
        tc_value *n = mask ? tc_mask_count(w, (tc_mask *)mask)
                           : TC_OP(w->g, "Squeeze", tc_build_dims(w->g, x, i, i + 1), tc_build_int(w->g, 0));
        product = TC_OP(w->g, "Mul", product, n);
    }
    return product;
}

typedef struct rebuilding {
    tc_masked *w;
    bool counted;  /* with the correct sizes; else with the current ones */
    tc_map *built; /* tc_value -> tc_value */
} rebuilding;

static tc_value *rebuild(rebuilding *r, tc_value *value);

static tc_value *rebuild_leaf(rebuilding *r, tc_value *value) {
    tc_masked *w = r->w;
    const tc_node *node = value->producer;
    tc_value *counts = tc_map_get_ptr(w->counts, value);
    if (counts && !r->counted) {
        tc_value *size = tc_build_cast(w->g, tc_build_shape(w->g, tc_mask_of(w, counts)->flat), tc_value_dtype(value));
        return tc_value_rank(value) == 0 ? TC_OP(w->g, "Squeeze", size, tc_build_int(w->g, 0)) : size;
    }
    if (r->counted && tc_node_has(node, TC_SHAPE_ONLY) && tc_masks_of(w, tc_input(node, 0)))
        return tc_node_is(node, "", "Size") ? counted_size(w, node) : counted_shape(w, node);
    return value;
}

static tc_value *rebuild(rebuilding *r, tc_value *value) {
    tc_masked *w = r->w;
    if (!tc_map_get_ptr(w->sizes, value))
        return value;
    tc_value *built = tc_map_get_ptr(r->built, value);
    if (built)
        return built;
    tc_node *node = value->producer;
    built = rebuild_leaf(r, value);
    tc_value *operands[TC_MAX_RANK];
    bool differs = false;
    if (built == value && !tc_node_has(node, TC_SHAPE_ONLY) && node->n_inputs <= TC_MAX_RANK) {
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            operands[i] = tc_input(node, i) ? rebuild(r, tc_input(node, i)) : NULL;
            differs = differs || operands[i] != tc_input(node, i);
        }
    }
    if (differs) {
        tc_node *copy = tc_build_node(w->g, node->domain, node->op_type, node->n_inputs, operands, 1);
        for (uint32_t i = 0; i < node->n_attrs; i++)
            tc_attr_copy(copy, &node->attrs[i]);
        built = tc_build_finish(w->g, copy);
    }
    tc_map_set_ptr(r->built, value, built);
    return built;
}

tc_value *tc_masked_bound(tc_masked *w, tc_value *value) {
    rebuilding r = {w, false, tc_map_create(w->arena)};
    return rebuild(&r, value);
}

tc_value *tc_masked_counted(tc_masked *w, tc_value *value) {
    rebuilding r = {w, true, tc_map_create(w->arena)};
    return rebuild(&r, value);
}

/* The value as one element of another shape or another integer type. */
static tc_value *same_number(tc_value *value) {
    while (value->producer && (tc_node_has(value->producer, TC_VIEW) || tc_node_is(value->producer, "", "Cast")))
        value = tc_input(value->producer, 0);
    return value;
}

const tc_mask *tc_masked_count_at(tc_masked *w, tc_value *sizes, int at) {
    tc_node *concat = sizes ? sizes->producer : NULL;
    tc_value *counts = NULL;
    if (concat && tc_node_is(concat, "", "Concat")) {
        int64_t begin = 0, n;
        for (uint32_t i = 0; i < concat->n_inputs; i++, begin += n) {
            if (!tc_build_static(tc_input(concat, i), 0, &n))
                return NULL;
            if (at == begin && n == 1)
                counts = tc_map_get_ptr(w->counts, same_number(tc_input(concat, i)));
        }
    } else if (sizes && at == 0) {
        counts = tc_map_get_ptr(w->counts, same_number(sizes));
    }
    return counts ? tc_mask_of(w, counts) : NULL;
}
