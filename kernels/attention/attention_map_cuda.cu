/* attention_map_cuda.cu: rows of attention's map: softmax with bias, mask and dropout, and its gradient. A row of up to
 * 1024 scores is held in the registers of a warp, one of up to 2048 in those of a block; of longer ones a block reads
 * each score three times. Elements are taken in blocks of the draw, 8 neighbours that begin at a multiple of 8 of the
 * whole map: whatever the row's length, a thread draws one block for all of them and moves them in packs. */
#include "../common/fast_math.cuh"
#include "../common/row.cuh"
#include "../dropout/drop.cuh"
extern "C" {
#include "attention_map.h"
}

enum { EIGHT = TK_HALVES, BLOCK_WARPS = 8, WARP_ROWS = 4 };

/* --- rows in blocks of the draw ------------------------------------------------------------------ */

/* Sizes that both kernels share, and what reaches the scores of an item. */
struct map_rows {
    int64_t rows, s, t, first; /* rows of this part; its first item */
    tk_places bias_at, mask_at;
    int64_t bias_row, bias_column, mask_row, mask_column;
    bool packed; /* all maps begin at 16 bytes, and at a multiple of 8 of the whole map */
};

/* Where a thread is: the row of the part, its item, its row in that; the first element of the row in the whole map, and
 * how far behind a multiple of 8. */
struct row_at {
    int64_t row, item, in_item, first;
    int behind;
};

__device__ __forceinline__ row_at row_of(const map_rows &m, int64_t row) {
    row_at at;
    at.row = row;
    if (m.rows <= INT32_MAX) { /* a division of 64 bits costs as much as a row of 64 scores */
        at.item = (uint32_t)row / (uint32_t)m.s;
    } else {
        at.item = row / m.s;
    }
    at.in_item = row - at.item * m.s;
    at.first = (m.first * m.s + row) * m.t;
    at.behind = (int)(at.first % EIGHT);
    at.item += m.first;
    return at;
}

/* Columns [from, to) of a block of 8 are in the row. */
struct columns {
    int64_t at; /* the first one's number, which may be below 0 */
    int from, to;
    __device__ __forceinline__ bool whole() const { return from == 0 && to == EIGHT; }
    __device__ __forceinline__ bool has(int k) const { return k >= from && k < to; }
};

__device__ __forceinline__ columns columns_of(int64_t block, const row_at &at, int64_t t) {
    columns c;
    c.at = block * EIGHT - at.behind;
    c.from = c.at < 0 ? (int)-c.at : 0;
    c.to = c.at + EIGHT <= t ? EIGHT : c.at < t ? (int)(t - c.at) : 0;
    return c;
}

/* row[c.at + k] for the columns of the row, 0 for others. */
template <class S> __device__ __forceinline__ void load8(S out[EIGHT], const S *row, const columns &c, bool packed) {
    constexpr int N = tk_pack_size<S> < EIGHT ? tk_pack_size<S> : EIGHT;
    if (packed && c.whole()) {
#pragma unroll
        for (int i = 0; i < EIGHT; i += N) {
            const tk_pack<S, N> part = tk_load_pack<N>(row + c.at + i);
#pragma unroll
            for (int k = 0; k < N; k++)
                out[i + k] = part.at[k];
        }
    } else {
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            out[k] = c.has(k) ? row[c.at + k] : S{};
    }
}

template <class S> __device__ __forceinline__ void store8(S *row, const S in[EIGHT], const columns &c, bool packed) {
    constexpr int N = tk_pack_size<S> < EIGHT ? tk_pack_size<S> : EIGHT;
    if (packed && c.whole()) {
#pragma unroll
        for (int i = 0; i < EIGHT; i += N) {
            tk_pack<S, N> part;
#pragma unroll
            for (int k = 0; k < N; k++)
                part.at[k] = in[i + k];
            tk_store_pack(row + c.at + i, part);
        }
    } else {
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            if (c.has(k))
                row[c.at + k] = in[k];
    }
}

/* Whether blocks of 8 of an operand's row, which lies where it lies, may be moved in packs. */
template <class S> __device__ __forceinline__ bool is_packed(const S *row, int behind) {
    constexpr int bytes = (tk_pack_size<S> < EIGHT ? tk_pack_size<S> : EIGHT) * (int)sizeof(S);
    return ((uintptr_t)(row - behind) & (bytes - 1)) == 0;
}

