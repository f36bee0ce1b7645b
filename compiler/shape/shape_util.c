/* shape_util.c: helpers that shape functions share: operands as facts, axes, known sizes, broadcasting, and merging an
 * inferred type into a value. Mistakes in operands that several ops share are reported here, in one wording. */
#include "shape_fns.h"
#include <math.h>
#include <string.h>

tc_arg tc_arg_of(const tc_node *node, uint32_t index) {
    tc_arg arg = {.value = tc_input(node, index), .rank = TC_RANK_UNKNOWN};
    if (arg.value) {
        arg.dtype = tc_value_dtype(arg.value);
        arg.rank = tc_value_rank(arg.value);
        arg.dims = arg.rank == TC_RANK_UNKNOWN ? NULL : arg.value->type->dims;
    }
    return arg;
}

/* --- words for messages ----------------------------------------------------------------------- */

const char *tc_shape_text(const tc_shape_ctx *sc, int rank, const tc_dim *dims) {
    tc_arena *arena = sc->ctx->arena;
    if (rank == TC_RANK_UNKNOWN)
        return "[...]";
    const char *text = "[";
    for (int i = 0; i < rank; i++)
        text = tc_arena_printf(arena, "%s%s%s", text, i ? "," : "", tc_dim_text(arena, dims[i]));
    return tc_arena_printf(arena, "%s]", text);
}

const char *tc_operand_text(const tc_shape_ctx *sc, const tc_node *node, uint32_t index) {
    const tc_value *value = tc_input(node, index);
    if (!value)
        return tc_arena_printf(sc->ctx->arena, "operand %u (absent)", index);
    return tc_arena_printf(sc->ctx->arena, "operand %u \"%s\" (%s)", index, tc_quote(sc->ctx, value->name),
                           tc_type_text(sc->ctx->arena, value->type));
}

/* --- axes ------------------------------------------------------------------------------------- */

tc_status tc_shape_axis(tc_shape_ctx *sc, const tc_node *node, int64_t axis, int rank, int *out_axis) {
    if (axis < -rank || axis >= rank)
        return rank ? TC_FAIL(sc, node, "axis is %lld, expected %d to %d (rank %d)", (long long)axis, -rank, rank - 1,
                              rank)
                    : TC_FAIL(sc, node, "axis is %lld, but the operand is a scalar", (long long)axis);
    *out_axis = (int)(axis < 0 ? axis + rank : axis);
    return TC_OK;
}

tc_status tc_shape_axes(tc_shape_ctx *sc, const tc_node *node, const int64_t *axes, size_t count, int rank,
                        uint64_t *out_mask) {
    *out_mask = 0;
    for (size_t i = 0; i < count; i++) {
        int axis;
        TC_TRY(tc_shape_axis(sc, node, axes[i], rank, &axis));
        if (*out_mask >> axis & 1)
            return TC_FAIL(sc, node, "axis %d is given twice in axes", axis);
        *out_mask |= (uint64_t)1 << axis;
    }
    return TC_OK;
}

/* --- known elements --------------------------------------------------------------------------- */

const tc_dim *tc_shape_dims(const tc_shape_ctx *sc, const tc_node *node, uint32_t index, size_t *out_count) {
    tc_arg arg = tc_arg_of(node, index);
    const tc_contents *known = arg.value ? tc_value_contents(sc->model, tc_input(node, index)) : NULL;
    *out_count = 0;
    if (known && known->rank <= 1 && !tc_dtype_is_float(known->dtype)) {
        tc_dim *dims = TC_NEW_ARRAY(sc->model->arena, tc_dim, known->count + 1);
        for (uint64_t i = 0; i < known->count; i++)
            dims[i] = known->items[i].i;
        *out_count = (size_t)known->count;
        return dims;
    }
    const tc_tensor *list = arg.value ? tc_value_constant(tc_input(node, index)) : NULL;
    if (list && list->rank == 1 && list->data && (list->dtype == TC_INT64 || list->dtype == TC_INT32)) {
        tc_dim *dims = TC_NEW_ARRAY(sc->model->arena, tc_dim, list->count + 1); /* too long for contents */
        for (uint64_t i = 0; i < list->count; i++)
            dims[i] = tc_dim_const(tc_tensor_get_int(list, i));
        *out_count = (size_t)list->count;
        return dims;
    }
    if (arg.rank != 1 || !tc_dim_is_const(arg.dims[0]) || arg.dims[0].value < 0 || arg.dims[0].value > TC_MAX_RANK)
        return NULL;
    *out_count = (size_t)arg.dims[0].value;
    tc_dim *dims = TC_NEW_ARRAY(sc->model->arena, tc_dim, *out_count + 1);
    for (size_t i = 0; i < *out_count; i++)
        dims[i] = tc_dim_unknown();
    return dims;
}

