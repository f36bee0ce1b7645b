/* attention_map.h: rows of attention's map on a CUDA device, between the products: scores to P, and the gradient of P
 * to that of the scores. attention_cuda.c calls these functions of attention_map_cuda.cu and attention_cap_cuda.cu.
 * Items [first, first + items) of an attention at a time; all maps are dense [items, s, t] and begin at item `first`,
 * operands with places at item 0. */
#ifndef TK_ATTENTION_MAP_H
#define TK_ATTENTION_MAP_H
#include "attention.h"

/* Bytes of the maps of a part, unless one item has more; tests set fewer. */
extern int64_t tk_cuda_attention_bytes;

/* Some items of an attention. */
typedef struct tk_attention_part {
    int64_t first, items;
} tk_attention_part;

/* Replaces scores, of tk_wide of the elements' type, by a->softcap tanh(score / a->softcap); slopes, of the same type
 * or NULL, get the derivative of that by the score. */
void tk_cuda_attention_cap(tk_queue *q, void *scores, void *slopes, const tk_attention *a, tk_attention_part part);
/* The gradient of scores, from that of capped scores; out may be ds. */
void tk_cuda_attention_slopes(tk_queue *q, void *out, const void *ds, const void *slopes, const tk_attention *a,
                              tk_attention_part part);

/* Capped scores, of tk_wide of the elements' type, to P. */
typedef struct tk_attention_map {
    const void *scores, *bias;
    const uint8_t *mask;
    void *p, *dropped; /* each may be NULL; one of them may lie over scores of its type */
    uint8_t *keep;     /* or NULL */
    void *statistics;  /* or NULL: of the part's rows */
    tk_number ratio;
    tk_seed seed; /* without a pair there is no dropout, and only p is wanted */
} tk_attention_map;
void tk_cuda_attention_map(tk_queue *q, const tk_attention *a, tk_attention_part part, const tk_attention_map *map);

/* dd = dout v^T, of tk_wide of the elements' type, to ds. */
typedef struct tk_attention_map_grad {
    const void *dd; /* NULL: ds and reached are not wanted */
    const void *p;
    const uint8_t *keep; /* where P has no flags */
    bool is_dropped;
    tk_number ratio;
    const uint8_t *mask; /* NULL: reached is not wanted, and ds is as it is with a->bias_first, too */
    void *ds;            /* or NULL; it may lie over dd of its type */
    void *reached;       /* or NULL: ds, and 0 where the mask is 0; it may lie over p, or over dd of its type */
    void *dropped;       /* or NULL: the map that was multiplied by V, recomputed; not over p */
} tk_attention_map_grad;
void tk_cuda_attention_map_grad(tk_queue *q, const tk_attention *a, tk_attention_part part,
                                const tk_attention_map_grad *grad);

/* Adds ds of a part's items to the sums of their groups, of tk_wide of the elements' type, [groups, s, t], which begin
 * at 0 with item 0; out, of the elements' type, is written with the last item, and may be the sums. */
void tk_cuda_attention_sum(tk_queue *q, void *out, void *sums, const void *ds, const tk_attention *a,
                           tk_attention_part part, const tk_attention_groups *groups);
#endif