/* An operand of the scores' shape, by strides: one row of it. */
template <class S> struct strided_row {
    const S *row;
    bool one; /* element for the whole row */
    bool packed;
    __device__ __forceinline__ strided_row(const void *data, const tk_places &places, int64_t row_stride,
                                           int64_t column_stride, const row_at &at)
        : row((const S *)data), one(column_stride == 0), packed(false) {
        if (row) {
            row += tk_place(&places, at.item) + at.in_item * row_stride;
            packed = is_packed(row, at.behind);
        }
    }
    __device__ __forceinline__ void load(S out[EIGHT], const columns &c) const {
        if (one) {
            const S x = *row;
#pragma unroll
            for (int k = 0; k < EIGHT; k++)
                out[k] = x;
        } else {
            load8(out, row, c, packed);
        }
    }
};

/* Of a kernel with PACKS blocks of 8 a thread, and WARPS warps a row; 0: any number of blocks, which are not held. */
template <int PACKS, int WARPS> struct shape_of {
    enum { THREADS = WARPS == 1 ? WARP_ROWS * TK_WARP : WARPS * TK_WARP, READERS = WARPS * TK_WARP };
    static __device__ __forceinline__ int64_t row() {
        return WARPS == 1 ? (int64_t)blockIdx.x * WARP_ROWS + threadIdx.x / TK_WARP : (int64_t)blockIdx.x;
    }
    static __device__ __forceinline__ int64_t block(int64_t i) { return i * READERS + threadIdx.x % READERS; }
    static __device__ __forceinline__ int64_t packs(const map_rows &m, const row_at &at) {
        return PACKS ? PACKS : (m.t + at.behind + EIGHT * READERS - 1) / (EIGHT * READERS);
    }
};

/* --- scores to P ---------------------------------------------------------------------------------- */

struct map_args {
    map_rows m;
    tk_attention_map of;
    double fill;
    bool guard, is_signed;
    tk_fault_place fault;
};

/* e^(x - largest): of float and double by what the CPU computes it with. */
template <class S> __device__ __forceinline__ float power(float x) {
    return tk_is_16_bit<S> ? tk_exp_fast(x) : tk_expf(x);
}
template <class S> __device__ __forceinline__ double power(double x) { return exp(x); }

/* Scores of a block of 8 as the softmax sees them; -inf beyond the row. */
template <class S>
__device__ __forceinline__ void load_scores(tk_math<S> x[EIGHT], const map_args &a, const tk_math<S> *scores,
                                            const strided_row<S> &bias, const strided_row<uint8_t> &mask,
                                            const columns &c) {
    typedef tk_math<S> T;
    load8(x, scores, c, a.m.packed);
    if (mask.row) {
        uint8_t in[EIGHT];
        mask.load(in, c);
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            x[k] = in[k] ? x[k] : (T)a.fill;
    }
    if (bias.row) {
        S more[EIGHT];
        bias.load(more, c);
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            x[k] = x[k] + tk_number_of(more[k]);
    }
    if (!c.whole())
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            x[k] = c.has(k) ? x[k] : (T)-INFINITY;
}

/* A block of 8 of P to where it is wanted. scale: what it is multiplied with, of 16 bits, or divided by. */
template <class S>
__device__ __forceinline__ void store_map(const map_args &a, const tk_drop<tk_math<S>> &drop, const row_at &at,
                                          const columns &c, const tk_math<S> x[EIGHT], tk_math<S> scale, bool is_zero) {
    typedef tk_math<S> T;
    const bool drops = a.of.seed.pair != nullptr;
    uint32_t words[TK_WORDS] = {};
    S p[EIGHT], left[EIGHT];
    uint8_t keep[EIGHT];
    if (drops)
        tk_draw_block(&drop.draw, (uint64_t)(at.first + c.at) / EIGHT, words);
#pragma unroll
    for (int k = 0; k < EIGHT; k++) {
        const T y = is_zero ? 0 : tk_is_16_bit<S> ? x[k] * scale : x[k] / scale;
        const S value = tk_flagged(tk_element_of<S>(y), 1);
        const bool kept = !drops || tk_is_drawn(drop, words, k);
        keep[k] = kept;
        p[k] = a.is_signed ? tk_flagged(value, kept) : value;
        left[k] = drops ? tk_element_of<S>(tk_dropped_number<S>(tk_number_of(value), drop, kept)) : value;
    }
    if (a.of.p)
        store8((S *)a.of.p + at.row * a.m.t, p, c, a.m.packed);
    if (a.of.dropped)
        store8((S *)a.of.dropped + at.row * a.m.t, left, c, a.m.packed);
    if (a.of.keep)
        store8(a.of.keep + at.row * a.m.t, keep, c, a.m.packed);
}

