/* conv_cuda.cu: convolutions by cuDNN (conv_cudnn.h) where it exists and supports them, else as products (matmul.h):
 * patches to columns for some images at a time, then a batch of products; the transposed one by products first, and
 * then each element of wide sums its shares, in the order of the CPU's sums. No columns for a window of one element
 * without strides or pads: the input is the matrix. */
#include "../cuda/device.cuh"
#include "../cuda/gather.cuh"
extern "C" {
#include "../matmul/cublas.h"
#include "../matmul/matmul.h"
#include "../movement/movement.h"
#include "conv_cudnn.h"
TK_CONV_KERNELS(TK_DECLARE_CUDA)
TK_CONV_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
TK_MATMUL_KERNELS(TK_DECLARE_CUDA)
TK_MOVEMENT_KERNELS(TK_DECLARE_CUDA)
}

enum { THREADS = 256 };

/* Bytes of columns that are made before their products run: enough work for the device, little beside a plan. */
#define COLUMNS ((int64_t)64 << 20)

static bool is_pointwise(const tk_window *w) {
    for (int d = 0; d < TK_WINDOW_RANK; d++)
        if (w->kernel[d] != 1 || w->stride[d] != 1 || w->pad_begin[d] != 0 || w->pad_end[d] != 0)
            return false;
    return true;
}

/* Rows of the columns of one image, of all groups, and elements of each. */
static int64_t rows_of(const tk_conv *c) { return c->channels * tk_volume(c->window.kernel); }
static int64_t places_of(const tk_conv *c) { return tk_volume(c->window.out); }

/* Images at a time: by the shape alone. */
static int64_t images_of(const tk_conv *c, int64_t size) {
    const int64_t one = rows_of(c) * places_of(c) * size, most = one > 0 ? COLUMNS / one : 1;
    return most < 1 ? 1 : most < c->batch ? most : c->batch;
}

static size_t columns_bytes(const tk_conv *c, int64_t size) {
    return (size_t)(images_of(c, size) * rows_of(c) * places_of(c) * size);
}

/* --- columns -------------------------------------------------------------------------------------- */

/* A place in three dims. */
struct place {
    int64_t at[TK_WINDOW_RANK];
};

/* I: an integer that the volume of dims fits. */
template <class I> __device__ __forceinline__ place place_of(I index, const int64_t *dims) {
    const I d2 = (I)dims[2], d1 = (I)dims[1];
    return {{(int64_t)(index / d2 / d1), (int64_t)(index / d2 % d1), (int64_t)(index % d2)}};
}

/* Where tap k of the window at `out` reads; -1: beside the input. */
__device__ __forceinline__ int64_t read_at(const tk_window &w, place out, place k) {
    int64_t at = 0;
#pragma unroll
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        const int64_t i = out.at[d] * w.stride[d] - w.pad_begin[d] + k.at[d] * w.dilation[d];
        if (i < 0 || i >= w.inp[d])
            return -1;
        at = at * w.inp[d] + i;
    }
    return at;
}

/* columns [rows, places]: a row for each image, channel and tap, in this order. A block takes a piece of a row. */
template <class S, class I>
__global__ void __launch_bounds__(THREADS) patches(S *columns, const S *inp, const tk_window w, int64_t rows) {
    const int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2], ins = w.inp[0] * w.inp[1] * w.inp[2],
                  outs = w.out[0] * w.out[1] * w.out[2], pieces = (outs - 1) / THREADS + 1;
    for (int64_t piece = blockIdx.x; piece < rows * pieces; piece += gridDim.x) {
        const int64_t row = piece / pieces, out = piece % pieces * THREADS + threadIdx.x;
        if (out >= outs)
            continue;
        const int64_t at = read_at(w, place_of<I>((I)out, w.out), place_of<int64_t>(row % taps, w.kernel));
        columns[row * outs + out] = at < 0 ? S(0) : inp[row / taps * ins + at];
    }
}

template <class S>
static void run_patches(tk_queue *q, void *columns, const void *inp, const tk_window *w, int64_t rows) {
    const int64_t outs = tk_volume(w->out), pieces = (outs - 1) / THREADS + 1;
    if (rows == 0)
        return;
    if (outs <= INT32_MAX)
        TK_LAUNCH((patches<S, uint32_t>), tk_blocks(q, rows * pieces, 1), THREADS, 0, q, (S *)columns, (const S *)inp,
                  *w, rows);
    else
        TK_LAUNCH((patches<S, int64_t>), tk_blocks(q, rows * pieces, 1), THREADS, 0, q, (S *)columns, (const S *)inp,
                  *w, rows);
}

/* --- products ------------------------------------------------------------------------------------- */

/* How the images' products lie: each has the weight of its group as A. */
typedef struct products {
    tk_product one; /* of an image and group */
    int64_t groups, weight_step, step;
} products;

