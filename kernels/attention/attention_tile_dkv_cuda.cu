/* attention_tile_dkv_cuda.cu: dk^T and dv of tiled attention: a block has keys of one item and goes through tiles of
 * rows, with scores transposed, so that their rounded sums are an operand of both products. Each element of a result is
 * one thread's: its sum has one order. */
#include "attention_tile.cuh"

/* PART: elements of a head's dk and dv that a block computes. */
template <class S, int HD, lies K, bool DROP> struct dkv_shape {
    enum {
        ROWS = HD > 64 || (HD == 64 && DROP) ? 32 : 64, /* as many as registers hold */
        KEYS = 16 * TILE_WARPS,
        PART = HD > 128 ? 128 : HD,
        PARTS = HD / PART,
        OCTETS = ROWS / 8, /* of rows */
        PITCH = tile_pitch<HD>,
        K_PITCH = k_shape<HD, KEYS, K>::PITCH,
        K_SIZE = k_shape<HD, KEYS, K>::SIZE,
        V_SIZE = KEYS * PITCH,
        Q_SIZE = ROWS * PITCH,
        ROWS_AT = K_SIZE + V_SIZE + 4 * Q_SIZE,
        SHARED = ROWS_AT * 2 + 2 * ROWS * 3 * 4 /* bytes */
    };
};

/* Of rows, in shared memory. */
template <int ROWS> struct tile_statistics { float shift[ROWS], less[ROWS], dot[ROWS]; };
template <int ROWS>
__device__ __forceinline__ void copy_statistics(tile_statistics<ROWS> &to, const tile_args &t, int64_t item,
                                                int64_t row) {
    for (int i = (int)threadIdx.x; i < ROWS; i += TILE_THREADS) {
        const row_statistics r = statistics_of(t, item, row + i);
        to.shift[i] = r.shift, to.less[i] = r.less, to.dot[i] = r.dot;
    }
}

/* Which elements of a warp's tile of scores, transposed [16 keys, 8 OCTETS rows], are kept: this lane's share of them.
 * first: number of the tile's first element in the whole map. Lanes with the same rows draw them in turn. */
template <int OCTETS>
__device__ __forceinline__ uint32_t draw_turned(const tk_drop<float> &drop, int64_t first, int64_t t) {
    constexpr int COUNT = OCTETS / 2, LANES = 8 / OCTETS; /* lanes that share an octet of rows */
    const int g = lane_of() / 4, c = lane_of() % 4 * 2;
    uint64_t at[COUNT];
    uint32_t drawn[COUNT], mine = 0;
#pragma unroll
    for (int k = 0; k < COUNT; k++) /* of one lane: two rows, of two: one each */
        at[k] = (uint64_t)(first + (g / LANES * 8 + c + (LANES == 1 ? k / 2 : g % 2)) * t + k % 2 * 8);
    kept_bits(drawn, drop, at, t);
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        mine |= drawn[k] << k * 8;
    return mine;
}
/* Of octet n of rows: bit 16 i + 8 h is element (g + 8 h, c + i). */
template <int OCTETS> __device__ __forceinline__ uint32_t turned_bits(uint32_t mine, int n) {
    constexpr int LANES = 8 / OCTETS;
    const int from = n * LANES * 4 + lane_of() % 4;
    uint32_t all = __shfl_sync(TK_ALL_LANES, mine, from);
    if (LANES == 2)
        all |= __shfl_sync(TK_ALL_LANES, mine, from + 4) << 16;
    return all >> lane_of() / 4;
}

/* A lane's two keys of a transposed tile, held to the last key, and its first row. */
struct lane_keys {
    int64_t keys[2], row, last_row;
    __device__ __forceinline__ lane_keys(const tile_args &t, int64_t first_row, int64_t key)
        : row(first_row + lane_of() % 4 * 2), last_row(t.a.s - 1) {
        const int64_t k = key + lane_of() / 4, last = t.a.t - 1;
        keys[0] = k < last ? k : last;
        keys[1] = k + 8 < last ? k + 8 : last;
    }
    __device__ __forceinline__ int64_t row_at(int i) const { return row + i < last_row ? row + i : last_row; }
};