template <class S, int PACKS, int WARPS>
__global__ void __launch_bounds__((shape_of<PACKS, WARPS>::THREADS)) make_map(const map_args a) {
    typedef tk_math<S> T;
    typedef shape_of<PACKS, WARPS> shape;
    constexpr int HELD = PACKS ? PACKS : 1;
    __shared__ T parts[WARPS];
    if (shape::row() >= a.m.rows)
        return;
    const row_at at = row_of(a.m, shape::row());
    const T *scores = (const T *)a.of.scores + at.row * a.m.t;
    const strided_row<S> bias(a.of.bias, a.m.bias_at, a.m.bias_row, a.m.bias_column, at);
    const strided_row<uint8_t> mask(a.of.mask, a.m.mask_at, a.m.mask_row, a.m.mask_column, at);
    const int64_t packs = shape::packs(a.m, at);
    T x[HELD][EIGHT], most = (T)-INFINITY, sum = 0;
#pragma unroll
    for (int64_t i = 0; i < packs; i++) {
        T *held = x[PACKS ? i : 0];
        load_scores<S>(held, a, scores, bias, mask, columns_of(shape::block(i), at, a.m.t));
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            most = held[k] > most ? held[k] : most;
    }
    most = tk_team_max<WARPS * TK_WARP>(most, parts);
#pragma unroll
    for (int64_t i = 0; i < packs; i++) {
        T *held = x[PACKS ? i : 0];
        if (!PACKS)
            load_scores<S>(held, a, scores, bias, mask, columns_of(shape::block(i), at, a.m.t));
#pragma unroll
        for (int k = 0; k < EIGHT; k++) {
            held[k] = power<S>(held[k] - most);
            sum += held[k];
        }
    }
    sum = tk_team_sum<WARPS * TK_WARP>(sum, parts);
    tk_drop<T> drop = {};
    if (a.of.seed.pair)
        drop = tk_drop_of<T>(a.of.ratio, a.of.seed, a.fault);
    const bool is_zero = a.guard && sum != sum;
    const T scale = tk_is_16_bit<S> ? 1 / sum : sum;
#pragma unroll
    for (int64_t i = 0; i < packs; i++) {
        const columns c = columns_of(shape::block(i), at, a.m.t);
        T *held = x[PACKS ? i : 0];
        if (!PACKS) {
            load_scores<S>(held, a, scores, bias, mask, c);
#pragma unroll
            for (int k = 0; k < EIGHT; k++)
                held[k] = power<S>(held[k] - most);
        }
        if (c.to > c.from)
            store_map<S>(a, drop, at, c, held, scale, is_zero);
    }
}

/* --- the gradient --------------------------------------------------------------------------------- */

struct grad_args {
    map_rows m;
    tk_attention_map_grad of;
    bool is_signed;
    tk_fault_place fault;
};

/* A block of 8 of P without flags, and of dd where P reaches it. */
template <class S> struct grad_eight {
    S p[EIGHT];
    tk_math<S> dd[EIGHT];
    bool kept[EIGHT];
};

template <class S>
__device__ __forceinline__ void load_grad(grad_eight<S> &x, const grad_args &a, const tk_drop<tk_math<S>> &drop,
                                          const row_at &at, const columns &c) {
    const int64_t from = at.row * a.m.t;
    load8(x.p, (const S *)a.of.p + from, c, a.m.packed);
    if (a.of.dd)
        load8(x.dd, (const tk_math<S> *)a.of.dd + from, c, a.m.packed);
    if (!a.of.is_dropped)
        return;
    uint8_t keep[EIGHT] = {};
    if (!a.is_signed)
        load8(keep, a.of.keep + from, c, a.m.packed);
#pragma unroll
    for (int k = 0; k < EIGHT; k++) {
        x.kept[k] = a.is_signed ? tk_is_kept(x.p[k]) : keep[k] != 0;
        x.p[k] = a.is_signed ? tk_flagged(x.p[k], 1) : x.p[k];
        if (a.of.dd)
            x.dd[k] = tk_dropped_number<S>(x.dd[k], drop, x.kept[k]);
    }
}