bool tc_shape_ints(const tc_shape_ctx *sc, const tc_node *node, uint32_t index, const int64_t **out,
                   size_t *out_count) {
    const tc_dim *dims = tc_shape_dims(sc, node, index, out_count);
    if (!dims)
        return false;
    int64_t *ints = TC_NEW_ARRAY(sc->model->arena, int64_t, *out_count + 1);
    for (size_t i = 0; i < *out_count; i++) {
        if (!tc_dim_is_const(dims[i]))
            return false;
        ints[i] = dims[i].value;
    }
    *out = ints;
    return true;
}

bool tc_shape_float(const tc_shape_ctx *sc, const tc_node *node, uint32_t index, double *out) {
    tc_value *value = tc_input(node, index);
    const tc_contents *known = value ? tc_value_contents(sc->model, value) : NULL;
    if (!known || known->count != 1 || !tc_dtype_is_float(known->dtype))
        return false;
    *out = known->items[0].f;
    return true;
}

/* --- checks ----------------------------------------------------------------------------------- */

tc_status tc_shape_same_dim(tc_shape_ctx *sc, const tc_node *node, const char *what, tc_dim a, tc_dim b, tc_dim *out) {
    if (tc_dim_is_const(a) && tc_dim_is_const(b) && a.value != b.value)
        return TC_FAIL(sc, node, "%s differs: %lld and %lld", what, (long long)a.value, (long long)b.value);
    *out = tc_dim_is_const(a) || tc_dim_is_unknown(b) ? a : tc_dim_is_const(b) || tc_dim_is_unknown(a) ? b : a;
    return TC_OK;
}

tc_status tc_shape_expect_rank(tc_shape_ctx *sc, const tc_node *node, uint32_t index, int rank) {
    tc_arg arg = tc_arg_of(node, index);
    if (!arg.value || arg.rank == TC_RANK_UNKNOWN || arg.rank == rank)
        return TC_OK;
    return TC_FAIL(sc, node, "%s has rank %d, expected %d", tc_operand_text(sc, node, index), arg.rank, rank);
}

tc_status tc_shape_expect_type(tc_shape_ctx *sc, const tc_node *node, uint32_t index, uint32_t types,
                               const char *expected) {
    tc_arg arg = tc_arg_of(node, index);
    if (!arg.value || arg.dtype == TC_UNDEFINED || (types >> arg.dtype & 1))
        return TC_OK;
    return TC_FAIL(sc, node, "%s has element type %s, expected %s", tc_operand_text(sc, node, index),
                   tc_dtype_name(arg.dtype), expected);
}

tc_status tc_shape_expect_same_type(tc_shape_ctx *sc, const tc_node *node, uint32_t a, uint32_t b) {
    tc_dtype x = tc_arg_of(node, a).dtype, y = tc_arg_of(node, b).dtype;
    if (x == y || x == TC_UNDEFINED || y == TC_UNDEFINED)
        return TC_OK;
    tc_status status = TC_FAIL(sc, node, "%s and %s must have one element type", tc_operand_text(sc, node, a),
                               tc_operand_text(sc, node, b));
    tc_hint(sc->ctx, "put a Cast before operand %u", b);
    return status;
}

tc_status tc_shape_expect_fits(tc_shape_ctx *sc, const tc_node *node, uint32_t index, int rank, const tc_dim *dims) {
    tc_arg arg = tc_arg_of(node, index);
    if (arg.rank == TC_RANK_UNKNOWN)
        return TC_OK;
    bool fits = arg.rank <= rank;
    for (int i = 0; fits && i < arg.rank; i++) {
        tc_dim have = arg.dims[i], want = dims[rank - arg.rank + i];
        fits = !tc_dim_is_const(have) || !tc_dim_is_const(want) || have.value == 1 || have.value == want.value;
    }
    if (fits)
        return TC_OK;
    return TC_FAIL(sc, node, "%s cannot be broadcast to %s", tc_operand_text(sc, node, index),
                   tc_shape_text(sc, rank, dims));
}

