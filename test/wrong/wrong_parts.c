/* wrong_parts.c: a tempoc with kernels and a gradient builder that go wrong when TEMPO_WRONG names them: what --verify
 * has to notice. The linker's --wrap puts each __wrap_NAME in the place of NAME. */
#include "kernels/table.h"
#include "passes/gradients/gradients.h"
#include <stdlib.h>
#include <string.h>

static bool is_wrong(const char *part) {
    const char *wrong = getenv("TEMPO_WRONG");
    return wrong && strcmp(wrong, part) == 0;
}

/* After the kernel, the first element of `result` is a hundredth too large, where it is a float. */
#define WRONG_KERNEL(name, parameters, arguments, result, dtype)                                                       \
    void __real_tk_##name parameters;                                                                                  \
    void __wrap_tk_##name parameters;                                                                                  \
    void __wrap_tk_##name parameters {                                                                                 \
        __real_tk_##name arguments;                                                                                    \
        if ((result) != NULL && (dtype) == TK_F32 && is_wrong(#name))                                                  \
            *(float *)(result) *= 1.01f;                                                                               \
    }
/* clang-format off */
WRONG_KERNEL(binary_run, (tk_queue *q, const tk_binary *binary, void *out, const void *a, const void *b,
             const tk_bcast *bc), (q, binary, out, a, b, bc), out, binary->out)
WRONG_KERNEL(cross_entropy_grad, (tk_queue *q, void *dscores, const void *dloss, const void *log_prob,
             const void *labels, const void *weights, const tk_loss *shape, void *scratch),
             (q, dscores, dloss, log_prob, labels, weights, shape, scratch), dscores, shape->dtype)
WRONG_KERNEL(gather_grad, (tk_queue *q, void *out, const void *grad, tk_indices indices, int64_t outer, int64_t axis,
             int64_t inner, int64_t n, tk_dtype dtype, void *workspace),
             (q, out, grad, indices, outer, axis, inner, n, dtype, workspace), out, dtype)
WRONG_KERNEL(norm_grad, (tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, const void *inp,
             const void *scale, const void *mean, const void *inv_std, const tk_norm_rows *s, void *workspace),
             (q, dinp, dscale, dbias, dout, inp, scale, mean, inv_std, s, workspace), dscale, s->dtype)
WRONG_KERNEL(product_run, (tk_queue *q, void *out, const void *a, const void *b, const tk_product *product,
             tk_dtype dtype, void *workspace), (q, out, a, b, product, dtype, workspace), out, dtype)
WRONG_KERNEL(unary_run, (tk_queue *q, const tk_unary *unary, void *out, const void *inp, int64_t n,
             const double *params), (q, unary, out, inp, n, params), out, unary->out)
/* clang-format on */

/* The gradient of MatMul's first operand comes out twice as large, under every recipe. */
void __real_tc_gradient_matmul(tc_build *g);
void __wrap_tc_gradient_matmul(tc_build *g);
void __wrap_tc_gradient_matmul(tc_build *g) {
    __real_tc_gradient_matmul(g);
    if (g->of->dins[0] && is_wrong("gradient_matmul"))
        g->of->dins[0] = TC_OP(g, "Add", g->of->dins[0], g->of->dins[0]);
}