/* Bit 4 n + 2 h + i: the mask is 0 for row c + i of octet n and key g + 8 h. */
template <int OCTETS>
__device__ __forceinline__ uint32_t masked_turned(const tile_args &t, const uint8_t *mask, const lane_keys &at) {
    uint32_t bits = 0;
    const uint8_t *columns[2] = {mask + at.keys[0] * t.a.mask_column, mask + at.keys[1] * t.a.mask_column};
    if (t.a.mask_row == 0)
        return (*columns[0] ? 0 : 0x33333333) | (*columns[1] ? 0 : 0xcccccccc);
#pragma unroll 2
    for (int n = 0; n < OCTETS; n++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            bits |= columns[k / 2][at.row_at(n * 8 + k % 2) * t.a.mask_row] ? 0 : 1u << (4 * n + k);
    return bits;
}

/* As see_scores() for a transposed tile. Keys beyond the last have scores like any others: their results are not
 * stored. */
template <int OCTETS, class S>
__device__ __forceinline__ uint32_t see_turned(float (&p)[OCTETS][4], const tile_args &t, const extras<S> &more,
                                               int64_t row, int64_t key) {
    uint32_t bits = 0;
    if (!t.natural)
        return 0;
    const lane_keys at(t, row, key);
    scale_scores(p, (float)t.a.scale);
    if (more.mask) {
        bits = masked_turned<OCTETS>(t, more.mask, at);
        put_masked(p, bits, (float)t.a.fill);
    }
    if (more.bias) {
#pragma unroll
        for (int n = 0; n < OCTETS; n++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                p[n][k] +=
                    tk_number_of(more.bias[at.row_at(n * 8 + k % 2) * t.a.bias_row + at.keys[k / 2] * t.a.bias_column]);
    }
    return bits;
}

/* Scores and dp of a warp's tile, transposed, to P as it was multiplied by V (without dropout's factor) and to ds.
 * mine: this lane's share of the draw. */
template <int OCTETS, bool DROP>
__device__ __forceinline__ void turn_scores(float (&p)[OCTETS][4], float (&dp)[OCTETS][4],
                                            const tile_statistics<OCTETS * 8> &rows, const tile_args &t, uint32_t mine,
                                            float share, float unit) {
    const int c = lane_of() % 4 * 2;
#pragma unroll
    for (int n = 0; n < OCTETS; n++) {
        const uint32_t bits = DROP ? turned_bits<OCTETS>(mine, n) : 0;
        const tk_pack<float, 2> shift = tk_load_pack<2>(&rows.shift[n * 8 + c]),
                                less = tk_load_pack<2>(&rows.less[n * 8 + c]),
                                dot = tk_load_pack<2>(&rows.dot[n * 8 + c]);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int i = k % 2;
            const bool kept = !DROP || (bits & 1u << (i * 16 + k / 2 * 8));
            /* the shift is 0 without `natural`: one formula for both would need more registers than a thread has */
            float power = t.natural ? power_of(p[n][k], shift.at[i], less.at[i], unit)
                                    : tk_exp2_fast(fmaf(p[n][k], unit, less.at[i]));
            if (t.a.guard)
                power = shift.at[i] == INFINITY ? 0 : power;
            p[n][k] = kept ? power : 0.0f;
            dp[n][k] = power * fmaf(kept ? dp[n][k] : 0.0f, share, -dot.at[i]);
        }
    }
}

/* dk^T += the part of 16 rows of Q, from `row` on: operands are exchanged, so that rounded sums are B. */
template <int PITCH, class S, int N>
__device__ __forceinline__ void add_turned(float (&dk)[N][4], const float left[4], const float right[4],
                                           const S *tile_q, int row, int part) {
    uint32_t a[4], b[4];
    round_to_a<S>(a, left, right);
    const uint32_t low[2] = {a[0], a[2]}, high[2] = {a[1], a[3]}; /* keys 0 to 7, and 8 to 15 */
#pragma unroll
    for (int m = 0; m < N; m += 2) {
        load_a_turned<PITCH>(b, tile_q, part + m * 8, row);
        tk_mma<S>(dk[m], b, low, dk[m]);
        tk_mma<S>(dk[m + 1], b, high, dk[m + 1]);
    }
}

/* Rows of 16 keys, from `key` on, of dv or dk: elements from `part` on of `width` in all, each times the factor. */
template <class S, int N>
__device__ __forceinline__ void store_keys(const tile_args &t, void *out, const tk_lines &lines, int64_t item,
                                           int64_t key, const float (&sums)[N][4], int part, int64_t width,
                                           float factor) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int64_t row = key + lane_of() / 4 + h * 8;
        float x[N][2];
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                x[n][i] = sums[n][2 * h + i] * factor;
        if (row < t.a.t)
            store_row<S>(row_of<S>(out, lines, item, row) + part, x, (int)width - part);
    }
}

