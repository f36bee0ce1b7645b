/* row.cuh: rows of n elements in the registers of a team of threads, a warp or a block of TK_ROW_THREADS: each row is
 * read only once. Thread t of TEAM has the packs p TEAM + t, 0 <= p < PER, of 16 bytes each. Which thread has which
 * elements, and so the order of every sum, depends on n and the type only: unaligned rows are read an element at a time
 * to the same places. */
#ifndef TK_ROW_CUH
#define TK_ROW_CUH
#include "device.cuh"

#define TK_ROW_THREADS 256 /* of a block: one team of that many, or eight teams of a warp */

/* Packs of a thread, in four steps up to 32 elements; of doubles 16 at once, since their speed does not matter. */
template <class S> constexpr int tk_row_packs(int step) {
    return sizeof(S) == 8 ? 8 : sizeof(S) == 4 ? 2 * step : step;
}
/* Longer rows are no team's: their kernels read them again from memory. */
template <class S> constexpr int64_t tk_row_most = (int64_t)TK_ROW_THREADS *tk_row_packs<S>(4) * tk_pack_size<S>;
template <class S> constexpr int tk_row_team(int64_t n) {
    return n <= (int64_t)TK_WARP * tk_row_packs<S>(4) * tk_pack_size<S> ? TK_WARP : TK_ROW_THREADS;
}

/* The first packs of each thread, which every row of a step fills, since it is longer than those of the step before. */
template <class S, int TEAM, int PER>
constexpr int tk_row_filled = TEAM == TK_WARP            ? PER - tk_row_packs<S>(1)
                              : PER > tk_row_packs<S>(1) ? PER / 2
                                                         : tk_row_packs<S>(4) * TK_WARP / TK_ROW_THREADS;

/* A statement with TEAM and PER for rows of n elements, n <= tk_row_most<S>. */
#define TK_ROW_CASE(S, n, threads, step, TEAM, PER, ...)                                                               \
    if ((n) <= (int64_t)(threads)*tk_row_packs<S>(step) * tk_pack_size<S>) {                                           \
        constexpr int TEAM = (threads), PER = tk_row_packs<S>(step);                                                   \
        __VA_ARGS__;                                                                                                   \
        break;                                                                                                         \
    }
#define TK_ROW_TEAMS(S, n, TEAM, PER, ...)                                                                             \
    do {                                                                                                               \
        TK_ROW_CASE(S, n, TK_WARP, 1, TEAM, PER, __VA_ARGS__)                                                          \
        TK_ROW_CASE(S, n, TK_WARP, 2, TEAM, PER, __VA_ARGS__)                                                          \
        TK_ROW_CASE(S, n, TK_WARP, 3, TEAM, PER, __VA_ARGS__)                                                          \
        TK_ROW_CASE(S, n, TK_WARP, 4, TEAM, PER, __VA_ARGS__)                                                          \
        TK_ROW_CASE(S, n, TK_ROW_THREADS, 1, TEAM, PER, __VA_ARGS__)                                                   \
        TK_ROW_CASE(S, n, TK_ROW_THREADS, 2, TEAM, PER, __VA_ARGS__)                                                   \
        TK_ROW_CASE(S, n, TK_ROW_THREADS, 4, TEAM, PER, __VA_ARGS__)                                                   \
    } while (0)

/* Blocks for so many rows, where nothing is summed over rows. */
static inline unsigned tk_row_blocks(int64_t rows, int team) {
    const int64_t teams = TK_ROW_THREADS / team, blocks = (rows + teams - 1) / teams;
    return (unsigned)(blocks < ((int64_t)1 << 30) ? blocks : (int64_t)1 << 30);
}
/* for (row of this thread's team; row < rows) */
#define TK_FOR_EACH_ROW(row, rows, TEAM)                                                                               \
    for (int64_t row = (int64_t)blockIdx.x * (TK_ROW_THREADS / (TEAM)) + threadIdx.x / (TEAM); row < (rows);           \
         row += (int64_t)gridDim.x * (TK_ROW_THREADS / (TEAM)))

/* The first element of this thread's pack p. */
template <class S, int TEAM> __device__ __forceinline__ int64_t tk_row_at(int64_t p) {
    return (p * TEAM + (int)threadIdx.x % TEAM) * tk_pack_size<S>;
}

/* Elements of the row from there on: no more than a pack has, and none beyond the end. */
template <class S, int TEAM> __device__ __forceinline__ int tk_row_left(int64_t p, int64_t n) {
    const int left = (int)n - (int)tk_row_at<S, TEAM>(p);
    return left < 0 ? 0 : left < tk_pack_size<S> ? left : tk_pack_size<S>;
}

/* A pack as four registers. Where control meets again, and loops begin again, packs are kept so: as elements they would
 * be taken apart and put together there. */
