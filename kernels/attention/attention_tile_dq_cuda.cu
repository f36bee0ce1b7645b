/* attention_tile_dq_cuda.cu: dq of tiled attention: a block has rows of Q of one item, goes through tiles of keys and
 * recomputes their scores, with statistics of rows from an earlier pass. */
#include "attention_tile.cuh"

template <class S, int HD, lies K> struct dq_shape {
    enum {
        KEYS = HD > 64 ? 32 : 64,
        ROWS = 16 * TILE_WARPS,
        OCTETS = KEYS / 8,
        PITCH = tile_pitch<HD>,
        K_PITCH = k_shape<HD, KEYS, K>::PITCH,
        Q_SIZE = ROWS * PITCH,
        SHARED = (2 * Q_SIZE + key_tiles<S, HD, KEYS, K>::SIZE) * (int)sizeof(S)
    };
};

/* p and dp to ds, over dp. */
template <int OCTETS>
__device__ __forceinline__ void make_ds(float (&dp)[OCTETS][4], const float (&p)[OCTETS][4],
                                        const row_statistics (&rows)[2], const tile_args &t, float share, float unit) {
#pragma unroll
    for (int n = 0; n < OCTETS; n++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const row_statistics &r = rows[k / 2];
            dp[n][k] = power_of(p[n][k], r.shift, r.less, unit) * fmaf(dp[n][k], share, -r.dot);
        }
    if (t.a.guard) {
        const uint32_t dead =
            (rows[0].shift == INFINITY ? 0x33333333 : 0) | (rows[1].shift == INFINITY ? 0xcccccccc : 0);
        put_masked(dp, dead, 0);
    }
}

template <class S, int HD, lies K, bool DROP>
__global__ void __launch_bounds__(TILE_THREADS, 2) make_dq(const tile_args t) {
    typedef dq_shape<S, HD, K> shape;
    TK_DYNAMIC_SHARED(S, tiles);
    S *tile_q = tiles, *tile_o = tile_q + shape::Q_SIZE;
    const int warp = (int)threadIdx.x / TK_WARP;
    const int64_t item = blockIdx.x / t.blocks, first = blockIdx.x % t.blocks * shape::ROWS;
    const matrix<S> q(t.of.in.q, t.a.q, item, t.a.s, t.a.d);
    const key_tiles<S, HD, shape::KEYS, K> keys(t, item, tile_o + shape::Q_SIZE);
    const matrix<S> dout(t.dout, t.a.dout, item, t.a.s, t.a.e);
    const extras<S> more(t, item);
    const int64_t row = first + warp * 16 + lane_of() / 4;
    const float unit = unit_of(t);
    const row_statistics rows[2] = {statistics_of(t, item, row), statistics_of(t, item, row + 8)};
    tk_drop<float> drop = {};
    drop.share = 1;
    if (DROP)
        drop = tk_drop_of<float>(t.of.ratio, t.of.seed, t.fault);
    float dq[HD / 8][4] = {};

    copy_tile<shape::ROWS, HD>(tile_q, q, first, 0);
    copy_tile<shape::ROWS, HD>(tile_o, dout, first, 0);
    for_each_key_tile<shape::KEYS>(t, keys, [&](int now, int64_t key) {
        float p[1][shape::OCTETS][4] = {}, dp[1][shape::OCTETS][4] = {};
#pragma unroll
        for (int k = 0; k < HD; k += 16) {
            multiply_tiles<STRAIGHT, shape::PITCH, K, shape::K_PITCH>(p, tile_q, warp * 16, keys.k_at(now), k);
            multiply_tiles<STRAIGHT, shape::PITCH, TURNED, shape::PITCH>(dp, tile_o, warp * 16, keys.v_at(now), k);
        }
        const uint32_t masked = see_scores(p[0], t, more, row, key);
        if (DROP)
            drop_tile(dp[0], drop, (item * t.a.s + first + warp * 16) * t.a.t + key, t.a.t);
        make_ds(dp[0], p[0], rows, t, drop.share, unit);
        if (masked && t.a.fill > -INFINITY)
            put_masked(dp[0], masked, 0);
        multiply_rounded<other<K>, shape::K_PITCH>(dq, dp[0], keys.k_at(now));
    });
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float x[HD / 8][2];
#pragma unroll
        for (int n = 0; n < HD / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                x[n][i] = dq[n][2 * h + i] * (float)t.a.scale;
        if (row + h * 8 < t.a.s)
            store_row<S>(row_of<S>(t.out, t.a.dq, item, row + h * 8), x, (int)t.a.d);
    }
}

/* --- launches ------------------------------------------------------------------------------------- */

template <class S, int HD, lies K> struct dq_kernel {
    enum { SHARED = dq_shape<S, HD, K>::SHARED };
    static void launch(tk_queue *q, const tile_args &t) {
        void (*kernel)(tile_args) = t.of.seed.pair ? make_dq<S, HD, K, true> : make_dq<S, HD, K, false>;
        launch_rows(q, kernel, t, dq_shape<S, HD, K>::ROWS, SHARED);
    }
};
size_t tk_cuda_tile_dq_shared(int64_t head) { return shared_of<dq_kernel>(head); }

void tk_cuda_tile_dq(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, const void *dout,
                     const tk_tile_statistics *statistics, void *dq) {
    tile_args t = tile_args_of(q, a, operands);
    t.dout = dout, t.rows = *statistics, t.out = dq;
    if (a->items > 0 && a->s > 0)
        launch_tiles<dq_kernel>(q, t);
}