/* --- broadcasting ----------------------------------------------------------------------------- */

/* The common size of two dims; false when there is none. Two differing symbols: the larger, as one of them must be 1.
 */
static bool broadcast_dim(tc_dim_pool *pool, tc_dim a, tc_dim b, tc_dim *out) {
    if (tc_dim_is_const(a) && a.value == 1)
        return *out = b, true;
    if (tc_dim_is_const(b) && b.value == 1)
        return *out = a, true;
    if (tc_dim_is_const(a) && tc_dim_is_const(b))
        return *out = a, a.value == b.value;
    *out = tc_dim_is_const(a) ? a : tc_dim_is_const(b) ? b : tc_dim_max(pool, a, b);
    return true;
}

tc_status tc_broadcast(tc_shape_ctx *sc, tc_node *node, int rank_a, const tc_dim *a, int rank_b, const tc_dim *b,
                       int *out_rank, tc_dim out_dims[TC_MAX_RANK]) {
    tc_dim dims[TC_MAX_RANK];
    int rank = rank_a > rank_b ? rank_a : rank_b;
    for (int i = 1; i <= rank; i++) {
        tc_dim x = i <= rank_a ? a[rank_a - i] : tc_dim_const(1), y = i <= rank_b ? b[rank_b - i] : tc_dim_const(1);
        if (!broadcast_dim(sc->model->dims, x, y, &dims[rank - i]))
            return TC_FAIL(sc, node, "shapes %s and %s cannot be broadcast: %lld and %lld at axis %d",
                           tc_shape_text(sc, rank_a, a), tc_shape_text(sc, rank_b, b), (long long)x.value,
                           (long long)y.value, rank - i);
    }
    *out_rank = rank;
    memcpy(out_dims, dims, (size_t)rank * sizeof *dims);
    return TC_OK;
}

tc_dim tc_dims_product(tc_dim_pool *pool, const tc_dim *dims, int count) {
    tc_dim product = tc_dim_const(1);
    for (int i = 0; i < count; i++)
        product = tc_dim_mul(pool, product, dims[i]);
    return product;
}

/* --- results ---------------------------------------------------------------------------------- */

tc_dim tc_shape_fresh(tc_shape_ctx *sc, const tc_node *node, uint32_t output, int axis) {
    const tc_value *value = tc_output(node, output);
    if (!value)
        return tc_dim_unknown();
    if (tc_value_rank(value) > axis && !tc_dim_is_unknown(value->type->dims[axis]))
        return value->type->dims[axis];
    return tc_dim_fresh(sc->model->dims, tc_arena_printf(sc->model->arena, "%s.%d", value->name, axis));
}

static tc_status contradiction(tc_shape_ctx *sc, const tc_node *node, const tc_value *value, const tc_type *type) {
    return TC_FAIL(sc, node, "\"%s\" is %s, but is declared as %s", tc_quote(sc->ctx, value->name),
                   tc_type_text(sc->ctx->arena, type), tc_type_text(sc->ctx->arena, value->type));
}

/* Exporters declare wrong shapes within a graph: a loss of each label as a scalar, say, and all that follows from it.
 * Nothing reads them there, nor as the result of a branch; the first one is reported. */
static tc_status pass_over(tc_shape_ctx *sc, const tc_node *node, tc_value *value, const tc_type *type) {
    static const char what[] = "types declared within the graph are ignored";
    bool reported = false;
    for (size_t i = 0; i < sc->ctx->n_diags && !reported; i++)
        reported = strstr(sc->ctx->diags[i].message, what) != NULL;
    if (!reported)
        tc_warn(sc->ctx, node, "\"%s\" is %s, but is declared as %s; %s", tc_quote(sc->ctx, value->name),
                tc_type_text(sc->ctx->arena, type), tc_type_text(sc->ctx->arena, value->type), what);
    value->type = type;
    return TC_OK;
}

/* The better known of the inferred and the declared dim: a declared symbol or number counts where nothing was inferred.
 */
