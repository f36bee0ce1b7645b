/* batch.h: the parts of the pass `batch`: a graph whose inputs begin with one fixed number becomes one with a
 * variable batch. During the pass that number is a symbol: sizes that follow the inputs depend on it, all others are
 * still numbers. */
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
    tc_map *inner;      /* value's name -> int64_t, if the batch is part of an axis: the elements inside it, if not 1 */
    bool sources;       /* nodes that make the batch without reading an input follow the inputs, too */
    tc_value *size;     /* int64[1], the batch at run time; NULL: no node needed it yet */
    uint32_t n_changed; /* nodes that held the number */
    uint32_t n_ambiguous; /* how many of these Reshapes were read so that the first 1 is the batch */
} tc_batch;

/* The first dimension that all inputs have in common, if it is a number. Inputs are graph inputs without default
 * that are tensors of rank 1 and more, except tempo.seed. *out_first and *out_other name two that differ, or are
 * NULL. False: there is none. batch.c */
bool tc_batch_fixed(const tc_graph *graph, int64_t *out_batch, const tc_value **out_first, const tc_value **out_other);

/* The dim of `times` the batch. */
tc_dim tc_batch_at(const tc_batch *b, tc_dim dim, int64_t batch);
bool tc_batch_in(const tc_batch *b, tc_dim dim);
/* The first axis that depends on the batch; -1: none. */
int tc_batch_axis(const tc_batch *b, const tc_value *value);
/* Adds the error that names the node, and returns TC_UNSUPPORTED. */
tc_status tc_batch_refuse(tc_batch *b, const tc_node *node, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Infers types of the node's results with the symbol; TC_UNSUPPORTED if the file's number contradicts them. */
tc_status tc_batch_infer(tc_batch *b, tc_node *node);

/* Makes a Reshape follow its operand: the size that holds the batch becomes -1, the others become numbers.
 * batch_reshape.c */
tc_status tc_batch_reshape(tc_batch *b, tc_node *node);
/* An Expand to the number, if its operand has the batch already. batch_sources.c */
tc_status tc_batch_expand(tc_batch *b, tc_node *node);
/* Makes nodes that create the batch without an input follow the inputs: Expand, ConstantOfShape, constants whose
 * rows are equal, GatherND by constants that count the rows. batch_sources.c */
tc_status tc_batch_sources(tc_batch *b, tc_node *node);
#endif
