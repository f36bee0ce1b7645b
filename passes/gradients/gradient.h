/* gradient.h: what a gradient builder sees. A builder takes one forward node and the gradients of its results, and
 * appends to the graph the nodes that compute the gradients of its operands. Errors stick: after the first one the
 * helpers go on returning values (without types), so that builders need no checks; the driver reads `status`.
 *
 * Helpers infer each node they make at once, so a result's shape can be asked for in the next line. Where a shape is
 * not known before the run they build it from Shape(x): a use of x that keeps none of its elements alive. */
#ifndef TC_GRADIENT_H
#define TC_GRADIENT_H
#include "compiler/shape/shape.h"
#include "../rules/rules.h"

/* Small constants of one backward pass, each made once. */
typedef struct tc_grad_pool {
    tc_arena *arena;
    tc_map *constants; /* text -> tc_value */
} tc_grad_pool;

typedef struct tc_grad {
    tc_ctx *ctx;
    tc_model *model;
    tc_graph *graph;
    tc_grad_pool *pool;
    const char *label;      /* new values are called <label>_grad/<Op> */
    bool forward;           /* they are no gradients: called <label>/<Op> */
    tc_node *node;          /* the forward node; NULL outside of builders */
    tc_value *const *douts; /* [node->n_outputs]; NULL: nothing flows back from this result */
    const bool *needed;     /* [node->n_inputs]: gradients that somebody wants */
    tc_value **dins;        /* [node->n_inputs]: to be filled where needed; NULL: the gradient is zero */
    bool train_padding;     /* --train-padding */
    tc_status status;
} tc_grad;

typedef void (*tc_grad_builder)(tc_grad *g);

/* Whether there is a gradient of the node's op: a rule of the set, whatever its guards say, or a row of gradients.def.
 */
bool tc_gradient_exists(const tc_rule_set *rules, const tc_node *node);
/* Whether a change of operand `index` can change a result smoothly: float, and not an operand such as Dropout's ratio,
 * to which neither a rule's results nor a row's `operands` lead. Operands of ops that we know no gradient of count:
 * there autodiff has to stop and say so. */
bool tc_gradient_flows(const tc_rule_set *rules, const tc_node *node, uint32_t index);
/* Appends the gradient of g->node: by a rule of the set where one fits, else by the builder of its row. *out_found is
 * false when there is neither. */
tc_status tc_gradient_apply(tc_pass_env *env, const tc_rule_set *rules, tc_grad *g, bool *out_found);
/* The same by the builder of its row alone. False: there is none. */
bool tc_gradient_build(tc_grad *g);

/* --- failing ---------------------------------------------------------------------------------- */
/* "no gradient for this form of the op: ..." with exit code 3. */
void tc_grad_refuse(tc_grad *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int tc_grad_rank(tc_grad *g, const tc_value *value);  /* refuses and gives 0 where the rank is not known */
int tc_grad_axis(tc_grad *g, int64_t axis, int rank); /* 0 <= result < rank; refuses what is out of range */

/* --- nodes ------------------------------------------------------------------------------------ */
tc_node *tc_grad_node(tc_grad *g, const char *domain, const char *op, size_t n_inputs, tc_value *const *inputs,
                      uint32_t n_outputs);
/* The same with only those results that are wanted[i]; the others are absent. At least one is. */
tc_node *tc_grad_node_with(tc_grad *g, const char *domain, const char *op, size_t n_inputs, tc_value *const *inputs,
                           uint32_t n_outputs, const bool *wanted);
/* Result `index` of the forward node, added where it does without it: then tc_grad_infer_forward is due, once for all.
 */
tc_value *tc_grad_result(tc_grad *g, uint32_t index, const char *suffix);
void tc_grad_infer_forward(tc_grad *g);
tc_value *tc_grad_finish(tc_grad *g, tc_node *node); /* after its attributes: infers types, returns the first result */
#define TC_VALUES(...)                                                                                                 \
    TC_COUNT(((tc_value *[]){__VA_ARGS__})), (tc_value *[]) { __VA_ARGS__ }
/* A node of ai.onnx with one result, to be finished. */
#define TC_BEGIN(g, op, ...) tc_grad_node((g), "", (op), TC_VALUES(__VA_ARGS__), 1)
/* The same without attributes, finished. */
#define TC_OP(g, op, ...) tc_grad_finish((g), TC_BEGIN((g), (op), __VA_ARGS__))

/* --- constants and shapes --------------------------------------------------------------------- */
tc_value *tc_grad_ints(tc_grad *g, const int64_t *ints, size_t count);   /* int64[count] */
tc_value *tc_grad_int(tc_grad *g, int64_t i);                            /* int64[1] */
tc_value *tc_grad_scalar(tc_grad *g, tc_dtype dtype, double number);     /* [] */
tc_value *tc_grad_like(tc_grad *g, const tc_value *like, double number); /* [] of like's element type */
tc_value *tc_grad_shape(tc_grad *g, tc_value *value);                    /* int64[rank]: a constant, or Shape(value) */
tc_value *tc_grad_dims(tc_grad *g, tc_value *value, int64_t from, int64_t to); /* the same of dims from .. to - 1 */
tc_value *tc_grad_zeros(tc_grad *g, tc_value *shape, tc_dtype dtype);          /* of that shape */
bool tc_grad_static(const tc_value *value, int axis, int64_t *out_dim);        /* the dim is a number */
/* The ints of a small constant operand. False where they are not known. */
bool tc_grad_known_ints(const tc_value *value, int64_t *out_ints, size_t max, size_t *out_count);
bool tc_grad_known_number(const tc_value *value, double *out_number); /* of a one-element constant */

/* --- what many gradients need ----------------------------------------------------------------- */
tc_value *tc_grad_reduce_like(tc_grad *g, tc_value *grad, tc_value *like); /* undoes broadcasting of `like` */
tc_value *tc_grad_reshape_like(tc_grad *g, tc_value *value, tc_value *like);
tc_value *tc_grad_reshape(tc_grad *g, tc_value *value, tc_value *shape); /* dims in full: 0 means 0 */
tc_value *tc_grad_reduce(tc_grad *g, const char *op, tc_value *value, const int64_t *axes, size_t n_axes,
                         bool keepdims);
tc_value *tc_grad_unsqueeze(tc_grad *g, tc_value *value, const int64_t *axes, size_t n_axes);
tc_value *tc_grad_transpose(tc_grad *g, tc_value *value, const int64_t *perm, int rank);
tc_value *tc_grad_swap_last(tc_grad *g, tc_value *value); /* the last two axes; matmul.c */
tc_value *tc_grad_expand_like(tc_grad *g, tc_value *value, tc_value *like);
tc_value *tc_grad_concat(tc_grad *g, size_t count, tc_value *const *values, int64_t axis);
tc_value *tc_grad_cast(tc_grad *g, tc_value *value, tc_dtype dtype);
tc_value *tc_grad_wide(tc_grad *g,
                       tc_value *value); /* in float, if it is of 16 bits: they count no further than 65504 */
tc_value *tc_grad_sum(tc_grad *g, size_t count, tc_value *const *values); /* of values of one shape; count >= 1 */
/* The gradient of an embedding's rows, zero for those of its padding row (padding_idx), which PyTorch leaves alone.
 * padding.c */
tc_value *tc_grad_without_padding(tc_grad *g, tc_value *indices, tc_value *dy);
#endif
