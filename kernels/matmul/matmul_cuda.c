/* matmul_cuda.c: a batch of products on a CUDA device: by cuBLASLt where it has an algorithm, else by the plain kernel
 * of product_cuda.cu: integers, batches whose places only a table knows, sums over nothing. */
#include "../reduce/reduce.h"
#include "cublas.h"
#include "product_cuda.h"

TK_MATMUL_KERNELS(TK_DECLARE_CUDA)
TK_MATMUL_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
TK_REDUCE_KERNELS(TK_DECLARE_CUDA)
TK_REDUCE_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)

/* Items of a batch in one call: some of the library's algorithms take a batch as the third dim of a grid, which ends at
 * 65535. */
#define MOST_ITEMS 32768

/* The sums of a product, as a reduction of the operand, which is stored by lines of k. */
static tk_reduction reduction_of(const tk_product *p) {
    const int64_t dims[] = {p->k, p->sums_of == TK_SUMS_OF_A ? p->m : p->n};
    tk_reduction r;
    tk_reduction_init(&r, 2, dims, (const bool[]){true, false});
    return r;
}

/* The library's scratch lies in the queue's own workspace. */
size_t tk_cuda_product_workspace(const tk_product *p, tk_dtype dtype, int slots) {
    (void)dtype, (void)slots;
    if (!p->sums_of)
        return 0;
    const tk_reduction r = reduction_of(p);
    return tk_cuda_reduce_workspace(&r);
}

static const void *moved(const void *data, tk_places *at, int64_t items, size_t size) {
    if (at->at)
        at->at += items;
    return at->at ? data : (const char *)data + items * at->step * (int64_t)size;
}

/* Work that the library does not support runs before: the bias is written to the rows, and sums are a reduction. */
static void run_part(tk_queue *q, void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype,
                     void *workspace) {
    tk_product product = *p;
    if (tk_cublas_product(tk_queue_cuda(q), out, a, b, &product, dtype))
        return;
    if (p->sums_of) {
        const tk_reduction r = reduction_of(p);
        tk_cuda_reduce(q, p->sums, p->sums_of == TK_SUMS_OF_A ? a : b, &r, TK_REDUCE_SUM, dtype, workspace);
        product.sums_of = TK_SUMS_NONE;
        if (tk_cublas_product(tk_queue_cuda(q), out, a, b, &product, dtype))
            return;
    }
    if (p->bias) {
        const tk_bcast rows = tk_product_rows(p);
        tk_cuda_product_start(q, out, p->bias, 1, &rows, p->wide ? TK_F32 : dtype);
        product.bias = NULL;
        product.beta = 1;
        if (tk_cublas_product(tk_queue_cuda(q), out, a, b, &product, dtype))
            return;
    }
    tk_cuda_product_plain(q, out, a, b, &product, dtype);
}

void tk_cuda_product_run(tk_queue *q, void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype,
                         void *workspace) {
    if (p->batch == 0 || p->m == 0 || p->n == 0)
        return;
    const size_t size = tk_size(dtype), out_size = tk_size(p->wide ? TK_F32 : dtype);
    for (int64_t first = 0; first < p->batch; first += MOST_ITEMS) {
        tk_product part = *p;
        part.batch = p->batch - first < MOST_ITEMS ? p->batch - first : MOST_ITEMS;
        const void *part_a = moved(a, &part.a_at, first, size), *part_b = moved(b, &part.b_at, first, size);
        void *part_out = (char *)out + (size_t)(first * p->m * p->n) * out_size;
        run_part(q, part_out, part_a, part_b, &part, dtype, workspace);
    }
}
