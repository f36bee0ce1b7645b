/* attention_tile.cuh: tiles Q [ROWS, HD], K^T [HD, KEYS] -> S [ROWS, KEYS] -> P; P, V [KEYS, HD] -> Y [ROWS, HD]. The
 * tiled kernels of attention share this file: their arguments, tiles in shared memory and operands of tensor cores from
 * these, dropout, and scores as the softmax sees them. Warps of a block have 16 rows (or keys) each; with g = lane / 4
 * and c = lane % 4 * 2 a lane has, of each product of 16 x 8, elements (g, c), (g, c + 1), (g + 8, c) and (g + 8, c +
 * 1). */
#ifndef TK_ATTENTION_TILE_CUH
#define TK_ATTENTION_TILE_CUH
#include "../cuda/fast_math.cuh"
#include "../cuda/tensor_core.cuh"
#include "../dropout/drop.cuh"
extern "C" {
#include "attention_tile.h"
}

enum { TILE_WARPS = 4, TILE_THREADS = TILE_WARPS * TK_WARP };

struct tile_args {
    tk_attention a;
    tk_tile_operands of;
    const void *dout;
    tk_tile_statistics rows;
    void *out, *dkt; /* y, dq or dv; dkt */
    float *kept;     /* beside y: tk_attention_results.statistics, or NULL */
    tk_fault_place fault;
    bool natural;   /* scores are scaled before the softmax, for a bias, a mask's fill or a scale below 0 */
    int64_t blocks; /* of an item */
};

static inline tile_args tile_args_of(tk_queue *q, const tk_attention *a, const tk_tile_operands *of) {
    tile_args t = {};
    t.a = *a, t.of = *of;
    t.fault = tk_fault_of(q);
    t.natural = of->in.bias || of->in.mask || !(a->scale > 0);
    return t;
}

/* --- tiles in shared memory --------------------------------------------------------------------- */

/* The row pitch of a tile so many elements wide: rows of 8 matrices lie in different banks. */
template <int COLUMNS> constexpr int tile_pitch = COLUMNS + 8;

/* A matrix in memory, with its numbers of rows and columns. */
template <class S> struct matrix {
    const S *at;
    int64_t rows, columns, stride;
    bool packed; /* rows begin at 16 bytes, and have whole packs */
    __device__ __forceinline__ matrix(const void *data, const tk_lines &lines, int64_t item, int64_t n_rows,
                                      int64_t n_columns)
        : at((const S *)data + tk_place(&lines.at, item)), rows(n_rows), columns(n_columns), stride(lines.row),
          packed(((uintptr_t)at & 15) == 0 && (n_columns | stride) % 8 == 0) {}
};

/* Copies rows [row, row + ROWS) and columns [column, column + COLUMNS) to a tile, 0 outside of the matrix. The tile is
 * ready after a commit, a wait and a barrier. */
template <int ROWS, int COLUMNS, class S>
__device__ __forceinline__ void copy_tile(S *tile, const matrix<S> &m, int64_t row, int64_t column) {
    constexpr int PITCH = tile_pitch<COLUMNS>, PACKS = COLUMNS / 8, STEP = TILE_THREADS / PACKS;
    const S *from = m.at + row * m.stride + column;
    const int rows = (int)(m.rows - row < ROWS ? m.rows - row : ROWS);
    const int columns = (int)(m.columns - column < COLUMNS ? m.columns - column : COLUMNS);
    if (m.packed) {
        const int first = (int)threadIdx.x / PACKS, c = (int)threadIdx.x % PACKS * 8;
        from += first * m.stride + c;
        tile += first * PITCH + c;
#pragma unroll
        for (int r = 0; r < ROWS; r += STEP) {
            const bool in = first + r < rows && c < columns;
            if (first < STEP && (ROWS % STEP == 0 || first + r < ROWS))
                tk_copy_async(tile + r * PITCH, in ? from : m.at, in ? 16 : 0);
            from += STEP * m.stride;
        }
    } else {
#pragma unroll 1
        for (int i = (int)threadIdx.x; i < ROWS * COLUMNS; i += TILE_THREADS) {
            const int r = i / COLUMNS, c = i % COLUMNS;
            S x = {};
            if (r < rows && c < columns)
                x = from[r * m.stride + c];
            tile[r * PITCH + c] = x;
        }
    }
}

