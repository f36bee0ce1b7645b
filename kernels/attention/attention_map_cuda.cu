/* attention_map_cuda.cu: rows of attention's map: softmax with bias, mask and dropout, and its gradient. A row of up to
 * 1024 scores is held in the registers of a warp or a part of it, one of up to 2048 in those of a block; of longer ones
 * a block reads each score three times. A thread takes blocks of the draw, 8 neighbours each (attention_rows.cuh). An
 * absent mask, bias or dropout costs one branch that all threads take. */
#include "../softmax/softmax_device.cuh"
#include "attention_rows.cuh"

/* --- scores to P ---------------------------------------------------------------------------------- */

struct map_args {
    map_rows m;
    tk_attention_map of;
    double fill;
    bool bias_first, guard, is_signed;
    tk_fault_place fault;
};

/* Scores of a block of 8; -inf beyond the row. */
template <bool WHOLE, class S>
__device__ __forceinline__ void load_scores(tk_math<S> x[EIGHT], const map_args &a, const row_at &at,
                                            const columns &c) {
    typedef tk_math<S> T;
    eight<T> scores;
#pragma unroll
    for (int k = 0; k < EIGHT; k++)
        scores.set(k, (T)-INFINITY);
    load8<WHOLE>(scores, (const T *)a.of.scores + at.from, c, a.m.packed);
    numbers_of(x, scores);
}

/* Scores as the softmax sees them. A bias before the mask is 0 where the mask replaces the score. WHOLE rows have no
 * instructions to spare and never have such a bias. */
template <bool WHOLE, class S>
__device__ __forceinline__ void mask_scores(tk_math<S> x[EIGHT], const map_args &a, const strided_row<WHOLE, S> &bias,
                                            const strided_row<WHOLE, uint8_t> &mask, const columns &c) {
    typedef tk_math<S> T;
    eight<uint8_t> kept = {{0xffffffffu, 0xffffffffu}};
    if (mask.row) {
        mask.load(kept, c);
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            x[k] = kept.words[k / 4] & 0xffu << 8 * (k % 4) ? x[k] : (T)a.fill;
    }
    if (bias.row) {
        eight<S> in = {};
        T more[EIGHT];
        bias.load(in, c);
        if (!WHOLE && a.bias_first)
            clear8(in, bits_of(kept));
        numbers_of(more, in);
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            x[k] = x[k] + more[k];
    }
}

/* P of a row's powers: divided by the sum, or for 16 bits multiplied by 1 / sum. P has no sign, even where it is NaN;
 * with the guard it is 0 there. */
template <class S> struct row_end {
    tk_math<S> by;
    bool is_zero;
    __device__ __forceinline__ row_end(tk_math<S> sum, bool guard) : by(sum), is_zero(guard && sum != sum) {
        if constexpr (tk_is_16_bit<S>)
            by = tk_rcp_fast(sum);
    }
    __device__ __forceinline__ eight<S> map_of(tk_math<S> x[EIGHT]) const {
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            x[k] = tk_is_16_bit<S> ? x[k] * by : x[k] / by;
        return bare8(elements_of<S>(x), is_zero);
    }
};

/* Stores a block of 8 of P. */
template <bool WHOLE, class S>
__device__ __forceinline__ void store_map(const map_args &a, const tk_drop<tk_math<S>> &drop, const row_at &at,
                                          const columns &c, eight<S> p) {
    if (!a.of.seed.pair) {
        store8<WHOLE>((S *)a.of.p + at.from, p, c, a.m.packed);
        return;
    }
    const kept_bits kept = drawn_bits(drop, (uint64_t)(a.m.before + at.from + c.at) / EIGHT);
    if (a.of.dropped)
        store8<WHOLE>((S *)a.of.dropped + at.from, dropped8(p, kept, drop), c, a.m.packed);
    if (a.of.p) {
        if (a.is_signed)
            flag8(p, kept);
        store8<WHOLE>((S *)a.of.p + at.from, p, c, a.m.packed);
    }
    if (a.of.keep)
        store8<WHOLE>(a.of.keep + at.from, bytes_of(kept), c, a.m.packed);
}

