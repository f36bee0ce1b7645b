/* unfold.h: shared parts of the pass unfold. */
#ifndef TC_UNFOLD_H
#define TC_UNFOLD_H
#include "passes/weights/weights.h"
#include "passes/torch/metadata/metadata.h"

/* An initializer that was computed from parameters, and that the loss depends on. */
typedef struct tc_standin {
    tc_value *value;
    tc_torch_fold fold;
    const char *target;                    /* its only parameter; NULL: there are several */
    const void *data;                      /* NULL: the weights are missing */
    int axis;                              /* the axis of its rows, if it holds rows of a table */
    const void *rows;                      /* the elements with that axis last */
    const struct tc_standin *first, *next; /* its number among those with this target, in file order */
} tc_standin;

/* Findings for one message: the first few, and their number. */
typedef struct tc_findings {
    const char *text;
    size_t n;
} tc_findings;

typedef struct tc_unfold {
    tc_pass_env *env;
    tc_graph *graph;
    tc_arena *scratch;
    tc_standin *standins;
    size_t n;
    tc_findings undone, parts, shifted, biases, lost;
    const char *first_lost;
    const tc_node *projected; /* an LSTM whose projections (proj_size) the exporter omitted; or NULL */
} tc_unfold;

/* Adds one finding; and the text of all findings, "A, B, C and 4 more". */
void tc_unfold_tell(const tc_unfold *u, tc_findings *to, const char *text);
const char *tc_unfold_list(const tc_unfold *u, const tc_findings *from);
/* Ends the compilation: the text says why the initializer of that name cannot be trained. */
void tc_unfold_tell_lost(tc_unfold *u, const char *name, const char *text);
/* The parameter's gradient would be lost, or differ from PyTorch's. */
void tc_unfold_refuse(tc_unfold *u, const tc_standin *s, const char *why);

static inline size_t tc_unfold_element_bytes(const tc_standin *s) { return tc_dtype_bits(s->value->init->dtype) / 8; }

/* The parameter, if it is an initializer: from the file, or made by an earlier call. */
tc_value *tc_unfold_parameter_of(const tc_unfold *u, const char *target);
/* Makes an initializer of it, under its name in PyTorch unless that is taken; it is trained. */
tc_value *tc_unfold_make_parameter(const tc_unfold *u, const char *target, tc_tensor *tensor);
/* The result of a new node of one or two operands (y may be NULL), in no graph yet. */
tc_value *tc_unfold_add_node(const tc_unfold *u, const char *op, tc_value *x, tc_value *y, const tc_type *type);
/* Puts the new nodes before all others (the last one computes `now`); returns the first of them. */
tc_node *tc_unfold_insert_first(const tc_unfold *u, const tc_value *now);
/* `now` has the initializer's elements: it is the result of new nodes, which takes its name, or the parameter. */
void tc_unfold_put_in_place(tc_unfold *u, const tc_standin *s, tc_value *now);

/* Adds the biases that the exporter dropped to nodes. unfold_bias.c */
void tc_unfold_biases(tc_unfold *u, const tc_torch_signature *signature);
/* Refuses learned initializers that stand for other results, too, and warns of parameters that the file lacks and
 * that a dropped operation read, perhaps the loss itself. unfold_lost.c */
void tc_unfold_find_lost(tc_unfold *u, const tc_torch_signature *signature, const tc_flow *flow, const tc_value *loss);
/* Undoes repeated elements and functions. unfold_repeated.c */
void tc_unfold_repeated(tc_unfold *u, const tc_standin *s);
/* Undoes the operands of recurrent layers, which combine several parameters with their gates in another order.
 * unfold_recurrent.c */
void tc_unfold_recurrent(tc_unfold *u, const tc_torch_signature *signature);
/* A linear layer over zeros: its bias, for each row. False: it is another computation. unfold_recurrent.c */
bool tc_unfold_bias_alone(tc_unfold *u, const tc_standin *s);
/* Undoes the rows of one table for all initializers that hold some, at the first of them. unfold_rows.c */
void tc_unfold_rows(tc_unfold *u, const tc_standin *s);
/* Finds the axis of the rows of a table; s->fold.known is false if there is none. */
void tc_unfold_find_axis(const tc_unfold *u, tc_standin *s);
#endif
