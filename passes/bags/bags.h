/* bags.h: sums, means and maxima of consecutive rows, as exporters write torch.nn.EmbeddingBag: a Loop that cuts a
 * bag's rows out in each iteration. bags.c finds such loops, bags_build.c builds the replacement. */
#ifndef TC_BAGS_H
#define TC_BAGS_H
#include "compiler/build/build.h"
#include "passes/pass/pass.h"

typedef enum tc_bag_kind { TC_BAG_SUM, TC_BAG_MEAN, TC_BAG_MAX } tc_bag_kind;

/* Bag k holds rows table[k] .. table[k + 1] - 1; the result of an empty one is 0. */
typedef struct tc_bags {
    tc_bag_kind kind;
    tc_value *rows;  /* of all bags, float[rows, ...] */
    tc_value *table; /* int64[bags + 1 or more], in order */
    tc_value *count; /* int64, one element: the number of bags */
} tc_bags;

/* The results of all bags, [bags, ...], built by nodes of `insert`. */
tc_value *tc_build_bags(tc_insert *insert, const tc_bags *bags);

/* Loops that reduce rows bag by bag become reductions of all bags; types must be inferred, and are afterwards. */
tc_status tc_lower_bags(tc_pass_env *env, tc_graph *graph, uint32_t *out_changes);
#endif
