/* attention_rows.cuh: S [rows, t] -> P [rows, t], in blocks of 8 columns.
 * Rows of attention's map in blocks of the draw, 8 neighbours that begin at a multiple of 8 of the whole map: how they
 * are read and written in packs, and which elements are dropped. Elements of 16 bits lie two in a word, and operations
 * on bits apply to both at once. Rows are WHOLE where each begins with a block and ends with one, and all operands with
 * rows can be moved in packs: most are. */
#ifndef TK_ATTENTION_ROWS_CUH
#define TK_ATTENTION_ROWS_CUH
#include "../cuda/walk.cuh"
#include "../dropout/drop.cuh"
extern "C" {
#include "attention_map.h"
}

enum { EIGHT = TK_HALVES, WORDS = TK_WORDS, WARP_THREADS = 4 * TK_WARP, BLOCK_THREADS = 8 * TK_WARP };

/* --- where a thread is ------------------------------------------------------------------------- */

/* Sizes that both kernels share, and the operands that reach an item's scores. */
struct map_rows {
    int64_t rows, s, t, first; /* rows of this part; its first item */
    int64_t before;            /* elements of the whole map before this part */
    tk_divisor by_s;
    tk_places bias_at, mask_at;
    int64_t bias_row, bias_column, mask_row, mask_column;
    bool packed; /* all maps begin at 16 bytes, and at a multiple of 8 of the whole map */
    bool one; /* item; with more items the number of all rows has 31 bits, since they fit into the workspace together */
};

/* A row of the part, its columns, 0 where there is no such row; its first element among those of the part, and the
 * distance of that element from the last multiple of 8 of the whole map; its item among all, and its number there. */
struct row_at {
    int64_t row, t, from, item, in_item;
    int behind;
};

/* Columns [from, to) of a block of 8 are in the row. */
struct columns {
    int64_t at; /* the first one's number, which may be below 0 */
    int from, to;
    __device__ __forceinline__ bool whole() const { return from == 0 && to == EIGHT; }
    __device__ __forceinline__ bool has(int k) const { return k >= from && k < to; }
};

/* For a kernel with PACKS blocks of 8 a thread, and TEAM threads a row; 0: any number of blocks, not held in
 * registers. */
template <int PACKS, int TEAM, bool WHOLE> struct shape_of {
    enum { THREADS = TEAM > TK_WARP ? TEAM : WARP_THREADS, TEAMS = THREADS / TEAM };
    /* The row of this team among those that begin at `first`. `placed`: its item is of interest. */
    static __device__ __forceinline__ row_at row(const map_rows &m, int64_t first, bool placed) {
        row_at at = {first, m.t, 0, 0, 0, 0};
        if (TEAMS > 1) {
            at.row += threadIdx.x / TEAM;
            at.t = at.row < m.rows ? m.t : 0;
            at.row = at.row < m.rows ? at.row : m.rows - 1;
        }
        at.from = at.row * m.t;
        at.behind = WHOLE ? 0 : (int)((m.before + at.from) % EIGHT);
        if (placed) {
            const int64_t item = m.one ? 0 : tk_divide(at.row, m.by_s, true);
            at.in_item = at.row - item * m.s;
            at.item = item + m.first;
        }
        return at;
    }
    static __device__ __forceinline__ int64_t packs(const row_at &at) {
        return PACKS ? PACKS : (at.t + at.behind + EIGHT * TEAM - 1) / (EIGHT * TEAM);
    }
    /* This thread's block i. */
    static __device__ __forceinline__ columns block(int64_t i, const row_at &at) {
        columns c;
        c.at = (i * TEAM + (int)(threadIdx.x % TEAM)) * EIGHT - at.behind;
        if (WHOLE) {
            c.from = 0;
            c.to = c.at < at.t ? EIGHT : 0;
        } else {
            c.from = c.at < 0 ? (int)-c.at : 0;
            c.to = c.at + EIGHT <= at.t ? EIGHT : c.at < at.t ? (int)(at.t - c.at) : 0;
        }
        return c;
    }
};
/* for (first row of this block's teams), all of whose threads go through the same steps */
#define FOR_EACH_ROWS(first, n_rows, TEAMS)                                                                            \
    for (int64_t first = (int64_t)blockIdx.x * (TEAMS); first < (n_rows); first += (int64_t)gridDim.x * (TEAMS))

/* --- blocks of 8 from and to memory ----------------------------------------------------------------- */