/* --- operands of tensor cores from tiles ---------------------------------------------------------- */

__device__ __forceinline__ int lane_of() { return (int)threadIdx.x % TK_WARP; }

/* A at (m, k) of a tile [m][k]. */
template <int PITCH, class S> __device__ __forceinline__ void load_a(uint32_t a[4], const S *tile, int m, int k) {
    const int lane = lane_of();
    tk_load_matrices(a, tile + (m + lane % 16) * PITCH + k + lane / 16 * 8);
}
/* A at (m, k) of a tile [k][m]. */
template <int PITCH, class S>
__device__ __forceinline__ void load_a_turned(uint32_t a[4], const S *tile, int m, int k) {
    const int lane = lane_of();
    tk_load_turned(a, tile + (k + lane / 16 * 8 + lane % 8) * PITCH + m + lane / 8 % 2 * 8);
}
/* B at (k, n) and at (k, n + 8) of a tile [k][n]. */
template <int PITCH, class S> __device__ __forceinline__ void load_b(uint32_t b[4], const S *tile, int k, int n) {
    const int lane = lane_of();
    tk_load_turned(b, tile + (k + lane % 16) * PITCH + n + lane / 16 * 8);
}
/* The same of a tile [n][k]. */
template <int PITCH, class S>
__device__ __forceinline__ void load_b_turned(uint32_t b[4], const S *tile, int k, int n) {
    const int lane = lane_of();
    tk_load_matrices(b, tile + (n + lane / 16 * 8 + lane % 8) * PITCH + k + lane / 8 % 2 * 8);
}

/* A from the sums of two neighbouring products [16, 8] each, rounded. */
template <class S>
__device__ __forceinline__ void round_to_a(uint32_t a[4], const float left[4], const float right[4]) {
    a[0] = tk_word_of<S>(left[0], left[1]);
    a[1] = tk_word_of<S>(left[2], left[3]);
    a[2] = tk_word_of<S>(right[0], right[1]);
    a[3] = tk_word_of<S>(right[2], right[3]);
}

/* --- products of tiles ------------------------------------------------------------------------------ */

/* How a tile holds an operand: A [m][k] and B [k][n], or with these exchanged. */
enum lies { STRAIGHT, TURNED };
template <lies K> constexpr lies other = K == STRAIGHT ? TURNED : STRAIGHT;

/* sums[i] += A B for TILES of 16 rows of A, from `row` on, all of B's columns, and 16 elements of both from k on. */
template <lies A, int PITCH_A, lies B, int PITCH_B, class S, int TILES, int OCTETS>
__device__ __forceinline__ void multiply_tiles(float (&sums)[TILES][OCTETS][4], const S *tile_a, int row,
                                               const S *tile_b, int k) {
    uint32_t a[TILES][4];
#pragma unroll
    for (int m = 0; m < TILES; m++)
        A == STRAIGHT ? load_a<PITCH_A>(a[m], tile_a, row + m * 16, k)
                      : load_a_turned<PITCH_A>(a[m], tile_a, row + m * 16, k);
#pragma unroll
    for (int n = 0; n < OCTETS; n += 2) {
        uint32_t b[4];
        B == STRAIGHT ? load_b<PITCH_B>(b, tile_b, k, n * 8) : load_b_turned<PITCH_B>(b, tile_b, k, n * 8);
#pragma unroll
        for (int m = 0; m < TILES; m++) {
            tk_mma<S>(sums[m][n], a[m], b, sums[m][n]);
            tk_mma<S>(sums[m][n + 1], a[m], b + 2, sums[m][n + 1]);
        }
    }
}

