/* product_cuda.cu: products by tiles in shared memory, of any type, where cuBLASLt has no algorithm; and the addend of
 * Gemm's product. */
#include "../cuda/device.cuh"
extern "C" {
#include "matmul.h"
#include "product_cuda.h"
TK_MATMUL_KERNELS(TK_DECLARE_CUDA)
}

/* --- tiles -------------------------------------------------------------------------------------- */

/* A block makes TILE x TILE results at a time, DEPTH of the sums' terms at a time; each of its SIDE x SIDE threads
 * makes EACH x EACH of them, SIDE apart. */
enum { TILE = 32, DEPTH = 16, SIDE = 16, EACH = TILE / SIDE, THREADS = SIDE * SIDE };

/* TILE lines of DEPTH terms as at[term][line], zero outside of the matrix. In memory the terms of a line lie side by
 * side with lines `ld` apart, or, `turned`, the other way round; threads that are neighbours read neighbours. */
template <class S>
__device__ __forceinline__ void load_tile(tk_math<S> (*at)[TILE + 1], const S *from, int64_t ld, bool turned,
                                          int64_t line0, int64_t lines, int64_t k0, int64_t k) {
    for (int i = (int)threadIdx.x; i < TILE * DEPTH; i += THREADS) {
        const int term = turned ? i / TILE : i % DEPTH, line = turned ? i % TILE : i / DEPTH;
        const int64_t l = line0 + line, t = k0 + term;
        const bool inside = l < lines && t < k;
        at[term][line] = inside ? tk_number_of(from[turned ? t * ld + l : l * ld + t]) : tk_math<S>(0);
    }
}

template <class S, class O>
__global__ void __launch_bounds__(THREADS, 2)
    product_tiles(O *out, const S *a, const S *b, const tk_product p, int64_t row_tiles, int64_t column_tiles) {
    typedef tk_math<S> T;
    const O *add = p.add ? (const O *)p.add : out;
    __shared__ T as[DEPTH][TILE + 1], bs[DEPTH][TILE + 1];
    const int x = (int)threadIdx.x % SIDE, y = (int)threadIdx.x / SIDE;
    for (int64_t tile = blockIdx.x; tile < p.batch * row_tiles * column_tiles; tile += gridDim.x) {
        const int64_t item = tile / (row_tiles * column_tiles), i0 = tile / column_tiles % row_tiles * TILE,
                      j0 = tile % column_tiles * TILE;
        const S *from_a = a + tk_place(&p.a_at, item), *from_b = b + tk_place(&p.b_at, item);
        T sum[EACH][EACH] = {};
        for (int64_t k = 0; k < p.k; k += DEPTH) {
            __syncthreads();
            load_tile(as, from_a, p.lda, p.trans_a, i0, p.m, k, p.k);
            load_tile(bs, from_b, p.ldb, !p.trans_b, j0, p.n, k, p.k);
            __syncthreads();
#pragma unroll
            for (int t = 0; t < DEPTH; t++)
#pragma unroll
                for (int r = 0; r < EACH; r++)
#pragma unroll
                    for (int c = 0; c < EACH; c++)
                        sum[r][c] += as[t][y + r * SIDE] * bs[t][x + c * SIDE];
        }
#pragma unroll
        for (int r = 0; r < EACH; r++)
#pragma unroll
            for (int c = 0; c < EACH; c++) {
                const int64_t i = i0 + y + r * SIDE, j = j0 + x + c * SIDE, at = (item * p.m + i) * p.n + j;
                if (i >= p.m || j >= p.n)
                    continue;
                const T scaled = (T)p.alpha * sum[r][c];
                out[at] = tk_element_of<O>(p.beta == 0 ? scaled : scaled + (T)p.beta * tk_number_of(add[at]));
            }
    }
}

template <class S, class O>
static void run_tiles(tk_queue *q, void *out, const void *a, const void *b, const tk_product *p) {
    const int64_t row_tiles = (p->m - 1) / TILE + 1, column_tiles = (p->n - 1) / TILE + 1;
    TK_LAUNCH((product_tiles<S, O>), tk_blocks(q, p->batch * row_tiles * column_tiles, 1), THREADS, 0, q, (O *)out,
              (const S *)a, (const S *)b, *p, row_tiles, column_tiles);
}

void tk_cuda_product_plain(tk_queue *q, void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype) {
    switch ((int)dtype) {
    case TK_F32: run_tiles<float, float>(q, out, a, b, p); break;
    case TK_F64: run_tiles<double, double>(q, out, a, b, p); break;
    case TK_F16: (p->wide ? run_tiles<tk_half, float> : run_tiles<tk_half, tk_half>)(q, out, a, b, p); break;
    case TK_BF16: (p->wide ? run_tiles<tk_bfloat, float> : run_tiles<tk_bfloat, tk_bfloat>)(q, out, a, b, p); break;
    case TK_I32:
    case TK_U32: run_tiles<uint32_t, uint32_t>(q, out, a, b, p); break;
    case TK_I64:
    case TK_U64: run_tiles<uint64_t, uint64_t>(q, out, a, b, p); break;
    }
}

/* --- the addend of Gemm's product ----------------------------------------------------------------- */

enum { COPIES = 256 }; /* threads of a block */

/* Where the at-th result of the broadcast reads its operand. */
__device__ __forceinline__ int64_t place_in(const tk_bcast &bc, int64_t at) {
    int64_t place = 0;
    for (int d = bc.rank - 1; d > 0; d--) {
        place += at % bc.dims[d] * bc.strides[0][d];
        at /= bc.dims[d];
    }
    return place + at * bc.strides[0][0];
}

/* N results at a time, which lie in one run of the innermost dim. */
template <class S, int N>
__global__ void __launch_bounds__(COPIES) product_start(S *out, const S *c, tk_math<S> beta, const tk_bcast bc) {
    const int64_t step = bc.strides[0][bc.rank - 1];
    TK_FOR_EACH(i, bc.count / N) {
        const int64_t from = place_in(bc, i * N);
        tk_pack<S, N> y;
#pragma unroll
        for (int k = 0; k < N; k++)
            y.at[k] = tk_element_of<S>(beta * tk_number_of(c[from + k * step]));
        tk_store_pack(out + i * N, y);
    }
}

template <class S> static void run_start(tk_queue *q, void *out, const void *c, double beta, const tk_bcast *bc) {
    constexpr int N = tk_pack_size<S>;
    if (bc->count == 0)
        return;
    if (tk_is_packed(out) && bc->dims[bc->rank - 1] % N == 0)
        TK_LAUNCH((product_start<S, N>), tk_blocks(q, bc->count, COPIES, N), COPIES, 0, q, (S *)out, (const S *)c,
                  (tk_math<S>)beta, *bc);
    else
        TK_LAUNCH((product_start<S, 1>), tk_blocks(q, bc->count, COPIES), COPIES, 0, q, (S *)out, (const S *)c,
                  (tk_math<S>)beta, *bc);
}

void tk_cuda_product_start(tk_queue *q, void *out, const void *c, double beta, const tk_bcast *bc, tk_dtype dtype) {
    TK_FLOATS(dtype, S, run_start<S>(q, out, c, beta, bc))
}