/* Elements as they are stored, in registers: some in each word, or a word or two for each. */
template <class S> struct eight {
    static constexpr int EACH = sizeof(S) < 4 ? 4 / (int)sizeof(S) : 1, BITS = 32 / EACH;
    static constexpr int WIDE = sizeof(S) < 4 ? 1 : (int)sizeof(S) / 4;
    uint32_t words[EIGHT / EACH * WIDE];
    __device__ __forceinline__ S at(int k) const {
        uint32_t bits[WIDE];
        S x;
#pragma unroll
        for (int i = 0; i < WIDE; i++)
            bits[i] = words[k / EACH * WIDE + i] >> BITS * (k % EACH);
        memcpy(&x, bits, sizeof x);
        return x;
    }
    __device__ __forceinline__ void set(int k, S x) {
        const uint32_t mask = 0xffffffffu >> (32 - BITS) << BITS * (k % EACH);
        uint32_t bits[WIDE] = {};
        memcpy(bits, &x, sizeof x);
#pragma unroll
        for (int i = 0; i < WIDE; i++)
            words[k / EACH * WIDE + i] = (words[k / EACH * WIDE + i] & ~mask) | bits[i] << BITS * (k % EACH);
    }
};
/* How they are moved: words at a time. */
template <class S> struct pack_of {
    static constexpr int WORDS_OF_ALL = EIGHT * (int)sizeof(S) / 4, AT_ONCE = WORDS_OF_ALL < 4 ? WORDS_OF_ALL : 4;
    typedef tk_pack<uint32_t, AT_ONCE> type;
};

/* row[c.at + k] for the columns of the row; others stay. */
template <bool WHOLE, class S>
__device__ __forceinline__ void load8(eight<S> &out, const S *row, const columns &c, bool packed = true) {
    typedef typename pack_of<S>::type pack;
    if ((WHOLE || packed) && c.whole()) {
#pragma unroll
        for (int i = 0; i < (int)(sizeof out / sizeof(pack)); i++) {
            const pack part = tk_load_whole((const pack *)(row + c.at) + i);
            memcpy(out.words + i * pack_of<S>::AT_ONCE, part.at, sizeof part);
        }
    } else if (!WHOLE) {
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            if (c.has(k))
                out.set(k, row[c.at + k]);
    }
}

template <bool WHOLE, class S>
__device__ __forceinline__ void store8(S *row, const eight<S> &in, const columns &c, bool packed = true) {
    typedef typename pack_of<S>::type pack;
    if ((WHOLE || packed) && c.whole()) {
#pragma unroll
        for (int i = 0; i < (int)(sizeof in / sizeof(pack)); i++) {
            pack part;
            memcpy(part.at, in.words + i * pack_of<S>::AT_ONCE, sizeof part);
            tk_store_whole((pack *)(row + c.at) + i, part);
        }
    } else if (!WHOLE) {
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            if (c.has(k))
                row[c.at + k] = in.at(k);
    }
}

/* One row of an operand of the scores' shape, by strides. */
template <bool WHOLE, class S> struct strided_row {
    const S *row;
    bool one; /* element for the whole row */
    bool packed;
    __device__ __forceinline__ strided_row(const void *data, const tk_places &places, int64_t row_stride,
                                           int64_t column_stride, const row_at &at)
        : row((const S *)data), one(column_stride == 0), packed(WHOLE) {
        if (row) {
            row += (WHOLE ? at.item * places.step : tk_place(&places, at.item)) + at.in_item * row_stride;
            packed = WHOLE || ((uintptr_t)(row - at.behind) & (sizeof(typename pack_of<S>::type) - 1)) == 0;
        }
    }
    /* Columns that are not in the row stay. */
    __device__ __forceinline__ void load(eight<S> &out, const columns &c) const {
        if (one) {
            const S x = *row;
#pragma unroll
            for (int k = 0; k < EIGHT; k++)
                if (c.has(k))
                    out.set(k, x);
        } else {
            load8<WHOLE>(out, row, c, packed);
        }
    }
};
/* Whether all of its rows may be moved in packs, by what the host knows. */
static inline bool is_whole(const void *data, const tk_places &places, int64_t row_stride, int64_t column_stride) {
    const uint64_t strides = (uint64_t)places.step | (uint64_t)row_stride;
    return !data || (!places.at && (column_stride == 0 || (strides % EIGHT == 0 && tk_is_packed(data))));
}

/* --- kept elements of a block of 8 ----------------------------------------------------------------- */

/* A bit for each element, in the order of the draw: bit 15 of each half of a word, where signs of elements of 16 bits
 * lie. The other bits have no meaning. */
struct kept_bits {
    uint32_t of[WORDS];
    __device__ __forceinline__ bool has(int k) const { return of[k / 2] & (k % 2 ? 0x80000000u : 0x8000u); }
};

template <class T> __device__ __forceinline__ kept_bits drawn_bits(const tk_drop<T> &drop, uint64_t block) {
    kept_bits kept;
    uint32_t words[WORDS];
    tk_draw_block(&drop.draw, block, words);
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        kept.of[i] = tk_drawn_bits(drop, words[i]);
    return kept;
}

