/* row_links.cuh: links of a chain on rows in the registers of a team (row.cuh): sums and dropouts alone, for an
 * interpreter with more would cost every row. The packs of a thread go through a link together, so that a link is
 * decoded once a row. */
#ifndef TK_ROW_LINKS_CUH
#define TK_ROW_LINKS_CUH
#include "../cuda/row.cuh"
#include "../elementwise/chain_device.cuh"
extern "C" {
#include "norm_chain.h"
}

/* No links, and rows that may lie anywhere. */
struct tk_no_links {
    static constexpr bool packed = false;
    template <class S, int TEAM, int PER>
    __device__ __forceinline__ void run(tk_pack<S, tk_pack_size<S>> (&)[PER], int64_t, int64_t) const {}
};

/* Links of rows of whole packs. Periods of their operands are counted in rows. */
template <bool DROPS> struct tk_row_links {
    static constexpr bool packed = true;
    tk_chain chain;
    tk_fault_place fault;

    template <class S, int TEAM, int PER>
    __device__ __forceinline__ void add(tk_row_words (&x)[PER], const tk_link &link, int64_t row, int64_t n) const {
        const S *operand = (const S *)link.operand + (uint32_t)row % (uint32_t)link.period * n;
#pragma unroll
        for (int p = 0; p < PER; p++)
            x[p] = tk_row_words_of(
                tk_sum_of(tk_row_pack_of<S>(x[p]), tk_row_load(operand, tk_row_at<S, TEAM>(p), n, true)));
    }
    template <class S, int TEAM, int PER>
    __device__ __forceinline__ void drop(tk_row_words (&x)[PER], const tk_link &link, int64_t row, int64_t n) const {
        const tk_dropping<S> dropping = tk_dropping_of<S>(link, fault);
        if (!dropping.good)
            return;
#pragma unroll
        for (int p = 0; p < PER; p++) {
            const int64_t at = tk_row_at<S, TEAM>(p);
            tk_pack<S, tk_pack_size<S>> pack = tk_row_pack_of<S>(x[p]);
            if (at >= n)
                continue;
            tk_link_drop(pack, link, dropping, row * n + at, tk_pack_size<S>, true);
            x[p] = tk_row_words_of(pack);
        }
    }
    /* Of a row's elements; elements beyond its end are 0, and stay so. */
    template <class S, int TEAM, int PER>
    __device__ __forceinline__ void run(tk_pack<S, tk_pack_size<S>> (&packs)[PER], int64_t row, int64_t n) const {
        tk_row_words x[PER];
#pragma unroll
        for (int p = 0; p < PER; p++)
            x[p] = tk_row_words_of(packs[p]);
#pragma unroll 1
        for (int j = 0; j < chain.n_links; j++) {
            const tk_link &link = chain.links[j];
            if (!DROPS || link.op == TK_LINK_ADD)
                add<S, TEAM>(x, link, row, n);
            else
                drop<S, TEAM>(x, link, row, n);
#pragma unroll
            for (int p = 0; p < PER; p++) {
                tk_row_hold(x[p]);
                if (link.store)
                    tk_row_store((S *)link.store + row * n, tk_row_at<S, TEAM>(p), n, true, tk_row_pack_of<S>(x[p]));
            }
        }
#pragma unroll
        for (int p = 0; p < PER; p++)
            packs[p] = tk_row_pack_of<S>(x[p]);
    }
};

/* Whether rows of whole packs can go through the chain so: they are in registers, operands are rows, or repeated rows.
 */
template <class S, bool DROPS> static inline bool tk_takes_links(const tk_chain *chain, const tk_norm_rows *s) {
    constexpr int N = tk_pack_size<S>;
    if (s->n == 0 || s->n > tk_row_most<S> || s->rows > INT32_MAX)
        return false;
    for (int j = 0; j < chain->n_links; j++) {
        const tk_link *link = &chain->links[j];
        if (!tk_norm_takes_link(link, !DROPS) || (link->op == TK_LINK_ADD && link->period % s->n != 0) ||
            !tk_is_packed(link->store) || !tk_is_packed_link(link, chain->n, N))
            return false;
    }
    return true;
}
template <bool DROPS>
static inline tk_row_links<DROPS> tk_row_links_of(tk_queue *q, const tk_chain *chain, const tk_norm_rows *s) {
    tk_row_links<DROPS> links = {*chain, tk_fault_of(q)};
    for (int j = 0; j < chain->n_links; j++)
        links.chain.links[j].period /= s->n;
    return links;
}
#endif