/* Of dk^T: row m * 8 + lane / 4 of the part, of 16 keys. */
template <class S, int N>
__device__ __forceinline__ void store_turned(const tile_args &t, int64_t item, int64_t key, const float (&dk)[N][4],
                                             int part) {
#pragma unroll
    for (int m = 0; m < N; m++) {
        float x[2][2];
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[i / 2][i % 2] = dk[m / 2 * 2 + i / 2][m % 2 * 2 + i % 2] * (float)t.a.scale;
        const int64_t line = part + m * 8 + lane_of() / 4;
        if (line < t.a.d)
            store_row<S>(row_of<S>(t.dkt, t.a.dkt, item, line) + key, x, (int)min(t.a.t - key, (int64_t)16));
    }
}

template <class S, int HD, lies K, bool DROP>
__global__ void __launch_bounds__(TILE_THREADS, 2) make_dkv(const tile_args t) {
    typedef dkv_shape<S, HD, K, DROP> shape;
    TK_DYNAMIC_SHARED(S, tiles);
    S *tile_k = tiles, *tile_v = tile_k + shape::K_SIZE, *tile_q = tile_v + shape::V_SIZE,
      *tile_o = tile_q + 2 * shape::Q_SIZE;
    typedef tile_statistics<shape::ROWS> statistics;
    statistics *tile_rows = reinterpret_cast<statistics *>(tiles + shape::ROWS_AT);
    const int warp = (int)threadIdx.x / TK_WARP;
    const int part = (int)(blockIdx.x % shape::PARTS) * shape::PART;
    const int64_t block = blockIdx.x / shape::PARTS, item = block / t.blocks, first = block % t.blocks * shape::KEYS;
    const matrix<S> q(t.of.in.q, t.a.q, item, t.a.s, t.a.d), of_k = k_matrix<K, S>(t, item);
    const matrix<S> v(t.of.in.v, t.a.v, item, t.a.t, t.a.e), dout(t.dout, t.a.dout, item, t.a.s, t.a.e);
    const extras<S> more(t, item);
    const int64_t key = first + warp * 16; /* the warp's first */
    const float unit = unit_of(t);
    tk_drop<float> drop = {};
    drop.share = 1;
    if (DROP)
        drop = tk_drop_of<float>(t.of.ratio, t.of.seed, t.fault);
    float dv[shape::PART / 8][4] = {}, dk[shape::PART / 8][4] = {};

    copy_k<HD, shape::KEYS, K>(tile_k, of_k, first);
    copy_tile<shape::KEYS, HD>(tile_v, v, first, 0);
    copy_tile<shape::ROWS, HD>(tile_q, q, 0, 0);
    copy_tile<shape::ROWS, HD>(tile_o, dout, 0, 0);
    copy_statistics(tile_rows[0], t, item, 0);
    tk_copy_commit();
    int now = 0;
#pragma unroll 1
    for (int64_t row = 0; row < t.a.s; row += shape::ROWS, now = 1 - now) {
        const int next = 1 - now;
        const S *now_q = tile_q + now * shape::Q_SIZE, *now_o = tile_o + now * shape::Q_SIZE;
        if (row + shape::ROWS < t.a.s) {
            copy_tile<shape::ROWS, HD>(tile_q + next * shape::Q_SIZE, q, row + shape::ROWS, 0);
            copy_tile<shape::ROWS, HD>(tile_o + next * shape::Q_SIZE, dout, row + shape::ROWS, 0);
            copy_statistics(tile_rows[next], t, item, row + shape::ROWS);
        }
        /* drawn during the copies, before sums take registers */
        const int64_t number = (item * t.a.s + row) * t.a.t + key;
        const uint32_t mine = DROP ? draw_turned<shape::OCTETS>(drop, number, t.a.t) : 0;
        await_tiles();
        float p[1][shape::OCTETS][4] = {}, dp[1][shape::OCTETS][4] = {};
#pragma unroll
        for (int k = 0; k < HD; k += 16) {
            multiply_tiles<other<K>, shape::K_PITCH, TURNED, shape::PITCH>(p, tile_k, warp * 16, now_q, k);
            multiply_tiles<STRAIGHT, shape::PITCH, TURNED, shape::PITCH>(dp, tile_v, warp * 16, now_o, k);
        }
        const uint32_t masked = see_turned(p[0], t, more, row, key);
        turn_scores<shape::OCTETS, DROP>(p[0], dp[0], tile_rows[now], t, mine, drop.share, unit);
        if (masked && t.a.fill > -INFINITY)
            put_masked(dp[0], masked, 0);
#pragma unroll
        for (int k = 0; k < shape::OCTETS; k += 2) {
            multiply_rounded<STRAIGHT, shape::PITCH>(dv, p[0][k], p[0][k + 1], now_o, k * 8, part);
            if (K == STRAIGHT)
                add_turned<shape::PITCH>(dk, dp[0][k], dp[0][k + 1], now_q, k * 8, part);
            else
                multiply_rounded<STRAIGHT, shape::PITCH>(dk, dp[0][k], dp[0][k + 1], now_q, k * 8, part);
        }
        __syncthreads();
    }
    tk_copy_wait<0>();
    if (t.out)
        store_keys<S>(t, t.out, t.a.dv, item, key, dv, part, t.a.e, drop.share);
    if (t.dkt && K == TURNED)
        store_keys<S>(t, t.dkt, t.a.dkt, item, key, dk, part, t.a.d, (float)t.a.scale);
    if (t.dkt && K == STRAIGHT)
        store_turned<S>(t, item, key, dk, part);
}

