/* shape_tempo.c: shape functions of ops of ai.tempo that stand for newer ONNX ops (Attention, RotaryEmbedding,
 * TensorScatter), of GatherGrad and of Gradient. Meanings: ONNX's operator documentation at opset 25. */
#include "shape_fns.h"
#include <string.h>

/* --- Attention -------------------------------------------------------------------------------- */

/* Sizes of one operand, given as [batch, heads, seq, size] or [batch, seq, heads * size]. */
typedef struct heads {
    tc_dim batch, heads, seq, size;
} heads;

static tc_status read_heads(tc_shape_ctx *sc, tc_node *node, uint32_t index, const char *attr, heads *out) {
    tc_arg x = tc_arg_of(node, index);
    tc_dim unknown = tc_dim_unknown();
    *out = (heads){unknown, unknown, unknown, unknown};
    if (x.rank == TC_RANK_UNKNOWN)
        return TC_OK;
    if (x.rank == 4) {
        *out = (heads){x.dims[0], x.dims[1], x.dims[2], x.dims[3]};
        return TC_OK;
    }
    int64_t count = tc_attr_int(node, attr, 0);
    if (x.rank != 3)
        return TC_FAIL(sc, node, "%s has rank %d, expected 3 or 4", tc_operand_text(sc, node, index), x.rank);
    if (count < 1)
        return TC_FAIL(sc, node, "%s is %lld, expected at least 1, as operands have rank 3", attr, (long long)count);
    if (tc_dim_is_const(x.dims[2]) && x.dims[2].value % count != 0)
        return TC_FAIL(sc, node, "%s: size %lld cannot be split into %lld heads", tc_operand_text(sc, node, index),
                       (long long)x.dims[2].value, (long long)count);
    *out =
        (heads){x.dims[0], tc_dim_const(count), x.dims[1], tc_dim_div(sc->model->dims, x.dims[2], tc_dim_const(count))};
    return TC_OK;
}

/* present = past followed by the new rows. */
static tc_status set_present(tc_shape_ctx *sc, tc_node *node, uint32_t output, uint32_t past_index, tc_dtype dtype,
                             heads x, tc_dim *out_total) {
    tc_arg past = tc_arg_of(node, past_index);
    TC_TRY(tc_shape_expect_rank(sc, node, past_index, 4));
    if (past.rank == 4) {
        TC_TRY(tc_shape_same_dim(sc, node, "batch size of past and present", past.dims[0], x.batch, &x.batch));
        TC_TRY(tc_shape_same_dim(sc, node, "number of heads of past and present", past.dims[1], x.heads, &x.heads));
        TC_TRY(tc_shape_same_dim(sc, node, "head size of past and present", past.dims[3], x.size, &x.size));
    }
    *out_total = !past.value      ? x.seq
                 : past.rank == 4 ? tc_dim_add(sc->model->dims, past.dims[2], x.seq)
                                  : tc_dim_unknown();
    tc_dim dims[4] = {x.batch, x.heads, *out_total, x.size};
    return tc_shape_set(sc, node, output, dtype, 4, dims);
}

tc_status tc_shape_attention(tc_shape_ctx *sc, tc_node *node) {
    tc_arg query = tc_arg_of(node, 0), mask = tc_arg_of(node, 3);
    heads q, k, v;
    tc_dim total, total_v, unused;
    TC_TRY(read_heads(sc, node, 0, "q_num_heads", &q));
    TC_TRY(read_heads(sc, node, 1, "kv_num_heads", &k));
    TC_TRY(read_heads(sc, node, 2, "kv_num_heads", &v));
    TC_TRY(tc_shape_same_dim(sc, node, "batch size of query and key", q.batch, k.batch, &q.batch));
    TC_TRY(tc_shape_same_dim(sc, node, "head size of query and key", q.size, k.size, &unused));
    TC_TRY(tc_shape_same_dim(sc, node, "number of heads of key and value", k.heads, v.heads, &unused));
    TC_TRY(tc_shape_same_dim(sc, node, "sequence of key and value", k.seq, v.seq, &unused));
    if (tc_dim_is_const(q.heads) && tc_dim_is_const(k.heads) &&
        (k.heads.value < 1 || q.heads.value % k.heads.value != 0))
        return TC_FAIL(sc, node, "%lld query heads are no multiple of %lld key heads", (long long)q.heads.value,
                       (long long)k.heads.value);
    if (mask.dtype != TC_UNDEFINED && mask.dtype != TC_BOOL && query.dtype != TC_UNDEFINED &&
        !tc_dtype_is_float(mask.dtype) && (mask.dtype < TC_UINT8 || mask.dtype > TC_INT64) && mask.dtype != TC_UINT32 &&
        mask.dtype != TC_UINT64)
        return TC_FAIL(sc, node, "%s has element type %s, expected bool or a number type", tc_operand_text(sc, node, 3),
                       tc_dtype_name(mask.dtype));
    TC_TRY(set_present(sc, node, 1, 4, tc_arg_of(node, 1).dtype, k, &total));
    TC_TRY(set_present(sc, node, 2, 5, tc_arg_of(node, 2).dtype, v, &total_v));
    tc_dim scores[4] = {q.batch, q.heads, q.seq, total};
    if (mask.rank > 0) { /* a mask may be shorter than the keys: the rest is masked out */
        tc_dim padded[4] = {q.batch, q.heads, q.seq, mask.dims[mask.rank - 1]};
        TC_TRY(tc_shape_expect_fits(sc, node, 3, 4, padded));
    }
    TC_TRY(tc_shape_set(sc, node, 3, query.dtype, 4, scores));
    if (query.rank == 3) {
        tc_dim dims[3] = {q.batch, q.seq, tc_dim_mul(sc->model->dims, q.heads, v.size)};
        return tc_shape_set(sc, node, 0, query.dtype, 3, dims);
    }
    tc_dim dims[4] = {q.batch, q.heads, q.seq, v.size};
    return tc_shape_set(sc, node, 0, query.dtype, query.rank == 4 ? 4 : TC_RANK_UNKNOWN, dims);
}