static bool merge_dim(tc_dim inferred, tc_dim declared, tc_dim *out) {
    if (tc_dim_is_const(inferred) && tc_dim_is_const(declared) && inferred.value != declared.value)
        return false;
    *out = tc_dim_is_unknown(inferred) ? declared : inferred;
    return true;
}

tc_status tc_shape_merge(tc_shape_ctx *sc, const tc_node *node, tc_value *value, const tc_type *type) {
    const tc_type *old = value->type;
    if (!type || type == old)
        return TC_OK;
    if (!old || (old->kind == TC_TENSOR && type->kind == TC_TENSOR && old->dtype == TC_UNDEFINED && old->rank < 0)) {
        value->type = type;
        return TC_OK;
    }
    if (old->kind != type->kind ||
        (old->dtype != type->dtype && old->dtype != TC_UNDEFINED && type->dtype != TC_UNDEFINED))
        return contradiction(sc, node, value, type);
    if (old->kind != TC_TENSOR)
        return TC_OK;
    tc_dtype dtype = type->dtype == TC_UNDEFINED ? old->dtype : type->dtype;
    int rank = type->rank == TC_RANK_UNKNOWN ? old->rank : type->rank;
    const tc_dim *dims = type->rank == TC_RANK_UNKNOWN ? old->dims : type->dims;
    tc_dim merged[TC_MAX_RANK];
    if (old->rank != TC_RANK_UNKNOWN && type->rank != TC_RANK_UNKNOWN) {
        bool fits = old->rank == type->rank;
        for (int i = 0; fits && i < rank; i++)
            fits = merge_dim(type->dims[i], old->dims[i], &merged[i]);
        bool promised = value->is_input || (value->n_graph_outputs && !value->graph->parent);
        if (!fits && promised)
            return contradiction(sc, node, value, type);
        if (!fits)
            return pass_over(sc, node, value, type);
        dims = merged;
    }
    bool changed = dtype != old->dtype || rank != old->rank;
    for (int i = 0; !changed && i < rank; i++)
        changed =
            !tc_dim_equal(dims[i], old->dims[i]) && !(tc_dim_is_unknown(dims[i]) && tc_dim_is_unknown(old->dims[i]));
    if (changed)
        value->type = tc_type_tensor(sc->model, dtype, rank, dims);
    return TC_OK;
}

tc_status tc_shape_set(tc_shape_ctx *sc, tc_node *node, uint32_t output, tc_dtype dtype, int rank, const tc_dim *dims) {
    tc_value *value = tc_output(node, output);
    if (!value || (dtype == TC_UNDEFINED && rank == TC_RANK_UNKNOWN))
        return TC_OK;
    if (rank > TC_MAX_RANK)
        return tc_error(sc->ctx, TC_LIMIT, node, "result %u would have rank %d, above the limit of %d", output, rank,
                        TC_MAX_RANK);
    int64_t sizes[TC_MAX_RANK];
    bool all_known = dims || rank == 0;
    for (int i = 0; i < rank && dims; i++) {
        all_known = all_known && tc_dim_is_const(dims[i]);
        sizes[i] = dims[i].value;
        if (tc_dim_is_const(dims[i]) && dims[i].value < 0)
            return TC_FAIL(sc, node, "result %u would have shape %s: a size is negative", output,
                           tc_shape_text(sc, rank, dims));
    }
    uint64_t count;
    if (all_known && rank != TC_RANK_UNKNOWN && !tc_shape_count(rank, sizes, &count))
        return tc_error(sc->ctx, TC_LIMIT, node, "result %u would have shape %s: too many elements", output,
                        tc_shape_text(sc, rank, dims));
    return tc_shape_merge(sc, node, value, tc_type_tensor(sc->model, dtype, rank, dims));
}

tc_status tc_shape_like(tc_shape_ctx *sc, tc_node *node, uint32_t output, tc_dtype dtype, tc_arg arg) {
    return tc_shape_set(sc, node, output, dtype, arg.rank, arg.dims);
}

bool tc_same_shape(const tc_value *a, const tc_value *b) {
    int rank = tc_value_rank(a);
    if (rank == TC_RANK_UNKNOWN || rank != tc_value_rank(b))
        return false;
    for (int i = 0; i < rank; i++)
        if (!tc_dim_equal(a->type->dims[i], b->type->dims[i]))
            return false;
    return true;
}