template <class S>
__device__ __forceinline__ void store_grad(const grad_eight<S> &x, const grad_args &a, const tk_drop<tk_math<S>> &drop,
                                           const strided_row<uint8_t> &mask, const row_at &at, const columns &c,
                                           tk_math<S> dot) {
    const int64_t from = at.row * a.m.t;
    S out[EIGHT];
    if (a.of.dropped) {
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            out[k] = tk_element_of<S>(tk_dropped_number<S>(tk_number_of(x.p[k]), drop, x.kept[k]));
        store8((S *)a.of.dropped + from, out, c, a.m.packed);
    }
    if (!a.of.dd)
        return;
#pragma unroll
    for (int k = 0; k < EIGHT; k++)
        out[k] = tk_element_of<S>((x.dd[k] - dot) * tk_number_of(x.p[k]));
    if (a.of.ds)
        store8((S *)a.of.ds + from, out, c, a.m.packed);
    if (a.of.reached) {
        uint8_t in[EIGHT];
        mask.load(in, c);
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            out[k] = in[k] ? out[k] : tk_element_of<S>(0);
        store8((S *)a.of.reached + from, out, c, a.m.packed);
    }
}

template <class S, int PACKS, int WARPS>
__global__ void __launch_bounds__((shape_of<PACKS, WARPS>::THREADS)) map_grad(const grad_args a) {
    typedef tk_math<S> T;
    typedef shape_of<PACKS, WARPS> shape;
    constexpr int HELD = PACKS ? PACKS : 1;
    __shared__ T parts[WARPS];
    if (shape::row() >= a.m.rows)
        return;
    const row_at at = row_of(a.m, shape::row());
    const strided_row<uint8_t> mask(a.of.reached ? a.of.mask : nullptr, a.m.mask_at, a.m.mask_row, a.m.mask_column, at);
    const int64_t packs = shape::packs(a.m, at);
    tk_drop<T> drop = {};
    if (a.of.is_dropped)
        drop = tk_drop_ratio<T>(a.of.ratio, a.fault);
    grad_eight<S> x[HELD];
    T dot = 0;
#pragma unroll
    for (int64_t i = 0; i < packs && (PACKS || a.of.dd); i++) {
        grad_eight<S> &held = x[PACKS ? i : 0];
        load_grad(held, a, drop, at, columns_of(shape::block(i), at, a.m.t));
        if (a.of.dd)
#pragma unroll
            for (int k = 0; k < EIGHT; k++)
                dot += held.dd[k] * tk_number_of(held.p[k]);
    }
    if (a.of.dd)
        dot = tk_team_sum<WARPS * TK_WARP>(dot, parts);
#pragma unroll
    for (int64_t i = 0; i < packs; i++) {
        const columns c = columns_of(shape::block(i), at, a.m.t);
        grad_eight<S> &held = x[PACKS ? i : 0];
        if (!PACKS)
            load_grad(held, a, drop, at, c);
        if (c.to > c.from)
            store_grad(held, a, drop, mask, at, c, dot);
    }
}

/* --- sums of groups ------------------------------------------------------------------------------- */

enum { SUM_THREADS = 256 };

