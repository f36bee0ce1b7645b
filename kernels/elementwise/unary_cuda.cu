/* unary_cuda.cu: the unary ops on a CUDA device, from the expressions of unary_ops.h. Ops of training steps have a
 * kernel each, which goes through packs of 16 bytes; the others share one kernel for each type, which gets the op as an
 * argument and goes element by element. */
#include "../cuda/fast_math.cuh"
extern "C" {
#include "elementwise.h"
void tk_cuda_unary_run(tk_queue *q, const tk_unary *unary, void *out, const void *inp, int64_t n, const double *params);
}
#include "op_list.cuh"
#include "unary_ops.h"

namespace {

enum { THREADS = 256 };

#define OPERANDS (int op, [[maybe_unused]] T x, [[maybe_unused]] T p0, [[maybe_unused]] T p1)
#define FN(name) F::name
#define LARGEST F::largest
template <class F> struct float_ops {
    typedef typename F::T T;
    TK_OP_LIST(TK_UNARY_FLOAT, OPERANDS)
};
#undef FN
#undef LARGEST
template <class S> struct signed_ops {
    typedef S T;
    typedef tk_wraps<S> U;
    TK_OP_LIST(TK_UNARY_SIGNED, OPERANDS)
};
template <class S> struct unsigned_ops {
    typedef S T;
    typedef tk_wraps<S> U;
    TK_OP_LIST(TK_UNARY_UNSIGNED, OPERANDS)
};
template <class S> struct bool_ops {
    typedef S T;
    TK_OP_LIST(TK_UNARY_BOOL, OPERANDS)
};

/* One op: elements of type S, computed by L; out may be inp. */
template <class S, class L, int OP>
__global__ void __launch_bounds__(THREADS) unary(S *out, const S *inp, int64_t n, int64_t packs) {
    constexpr int N = tk_pack_size<S>;
    TK_FOR_EACH(p, packs) {
        tk_pack<S, N> x = tk_load_pack<N>(inp + p * N);
#pragma unroll
        for (int k = 0; k < N; k++)
            x.at[k] = tk_element_of<S>(L::same(OP, tk_number_of(x.at[k]), 0, 0));
        tk_store_pack(out + p * N, x);
    }
    TK_FOR_EACH(i, n - packs * N)
    out[packs * N + i] = tk_element_of<S>(L::same(OP, tk_number_of(inp[packs * N + i]), 0, 0));
}

/* Any op of the list. */
template <class S, class L>
__global__ void __launch_bounds__(THREADS) unary_any(S *out, const S *inp, int64_t n, int op, double p0, double p1) {
    typedef tk_math<S> T;
    TK_FOR_EACH(i, n)
    out[i] = tk_element_of<S>(L::same(op, tk_number_of(inp[i]), (T)p0, (T)p1));
}
template <class S, class L>
__global__ void __launch_bounds__(THREADS)
    unary_flag(uint8_t *out, const S *inp, int64_t n, int op, double p0, double p1) {
    typedef tk_math<S> T;
    TK_FOR_EACH(i, n)
    out[i] = L::flag(op, tk_number_of(inp[i]), (T)p0, (T)p1);
}

typedef struct call {
    tk_queue *q;
    const tk_unary *unary;
    void *out;
    const void *inp;
    int64_t n;
    const double *params;
} call;

template <class S, class L> static void run_any(const call &c, int op) {
    TK_LAUNCH((unary_any<S, L>), tk_blocks(c.q, c.n, THREADS), THREADS, 0, c.q, (S *)c.out, (const S *)c.inp, c.n, op,
              c.params[0], c.params[1]);
}
template <class S, class L> static void run_flag(const call &c, int op) {
    TK_LAUNCH((unary_flag<S, L>), tk_blocks(c.q, c.n, THREADS), THREADS, 0, c.q, (uint8_t *)c.out, (const S *)c.inp,
              c.n, op, c.params[0], c.params[1]);
}

template <class S, int OP> static void run_one(const call &c) {
    typedef float_ops<typename tk_functions_of<S>::type> L;
    const int64_t packs = tk_is_packed(c.out, c.inp) ? c.n / tk_pack_size<S> : 0;
    TK_LAUNCH((unary<S, L, OP>), tk_blocks(c.q, c.n, THREADS, tk_pack_size<S>), THREADS, 0, c.q, (S *)c.out,
              (const S *)c.inp, c.n, packs);
}

/* The others of floats of 16 bits are computed as floats are: a few lose digits with functions that do. */
template <class S> static void run_float(const call &c) {
    typedef float_ops<typename tk_exact_functions_of<S>::type> L;
    const int op = L::number_of(c.unary->op);
    switch (op) {
#define OWN(name)                                                                                                      \
    case L::name: run_one<S, L::name>(c); break;
        OWN(Neg)
        OWN(Sqrt)
        OWN(Reciprocal)
        OWN(Exp)
        OWN(Log)
        OWN(Erf)
        OWN(Tanh)
        OWN(Sigmoid)
        OWN(Relu)
    default: c.unary->out == TK_BOOL ? run_flag<S, L>(c, op) : run_any<S, L>(c, op);
    }
}

template <class S, class L> static void run_list(const call &c) { run_any<S, L>(c, L::number_of(c.unary->op)); }

} // namespace

void tk_cuda_unary_run(tk_queue *q, const tk_unary *unary, void *out, const void *inp, int64_t n,
                       const double *params) {
    const call c = {q, unary, out, inp, n, params};
    if (n == 0)
        return;
    switch ((int)unary->dtype) {
        TK_FLOAT_CASES(S, run_float<S>(c))
        TK_SIGNED_CASES(S, run_list<S, signed_ops<S>>(c))
        TK_UNSIGNED_CASES(S, run_list<S, unsigned_ops<S>>(c))
        TK_CASE(TK_BOOL, uint8_t, S, run_list<S, bool_ops<S>>(c))
    }
}
