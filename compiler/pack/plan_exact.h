/* plan_exact.h: whether buffers fit into so many bytes, by a search that misses no packing. It ends with places, with
 * the proof that there are none, or when the allowed work is used up. The idea to search only packings in which
 * everything has sunk as deep as possible is that of MiniMalloc (Moffitt, ASPLOS 2024). plan_exact.c */
#ifndef TC_PLAN_EXACT_H
#define TC_PLAN_EXACT_H
#include <stddef.h>
#include <stdint.h>

/* One buffer. Sections are the steps at which something begins. */
typedef struct tc_exact_item {
    uint32_t index, first, last; /* of the buffer; sections, both inclusive */
    uint32_t align;              /* a power of two; `bytes` are a multiple of it */
    uint64_t bytes, low;         /* its place is `low` or above */
} tc_exact_item;

typedef enum tc_exact_order { TC_EXACT_WIDE, TC_EXACT_TALL, TC_EXACT_AREA, TC_EXACT_ORDERS } tc_exact_order;
typedef enum tc_exact_where { TC_EXACT_TIGHT, TC_EXACT_FEW, TC_EXACT_DEEP, TC_EXACT_WHERES } tc_exact_where;

typedef struct tc_exact_how {
    tc_exact_order
        order; /* which buffer comes first: that of the longest life, of most bytes, of the largest product */
    tc_exact_where
        where;       /* which section: with the fewest bytes to lose, the fewest buffers to choose from, the lowest */
    uint32_t noise;  /* how strongly chance affects the order; 0: not at all */
    uint64_t random; /* the seed of it, not 0 */
    uint64_t limit;  /* of the work, of this call alone */
} tc_exact_how;

typedef enum tc_exact_status { TC_EXACT_FOUND, TC_EXACT_NONE, TC_EXACT_LIMIT } tc_exact_status;

typedef struct tc_exact tc_exact;

/* `items` are borrowed, all with low 0, and no more than 2^20 sections. NULL: out of memory. */
tc_exact *tc_exact_make(const tc_exact_item *items, uint32_t n, uint32_t n_sections);
void tc_exact_free(tc_exact *exact);
/* Places all below `capacity`, which is below 2^62: sets out_offsets[index] when places are found. Facts that a call
 * learns about parts that do not fit help the next. *work grows by the work done. */
tc_exact_status tc_exact_search(tc_exact *exact, uint64_t capacity, const tc_exact_how *how, uint64_t *out_offsets,
                                uint64_t *work);
#endif