/* Images of one group are one batch, with one weight for all; with several groups each image is a batch. */
static void run_products(tk_queue *q, char *out, const char *weight, const char *b, const products *of, int64_t images,
                         tk_dtype dtype) {
    const bool together = of->groups == 1;
    tk_product p = of->one;
    p.batch = together ? images : of->groups;
    p.a_at.step = together ? 0 : of->weight_step;
    p.b_at.step = of->step;
    const size_t out_bytes = (size_t)(p.batch * p.m * p.n) * tk_size(p.wide ? TK_F32 : dtype),
                 b_bytes = (size_t)(p.batch * p.b_at.step) * tk_size(dtype);
    for (int64_t i = 0; i < images; i += together ? images : 1, out += out_bytes, b += b_bytes)
        tk_cuda_product_run(q, out, weight, b, &p, dtype, nullptr);
}

static void start_with_bias(tk_queue *q, void *out, const void *bias, int64_t batch, int64_t channels, int64_t places,
                            tk_dtype dtype) {
    const int64_t out_dims[] = {batch, channels, places}, bias_dims[] = {channels, 1};
    const tk_shape shape = {2, bias_dims};
    tk_bcast bc;
    tk_bcast_init(&bc, tk_shape{3, out_dims}, &shape, 1);
    tk_cuda_product_start(q, out, bias, 1, &bc, dtype);
}

/* --- by cuDNN ------------------------------------------------------------------------------------- */

/* A gradient of filters comes as [filters, batch, out...], in the convolution's words; a rounding up for each of the
 * two parts of the workspace. */
enum { ALIGNED = 256 };
static size_t turned_bytes(const tk_conv *c, int64_t size) {
    return (size_t)(c->filters * c->batch * tk_volume(c->window.out) * size) + 2 * ALIGNED;
}

/* Its workspace is the rest of the launch's, or that of the queue's products, which run at other times. */
static void set_workspace(tk_queue *q, tk_cudnn_call *call, void *workspace, size_t bytes, size_t used) {
    const uintptr_t begin = ((uintptr_t)workspace + used + ALIGNED - 1) / ALIGNED * ALIGNED;
    size_t shared;
    call->workspace = tk_cublas_workspace(tk_queue_cuda(q)->cublas, &shared);
    call->workspace_bytes = shared;
    if (bytes > used + ALIGNED + shared) {
        call->workspace = (void *)begin;
        call->workspace_bytes = bytes - used - ALIGNED;
    }
}

/* out [batch, filters, places] of turned [filters, batch, places]. */
static void turn_back(tk_queue *q, void *out, const void *turned, const tk_conv *c, int64_t size) {
    const int64_t places = places_of(c);
    tk_strided box = {};
    box.rank = 3;
    box.dims[0] = c->batch, box.dims[1] = c->filters, box.dims[2] = places;
    box.out_strides[0] = c->filters * places, box.out_strides[1] = places, box.out_strides[2] = 1;
    box.inp_strides[0] = places, box.inp_strides[1] = c->batch * places, box.inp_strides[2] = 1;
    tk_strided_simplify(&box);
    tk_cuda_copy_strided(q, out, turned, &box, (size_t)size);
}

/* False: cuDNN has no algorithm for this one. The result starts with the bias, if there is one. */
static bool run_cudnn(tk_queue *q, void *out, const void *inp, const void *weight, const void *bias, const tk_conv *c,
                      tk_dtype dtype, bool transposed, void *workspace, size_t bytes) {
    const int64_t size = (int64_t)tk_size(dtype);
    tk_cudnn_call call = {};
    call.conv = c, call.way = tk_cudnn_way_of(c, transposed, bias != nullptr), call.dtype = dtype;
    call.added = bias != nullptr;
    call.out = out, call.inp = inp, call.weight = weight;
    const bool turns = call.way == TK_CUDNN_FILTERS && c->batch > 1;
    if (turns)
        call.out = (void *)(((uintptr_t)workspace + ALIGNED - 1) / ALIGNED * ALIGNED);
    set_workspace(q, &call, workspace, bytes, turns ? turned_bytes(c, size) - ALIGNED : 0);
    if (!tk_cudnn_takes(tk_queue_cuda(q), &call))
        return false;
    if (bias)
        start_with_bias(q, out, bias, c->batch, transposed ? c->channels : c->filters,
                        transposed ? tk_volume(c->window.inp) : places_of(c), dtype);
    if (!tk_cudnn_run(tk_queue_cuda(q), &call))
        return false;
    if (turns)
        turn_back(q, out, call.out, c, size);
    return true;
}

/* --- the convolution ------------------------------------------------------------------------------ */

size_t tk_cuda_conv_workspace(const tk_conv *c, tk_dtype dtype, int slots) {
    const int64_t size = (int64_t)tk_size(dtype);
    (void)slots;
    if (c->groups == 0)
        return 0;
    const size_t columns = is_pointwise(&c->window) ? 0 : columns_bytes(c, size),
                 turned =
                     c->batch > 1 && tk_cudnn_way_of(c, false, false) == TK_CUDNN_FILTERS ? turned_bytes(c, size) : 0;
    return columns > turned ? columns : turned;
}