template <class S, int PACKS, int TEAM, bool WHOLE>
__global__ void __launch_bounds__((shape_of<PACKS, TEAM, WHOLE>::THREADS)) make_map(const map_args a) {
    typedef tk_math<S> T;
    typedef shape_of<PACKS, TEAM, WHOLE> shape;
    constexpr int HELD = PACKS ? PACKS : 1;
    __shared__ T parts[TEAM > TK_WARP ? TEAM / TK_WARP : 1];
    tk_drop<T> drop = {};
    if (a.of.seed.pair)
        drop = tk_drop_of<T>(a.of.ratio, a.of.seed, a.fault);
    FOR_EACH_ROWS(first, a.m.rows, shape::TEAMS) {
        const row_at at = shape::row(a.m, first, a.of.bias || a.of.mask);
        const strided_row<WHOLE, S> bias(a.of.bias, a.m.bias_at, a.m.bias_row, a.m.bias_column, at);
        const strided_row<WHOLE, uint8_t> mask(a.of.mask, a.m.mask_at, a.m.mask_row, a.m.mask_column, at);
        const int64_t packs = shape::packs(at);
        T x[HELD][EIGHT], most = (T)-INFINITY, sum = 0;
#pragma unroll
        for (int i = 0; i < PACKS; i++) /* all loads start before one result is needed */
            load_scores<WHOLE, S>(x[i], a, at, shape::block(i, at));
#pragma unroll
        for (int64_t i = 0; i < packs; i++) {
            const columns c = shape::block(i, at);
            T *held = x[PACKS ? i : 0];
            if (!PACKS)
                load_scores<WHOLE, S>(held, a, at, c);
            mask_scores(held, a, bias, mask, c);
#pragma unroll
            for (int k = 0; k < EIGHT; k++)
                most = tk_larger_of(most, held[k]);
        }
        most = tk_team_max<TEAM>(most, parts);
#pragma unroll
        for (int64_t i = 0; i < packs; i++) {
            const columns c = shape::block(i, at);
            T *held = x[PACKS ? i : 0];
            if (!PACKS) {
                load_scores<WHOLE, S>(held, a, at, c);
                mask_scores(held, a, bias, mask, c);
            }
#pragma unroll
            for (int k = 0; k < EIGHT; k++) {
                held[k] = tk_softmax_exp<S>::of(held[k] - most);
                sum += held[k];
            }
        }
        sum = tk_team_sum<TEAM>(sum, parts);
        if (!WHOLE && a.of.statistics && threadIdx.x % TEAM == 0 && first + threadIdx.x / TEAM < a.m.rows) {
            T *statistics = (T *)a.of.statistics + 2 * at.row;
            statistics[0] = most, statistics[1] = a.m.t > 0 ? sum : 0;
        }
        const row_end<S> end(sum, a.guard);
#pragma unroll
        for (int64_t i = 0; i < packs; i++) {
            const columns c = shape::block(i, at);
            T *held = x[PACKS ? i : 0];
            if (!PACKS) {
                load_scores<WHOLE, S>(held, a, at, c);
                mask_scores(held, a, bias, mask, c);
#pragma unroll
                for (int k = 0; k < EIGHT; k++)
                    held[k] = tk_softmax_exp<S>::of(held[k] - most);
            }
            if (c.to > c.from)
                store_map<WHOLE>(a, drop, at, c, end.map_of(held));
        }
    }
}

/* --- the gradient --------------------------------------------------------------------------------- */

struct grad_args {
    map_rows m;
    tk_attention_map_grad of;
    bool bias_first, is_signed;
    tk_fault_place fault;
};

/* A block of 8 of P, with flags if there is dropout, and of dd. P reaches the kept elements of dd. */
template <class S> struct grad_eight {
    eight<S> p;
    tk_math<S> dd[EIGHT];
};

template <bool WHOLE, class S>
__device__ __forceinline__ void load_grad(grad_eight<S> &x, const grad_args &a, const row_at &at, const columns &c) {
    typedef tk_math<S> T;
    eight<T> dd = {};
    x.p = {};
    load8<WHOLE>(x.p, (const S *)a.of.p + at.from, c, a.m.packed);
    if (a.of.dd)
        load8<WHOLE>(dd, (const T *)a.of.dd + at.from, c, a.m.packed);
    numbers_of(x.dd, dd);
    if (a.of.is_dropped && !a.is_signed) {
        eight<uint8_t> keep = {};
        load8<WHOLE>(keep, a.of.keep + at.from, c, a.m.packed);
        flag8(x.p, bits_of(keep));
    }
}