/* sums += A B, A two neighbouring products of 8 columns, rounded, B at (k, column) of a tile. */
template <lies B, int PITCH, class S, int N>
__device__ __forceinline__ void multiply_rounded(float (&sums)[N][4], const float left[4], const float right[4],
                                                 const S *tile_b, int k, int column) {
    uint32_t a[4];
    round_to_a<S>(a, left, right);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
        uint32_t b[4];
        B == STRAIGHT ? load_b<PITCH>(b, tile_b, k, column + n * 8)
                      : load_b_turned<PITCH>(b, tile_b, k, column + n * 8);
        tk_mma<S>(sums[n], a, b, sums[n]);
        tk_mma<S>(sums[n + 1], a, b + 2, sums[n + 1]);
    }
}
/* The same for a whole product. */
template <lies B, int PITCH, class S, int N, int OCTETS>
__device__ __forceinline__ void multiply_rounded(float (&sums)[N][4], const float (&p)[OCTETS][4], const S *tile_b) {
#pragma unroll
    for (int k = 0; k < OCTETS; k += 2)
        multiply_rounded<B, PITCH>(sums, p[k], p[k + 1], tile_b, k * 8, 0);
}

/* --- tiles on their way --------------------------------------------------------------------------- */

/* Ends the copies to the tiles of the next round, and waits for those of this one. */
__device__ __forceinline__ void await_tiles() {
    tk_copy_commit();
    tk_copy_wait<1>();
    __syncthreads();
}

/* The tile of K^T [HD][KEYS], or, TURNED, of K [KEYS][HD]: as it lies in memory. */
template <int HD, int KEYS, lies K> struct k_shape {
    enum { PITCH = K == STRAIGHT ? tile_pitch<KEYS> : tile_pitch<HD>, SIZE = (K == STRAIGHT ? HD : KEYS) * PITCH };
};
template <lies K, class S> __device__ __forceinline__ matrix<S> k_matrix(const tile_args &t, int64_t item) {
    return K == STRAIGHT ? matrix<S>(t.of.in.kt, t.a.kt, item, t.a.d, t.a.t)
                         : matrix<S>(t.of.in.kt, t.a.kt, item, t.a.t, t.a.d);
}
template <int HD, int KEYS, lies K, class S>
__device__ __forceinline__ void copy_k(S *tile, const matrix<S> &m, int64_t key) {
    if (K == STRAIGHT)
        copy_tile<HD, KEYS>(tile, m, 0, key);
    else
        copy_tile<KEYS, HD>(tile, m, key, 0);
}

/* Tiles of K^T or K and of V of one item, two of each: one in use and one being copied. */
template <class S, int HD, int KEYS, lies K> struct key_tiles {
    enum { K_SIZE = k_shape<HD, KEYS, K>::SIZE, V_SIZE = KEYS * tile_pitch<HD>, SIZE = 2 * K_SIZE + 2 * V_SIZE };
    S *tile_k, *tile_v;
    const matrix<S> k, v;
    __device__ __forceinline__ key_tiles(const tile_args &t, int64_t item, S *tiles)
        : tile_k(tiles), tile_v(tiles + 2 * K_SIZE), k(k_matrix<K, S>(t, item)),
          v(t.of.in.v, t.a.v, item, t.a.t, t.a.e) {}
    __device__ __forceinline__ S *k_at(int slot) const { return tile_k + slot * K_SIZE; }
    __device__ __forceinline__ S *v_at(int slot) const { return tile_v + slot * V_SIZE; }
    __device__ __forceinline__ void copy(int slot, int64_t key) const {
        copy_k<HD, KEYS, K>(k_at(slot), k, key);
        copy_tile<KEYS, HD>(v_at(slot), v, key, 0);
    }
};

/* Calls `each(now, key)` for all keys, KEYS at a time. Their K and V are in place `now`, and the next ones are being
 * copied to the other place. */
template <int KEYS, class TILES, class F>
__device__ __forceinline__ void for_each_key_tile(const tile_args &t, const TILES &keys, F each) {
    keys.copy(0, 0);
    tk_copy_commit();
    int now = 0;
#pragma unroll 1
    for (int64_t key = 0; key < t.a.t; key += KEYS, now = 1 - now) {
        if (key + KEYS < t.a.t)
            keys.copy(1 - now, key + KEYS);
        await_tiles();
        each(now, key);
        __syncthreads();
    }
}