/* filters x (channels, kernel) by (channels, kernel) x places. */
static products conv_products(const tk_conv *c, bool biased) {
    const int64_t k = rows_of(c) / c->groups, n = places_of(c), m = c->filters / c->groups;
    products of = {};
    of.one.m = m, of.one.n = n, of.one.k = k;
    of.one.lda = k, of.one.ldb = n;
    of.one.alpha = 1, of.one.beta = biased ? 1 : 0;
    of.groups = c->groups, of.weight_step = m * k, of.step = k * n;
    return of;
}

void tk_cuda_conv_run(tk_queue *q, void *out, const void *inp, const void *weight, const void *bias, const tk_conv *c,
                      tk_dtype dtype, void *workspace) {
    const int64_t size = (int64_t)tk_size(dtype), outs = places_of(c), ins = tk_volume(c->window.inp);
    if (c->groups == 0 || c->batch * c->filters * outs == 0)
        return;
    const bool pointwise = is_pointwise(&c->window);
    if (!(pointwise && c->groups == 1) &&
        run_cudnn(q, out, inp, weight, bias, c, dtype, false, workspace, tk_cuda_conv_workspace(c, dtype, 1)))
        return;
    const products of = conv_products(c, bias != nullptr);
    const int64_t most = pointwise ? c->batch : images_of(c, size);
    if (bias)
        start_with_bias(q, out, bias, c->batch, c->filters, outs, dtype);
    for (int64_t first = 0; first < c->batch; first += most) {
        const int64_t images = c->batch - first < most ? c->batch - first : most;
        const char *from = (const char *)inp + first * c->channels * ins * size;
        if (!pointwise)
            TK_SIZES(size, S, run_patches<S>(q, workspace, from, &c->window, images * rows_of(c)))
        run_products(q, (char *)out + first * c->filters * outs * size, (const char *)weight,
                     pointwise ? from : (const char *)workspace, &of, images, dtype);
    }
}

/* --- the transposed convolution ------------------------------------------------------------------- */

/* wide [planes, inp...] of columns [planes, kernel..., out...]; a plane is an image's channel. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    gather(S *wide, const tk_math<S> *columns, const S *bias, const tk_window w, int64_t planes, int64_t channels) {
    typedef tk_math<S> T;
    const int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2], ins = w.inp[0] * w.inp[1] * w.inp[2],
                  outs = w.out[0] * w.out[1] * w.out[2];
    TK_FOR_EACH(i, planes * ins) {
        const int64_t plane = i / ins;
        const T start = bias ? tk_number_of(bias[plane % channels]) : T(0);
        const place to = place_of<int64_t>(i % ins, w.inp);
        wide[i] = tk_element_of<S>(tk_gathered(start, columns + plane * taps * outs, w, to.at));
    }
}

template <class S>
static void run_gather(tk_queue *q, void *wide, const void *columns, const void *bias, const tk_conv *c,
                       int64_t images) {
    const int64_t planes = images * c->channels;
    TK_LAUNCH((gather<S>), tk_blocks(q, planes * tk_volume(c->window.inp), THREADS), THREADS, 0, q, (S *)wide,
              (const tk_math<S> *)columns, (const S *)bias, c->window, planes, c->channels);
}

size_t tk_cuda_conv_transpose_workspace(const tk_conv *c, tk_dtype dtype, int slots) {
    (void)slots;
    return c->groups == 0 ? 0 : columns_bytes(c, (int64_t)tk_size(tk_wide(dtype)));
}

/* (channels, kernel) x filters by filters x places; not rounded before it is added up. */
static products transposed_products(const tk_conv *c, tk_dtype dtype) {
    const int64_t m = rows_of(c) / c->groups, n = places_of(c), k = c->filters / c->groups;
    products of = {};
    of.one.m = m, of.one.n = n, of.one.k = k;
    of.one.lda = m, of.one.ldb = n;
    of.one.trans_a = true, of.one.alpha = 1, of.one.wide = tk_is_half(dtype);
    of.groups = c->groups, of.weight_step = k * m, of.step = k * n;
    return of;
}

void tk_cuda_conv_transpose_run(tk_queue *q, void *wide, const void *narrow, const void *weight, const void *bias,
                                const tk_conv *c, tk_dtype dtype, void *workspace) {
    const int64_t size = (int64_t)tk_size(dtype), outs = places_of(c), ins = tk_volume(c->window.inp);
    if (c->groups == 0 || c->batch * c->channels * ins == 0)
        return;
    if (run_cudnn(q, wide, narrow, weight, bias, c, dtype, true, workspace,
                  tk_cuda_conv_transpose_workspace(c, dtype, 1)))
        return;
    const products of = transposed_products(c, dtype);
    const int64_t most = images_of(c, (int64_t)tk_size(tk_wide(dtype)));
    for (int64_t first = 0; first < c->batch; first += most) {
        const int64_t images = c->batch - first < most ? c->batch - first : most;
        run_products(q, (char *)workspace, (const char *)weight,
                     (const char *)narrow + first * c->filters * outs * size, &of, images, dtype);
        TK_FLOATS(dtype, S,
                  run_gather<S>(q, (char *)wide + first * c->channels * ins * size, workspace, bias, c, images))
    }
}