/* --- others ----------------------------------------------------------------------------------- */

tc_status tc_shape_rotary(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    if (x.rank >= 0 && x.rank != 3 && x.rank != 4)
        return TC_FAIL(sc, node, "%s has rank %d, expected 3 or 4", tc_operand_text(sc, node, 0), x.rank);
    int64_t count = tc_attr_int(node, "num_heads", 0);
    if (x.rank == 3 && count < 1)
        return TC_FAIL(sc, node, "num_heads is %lld, expected at least 1, as operand 0 has rank 3", (long long)count);
    int caches = tc_arg_of(node, 3).value ? 2 : 3;
    TC_TRY(tc_shape_expect_rank(sc, node, 1, caches));
    TC_TRY(tc_shape_expect_rank(sc, node, 2, caches));
    TC_TRY(tc_shape_expect_rank(sc, node, 3, 2));
    return tc_shape_like(sc, node, 0, x.dtype, x);
}

tc_status tc_shape_tensor_scatter(tc_shape_ctx *sc, tc_node *node) {
    tc_arg cache = tc_arg_of(node, 0), update = tc_arg_of(node, 1);
    int axis;
    if (cache.rank != TC_RANK_UNKNOWN) {
        TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", -2), cache.rank, &axis));
        TC_TRY(tc_shape_expect_rank(sc, node, 1, cache.rank));
        for (int i = 0; i < update.rank; i++) {
            tc_dim unused;
            if (i != axis)
                TC_TRY(tc_shape_same_dim(sc, node, "size of cache and update", cache.dims[i], update.dims[i], &unused));
        }
    }
    return tc_shape_like(sc, node, 0, cache.dtype, cache);
}

tc_status tc_shape_gather_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg shape = tc_arg_of(node, 0), indices = tc_arg_of(node, 1), dy = tc_arg_of(node, 2);
    size_t count;
    int axis;
    TC_TRY(tc_shape_expect_type(sc, node, 1, TC_INTS, "int32 or int64"));
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 1));
    const tc_dim *dims = tc_shape_dims(sc, node, 0, &count);
    if (!dims) {
        bool ranks = dy.rank >= 0 && indices.rank >= 0 && shape.value;
        return tc_shape_set(sc, node, 0, dy.dtype, ranks ? dy.rank - indices.rank + 1 : TC_RANK_UNKNOWN, NULL);
    }
    if (count < 1 || count > TC_MAX_RANK)
        return TC_FAIL(sc, node, "shape has %zu sizes, expected 1 to %d", count, TC_MAX_RANK);
    TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", 0), (int)count, &axis));
    if (indices.rank >= 0)
        TC_TRY(tc_shape_expect_rank(sc, node, 2, (int)count - 1 + indices.rank));
    for (int i = 0; i < dy.rank && indices.rank >= 0; i++) {
        tc_dim unused, want = i < axis                  ? dims[i]
                              : i < axis + indices.rank ? indices.dims[i - axis]
                                                        : dims[i - indices.rank + 1];
        TC_TRY(tc_shape_same_dim(sc, node, "size of dY and of what Gather gives", want, dy.dims[i], &unused));
    }
    return tc_shape_set(sc, node, 0, dy.dtype, (int)count, dims);
}

/* (Y, X..., Z...): each result is like its X. */
tc_status tc_shape_gradient(tc_shape_ctx *sc, tc_node *node) {
    int64_t n = tc_attr_int(node, "xs", 0);
    if (n < 1 || n >= (int64_t)node->n_inputs || (int64_t)node->n_outputs > n)
        return TC_FAIL(sc, node, "xs is %lld, but there are %u operands after the first and %u results", (long long)n,
                       node->n_inputs - 1, node->n_outputs);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!tc_input(node, i))
            return TC_FAIL(sc, node, "operand %u is absent (\"\"), but the op needs it", i);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        tc_arg x = tc_arg_of(node, 1 + i);
        TC_TRY(tc_shape_like(sc, node, i, x.dtype, x));
    }
    return TC_OK;
}