/* --- dropout -------------------------------------------------------------------------------------- */

/* Bit i of out[k]: element first[k] + i of the whole map is kept, 0 <= i < 8, of one block of the draw, or, where rows
 * are no multiple of 8, of two. COUNT draws at once hide each other's latency. */
template <int COUNT>
__device__ __forceinline__ void kept_bits(uint32_t (&out)[COUNT], const tk_drop<float> &drop,
                                          const uint64_t (&first)[COUNT], int64_t t) {
    const int blocks = t % TK_HALVES ? 2 : 1;
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        out[k] = 0;
#pragma unroll 1
    for (int b = 0; b < blocks; b++)
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            uint32_t words[TK_WORDS], bits = 0;
            tk_draw_block(&drop.draw, first[k] / TK_HALVES + (uint64_t)b, words);
#pragma unroll
            for (int i = 0; i < TK_HALVES; i++)
                bits |= tk_is_drawn(drop, words, i) ? 1u << i : 0u;
            out[k] |= bits << b * TK_HALVES;
        }
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        out[k] = out[k] >> first[k] % TK_HALVES & 255;
}

/* Drops of a warp's tile [16, 8 OCTETS]: its first element is number `first` of the whole map. The four lanes that
 * share a row draw its octets in turn. */
template <int OCTETS>
__device__ __forceinline__ void drop_tile(float (&p)[OCTETS][4], const tk_drop<float> &drop, int64_t first, int64_t t) {
    constexpr int EACH = OCTETS / 4, COUNT = 2 * EACH;
    const int lane = lane_of(), g = lane / 4, c = lane % 4;
    uint64_t at[COUNT];
    uint32_t drawn[COUNT], mine = 0;
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        at[k] = (uint64_t)(first + (g + k / EACH * 8) * t + (c * EACH + k % EACH) * 8);
    kept_bits(drawn, drop, at, t);
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        mine |= drawn[k] << k * 8;
#pragma unroll
    for (int from = 0; from < 4; from++) {
        const uint32_t bits = __shfl_sync(TK_ALL_LANES, mine, lane / 4 * 4 + from) >> c * 2;
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (!(bits & 1u << ((k / 2 * EACH + i) * 8 + k % 2)))
                    p[from * EACH + i][k] = 0;
    }
}

/* --- scores ------------------------------------------------------------------------------------- */

/* Bias and mask of an item. */
template <class S> struct extras {
    const S *bias;
    const uint8_t *mask;
    __device__ __forceinline__ extras(const tile_args &t, int64_t item) : bias(nullptr), mask(nullptr) {
        if (t.of.in.bias)
            bias = (const S *)t.of.in.bias + tk_place(&t.a.bias_at, item);
        if (t.of.in.mask)
            mask = t.of.in.mask + tk_place(&t.a.mask_at, item);
    }
};

/* The lane's elements of a warp's tile [16, 8 OCTETS] in memory that run to the right: at[n * 8 + i] for its row. */
struct lane_row {
    int64_t row;
    int left; /* elements n * 8 + i below this are there */
};
template <int OCTETS> __device__ __forceinline__ lane_row lane_row_of(const tile_args &t, int64_t row, int64_t key) {
    const int64_t left = t.a.t - key < OCTETS * 8 ? t.a.t - key : OCTETS * 8;
    return lane_row{row < t.a.s ? row : t.a.s - 1, (int)left - lane_of() % 4 * 2};
}

/* Bit 4 n + 2 h + i: the mask is 0 at element (g + 8 h, c + i) of octet n. */
template <int OCTETS>
__device__ __forceinline__ uint32_t masked_bits(const tile_args &t, const uint8_t *mask, int64_t row, int64_t key) {
    uint32_t bits = 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (h == 1 && t.a.mask_row == 0)
            return bits | bits << 2;
        const lane_row r = lane_row_of<OCTETS>(t, row + h * 8, key);
        const uint8_t *at = mask + r.row * t.a.mask_row + (key + lane_of() % 4 * 2) * t.a.mask_column;
        if (t.a.mask_column == 0) {
            bits |= *at ? 0 : 0x33333333u << 2 * h;
        } else {
#pragma unroll
            for (int n = 0; n < OCTETS; n++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (n * 8 + i < r.left)
                        bits |= at[n * 8 + i] ? 0 : 1u << (4 * n + 2 * h + i);
        }
    }
    return bits;
}

