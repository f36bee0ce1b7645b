/* shape_lean.c: shape functions of the ai.tempo ops that the lean recipes work with: Dropout from a seed, attention
 * over operands that are split into heads already, and normalizations that keep xhat = (x - mean) / std, or their
 * result. Meanings: ops.def.
 */
#include "shape_fns.h"
#include <string.h>

/* --- Dropout ---------------------------------------------------------------------------------- */

/* Operand `ratio` is one number in [0, 1), operand `seed` int64[2]; both may be absent. */
static tc_status check_draw(tc_shape_ctx *sc, tc_node *node, uint32_t ratio, uint32_t seed) {
    tc_arg r = tc_arg_of(node, ratio), s = tc_arg_of(node, seed);
    double number;
    tc_dim two;
    if (r.rank > 1 || (r.rank == 1 && tc_dim_is_const(r.dims[0]) && r.dims[0].value != 1))
        return TC_FAIL(sc, node, "%s is not one number", tc_operand_text(sc, node, ratio));
    if (tc_shape_float(sc, node, ratio, &number) && !(number >= 0 && number < 1))
        return TC_FAIL(sc, node, "ratio is %g, expected at least 0 and less than 1", number);
    TC_TRY(tc_shape_expect_type(sc, node, seed, 1u << TC_INT64, "int64"));
    TC_TRY(tc_shape_expect_rank(sc, node, seed, 1));
    return s.rank == 1 ? tc_shape_same_dim(sc, node, "size of seed (seed and step)", s.dims[0], tc_dim_const(2), &two)
                       : TC_OK;
}

/* One bit for each element of such a shape. */
static tc_dim bit_bytes(const tc_node *node, int rank, const tc_dim *dims) {
    tc_dim_pool *pool = node->graph->model->dims;
    if (rank == TC_RANK_UNKNOWN)
        return tc_dim_unknown();
    return tc_dim_div(pool, tc_dim_add(pool, tc_dims_product(pool, dims, rank), tc_dim_const(7)), tc_dim_const(8));
}

/* Result `output` has one bit for each element of such a shape. */
static tc_status set_bits(tc_shape_ctx *sc, tc_node *node, uint32_t output, int rank, const tc_dim *dims) {
    tc_dim bytes = bit_bytes(node, rank, dims);
    if (tc_dim_is_unknown(bytes))
        bytes = tc_shape_fresh(sc, node, output, 0);
    return tc_shape_set(sc, node, output, TC_UINT8, 1, &bytes);
}

/* Which elements of such a shape are kept: a bool each, or `packed`, a bit each. */
static tc_status set_mask(tc_shape_ctx *sc, tc_node *node, uint32_t output, int rank, const tc_dim *dims) {
    if (tc_attr_int(node, "packed", 0) == 0)
        return tc_shape_set(sc, node, output, TC_BOOL, rank, dims);
    return set_bits(sc, node, output, rank, dims);
}

static tc_status expect_mask(tc_shape_ctx *sc, tc_node *node, uint32_t index) {
    return tc_shape_expect_type(sc, node, index, 1u << TC_BOOL | 1u << TC_UINT8, "bool, or uint8 where it is packed");
}

tc_status tc_shape_tempo_dropout(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    TC_TRY(check_draw(sc, node, 1, 2));
    TC_TRY(tc_shape_like(sc, node, 0, x.dtype, x));
    return set_mask(sc, node, 1, x.rank, x.dims);
}

tc_status tc_shape_dropout_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg dy = tc_arg_of(node, 0);
    TC_TRY(expect_mask(sc, node, 1));
    TC_TRY(check_draw(sc, node, 2, 3));
    if (tc_arg_of(node, 1).dtype == TC_UINT8)
        return tc_shape_like(sc, node, 0, dy.dtype, dy);
    return tc_shape_same_shape(sc, node);
}

