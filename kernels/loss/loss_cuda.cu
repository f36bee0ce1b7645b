/* loss_cuda.cu: the losses of classification. One walk over the scores gives log_prob and its value at each place's
 * label (log_softmax_cuda.cu); losses and weights of all places are then added up by at most 256 blocks, in double, and
 * these by one: the order of the sums depends on the shape only. The gradient is one walk, in packs across the ends of
 * rows where the axis is the last one. */
#include "../softmax/softmax_device.cuh"
extern "C" {
#include "loss.h"
TK_LOSS_KERNELS(TK_DECLARE_CUDA)
TK_LOSS_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

enum { THREADS = TK_ROW_THREADS };
static const int64_t MOST_BLOCKS = THREADS, PLACES_OF_BLOCK = 4 * THREADS; /* a thread for each block's sums */

static int64_t places_of(const tk_loss *s) { return s->batch * s->inner; }
static unsigned blocks_of(const tk_loss *s) {
    const int64_t blocks = (places_of(s) + PLACES_OF_BLOCK - 1) / PLACES_OF_BLOCK;
    return (unsigned)(blocks < 1 ? 1 : blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

/* Sums over places. */
struct loss_sums {
    double loss, weight;
};

template <class S> struct loss_args {
    S *loss;                     /* of all places where nothing is reduced, else one number; NULL: a gradient's */
    const tk_math<S> *picked;    /* log_prob at the labels; NULL: */
    const S *log_prob, *weights; /* they are here; each may be NULL */
    const S *dloss;              /* NULL: no gradient */
    const void *labels;
    loss_sums *parts; /* of each block */
    double *share;    /* of a gradient: dloss over the sum of the weights */
    tk_loss s;
    tk_fault_place fault;
};

template <class S> __device__ __forceinline__ int64_t label_of(const loss_args<S> &c, int64_t place) {
    return c.s.label_dtype == TK_I64 ? static_cast<const int64_t *>(c.labels)[place]
                                     : (int64_t) static_cast<const int32_t *>(c.labels)[place];
}
__device__ __forceinline__ bool is_ignored(const tk_loss &s, int64_t label) {
    return s.has_ignored && label == s.ignored;
}
template <class S> __device__ __forceinline__ tk_math<S> weight_of(const loss_args<S> &c, int64_t label) {
    return c.weights ? tk_number_of(c.weights[label]) : (tk_math<S>)1;
}

/* log_prob at a place's label. */
template <class S> __device__ __forceinline__ tk_math<S> at_label(const loss_args<S> &c, int64_t place, int64_t label) {
    return c.picked ? c.picked[place]
           : c.log_prob
               ? tk_number_of(c.log_prob[(place / c.s.inner * c.s.classes + label) * c.s.inner + place % c.s.inner])
               : (tk_math<S>)0;
}

/* The results of all sums: the loss, or a gradient's share. */
template <class S> __device__ __forceinline__ void finish(const loss_args<S> &c, loss_sums sums) {
    const bool is_mean = c.s.reduction == TK_LOSS_MEAN;
    if (c.share)
        *c.share = (double)tk_number_of(*c.dloss) / (is_mean ? sums.weight : 1);
    else if (c.s.reduction != TK_LOSS_NONE)
        *c.loss = tk_element_of<S>((tk_math<S>)(is_mean ? sums.loss / sums.weight : sums.loss));
}

template <class S> __global__ void __launch_bounds__(THREADS) add_losses(loss_args<S> c) {
    __shared__ double parts[2 * THREADS / TK_WARP];
    double sums[2] = {0, 0};
    TK_FOR_EACH(place, c.s.batch * c.s.inner) {
        const int64_t label = label_of(c, place);
        tk_math<S> loss = 0;
        if (!is_ignored(c.s, label)) {
            if (label < 0 || label >= c.s.classes) {
                tk_fault_set(c.fault, TK_BAD_INDEX);
                continue;
            }
            const tk_math<S> weight = weight_of(c, label);
            loss = -weight * at_label(c, place, label);
            sums[0] += (double)loss;
            sums[1] += (double)weight;
        }
        if (c.loss && c.s.reduction == TK_LOSS_NONE)
            c.loss[place] = tk_element_of<S>(loss);
    }
    tk_team_sums<THREADS>(sums, parts);
    if (threadIdx.x > 0)
        return;
    const loss_sums all = {sums[0], sums[1]};
    if (gridDim.x == 1)
        finish(c, all);
    else
        c.parts[blockIdx.x] = all;
}

template <class S> __global__ void __launch_bounds__(THREADS) add_parts(loss_args<S> c, int n) {
    __shared__ double parts[2 * THREADS / TK_WARP];
    const int i = (int)threadIdx.x;
    double sums[2] = {i < n ? c.parts[i].loss : 0, i < n ? c.parts[i].weight : 0};
    tk_team_sums<THREADS>(sums, parts);
    const loss_sums all = {sums[0], sums[1]};
    if (i == 0)
        finish(c, all);
}

template <class S> static void add_all(tk_queue *q, const loss_args<S> &c) {
    const unsigned blocks = blocks_of(&c.s);
    TK_LAUNCH(add_losses<S>, blocks, THREADS, 0, q, c);
    if (blocks > 1 && (c.share || c.s.reduction != TK_LOSS_NONE))
        TK_LAUNCH(add_parts<S>, 1, THREADS, 0, q, c, (int)blocks);
}

/* --- the gradient -------------------------------------------------------------------------------- */

/* Numbers that the elements of one place share. The label is -1 where it is ignored: all of them are 0, but NaN where
 * log_prob is NaN. */
template <class T> struct place_grad {
    int64_t label;
    T factor;
};
template <class S> __device__ __forceinline__ place_grad<tk_math<S>> grad_of(const loss_args<S> &c, int64_t place) {
    typedef tk_math<S> T;
    const int64_t label = label_of(c, place);
    if (is_ignored(c.s, label))
        return {-1, 0};
    if (label < 0 || label >= c.s.classes) {
        tk_fault_set(c.fault, TK_BAD_INDEX);
        return {-1, 0};
    }
    const T share = c.s.reduction == TK_LOSS_NONE ? tk_number_of(c.dloss[place]) : (T)*c.share;
    return {label, weight_of(c, label) * share};
}

/* exp(x) - 1 where the class is the label, which is near 0 where the model is sure. */
__device__ __forceinline__ float less_one(float x) { return expm1f(x); }
__device__ __forceinline__ double less_one(double x) { return expm1(x); }
template <class S> __device__ __forceinline__ S grad_element(S log_prob, place_grad<tk_math<S>> g, int64_t label) {
    const tk_math<S> x = tk_number_of(log_prob);
    return tk_element_of<S>((label == g.label ? less_one(x) : tk_softmax_exp<S>::of(x)) * g.factor);
}

/* A thread takes a pack of 16 bytes, or an element where memory is not aligned, across the ends of rows. */
template <class S, int N> __device__ __forceinline__ void grad_pack(const loss_args<S> &c, S *out, int64_t first) {
    tk_pack<S, N> x = tk_load_pack<N>(c.log_prob + first);
    int64_t place = first / c.s.classes, label = first % c.s.classes;
    place_grad<tk_math<S>> g = grad_of(c, place);
#pragma unroll
    for (int k = 0; k < N; k++, label++) {
        if (label == c.s.classes) {
            label = 0;
            g = grad_of(c, ++place);
        }
        x.at[k] = grad_element(x.at[k], g, label);
    }
    tk_store_pack(out + first, x);
}
template <class S> __global__ void __launch_bounds__(THREADS) grad_rows(loss_args<S> c, S *out, int64_t packs) {
    constexpr int N = tk_pack_size<S>;
    TK_FOR_EACH(i, packs)
    grad_pack<S, N>(c, out, i * N);
    TK_FOR_EACH(i, c.s.batch * c.s.classes - packs * N)
    grad_pack<S, 1>(c, out, packs * N + i);
}

template <class S> __global__ void __launch_bounds__(THREADS) grad_columns(loss_args<S> c, S *out) {
    TK_FOR_EACH(i, c.s.batch * c.s.classes * c.s.inner) {
        const int64_t row = i / c.s.inner, place = row / c.s.classes * c.s.inner + i % c.s.inner;
        out[i] = grad_element(c.log_prob[i], grad_of(c, place), row % c.s.classes);
    }
}

template <class S> static void grad(tk_queue *q, S *out, const loss_args<S> &c) {
    const int64_t n = places_of(&c.s) * c.s.classes;
    const int64_t packs = c.s.inner == 1 && tk_is_packed(out, c.log_prob) ? n / tk_pack_size<S> : 0;
    if (c.s.reduction != TK_LOSS_NONE) {
        loss_args<S> of_sums = c;
        of_sums.log_prob = nullptr;
        add_all(q, of_sums);
    }
    if (n > 0 && c.s.inner == 1)
        TK_LAUNCH(grad_rows<S>, tk_blocks(q, n, THREADS, tk_pack_size<S>), THREADS, 0, q, c, out, packs);
    else if (n > 0)
        TK_LAUNCH(grad_columns<S>, tk_blocks(q, n, THREADS), THREADS, 0, q, c, out);
}

/* --- workspaces and calls ------------------------------------------------------------------------ */

static size_t parts_bytes(const tk_loss *s) { return blocks_of(s) * sizeof(loss_sums); }
size_t tk_cuda_cross_entropy_workspace(const tk_loss *s) {
    return parts_bytes(s) + (size_t)places_of(s) * tk_size(tk_wide(s->dtype));
}
/* The parts, and the share after them. */
size_t tk_cuda_cross_entropy_grad_workspace(const tk_loss *s) { return parts_bytes(s) + sizeof(double); }

template <class S>
static loss_args<S> args_of(const tk_queue *q, const void *labels, const void *weights, const tk_loss *s,
                            void *scratch) {
    loss_args<S> c = {};
    c.weights = (const S *)weights;
    c.labels = labels;
    c.parts = (loss_sums *)scratch;
    c.s = *s;
    c.fault = tk_fault_of(q);
    return c;
}

template <class S>
static void nll_loss(tk_queue *q, void *loss, const void *log_prob, const void *labels, const void *weights,
                     const tk_loss *s, void *scratch) {
    loss_args<S> c = args_of<S>(q, labels, weights, s, scratch);
    c.loss = (S *)loss;
    c.log_prob = (const S *)log_prob;
    add_all(q, c);
}
void tk_cuda_nll_loss(tk_queue *q, void *loss, const void *log_prob, const void *labels, const void *weights,
                      const tk_loss *s, void *scratch) {
    TK_FLOATS(s->dtype, S, nll_loss<S>(q, loss, log_prob, labels, weights, s, scratch))
}

template <class S>
static void cross_entropy(tk_queue *q, void *loss, void *log_prob, const void *scores, const void *labels,
                          const void *weights, const tk_loss *s, void *scratch) {
    loss_args<S> c = args_of<S>(q, labels, weights, s, scratch);
    tk_math<S> *picked = (tk_math<S> *)((char *)scratch + parts_bytes(s));
    const tk_log_softmax_results results = {log_prob, nullptr, nullptr, picked};
    const tk_softmax_shape shape = {s->batch, s->classes, s->inner};
    tk_cuda_log_softmax_parts(q, results, scores, labels, s->label_dtype, shape, s->dtype);
    c.loss = (S *)loss;
    c.picked = picked;
    add_all(q, c);
}
void tk_cuda_cross_entropy(tk_queue *q, void *loss, void *log_prob, const void *scores, const void *labels,
                           const void *weights, const tk_loss *s, void *scratch) {
    TK_FLOATS(s->dtype, S, cross_entropy<S>(q, loss, log_prob, scores, labels, weights, s, scratch))
}

template <class S>
static void cross_entropy_grad(tk_queue *q, void *dscores, const void *dloss, const void *log_prob, const void *labels,
                               const void *weights, const tk_loss *s, void *scratch) {
    loss_args<S> c = args_of<S>(q, labels, weights, s, scratch);
    c.log_prob = (const S *)log_prob;
    c.dloss = (const S *)dloss;
    c.share = (double *)((char *)scratch + parts_bytes(s));
    grad(q, (S *)dscores, c);
}
void tk_cuda_cross_entropy_grad(tk_queue *q, void *dscores, const void *dloss, const void *log_prob, const void *labels,
                                const void *weights, const tk_loss *s, void *scratch) {
    TK_FLOATS(s->dtype, S, cross_entropy_grad<S>(q, dscores, dloss, log_prob, labels, weights, s, scratch))
}