/* The first member of the group that is item `item` or a later one: members go up. */
__device__ __forceinline__ int64_t member_from(const tk_attention_groups &g, int64_t group_at, int64_t item) {
    int64_t low = 0, high = g.members;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (group_at + tk_place(&g.member_at, middle) < item)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

template <class S>
__global__ void __launch_bounds__(SUM_THREADS) sum_scores(S *out, tk_math<S> *sums, const S *ds, int64_t map,
                                                          tk_attention_part part, bool last, tk_attention_groups g) {
    TK_FOR_EACH(i, g.groups * map) {
        const int64_t group = i / map, at = i % map, group_at = tk_place(&g.group_at, group),
                      end = part.first + part.items;
        double sum = part.first > 0 ? (double)sums[i] : 0;
        for (int64_t member = member_from(g, group_at, part.first); member < g.members; member++) {
            const int64_t item = group_at + tk_place(&g.member_at, member);
            if (item >= end)
                break;
            sum += (double)tk_number_of(ds[(item - part.first) * map + at]);
        }
        if (last)
            out[i] = tk_element_of<S>((tk_math<S>)sum);
        else
            sums[i] = (tk_math<S>)sum;
    }
}

/* --- launches --------------------------------------------------------------------------------------- */

static map_rows rows_of(const tk_attention *a, tk_attention_part part, bool packed) {
    const map_rows m = {part.items * a->s,
                        a->s,
                        a->t,
                        part.first,
                        a->bias_at,
                        a->mask_at,
                        a->bias_row,
                        a->bias_column,
                        a->mask_row,
                        a->mask_column,
                        packed && part.first * a->s * a->t % EIGHT == 0};
    return m;
}

/* `kernel` for rows of t scores: as many of them in registers as is worth it. */
#define LAUNCH(kernel, S, q, m, ...)                                                                                   \
    do {                                                                                                               \
        const int64_t most_ = (m).t % EIGHT ? (m).t + EIGHT - 1 : (m).t,                                               \
                      warps_ = ((m).rows + WARP_ROWS - 1) / WARP_ROWS;                                                 \
        if (most_ <= 256)                                                                                              \
            TK_LAUNCH((kernel<S, 1, 1>), (unsigned)warps_, WARP_ROWS *TK_WARP, 0, q, __VA_ARGS__);                     \
        else if (most_ <= 512)                                                                                         \
            TK_LAUNCH((kernel<S, 2, 1>), (unsigned)warps_, WARP_ROWS *TK_WARP, 0, q, __VA_ARGS__);                     \
        else if (most_ <= 1024 && sizeof(S) < 8)                                                                       \
            TK_LAUNCH((kernel < S, sizeof(S) < 8 ? 4 : 2, 1 >), (unsigned)warps_, WARP_ROWS *TK_WARP, 0, q,            \
                      __VA_ARGS__);                                                                                    \
        else if (most_ <= 2048)                                                                                        \
            TK_LAUNCH((kernel<S, 1, BLOCK_WARPS>), (unsigned)(m).rows, BLOCK_WARPS *TK_WARP, 0, q, __VA_ARGS__);       \
        else                                                                                                           \
            TK_LAUNCH((kernel<S, 0, BLOCK_WARPS>), (unsigned)(m).rows, BLOCK_WARPS *TK_WARP, 0, q, __VA_ARGS__);       \
    } while (0)

void tk_cuda_attention_map(tk_queue *q, const tk_attention *a, tk_attention_part part, const tk_attention_map *map) {
    const bool packed = tk_is_packed(map->scores, map->p, map->dropped, map->keep);
    const map_args args = {rows_of(a, part, packed), *map, a->fill, a->guard, a->is_signed, tk_fault_of(q)};
    if (args.m.rows > 0 && a->t > 0)
        TK_FLOATS(a->dtype, S, LAUNCH(make_map, S, q, args.m, args));
}

void tk_cuda_attention_map_grad(tk_queue *q, const tk_attention *a, tk_attention_part part,
                                const tk_attention_map_grad *grad) {
    const bool packed =
        tk_is_packed(grad->dd, grad->p, grad->keep, grad->ds) && tk_is_packed(grad->reached, grad->dropped);
    const grad_args args = {rows_of(a, part, packed), *grad, a->is_signed, tk_fault_of(q)};
    if (args.m.rows > 0 && a->t > 0)
        TK_FLOATS(a->dtype, S, LAUNCH(map_grad, S, q, args.m, args));
}

void tk_cuda_attention_sum(tk_queue *q, void *out, void *sums, const void *ds, const tk_attention *a,
                           tk_attention_part part, const tk_attention_groups *groups) {
    const int64_t map = a->s * a->t;
    const bool last = part.first + part.items == a->items;
    if (groups->groups * map > 0)
        TK_FLOATS(a->dtype, S,
                  TK_LAUNCH(sum_scores<S>, tk_blocks(q, groups->groups * map, SUM_THREADS), SUM_THREADS, 0, q, (S *)out,
                            (tk_math<S> *)sums, (const S *)ds, map, part, last, *groups));
}