/* dd is dropped; its sum with P. */
template <class S>
__device__ __forceinline__ void add_dot(tk_math<S> &dot, grad_eight<S> &x, const grad_args &a,
                                        const tk_drop<tk_math<S>> &drop) {
    tk_math<S> p[EIGHT];
    numbers_of(p, bare8(x.p));
    if (a.of.is_dropped)
        drop8<S>(x.dd, bits_of(x.p), drop);
#pragma unroll
    for (int k = 0; k < EIGHT; k++)
        dot += x.dd[k] * p[k];
}

template <bool WHOLE, class S>
__device__ __forceinline__ void store_grad(const grad_eight<S> &x, const grad_args &a, const tk_drop<tk_math<S>> &drop,
                                           const strided_row<WHOLE, uint8_t> &mask, const row_at &at, const columns &c,
                                           tk_math<S> dot) {
    const eight<S> bare = bare8(x.p);
    if (a.of.dropped)
        store8<WHOLE>((S *)a.of.dropped + at.from, dropped8(bare, bits_of(x.p), drop), c, a.m.packed);
    if (!a.of.dd)
        return;
    tk_math<S> p[EIGHT];
    numbers_of(p, bare);
#pragma unroll
    for (int k = 0; k < EIGHT; k++)
        p[k] = (x.dd[k] - dot) * p[k];
    eight<S> out = elements_of<S>(p);
    if (a.of.ds && !a.bias_first)
        store8<WHOLE>((S *)a.of.ds + at.from, out, c, a.m.packed);
    if (mask.row) {
        eight<uint8_t> in = {};
        mask.load(in, c);
        clear8(out, bits_of(in));
        store8<WHOLE>((S *)a.of.reached + at.from, out, c, a.m.packed);
    }
    if (a.of.ds && a.bias_first)
        store8<WHOLE>((S *)a.of.ds + at.from, out, c, a.m.packed);
}

template <class S, int PACKS, int TEAM, bool WHOLE>
__global__ void __launch_bounds__((shape_of<PACKS, TEAM, WHOLE>::THREADS)) map_grad(const grad_args a) {
    typedef tk_math<S> T;
    typedef shape_of<PACKS, TEAM, WHOLE> shape;
    constexpr int HELD = PACKS ? PACKS : 1;
    __shared__ T parts[TEAM > TK_WARP ? TEAM / TK_WARP : 1];
    tk_drop<T> drop = {};
    if (a.of.is_dropped)
        drop = tk_drop_ratio<T>(a.of.ratio, a.fault);
    FOR_EACH_ROWS(first, a.m.rows, shape::TEAMS) {
        const row_at at = shape::row(a.m, first, a.of.mask);
        const strided_row<WHOLE, uint8_t> mask(a.of.mask, a.m.mask_at, a.m.mask_row, a.m.mask_column, at);
        const int64_t packs = shape::packs(at);
        grad_eight<S> x[HELD];
        T dot = 0;
#pragma unroll
        for (int i = 0; i < PACKS; i++)
            load_grad<WHOLE>(x[i], a, at, shape::block(i, at));
        if (a.of.dd) {
#pragma unroll
            for (int64_t i = 0; i < packs; i++) {
                if (!PACKS)
                    load_grad<WHOLE>(x[0], a, at, shape::block(i, at));
                add_dot(dot, x[PACKS ? i : 0], a, drop);
            }
            dot = tk_team_sum<TEAM>(dot, parts);
        }
#pragma unroll
        for (int64_t i = 0; i < packs; i++) {
            const columns c = shape::block(i, at);
            grad_eight<S> &held = x[PACKS ? i : 0];
            if (!PACKS) {
                load_grad<WHOLE>(held, a, at, c);
                if (a.of.dd && a.of.is_dropped)
                    drop8<S>(held.dd, bits_of(held.p), drop);
            }
            if (c.to > c.from)
                store_grad<WHOLE>(held, a, drop, mask, at, c, dot);
        }
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
                        part.first * a->s * a->t,
                        tk_divisor_of(a->s),
                        a->bias_at,
                        a->mask_at,
                        a->bias_row,
                        a->bias_column,
                        a->mask_row,
                        a->mask_column,
                        packed && part.first * a->s * a->t % EIGHT == 0,
                        part.items == 1};
    return m;
}

