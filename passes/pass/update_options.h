/* update_options.h: what an optimizer does to the weights at the end of a step, as nodes of the graph: the options of
 * the pass `update`, and what its files share. */
#ifndef TC_UPDATE_H
#define TC_UPDATE_H
#include "compiler/ir/ir.h"

struct tc_options;
struct tc_pass_env;

typedef struct tc_update_options {
    const char *optimizer; /* adamw, adam, lamb, sgd; NULL: the graph gives gradients, and no weight changes */
    const char *option;    /* by which the program is told of it, in messages; NULL: update */
    double beta1, beta2;   /* of adamw, adam and lamb: the decay of the averages of g and of g^2 */
    double epsilon;        /* of adamw, adam and lamb, added to the corrected root */
    double momentum;       /* of sgd; 0: it keeps no state */
    bool nesterov;         /* of sgd with momentum */
    double
        weight_decay; /* adamw, lamb: of the weight, apart from the gradient; adam, sgd: it is a part of the gradient */
    bool decay_all;   /* biases and norms decay, too */
    double clip_norm; /* all gradients are scaled down to this norm of theirs; 0: they are not */
    bool clip_last;   /* by the norm of the update before: gradients need not wait for each other */
    bool accumulate;  /* gradients of several runs add up to one update */
} tc_update_options;
/* "update", or what else the option is called. */
const char *tc_update_option(const tc_update_options *options);

/* What the pass did, for the report. In the context's arena. */
typedef struct tc_update_summary {
    const char *optimizer;
    double weight_decay;
    const char **updated, **spared; /* weights, those without decay among them again */
    size_t n_updated, n_spared;
} tc_update_summary;

/* Moves each of the nodes, given in an order in which they may run, to the earliest place behind its operands and, for
 * a node that makes the next value of a graph input (tempo.keep), behind all others that read the elements of that
 * input: what it makes may lie in the input's place then. Nodes behind them in the graph do not read their results, or
 * are among them. update_place.c */
void tc_place_updates(tc_graph *graph, tc_node *const *nodes, size_t n);
/* The same of all updates of a graph that has some: others may have put readers of weights behind them. What it needs
 * is in `arena`. update.c */
void tc_place_updates_again(tc_arena *arena, tc_graph *graph);
#endif
