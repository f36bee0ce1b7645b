/* linear_loss_cuda.cu: the loss of linear_loss.h, chunk by chunk as on the CPU: scores by one product, their rows to
 * losses and gradients in place, and two products of these. The host knows no label: chunks are even ranges of all
 * rows, and an ignored row has a gradient of 0 and, for the gradient of W, an x of 0. Only the device knows the
 * gradients' factor, dloss over the divisor, too: gradients are multiplied by it when they are rounded. */
#include "../softmax/softmax_device.cuh"
extern "C" {
#include "linear_loss.h"
TK_LINEAR_LOSS_KERNELS(TK_DECLARE_CUDA)
TK_LINEAR_LOSS_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
TK_MATMUL_KERNELS(TK_DECLARE_CUDA)
TK_MATMUL_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

enum { THREADS = TK_ROW_THREADS, EACH = 8 };

/* Numbers that all rows share, computed first. */
struct common_numbers {
    double divisor, scale, weight_sum; /* of the loss; of gradients; of all classes */
};

template <class S> struct walk {
    typedef tk_math<S> T;
    tk_linear_loss s;
    tk_linear_loss_operands in;
    tk_linear_loss_results out;
    tk_fault_place fault;
    T *scores;            /* [chunk, classes]; their gradient, of S, lies at the begin of each row */
    S *masked;            /* [chunk, hidden]: x, 0 where rows are ignored; NULL: x itself will do */
    T *weights, *dw, *dx; /* [classes], of W, [chunk, hidden] */
    double *losses, *db;  /* [rows], [classes] */
    common_numbers *common;
    void *products;
    int64_t first, count; /* rows of the chunk */
    bool has_gradient;
};

/* Element i of an operand of any float type, and a result of one. */
__device__ __forceinline__ double number_at(const void *data, tk_dtype dtype, int64_t i) {
    const int size = dtype == TK_F64 ? 8 : dtype == TK_F32 ? 4 : 2;
    return tk_device_number(tk_number{static_cast<const char *>(data) + size * i, dtype, 0});
}
__device__ __forceinline__ void put_number(void *data, tk_dtype dtype, int64_t i, double value) {
    switch ((int)dtype) {
    case TK_F32: static_cast<float *>(data)[i] = (float)value; break;
    case TK_F64: static_cast<double *>(data)[i] = value; break;
    case TK_F16: static_cast<tk_half *>(data)[i] = tk_element_of<tk_half>((float)value); break;
    default: static_cast<tk_bfloat *>(data)[i] = tk_element_of<tk_bfloat>((float)value); break;
    }
}

enum { IGNORED = -1, NO_LABEL = -2 };
template <class S> __device__ __forceinline__ int64_t label_of(const walk<S> &w, int64_t row) {
    const int64_t label = w.s.label_dtype == TK_I64 ? static_cast<const int64_t *>(w.in.labels)[row]
                                                    : (int64_t) static_cast<const int32_t *>(w.in.labels)[row];
    return w.s.has_ignored && label == w.s.ignored ? (int64_t)IGNORED
           : label < 0 || label >= w.s.classes     ? (int64_t)NO_LABEL
                                                   : label;
}

/* One block: checks labels, adds up their weights, and converts weights to the type of computation. */
template <class S> __global__ void __launch_bounds__(THREADS) find_common(walk<S> w) {
    __shared__ double parts[3 * THREADS / TK_WARP];
    double sums[3] = {0, 0, 0}; /* of the labels' weights, of labels, of all weights */
    for (int64_t row = threadIdx.x; row < w.s.rows; row += THREADS) {
        const int64_t label = label_of(w, row);
        if (label == NO_LABEL)
            tk_fault_set(w.fault, TK_BAD_INDEX);
        if (label < 0)
            continue;
        sums[0] += w.in.weights ? number_at(w.in.weights, w.s.loss_dtype, label) : 1;
        sums[1] += 1;
    }
    for (int64_t c = threadIdx.x; w.in.weights && c < w.s.classes; c += THREADS) {
        const double weight = number_at(w.in.weights, w.s.loss_dtype, c);
        w.weights[c] = (tk_math<S>)weight;
        sums[2] += weight;
    }
    tk_team_sums<THREADS>(sums, parts);
    if (threadIdx.x > 0)
        return;
    const double divisor = w.s.reduction == TK_LOSS_MEAN ? sums[0] : 1;
    const double dloss = w.s.reduction == TK_LOSS_NONE || !w.in.dloss ? 1 : number_at(w.in.dloss, w.s.loss_dtype, 0);
    *w.common = {divisor, sums[1] > 0 ? dloss / divisor : 0, w.in.weights ? sums[2] : (double)w.s.classes};
}

/* --- rows of a chunk ----------------------------------------------------------------------------- */

/* A row's score of class c. */
template <class S> __device__ __forceinline__ tk_math<S> score_at(const walk<S> &w, const tk_math<S> *z, int64_t c) {
    return w.in.b ? z[c] + tk_number_of(((const S *)w.in.b)[c]) : z[c];
}
template <class S> __device__ __forceinline__ tk_math<S> weight_at(const walk<S> &w, int64_t c) {
    return w.in.weights ? w.weights[c] : (tk_math<S>)1;
}

template <class S>
__device__ __forceinline__ tk_softmax_sums<tk_math<S>> sums_of_row(const walk<S> &w, const tk_math<S> *z,
                                                                   tk_math<S> *parts) {
    typedef tk_math<S> T;
    T most = -(T)INFINITY, sum = 0;
    for (int64_t first = threadIdx.x; first < w.s.classes; first += EACH * THREADS) {
        T v[EACH], most_here = most, sum_here = 0;
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            v[k] = first + k * THREADS < w.s.classes ? score_at(w, z, first + k * THREADS) : -(T)INFINITY;
            most_here = tk_larger_of(most_here, v[k]);
        }
        const T to = most_here == -(T)INFINITY ? 0 : most_here;
#pragma unroll
        for (int k = 0; k < EACH; k++)
            sum_here += tk_softmax_exp<S>::of(v[k] - to);
        sum = (most_here > most ? sum * tk_softmax_exp<S>::of(most - to) : sum) + sum_here;
        most = most_here;
    }
    const T largest = tk_team_max<THREADS>(most, parts);
    return {largest, tk_team_sum<THREADS>(sum * tk_softmax_exp<S>::of(most - largest), parts)};
}

