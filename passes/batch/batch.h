/* batch.h: the parts of the pass `batch`: a graph whose inputs begin with one fixed number becomes one that follows
 * them. While it is worked on, that number is a symbol: what follows the inputs depends on it, and what does not is a
 * number still. */
#ifndef TC_BATCH_H
#define TC_BATCH_H
#include "passes/pass/pass.h"

typedef struct tc_batch {
    tc_pass_env *env;
    tc_model *model;
    int64_t was;        /* the number in the file */
    tc_dim symbol;      /* stands for any number */
    const char *name;   /* the symbol's */
    tc_map *types;      /* value's name -> its type in the file */
    tc_map *inner;      /* value's name -> int64_t, where the batch is part of an axis: elements inside it, if not 1 */
    bool sources;       /* what makes the number of nothing follows the inputs, too */
    tc_value *size;     /* int64[1], the batch at run time; NULL: not asked for yet */
    uint32_t n_changed; /* nodes that held the number */
    uint32_t n_ambiguous; /* of these: read so that the first 1 is the batch */
} tc_batch;

/* The first dimension that all inputs have in common, where it is a number: graph inputs without default that are
 * tensors of rank 1 and more, but for tempo.seed. *out_first and *out_other name two that differ, or are NULL. False:
 * there is none. batch.c */
bool tc_batch_fixed(const tc_graph *graph, int64_t *out_batch, const tc_value **out_first, const tc_value **out_other);

/* The dim where the batch is so many. */
tc_dim tc_batch_at(const tc_batch *b, tc_dim dim, int64_t batch);
bool tc_batch_in(const tc_batch *b, tc_dim dim);
/* The first axis that depends on the batch; -1: none. */
int tc_batch_axis(const tc_batch *b, const tc_value *value);
/* Adds the error that names the node, and returns TC_UNSUPPORTED. */
tc_status tc_batch_refuse(tc_batch *b, const tc_node *node, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Types of the node's results under the symbol; TC_UNSUPPORTED where the number in the file stands in the way. */
tc_status tc_batch_infer(tc_batch *b, tc_node *node);

/* Lets a Reshape follow its operand: the size that holds the batch becomes -1, the others numbers. batch_reshape.c */
tc_status tc_batch_reshape(tc_batch *b, tc_node *node);
/* An Expand to the number, where its operand has the batch already. batch_sources.c */
tc_status tc_batch_expand(tc_batch *b, tc_node *node);
/* Lets what makes the number of nothing follow the inputs: Expand, ConstantOfShape, constants whose rows are equal,
 * GatherND by constants that count the rows. batch_sources.c */
tc_status tc_batch_sources(tc_batch *b, tc_node *node);
#endif