/* As ConstantOfShape, of the type that `dtype` names. */
tc_status tc_shape_tempo_random(tc_shape_ctx *sc, tc_node *node) {
    int64_t dtype = tc_attr_int(node, "dtype", TC_FLOAT);
    size_t count = 0;
    tc_dim dims[TC_MAX_RANK];
    if (dtype < 0 || dtype >= TC_DTYPE_COUNT || !tc_dtype_is_float((tc_dtype)dtype))
        return TC_FAIL(sc, node, "dtype is %lld, expected a float type", (long long)dtype);
    TC_TRY(tc_shape_expect_type(sc, node, 0, 1u << TC_INT64, "int64"));
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 1));
    TC_TRY(check_draw(sc, node, 2, 1));
    const tc_dim *sizes = tc_shape_dims(sc, node, 0, &count);
    if (sizes && count > TC_MAX_RANK)
        return tc_error(sc->ctx, TC_LIMIT, node, "shape has %zu sizes, above the limit of %d", count, TC_MAX_RANK);
    for (int i = 0; sizes && i < (int)count; i++)
        dims[i] = tc_dim_is_unknown(sizes[i]) ? tc_shape_fresh(sc, node, 0, i) : sizes[i];
    return tc_shape_set(sc, node, 0, (tc_dtype)dtype, sizes ? (int)count : TC_RANK_UNKNOWN, sizes ? dims : NULL);
}

/* --- activations ------------------------------------------------------------------------------ */

tc_status tc_shape_activation_masked(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    TC_TRY(tc_shape_like(sc, node, 0, x.dtype, x));
    return set_bits(sc, node, 1, x.rank, x.dims);
}

tc_status tc_shape_activation_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg y = tc_arg_of(node, 1), right = tc_arg_of(node, 2);
    tc_dim bytes = bit_bytes(node, y.rank, y.dims), unused;
    TC_TRY(tc_shape_expect_same_type(sc, node, 0, 1));
    TC_TRY(tc_shape_expect_type(sc, node, 2, 1u << TC_UINT8, "uint8"));
    TC_TRY(tc_shape_expect_rank(sc, node, 2, 1));
    if (right.rank == 1 && tc_dim_is_const(bytes) && tc_dim_is_const(right.dims[0]))
        TC_TRY(
            tc_shape_same_dim(sc, node, "size of Right (a bit for each element of Y)", bytes, right.dims[0], &unused));
    return tc_shape_same_shape(sc, node);
}

/* --- attention -------------------------------------------------------------------------------- */

/* A matrix operand, with leading dims. */
static tc_status expect_matrix(tc_shape_ctx *sc, tc_node *node, uint32_t index) {
    tc_arg arg = tc_arg_of(node, index);
    if (arg.rank >= 0 && arg.rank < 2)
        return TC_FAIL(sc, node, "%s has rank %d, expected at least 2", tc_operand_text(sc, node, index), arg.rank);
    return TC_OK;
}

/* The shape of operand a times operand b, as MatMul has it; with `transposed`, of a times b with its last two axes
 * exchanged. *out_rank is TC_RANK_UNKNOWN where one of them is not known. */
static tc_status product(tc_shape_ctx *sc, tc_node *node, tc_arg a, tc_arg b, bool transposed, int *out_rank,
                         tc_dim dims[TC_MAX_RANK]) {
    *out_rank = TC_RANK_UNKNOWN;
    if (a.rank == TC_RANK_UNKNOWN || b.rank == TC_RANK_UNKNOWN)
        return TC_OK;
    tc_dim inner;
    int rank;
    TC_TRY(tc_shape_same_dim(sc, node, "inner size of a product", a.dims[a.rank - 1],
                             b.dims[b.rank - (transposed ? 1 : 2)], &inner));
    TC_TRY(tc_broadcast(sc, node, a.rank - 2, a.dims, b.rank - 2, b.dims, &rank, dims));
    dims[rank++] = a.dims[a.rank - 2];
    dims[rank++] = b.dims[b.rank - (transposed ? 2 : 1)];
    *out_rank = rank;
    return TC_OK;
}

/* The matrices of an attention, operands q, q + 1 and q + 2, and their products: the scores and, with V, Y. */
typedef struct attention_shape {
    tc_arg q, kt, v;
    int rank, rank_y;
    tc_dim scores[TC_MAX_RANK], y[TC_MAX_RANK];
} attention_shape;