/* The sum of w[c] (largest - z[c]): no difference of large sums. */
template <class S>
__device__ __forceinline__ tk_math<S> below_of_row(const walk<S> &w, const tk_math<S> *z, tk_math<S> largest,
                                                   tk_math<S> *parts) {
    tk_math<S> sum = 0;
    for (int64_t c = threadIdx.x; c < w.s.classes; c += THREADS)
        sum += (largest - score_at(w, z, c)) * weight_at(w, c);
    return tk_team_sum<THREADS>(sum, parts);
}

/* The gradient of one row's loss by its scores: exp(z - largest) of_exp - share weight, but at the label. */
template <class T> struct row_grad { T largest, of_exp, share, at_label; };

/* Elements of 16 bits lie where floats did: those of a step are read by all threads before any is written. */
template <class S>
__device__ __forceinline__ void put_grad(const walk<S> &w, tk_math<S> *z, int64_t label, row_grad<tk_math<S>> g) {
    typedef tk_math<S> T;
    S *out = reinterpret_cast<S *>(z);
    for (int64_t base = 0; base < w.s.classes; base += EACH * THREADS) {
        S v[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int64_t c = base + k * THREADS + threadIdx.x;
            T of_class = 0;
            if (c < w.s.classes) {
                of_class = c == label ? g.at_label : tk_softmax_exp<S>::of(score_at(w, z, c) - g.largest) * g.of_exp;
                of_class -= g.share != 0 ? g.share * weight_at(w, c) : 0;
            }
            v[k] = tk_element_of<S>(of_class);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (base + k * THREADS + threadIdx.x < w.s.classes)
                out[base + k * THREADS + threadIdx.x] = v[k];
    }
}

template <class S> __device__ __forceinline__ void put_loss(const walk<S> &w, int64_t row, double loss) {
    w.losses[row] = loss;
    if (w.s.reduction == TK_LOSS_NONE)
        put_number(w.out.loss, w.s.loss_dtype, row, loss);
}

/* A row that counts, by the formulas of linear_loss_tmpl.h. */
template <class S>
__device__ __forceinline__ void one_row(const walk<S> &w, int64_t row, tk_math<S> *z, int64_t label,
                                        tk_math<S> *parts) {
    typedef tk_math<S> T;
    const double own = w.s.share * (double)weight_at(w, label), share = w.s.smoothing / (double)w.s.classes;
    const T of_label = score_at(w, z, label);
    const tk_softmax_sums<T> sums = sums_of_row(w, z, parts);
    const double log_sum = (double)tk_log_of(sums.sum), lse = (double)sums.largest + log_sum;
    double loss = own * (((double)sums.largest - (double)of_label) + log_sum), mass = own;
    if (share != 0) {
        loss += share * ((double)below_of_row(w, z, sums.largest, parts) + w.common->weight_sum * log_sum);
        mass += share * w.common->weight_sum;
    }
    if (w.s.square != 0) {
        loss += w.s.square * lse * lse;
        mass += 2 * w.s.square * lse;
    }
    if (threadIdx.x == 0)
        put_loss(w, row, loss);
    if (!w.has_gradient)
        return;
    const double seed = w.s.reduction == TK_LOSS_NONE && w.in.dloss ? number_at(w.in.dloss, w.s.loss_dtype, row) : 1;
    const double at_label = (double)tk_softmax_exp<S>::of(of_label - sums.largest) / (double)sums.sum * mass - own;
    const row_grad<T> g = {sums.largest, (T)(mass / (double)sums.sum * seed), (T)(share * seed), (T)(at_label * seed)};
    put_grad(w, z, label, g);
}

template <class S> __global__ void __launch_bounds__(THREADS, 3) loss_rows(walk<S> w) {
    typedef tk_math<S> T;
    __shared__ T parts[THREADS / TK_WARP];
    TK_FOR_EACH_ROW(i, w.count, THREADS) {
        T *z = w.scores + i * w.s.classes;
        const int64_t row = w.first + i, label = label_of(w, row);
        if (label >= 0) {
            one_row(w, row, z, label, parts);
            continue;
        }
        for (int64_t c = threadIdx.x; w.has_gradient && c < w.s.classes; c += THREADS)
            reinterpret_cast<S *>(z)[c] = tk_element_of<S>(0);
        if (threadIdx.x == 0)
            put_loss(w, row, 0);
    }
}

/* --- around the products ------------------------------------------------------------------------- */

template <class S> __global__ void __launch_bounds__(THREADS) mask_rows(walk<S> w) {
    TK_FOR_EACH(i, w.count * w.s.hidden) {
        const bool counts = label_of(w, w.first + i / w.s.hidden) >= 0;
        w.masked[i] = counts ? ((const S *)w.in.x)[w.first * w.s.hidden + i] : tk_element_of<S>(0);
    }
}

template <class S> __global__ void __launch_bounds__(THREADS) put_dx(walk<S> w) {
    const tk_math<S> scale = (tk_math<S>)w.common->scale;
    TK_FOR_EACH(i, w.count * w.s.hidden) {
        const bool counts = label_of(w, w.first + i / w.s.hidden) >= 0;
        ((S *)w.out.dx)[w.first * w.s.hidden + i] = tk_element_of<S>(counts ? w.dx[i] * scale : (tk_math<S>)0);
    }
}

/* A column's sum over the chunk's rows, in their order. */
template <class S> __global__ void __launch_bounds__(THREADS) add_columns(walk<S> w) {
    const int64_t pitch = w.s.classes * (int64_t)(sizeof(tk_math<S>) / sizeof(S));
    TK_FOR_EACH(c, w.s.classes) {
        const S *dz = reinterpret_cast<const S *>(w.scores) + c;
        double sum = w.first > 0 ? w.db[c] : 0;
        for (int64_t i = 0; i < w.count; i++)
            sum += (double)tk_number_of(dz[i * pitch]);
        w.db[c] = sum;
    }
}

/* Gradients of W and of the bias from their sums; without rows they are 0. dw may be where its sums are. */
template <class S> __global__ void __launch_bounds__(THREADS) finish_dw(walk<S> w) {
    const tk_math<S> scale = (tk_math<S>)w.common->scale;
    TK_FOR_EACH(i, w.s.classes * w.s.hidden)
    ((S *)w.out.dw)[i] = tk_element_of<S>(w.s.rows > 0 ? w.dw[i] * scale : (tk_math<S>)0);
}
template <class S> __global__ void __launch_bounds__(THREADS) finish_db(walk<S> w) {
    TK_FOR_EACH(c, w.s.classes)
    ((S *)w.out.db)[c] = tk_element_of<S>((tk_math<S>)(w.s.rows > 0 ? w.db[c] * w.common->scale : 0));
}

template <class S> __global__ void __launch_bounds__(THREADS) finish_loss(walk<S> w) {
    __shared__ double parts[THREADS / TK_WARP];
    double sum = 0;
    for (int64_t row = threadIdx.x; row < w.s.rows; row += THREADS)
        sum += w.losses[row];
    sum = tk_team_sum<THREADS>(sum, parts);
    if (threadIdx.x == 0)
        put_number(w.out.loss, w.s.loss_dtype, 0, sum / w.common->divisor);
}

/* --- the walk ------------------------------------------------------------------------------------ */

/* The parts of the workspace, in bytes from its begin. */
struct layout {
    size_t scores, masked, weights, losses, dw, dx, db, common, end;
};

static size_t take(size_t *at, bool wanted, int64_t count, size_t size) {
    const size_t begin = *at;
    if (wanted)
        *at += ((size_t)count * size + 255) / 256 * 256;
    return begin;
}

/* The shape does not say whether dx is wanted: there is always room for it. */
static layout layout_of(const tk_linear_loss *s) {
    const size_t wide = tk_size(tk_wide(s->dtype)), size = tk_size(s->dtype);
    const int64_t chunk = tk_linear_loss_chunk(s);
    size_t at = 0;
    layout l;
    l.scores = take(&at, true, chunk * s->classes, wide);
    l.masked = take(&at, s->has_ignored && s->wants_dw, chunk * s->hidden, size);
    l.weights = take(&at, true, s->classes, wide);
    l.losses = take(&at, true, s->rows, sizeof(double));
    l.dw = take(&at, s->wants_dw && size != wide, s->classes * s->hidden, wide);
    l.dx = take(&at, true, chunk * s->hidden, wide);
    l.db = take(&at, s->wants_db, s->classes, sizeof(double));
    l.common = take(&at, true, 1, sizeof(common_numbers));
    l.end = at;
    return l;
}

/* The product of a role; the gradient of x has the type of computation. */
static tk_product product_of(const tk_linear_loss *s, tk_linear_loss_role which, int64_t count) {
    tk_product p = tk_linear_loss_product(s, which, count);
    p.wide = tk_is_half(s->dtype);
    return p;
}

size_t tk_cuda_linear_loss_workspace(const tk_linear_loss *s, int slots) {
    size_t most = 0;
    for (int i = TK_LINEAR_LOSS_SCORES; i <= TK_LINEAR_LOSS_OF_X; i++) {
        const tk_product p = product_of(s, (tk_linear_loss_role)i, tk_linear_loss_chunk(s));
        const size_t bytes = tk_cuda_product_workspace(&p, s->dtype, slots);
        most = bytes > most ? bytes : most;
    }
    return layout_of(s).end + most;
}

template <class S>
static void multiply(tk_queue *q, const walk<S> &w, tk_linear_loss_role which, void *out, const void *a, const void *b,
                     double beta) {
    tk_product p = product_of(&w.s, which, w.count);
    p.beta = beta;
    tk_cuda_product_run(q, out, a, b, &p, w.s.dtype, w.products);
}

template <class S> static void walk_chunk(tk_queue *q, const walk<S> &w) {
    const S *x = (const S *)w.in.x + w.first * w.s.hidden;
    const unsigned blocks = tk_blocks(q, w.count * w.s.hidden, THREADS);
    multiply(q, w, TK_LINEAR_LOSS_SCORES, w.scores, x, w.in.w, 0);
    TK_LAUNCH(loss_rows<S>, tk_row_blocks(w.count, THREADS), THREADS, 0, q, w);
    if (w.out.db)
        TK_LAUNCH(add_columns<S>, tk_blocks(q, w.s.classes, THREADS), THREADS, 0, q, w);
    if (w.out.dw && w.masked && w.s.hidden > 0)
        TK_LAUNCH(mask_rows<S>, blocks, THREADS, 0, q, w);
    const void *of_x = w.masked ? w.masked : x, *a = w.s.trans_w ? w.scores : of_x, *b = w.s.trans_w ? of_x : w.scores;
    if (w.out.dw)
        multiply(q, w, TK_LINEAR_LOSS_OF_W, w.dw, a, b, w.first > 0);
    if (w.out.dx && w.s.hidden > 0) {
        multiply(q, w, TK_LINEAR_LOSS_OF_X, w.dx, w.scores, w.in.w, 0);
        TK_LAUNCH(put_dx<S>, blocks, THREADS, 0, q, w);
    }
}

template <class S> static void walk_rows(tk_queue *q, walk<S> w) {
    const int64_t chunk = tk_linear_loss_chunk(&w.s), of_w = w.s.classes * w.s.hidden;
    TK_LAUNCH(find_common<S>, 1, THREADS, 0, q, w);
    for (w.first = 0; w.first < w.s.rows; w.first += chunk) {
        w.count = w.s.rows - w.first < chunk ? w.s.rows - w.first : chunk;
        walk_chunk(q, w);
    }
    if (w.s.reduction != TK_LOSS_NONE)
        TK_LAUNCH(finish_loss<S>, 1, THREADS, 0, q, w);
    if (w.out.dw && of_w > 0)
        TK_LAUNCH(finish_dw<S>, tk_blocks(q, of_w, THREADS), THREADS, 0, q, w);
    if (w.out.db && w.s.classes > 0)
        TK_LAUNCH(finish_db<S>, tk_blocks(q, w.s.classes, THREADS), THREADS, 0, q, w);
}

template <class S>
static void run(tk_queue *q, tk_linear_loss_results out, tk_linear_loss_operands in, const tk_linear_loss *s,
                char *at) {
    typedef tk_math<S> T;
    const layout l = layout_of(s);
    walk<S> w = {};
    w.s = *s;
    w.in = in;
    w.out = out;
    w.fault = tk_fault_of(q);
    w.scores = (T *)(at + l.scores);
    w.masked = s->has_ignored && out.dw ? (S *)(at + l.masked) : nullptr;
    w.weights = (T *)(at + l.weights);
    w.losses = (double *)(at + l.losses);
    w.dw = tk_is_half(s->dtype) ? (T *)(at + l.dw) : (T *)out.dw;
    w.dx = (T *)(at + l.dx);
    w.db = (double *)(at + l.db);
    w.common = (common_numbers *)(at + l.common);
    w.products = at + l.end;
    w.has_gradient = out.dx || out.dw || out.db;
    walk_rows(q, w);
}

void tk_cuda_linear_loss_run(tk_queue *q, tk_linear_loss_results out, tk_linear_loss_operands in,
                             const tk_linear_loss *s, void *workspace) {
    TK_FLOATS(s->dtype, S, run<S>(q, out, in, s, (char *)workspace))
}
