/* gradient_matmul.c: gradients of products. Y = A B: dA = dY B', dB = A' dY, summed over broadcast batch dims. A
 * matrix that a whole batch shares (a linear layer's weight) gets its gradient from one Gemm of flattened operands,
 * which needs no transposed copies. Batches of matrices are transposed in their last two dims. */
#include "gradients.h"

static tc_value *gemm(tc_build *g, tc_value *a, tc_value *b, bool trans_a, bool trans_b, float alpha) {
    tc_node *node = TC_BEGIN(g, "Gemm", a, b);
    if (trans_a)
        tc_attr_set_int(node, "transA", 1);
    if (trans_b)
        tc_attr_set_int(node, "transB", 1);
    if (alpha != 1)
        tc_attr_set_float(node, "alpha", alpha);
    return tc_build_finish(g, node);
}

tc_value *tc_grad_swap_last(tc_build *g, tc_value *value) {
    int rank = tc_grad_rank(g, value);
    int64_t perm[TC_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    if (rank < 2)
        return value;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return tc_build_transpose(g, value, perm, rank);
}

/* [..., k] as [rows, k]. */
static tc_value *as_rows(tc_build *g, tc_value *value) {
    int rank = tc_grad_rank(g, value);
    if (rank == 2)
        return value;
    tc_node *node = TC_BEGIN(g, "Flatten", value);
    tc_attr_set_int(node, "axis", rank - 1);
    return tc_build_finish(g, node);
}

/* Matrices of rank 2 and more. */
static void matrix_gradients(tc_build *g, tc_value *a, tc_value *b, tc_value *dy, tc_value **out_da,
                             tc_value **out_db) {
    bool shared = tc_grad_rank(g, b) == 2;
    tc_value *rows = shared ? as_rows(g, dy) : NULL;
    if (g->of->needed[0] && shared)
        *out_da = tc_build_reshape_like(g, gemm(g, rows, b, false, true, 1), a);
    else if (g->of->needed[0])
        *out_da = tc_grad_reduce_like(g, TC_OP(g, "MatMul", dy, tc_grad_swap_last(g, b)), a);
    if (g->of->needed[1] && shared)
        *out_db = gemm(g, as_rows(g, a), rows, true, false, 1);
    else if (g->of->needed[1])
        *out_db = tc_grad_reduce_like(g, TC_OP(g, "MatMul", tc_grad_swap_last(g, a), dy), b);
}

/* A vector acts as a matrix of one row (left) or one column (right); Y lacks that dim. */
void tc_gradient_matmul(tc_build *g) {
    tc_value *a = tc_input(g->of->node, 0), *b = tc_input(g->of->node, 1), *dy = g->of->douts[0];
    bool row = tc_grad_rank(g, a) == 1, column = tc_grad_rank(g, b) == 1;
    if (g->status != TC_OK)
        return;
    tc_value *matrix_a = row ? tc_build_unsqueeze(g, a, (int64_t[]){0}, 1) : a;
    tc_value *matrix_b = column ? tc_build_unsqueeze(g, b, (int64_t[]){1}, 1) : b;
    if (column)
        dy = tc_build_unsqueeze(g, dy, (int64_t[]){-1}, 1);
    if (row)
        dy = tc_build_unsqueeze(g, dy, (int64_t[]){-2}, 1);
    tc_value *da = NULL, *db = NULL;
    matrix_gradients(g, matrix_a, matrix_b, dy, &da, &db);
    g->of->dins[0] = da && row ? tc_build_reshape_like(g, da, a) : da;
    g->of->dins[1] = db && column ? tc_build_reshape_like(g, db, b) : db;
}

/* Y = alpha op(A) op(B) + beta C. */
void tc_gradient_gemm(tc_build *g) {
    tc_value *a = tc_input(g->of->node, 0), *b = tc_input(g->of->node, 1), *c = tc_input(g->of->node, 2),
             *dy = g->of->douts[0];
    bool ta = tc_attr_int(g->of->node, "transA", 0) != 0, tb = tc_attr_int(g->of->node, "transB", 0) != 0;
    float alpha = tc_attr_float(g->of->node, "alpha", 1), beta = tc_attr_float(g->of->node, "beta", 1);
    if (g->of->needed[0])
        g->of->dins[0] = ta ? gemm(g, b, dy, tb, true, alpha) : gemm(g, dy, b, false, !tb, alpha);
    if (g->of->needed[1])
        g->of->dins[1] = tb ? gemm(g, dy, a, true, ta, alpha) : gemm(g, a, dy, !ta, false, alpha);
    if (c && g->of->needed[2]) {
        tc_value *scaled = beta == 1 ? dy : TC_OP(g, "Mul", dy, tc_build_like(g, dy, (double)beta));
        g->of->dins[2] = tc_grad_reduce_like(g, scaled, c);
    }
}