/* Of bytes that are not 0: their upper bit is 1, or becomes 1 when 0x7f is added to the other bits. */
__device__ __forceinline__ kept_bits bits_of(const eight<uint8_t> &bytes) {
    kept_bits kept;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t word = bytes.words[i], some = ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word;
        kept.of[2 * i] = tk_bytes_of(some, 0, 0x1404);
        kept.of[2 * i + 1] = tk_bytes_of(some, 0, 0x3424);
    }
    return kept;
}
__device__ __forceinline__ eight<uint8_t> bytes_of(const kept_bits &kept) {
    eight<uint8_t> bytes;
#pragma unroll
    for (int i = 0; i < 2; i++)
        bytes.words[i] = tk_bytes_of(kept.of[2 * i], kept.of[2 * i + 1], 0xfdb9) & 0x01010101u;
    return bytes;
}

/* For values without a sign. */
template <class S> __device__ __forceinline__ kept_bits bits_of(const eight<S> &x) {
    kept_bits kept;
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        if constexpr (tk_is_16_bit<S>)
            kept.of[i] = ~x.words[i];
        else
            kept.of[i] = (tk_is_kept(x.at(2 * i)) ? 0x8000u : 0) | (tk_is_kept(x.at(2 * i + 1)) ? 0x80000000u : 0);
    return kept;
}

/* |x|, or 0. */
template <class S> __device__ __forceinline__ eight<S> bare8(const eight<S> &x, bool is_zero = false) {
    const uint32_t bits = is_zero ? 0 : 0x7fff7fffu;
    eight<S> out;
#pragma unroll
    for (int i = 0; i < (tk_is_16_bit<S> ? WORDS : EIGHT); i++)
        if constexpr (tk_is_16_bit<S>)
            out.words[i] = x.words[i] & bits;
        else
            out.set(i, is_zero ? S{} : tk_flagged(x.at(i), 1));
    return out;
}

/* Sets the sign of dropped elements; no sign was set before. */
template <class S> __device__ __forceinline__ void flag8(eight<S> &x, const kept_bits &kept) {
#pragma unroll
    for (int i = 0; i < (tk_is_16_bit<S> ? WORDS : EIGHT); i++)
        if constexpr (tk_is_16_bit<S>)
            x.words[i] |= ~kept.of[i] & 0x80008000u;
        else
            x.set(i, tk_flagged(x.at(i), kept.has(i)));
}

/* Dropped elements become 0. */
template <class S> __device__ __forceinline__ void clear8(eight<S> &x, const kept_bits &kept) {
#pragma unroll
    for (int i = 0; i < (tk_is_16_bit<S> ? WORDS : EIGHT); i++)
        if constexpr (tk_is_16_bit<S>)
            x.words[i] &= tk_bytes_of(kept.of[i], 0, 0xbb99); /* the bit for its half */
        else
            x.set(i, kept.has(i) ? x.at(i) : S{});
}

/* --- numbers of a block of 8 ------------------------------------------------------------------- */

template <class S> __device__ __forceinline__ void numbers_of(tk_math<S> out[EIGHT], const eight<S> &x) {
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        if constexpr (tk_is_16_bit<S>)
            out[2 * i] = tk_low_of<S>(x.words[i]), out[2 * i + 1] = tk_high_of<S>(x.words[i]);
        else
            out[2 * i] = x.at(2 * i), out[2 * i + 1] = x.at(2 * i + 1);
}

template <class S> __device__ __forceinline__ eight<S> elements_of(const tk_math<S> x[EIGHT]) {
    eight<S> out;
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        if constexpr (tk_is_16_bit<S>)
            out.words[i] = tk_word_of<S>(x[2 * i], x[2 * i + 1]);
        else
            out.set(2 * i, x[2 * i]), out.set(2 * i + 1, x[2 * i + 1]);
    return out;
}

/* Numbers, or a block of P, after dropout; for 16 bits by a product (drop.cuh). */
template <class S>
__device__ __forceinline__ void drop8(tk_math<S> x[EIGHT], const kept_bits &kept, const tk_drop<tk_math<S>> &drop) {
#pragma unroll
    for (int k = 0; k < EIGHT; k++)
        x[k] = tk_dropped_number<S>(x[k], drop, kept.has(k));
}
template <class S>
__device__ __forceinline__ eight<S> dropped8(const eight<S> &p, const kept_bits &kept,
                                             const tk_drop<tk_math<S>> &drop) {
    tk_math<S> x[EIGHT];
    numbers_of(x, p);
#pragma unroll
    for (int k = 0; k < EIGHT; k++)
        x[k] = tk_dropped_number<S>(x[k], drop, true);
    eight<S> out = elements_of<S>(x);
    clear8(out, kept);
    return out;
}
#endif