/* `kernel` for rows of t scores: with as many in registers as pays off. */
#define LAUNCH_SHAPE(kernel, S, PACKS, TEAM, WHOLE, q, m, ...)                                                         \
    do {                                                                                                               \
        typedef shape_of<PACKS, TEAM, WHOLE> shape_;                                                                   \
        TK_LAUNCH((kernel<S, PACKS, TEAM, WHOLE>), tk_blocks(q, (m).rows, shape_::TEAMS), shape_::THREADS, 0, q,       \
                  __VA_ARGS__);                                                                                        \
    } while (0)
#define LAUNCH_ROWS(kernel, S, WHOLE, q, m, ...)                                                                       \
    do {                                                                                                               \
        const int64_t most_ = WHOLE ? (m).t : (m).t % EIGHT ? (m).t + EIGHT - 1 : (m).t;                               \
        if (WHOLE && most_ <= 128)                                                                                     \
            LAUNCH_SHAPE(kernel, S, 1, (WHOLE ? 16 : TK_WARP), WHOLE, q, m, __VA_ARGS__);                              \
        else if (most_ <= 256)                                                                                         \
            LAUNCH_SHAPE(kernel, S, 1, TK_WARP, WHOLE, q, m, __VA_ARGS__);                                             \
        else if (most_ <= 512)                                                                                         \
            LAUNCH_SHAPE(kernel, S, 2, TK_WARP, WHOLE, q, m, __VA_ARGS__);                                             \
        else if (most_ <= 1024 && sizeof(S) < 8)                                                                       \
            LAUNCH_SHAPE(kernel, S, (sizeof(S) < 8 ? 4 : 2), TK_WARP, WHOLE, q, m, __VA_ARGS__);                       \
        else if (most_ <= 2048)                                                                                        \
            LAUNCH_SHAPE(kernel, S, 1, BLOCK_THREADS, WHOLE, q, m, __VA_ARGS__);                                       \
        else                                                                                                           \
            LAUNCH_SHAPE(kernel, S, 0, BLOCK_THREADS, WHOLE, q, m, __VA_ARGS__);                                       \
    } while (0)
#define LAUNCH(kernel, S, whole, q, m, ...)                                                                            \
    do {                                                                                                               \
        if (whole)                                                                                                     \
            LAUNCH_ROWS(kernel, S, (sizeof(S) < 8), q, m, __VA_ARGS__);                                                \
        else                                                                                                           \
            LAUNCH_ROWS(kernel, S, false, q, m, __VA_ARGS__);                                                          \
    } while (0)

/* Training does not run in doubles: one kernel for all of their rows is enough. */
template <class S> static bool is_whole(const map_rows &m, const void *bias, const void *mask) {
    return sizeof(S) < 8 && m.packed && m.t % EIGHT == 0 && is_whole(bias, m.bias_at, m.bias_row, m.bias_column) &&
           is_whole(mask, m.mask_at, m.mask_row, m.mask_column);
}

void tk_cuda_attention_map(tk_queue *q, const tk_attention *a, tk_attention_part part, const tk_attention_map *map) {
    const bool packed = tk_is_packed(map->scores, map->p, map->dropped, map->keep);
    const map_args args = {
        rows_of(a, part, packed), *map, a->fill, a->bias_first, a->guard, a->is_signed, tk_fault_of(q)};
    const bool plain = !map->statistics && !a->bias_first;
    if (args.m.rows > 0 && (a->t > 0 || map->statistics))
        TK_FLOATS(a->dtype, S,
                  LAUNCH(make_map, S, plain && is_whole<S>(args.m, map->bias, map->mask), q, args.m, args));
}

void tk_cuda_attention_map_grad(tk_queue *q, const tk_attention *a, tk_attention_part part,
                                const tk_attention_map_grad *grad) {
    const bool packed =
        tk_is_packed(grad->dd, grad->p, grad->keep, grad->ds) && tk_is_packed(grad->reached, grad->dropped);
    const grad_args args = {rows_of(a, part, packed), *grad, a->bias_first, a->is_signed, tk_fault_of(q)};
    if (args.m.rows > 0 && a->t > 0)
        TK_FLOATS(a->dtype, S, LAUNCH(map_grad, S, is_whole<S>(args.m, nullptr, grad->mask), q, args.m, args));
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
