/* shape_fns.h: the shape functions that ops.def names, and the parts they share. A shape function reads the types of a
 * node's operands (and contents of those that are sizes), checks them by the op's specification, and sets the types of
 * the results by tc_shape_set. Unknown facts stay unknown: an operand may have no type, no rank or unknown dims. */
#ifndef TC_SHAPE_FNS_H
#define TC_SHAPE_FNS_H
#include "shape.h"

/* The type of an operand. Absent: all zero but rank. */
typedef struct tc_arg {
    const tc_value *value; /* NULL: absent */
    tc_dtype dtype;        /* TC_UNDEFINED: not known */
    int rank;              /* TC_RANK_UNKNOWN: not known */
    const tc_dim *dims;    /* [rank] */
} tc_arg;
tc_arg tc_arg_of(const tc_node *node, uint32_t index);

#define TC_FAIL(sc, node, ...) tc_error((sc)->ctx, TC_BAD_INPUT, (node), __VA_ARGS__)
const char *tc_shape_text(const tc_shape_ctx *sc, int rank, const tc_dim *dims); /* "[2,n]" */
const char *tc_operand_text(const tc_shape_ctx *sc, const tc_node *node,
                            uint32_t index); /* `operand 1 "x" (float[2,n])` */

/* Axis from a file into 0..rank-1. `rank` must be known. */
tc_status tc_shape_axis(tc_shape_ctx *sc, const tc_node *node, int64_t axis, int rank, int *out_axis);
/* The axes of a bit mask; a repeated axis is an error. */
tc_status tc_shape_axes(tc_shape_ctx *sc, const tc_node *node, const int64_t *axes, size_t count, int rank,
                        uint64_t *out_mask);
/* Numbers known of an integer operand; false where it is absent or not all are numbers. `out` is in the model's arena.
 */
bool tc_shape_ints(const tc_shape_ctx *sc, const tc_node *node, uint32_t index, const int64_t **out, size_t *out_count);
/* As tc_shape_ints, with symbols and unknown elements: NULL only where not even the count is known. */
const tc_dim *tc_shape_dims(const tc_shape_ctx *sc, const tc_node *node, uint32_t index, size_t *out_count);
/* The only element of a float operand. */
bool tc_shape_float(const tc_shape_ctx *sc, const tc_node *node, uint32_t index, double *out);

/* Both dims stand for one size; the better known of them. `what` names it in the error. */
tc_status tc_shape_same_dim(tc_shape_ctx *sc, const tc_node *node, const char *what, tc_dim a, tc_dim b, tc_dim *out);
/* Operand `index` has this rank (or an unknown one). */
tc_status tc_shape_expect_rank(tc_shape_ctx *sc, const tc_node *node, uint32_t index, int rank);
tc_status tc_shape_expect_type(tc_shape_ctx *sc, const tc_node *node, uint32_t index, uint32_t types,
                               const char *expected);
/* Operands a and b have one element type, as far as both are known. */
tc_status tc_shape_expect_same_type(tc_shape_ctx *sc, const tc_node *node, uint32_t a, uint32_t b);
/* Operand `index` can be broadcast to `dims` without changing them. */
tc_status tc_shape_expect_fits(tc_shape_ctx *sc, const tc_node *node, uint32_t index, int rank, const tc_dim *dims);

/* The axis attribute (0 <= axis < rank of operand `data`, known), and that operands first..last fit the normalized
 * axes; norm.c. */
tc_status tc_shape_normalized_axes(tc_shape_ctx *sc, tc_node *node, uint32_t data, uint32_t first, uint32_t last,
                                   int *out_axis);
tc_status tc_shape_check_epsilon(tc_shape_ctx *sc, tc_node *node);
/* stash_type: the element type of the statistics. */
tc_status tc_shape_stash_type(tc_shape_ctx *sc, tc_node *node, tc_dtype *out_dtype);
/* Result `output`: one statistic per row of operand `data`, whose axes from `axis` on become 1. */
tc_status tc_shape_statistic(tc_shape_ctx *sc, tc_node *node, uint32_t output, tc_dtype dtype, uint32_t data, int axis);
/* Result `output` has the shape of operand 0 and this element type. */
tc_status tc_shape_like(tc_shape_ctx *sc, tc_node *node, uint32_t output, tc_dtype dtype, tc_arg arg);
/* A size that depends on data: the symbol that the result's dim already has, or a fresh one. */
tc_dim tc_shape_fresh(tc_shape_ctx *sc, const tc_node *node, uint32_t output, int axis);
/* Merges `type` into value->type; a contradiction is an error of `node`. */
tc_status tc_shape_merge(tc_shape_ctx *sc, const tc_node *node, tc_value *value, const tc_type *type);
tc_dim tc_dims_product(tc_dim_pool *pool, const tc_dim *dims, int count);

#define TC_INTS ((1u << TC_INT32) | (1u << TC_INT64))
/* Each row of ops.def names one of these. */
typedef tc_status (*tc_shape_fn)(tc_shape_ctx *sc, tc_node *node);
#define ROW(name, since, in_lo, in_hi, out_lo, out_hi, types, traits, shape, ...)                                      \
    tc_status tc_shape_##shape(tc_shape_ctx *sc, tc_node *node);
#include "compiler/ir/ops.def"
#endif