/* Operands Q, K^T, V, Bias, Mask, Ratio and Seed from `first` on. */
static tc_status attention_operands(tc_shape_ctx *sc, tc_node *node, uint32_t first, attention_shape *s) {
    uint32_t ratio = first + 5, seed = first + 6;
    *s = (attention_shape){tc_arg_of(node, first),
                           tc_arg_of(node, first + 1),
                           tc_arg_of(node, first + 2),
                           TC_RANK_UNKNOWN,
                           TC_RANK_UNKNOWN,
                           {{0}},
                           {{0}}};
    for (uint32_t i = first; i < first + 3; i++)
        TC_TRY(expect_matrix(sc, node, i));
    for (uint32_t i = first + 1; i < first + 4 && s->q.dtype != TC_UNDEFINED; i++)
        TC_TRY(tc_shape_expect_type(sc, node, i, 1u << s->q.dtype, tc_dtype_name(s->q.dtype)));
    TC_TRY(tc_shape_expect_type(sc, node, first + 4, 1u << TC_BOOL, "bool"));
    TC_TRY(check_draw(sc, node, ratio, seed));
    if (!tc_input(node, ratio) != !tc_input(node, seed))
        return TC_FAIL(sc, node, "has a %s, but no %s: dropout takes both", tc_input(node, ratio) ? "ratio" : "seed",
                       tc_input(node, ratio) ? "seed" : "ratio");
    TC_TRY(product(sc, node, s->q, s->kt, false, &s->rank, s->scores));
    if (s->rank != TC_RANK_UNKNOWN) {
        TC_TRY(tc_shape_expect_fits(sc, node, first + 3, s->rank, s->scores));
        TC_TRY(tc_shape_expect_fits(sc, node, first + 4, s->rank, s->scores));
    }
    return product(sc, node, (tc_arg){.rank = s->rank, .dims = s->scores}, s->v, false, &s->rank_y, s->y);
}

/* One row of statistics for each row of the scores: [.., S, 2]. Returns the element type. */
static tc_dtype statistics_of(const attention_shape *s, tc_dim dims[TC_MAX_RANK]) {
    memcpy(dims, s->scores, sizeof s->scores);
    if (s->rank != TC_RANK_UNKNOWN)
        dims[s->rank - 1] = tc_dim_const(2);
    return s->q.dtype == TC_DOUBLE || s->q.dtype == TC_UNDEFINED ? s->q.dtype : TC_FLOAT;
}

tc_status tc_shape_dot_attention(tc_shape_ctx *sc, tc_node *node) {
    attention_shape s;
    TC_TRY(attention_operands(sc, node, 0, &s));
    TC_TRY(tc_shape_set(sc, node, 0, s.q.dtype, s.rank_y, s.y));
    TC_TRY(tc_shape_set(sc, node, 1, s.q.dtype, s.rank, s.scores));
    TC_TRY(tc_shape_set(sc, node, 2, s.q.dtype, s.rank, s.scores));
    TC_TRY(set_mask(sc, node, 3, s.rank, s.scores));
    tc_dim dims[TC_MAX_RANK];
    tc_dtype dtype = statistics_of(&s, dims);
    return tc_shape_set(sc, node, 4, dtype, s.rank, dims);
}

/* Results dQ = ds kt^T, dK^T = q^T ds and dV = p^T dy. Gradients have the leading dims of the products that make them:
 * broadcast dims are not summed here. */
static tc_status product_gradients(tc_shape_ctx *sc, tc_node *node, tc_arg dy, tc_arg q, tc_arg kt, tc_arg v, tc_arg p,
                                   tc_arg ds) {
    tc_dim dims[TC_MAX_RANK], swapped[TC_MAX_RANK];
    int rank;
    TC_TRY(product(sc, node, ds, kt, true, &rank, dims));
    TC_TRY(tc_shape_set(sc, node, 0, q.dtype, rank, dims));
    struct {
        uint32_t output;
        tc_arg left, right;
        tc_dtype dtype;
    } products[] = {{1, q, ds, kt.dtype}, {2, p, dy, v.dtype}};
    for (size_t i = 0; i < TC_COUNT(products); i++) { /* left^T right */
        tc_arg left = products[i].left;
        if (left.rank != TC_RANK_UNKNOWN) {
            memcpy(swapped, left.dims, (size_t)left.rank * sizeof *swapped);
            swapped[left.rank - 1] = left.dims[left.rank - 2];
            swapped[left.rank - 2] = left.dims[left.rank - 1];
            left.dims = swapped;
        }
        TC_TRY(product(sc, node, left, products[i].right, false, &rank, dims));
        TC_TRY(tc_shape_set(sc, node, products[i].output, products[i].dtype, rank, dims));
    }
    return TC_OK;
}

