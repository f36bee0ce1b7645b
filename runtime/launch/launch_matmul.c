/* launch_matmul.c: MatMul and Gemm nodes to batches of products. */
#include "kernels/matmul/matmul.h"
#include "runtime/fuse/fuse.h"
#include "launch_util.h"
#include <string.h>

typedef struct matmul_params {
    tk_product product;
    bool has_bias; /* operand 2 is a row, and its factor 1 */
    bool has_c;    /* operand 2 is anything else */
    tk_bcast c;
} matmul_params;

static void run_product(tk_queue *q, const rt_launch *launch) {
    const matmul_params *p = launch->params;
    const rt_arg *out = &launch->out[0];
    tk_product product = p->product;
    bool scaled = tk_is_half(out->dtype); /* the matrix that the product is added to is not rounded before */
    if (p->has_c)
        launch->kernels->product_start(q, out->data, launch->in[2].data, scaled ? 1 : product.beta, &p->c, out->dtype);
    product.bias = p->has_bias ? launch->in[2].data : NULL;
    product.beta = !p->has_c ? 0 : scaled ? product.beta : 1;
    launch->kernels->product_run(q, out->data, launch->in[0].data, launch->in[1].data, &product, out->dtype,
                                 launch->workspace);
}

/* The dims of an operand of MatMul as a matrix in a batch: a vector becomes a row (left) or a column (right). */
typedef struct matrix {
    int64_t rows, columns;
    tk_shape batch;
} matrix;

static matrix as_matrix(const rt_arg *arg, bool left) {
    if (arg->rank == 1)
        return left ? (matrix){1, arg->dims[0], {0, NULL}} : (matrix){arg->dims[0], 1, {0, NULL}};
    return (matrix){arg->dims[arg->rank - 2], arg->dims[arg->rank - 1], {arg->rank - 2, arg->dims}};
}

typedef struct offsets {
    int64_t *a, *b, a_size, b_size;
} offsets;

static void take_offsets(void *ctx, int64_t at, int64_t n, const int64_t *offset, const int64_t *step) {
    const offsets *o = ctx;
    for (int64_t i = 0; i < n; i++) {
        o->a[at + i] = (offset[0] + i * step[0]) * o->a_size;
        o->b[at + i] = (offset[1] + i * step[1]) * o->b_size;
    }
}

static tc_status prepare_batch(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, matrix a, matrix b,
                               tk_product *p) {
    int vectors = (launch->in[0].rank == 1) + (launch->in[1].rank == 1);
    tk_shape out = {launch->out[0].rank - 2 + vectors, launch->out[0].dims};
    tk_bcast bc;
    if (!tk_bcast_init(&bc, out, (tk_shape[]){a.batch, b.batch}, 2))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the operands' batch dims don't broadcast to the result's");
    p->batch = bc.count;
    offsets o = {TC_NEW_ARRAY(launcher->arena, int64_t, (size_t)bc.count),
                 TC_NEW_ARRAY(launcher->arena, int64_t, (size_t)bc.count), a.rows * a.columns, b.rows * b.columns};
    tk_bcast_walk(&bc, 0, bc.count, take_offsets, &o);
    rt_places(launcher, o.a, bc.count, &p->a_at);
    rt_places(launcher, o.b, bc.count, &p->b_at);
    return TC_OK;
}

tc_status rt_launch_matmul(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    matmul_params *params = RT_PARAMS(launcher, matmul_params);
    tk_product *p = &params->product;
    const rt_arg *left = &launch->in[0], *right = &launch->in[1];
    if (!tk_product_has(left->dtype) || left->dtype != right->dtype)
        return rt_no_kernel(launcher, node, launch);
    if (left->rank < 1 || right->rank < 1)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node,
                        "an operand is a scalar; MatMul takes vectors, matrices and batches of them");
    matrix a = as_matrix(left, true), b = as_matrix(right, false);
    bool turned = tc_attr_int(node, RT_TRANS_B, 0) != 0;
    if (a.columns != b.rows)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the inner dims of the operands differ: %lld and %lld",
                        (long long)a.columns, (long long)b.rows);
    *p = (tk_product){.m = a.rows,
                      .n = b.columns,
                      .k = a.columns,
                      .lda = a.columns,
                      .ldb = turned ? b.rows : b.columns,
                      .trans_b = turned,
                      .alpha = 1};
    if (rt_product(right, 0, right->rank - 2) == 1 && right->rank > 1 &&
        left->rank > 1) { /* one matrix on the right: one tall product */
        p->m *= rt_product(left, 0, left->rank - 2);
        p->batch = 1;
    } else {
        TC_TRY(prepare_batch(launcher, node, launch, a, b, p));
    }
    launch->workspace_bytes =
        launcher->kernels->product_workspace(&params->product, launch->out[0].dtype, launcher->slots);
    launch->params = params;
    launch->run = run_product;
    return TC_OK;
}

tc_status rt_launch_gemm(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    matmul_params *params = RT_PARAMS(launcher, matmul_params);
    const rt_arg *a = &launch->in[0], *b = &launch->in[1], *c = rt_in(launch, 2);
    bool ta = tc_attr_int(node, "transA", 0) != 0, tb = tc_attr_int(node, "transB", 0) != 0;
    if (!tk_product_has(a->dtype) || a->dtype != b->dtype || (c && c->dtype != a->dtype))
        return rt_no_kernel(launcher, node, launch);
    if (a->rank != 2 || b->rank != 2 || a->dims[!ta] != b->dims[tb])
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the operands are no matrices whose inner dims agree");
    params->product = (tk_product){.batch = 1,
                                   .m = a->dims[ta],
                                   .n = b->dims[!tb],
                                   .k = a->dims[!ta],
                                   .lda = a->dims[1],
                                   .ldb = b->dims[1],
                                   .trans_a = ta,
                                   .trans_b = tb,
                                   .alpha = (double)tc_attr_float(node, "alpha", 1),
                                   .beta = (double)tc_attr_float(node, "beta", 1)};
    params->has_bias = c && params->product.beta == 1 && c->rank > 0 && c->count == params->product.n &&
                       c->dims[c->rank - 1] == params->product.n;
    params->has_c = c && params->product.beta != 0 && !params->has_bias;
    if (params->has_c && !tk_bcast_init(&params->c, rt_shape(&launch->out[0]), (tk_shape[]){rt_shape(c)}, 1))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "operand 2 does not broadcast to the result");
    launch->workspace_bytes =
        launcher->kernels->product_workspace(&params->product, launch->out[0].dtype, launcher->slots);
    launch->params = params;
    launch->run = run_product;
    return TC_OK;
}
