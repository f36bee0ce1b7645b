/* update_cuda.cu: an optimizer's update of many tensors. One thread computes the numbers that all elements share; then
 * a launch for each 256 tensors walks over them in packs of 16 bytes of the weights. Formulas and bits are the
 * CPU's. */
#include "tensor_table.cuh"
extern "C" {
#include "optimizer_math.h"
TK_OPTIMIZER_KERNELS(TK_DECLARE_CUDA)
TK_OPTIMIZER_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum { THREADS = 256, CHUNK = 8192, TENSORS = 256 };

template <class T> struct numbers_of { typedef tk_update_numbers_f32 type; };
template <> struct numbers_of<double> { typedef tk_update_numbers_f64 type; };
template <class T> using numbers = typename numbers_of<T>::type;

__device__ __forceinline__ void round_to(tk_update_numbers_f32 *out, const tk_update_numbers &k) {
    *out = tk_update_rounded_f32(&k);
}
__device__ __forceinline__ void round_to(tk_update_numbers_f64 *out, const tk_update_numbers &k) {
    *out = tk_update_rounded_f64(&k);
}
__device__ __forceinline__ float element(tk_rule rule, const tk_update_numbers_f32 &k, float x, float g, float *state) {
    return tk_update_element_f32(rule, &k, x, g, state);
}
__device__ __forceinline__ double element(tk_rule rule, const tk_update_numbers_f64 &k, double x, double g,
                                          double *state) {
    return tk_update_element_f64(rule, &k, x, g, state);
}

template <class T> __global__ void make_numbers(numbers<T> *out, const __grid_constant__ tk_update_op u) {
    round_to(out, tk_update_numbers_of(&u, tk_device_number(u.rate), tk_device_number(u.scale), *u.step));
}

typedef struct entry {
    tk_update_tensor t;
    bool packed;
} entry;
typedef tk_tensor_table<entry, TENSORS> table;

/* N elements of a gradient as numbers of the weights' type. */
template <class S, int N, class T>
__device__ __forceinline__ void widen(T (&g)[N], const void *data, int64_t at, int left, bool packed) {
    const tk_pack<S, N> pack = tk_load_some<N>((const S *)data + at, left, packed);
#pragma unroll
    for (int k = 0; k < N; k++)
        g[k] = (T)tk_number_of(pack.at[k]);
}
template <int N>
__device__ __forceinline__ void gradient(float (&g)[N], const tk_gradient &from, int64_t at, int left, bool packed) {
    switch (from.dtype) {
    case TK_BF16: widen<tk_bfloat>(g, from.data, at, left, packed); break;
    case TK_F16: widen<tk_half>(g, from.data, at, left, packed); break;
    default: widen<float>(g, from.data, at, left, packed); break;
    }
}
template <int N>
__device__ __forceinline__ void gradient(double (&g)[N], const tk_gradient &from, int64_t at, int left, bool packed) {
    widen<double>(g, from.data, at, left, packed);
}

template <class S, int N>
__device__ __forceinline__ void narrow(void *copy, const tk_pack<float, N> &x, int64_t at, int left, bool packed) {
    tk_pack<S, N> pack;
#pragma unroll
    for (int k = 0; k < N; k++)
        pack.at[k] = tk_element_of<S>(x.at[k]);
    tk_store_some((S *)copy + at, pack, left, packed);
}
template <int N>
__device__ __forceinline__ void store_copy(void *copy, tk_dtype dtype, const tk_pack<float, N> &x, int64_t at, int left,
                                           bool packed) {
    if (dtype == TK_BF16)
        narrow<tk_bfloat>(copy, x, at, left, packed);
    else
        narrow<tk_half>(copy, x, at, left, packed);
}
template <int N>
__device__ __forceinline__ void store_copy(void *, tk_dtype, const tk_pack<double, N> &, int64_t, int, bool) {}

/* N elements from `at` on, or `left` of them. */
template <class T, tk_rule RULE, int N>
__device__ __forceinline__ void update_pack(const tk_update_tensor &t, const numbers<T> &k, tk_dtype copy_dtype,
                                            int64_t at, int left, bool packed, tk_fault_place fault) {
    constexpr int STATES = RULE == TK_SGD || RULE == TK_SUM ? 0 : RULE == TK_ADAM || RULE == TK_ADAMW ? 2 : 1;
    tk_pack<T, N> x = tk_load_some<N>((const T *)t.x + at, left, packed), state[TK_STATES];
    T g[N];
#pragma unroll
    for (int s = 0; s < STATES; s++)
        state[s] = tk_load_some<N>((const T *)t.state[s] + at, left, packed);
    gradient(g, t.g, at, left, packed);
    bool finite = true;
#pragma unroll
    for (int j = 0; j < N; j++) {
        const bool usable = RULE == TK_SUM || g[j] - g[j] == 0;
        const bool steps = usable && !k.stays;
        finite &= j >= left || usable;
        T own[TK_STATES] = {};
#pragma unroll
        for (int s = 0; s < STATES; s++)
            own[s] = state[s].at[j];
        const T next = element(RULE, k, x.at[j], g[j], own);
        x.at[j] = steps ? next : x.at[j];
#pragma unroll
        for (int s = 0; s < STATES; s++)
            state[s].at[j] = steps ? own[s] : state[s].at[j];
    }
    if (!finite && !k.stays)
        tk_fault_set(fault, TK_NOT_FINITE);
    if (t.x_new)
        tk_store_some((T *)t.x_new + at, x, left, packed);
#pragma unroll
    for (int s = 0; s < STATES; s++)
        if (t.state_new[s])
            tk_store_some((T *)t.state_new[s] + at, state[s], left, packed);
    if (t.copy)
        store_copy(t.copy, copy_dtype, x, at, left, packed);
}

template <class T, tk_rule RULE>
__global__ void __launch_bounds__(THREADS)
    update_all(const __grid_constant__ table tensors, const numbers<T> *shared_numbers, tk_dtype copy_dtype,
               tk_fault_place fault) {
    constexpr int N = tk_pack_size<T>;
    const numbers<T> k = *shared_numbers;
    for (uint32_t chunk = blockIdx.x; chunk < tk_table_chunks(tensors); chunk += gridDim.x) {
        const int i = tk_table_find(tensors, chunk);
        const entry &e = tensors.at[i];
        const int64_t begin = (int64_t)(chunk - tensors.first[i]) * CHUNK;
        const int n = e.t.g.n - begin < CHUNK ? (int)(e.t.g.n - begin) : CHUNK;
        for (int at = (int)threadIdx.x * N; at < n; at += THREADS * N)
            update_pack<T, RULE, N>(e.t, k, copy_dtype, begin + at, n - at, e.packed, fault);
    }
}

bool is_packed(const tk_update_tensor *t) {
    return tk_is_packed(t->x, t->state[0], t->state[1], t->x_new, t->copy) &&
           tk_is_packed(t->state_new[0], t->state_new[1], t->g.data);
}

template <class T, tk_rule RULE>
void launch(tk_queue *q, const tk_update_op *u, const table &tensors, const numbers<T> *shared_numbers) {
    const int64_t chunks = tensors.first[tensors.count];
    if (chunks > 0)
        TK_LAUNCH((update_all<T, RULE>), tk_blocks(q, chunks, 1), THREADS, 0, q, tensors, shared_numbers, u->copy_dtype,
                  tk_fault_of(q));
}

template <class T, tk_rule RULE>
void run(tk_queue *q, const tk_update_op *u, const tk_update_tensor *tensors, int64_t count, void *workspace) {
    static_assert(sizeof(table) + 64 <= TK_PARAMETER_BYTES, "a launch's parameters");
    numbers<T> *shared_numbers = (numbers<T> *)workspace;
    table part = {};
    TK_LAUNCH((make_numbers<T>), 1, 1, 0, q, shared_numbers, *u);
    for (int64_t i = 0; i < count; i++) {
        if (tensors[i].g.n > 0)
            tk_table_add(part, entry{tensors[i], is_packed(&tensors[i])}, tk_chunks(tensors[i].g.n, CHUNK));
        if (part.count == TENSORS) {
            launch<T, RULE>(q, u, part, shared_numbers);
            part.count = 0;
        }
    }
    launch<T, RULE>(q, u, part, shared_numbers);
}

template <class T>
void run_rule(tk_queue *q, const tk_update_op *u, const tk_update_tensor *tensors, int64_t count, void *workspace) {
    switch (u->rule) {
    case TK_ADAGRAD: run<T, TK_ADAGRAD>(q, u, tensors, count, workspace); break;
    case TK_ADAM: run<T, TK_ADAM>(q, u, tensors, count, workspace); break;
    case TK_ADAMW: run<T, TK_ADAMW>(q, u, tensors, count, workspace); break;
    case TK_MOMENTUM: run<T, TK_MOMENTUM>(q, u, tensors, count, workspace); break;
    case TK_NESTEROV: run<T, TK_NESTEROV>(q, u, tensors, count, workspace); break;
    case TK_SGD: run<T, TK_SGD>(q, u, tensors, count, workspace); break;
    case TK_LAMB: break; /* no kernel here: runtime/launch/kernels.def */
    case TK_SUM: run<T, TK_SUM>(q, u, tensors, count, workspace); break;
    }
}

} // namespace

size_t tk_cuda_update_workspace(const tk_update_op *) { return sizeof(tk_update_numbers); }

void tk_cuda_update(tk_queue *q, const tk_update_op *u, const tk_update_tensor *tensors, int64_t count,
                    void *workspace) {
    (u->dtype == TK_F64 ? run_rule<double> : run_rule<float>)(q, u, tensors, count, workspace);
}