tc_status tc_shape_dot_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg dy = tc_arg_of(node, 0), q = tc_arg_of(node, 1), kt = tc_arg_of(node, 2), v = tc_arg_of(node, 3),
           p = tc_arg_of(node, 4);
    tc_dim ds[TC_MAX_RANK];
    int rank;
    for (uint32_t i = 0; i < 5; i++)
        TC_TRY(expect_matrix(sc, node, i));
    TC_TRY(expect_mask(sc, node, 6));
    TC_TRY(check_draw(sc, node, 7, UINT32_MAX));
    TC_TRY(tc_shape_expect_type(sc, node, 8, 1u << TC_BOOL, "bool"));
    TC_TRY(product(sc, node, dy, v, true, &rank, ds)); /* [.., S, T], with the leading dims of dy: those of P and V */
    if (rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_expect_fits(sc, node, 8, rank, ds));
    TC_TRY(tc_shape_set(sc, node, 3, p.dtype, rank, ds));
    return product_gradients(sc, node, dy, q, kt, v, p, (tc_arg){.rank = rank, .dims = ds});
}

/* Operands Statistics and Y of the tiled gradient. */
static tc_status check_after(tc_shape_ctx *sc, tc_node *node, const attention_shape *s) {
    tc_dim dims[TC_MAX_RANK];
    tc_dtype dtype = statistics_of(s, dims);
    if (dtype != TC_UNDEFINED) {
        TC_TRY(tc_shape_expect_type(sc, node, 8, 1u << dtype, tc_dtype_name(dtype)));
        TC_TRY(tc_shape_expect_type(sc, node, 9, 1u << s->q.dtype, tc_dtype_name(s->q.dtype)));
    }
    if (s->rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_expect_fits(sc, node, 8, s->rank, dims));
    if (s->rank_y != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_expect_fits(sc, node, 9, s->rank_y, s->y));
    return TC_OK;
}

tc_status tc_shape_tiled_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg dy = tc_arg_of(node, 0);
    attention_shape s;
    tc_dim summed[TC_MAX_RANK];
    size_t n;
    const int64_t *axes = tc_attr_ints(node, "sum_axes", &n);
    TC_TRY(expect_matrix(sc, node, 0));
    TC_TRY(attention_operands(sc, node, 1, &s));
    TC_TRY(check_after(sc, node, &s));
    tc_arg scores = {.rank = s.rank, .dims = s.scores};
    memcpy(summed, s.scores, sizeof summed);
    for (size_t i = 0; i < n && s.rank != TC_RANK_UNKNOWN; i++) {
        if (axes[i] < 0 || axes[i] >= s.rank - 2)
            return TC_FAIL(sc, node, "sum_axes has %lld, which is no leading axis of the scores", (long long)axes[i]);
        summed[axes[i]] = tc_dim_const(1);
    }
    TC_TRY(tc_shape_set(sc, node, 3, s.q.dtype, s.rank, summed));
    return product_gradients(sc, node, dy, s.q, s.kt, s.v, scores, scores);
}

/* --- normalizations --------------------------------------------------------------------------- */

/* Y, XHat and InvStdDev; Y has the element type of operand `y_like`. */
static tc_status xhat(tc_shape_ctx *sc, tc_node *node, uint32_t y_like, uint32_t last) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dtype stash;
    int axis = 0;
    TC_TRY(tc_shape_check_epsilon(sc, node));
    TC_TRY(tc_shape_stash_type(sc, node, &stash));
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_normalized_axes(sc, node, 0, 1, last, &axis));
    TC_TRY(tc_shape_like(sc, node, 0, tc_arg_of(node, y_like).dtype, x));
    TC_TRY(tc_shape_like(sc, node, 1, x.dtype, x));
    return tc_shape_statistic(sc, node, 2, stash, 0, axis);
}

