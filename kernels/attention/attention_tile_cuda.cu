/* attention_tile_cuda.cu: tiled attention with an online softmax: a block has rows of Q of one item and goes through
 * tiles of keys, copying the next one while it computes this one. It keeps each row's largest score so far and the sum
 * of powers relative to that; a larger score rescales the sum so far (Milakov and Gimelshein, arXiv:1805.02867; Dao,
 * arXiv:2307.08691). */
#include "attention_tile.cuh"

/* For heads of up to HD elements: keys of a tile, and rows of a warp in 16s. */
template <class S, int HD, lies K> struct forward_shape {
    enum {
        KEYS = HD > 128 ? 32 : 64,
        TILES = HD > 64 ? 1 : 2,
        WARP_ROWS = 16 * TILES,
        ROWS = WARP_ROWS * TILE_WARPS,
        OCTETS = KEYS / 8, /* of keys */
        PITCH = tile_pitch<HD>,
        K_PITCH = k_shape<HD, KEYS, K>::PITCH,
        Q_SIZE = ROWS * PITCH,
        SHARED = (Q_SIZE + key_tiles<S, HD, KEYS, K>::SIZE) * (int)sizeof(S) /* bytes */
    };
};

/* A lane's rows of a warp's tile of 16: row(0) and row(1) = row(0) + 8. */
template <int HD> struct row_sums { float o[HD / 8][4], most[2], sum[2]; };

/* Scores to powers, whose sums r keeps; its sums so far are rescaled. */
template <int OCTETS, int HD>
__device__ __forceinline__ void take_powers(float (&p)[OCTETS][4], row_sums<HD> &r, bool natural, float unit) {
    float base[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = r.most[h];
#pragma unroll
        for (int n = 0; n < OCTETS; n++)
            most = fmaxf(most, fmaxf(p[n][2 * h], p[n][2 * h + 1]));
        most = fmaxf(most, __shfl_xor_sync(TK_ALL_LANES, most, 1));
        most = fmaxf(most, __shfl_xor_sync(TK_ALL_LANES, most, 2));
        base[h] = most == -INFINITY ? 0.0f : most; /* no key so far */
        const float shrink = tk_exp2_fast((r.most[h] - base[h]) * unit);
        r.most[h] = most;
        r.sum[h] *= shrink;
#pragma unroll
        for (int n = 0; n < HD / 8; n++)
            r.o[n][2 * h] *= shrink, r.o[n][2 * h + 1] *= shrink;
    }
    float shift[2], less[2];
#pragma unroll
    for (int h = 0; h < 2; h++)
        shift[h] = natural ? base[h] : 0, less[h] = natural ? 0 : -base[h] * unit;
#pragma unroll
    for (int n = 0; n < OCTETS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            p[n][i] = power_of(p[n][i], shift[i / 2], less[i / 2], unit);
            r.sum[i / 2] += p[n][i];
        }
}

/* The lane's part of a row's sum of y dout. */
template <class S, int N> __device__ __forceinline__ float row_dot(const S *dout, const float (&y)[N][2], int e) {
    float dot = 0;
    dout += lane_of() % 4 * 2;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (n * 8 + i < e - lane_of() % 4 * 2)
                dot += y[n][i] * tk_number_of(dout[n * 8 + i]);
    return dot;
}