template <int OCTETS, class S>
__device__ __forceinline__ void add_bias(float (&p)[OCTETS][4], const tile_args &t, const S *bias, int64_t row,
                                         int64_t key) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const lane_row r = lane_row_of<OCTETS>(t, row + h * 8, key);
        const S *at = bias + r.row * t.a.bias_row + (key + lane_of() % 4 * 2) * t.a.bias_column;
        if (t.a.bias_column == 0) {
            const float x = tk_number_of(*at);
#pragma unroll
            for (int n = 0; n < OCTETS; n++)
                p[n][2 * h] += x, p[n][2 * h + 1] += x;
        } else if (r.left >= OCTETS * 8 - 6 && ((uintptr_t)at & 3) == 0) {
#pragma unroll
            for (int n = 0; n < OCTETS; n++) {
                const tk_pack<S, 2> pair = tk_load_pack<2>(at + n * 8);
                p[n][2 * h] += tk_number_of(pair.at[0]), p[n][2 * h + 1] += tk_number_of(pair.at[1]);
            }
        } else {
#pragma unroll
            for (int n = 0; n < OCTETS; n++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (n * 8 + i < r.left)
                        p[n][2 * h + i] += tk_number_of(at[n * 8 + i]);
        }
    }
}

template <int OCTETS> __device__ __forceinline__ void put_masked(float (&p)[OCTETS][4], uint32_t bits, float value) {
#pragma unroll
    for (int n = 0; n < OCTETS; n++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            p[n][k] = bits & 1u << (4 * n + k) ? value : p[n][k];
}

template <int OCTETS> __device__ __forceinline__ void scale_scores(float (&p)[OCTETS][4], float scale) {
#pragma unroll
    for (int n = 0; n < OCTETS; n++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            p[n][k] *= scale;
}

/* Scores of a warp's tile as the softmax sees them, -inf for keys beyond the last. Returns the bits of masked
 * scores. */
template <int OCTETS, class S>
__device__ __forceinline__ uint32_t see_scores(float (&p)[OCTETS][4], const tile_args &t, const extras<S> &more,
                                               int64_t row, int64_t key) {
    uint32_t bits = 0;
    if (t.natural) {
        scale_scores(p, (float)t.a.scale);
        if (more.mask) {
            bits = masked_bits<OCTETS>(t, more.mask, row, key);
            put_masked(p, bits, (float)t.a.fill);
        }
        if (more.bias)
            add_bias(p, t, more.bias, row, key);
    }
    if (key + OCTETS * 8 > t.a.t) {
        const int left = lane_row_of<OCTETS>(t, row, key).left;
#pragma unroll
        for (int n = 0; n < OCTETS; n++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                p[n][k] = n * 8 + k % 2 < left ? p[n][k] : -INFINITY;
    }
    return bits;
}

/* The lane's elements c and c + 1 of each octet of a row of n results. */
template <class S, int N> __device__ __forceinline__ void store_row(S *row, const float (&x)[N][2], int n) {
    const int left = n - lane_of() % 4 * 2;
    row += lane_of() % 4 * 2;
    if (n % 2 == 0 && ((uintptr_t)row & 3) == 0) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i * 8 < left)
                tk_store_pack(row + i * 8, tk_pack<S, 2>{{tk_element_of<S>(x[i][0]), tk_element_of<S>(x[i][1])}});
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int k = 0; k < 2; k++)
                if (i * 8 + k < left)
                    row[i * 8 + k] = tk_element_of<S>(x[i][k]);
    }
}

/* Where row `row` of an item's result is. */
template <class S> __device__ __forceinline__ S *row_of(void *data, const tk_lines &lines, int64_t item, int64_t row) {
    return (S *)data + tk_place(&lines.at, item) + row * lines.row;
}

