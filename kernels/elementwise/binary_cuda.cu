/* binary_cuda.cu: the binary ops on a CUDA device, from the expressions of binary_ops.h. The four operations on floats
 * have kernels of their own, which go through packs of 16 bytes if the runs of broadcasting consist of whole packs; the
 * others share one kernel for each type, which gets the op as an argument and goes element by element. */
#include "../cuda/walk.cuh"
extern "C" {
#include "../common/functions.h"
#include "elementwise.h"
void tk_cuda_binary_run(tk_queue *q, const tk_binary *binary, void *out, const void *a, const void *b,
                        const tk_bcast *bc);
}
#include "binary_ops.h"
#include "op_list.cuh"

namespace {

enum { THREADS = 256 };

static __device__ __forceinline__ float of_type_fmod(float a, float b) { return tk_fmod_f32(a, b); }
static __device__ __forceinline__ double of_type_fmod(double a, double b) { return tk_fmod_f64(a, b); }
static __device__ __forceinline__ float of_type_floor_mod(float a, float b) { return tk_floor_mod_f32(a, b); }
static __device__ __forceinline__ double of_type_floor_mod(double a, double b) { return tk_floor_mod_f64(a, b); }

#define OPERANDS (int op, [[maybe_unused]] T a, [[maybe_unused]] T b)
#define FN(name) of_type_##name
template <class S> struct float_ops {
    typedef tk_math<S> T;
    TK_OP_LIST(TK_BINARY_FLOAT, OPERANDS)
};
#undef FN
template <class S> struct signed_ops {
    typedef S T;
    typedef tk_wraps<S> U;
    TK_OP_LIST(TK_BINARY_SIGNED, OPERANDS)
};
template <class S> struct unsigned_ops {
    typedef S T;
    typedef tk_wraps<S> U;
    TK_OP_LIST(TK_BINARY_UNSIGNED, OPERANDS)
};
template <class S> struct bool_ops {
    typedef S T;
    TK_OP_LIST(TK_BINARY_BOOL, OPERANDS)
};

/* One op: elements of type S, computed by L, N at a time, and `rest` of a single row element by element; out may be an
 * operand. */
template <class S, class L, int OP, int N>
__global__ void __launch_bounds__(THREADS)
    binary(S *out, const S *a, const S *b, const __grid_constant__ tk_walk<2> walk, int64_t rest) {
    const int64_t last_a = walk.strides[0][walk.rank - 1], last_b = walk.strides[1][walk.rank - 1];
    TK_FOR_EACH(i, walk.items) {
        const tk_spots<2> from = tk_spots_of(walk, i);
        tk_pack<S, N> x = tk_load_spread<N>(a + from.at[0], last_a == 0);
        const tk_pack<S, N> y = tk_load_spread<N>(b + from.at[1], last_b == 0);
#pragma unroll
        for (int k = 0; k < N; k++)
            x.at[k] = tk_element_of<S>(L::same(OP, tk_number_of(x.at[k]), tk_number_of(y.at[k])));
        tk_store_pack(out + i * N, x);
    }
    TK_FOR_EACH(i, rest) {
        const int64_t at = walk.items * N + i;
        out[at] = tk_element_of<S>(L::same(OP, tk_number_of(a[last_a ? at : 0]), tk_number_of(b[last_b ? at : 0])));
    }
}

/* Any op of the list. */
template <class S, class L>
__global__ void __launch_bounds__(THREADS)
    binary_any(S *out, const S *a, const S *b, const __grid_constant__ tk_walk<2> walk, int op) {
    TK_FOR_EACH(i, walk.items) {
        const tk_spots<2> from = tk_spots_of(walk, i);
        out[i] = tk_element_of<S>(L::same(op, tk_number_of(a[from.at[0]]), tk_number_of(b[from.at[1]])));
    }
}
template <class S, class L>
__global__ void __launch_bounds__(THREADS)
    binary_flag(uint8_t *out, const S *a, const S *b, const __grid_constant__ tk_walk<2> walk, int op) {
    TK_FOR_EACH(i, walk.items) {
        const tk_spots<2> from = tk_spots_of(walk, i);
        out[i] = L::flag(op, tk_number_of(a[from.at[0]]), tk_number_of(b[from.at[1]]));
    }
}

typedef struct call {
    tk_queue *q;
    const tk_binary *binary;
    void *out;
    const void *a, *b;
    const tk_bcast *bc;
} call;

template <class S, class L> static void run_any(const call &c, int op) {
    TK_LAUNCH((binary_any<S, L>), tk_blocks(c.q, c.bc->count, THREADS), THREADS, 0, c.q, (S *)c.out, (const S *)c.a,
              (const S *)c.b, tk_walk_of<2>(c.bc), op);
}
template <class S, class L> static void run_flag(const call &c, int op) {
    TK_LAUNCH((binary_flag<S, L>), tk_blocks(c.q, c.bc->count, THREADS), THREADS, 0, c.q, (uint8_t *)c.out,
              (const S *)c.a, (const S *)c.b, tk_walk_of<2>(c.bc), op);
}

template <class S, class L, int OP, int N> static void run_packs(const call &c) {
    const tk_walk<2> walk = tk_walk_of<2>(c.bc, N);
    TK_LAUNCH((binary<S, L, OP, N>), tk_blocks(c.q, c.bc->count, THREADS, N), THREADS, 0, c.q, (S *)c.out,
              (const S *)c.a, (const S *)c.b, walk, c.bc->count - walk.items * N);
}
template <class S, class L, int OP> static void run_one(const call &c) {
    constexpr int N = tk_pack_size<S>;
    const int last = c.bc->rank - 1;
    const bool aligned =
        tk_is_packed(c.out, c.bc->strides[0][last] ? c.a : nullptr, c.bc->strides[1][last] ? c.b : nullptr);
    if (aligned && tk_is_packed_walk(c.bc, N))
        run_packs<S, L, OP, N>(c);
    else
        run_packs<S, L, OP, 1>(c);
}

template <class S> static void run_float(const call &c) {
    typedef float_ops<S> L;
    const int op = L::number_of(c.binary->op);
    switch (op) {
#define OWN(name)                                                                                                      \
    case L::name: run_one<S, L, L::name>(c); break;
        OWN(Add)
        OWN(Sub)
        OWN(Mul)
        OWN(Div)
    default: c.binary->out == TK_BOOL ? run_flag<S, L>(c, op) : run_any<S, L>(c, op);
    }
}

template <class S, class L> static void run_integer(const call &c) {
    const int op = L::number_of(c.binary->op);
    c.binary->out == TK_BOOL ? run_flag<S, L>(c, op) : run_any<S, L>(c, op);
}

} // namespace

void tk_cuda_binary_run(tk_queue *q, const tk_binary *binary, void *out, const void *a, const void *b,
                        const tk_bcast *bc) {
    const call c = {q, binary, out, a, b, bc};
    if (bc->count == 0)
        return;
    switch ((int)binary->dtype) {
        TK_FLOAT_CASES(S, run_float<S>(c))
        TK_SIGNED_CASES(S, run_integer<S, signed_ops<S>>(c))
        TK_UNSIGNED_CASES(S, run_integer<S, unsigned_ops<S>>(c))
        TK_CASE(TK_BOOL, uint8_t, S, run_any<S, bool_ops<S>>(c, bool_ops<S>::number_of(binary->op)))
    }
}