/* y of a row pair, or the statistics that the gradient reads. */
template <class S, int HD>
__device__ __forceinline__ void finish(row_sums<HD> &r, const tile_args &t, const tk_drop<float> &drop, int64_t item,
                                       int64_t row) {
    const int c = lane_of() % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = r.sum[h];
        sum += __shfl_xor_sync(TK_ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(TK_ALL_LANES, sum, 2);
        const bool zero = t.a.guard && !(sum > 0);
        const float share = (t.of.seed.pair ? drop.share : 1.0f) / sum;
        const int64_t at = item * t.a.s + row + h * 8;
        const bool in = row + h * 8 < t.a.s;
        float y[HD / 8][2];
#pragma unroll
        for (int n = 0; n < HD / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                y[n][i] = zero ? 0.0f : r.o[n][2 * h + i] * share;
        if (t.out) {
            if (in)
                store_row<S>(row_of<S>(t.out, t.a.y, item, row + h * 8), y, (int)t.a.e);
            if (in && c == 0 && t.kept) {
                t.kept[2 * at] = t.natural ? r.most[h] : r.most[h] * (float)t.a.scale;
                t.kept[2 * at + 1] = sum > 0 ? sum : NAN;
            }
            continue;
        }
        const S *dout = row_of<const S>((void *)t.dout, t.a.dout, item, row + h * 8);
        float dot = in ? row_dot<S>(dout, y, (int)t.a.e) : 0.0f;
        dot += __shfl_xor_sync(TK_ALL_LANES, dot, 1);
        dot += __shfl_xor_sync(TK_ALL_LANES, dot, 2);
        if (in && c == 0)
            put_statistics(t, at, t.natural ? r.most[h] : r.most[h] * unit_of(t), sum, dot);
    }
}

template <class S, int HD, lies K, bool DROP>
__global__ void __launch_bounds__(TILE_THREADS, 2) attend(const tile_args t) {
    typedef forward_shape<S, HD, K> shape;
    TK_DYNAMIC_SHARED(S, tiles);
    S *tile_q = tiles;
    const int warp = (int)threadIdx.x / TK_WARP;
    const int64_t item = blockIdx.x / t.blocks, first = blockIdx.x % t.blocks * shape::ROWS;
    const matrix<S> q(t.of.in.q, t.a.q, item, t.a.s, t.a.d);
    const key_tiles<S, HD, shape::KEYS, K> keys(t, item, tiles + shape::Q_SIZE);
    const extras<S> more(t, item);
    const int64_t row = first + warp * shape::WARP_ROWS; /* the warp's first */
    const float unit = unit_of(t);
    tk_drop<float> drop = {};
    if (DROP)
        drop = tk_drop_of<float>(t.of.ratio, t.of.seed, t.fault);
    row_sums<HD> r[shape::TILES] = {};
#pragma unroll
    for (int m = 0; m < shape::TILES; m++)
        r[m].most[0] = r[m].most[1] = -INFINITY;

    copy_tile<shape::ROWS, HD>(tile_q, q, first, 0);
    for_each_key_tile<shape::KEYS>(t, keys, [&](int now, int64_t key) {
        float p[shape::TILES][shape::OCTETS][4] = {};
#pragma unroll
        for (int k = 0; k < HD; k += 16)
            multiply_tiles<STRAIGHT, shape::PITCH, K, shape::K_PITCH>(p, tile_q, warp * shape::WARP_ROWS,
                                                                      keys.k_at(now), k);
#pragma unroll
        for (int m = 0; m < shape::TILES; m++) {
            const int64_t here = row + m * 16;
            see_scores<shape::OCTETS>(p[m], t, more, here + lane_of() / 4, key);
            take_powers(p[m], r[m], t.natural, unit);
            if (DROP)
                drop_tile(p[m], drop, (item * t.a.s + here) * t.a.t + key, t.a.t);
            multiply_rounded<STRAIGHT, shape::PITCH>(r[m].o, p[m], keys.v_at(now));
        }
    });
#pragma unroll
    for (int m = 0; m < shape::TILES; m++)
        finish<S>(r[m], t, drop, item, row + m * 16 + lane_of() / 4);
}

/* --- launches ------------------------------------------------------------------------------------- */

template <class S, int HD, lies K> struct forward_kernel {
    enum { SHARED = forward_shape<S, HD, K>::SHARED };
    static void launch(tk_queue *q, const tile_args &t) {
        void (*kernel)(tile_args) = t.of.seed.pair ? attend<S, HD, K, true> : attend<S, HD, K, false>;
        launch_rows(q, kernel, t, forward_shape<S, HD, K>::ROWS, SHARED);
    }
};

bool tk_cuda_tile_has(const tk_queue *q, const tk_attention *a) {
    const tk_cuda *cuda = tk_queue_cuda(q);
    const int64_t head = head_of(a);
    return tk_is_half(a->dtype) && a->softcap == 0 && !a->bias_first && cuda->architecture >= 80 &&
           head <= TK_TILE_MOST_HEAD && a->t > 0 && cuda->shared_most >= shared_of<forward_kernel>(head) &&
           cuda->shared_most >= tk_cuda_tile_dq_shared(head) && cuda->shared_most >= tk_cuda_tile_dkv_shared(head);
}

static void run(tk_queue *q, const tile_args &t) {
    if (t.a.items > 0 && t.a.s > 0)
        launch_tiles<forward_kernel>(q, t);
}

void tk_cuda_tile_run(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, void *y, void *statistics) {
    tile_args t = tile_args_of(q, a, operands);
    t.out = y, t.kept = (float *)statistics;
    run(q, t);
}

void tk_cuda_tile_statistics(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, const void *dout,
                             const tk_tile_statistics *out) {
    tile_args t = tile_args_of(q, a, operands);
    t.dout = dout;
    t.rows = *out;
    run(q, t);
}