/* The factor from scores to exponents of 2. */
__device__ __forceinline__ float unit_of(const tile_args &t) {
    return t.natural ? TK_LOG2_E : (float)(t.a.scale * 1.4426950408889634);
}

/* --- P from statistics ---------------------------------------------------------------------------- */

/* tk_tile_statistics of a row. */
struct row_statistics {
    float shift, less, dot;
};
/* For a row beyond the last, or whose P is 0. */
__device__ __forceinline__ row_statistics no_row() { return row_statistics{INFINITY, -INFINITY, 0}; }
/* From the sum of a row's powers and its largest score, as power_of() takes it: times unit where scores are not scaled
 * before. */
__device__ __forceinline__ void put_statistics(const tile_args &t, int64_t at, float most, float sum, float dot) {
    row_statistics r = {t.natural ? most : 0.0f, NAN, dot};
    if (t.a.guard && !(sum > 0))
        r = no_row();
    else if (sum > 0)
        r.less = -((t.natural ? 0.0f : most) + log2f(sum));
    t.rows.shift[at] = r.shift;
    t.rows.less[at] = r.less;
    t.rows.dot[at] = r.dot;
}
__device__ __forceinline__ row_statistics statistics_of(const tile_args &t, int64_t item, int64_t row) {
    const int64_t at = item * t.a.s + row;
    return row < t.a.s ? row_statistics{t.rows.shift[at], t.rows.less[at], t.rows.dot[at]} : no_row();
}
/* P of a score. Numbers of any size are subtracted first, since masks may be the lowest number. */
__device__ __forceinline__ float power_of(float x, float shift, float less, float unit) {
    return tk_exp2_fast(fmaf(x - shift, unit, less));
}

/* --- launches ------------------------------------------------------------------------------------- */

/* f(head_size<HD>()) for the smallest HD that has room for a head. */
template <int HD> struct head_size {
    enum { value = HD };
};
template <class F> static void with_head(int64_t head, F f) {
    if (head <= 32)
        f(head_size<32>());
    else if (head <= 64)
        f(head_size<64>());
    else if (head <= 96)
        f(head_size<96>());
    else if (head <= 128)
        f(head_size<128>());
    else
        f(head_size<256>());
}
static inline int64_t head_of(const tk_attention *a) { return a->d > a->e ? a->d : a->e; }

/* Bytes of shared memory of a block, for either layout of K. */
template <template <class, int, lies> class kernel> static size_t shared_of(int64_t head) {
    size_t most = 0;
    with_head(head, [&most](auto hd) {
        const size_t straight = kernel<tk_half, decltype(hd)::value, STRAIGHT>::SHARED,
                     turned = kernel<tk_half, decltype(hd)::value, TURNED>::SHARED;
        most = straight > turned ? straight : turned;
    });
    return most;
}

/* A block of threads for each `rows` rows of Q of each item. */
static inline void launch_rows(tk_queue *q, void (*kernel)(tile_args), tile_args t, int rows, int shared) {
    t.blocks = (t.a.s + rows - 1) / rows;
    TK_ALLOW_SHARED(q, kernel, shared);
    TK_LAUNCH(kernel, (unsigned)(t.blocks * t.a.items), TILE_THREADS, shared, q, t);
}

/* kernel<S, HD, K>::launch for the type, the head's size and the layout of K. */
template <template <class, int, lies> class kernel, class S> static void launch_heads(tk_queue *q, const tile_args &t) {
    with_head(head_of(&t.a), [q, &t](auto hd) {
        if (t.a.by_keys)
            kernel<S, decltype(hd)::value, TURNED>::launch(q, t);
        else
            kernel<S, decltype(hd)::value, STRAIGHT>::launch(q, t);
    });
}
template <template <class, int, lies> class kernel> static void launch_tiles(tk_queue *q, const tile_args &t) {
    if (t.a.dtype == TK_F16)
        launch_heads<kernel, tk_half>(q, t);
    else
        launch_heads<kernel, tk_bfloat>(q, t);
}
#endif