tc_status tc_shape_layer_norm_xhat(tc_shape_ctx *sc, tc_node *node) { return xhat(sc, node, 0, 2); }
tc_status tc_shape_rms_norm_xhat(tc_shape_ctx *sc, tc_node *node) { return xhat(sc, node, 1, 1); }

tc_status tc_shape_scale_bias(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), scale = tc_arg_of(node, 1);
    int axis;
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_normalized_axes(sc, node, 0, 1, 2, &axis));
    return tc_shape_like(sc, node, 0, scale.dtype, x);
}

/* Operand `index`, a scale or bias, has the normalized dims of operand 0 and its type: nothing is broadcast. */
static tc_status expect_whole(tc_shape_ctx *sc, tc_node *node, uint32_t index, int axis) {
    tc_arg x = tc_arg_of(node, 0), arg = tc_arg_of(node, index);
    tc_dim same;
    TC_TRY(tc_shape_expect_same_type(sc, node, 0, index));
    if (arg.rank == TC_RANK_UNKNOWN || x.rank == TC_RANK_UNKNOWN)
        return TC_OK;
    TC_TRY(tc_shape_expect_rank(sc, node, index, x.rank - axis));
    for (int i = 0; i < arg.rank; i++)
        TC_TRY(tc_shape_same_dim(sc, node, "size of a normalized dim", x.dims[axis + i], arg.dims[i], &same));
    return TC_OK;
}

/* Y, InvStdDev, Channels [capacity] and Kept: X's leading dims, then capacity. */
static tc_status from_y(tc_shape_ctx *sc, tc_node *node, uint32_t last) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dim kept[TC_MAX_RANK], capacity = tc_dim_const(tc_attr_int(node, "capacity", 0));
    tc_dtype stash;
    int axis = 0;
    if (capacity.value < 1 || capacity.value > INT32_MAX)
        return TC_FAIL(sc, node, "capacity is %lld, expected a number of channels", (long long)capacity.value);
    TC_TRY(tc_shape_check_epsilon(sc, node));
    TC_TRY(tc_shape_stash_type(sc, node, &stash));
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_normalized_axes(sc, node, 0, 1, last, &axis));
    for (uint32_t i = 1; i <= last; i++)
        TC_TRY(expect_whole(sc, node, i, axis));
    for (int i = 0; i <= axis && x.rank != TC_RANK_UNKNOWN; i++)
        kept[i] = i < axis ? x.dims[i] : capacity;
    TC_TRY(tc_shape_like(sc, node, 0, x.dtype, x));
    TC_TRY(tc_shape_statistic(sc, node, 1, stash, 0, axis));
    TC_TRY(tc_shape_set(sc, node, 2, TC_INT32, 1, &capacity));
    return tc_shape_set(sc, node, 3, x.dtype, x.rank == TC_RANK_UNKNOWN ? x.rank : axis + 1, kept);
}

tc_status tc_shape_layer_norm_from_y(tc_shape_ctx *sc, tc_node *node) { return from_y(sc, node, 2); }
tc_status tc_shape_rms_norm_from_y(tc_shape_ctx *sc, tc_node *node) { return from_y(sc, node, 1); }

/* (dY, Y, Scale, InvStdDev, Channels, Kept, Bias?): as many columns in Kept as Channels. */
tc_status tc_shape_from_y_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg channels = tc_arg_of(node, 4), kept = tc_arg_of(node, 5);
    tc_dim capacity;
    TC_TRY(tc_shape_expect_type(sc, node, 4, 1u << TC_INT32, "int32"));
    TC_TRY(tc_shape_expect_rank(sc, node, 4, 1));
    TC_TRY(tc_shape_expect_same_type(sc, node, 1, 5));
    if (channels.rank == 1 && kept.rank > 0)
        TC_TRY(tc_shape_same_dim(sc, node, "number of channels that are kept", channels.dims[0],
                                 kept.dims[kept.rank - 1], &capacity));
    return tc_shape_norm_grad(sc, node);
}