/* --- launches ------------------------------------------------------------------------------------- */

template <class S, int HD, lies K, bool DROP> static void launch_dkv(tk_queue *q, tile_args t) {
    typedef dkv_shape<S, HD, K, DROP> shape;
    void (*kernel)(tile_args) = make_dkv<S, HD, K, DROP>;
    t.blocks = (t.a.t + shape::KEYS - 1) / shape::KEYS;
    TK_ALLOW_SHARED(q, kernel, shape::SHARED);
    TK_LAUNCH(kernel, (unsigned)(t.blocks * t.a.items * shape::PARTS), TILE_THREADS, shape::SHARED, q, t);
}
template <class S, int HD, lies K> struct dkv_kernel {
    enum {
        DROPPED = dkv_shape<S, HD, K, true>::SHARED,
        WHOLE = dkv_shape<S, HD, K, false>::SHARED,
        SHARED = (int)DROPPED > (int)WHOLE ? (int)DROPPED : (int)WHOLE
    };
    static void launch(tk_queue *q, const tile_args &t) {
        (t.of.seed.pair ? launch_dkv<S, HD, K, true> : launch_dkv<S, HD, K, false>)(q, t);
    }
};

size_t tk_cuda_tile_dkv_shared(int64_t head) { return shared_of<dkv_kernel>(head); }

void tk_cuda_tile_dkv(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, const void *dout,
                      const tk_tile_statistics *statistics, void *dkt, void *dv) {
    tile_args t = tile_args_of(q, a, operands);
    t.dout = dout, t.rows = *statistics, t.out = dv, t.dkt = dkt;
    if (a->items > 0)
        launch_tiles<dkv_kernel>(q, t);
}