typedef tk_pack<uint32_t, 4> tk_row_words;
template <class S> __device__ __forceinline__ tk_row_words tk_row_words_of(const tk_pack<S, tk_pack_size<S>> &pack) {
    tk_row_words words;
    memcpy(&words, &pack, sizeof words);
    return words;
}
template <class S> __device__ __forceinline__ tk_pack<S, tk_pack_size<S>> tk_row_pack_of(const tk_row_words &words) {
    tk_pack<S, tk_pack_size<S>> pack;
    memcpy(&pack, &words, sizeof pack);
    return pack;
}

/* From here on the pack takes four registers, not one for each element. Values computed from it before get no registers
 * either: they are recomputed. */
__device__ __forceinline__ void tk_row_hold(tk_row_words &words) {
#ifdef __CUDACC__
    asm volatile("" : "+r"(words.at[0]), "+r"(words.at[1]), "+r"(words.at[2]), "+r"(words.at[3]));
#else
    (void)words;
#endif
}
template <class S, int N> __device__ __forceinline__ void tk_row_hold(tk_pack<S, N> &pack) {
    tk_row_words words = tk_row_words_of(pack);
    tk_row_hold(words);
    pack = tk_row_pack_of<S>(words);
}

/* The pack at element `at` of a row; elements beyond the row's end are 0. packed: rows begin at 16 bytes, and have
 * whole packs. */
template <class S>
__device__ __forceinline__ tk_row_words tk_row_load_words(const S *row, int64_t at, int64_t n, bool packed) {
    constexpr int N = tk_pack_size<S>;
    tk_row_words words = {};
    if (packed) {
        if (at < n)
            words = tk_load_pack<4>(reinterpret_cast<const uint32_t *>(row + at));
    } else {
        tk_pack<S, N> x = {};
#pragma unroll
        for (int k = 0; k < N; k++)
            if (at + k < n)
                x.at[k] = row[at + k];
        words = tk_row_words_of(x);
    }
    tk_row_hold(words);
    return words;
}
template <class S>
__device__ __forceinline__ tk_pack<S, tk_pack_size<S>> tk_row_load(const S *row, int64_t at, int64_t n, bool packed) {
    return tk_row_pack_of<S>(tk_row_load_words(row, at, n, packed));
}
template <class S>
__device__ __forceinline__ void tk_row_store(S *row, int64_t at, int64_t n, bool packed,
                                             const tk_pack<S, tk_pack_size<S>> &x) {
    constexpr int N = tk_pack_size<S>;
    if (at >= n)
        return;
    if (packed) {
        tk_store_pack(reinterpret_cast<uint32_t *>(row + at), tk_row_words_of(x));
        return;
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        if (at + k < n)
            row[at + k] = x.at[k];
}

/* Sums over a team, for each of its threads. A team may also be a part of a warp; then all lanes of the warp call.
 * parts: of shared memory, [COUNT * TEAM / 32]; a barrier stands before they are written, since the last sums may still
 * be read. */
template <int TEAM> constexpr int tk_team_lanes = TEAM < TK_WARP ? TEAM : TK_WARP;
template <int TEAM, int COUNT, class T> __device__ __forceinline__ void tk_team_sums(T (&v)[COUNT], T *parts) {
#pragma unroll
    for (int c = 0; c < COUNT; c++)
        v[c] = tk_warp_sum<tk_team_lanes<TEAM>>(v[c]);
    if (TEAM <= TK_WARP)
        return;
    __syncthreads();
    if (threadIdx.x % TK_WARP == 0)
#pragma unroll
        for (int c = 0; c < COUNT; c++)
            parts[threadIdx.x / TK_WARP * COUNT + c] = v[c];
    __syncthreads();
#pragma unroll
    for (int c = 0; c < COUNT; c++) {
        v[c] = parts[c];
#pragma unroll
        for (int w = 1; w < TEAM / TK_WARP; w++)
            v[c] += parts[w * COUNT + c];
    }
}
template <int TEAM, class T> __device__ __forceinline__ T tk_team_sum(T v, T *parts) {
    T one[1] = {v};
    tk_team_sums<TEAM>(one, parts);
    return one[0];
}
template <int TEAM, class T> __device__ __forceinline__ T tk_team_max(T v, T *parts) {
    v = tk_warp_max<tk_team_lanes<TEAM>>(v);
    if (TEAM <= TK_WARP)
        return v;
    __syncthreads();
    if (threadIdx.x % TK_WARP == 0)
        parts[threadIdx.x / TK_WARP] = v;
    __syncthreads();
    T most = parts[0];
#pragma unroll
    for (int w = 1; w < TEAM / TK_WARP; w++)
        most = tk_larger_of(most, parts[w]);
    return most;
}
#endif
