/* update_options.h: an optimizer's update of the weights at the end of a step, as nodes of the graph: the options of
 * the pass `update`, and its result. */
#ifndef TC_UPDATE_H
#define TC_UPDATE_H
#include "compiler/ir/ir.h"

struct tc_options;
struct tc_pass_env;

typedef struct tc_update_options {
    const char *optimizer; /* adamw, adam, lamb, sgd; NULL: the graph's outputs are gradients, and no weight changes */
    const char *option;    /* the name of the option in messages; NULL: update */
    double beta1, beta2;   /* for adamw, adam and lamb: the decay of the averages of g and of g^2 */
    double epsilon;        /* for adamw, adam and lamb, added to the corrected root */
    double momentum;       /* for sgd; 0: it keeps no state */
    bool nesterov;         /* for sgd with momentum */
    double weight_decay;   /* adamw, lamb: decoupled decay of the weight; adam, sgd: added to the gradient */
    bool decay_all;        /* biases and norms decay, too */
    double clip_norm;      /* all gradients are scaled down to this joint norm; 0: no clipping */
    bool clip_last;        /* by the norm of the previous update: gradients need not wait for each other */
    bool accumulate;       /* gradients of several runs add up to one update */
} tc_update_options;
/* "update", or another name of the option. */
const char *tc_update_option(const tc_update_options *options);

/* The result of the pass, for the report. In the context's arena. */
typedef struct tc_update_summary {
    const char *optimizer;
    double weight_decay;
    const char **updated, **spared; /* the weights, and how many of them do not decay */
    size_t n_updated, n_spared;
} tc_update_summary;

/* Moves each of the nodes, given in a valid order, to the earliest position after its operands. A node that makes
 * the next value of a graph input (tempo.keep) also comes after all other readers of that input's elements, so that
 * its result can overwrite the input. Nodes after them in the graph do not read their results, or are among them.
 * update_place.c */
void tc_place_updates(tc_graph *graph, tc_node *const *nodes, size_t n);
/* The same for all updates of a graph that has some: later passes may have put readers of weights after them.
 * Scratch memory is in `arena`. update.c */
void tc_place_updates_again(tc_arena *arena, tc_graph *graph);
#endif
