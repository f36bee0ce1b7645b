/* determinant_cuda.cu: determinants on a CUDA device: a thread has a matrix, since models have few and small ones. */
#include "../cuda/device.cuh"
extern "C" {
#include "determinant.h"
TK_DETERMINANT_KERNELS(TK_DECLARE_CUDA)
TK_DETERMINANT_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum { THREADS = 32 };
const int64_t MOST = 4096; /* matrices that have room at once */

/* dout NULL: determinants. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    eliminate(S *out, const S *dout, const S *inp, int64_t batch, int64_t n, int64_t at_once, double *workspace) {
    const int64_t thread = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    for (int64_t b = thread; thread < at_once && b < batch; b += at_once) {
        tk_lu lu = tk_lu_of(workspace + TK_LU_ROOM(n) * thread, n);
        for (int64_t i = 0; i < n * n; i++)
            lu.a[i] = (double)tk_number_of(inp[b * n * n + i]);
        tk_lu_factor(&lu);
        if (!dout) {
            out[b] = tk_element_of<S>((tk_math<S>)tk_lu_determinant(&lu));
            continue;
        }
        const double scale = (double)tk_number_of(dout[b]);
        for (int64_t j = 0; j < n; j++) {
            tk_lu_adjugate(&lu, j);
            for (int64_t i = 0; i < n; i++)
                out[(b * n + lu.rows[j]) * n + lu.cols[i]] = tk_element_of<S>((tk_math<S>)(scale * lu.column[i]));
        }
    }
}

int64_t matrices_at_once(int64_t batch) { return batch < MOST ? batch : MOST; }

void launch(tk_queue *q, void *out, const void *dout, const void *inp, int64_t batch, int64_t n, tk_dtype dtype,
            void *workspace) {
    const int64_t at_once = matrices_at_once(batch);
    if (batch > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH((eliminate<S>), (unsigned)((at_once + THREADS - 1) / THREADS), THREADS, 0, q, (S *)out,
                            (const S *)dout, (const S *)inp, batch, n, at_once, (double *)workspace))
}

} // namespace

size_t tk_cuda_determinant_workspace(int64_t batch, int64_t n, int slots) {
    (void)slots;
    return (size_t)TK_LU_ROOM(n) * (size_t)matrices_at_once(batch) * sizeof(double);
}

void tk_cuda_determinant(tk_queue *q, void *out, const void *inp, int64_t batch, int64_t n, tk_dtype dtype,
                         void *workspace) {
    launch(q, out, nullptr, inp, batch, n, dtype, workspace);
}

void tk_cuda_determinant_grad(tk_queue *q, void *dinp, const void *dout, const void *inp, int64_t batch, int64_t n,
                              tk_dtype dtype, void *workspace) {
    launch(q, dinp, dout, inp, batch, n, dtype, workspace);
}
