/* matmul_ref.c: the product by its definition; float sums in double. */
#include "../common/types.h"
#include "matmul.h"

static double dot(const void *a, const void *b, const tk_product *p, tk_dtype dtype, int64_t batch, int64_t i,
                  int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++)
        sum += tk_get(a, dtype, tk_place(&p->a_at, batch) + (p->trans_a ? k * p->lda + i : i * p->lda + k)) *
               tk_get(b, dtype, tk_place(&p->b_at, batch) + (p->trans_b ? j * p->ldb + k : k * p->ldb + j));
    return sum;
}

void tk_product_ref(void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype) {
    for (int64_t at = 0; at < p->batch * p->m * p->n; at++) {
        double sum = p->alpha * dot(a, b, p, dtype, at / (p->m * p->n), at / p->n % p->m, at % p->n);
        if (p->beta != 0)
            sum += p->beta * tk_get(out, dtype, at);
        switch (dtype) {
        case TK_F32: ((float *)out)[at] = (float)sum; break;
        case TK_F64:
        case TK_F16:
        case TK_BF16: tk_put(out, dtype, at, sum); break;
        case TK_I32: ((int32_t *)out)[at] = (int32_t)sum; break;
        case TK_U32: ((uint32_t *)out)[at] = (uint32_t)sum; break;
        case TK_I64: ((int64_t *)out)[at] = (int64_t)sum; break;
        default: ((uint64_t *)out)[at] = (uint64_t)sum; break;
        }
    }
}
